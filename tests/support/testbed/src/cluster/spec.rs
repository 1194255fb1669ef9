//! What a cluster is made from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// The programs under test.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// The node's daemon.
    pub mcd: PathBuf,
    /// Its helper on the host.
    pub mcd_os: PathBuf,
    /// The controller.
    pub mcc: PathBuf,
}

impl Binaries {
    /// Those that `make binaries` leaves, or those in the folder `$SLIPWAY_BINARIES`, whatever they are built from.
    ///
    /// # Errors
    ///
    /// One is not there, or they are built from other sources than the workspace's.
    pub fn built() -> Result<Self> {
        let named = std::env::var_os("SLIPWAY_BINARIES").map(PathBuf::from);
        let is_ours = named.is_none();
        let dir = named.unwrap_or_else(|| Path::new(WORKSPACE).join("target/slipway"));
        if is_ours {
            let built = fs::read_to_string(dir.join("sources")).unwrap_or_default();
            ensure!(
                built.trim() == sources()?,
                "the programs in {} are built from other sources: `make binaries` builds them",
                dir.display()
            );
        }
        let path = |name: &str| {
            let path = dir.join(name);
            ensure!(
                path.is_file(),
                "there is no {}: `make binaries` builds it",
                path.display()
            );
            Ok(path)
        };
        Ok(Self {
            mcd: path("mcd")?,
            mcd_os: path("mcd-os")?,
            mcc: path("mcc")?,
        })
    }
}

/// Digest of the sources that the programs are built from.
#[expect(
    clippy::disallowed_methods,
    reason = "the suites' own script; the runner keeps what it prints beside the programs"
)]
fn sources() -> Result<String> {
    let script = Path::new(WORKSPACE).join("tests/support/suites/sources.sh");
    let output = Command::new(&script)
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    ensure!(output.status.success(), "{} failed", script.display());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// A node to be.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    pub(super) name: String,
    pub(super) roles: Vec<String>,
    pub(super) files: Vec<(String, String)>,
    pub(super) boot_bytes: Option<u64>,
}

impl NodeSpec {
    /// A worker of this name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            roles: vec!["worker".to_owned()],
            files: Vec::new(),
            boot_bytes: None,
        }
    }

    /// With another role: the label by which the pool of that name selects its nodes.
    #[must_use]
    pub fn role(mut self, role: &str) -> Self {
        self.roles.push(role.to_owned());
        self
    }

    /// The pool that it is in: that of its last role.
    pub(super) fn pool(&self) -> &str {
        self.roles.last().map_or("worker", String::as_str)
    }

    /// With a pod of the host's own.
    #[must_use]
    pub fn static_pod(self, yaml: &str) -> Self {
        self.file("/etc/kubernetes/manifests/static.yaml", yaml)
    }

    /// With a file of the host's own.
    #[must_use]
    pub fn file(mut self, path: &str, content: &str) -> Self {
        self.files.push((path.to_owned(), content.to_owned()));
        self
    }

    /// With a `/boot` of this size.
    #[must_use]
    pub fn boot_bytes(mut self, bytes: u64) -> Self {
        self.boot_bytes = Some(bytes);
        self
    }
}
