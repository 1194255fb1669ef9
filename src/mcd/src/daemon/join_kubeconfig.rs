//! Keeps the kubeconfig by which the node joined readable by root alone.
//!
//! It belongs to no configuration, so that neither plan nor drift monitor looks at it. A node
//! without it goes on until its kubelet's own kubeconfig ends or is lost, and cannot come back
//! then: it takes no update until the file is there again.

use std::path::Path;

use host::files::{self, Content, Found, Root};
use host::record;
use node_update::join_kubeconfig::{
    JOIN_KUBECONFIG, JOIN_KUBECONFIG_MODE, JoinKubeconfig, join_kubeconfig,
};

use super::certificates::files as certificates;

/// Why it is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is missing, and a unit of the configuration names it. Clients of OpenShift's MCO look for
    /// these words.
    #[error("cannot stat {JOIN_KUBECONFIG}: no such file or directory")]
    Missing,
    /// Something else is at its path.
    #[error("{JOIN_KUBECONFIG} is not a regular file")]
    NotAFile,
    /// A file on the host.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// The configuration in force is unknown.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// The host may not be changed now.
    #[error("cannot set the mode of {JOIN_KUBECONFIG}")]
    Busy(#[source] certificates::Error),
}

/// Sets the file's mode; whether that was another. A file of the configuration has the mode that
/// the configuration gives it.
///
/// # Errors
/// All of [`Error`].
pub fn keep(root: &Path) -> Result<bool, Error> {
    let host = Root::open(root, None)?;
    let config = record::read(&host)?.map(|record| record.machine_config());
    let needed = match config.transpose()? {
        Some(config) => join_kubeconfig(&config),
        // What a host without a record needs is open: its next check finds one.
        None => return Ok(false),
    };
    if needed == JoinKubeconfig::OfConfiguration {
        return Ok(false);
    }
    let at = host.follow(JOIN_KUBECONFIG)?;
    match host.look(&at)? {
        Found::File { mode, .. } if mode == JOIN_KUBECONFIG_MODE => Ok(false),
        Found::File { bytes, owner, .. } => {
            let _lock = certificates::still(&host).map_err(Error::Busy)?;
            let content = Content {
                bytes: &bytes,
                mode: JOIN_KUBECONFIG_MODE,
                owner,
            };
            host.labelled_like(at.as_str())?.replace(&at, content)?;
            Ok(true)
        }
        Found::Nothing if needed == JoinKubeconfig::Needed => Err(Error::Missing),
        Found::Nothing => Ok(false),
        Found::Directory { .. } | Found::Link(_) | Found::Other => Err(Error::NotAFile),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_needed_file_is_there_and_readable_by_root_alone() {
        let tree = tempfile::tempdir().unwrap();
        let at = tree.path().join(JOIN_KUBECONFIG.trim_start_matches('/'));
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let text =
            format!("[Service]\nExecStart=/bin/kubelet --bootstrap-kubeconfig={JOIN_KUBECONFIG}\n");
        let config = json!({"metadata": {"name": "r"}, "spec": {"config": {
            "ignition": {"version": "3.5.0"},
            "systemd": {"units": [{"name": "kubelet.service", "contents": text}]}
        }}});
        let root = Root::open(tree.path(), None).unwrap();
        record::write(&root, config.to_string().as_bytes(), None).unwrap();

        let error = keep(tree.path()).unwrap_err();
        let text = "cannot stat /etc/kubernetes/kubeconfig: no such file or directory";
        assert_eq!(error.to_string(), text);

        #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
        fs::write(&at, "credential").unwrap();
        fs::set_permissions(&at, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(keep(tree.path()).unwrap());
        assert!(!keep(tree.path()).unwrap());
        let mode = fs::metadata(&at).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(fs::read(&at).unwrap(), b"credential");

        // Where nothing names it, it may be missing.
        fs::remove_file(&at).unwrap();
        record::write(&root, br#"{"metadata":{"name":"r"}}"#, None).unwrap();
        assert!(!keep(tree.path()).unwrap());
    }
}
