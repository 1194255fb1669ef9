//! `mcd status`: one host, as it sees itself, without a cluster.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args as ClapArgs;
use host::journal::{AttemptOutcome, JournalStage};
use node_update::plan::Target;
use serde::Serialize;

use crate::deployments::{Deployment, View};
use crate::local_helper::Helper;

/// What a host is in that no cluster has configured yet.
const NO_CONFIGURATION: &str = "no configuration";

/// Shows the deployments of this host, what is under way, and how the last update ended
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// The status as programs read it.
#[derive(Debug, Serialize)]
struct Status {
    /// What the host is doing.
    phase: String,
    /// Why; null where there is nothing to say.
    reason: Option<String>,
    /// Whether SELinux enforces a policy without Slipway's module; null where it cannot be read.
    lacks_selinux_module: Option<bool>,
    #[serde(flatten)]
    view: View,
}

/// Prints the host's status.
///
/// # Errors
/// Where `mcd-os` is not to be had, or cannot read the host.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let view = Helper::find()?.view()?;
    let lacks_module = host::selinux::lacks_module(Path::new("/")).ok();
    let shown = if args.json {
        let (phase, reason) = phase(&view);
        serde_json::to_string_pretty(&Status {
            phase,
            reason,
            lacks_selinux_module: lacks_module,
            view,
        })?
    } else {
        let mut text = render(&view);
        if let Some(why) = selinux(lacks_module) {
            writeln!(text, "{:<10} {why}", "selinux").context("cannot print")?;
        }
        text
    };
    writeln!(std::io::stdout(), "{}", shown.trim_end()).context("cannot print")?;
    Ok(ExitCode::SUCCESS)
}

/// The finding about the host's SELinux policy.
const fn selinux(lacks_module: Option<bool>) -> Option<&'static str> {
    match lacks_module {
        Some(false) => None,
        Some(true) => Some("enforcing without Slipway's policy module (selinux/README.md)"),
        None => Some("the kernel does not say whether it has Slipway's policy module"),
    }
}

/// The status as people read it.
pub fn render(view: &View) -> String {
    let mut text = String::new();
    let (phase, reason) = phase(view);
    let mut line = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        writeln!(text, "{name:<10} {value}").unwrap_or_default();
    };
    line("phase", &phase);
    if let Some(reason) = reason {
        line("reason", &reason);
    }
    line("booted", &describe(&view.booted));
    if let Some(next) = &view.next {
        line("next", &describe(next));
    }
    if let Some(rollback) = &view.rollback {
        line("rollback", &describe(rollback));
    }
    if let Some(last) = &view.last {
        let to = name(&last.to);
        line(
            "last",
            &format!(
                "{} to {to}, {} at {}",
                last.attempt,
                last.outcome.as_str(),
                last.at
            ),
        );
    }
    if let Some(held) = &view.held {
        line("held", &format!("{}: {}", name(&held.target()), held.cause));
    }
    for what in &view.without_effect {
        line("no effect", what);
    }
    text
}

/// What the host is doing, and why, in the daemon's words for its phases.
fn phase(view: &View) -> (String, Option<String>) {
    if let Some(journal) = &view.journal {
        let to = name(&journal.to);
        let since = &journal.since;
        let (phase, cause) = match &journal.stage {
            JournalStage::Applying | JournalStage::Switching => {
                (format!("Applying {to}, since {since}"), None)
            }
            JournalStage::Switched => {
                let is_waiting = journal.boot_id == view.boot_id;
                let reason = "the boot loader names the target; a reboot completes it";
                (
                    format!("Rebooting into {to}, since {since}"),
                    is_waiting.then(|| reason.to_owned()),
                )
            }
            JournalStage::Booted => {
                let boots = journal.boots;
                (format!("Verifying {to}, boot {boots}, since {since}"), None)
            }
            JournalStage::RollingBack { cause } => (
                format!("RollingBack from {to}, since {since}"),
                Some(cause.clone()),
            ),
            JournalStage::Failed { cause } => (
                format!("Degraded in {to}, since {since}"),
                Some(cause.clone()),
            ),
        };
        return (phase, cause);
    }
    if let Some(held) = &view.held {
        return (
            format!("Held at {}", name(&held.target())),
            Some(held.cause.clone()),
        );
    }
    if let Some(error) = &view.booted.record_error {
        return ("Degraded".to_owned(), Some(error.clone()));
    }
    let last = view.last.as_ref();
    let last = last.filter(|last| last.outcome != AttemptOutcome::Verified);
    ("Idle".to_owned(), last.and_then(|last| last.cause.clone()))
}

fn describe(deployment: &Deployment) -> String {
    let config = match (&deployment.config, &deployment.record_error) {
        (Some(config), _) => name(&Target::of_config(config)),
        (None, Some(_)) => "unknown configuration".to_owned(),
        (None, None) => NO_CONFIGURATION.to_owned(),
    };
    let version = deployment.version.as_deref().unwrap_or("no version");
    let short: String = deployment.checksum.chars().take(12).collect();
    let mut text = format!("{config}, OS {version} ({short}.{})", deployment.serial);
    if let Some(origin) = &deployment.origin {
        // Writing to a String cannot fail.
        write!(text, " from {origin}").unwrap_or_default();
    }
    text
}

/// A target as people read it; the image only where it is a layered one.
fn name(target: &Target) -> String {
    if target.config.is_empty() {
        NO_CONFIGURATION.to_owned()
    } else {
        target.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployments::{Ended, HeldView, UnderWay};

    fn deployment(config: &str, version: &str) -> Deployment {
        Deployment {
            checksum: "0123456789abcdef".repeat(4),
            serial: 1,
            version: Some(version.to_owned()),
            config: Some(config.to_owned()),
            image: None,
            record_error: None,
            os_image: None,
            origin: Some(format!("registry/os:{version}")),
            kernel_arguments: Vec::new(),
        }
    }

    fn target(config: &str) -> Target {
        Target {
            config: config.to_owned(),
            image: None,
        }
    }

    fn idle() -> View {
        View {
            boot_id: "boot".to_owned(),
            booted: deployment("rendered-worker-old", "1"),
            next: None,
            rollback: None,
            journal: None,
            last: None,
            held: None,
            without_effect: Vec::new(),
        }
    }

    #[test]
    fn what_a_host_cannot_have_of_its_configuration_is_shown() {
        let mut view = idle();
        let what = "spec.config.storage.disks is not what the host was installed with";
        view.without_effect = vec![what.to_owned()];
        let text = render(&view);
        assert!(text.ends_with(&format!("no effect  {what}\n")), "{text}");
    }

    #[test]
    fn only_a_policy_without_the_module_is_mentioned() {
        assert_eq!(selinux(Some(false)), None);
        assert!(selinux(Some(true)).unwrap().contains("enforcing without"));
        assert!(selinux(None).is_some());
    }

    #[test]
    fn an_idle_host_shows_what_it_runs() {
        assert_eq!(
            render(&idle()),
            "phase      Idle\n\
             booted     rendered-worker-old, OS 1 (0123456789ab.1) from registry/os:1\n"
        );
    }

    #[test]
    fn host_with_a_broken_record_is_degraded() {
        let mut view = idle();
        view.booted.config = None;
        view.booted.record_error = Some("broken record /etc/x: not a regular file".to_owned());
        assert_eq!(
            render(&view),
            "phase      Degraded\n\
             reason     broken record /etc/x: not a regular file\n\
             booted     unknown configuration, OS 1 (0123456789ab.1) from registry/os:1\n"
        );
    }

    #[test]
    fn a_switched_host_says_that_it_waits_for_a_reboot() {
        let mut view = idle();
        view.next = Some(deployment("rendered-worker-new", "2"));
        view.journal = Some(UnderWay {
            attempt: "a-1".to_owned(),
            stage: JournalStage::Switched,
            from: target("rendered-worker-old"),
            to: target("rendered-worker-new"),
            boots: 0,
            boot_id: "boot".to_owned(),
            since: "2026-01-01T00:00:00Z".to_owned(),
        });
        assert_eq!(
            render(&view),
            "phase      Rebooting into rendered-worker-new, since 2026-01-01T00:00:00Z\n\
             reason     the boot loader names the target; a reboot completes it\n\
             booted     rendered-worker-old, OS 1 (0123456789ab.1) from registry/os:1\n\
             next       rendered-worker-new, OS 2 (0123456789ab.1) from registry/os:2\n"
        );
    }

    #[test]
    fn a_held_target_is_named_with_its_cause() {
        let mut view = idle();
        view.held = Some(HeldView {
            config: "rendered-worker-new".to_owned(),
            image: Some("registry/os@sha256:2".to_owned()),
            cause: "unit \"kubelet.service\" is not active, but failed".to_owned(),
        });
        view.last = Some(Ended {
            attempt: "a-1".to_owned(),
            outcome: AttemptOutcome::RolledBack,
            from: target("rendered-worker-old"),
            to: target("rendered-worker-new"),
            boot_id: "boot".to_owned(),
            at: "2026-01-01T00:00:00Z".to_owned(),
            cause: Some("unit \"kubelet.service\" is not active, but failed".to_owned()),
        });
        let text = render(&view);
        assert!(
            text.starts_with(
                "phase      Held at rendered-worker-new registry/os@sha256:2\nreason     unit"
            ),
            "{text}"
        );
        assert!(
            text.contains("last       a-1 to rendered-worker-new, rolled-back at 2026"),
            "{text}"
        );
    }
}
