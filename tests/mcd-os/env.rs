//! A host with the programs under test on it.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use lab::PATIENCE;
use lab::host::{Host, HostSpec, Output};
use lab::registry::Registry;
use lab::tree::{Commit, Overlay};
use node_update::plan::Bundle;
use serde_json::Value;
use testbed::files::{self, Files, Tree};
use testbed::single_host::{self, MCD_OS, MCD_OS_BROUGHT, guard_log};
use testbed::{HostLab, Programs, until_blocking};

/// Where a verb leaves its report on the host.
const REPORT: &str = "/run/slipway/report.json";

/// Time between two polls at whether an attempt ended.
pub(crate) const PAUSE: Duration = Duration::from_millis(250);

pub(crate) struct Env {
    pub(crate) host: Host,
    pub(crate) host_lab: HostLab,
}

/// How a verb ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) report: Value,
    pub(crate) stderr: String,
}

impl Ran {
    /// The reasons of its report, in one line.
    pub(crate) fn reasons(&self) -> String {
        let reasons = self.report["reasons"].as_array().into_iter().flatten();
        reasons
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("; ")
    }
}

/// Everything that an update may touch, by the folder that it is in.
pub(crate) type Snapshot = Vec<(&'static str, Tree)>;

impl Env {
    /// A booted host of the base OS, with the guard installed.
    pub(crate) fn new() -> Result<Self> {
        Self::with(|spec, _| spec)
    }

    /// The same, from a changed specification.
    pub(crate) fn with(change: impl FnOnce(HostSpec, &Registry) -> HostSpec) -> Result<Self> {
        let host_lab = HostLab::new()?;
        let base = host_lab.tree.base().clone();
        Self::of(host_lab, &base, change)
    }

    /// The same, of another OS.
    pub(crate) fn of(
        host_lab: HostLab,
        os: &Commit,
        change: impl FnOnce(HostSpec, &Registry) -> HostSpec,
    ) -> Result<Self> {
        let env = Self::boot(host_lab, os, change)?;
        env.host.run([MCD_OS_BROUGHT, "guard", "--install"])?;
        Ok(env)
    }

    /// A booted host of the base OS, on which nothing was ever done.
    pub(crate) fn untouched() -> Result<Self> {
        let host_lab = HostLab::new()?;
        let base = host_lab.tree.base().clone();
        Self::untouched_of(host_lab, &base)
    }

    /// The same, of another OS.
    pub(crate) fn untouched_of(host_lab: HostLab, os: &Commit) -> Result<Self> {
        Self::boot(host_lab, os, |spec, _| spec)
    }

    fn boot(
        host_lab: HostLab,
        os: &Commit,
        change: impl FnOnce(HostSpec, &Registry) -> HostSpec,
    ) -> Result<Self> {
        let spec = host_lab.host(&Programs::built()?, "node", os)?;
        let host = host_lab.boot(change(spec, &host_lab.registry))?;
        Ok(Self { host, host_lab })
    }

    /// Puts an OS into the registry, as a native container image; its pull spec.
    pub(crate) fn push(&self, overlay: &Overlay) -> Result<String> {
        self.host_lab.push(&self.host_lab.tree.commit(overlay)?)
    }

    /// Runs a verb to its end.
    pub(crate) fn mcd_os(&self, words: &[&str]) -> Result<Ran> {
        self.host.run(["rm", "-f", REPORT])?;
        let command = [&[MCD_OS, "--report", REPORT], words].concat();
        let Output { code, stderr, .. } = self.host.exec(command)?;
        let report = self.host.exec(["cat", REPORT])?.stdout;
        let report = serde_json::from_str(&report).unwrap_or(Value::Null);
        Ok(Ran {
            code,
            report,
            stderr,
        })
    }

    /// Runs a verb that has to end with this code.
    pub(crate) fn expect(&self, code: i32, words: &[&str]) -> Result<Ran> {
        let ran = self.mcd_os(words)?;
        anyhow::ensure!(
            ran.code == Some(code),
            "mcd-os {}: {ran:?}",
            words.join(" ")
        );
        Ok(ran)
    }

    /// Stores a plan on the host as the daemon does; its directory.
    pub(crate) fn put(&self, bundle: &Bundle) -> Result<String> {
        single_host::put_plan(&self.host, bundle)
    }

    /// Fetches, rehearses and applies; the host waits for a reboot then.
    pub(crate) fn switch(&self, bundle: &Bundle) -> Result<()> {
        if let Some(image) = bundle
            .plan
            .deploy
            .as_ref()
            .and_then(|deploy| deploy.image.as_ref())
        {
            self.expect(0, &["fetch", image])?;
        }
        let directory = self.put(bundle)?;
        self.expect(0, &["rehearse", &directory])?;
        self.expect(4, &["apply", &directory])?;
        Ok(())
    }

    /// What the host says of itself.
    pub(crate) fn view(&self) -> Result<Value> {
        let text = self.host.run([MCD_OS, "deployments", "--json"])?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Waits until nothing is under way, and what the attempt leaves behind is removed; how the
    /// last attempt ended.
    pub(crate) fn wait_ended(&self) -> Result<Value> {
        let ended = until_blocking("the attempt to end", PATIENCE, PAUSE, || {
            let view = self.view()?;
            // The removal rewrites the boot entries.
            let unit = "slipway-verify.service";
            let state = [
                "systemctl",
                "show",
                "--property=ActiveState",
                "--value",
                unit,
            ];
            let state = self.host.exec(state)?.stdout;
            let is_over = view["journal"].is_null()
                && !["activating", "active", "deactivating"].contains(&state.trim());
            Ok(if is_over {
                Ok(view["last"].clone())
            } else {
                Err(view.to_string())
            })
        });
        ended.with_context(|| format!("the guard says:\n{}", guard_log(&self.host)))
    }

    /// Boots what the boot entries name, and waits for the checks to be done.
    pub(crate) fn reboot(&self) -> Result<Value> {
        self.host.reboot()?;
        self.wait_ended()
    }

    /// The booted deployment's `/etc` and folders of the state root's `/var`, from outside.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let read = |dir, shown| anyhow::Ok((shown, files::read(dir, Files::Whole, &[])?));
        let var = self.host.var();
        Ok(vec![
            read(&self.host.etc_of_booted()?, "/etc")?,
            read(&var.join("home"), "/var/home")?,
            read(&var.join("usrlocal"), "/var/usrlocal")?,
            read(&var.join("lib/managed"), "/var/lib/managed")?,
        ])
    }

    /// What the boot entries say, in order.
    pub(crate) fn entries(&self) -> Result<Vec<String>> {
        let entries = self.host.entries()?;
        entries
            .iter()
            .map(|entry| Ok(entry.deployment(self.host.sysroot())?.display().to_string()))
            .collect()
    }

    /// A file of the booted system: bytes, mode, owner.
    pub(crate) fn stat(&self, path: &str) -> Result<(String, String)> {
        let stat = self.host.run(["stat", "--format=%a %U:%G", path])?;
        Ok((stat, self.host.run(["cat", path])?))
    }

    /// Whether a deployment directory is there that no entry names.
    pub(crate) fn deployments_on_disk(&self) -> Result<usize> {
        let id = self
            .host
            .boots()
            .pop()
            .context("the host was never started")?
            .deployment;
        let directory = self.host.deployment_dir(&id);
        let directory = directory
            .parent()
            .context("a deployment lies in a directory")?;
        let entries = fs::read_dir(directory)?;
        Ok(entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().is_dir())
            .count())
    }
}

/// What two snapshots differ in.
pub(crate) fn differences(one: &Snapshot, other: &Snapshot) -> Vec<String> {
    let pairs = one.iter().zip(other);
    pairs
        .flat_map(|((shown, one), (_, other))| files::differences(shown, other, one))
        .collect()
}
