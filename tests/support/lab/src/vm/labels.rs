//! SELinux labels of a machine's disks, as the installer of a host that enforces leaves them.
//!
//! What a deployment has from its commit is labelled by that.

use std::path::Path;

use anyhow::Result;

use crate::host::STATEROOT;
use crate::program::{command, run};

/// Contexts of the policy, in the deployment.
const CONTEXTS: &str = "etc/selinux/default/contexts/files/file_contexts";

/// Labels what was written besides the commit on the mounted disks, by the policy of the one
/// deployment; nothing if it has none.
pub(super) fn label(sysroot: &Path, deployment: &Path) -> Result<()> {
    let contexts = deployment.join(CONTEXTS);
    if !contexts.exists() {
        return Ok(());
    }
    let stateroot = sysroot.join("ostree/deploy").join(STATEROOT);
    let label = |root: &Path, path: &Path, excluded: &[&Path]| {
        let mut setfiles = command("setfiles");
        // This machine's kernel need not know of labels, so that its mounts do not say that they
        // have some.
        setfiles.args(["-m", "-F", "-r"]).arg(root);
        for path in excluded {
            setfiles.arg("-e").arg(path);
        }
        run(setfiles.arg(&contexts).arg(path)).map(drop)
    };
    label(deployment, &deployment.join("etc"), &[])?;
    label(&stateroot, &stateroot.join("var"), &[])?;
    label(sysroot, &sysroot.join("boot"), &[])?;
    let objects = sysroot.join("ostree/repo/objects");
    let excluded = [
        objects.as_path(),
        &stateroot.join("deploy"),
        &stateroot.join("var"),
    ];
    label(sysroot, sysroot, &excluded)
}
