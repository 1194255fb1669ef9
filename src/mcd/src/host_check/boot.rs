//! The booted deployment, its boot loader, room for another deployment, and SELinux.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use host::boot_loader::BootCounting;
use host::files::{Found, Root};
use host::room::{self, ENTRIES_BYTES};
use host::selinux::{self, Enforcement};

use super::Judged;

/// There on a host that was booted from ostree.
///
/// Source: ostree-prepare-root(1).
const BOOTED: &str = "/run/ostree-booted";
const REPOSITORY: &str = "/ostree/repo/config";
const COMMAND_LINE: &str = "/proc/cmdline";

/// The kernel argument that names the booted deployment.
const ARGUMENT: &str = "ostree=";

/// Boot entries, by which libostree switches deployments.
const ENTRIES: &str = "/boot/loader/entries";
const ENTRY: &str = ".conf";

/// Least free bytes for programs, plans and what an undo needs: the programs take some 60 MiB, and
/// the rest is for files of a configuration, old and new.
const STATE_BYTES: u64 = 512 << 20;

/// Free bytes that an OS image of 1 GiB takes in the older form: its archive, and three times as
/// much in the repository.
const IMAGE_BYTES: u64 = 4 << 30;

/// What a host without a count of boots lacks.
const UNCOUNTED: &str = "a target that fails before slipway-guard.service runs stays booted until an \
                         administrator boots another entry";

pub(super) fn ostree(root: &Root) -> anyhow::Result<Judged> {
    if root.inspect(BOOTED)? == Found::Nothing {
        return Ok(Judged::missing(format!(
            "{BOOTED} is not there: the host was not booted from ostree"
        )));
    }
    if root.read(REPOSITORY)?.is_none() {
        return Ok(Judged::missing(format!("{REPOSITORY} is not there")));
    }
    let line = root.read(COMMAND_LINE)?;
    let line = line.with_context(|| format!("{COMMAND_LINE} is not there"))?;
    let line = String::from_utf8_lossy(&line);
    let booted = line
        .split_whitespace()
        .find_map(|it| it.strip_prefix(ARGUMENT));
    Ok(booted.map_or_else(
        || Judged::missing(format!("the kernel was booted without {ARGUMENT}")),
        |booted| Judged::ok(format!("the host is booted from {booted}")),
    ))
}

/// Whether there is a boot entry.
pub(super) fn has_entries(root: &Root) -> anyhow::Result<bool> {
    // A link to one of two directories.
    let entries = root.list(&root.follow(ENTRIES)?)?;
    Ok(entries.iter().any(|name| name.ends_with(ENTRY)))
}

/// Judges by what the boot loader does of its own accord; a rollback by the guard needs none of it.
pub(super) fn loader(counting: BootCounting, has_entries: bool) -> Judged {
    if !has_entries {
        return Judged::missing(format!(
            "there is no entry in {ENTRIES}: libostree leads a host by them"
        ));
    }
    match counting {
        BootCounting::Counts => {
            Judged::ok("GRUB counts boots: a target that fails before the guard runs is left")
        }
        BootCounting::Ignored => Judged::warning(format!(
            "GRUB has an environment block, and /boot/grub2/grub.cfg does not read boot_counter: \
             {UNCOUNTED}"
        )),
        BootCounting::NoBlock(why) => Judged::warning(format!(
            "/boot/grub2/grubenv {why}, so boots are not counted: {UNCOUNTED}"
        )),
        BootCounting::Absent => Judged::warning(format!(
            "the boot loader has no /boot/grub2/grubenv and counts no boots: {UNCOUNTED}"
        )),
    }
}

/// Reads from the kernel whether SELinux enforces, and whether it has the policy module.
pub(super) fn selinux(mount: &Path) -> anyhow::Result<Judged> {
    // Without it, nothing there would only mean that it was not mounted.
    if !mount.join("sys/kernel").is_dir() {
        anyhow::bail!("the kernel's /sys is not mounted");
    }
    let enforcement =
        selinux::enforcement(mount).context("cannot read whether SELinux enforces")?;
    // Of one kernel; the host's may not be written to from here.
    let has_module = || selinux::has_module(mount).or_else(|_| selinux::has_module(Path::new("/")));
    judge_selinux(enforcement, has_module).context("cannot read whether the policy has the module")
}

fn judge_selinux(
    enforcement: Enforcement,
    has_module: impl FnOnce() -> io::Result<Option<bool>>,
) -> io::Result<Judged> {
    Ok(match enforcement {
        Enforcement::Off => Judged::ok("SELinux is off"),
        Enforcement::Permissive => Judged::ok("SELinux is permissive"),
        Enforcement::Enforcing => match has_module()? {
            Some(true) => Judged::ok("SELinux is enforcing, with Slipway's policy module"),
            Some(false) => Judged::missing(
                "SELinux is enforcing without Slipway's policy module: install it \
                 (selinux/README.md)",
            ),
            None => Judged::missing(
                "SELinux is enforcing, and its policy has none of the labels by which its modules \
                 are found",
            ),
        },
    })
}

/// Free bytes of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Room {
    boot: u64,
    /// What each kernel takes that `/boot` has.
    kernels: Vec<u64>,
    /// Of `/var` or the repository, whichever has less.
    var: u64,
}

pub(super) fn measure(mount: &Path) -> anyhow::Result<Room> {
    let boot = mount.join("boot");
    let free = |name: &str| {
        room::free(&mount.join(name)).with_context(|| format!("cannot read the room of /{name}"))
    };
    Ok(Room {
        boot: free("boot")?,
        kernels: room::kernels(&boot).context("cannot read the kernels in /boot/ostree")?,
        // Objects of images are in the repository, often of the same file system.
        var: free("var")?.min(free("sysroot")?),
    })
}

/// Judges by the room for a kernel as large as the largest one, and for an image.
pub(super) fn room(Room { boot, kernels, var }: &Room) -> Judged {
    let Some(largest) = kernels.iter().max() else {
        return Judged::missing("/boot/ostree has no kernel: room for another one is unknown");
    };
    let needed = largest + ENTRIES_BYTES;
    let of_boot = format!(
        "/boot has {} MiB free, and a kernel takes {}",
        mib(*boot),
        mib(needed)
    );
    let of_var = format!("/var has {} MiB free", mib(*var));
    if *var < STATE_BYTES {
        return Judged::missing(format!("{of_var}, and needs {}", mib(STATE_BYTES)));
    }
    if *boot < needed && kernels.len() < 2 {
        return Judged::missing(format!(
            "{of_boot}: a target with another kernel has no room"
        ));
    }
    if *boot < needed {
        return Judged::warning(format!(
            "{of_boot}: the previous deployment is dropped before a target is verified"
        ));
    }
    if *var < IMAGE_BYTES {
        return Judged::warning(format!(
            "{of_var}; an image of 1 GiB may take {}",
            mib(IMAGE_BYTES)
        ));
    }
    Judged::ok(format!("{of_boot}; {of_var}"))
}

/// Whole MiB.
const fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use node_update::host_report::HostVerdict;

    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::File::create(path).unwrap();
        io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }

    #[test]
    fn a_host_of_ostree_has_three_signs() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        let missing = |expected: &str| {
            let judged = ostree(&root).unwrap();
            assert_eq!(judged.verdict, HostVerdict::Missing);
            assert!(judged.message.contains(expected), "{}", judged.message);
        };
        missing("not booted from ostree");
        put(dir.path(), "run/ostree-booted", "");
        missing("/ostree/repo/config is not there");
        put(dir.path(), "sysroot/ostree/repo/config", "[core]\n");
        symlink("sysroot/ostree", dir.path().join("ostree")).unwrap();
        assert!(ostree(&root).is_err(), "the command line is unknown");
        put(dir.path(), "proc/cmdline", "quiet xostree=/a\n");
        missing("booted without ostree=");
        put(
            dir.path(),
            "proc/cmdline",
            "quiet ostree=/ostree/boot.1/os/x/0\n",
        );
        assert_eq!(
            ostree(&root).unwrap(),
            Judged::ok("the host is booted from /ostree/boot.1/os/x/0")
        );
    }

    #[test]
    fn entries_are_found_behind_the_link_of_libostree() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        assert!(!has_entries(&root).unwrap());
        put(dir.path(), "boot/loader.1/entries/README", "");
        symlink("loader.1", dir.path().join("boot/loader")).unwrap();
        assert!(!has_entries(&root).unwrap());
        put(dir.path(), "boot/loader.1/entries/ostree-1.conf", "");
        assert!(has_entries(&root).unwrap());
    }

    #[test]
    fn a_boot_loader_that_does_not_count_is_a_limit() {
        use HostVerdict::{Missing, Ok, Warning};
        for (counting, has_entries, expected, part) in [
            (BootCounting::Counts, true, Ok, "GRUB counts boots"),
            (BootCounting::Counts, false, Missing, "no entry in"),
            (BootCounting::Absent, false, Missing, "no entry in"),
            (
                BootCounting::Ignored,
                true,
                Warning,
                "does not read boot_counter",
            ),
            (
                BootCounting::NoBlock("is full"),
                true,
                Warning,
                "grubenv is full",
            ),
            (BootCounting::Absent, true, Warning, "counts no boots"),
        ] {
            let judged = loader(counting, has_entries);
            assert_eq!(judged.verdict, expected, "{}", judged.message);
            assert!(judged.message.contains(part), "{}", judged.message);
        }
    }

    #[test]
    fn an_enforcing_host_needs_the_module() {
        let judge =
            |enforcement, has_module| judge_selinux(enforcement, || Ok(has_module)).unwrap();
        for enforcement in [Enforcement::Off, Enforcement::Permissive] {
            assert_eq!(judge(enforcement, None).verdict, HostVerdict::Ok);
        }
        for (has_module, expected) in [
            (Some(true), HostVerdict::Ok),
            (Some(false), HostVerdict::Missing),
            (None, HostVerdict::Missing),
        ] {
            assert_eq!(judge(Enforcement::Enforcing, has_module).verdict, expected);
        }
        let unread = || Err(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(judge_selinux(Enforcement::Enforcing, unread).is_err());
    }

    #[test]
    fn selinux_is_off_only_where_the_kernel_can_be_seen() {
        let dir = tempfile::tempdir().unwrap();
        assert!(selinux(dir.path()).is_err());
        fs::create_dir_all(dir.path().join("sys/kernel")).unwrap();
        assert_eq!(selinux(dir.path()).unwrap(), Judged::ok("SELinux is off"));
        put(dir.path(), "sys/fs/selinux/enforce", "0");
        let permissive = Judged::ok("SELinux is permissive");
        assert_eq!(selinux(dir.path()).unwrap(), permissive);
    }

    #[test]
    fn room_is_for_another_kernel_and_an_image() {
        use HostVerdict::{Missing, Ok, Warning};
        let kernel = 100 << 20;
        let enough = kernel + ENTRIES_BYTES;
        for (boot, kernels, var, expected, part) in [
            (
                enough,
                vec![kernel],
                IMAGE_BYTES,
                Ok,
                "/var has 4096 MiB free",
            ),
            (
                enough,
                vec![kernel],
                IMAGE_BYTES - 1,
                Warning,
                "/var has 4095 MiB",
            ),
            (enough, vec![kernel], STATE_BYTES - 1, Missing, "needs 512"),
            (
                enough - 1,
                vec![kernel],
                IMAGE_BYTES,
                Missing,
                "a kernel takes 101",
            ),
            (
                enough - 1,
                vec![1, kernel],
                IMAGE_BYTES,
                Warning,
                "is dropped",
            ),
            (enough, vec![], IMAGE_BYTES, Missing, "has no kernel"),
        ] {
            let judged = room(&Room { boot, kernels, var });
            assert_eq!(judged.verdict, expected, "{}", judged.message);
            assert!(judged.message.contains(part), "{}", judged.message);
        }
    }
}
