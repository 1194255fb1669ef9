//! Where `mcd-os` and `mcd` are on a host, and how they get there.

use host::files::{Content, Error, Root};
use node_update::plan::{Mode, OwnerIds};

pub(crate) const NAME: &str = "mcd-os";

/// Directory of the programs, with one directory for each digest.
pub(crate) const DIRECTORY: &str = "/var/lib/slipway/bin";

/// What the units of the guard run: a link to the program that installed them last.
pub(crate) const LINK: &str = "/var/lib/slipway/bin/mcd-os";

/// Where administrators run the daemon's program on the host; a link, as `/run` is memory.
///
/// Source: `docs/reference/daemon.md`, "Host files".
#[cfg(feature = "node-daemon")]
pub(crate) const DAEMON_LINK: &str = "/run/bin/machine-config-daemon";

/// The file whose label a program gets, so that systemd may run it.
const LABELLED_LIKE: &str = "/usr/bin/true";

/// Writes a program to the directory of its digest on a live root, and returns its path.
///
/// # Errors
/// Those of writing.
pub(crate) fn place(root: Root, digest: &str, name: &str, bytes: &[u8]) -> Result<String, Error> {
    let root = root.labelled_like(LABELLED_LIKE)?;
    let path = path(digest, name);
    let content = Content {
        bytes,
        mode: Mode(0o755),
        owner: OwnerIds::ROOT,
    };
    root.replace(&root.locate(&path)?, content)?;
    Ok(path)
}

/// The path of the program with a digest.
pub(crate) fn path(digest: &str, name: &str) -> String {
    format!("{DIRECTORY}/{digest}/{name}")
}
