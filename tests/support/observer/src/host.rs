//! What a host is, by its own files and tools: nothing of the programs under test is used.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use lab::host::Output;
use lab::tree::parse_content;

/// Runs programs on a host, in its namespaces, as root.
pub trait Host {
    /// Runs one to its end. The first word is the program.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    fn output(&self, words: &[&str]) -> Result<Output>;
}

impl Host for lab::host::Host {
    fn output(&self, words: &[&str]) -> Result<Output> {
        self.exec(words.iter().copied())
    }
}

/// Something that must hold on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// It runs this OS: content of the commit that `ostree admin status` names as booted. The
    /// commit itself is another on each way that an image can take into a repository.
    Booted {
        /// As [`lab::tree::content`] gives it.
        content: String,
    },
    /// The kernel's command line has this argument, once: `/proc/cmdline`.
    Argument(String),
    /// A regular file.
    File {
        /// Absolute path.
        path: String,
        /// Its text.
        content: String,
        /// Permission bits.
        mode: u32,
        /// `user:group`, by name.
        owner: String,
    },
    /// The OS's own version of a file of `/etc` is in force: it is equal in bytes, mode and owner
    /// to that in `/usr/etc`, and `ostree admin config-diff` does not list it.
    OfOs {
        /// Absolute path.
        path: String,
    },
    /// Nothing is at the path.
    Absent {
        /// Absolute path.
        path: String,
    },
    /// What `systemctl is-enabled` says of a unit.
    Enabled {
        /// The unit's name.
        unit: String,
        /// Such as `enabled`, `masked`.
        state: String,
    },
    /// A unit runs: `systemctl is-active`.
    Active {
        /// The unit's name.
        unit: String,
    },
}

impl Fact {
    /// Fails where something speaks against it.
    ///
    /// # Errors
    ///
    /// It does not hold, or the host cannot be read.
    pub fn check(&self, host: &impl Host) -> Result<()> {
        let doubt = self.doubt(host)?;
        ensure!(doubt.is_none(), "{}", doubt.unwrap_or_default());
        Ok(())
    }

    /// What speaks against it, for people; none if it holds.
    ///
    /// # Errors
    ///
    /// The host cannot be read.
    pub fn doubt(&self, host: &impl Host) -> Result<Option<String>> {
        match self {
            Self::Booted { content: wanted } => {
                let checksum = booted(host)?;
                let listed = text(host, &["ostree", "ls", "-d", "-C", &checksum, "/"])?;
                let found = parse_content(&listed)?;
                Ok(unless(found == *wanted, || {
                    format!("it runs {checksum}, which is another OS")
                }))
            }
            Self::Argument(argument) => {
                let line = text(host, &["cat", "/proc/cmdline"])?;
                let times = line
                    .split_whitespace()
                    .filter(|word| word == argument)
                    .count();
                Ok(unless(times == 1, || {
                    format!("/proc/cmdline has {argument} {times} times: {line}")
                }))
            }
            Self::File {
                path,
                content,
                mode,
                owner,
            } => {
                let wanted = format!("{mode:o} {owner} regular file");
                let Some(found) = stat(host, path)? else {
                    return Ok(Some(format!("there is no {path}")));
                };
                if found != wanted {
                    return Ok(Some(format!("{path} is {found}, not {wanted}")));
                }
                let is_it = text(host, &["cat", path])? == *content;
                Ok(unless(is_it, || format!("{path} has other bytes")))
            }
            Self::OfOs { path } => of_os(host, path),
            Self::Absent { path } => {
                Ok(stat(host, path)?.map(|found| format!("{path} is there: {found}")))
            }
            Self::Enabled { unit, state } => {
                let found = first_line(host, &["systemctl", "is-enabled", unit])?;
                Ok(unless(found == *state, || {
                    format!("{unit} is {found}, not {state}")
                }))
            }
            Self::Active { unit } => {
                let found = first_line(host, &["systemctl", "is-active", unit])?;
                Ok(unless(found == "active", || format!("{unit} is {found}")))
            }
        }
    }
}

/// Everything of a host that an update may change, by path: kind, mode, owner, link target, digest.
///
/// That is `/etc`, `/boot`, `/var` and which deployments there are. Left out is what a host writes
/// by itself while it runs: logs, and the state of systemd, the kubelet and the daemon. Waits until
/// what is verified after a boot is, as old deployments are removed only then.
///
/// # Errors
///
/// The host cannot be read, or verifies for more than a minute.
pub fn snapshot(host: &impl Host) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for line in text(host, &["bash", "-c", SNAPSHOT])?.lines() {
        let (path, what) = line.split_once('\t').unwrap_or((line, ""));
        let differences: &mut String = found.entry(path.to_owned()).or_default();
        differences.push_str(what);
    }
    Ok(found)
}

/// What programs keep for themselves is left out; in `/var/lib/containers`, skopeo what it knows of
/// registries.
///
/// Prints lines of path, tab and what is there; files have a second line with their digest.
///
/// What is there for a moment only, such as what is being rehearsed, may go while it is listed.
const SNAPSHOT: &str = r#"set -e -o pipefail
for ((i = 0; i < 300; i++)); do
    systemctl is-active --quiet slipway-verify.service || break
    sleep 0.2
done
((i < 300)) || { echo "slipway-verify.service still runs" >&2; exit 1; }
list() {
    find /etc /boot /var -ignore_readdir_race \
        \( -path /var/log -o -path /var/tmp -o -path /var/cache -o -path /var/lib/containers \
           -o -path /var/lib/systemd -o -path /var/lib/kubelet -o -path /var/lib/slipway \) -prune \
        -o $1 $2 $3
    find /sysroot/ostree/deploy/*/deploy -ignore_readdir_race -maxdepth 1 $1 $2 $3
}
list -printf '%p\t%y\040%m\040%U:%G\040%l\n'
digests() {
    if all=$(sha256sum -- "$@" 2>/dev/null); then
        printf '%s\n' "$all"
        return
    fi
    for file; do
        sha256sum -- "$file" || [ ! -e "$file" ] || return 1
    done
}
export -f digests
list -type f -print0 | xargs -0 bash -c 'digests "$@"' digests | sed 's/^\([0-9a-f]*\)  \(.*\)/\2\t \1/'
"#;

/// What differs between two snapshots, for people.
pub fn differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut differences = Vec::new();
    for (path, was) in before {
        match after.get(path) {
            None => differences.push(format!("{path} is gone")),
            Some(is) if is != was => differences.push(format!("{path} was {was}, is {is}")),
            Some(_) => {}
        }
    }
    let is_new = |path: &&String| !before.contains_key(*path);
    differences.extend(
        after
            .keys()
            .filter(is_new)
            .map(|path| format!("{path} is new")),
    );
    differences
}

/// Checksum of the booted commit.
fn booted(host: &impl Host) -> Result<String> {
    let status = text(host, &["ostree", "admin", "status"])?;
    // `* slipway <checksum>.0`
    let line = status.lines().find_map(|line| line.strip_prefix("* "));
    let deployment = line.and_then(|line| line.split_whitespace().nth(1));
    let checksum = deployment.and_then(|deployment| deployment.split_once('.'));
    let (checksum, _) = checksum.with_context(|| format!("nothing is booted: {status}"))?;
    Ok(checksum.to_owned())
}

fn of_os(host: &impl Host, path: &str) -> Result<Option<String>> {
    let inside = path
        .strip_prefix("/etc/")
        .with_context(|| format!("{path} is not in /etc"))?;
    let original = format!("/usr/etc/{inside}");
    let (found, wanted) = (stat(host, path)?, stat(host, &original)?);
    ensure!(wanted.is_some(), "the OS has no {original}");
    if found != wanted {
        return Ok(Some(format!(
            "{path} is {found:?}, {original} is {wanted:?}"
        )));
    }
    if text(host, &["cat", path])? != text(host, &["cat", &original])? {
        return Ok(Some(format!("{path} has other bytes than {original}")));
    }
    // One line a path: `M    issue`.
    let changed = text(host, &["ostree", "admin", "config-diff"])?;
    let listed = changed.lines().any(|line| {
        line.split_whitespace()
            .nth(1)
            .is_some_and(|path| path == inside)
    });
    Ok(unless(!listed, || {
        format!("ostree admin config-diff lists {path}")
    }))
}

/// Mode in octal, owner by name, and kind; none where nothing is.
fn stat(host: &impl Host, path: &str) -> Result<Option<String>> {
    let output = host.output(&["stat", "--format=%a %U:%G %F", path])?;
    if output.code == Some(0) {
        // An empty file is one of its own kind for stat.
        return Ok(Some(
            output
                .stdout
                .trim()
                .replace("regular empty file", "regular file"),
        ));
    }
    let message = output.stderr.trim();
    ensure!(
        message.contains("No such file"),
        "cannot stat {path}: {message}"
    );
    Ok(None)
}

/// Standard output of a program that must succeed.
fn text(host: &impl Host, words: &[&str]) -> Result<String> {
    let output = host.output(words)?;
    ensure!(
        output.code == Some(0),
        "{} failed: {}",
        words.join(" "),
        output.stderr.trim()
    );
    Ok(output.stdout)
}

/// What a program says, whatever its exit code.
fn first_line(host: &impl Host, words: &[&str]) -> Result<String> {
    let output = host.output(words)?;
    let text = if output.stdout.is_empty() {
        &output.stderr
    } else {
        &output.stdout
    };
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn unless(holds: bool, doubt: impl FnOnce() -> String) -> Option<String> {
    (!holds).then(doubt)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Answers by the whole command; what it does not know fails as stat does.
    struct Script(BTreeMap<&'static str, &'static str>);

    impl Host for Script {
        fn output(&self, words: &[&str]) -> Result<Output> {
            let output = self.0.get(words.join(" ").as_str());
            Ok(Output {
                code: Some(i32::from(output.is_none())),
                stdout: output.copied().unwrap_or_default().to_owned(),
                stderr: "No such file or directory".to_owned(),
            })
        }
    }

    fn doubt(fact: &Fact, outputs: &[(&'static str, &'static str)]) -> Option<String> {
        fact.doubt(&Script(outputs.iter().copied().collect()))
            .unwrap()
    }

    #[test]
    fn only_the_booted_deployment_counts() {
        let contents = [
            ("ostree ls -d -C aa /", "d00755 0 0      0 11 22 /\n"),
            ("ostree ls -d -C bb /", "d00755 0 0      0 33 22 /\n"),
        ];
        let fact = Fact::Booted {
            content: "33 22".into(),
        };
        let with = |status| [contents.as_slice(), &[("ostree admin status", status)]].concat();
        let status = "  slipway bb.0 (pending)\n* slipway aa.0\n    Version: v1\n";
        assert!(doubt(&fact, &with(status)).is_some());
        let status = "* slipway bb.1\n    Version: v2\n  slipway aa.0 (rollback)\n";
        assert_eq!(doubt(&fact, &with(status)), None);
    }

    #[test]
    fn an_argument_counts_whole_and_once() {
        let fact = Fact::Argument("demo=1".into());
        assert_eq!(doubt(&fact, &[("cat /proc/cmdline", "rw demo=1\n")]), None);
        assert!(doubt(&fact, &[("cat /proc/cmdline", "rw demo=11")]).is_some());
        assert!(doubt(&fact, &[("cat /proc/cmdline", "demo=1 demo=1")]).is_some());
    }

    #[test]
    fn a_file_is_its_bytes_mode_and_owner() {
        let fact = Fact::File {
            path: "/etc/a".into(),
            content: "x".into(),
            mode: 0o600,
            owner: "chrony:chrony".into(),
        };
        let stat = "stat --format=%a %U:%G %F /etc/a";
        let good = (stat, "600 chrony:chrony regular file\n");
        assert_eq!(doubt(&fact, &[good, ("cat /etc/a", "x")]), None);
        assert!(doubt(&fact, &[good, ("cat /etc/a", "y")]).is_some());
        assert!(doubt(&fact, &[(stat, "644 chrony:chrony regular file\n")]).is_some());
        assert!(doubt(&fact, &[]).is_some());
    }

    #[test]
    fn a_file_of_the_os_is_not_listed_as_changed() {
        let fact = Fact::OfOs {
            path: "/etc/issue".into(),
        };
        let stats = [
            (
                "stat --format=%a %U:%G %F /etc/issue",
                "640 root:root regular file",
            ),
            (
                "stat --format=%a %U:%G %F /usr/etc/issue",
                "640 root:root regular file",
            ),
            ("cat /etc/issue", "v3"),
            ("cat /usr/etc/issue", "v3"),
        ];
        let with = |output| [stats.as_slice(), &[output]].concat();
        let clean = ("ostree admin config-diff", "M    issue.net\nA    demo/a\n");
        assert_eq!(doubt(&fact, &with(clean)), None);
        let listed = ("ostree admin config-diff", "M    issue\n");
        assert!(doubt(&fact, &with(listed)).is_some());
    }
}
