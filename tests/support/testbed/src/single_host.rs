//! The programs under test on a host without a cluster, driven as the daemon drives its helper.

use anyhow::{Context as _, Result, ensure};
use host::files::Root;
use host::journal::JournalStore;
use lab::host::{Host, HostSpec};
use node_update::plan::Bundle;

/// What the daemon installs, and the guard's units run.
pub const MCD_OS: &str = "/var/lib/slipway/bin/mcd-os";

/// The same where [`crate::HostLab::host`] binds it.
pub const MCD_OS_BROUGHT: &str = "/run/lab/bin/mcd-os";

/// `mcd` there.
pub const MCD_BROUGHT: &str = "/run/lab/bin/mcd";

/// A kubelet that runs and does nothing: suites ask whether it runs.
pub const KUBELET: &str = "#!/bin/sh\nexec sleep infinity\n";

/// Where a deadline of the checks is set.
pub const DEADLINE_FILE: &str = "/etc/systemd/system/slipway-verify.service.d/10-deadline.conf";

/// Text of [`DEADLINE_FILE`]: the checks of a new boot may take so many seconds.
pub fn deadline(secs: u32) -> String {
    format!("[Service]\nExecStart=\nExecStart={MCD_OS} guard --verify --deadline {secs}\n")
}

/// With settings for a kubelet that reads none.
#[must_use]
pub fn kubelet(spec: HostSpec) -> HostSpec {
    spec.file("/etc/kubernetes/kubelet.env", "KUBELET_ARGS=\n", 0o644)
}

/// With so many seconds for the checks of a new boot, instead of the ten minutes that a real
/// machine may need.
#[must_use]
pub fn proved_within(spec: HostSpec, secs: u32) -> HostSpec {
    spec.file(DEADLINE_FILE, deadline(secs), 0o644)
}

/// Stores a plan on a host as the daemon does; its directory there.
pub fn put_plan(host: &Host, bundle: &Bundle) -> Result<String> {
    let etc = host.etc_of_booted()?;
    let tree = etc.parent().context("/etc lies in a root")?;
    let root = Root::open(tree, Some(&host.var()))?;
    JournalStore::new(&root).put_plan(bundle)?;
    Ok(JournalStore::plan_directory(&bundle.plan.attempt)?)
}

/// Runs a program on a host, which has to exit with this code.
pub fn expect(host: &Host, words: &[&str], code: i32) -> Result<()> {
    let output = host.exec(words.iter().copied())?;
    ensure!(
        output.code == Some(code),
        "`{}` exits with {:?}, not {code}: {}",
        words.join(" "),
        output.code,
        output.stderr.trim_end()
    );
    Ok(())
}

/// What the guard wrote into the journal since the host booted.
pub fn guard_log(host: &Host) -> String {
    let units = ["-u", "slipway-guard", "-u", "slipway-verify"];
    let words = ["journalctl", "-b", "--no-pager", "-o", "cat"];
    let output = host.exec(words.into_iter().chain(units));
    output.map(|output| output.stdout).unwrap_or_default()
}
