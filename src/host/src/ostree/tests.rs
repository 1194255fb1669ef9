//! Tests on a real sysroot in a directory, with a tiny OS. The lab tests a booted host.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use chassis::report::Chain;
use node_update::plan::{Deploy, Mode, OwnerIds};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use super::*;
use crate::execute::Sysroot as _;
use crate::files::{Content, Found};
use crate::process;

struct Host {
    dir: tempfile::TempDir,
}

fn put(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
    fs::write(path, bytes).unwrap();
}

impl Host {
    /// A sysroot with version 1 of the OS deployed.
    fn new() -> Self {
        let host = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let sysroot = format!("--sysroot={}", host.sysroot().display());
        fs::create_dir(host.sysroot()).unwrap();
        Self::ostree(&["admin", "init-fs", host.sysroot().to_str().unwrap()]);
        Self::ostree(&["admin", "os-init", "slipway", &sysroot]);
        Self::ostree(&[
            "config",
            "--repo",
            &host.repo(),
            "set",
            "sysroot.bootloader",
            "none",
        ]);
        let commit = host.commit("1", |_| ());
        let karg = ["--karg=root=LABEL=x", "--karg=quiet"];
        Self::ostree(
            &[
                &["admin", "deploy", &sysroot, "--os=slipway"],
                &karg[..],
                &[&commit],
            ]
            .concat(),
        );
        host
    }

    fn sysroot(&self) -> PathBuf {
        self.dir.path().join("sysroot")
    }

    fn repo(&self) -> String {
        self.sysroot().join("ostree/repo").display().to_string()
    }

    fn ostree(arguments: &[&str]) -> String {
        let output = process::command(Path::new("/usr/bin/ostree"))
            .args(arguments)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ostree {arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Commits an OS of a version, changed by `change`.
    fn commit(&self, version: &str, change: impl FnOnce(&Path)) -> String {
        let tree = tempfile::tempdir_in(self.dir.path()).unwrap();
        let root = tree.path();
        put(root, "usr/lib/os-release", b"ID=slipway\n");
        put(root, "usr/lib/systemd/systemd", b"");
        put(root, "usr/lib/modules/1.0/vmlinuz", version.as_bytes());
        put(
            root,
            "usr/lib/modules/1.0/initramfs.img",
            version.as_bytes(),
        );
        put(root, "usr/etc/passwd", b"root:x:0:0::/root:/bin/sh\n");
        put(root, "usr/etc/shipped.conf", version.as_bytes());
        for directory in ["boot", "dev", "proc", "run", "sys", "sysroot", "tmp", "var"] {
            fs::create_dir(root.join(directory)).unwrap();
        }
        symlink("sysroot/ostree", root.join("ostree")).unwrap();
        symlink("var/home", root.join("home")).unwrap();
        change(root);
        let (repo, path) = (format!("--repo={}", self.repo()), root.to_str().unwrap());
        let version = format!("--add-metadata-string=version={version}");
        Self::ostree(&["commit", &repo, "--orphan", &version, path])
    }

    fn open(&self) -> Deployments {
        let mut deployments = Deployments::open_at(&self.sysroot()).unwrap();
        deployments.lock(std::time::Duration::ZERO).unwrap();
        deployments
    }

    /// The deployments as another program lists them.
    fn list(&self) -> Vec<ListedDeployment> {
        Deployments::open_at(&self.sysroot())
            .unwrap()
            .list()
            .unwrap()
    }

    /// Commits an OS and keeps it as an image's.
    fn image(&self, image: &str, change: impl FnOnce(&Path)) -> Deploy {
        let commit = self.commit(image, change);
        refs::keep(&self.open().repo(), image, &commit).unwrap();
        Deploy {
            image: Some(image.to_owned()),
            ..Deploy::default()
        }
    }

    fn directories(&self) -> usize {
        let entries = fs::read_dir(self.sysroot().join("ostree/deploy/slipway/deploy")).unwrap();
        entries
            .filter(|entry| entry.as_ref().unwrap().path().is_dir())
            .count()
    }
}

impl Drop for Host {
    /// libostree makes the directories of deployments immutable.
    fn drop(&mut self) {
        let deployments = self.sysroot().join("ostree/deploy/slipway/deploy");
        for entry in fs::read_dir(deployments).into_iter().flatten().flatten() {
            if let Ok(directory) = fs::File::open(entry.path())
                && let Ok(flags) = ioctl_getflags(&directory)
            {
                ioctl_setflags(&directory, flags - IFlags::IMMUTABLE).unwrap();
            }
        }
    }
}

#[test]
fn a_deployment_is_bootable_only_once_it_is_the_default() {
    let host = Host::new();
    let mut deploy = host.image("r/os:2", |_| ());
    deploy.delete_arguments = vec!["quiet".to_owned()];
    deploy.append_arguments = vec!["nosmt".to_owned()];
    let mut deployments = host.open();
    let origin = deployments.booted().unwrap();
    let made = deployments.deploy(&deploy).unwrap();
    assert_eq!(deployments.default_deployment().unwrap(), origin);
    assert_eq!(host.list().len(), 1, "nothing names it yet");

    let at = made.root.locate("/etc/ours").unwrap();
    let content = Content {
        bytes: b"ours",
        mode: Mode(0o600),
        owner: OwnerIds::ROOT,
    };
    made.root.replace(&at, content).unwrap();
    deployments.set_default(&made.id, None).unwrap();

    let list = host.list();
    assert_eq!(list.len(), 2);
    assert_eq!((&list[0].id, &list[1].id), (&made.id, &origin));
    assert_eq!(list[0].version.as_deref(), Some("r/os:2"));
    assert_eq!(list[0].image.as_deref(), Some("r/os:2"));
    let arguments = &list[0].arguments;
    assert!(arguments.contains(&"nosmt".to_owned()) && !arguments.contains(&"quiet".to_owned()));
    assert_eq!(
        arguments
            .iter()
            .filter(|each| each.starts_with("ostree="))
            .count(),
        1
    );
    assert!(list[0].path.join("etc/ours").exists());
    assert!(!list[1].path.join("etc/ours").exists());
}

#[test]
fn cleanup_removes_a_deployment_that_no_entry_names() {
    let host = Host::new();
    let deploy = host.image("r/os:2", |_| ());
    let mut deployments = host.open();
    let before = deployments.list().unwrap();
    deployments.deploy(&deploy).unwrap();
    assert_eq!(host.directories(), 2);
    deployments.cleanup().unwrap();
    assert_eq!(host.directories(), 1);
    assert_eq!(deployments.list().unwrap(), before);
}

#[test]
fn cleanup_removes_a_temporary_origin_file() {
    let host = Host::new();
    let mut deployments = host.open();
    let directory = host.sysroot().join("ostree/deploy/slipway/deploy");
    put(&directory, "tmp.OpZZn2", b"[origin]\n");
    deployments.cleanup().unwrap();
    assert!(!directory.join("tmp.OpZZn2").exists());
    assert_eq!(deployments.list().unwrap().len(), 1);
}

#[test]
fn boots_are_counted_until_counting_is_stopped() {
    let host = Host::new();
    let deploy = host.image("r/os:2", |_| ());
    let mut block = b"# GRUB Environment Block\n".to_vec();
    block.resize(1024, b'#');
    put(&host.sysroot(), "boot/grub2/grubenv", &block);
    let grubenv = || fs::read_to_string(host.sysroot().join("boot/grub2/grubenv")).unwrap();
    let mut deployments = host.open();
    let made = deployments.deploy(&deploy).unwrap();
    deployments.set_default(&made.id, Some(3)).unwrap();
    assert!(grubenv().contains("\nboot_counter=3\nboot_success=0\n"));
    deployments.stop_boot_counting().unwrap();
    assert!(grubenv().contains("\nboot_success=1\n##"));
}

#[test]
fn switching_back_makes_the_origin_the_default() {
    let host = Host::new();
    let deploy = host.image("r/os:2", |_| ());
    let mut deployments = host.open();
    let origin = deployments.booted().unwrap();
    let made = deployments.deploy(&deploy).unwrap();
    deployments.set_default(&made.id, None).unwrap();
    deployments.set_default(&origin, None).unwrap();
    let order: Vec<_> = host.list().into_iter().map(|each| each.id).collect();
    // In this sysroot the first deployment counts as booted, so the target was dropped by its id.
    assert_eq!(order.first(), Some(&origin));
}

#[test]
fn the_previous_deployment_stays_until_the_target_is_verified() {
    let host = Host::new();
    let versions = || -> Vec<String> {
        let listed = host.list().into_iter();
        listed.filter_map(|deployment| deployment.version).collect()
    };
    let switch = |version: &str| {
        let deploy = host.image(version, |_| ());
        let mut deployments = host.open();
        let made = deployments.deploy(&deploy).unwrap();
        deployments.set_default(&made.id, None).unwrap();
        made.id
    };
    let second = switch("2");
    let third = switch("3");
    assert_eq!(versions(), ["3", "2", "1"]);
    // The target is left again.
    let mut deployments = host.open();
    deployments.set_default(&second, None).unwrap();
    assert_eq!(versions(), ["2", "3", "1"]);
    // Of those that are left, the one that failed goes first.
    drop(deployments);
    let fourth = switch("4");
    assert_eq!(versions(), ["4", "2", "1"]);
    let mut deployments = host.open();
    deployments.drop_older_than(&second).unwrap();
    deployments.cleanup().unwrap();
    assert_eq!(versions(), ["4", "2"]);
    assert_eq!(host.directories(), 2);
    assert_ne!(third, fourth);
    deployments.drop_older_than(&second).unwrap();
    assert_eq!(versions(), ["4", "2"]);
    // By hand there and back: neither is lost.
    deployments.boot_next(&second).unwrap();
    assert_eq!(versions(), ["2", "4"]);
    deployments.boot_next(&fourth).unwrap();
    assert_eq!(versions(), ["4", "2"]);
}

#[test]
fn the_same_commit_again_is_another_deployment_of_the_same_origin() {
    let host = Host::new();
    let mut deployments = host.open();
    let origin = deployments.booted().unwrap();
    let made = deployments.deploy(&Deploy::default()).unwrap();
    assert_eq!(made.id.checksum, origin.checksum);
    assert_ne!(made.id.serial, origin.serial);
    deployments.set_default(&made.id, None).unwrap();
    let list = deployments.list().unwrap();
    assert_eq!(list[0].origin, list[1].origin);
}

#[test]
fn an_etc_that_cannot_be_merged_is_an_error_and_changes_nothing() {
    let host = Host::new();
    let deploy = host.image("r/os:2", |root| {
        fs::remove_file(root.join("usr/etc/shipped.conf")).unwrap();
        put(root, "usr/etc/shipped.conf/part", b"");
    });
    let mut deployments = host.open();
    let before = deployments.list().unwrap();
    put(&before[0].path, "etc/shipped.conf", b"edited");
    let error = Chain(&deployments.deploy(&deploy).unwrap_err()).to_string();
    assert!(
        error.contains("shipped.conf") && error.contains("cannot merge"),
        "{error}"
    );
    deployments.cleanup().unwrap();
    assert_eq!(deployments.list().unwrap(), before);
    assert_eq!(host.directories(), 1);
}

/// An image, a change of its OS, and the reason of the refusal.
type Case = (&'static str, fn(&Path), &'static str);

#[test]
fn commits_that_cannot_be_booted_are_refused_with_what_they_lack() {
    let host = Host::new();
    let kernel = "usr/lib/modules/1.0";
    let cases: [Case; 4] = [
        (
            "a",
            |root| fs::remove_file(root.join("usr/lib/modules/1.0/vmlinuz")).unwrap(),
            "no kernel",
        ),
        (
            "b",
            |root| fs::remove_file(root.join("usr/lib/modules/1.0/initramfs.img")).unwrap(),
            "no initramfs",
        ),
        (
            "c",
            |root| fs::rename(root.join("usr/etc"), root.join("etc")).unwrap(),
            "no /usr/etc",
        ),
        (
            "d",
            |root| put(root, "usr/lib/modules/2.0/vmlinuz", b""),
            "more than one kernel",
        ),
    ];
    for (image, change, expected) in cases {
        let deploy = host.image(image, change);
        let reasons = host.open().rejections(&deploy).unwrap();
        assert_eq!(reasons.len(), 1, "{kernel}: {reasons:?}");
        assert!(
            reasons[0].starts_with(&format!("{image} cannot be booted: ")),
            "{reasons:?}"
        );
        assert!(reasons[0].contains(expected), "{reasons:?}");
    }
    let deploy = Deploy {
        image: Some("never/fetched".to_owned()),
        ..Deploy::default()
    };
    let reasons = host.open().rejections(&deploy).unwrap();
    assert_eq!(
        reasons,
        ["never/fetched is not on this host: it has not been fetched"]
    );
}

#[test]
fn all_that_goes_to_boot_is_counted_in_blocks() {
    let host = Host::new();
    let block = 4096;
    let needs = |change: fn(&Path)| {
        let commit = host.commit("2", change);
        let kernel = bootable::kernel(&host.open().repo(), &commit, "os").unwrap();
        kernel.bytes(block) / block
    };
    // Kernel, initramfs, and the directory that they are in.
    let least = needs(|_| ());
    assert_eq!(least, 3);
    let trees = |root: &Path| {
        put(root, "usr/lib/modules/1.0/dtb/one.dtb", &[1; 4097]);
        put(root, "usr/lib/modules/1.0/dtb/vendor/two.dtb", b"2");
    };
    assert_eq!(needs(trees) - least, 2 + 1 + 2);
    assert_eq!(
        needs(|root| {
            put(root, "usr/lib/modules/1.0/dtb/one.dtb", &[1; 4097]);
            put(root, "usr/lib/modules/1.0/devicetree", &[1; 4096]);
            put(root, "usr/lib/modules/1.0/.vmlinuz.hmac", b"hash");
        }) - least,
        2,
        "one device tree takes the place of all"
    );
}

#[test]
fn other_device_trees_are_another_copy_in_boot() {
    let host = Host::new();
    let checksums = |tree: &'static [u8]| {
        let commit = host.commit("2", |root| {
            put(root, "usr/lib/modules/1.0/dtb/one.dtb", tree);
        });
        let kernel = bootable::kernel(&host.open().repo(), &commit, "os").unwrap();
        kernel.checksums
    };
    assert_ne!(checksums(b"1"), checksums(b"2"));
    assert_eq!(checksums(b"1"), checksums(b"1"));
}

#[test]
fn a_layered_origin_stays_with_its_commit_and_forbids_another_by_key() {
    let host = Host::new();
    let id = host.open().booted().unwrap();
    let path = format!("ostree/deploy/slipway/deploy/{id}.origin");
    put(
        &host.sysroot(),
        &path,
        b"[origin]\nrefspec=x\n[packages]\nrequested=vim;\n",
    );
    let same = Deploy {
        append_arguments: vec!["nosmt".to_owned()],
        ..Deploy::default()
    };
    let nothing: [String; 0] = [];
    assert_eq!(host.open().rejections(&same).unwrap(), nothing);
    let made = host.open().deploy(&same).unwrap();
    let path = format!("ostree/deploy/slipway/deploy/{}.origin", made.id);
    let origin = fs::read_to_string(host.sysroot().join(path)).unwrap();
    assert!(origin.contains("requested=vim;"), "{origin}");
    let another = host.image("r/os:2", |_| {});
    let reasons = host.open().rejections(&another).unwrap();
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].contains("packages.requested"), "{reasons:?}");
}

#[test]
fn an_account_new_in_the_os_is_found_when_the_merge_keeps_the_hosts_file() {
    let host = Host::new();
    let deploy = host.image("r/os:2", |root| {
        put(
            root,
            "usr/etc/passwd",
            b"root:x:0:0::/root:/bin/sh\nnewd:x:990:990::/:/bin/false\n",
        );
    });
    let mut deployments = host.open();
    let booted = deployments.list().unwrap().remove(0);
    put(
        &booted.path,
        "etc/passwd",
        b"root:x:0:0::/root:/bin/sh\nadmin:x:1000:1000::/:/bin/sh\n",
    );
    let made = deployments.deploy(&deploy).unwrap();
    assert_eq!(made.missing_accounts.names(), ["newd"]);
    made.missing_accounts.append(&made.root).unwrap();
    let Found::File { bytes, .. } = made.root.inspect("/etc/passwd").unwrap() else {
        panic!()
    };
    assert!(
        String::from_utf8(bytes)
            .unwrap()
            .ends_with("newd:x:990:990::/:/bin/false\n")
    );
}

#[test]
fn images_are_kept_by_name_and_dropped_when_not_needed() {
    let host = Host::new();
    host.image("r/os@sha256:1", |_| ());
    host.image("r/os:2", |_| ());
    let deployments = host.open();
    let repo = deployments.repo();
    let needed = BTreeSet::from(["r/os:2".to_owned()]);
    assert_eq!(refs::drop_others(&repo, &needed).unwrap(), 1);
    assert_eq!(refs::kept(&repo).unwrap(), needed);
    assert_eq!(refs::commit_of(&repo, "r/os@sha256:1").unwrap(), None);
    assert!(refs::commit_of(&repo, "r/os:2").unwrap().is_some());
}

#[test]
fn images_are_released_and_deployments_stay_whole() {
    let host = Host::new();
    let prefetched = host.image("r/os:2", |_| ());
    let mut deployments = host.open();
    let prefetched = refs::commit_of(&deployments.repo(), prefetched.image.as_deref().unwrap())
        .unwrap()
        .unwrap();
    let before = host.list();
    assert_eq!(deployments.release_images().unwrap(), ["r/os:2"]);
    let repo = deployments.repo();
    assert_eq!(refs::kept(&repo).unwrap(), BTreeSet::new());
    assert!(repo.load_commit(&prefetched).is_err());
    assert!(repo.load_commit(&before[0].id.checksum).is_ok());
    assert_eq!(host.list(), before);
    assert_eq!(deployments.release_images().unwrap(), [""; 0]);
}

#[test]
fn one_holder_at_a_time_has_the_lock_of_the_deployments() {
    let host = Host::new();
    let held = host.open();
    let mut other = Deployments::open_at(&host.sysroot()).unwrap();
    assert!(matches!(
        other.lock(std::time::Duration::ZERO),
        Err(Error::Locked)
    ));
    drop(held);
    other.lock(std::time::Duration::ZERO).unwrap();
}
