//! `mcd host-check`: whether a host has what Slipway needs. It reads and changes nothing.
//!
//! - `boot`: the deployment, its boot loader, room for another one, SELinux
//! - `programs`: what is run on the host, and by which libraries and processor
//! - `services`: systemd, the kubelet, other programs that update the host
//! - `provision`: what the host is recorded to be in

mod boot;
mod programs;
mod provision;
mod services;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use chassis::report::Chain;
use clap::Args as ClapArgs;
use host::execute::{RunningUnits, Units as _};
use host::files::Root;
use host::{boot_loader, process};
use node_update::host_report::{HostCheck, HostFinding, HostReport, HostVerdict};

use crate::{daemon, updaters};

/// What a host that has no `mcd` yet is examined by: the bus of the host, from a container.
const BUS: &str = "run/dbus/system_bus_socket";

/// Exit code of a probe that could not start the helper, as of a shell.
const NOT_STARTED: u8 = 127;

/// Checks whether a host has what Slipway needs, and changes nothing
///
/// For a pod that has the host's root, which may be read-only, and its process ids. Prints one
/// finding for each check as JSON; a check that could not be made counts as missing. Exit codes: 0
/// all was checked, whatever was found; 1 nothing could be checked; 2 usage.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Where the host's root is mounted
    #[arg(long, default_value = "/rootfs")]
    root_mount: PathBuf,
    /// The helper that the host has to run
    #[arg(long, default_value = "/usr/bin/mcd-os")]
    helper: PathBuf,
    /// Becomes the helper, with the host's root as its own
    #[arg(long, hide = true)]
    probe: bool,
}

/// What a check has found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Judged {
    verdict: HostVerdict,
    message: String,
}

impl Judged {
    fn ok(message: impl Into<String>) -> Self {
        Self::new(HostVerdict::Ok, message)
    }

    fn warning(message: impl Into<String>) -> Self {
        Self::new(HostVerdict::Warning, message)
    }

    fn missing(message: impl Into<String>) -> Self {
        Self::new(HostVerdict::Missing, message)
    }

    fn new(verdict: HostVerdict, message: impl Into<String>) -> Self {
        Self {
            verdict,
            message: message.into(),
        }
    }
}

/// Checks the host, and prints what was found.
///
/// # Errors
/// Where the host's root cannot be opened.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.probe {
        let error = process::become_in(&args.root_mount, &args.helper, &["--version"]);
        writeln!(std::io::stderr(), "{}", Chain(&error)).context("cannot print")?;
        return Ok(ExitCode::from(NOT_STARTED));
    }
    let root = Root::open(&args.root_mount, None).context("cannot open the host's root")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let mut units = RunningUnits::at(args.root_mount.join(BUS), &runtime);
    let mount = &args.root_mount;
    let mut findings = Vec::new();
    for check in HostCheck::ALL {
        let judged = judge(check, args, &root, mount, &mut units);
        findings.push(finding(check, judged));
    }
    let text = serde_json::to_string(&HostReport::new(findings))?;
    writeln!(std::io::stdout(), "{text}").context("cannot print")?;
    Ok(ExitCode::SUCCESS)
}

fn judge(
    check: HostCheck,
    args: &Args,
    root: &Root,
    mount: &Path,
    units: &mut RunningUnits<'_>,
) -> anyhow::Result<Judged> {
    match check {
        HostCheck::Ostree => boot::ostree(root),
        HostCheck::Libraries => Ok(programs::libraries(programs::probe(mount, &args.helper))),
        HostCheck::Systemd => services::systemd(root, |unit| Ok(units.active_state(unit)?)),
        HostCheck::Skopeo => programs::skopeo(root),
        HostCheck::Kubelet => Ok(services::kubelet(&daemon::reader(mount))),
        HostCheck::BootLoader => {
            let counting = boot_loader::counting(root)?;
            Ok(boot::loader(counting, boot::has_entries(root)?))
        }
        HostCheck::Selinux => boot::selinux(mount),
        HostCheck::Updaters => Ok(services::updaters(&updaters::found(units)?)),
        HostCheck::Record => Ok(provision::record(root)),
        HostCheck::Room => Ok(boot::room(&boot::measure(mount)?)),
        HostCheck::Architecture => programs::architecture(root, &args.helper),
    }
}

/// What was found, or why it could not be found out: unknown is as good as missing.
fn finding(check: HostCheck, judged: anyhow::Result<Judged>) -> HostFinding {
    let Judged { verdict, message } = judged.unwrap_or_else(|error| {
        let why = Chain(error.as_ref());
        Judged::missing(format!("this could not be checked: {why}"))
    });
    HostFinding {
        check,
        result: verdict,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_checked_is_missing() {
        let error = anyhow::anyhow!("no such file").context("cannot read /x");
        let finding = finding(HostCheck::Room, Err(error));
        assert_eq!(finding.result, HostVerdict::Missing);
        assert_eq!(
            finding.message,
            "this could not be checked: cannot read /x: no such file"
        );
    }

    #[test]
    fn an_empty_root_lacks_all_that_can_be_read_from_files() {
        let host = tempfile::tempdir().unwrap();
        let root = Root::open(host.path(), None).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let mut units = RunningUnits::at(host.path().join(BUS), &runtime);
        let args = Args {
            root_mount: host.path().to_owned(),
            helper: PathBuf::from("/proc/self/exe"),
            probe: false,
        };
        for check in HostCheck::ALL {
            // It would run this test as a probe.
            if check == HostCheck::Libraries {
                continue;
            }
            let judged = judge(check, &args, &root, host.path(), &mut units);
            let finding = finding(check, judged);
            assert_eq!(finding.result, HostVerdict::Missing, "{finding:?}");
            assert!(!finding.message.is_empty());
        }
    }
}
