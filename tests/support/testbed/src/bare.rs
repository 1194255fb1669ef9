//! Hosts without a cluster: the programs under test, and a kubelet that does nothing but run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use lab::host::HostSpec;

use crate::cluster::Binaries;

/// What the daemon installs, and the guard's units run.
pub const MCD_OS: &str = "/var/lib/slipway/bin/mcd-os";

/// The same where [`programs`] is bound into a host.
pub const MCD_OS_BROUGHT: &str = "/run/lab/bin/mcd-os";

/// `mcd` there.
pub const MCD_BROUGHT: &str = "/run/lab/bin/mcd";

/// Whether it runs is what is looked at, not what it does.
pub const KUBELET: &str = "#!/bin/sh\nexec sleep infinity\n";

/// Where a deadline of the checks is set.
pub const DEADLINE_FILE: &str = "/etc/systemd/system/slipway-verify.service.d/10-deadline.conf";

/// Makes a directory with the programs, as hosts see it at `/run/lab/bin`.
///
/// # Errors
///
/// It exists, or a program is not built.
pub fn programs(dir: &Path) -> Result<PathBuf> {
    let built = Binaries::built()?;
    fs::create_dir(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (from, name) in [(built.mcd, "mcd"), (built.mcd_os, "mcd-os")] {
        fs::copy(&from, dir.join(name))
            .with_context(|| format!("cannot copy {}", from.display()))?;
    }
    let kubelet = dir.join("lab-kubernetes");
    #[expect(clippy::disallowed_methods, reason = "a lab's own folder")]
    fs::write(&kubelet, KUBELET)?;
    fs::set_permissions(&kubelet, fs::Permissions::from_mode(0o755))?;
    Ok(dir.to_owned())
}

/// Text of [`DEADLINE_FILE`]: the checks of a new boot may take so many seconds.
pub fn deadline(secs: u32) -> String {
    format!("[Service]\nExecStart=\nExecStart={MCD_OS} guard --prove --deadline {secs}\n")
}

/// With settings for a kubelet that reads none.
#[must_use]
pub fn kubelet(spec: HostSpec) -> HostSpec {
    spec.file("/etc/kubernetes/kubelet.env", "KUBELET_ARGS=\n", 0o644)
}

/// With so many seconds for the checks of a new boot, instead of the ten minutes that a real machine
/// may need.
#[must_use]
pub fn proved_within(spec: HostSpec, secs: u32) -> HostSpec {
    spec.file(DEADLINE_FILE, deadline(secs), 0o644)
}
