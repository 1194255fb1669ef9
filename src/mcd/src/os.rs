//! `mcd-os`: fetches, rehearses, applies, verifies and rolls back, on the host and without a
//! cluster.
//!
//! Small and synchronous from outside: a verb, a report, an exit code. The daemon runs it as a
//! transient unit, so that a killed pod kills no transaction; the guard and verify units and
//! `mcd pivot` run it too.

mod apply;
mod cli;
mod context;
mod deadline;
mod fetch;
mod guard;
mod install;
mod limited_skopeo;
mod listing;
mod pin;
mod previous;
mod pull_settings;
mod rehearse;
mod remove;
mod report;
mod self_check;
mod verify;

use std::process::ExitCode;

use anyhow::Context as _;
use chassis::report::Chain;
use tracing::error;

pub use cli::Cli;

use crate::protocol::{HelperReport, Verb};
use context::{Context, lock_deployments};

/// Runs a verb, writes its report, and returns its exit code.
pub fn run(cli: &Cli) -> ExitCode {
    // A subscriber that is there already is that of a test.
    if tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .try_init()
        .is_err()
    {
        tracing::debug!("logs go where they went");
    }
    let report = act(&cli.verb).unwrap_or_else(|failure| HelperReport::of_failure(&failure));
    for reason in &report.reasons {
        error!(outcome = %report.outcome, "{reason}");
    }
    let written = cli
        .report
        .as_deref()
        .map_or(Ok(()), |path| report.write(path));
    if let Err(failure) = written {
        error!(error = %Chain(&*failure), "report was not written");
        return ExitCode::FAILURE;
    }
    report.outcome.into()
}

fn act(verb: &Verb) -> anyhow::Result<HelperReport> {
    if verb.writes_deployments() {
        host::ostree::enter_namespace().context("cannot prepare to write deployments")?;
    }
    let context = Context::open()?;
    match verb {
        Verb::Fetch {
            image,
            plan,
            limit_file,
        } => fetch::run(&context, image, plan.as_deref(), limit_file.as_deref()),
        Verb::LimitedSkopeo {
            limit_file,
            arguments,
        } => limited_skopeo::run(limit_file, arguments),
        Verb::Rehearse { plan } => rehearse::run(&context, plan),
        Verb::Apply { plan, stay } => apply::run(&context, plan, *stay),
        Verb::Rollback => apply::revert_or_roll_back(&context),
        Verb::BootPrevious => previous::run(&context),
        Verb::Deployments { json } => listing::run(&context, *json),
        Verb::Pin { request } => pin::run(&context, request),
        Verb::Guard(guard) if guard.install => install::run(&context),
        Verb::Guard(guard) if guard.verify => Ok(guard::verify(&context, guard.deadline())),
        Verb::Guard(_) => guard::run(&context),
        Verb::SyncEachObject => {
            lock_deployments()?.sync_each_object()?;
            Ok(HelperReport::done())
        }
        Verb::Remove => remove::run(&context),
        Verb::Verify { drift } => verify::run(&context, *drift),
        Verb::SelfCheck { root } => self_check::run(&context, root.as_deref()),
    }
}
