//! A machine with the program under test on it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use host::files::Root;
use host::journal::JournalStore;
use lab::host::HostSpec;
use lab::tree::{ENFORCING, Overlay};
use lab::vm::{MACHINE_BOOTED_WITHIN, Vm, VmBoot};
use node_update::plan::Bundle;
use serde_json::Value;
use testbed::single_host::{self, MCD_OS};
use testbed::{HostLab, Programs, until_blocking};

use super::configs::SHADOWED;

/// Has the OS find its kubelet.
const LINKS: &str = "d /run/lab/bin 0755 root root -\n\
                     L /run/lab/bin/lab-kubernetes - - - - /usr/local/bin/lab-kubelet\n";

/// `mcd` on a machine that has it.
pub(crate) const MCD: &str = "/usr/local/bin/mcd";

/// The same as an installer writes it.
const MCD_FILE: &str = "/var/usrlocal/bin/mcd";

/// Where a machine that enforces says in which domain each process of the helper runs that a unit
/// started: a line has the domain and the command.
pub(crate) const DOMAINS: &str = "/run/domains";

/// Has the guard wait until it is watched.
const WATCHED: &str = "[Unit]\nWants=lab-domains.service\nAfter=lab-domains.service\n";

/// What watches: a unit, and its program.
const WATCH: &str = "[Unit]\nDescription=Domains of the helper\nDefaultDependencies=no\n\
                     Conflicts=shutdown.target\nBefore=shutdown.target\n\
                     [Service]\nType=exec\nExecStart=/usr/local/bin/lab-domains\n";
const WATCHES: &str = r#"#!/bin/sh
while sleep 0.02; do
    for process in $(pgrep -P 1 -f '^/var/lib/slipway/bin/mcd-os'); do
        echo "$(tr -d '\0' </proc/$process/attr/current) $(tr '\0' ' ' </proc/$process/cmdline)"
    done
done >/run/domains 2>/dev/null
"#;

/// Seconds for the checks; an emulated machine starts its kubelet in a few.
const DEADLINE_SECS: u32 = 40;

/// What a running machine writes itself, or is ours.
const NOISE: [&str; 3] = [
    "etc/machine-id",
    "etc/resolv.conf",
    "etc/machine-config-daemon/",
];

pub(crate) struct Machine {
    pub(crate) vm: Vm,
    host_lab: HostLab,
}

/// Everything that an update may touch: a line a path, with its bytes' digest, mode and owner.
pub(crate) type Snapshot = BTreeSet<String>;

/// The OS that a machine starts with.
pub(crate) fn first_os() -> Overlay {
    Overlay::version("first").file(&format!("/usr{SHADOWED}"), "of the first OS\n", 0o644)
}

/// Another one, with a kernel of its own.
pub(crate) fn second_os() -> Overlay {
    Overlay::version("second").another_kernel().file(
        &format!("/usr{SHADOWED}"),
        "of the second OS\n",
        0o640,
    )
}

impl Machine {
    /// A booted machine of the first OS, with the guard installed.
    pub(crate) fn new() -> Result<Self> {
        Self::of(HostLab::new()?, Ok)
    }

    /// The same where SELinux enforces a policy with Slipway's module; with `mcd` at [`MCD`].
    pub(crate) fn enforcing() -> Result<Self> {
        let mcd = Programs::built()?.path("mcd")?;
        Self::of(HostLab::enforcing()?, |spec| {
            let spec = spec
                .file(MCD_FILE, fs::read(mcd)?, 0o755)
                .file("/var/usrlocal/bin/lab-domains", WATCHES, 0o755)
                .file("/etc/systemd/system/lab-domains.service", WATCH, 0o644)
                .file(
                    "/etc/systemd/system/slipway-guard.service.d/10-domains.conf",
                    WATCHED,
                    0o644,
                );
            Ok(ENFORCING.into_iter().fold(spec, HostSpec::argument))
        })
    }

    fn of(host_lab: HostLab, with: impl FnOnce(HostSpec) -> Result<HostSpec>) -> Result<Self> {
        let os = host_lab.tree.commit(&first_os())?;
        let mcd_os = Programs::built()?.path("mcd-os")?;
        let spec = HostSpec::new("machine", &os)
            .registry(&host_lab.registry.location())
            .file("/etc/tmpfiles.d/lab.conf", LINKS, 0o644)
            .file("/var/usrlocal/bin/lab-kubelet", single_host::KUBELET, 0o755)
            .file(MCD_OS, fs::read(mcd_os)?, 0o755);
        let spec = with(spec)?;
        let spec = single_host::proved_within(single_host::kubelet(spec), DEADLINE_SECS);
        let mut vm = Vm::create(&host_lab.lab, spec)?;
        vm.start()?;
        vm.wait_booted(MACHINE_BOOTED_WITHIN)?;
        vm.shell(&format!("{MCD_OS} guard --install"))?;
        Ok(Self { vm, host_lab })
    }

    /// Makes a commit and puts it into the registry, as a native container image; its pull spec.
    pub(crate) fn push(&self, overlay: &Overlay) -> Result<String> {
        self.host_lab.push(&self.host_lab.tree.commit(overlay)?)
    }

    /// Stores a plan as the daemon does; its directory.
    pub(crate) fn put(&self, bundle: &Bundle) -> Result<String> {
        let dir = tempfile::tempdir()?;
        let root = Root::open(dir.path(), None)?;
        JournalStore::new(&root).put_plan(bundle)?;
        let directory = JournalStore::plan_directory(&bundle.plan.attempt)?;
        let mut script = "set -e; umask 077\n".to_owned();
        write_into(
            &mut script,
            &dir.path().join(directory.trim_start_matches('/')),
            &directory,
        )?;
        self.vm.shell(&script)?;
        Ok(directory)
    }

    /// Fetches, rehearses and applies; the machine waits for a reboot then.
    pub(crate) fn switch(&self, bundle: &Bundle, image: &str) -> Result<()> {
        self.switch_by(bundle, image, &["rehearse", "apply"])
    }

    /// Fetches, and runs these verbs on the plan, of which the last applies it.
    pub(crate) fn switch_by(&self, bundle: &Bundle, image: &str, verbs: &[&str]) -> Result<()> {
        let directory = self.put(bundle)?;
        let (apply, first) = verbs.split_last().context("no verb applies the plan")?;
        let mut script = format!("set -e; {MCD_OS} fetch {image}\n");
        for verb in first {
            writeln!(script, "{MCD_OS} {verb} {directory}")?;
        }
        writeln!(script, "{MCD_OS} {apply} {directory} || [ $? = 4 ]")?;
        self.vm.shell(&script)?;
        Ok(())
    }

    /// Runs a verb up to the moment at which a condition of the shell holds, given some functions
    /// of its. There it stands still.
    pub(crate) fn freeze(&self, functions: &str, verb: &str, when: &str) -> Result<()> {
        let script = format!(
            "{functions}\n{MCD_OS} {verb} </dev/null >/run/verb.log 2>&1 & verb=$!\n\
             until {when}; do kill -0 $verb || {{ cat /run/verb.log >&2; exit 1; }}; done\n\
             kill -STOP $verb"
        );
        self.vm
            .shell(&script)
            .with_context(|| format!("{when:?} was never so"))?;
        Ok(())
    }

    /// Waits until the machine is up, nothing is under way, and the guard is done.
    pub(crate) fn journal_under_way(&mut self) -> Result<VmBoot> {
        let pause = Duration::from_millis(500);
        let vm = &mut self.vm;
        let settled = until_blocking(
            "the machine to settle",
            MACHINE_BOOTED_WITHIN,
            pause,
            || {
                let boot = vm.wait_booted(MACHINE_BOOTED_WITHIN)?;
                let rest = vm.shell(
                    "test ! -e /var/lib/slipway/journal.json && \
                 ! systemctl is-active slipway-guard slipway-verify | grep -qE '^(de)?activ'",
                );
                Ok(rest.map(|_| boot).map_err(|error| format!("{error:#}")))
            },
        );
        settled.with_context(|| self.log())
    }

    /// What the machine says of itself.
    pub(crate) fn view(&self) -> Result<Value> {
        let text = self.vm.shell(&format!("{MCD_OS} deployments --json"))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// What it is: its OS, its kernel's arguments, and what updates write.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let text = self.vm.shell(
            "cd /; . /etc/os-release; echo \"$OSTREE_VERSION\"; sed 's/ /\\n/g' /proc/cmdline | grep -v ostree=\n\
             shared=$(ls -d var/home var/usrlocal var/lib/managed 2>/dev/null)\n\
             find etc $shared -printf '%p %y %m %U:%G %l\\n'\n\
             find etc $shared -type f -exec sha256sum {} +",
        )?;
        let lines = text.lines();
        Ok(lines
            .filter(|line| !NOISE.iter().any(|noise| line.contains(noise)))
            .map(ToOwned::to_owned)
            .collect())
    }

    /// What the guard said in this boot.
    pub(crate) fn log(&self) -> String {
        let units = "-u slipway-guard -u slipway-verify";
        self.vm
            .shell(&format!("journalctl -b -o cat --no-pager {units}"))
            .unwrap_or_else(|error| format!("{error:#}"))
    }
}

/// Lines of a shell that write what is below a folder of this machine.
fn write_into(script: &mut String, from: &Path, to: &str) -> Result<()> {
    writeln!(script, "mkdir -p {to}")?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let to = format!("{to}/{}", path.file_name().unwrap_or_default().display());
        if path.is_dir() {
            write_into(script, &path, &to)?;
        } else {
            let bytes = BASE64_STANDARD.encode(fs::read(&path)?);
            writeln!(script, "echo {bytes} | base64 -d >{to}")?;
        }
    }
    Ok(())
}

/// The lines in which two snapshots differ.
pub(crate) fn differences(one: &Snapshot, other: &Snapshot) -> Vec<String> {
    one.symmetric_difference(other).cloned().collect()
}
