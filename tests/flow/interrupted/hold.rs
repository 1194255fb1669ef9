//! Holding a node in a phase that would end on its own: what a test does meanwhile does not race
//! it.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use lab::host::Host;
use testbed::single_host::{DEADLINE_FILE, MCD_OS};
use testbed::{NodeSpec, SOON, until_blocking};

/// Seconds that a booted target has to prove itself. The daemon asks after 10 what does not hold.
const VERIFIED_WITHIN_SECS: u32 = 20;

/// Where a file holds what it is named after; the deployments of a host share it.
const DIRECTORY: &str = "/var/lib/lab-hold";

/// A phase in which a node can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Before the helper begins to apply.
    Applying,
    /// After logind took the request, before the host goes down.
    Rebooting,
    /// In the target, before the helper begins to prove it.
    Verifying,
}

impl Hold {
    pub(crate) const ALL: [Self; 3] = [Self::Applying, Self::Rebooting, Self::Verifying];

    /// The phase's name.
    pub(crate) const fn phase(self) -> &'static str {
        match self {
            Self::Applying => "Applying",
            Self::Rebooting => "Rebooting",
            Self::Verifying => "Verifying",
        }
    }

    /// Has a host stay in the phase once it comes to it.
    pub(crate) fn hold(self, host: &Host) -> Result<()> {
        host.run(["mkdir", "-p", DIRECTORY])?;
        host.run(["touch", &format!("{DIRECTORY}/{}", self.phase())])?;
        if self == Self::Rebooting {
            inhibit(host)?;
        }
        Ok(())
    }

    /// Lets a host go on, wherever it is; from outside, as it may be going down.
    pub(crate) fn let_go(self, host: &Host) -> Result<()> {
        let below_var = DIRECTORY.trim_start_matches("/var/");
        let file = host.var().join(below_var).join(self.phase());
        if file.exists() {
            fs::remove_file(&file)?;
        }
        Ok(())
    }

    /// A shell's loop that lasts as long as the phase is held.
    fn wait(self) -> String {
        format!(
            "while test -e {DIRECTORY}/{}; do sleep 0.1; done",
            self.phase()
        )
    }
}

/// A node that can be held.
pub(crate) fn holdable(node: NodeSpec) -> NodeSpec {
    // For every transient unit of this name.
    let applying = format!(
        "[Service]\nExecStartPre=/bin/sh -c '{}'\n",
        Hold::Applying.wait()
    );
    // The deadline begins when it is let go. The program is held and not the unit's start, which
    // the boot waits for.
    let verifying = format!(
        "[Service]\nExecStart=\nExecStart=/bin/sh -c '{}; exec {MCD_OS} guard --verify --deadline {VERIFIED_WITHIN_SECS}'\n",
        Hold::Verifying.wait()
    );
    node.file(
        "/etc/systemd/system/slipway-apply-.service.d/10-hold.conf",
        &applying,
    )
    .file(DEADLINE_FILE, &verifying)
    // Longer than anything that is done meanwhile.
    .file(
        "/etc/systemd/logind.conf.d/10-hold.conf",
        "[Login]\nInhibitDelayMaxSec=120\n",
    )
}

/// Asks logind for a delay of the next reboot, and waits until it knows.
fn inhibit(host: &Host) -> Result<()> {
    let inhibits = format!("{DIRECTORY}/inhibits");
    host.run(["rm", "-f", &inhibits])?;
    let script = format!("touch {inhibits}; {}", Hold::Rebooting.wait());
    let run = ["systemd-run", "--quiet", "--collect"];
    let inhibit = [
        "systemd-inhibit",
        "--what=shutdown",
        "--mode=delay",
        "--who=lab",
        "--why=holds",
    ];
    let shell = ["sh", "-c", script.as_str()];
    host.run(run.into_iter().chain(inhibit).chain(shell))?;
    let pause = Duration::from_millis(50);
    until_blocking("an inhibitor", SOON, pause, || {
        let is_there = host.exec(["test", "-e", inhibits.as_str()])?.code == Some(0);
        Ok(is_there
            .then_some(())
            .ok_or_else(|| "there is none".to_owned()))
    })
}
