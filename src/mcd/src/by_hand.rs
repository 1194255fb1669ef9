//! An update that a person starts on this host, without a cluster: `mcd pivot`, and `mcd rollback`
//! where the previous deployment alone does not have all of its configuration. The first boot of a
//! new machine is carried out the same way.

use std::process::ExitCode;

use anyhow::Context as _;
use host::files::Root;
use host::journal::JournalStore;
use jiff::Timestamp;
use node_update::plan::{Attempt, Bundle};
use serde::de::DeserializeOwned;

use crate::local_helper::{Helper, exit_code, reboot};
use crate::protocol::{FetchDetails, Guard, HelperOutcome, HelperReport, Verb};

/// How attempts of `mcd pivot` begin.
pub(crate) const PIVOT: &str = "pivot-";

/// How attempts of `mcd rollback` begin.
pub(crate) const ROLLBACK: &str = "rollback-";

/// How attempts of a new machine's first boot begin. No person makes them.
#[cfg(feature = "node-daemon")]
pub(crate) const FIRST_BOOT: &str = "firstboot-";

/// Where the helper's reports are.
const REPORTS: &str = "/run/slipway";

/// Whether a person made this attempt, and not the daemon.
#[cfg(feature = "node-daemon")]
pub(crate) fn is_by_hand(attempt: &Attempt) -> bool {
    [PIVOT, ROLLBACK]
        .iter()
        .any(|prefix| attempt.0.starts_with(prefix))
}

/// The name of an attempt that begins now.
pub(crate) fn attempt(prefix: &str, now: Timestamp) -> Attempt {
    Attempt(format!("{prefix}{}", now.as_millisecond()))
}

/// Pulls an image, or finds that the host has it; else the exit code of this program.
pub(crate) fn fetch(
    helper: &Helper,
    root: &Root,
    attempt: &Attempt,
    image: &str,
) -> anyhow::Result<Result<FetchDetails, ExitCode>> {
    let verb = Verb::Fetch {
        image: image.to_owned(),
        // The configuration stays, and its settings are in force.
        plan: None,
        limit_file: None,
    };
    let report = act(helper, root, attempt, &verb)?;
    if report.outcome != HelperOutcome::Done {
        return Ok(Err(exit_code(report.outcome.exit_code().into())?));
    }
    Ok(Ok(details(report, &verb)?))
}

/// Rehearses a plan and applies it. A plan that is rejected leaves nothing behind.
pub(crate) fn carry_out(
    helper: &Helper,
    root: &Root,
    bundle: &Bundle,
    reboots: bool,
) -> anyhow::Result<ExitCode> {
    let code = apply(helper, root, bundle)?;
    if reboots && HelperOutcome::of_exit_code(code) == Some(HelperOutcome::NeedsReboot) {
        return reboot("the boot loader names the new OS, but the host does not reboot");
    }
    exit_code(code)
}

/// Does the same without a reboot; the exit code of the verb that ended it.
pub(crate) fn apply(helper: &Helper, root: &Root, bundle: &Bundle) -> anyhow::Result<i32> {
    let attempt = &bundle.plan.attempt;
    let directory = JournalStore::plan_directory(attempt)?;
    let store = JournalStore::new(root);
    store.put_plan(bundle)?;
    let verbs = [
        Verb::Rehearse {
            plan: directory.clone(),
        },
        Verb::Guard(Guard::install()),
        Verb::Apply {
            plan: directory,
            stay: false,
        },
    ];
    for verb in verbs {
        let code = helper.act(&verb)?.code;
        let code = code.with_context(|| format!("mcd-os {} was killed", verb.name()))?;
        if HelperOutcome::of_exit_code(code) != Some(HelperOutcome::Done) {
            if matches!(verb, Verb::Rehearse { .. }) {
                store.discard_plan(attempt)?;
            }
            return Ok(code);
        }
    }
    Ok(HelperOutcome::Done.exit_code().into())
}

/// Has the helper act, and takes its report.
pub(crate) fn act(
    helper: &Helper,
    root: &Root,
    attempt: &Attempt,
    verb: &Verb,
) -> anyhow::Result<HelperReport> {
    let path = format!("{REPORTS}/{}-{}.json", verb.name(), attempt.0);
    let code = helper.act_and_report(verb, &path)?.code;
    code.with_context(|| format!("mcd-os {} was killed", verb.name()))?;
    let bytes = root.read(&path)?;
    let bytes = bytes.with_context(|| format!("mcd-os left no report at {path}"))?;
    root.remove(&root.locate(&path)?)?;
    serde_json::from_slice(&bytes).with_context(|| format!("cannot understand {path}"))
}

/// The details of a report.
pub(crate) fn details<T: DeserializeOwned>(report: HelperReport, verb: &Verb) -> anyhow::Result<T> {
    let details = report.details();
    details.with_context(|| format!("cannot understand the report of mcd-os {}", verb.name()))
}
