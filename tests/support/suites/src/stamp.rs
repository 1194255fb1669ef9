//! Stamps: which suite was green with which inputs, so that an unchanged one need not run again.
//!
//! A stamp is a file `<cache>/green/<suite>-<digest of its inputs>`. Inputs are the bytes of the
//! stripped programs that the suite runs, the sources of its test executable and of the lab,
//! `deploy/`, the shared definitions, the compiler, the lock file, the kernel, the versions of the
//! host's tools and of the packages in the base tree. What they leave out is the weather of the
//! machine: `make proof` ignores them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use crate::compile::PARTS;
use crate::table::{SUITES, Suite};
use crate::workspace::Workspace;

/// A stamp is good for so long.
const GOOD_FOR_SECS: u64 = 3 * 24 * 3600;

/// Packages of the host whose version decides what a suite does.
const TOOLS: [&str; 10] = [
    "busybox-static",
    "containernetworking-plugins",
    "docker-registry",
    "e2fsprogs",
    "iproute2",
    "ostree",
    "qemu-system-x86",
    "skopeo",
    "systemd",
    "systemd-container",
];

/// What a green run left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) commit: String,
    /// Seconds since 1970.
    pub(crate) at_secs: u64,
    pub(crate) took_secs: u64,
    pub(crate) tests: u32,
}

impl Stamp {
    fn print(&self) -> String {
        let Self {
            commit,
            at_secs,
            took_secs,
            tests,
        } = self;
        format!("{commit} {at_secs} {took_secs} {tests}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let stamp = Self {
            commit: words.next()?.to_owned(),
            at_secs: words.next()?.parse().ok()?,
            took_secs: words.next()?.parse().ok()?,
            tests: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(stamp)
    }

    /// Whether it still counts. One from the future does not: a clock was wrong, and which one is
    /// not known.
    pub(crate) fn is_good(&self, now_secs: u64) -> bool {
        now_secs
            .checked_sub(self.at_secs)
            .is_some_and(|age| age < GOOD_FOR_SECS)
    }
}

/// Contents of all inputs, read once for all suites.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// Digests of the workspace's files by their path.
    files: BTreeMap<PathBuf, String>,
    /// Of what is outside it, in one digest.
    surroundings: String,
    programs: PathBuf,
    green: PathBuf,
}

impl Inputs {
    /// Reads the workspace's files and asks for the versions of compiler, kernel and tools.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or git or rustc cannot be run.
    pub(crate) fn read(workspace: &Workspace) -> Result<Self> {
        let mut files = BTreeMap::new();
        for path in workspace.files()? {
            // One that is deleted and not yet committed counts as absent.
            if let Ok(content) = fs::read(workspace.root.join(&path)) {
                files.insert(path, digest(&[&content]));
            }
        }
        let mut outside = vec![
            workspace.output("rustc", &["--version", "--verbose"])?,
            workspace.output("uname", &["--kernel-release"])?,
            workspace.output("dpkg-query", &[&["--show"], TOOLS.as_slice()].concat())?,
        ];
        // The versions of the packages that the lab is made of, which its recipes do not name.
        // It is there by now.
        let prebuilt = workspace.built().join("debug/prebuilt");
        for part in PARTS {
            outside.push(workspace.output(&prebuilt.to_string_lossy(), &[part])?);
        }
        for path in shared(&workspace.upstream_data().join("crds"))? {
            outside.push(digest(&[&fs::read(&path)?]));
        }
        let outside: Vec<_> = outside.iter().map(String::as_bytes).collect();
        Ok(Self {
            files,
            surroundings: digest(&outside),
            programs: workspace.programs(),
            green: workspace.cache.join("green"),
        })
    }

    /// Digest of all inputs of a suite.
    ///
    /// # Errors
    ///
    /// A program that it runs is not built.
    pub(crate) fn of(&self, suite: &Suite) -> Result<String> {
        let mut parts = vec![self.surroundings.clone(), format!("{:?}", suite.tests)];
        for program in suite.programs {
            let path = self.programs.join(program);
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            parts.push(digest(&[&bytes]));
        }
        for (path, content) in self.files.iter().filter(|(path, _)| is_input(suite, path)) {
            parts.push(path.to_string_lossy().into_owned());
            parts.push(content.clone());
        }
        let parts: Vec<_> = parts.iter().map(String::as_bytes).collect();
        Ok(digest(&parts).chars().take(32).collect())
    }

    /// The stamp of a suite with inputs of this digest, however old.
    pub(crate) fn stamp(&self, suite: &Suite, digest: &str) -> Option<Stamp> {
        Stamp::parse(&fs::read_to_string(self.path(suite, digest)).ok()?)
    }

    /// Writes a stamp.
    ///
    /// # Errors
    ///
    /// The cache cannot be written.
    #[expect(
        clippy::disallowed_methods,
        reason = "a stamp that is lost costs one more run"
    )]
    pub(crate) fn write(&self, suite: &Suite, digest: &str, stamp: &Stamp) -> Result<()> {
        let path = self.path(suite, digest);
        fs::create_dir_all(&self.green)?;
        fs::write(&path, stamp.print()).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes a stamp, if there is one: the suite has failed with these inputs.
    pub(crate) fn remove(&self, suite: &Suite, digest: &str) {
        // There is none, as a rule.
        drop(fs::remove_file(self.path(suite, digest)));
    }

    fn path(&self, suite: &Suite, digest: &str) -> PathBuf {
        self.green.join(format!("{}-{digest}", suite.name))
    }
}

/// Whether a file of the workspace is an input of a suite beside the programs.
///
/// All below `tests/` is, but for what only other suites call their own. The sources of the product
/// count by the programs' bytes, except for what the tests are compiled with: they link the
/// product's crates, too, of which the words on the wire are judged by literals. Pages are none.
fn is_input(suite: &Suite, path: &Path) -> bool {
    let is_below = |folder: &&str| path.starts_with(folder);
    let is_own = suite.own.iter().any(is_below);
    if path.starts_with("tests") {
        let is_of_another = SUITES.iter().flat_map(|other| other.own).any(is_below);
        return is_own || !is_of_another;
    }
    is_own
        || path.starts_with("deploy")
        || path == Path::new("Cargo.lock")
        || is_linked(suite, path)
}

/// Crates of the product that the tests themselves call.
fn is_linked(suite: &Suite, path: &Path) -> bool {
    let (package, _) = suite.executable;
    let linked = [
        "src/api",
        "src/ignition",
        "src/machineconfig",
        "src/node-update",
        "src/host",
    ];
    package != "lab" && linked.iter().any(|folder| path.starts_with(folder))
}

/// Files below a folder, sorted; none where it is not there.
fn shared(folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// SHA-256 in hexadecimal of parts, each with its length, so that no two lists of parts run
/// together.
fn digest(parts: &[&[u8]]) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_le_bytes());
        sha.update(part);
    }
    let bytes = sha.finalize();
    bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(name: &str) -> &'static Suite {
        SUITES.iter().find(|suite| suite.name == name).unwrap()
    }

    #[test]
    fn a_printed_stamp_is_read_back() {
        let stamp = Stamp {
            commit: "abc".into(),
            at_secs: 7,
            took_secs: 61,
            tests: 12,
        };
        assert_eq!(Stamp::parse(&stamp.print()), Some(stamp));
        for broken in ["", "abc 7 61", "abc 7 61 12 13", "abc x 61 12"] {
            assert_eq!(Stamp::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_stamp_is_good_for_three_days() {
        let stamp = Stamp {
            commit: String::new(),
            at_secs: 1_000_000,
            took_secs: 0,
            tests: 1,
        };
        let day = 24 * 3600;
        assert!(stamp.is_good(1_000_000));
        assert!(stamp.is_good(1_000_000 + 3 * day - 1));
        assert!(!stamp.is_good(1_000_000 + 3 * day));
        assert!(!stamp.is_good(999_999));
    }

    #[test]
    fn files_of_one_suite_are_no_input_of_another() {
        let cases = [
            ("mcd-os", "tests/mcd-os/site.rs", true),
            ("mcd-os", "tests/crash/site.rs", false),
            ("mcd-os", "tests/support/observer/src/laws.rs", true),
            ("mcd-os", "tests/support/lab/src/host.rs", true),
            ("mcd-os", "tests/a-new-folder/main.rs", true),
            ("crash-daemon", "tests/crash/site.rs", true),
            ("crash-programs", "tests/crash/site.rs", true),
            ("lab-host", "tests/support/lab/tests/pod.rs", false),
            ("lab-host", "src/api/src/lib.rs", false),
            ("mcd-os", "src/api/src/lib.rs", true),
            ("mcd-os", "src/controller/src/lib.rs", false),
            ("mcd-os", "deploy/daemon/rbac.yaml", true),
            ("mcd-os", "docs/architecture.md", false),
            ("mcd-os", "docs/guides/roll-a-pool.md", false),
            ("guides", "docs/guides/roll-a-pool.md", true),
            ("mcd-os", "Cargo.lock", true),
        ];
        for (name, path, expected) in cases {
            assert_eq!(
                is_input(suite(name), Path::new(path)),
                expected,
                "{name}: {path}"
            );
        }
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
    }
}
