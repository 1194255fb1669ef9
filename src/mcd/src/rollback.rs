//! `mcd rollback`: an administrator's way back on this host, without a cluster.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args as ClapArgs;
use host::files::Root;
use host::journal::{HeldTarget, JournalStore, SCHEMA};
use host::record::{self, Record};
use jiff::Timestamp;
use node_update::disruption::Policies;
use node_update::plan::{Attempt, Bundle};
use node_update::planner::{self, Facts, Request, Side};
use node_update::reconcile::Exempt;
use node_update::verify;

use crate::by_hand;
use crate::deployments::Deployment;
use crate::local_helper::{Helper, exit_code, reboot};
use crate::protocol::{HelperOutcome, PreviousDetails, Verb};

/// Reverts what is pending on this host, or else leads to its previous deployment
///
/// The previous deployment has its own configuration, and the target that is left is not tried
/// again until it is released. Where the configurations differ in what deployments share, as in
/// files outside /etc, an update leads back, and a new deployment has the previous OS and
/// configuration. Exit codes: 0 done, 1 failed, 2 usage, 3 refused (nothing was changed), 4 needs
/// reboot.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Reboots into it, where that is needed.
    #[arg(short, long)]
    reboot: bool,
}

/// Rolls the host back.
///
/// # Errors
/// Where the helper is not to be had; what the helper says goes to standard error, and its exit
/// code is returned.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let helper = Helper::find()?;
    let view = helper.view()?;
    let verb = if view.journal.is_some() {
        Verb::Rollback
    } else {
        Verb::BootPrevious
    };
    let root = Root::open(Path::new("/"), None)?;
    let attempt = by_hand::attempt(by_hand::ROLLBACK, Timestamp::now());
    let report = by_hand::act(&helper, &root, &attempt, &verb)?;
    match report.outcome {
        HelperOutcome::NeedsReboot if args.reboot => {
            reboot("the boot loader names the previous OS, but the host does not reboot")
        }
        HelperOutcome::Rejected if verb == Verb::BootPrevious => {
            let Ok(PreviousDetails { previous }) = report.details() else {
                return exit_code(HelperOutcome::Rejected.exit_code().into());
            };
            let previous = record_of(&Root::open(&previous, None)?)?;
            let back = Back {
                helper: &helper,
                root: &root,
                attempt,
            };
            back.update(&view.booted, &previous, args.reboot)
        }
        outcome @ (HelperOutcome::Done
        | HelperOutcome::Failed
        | HelperOutcome::Rejected
        | HelperOutcome::NeedsReboot) => exit_code(outcome.exit_code().into()),
    }
}

/// The way back by an update.
struct Back<'a> {
    helper: &'a Helper,
    root: &'a Root,
    attempt: Attempt,
}

impl Back<'_> {
    fn update(self, booted: &Deployment, to: &Record, reboots: bool) -> anyhow::Result<ExitCode> {
        let from = record_of(self.root)?;
        let bundle = plan(&self.attempt, &from, to, booted)?;
        let to = &bundle.plan.to;
        writeln!(std::io::stdout(), "an update leads back to {to}").context("cannot print")?;
        let image = bundle.plan.deploy.as_ref();
        if let Some(image) = image.and_then(|deploy| deploy.image.as_deref())
            && let Err(code) = by_hand::fetch(self.helper, self.root, &self.attempt, image)?
        {
            return Ok(code);
        }
        let store = JournalStore::new(self.root);
        let held = store.held()?;
        // Before the update: a daemon must not lead forward again. An update that does not come
        // about leaves what was held.
        store.put_held(&HeldTarget {
            schema: SCHEMA,
            target: from.into_target(),
            cause: "an administrator rolled the host back".to_owned(),
            since: Timestamp::now(),
        })?;
        let code = by_hand::carry_out(self.helper, self.root, &bundle, reboots);
        if store.journal()?.is_none() {
            match held {
                Some(held) => store.put_held(&held)?,
                None => store.clear_held()?,
            }
        }
        code
    }
}

fn record_of(root: &Root) -> anyhow::Result<Record> {
    record::read(root)?.context("the deployment has no record")
}

/// The plan that leads from one record to another, by a reboot. What was changed by hand stops it,
/// as it stops the daemon.
fn plan(
    attempt: &Attempt,
    from: &Record,
    to: &Record,
    booted: &Deployment,
) -> anyhow::Result<Bundle> {
    let (old, new) = (from.machine_config()?, to.machine_config()?);
    let request = Request {
        attempt,
        from: Side {
            target: from.target(),
            config: &old,
        },
        to: Side {
            target: to.target(),
            config: &new,
        },
        facts: &Facts {
            booted_image: booted.os_image.clone(),
            kernel_arguments: Some(booted.kernel_arguments.clone()),
            ..Facts::default()
        },
        policies: &Policies::default(),
        exempt: Exempt::default(),
        force: true,
    };
    let outcome = planner::plan(&request).map_err(|rejections| anyhow::anyhow!("{rejections}"))?;
    let mut bundle = outcome.bundle;
    bundle.plan.drain = false;
    bundle.plan.origin = verify::files_and_units(&old);
    bundle.plan.because = vec!["an administrator rolled the host back".to_owned()];
    Ok(bundle)
}
