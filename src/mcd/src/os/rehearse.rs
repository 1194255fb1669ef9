//! `rehearse`: everything that can be checked before the node is out of service.

use anyhow::Context as _;
use chassis::report::Chain;
use host::execute::{
    self, Preflight, RunningUnits, StepExecutor, Sysroot as _, Units, describe, reboot,
};
use host::files::Root;
use host::journal::JournalStore;
use host::observe;
use host::systemd::{Offline, links};
use node_update::paths::belongs_to_image;
use node_update::plan::{Action, Bundle, Expectation, Plan, QUADLETS, Route};
use node_update::well_known;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use super::context::{self, Context, lock_deployments};
use super::self_check;
use crate::protocol::HelperReport;
use crate::updaters;

pub(super) fn run(context: &Context, directory: &str) -> anyhow::Result<HelperReport> {
    let _lock = context.lock()?;
    let store = context.store();
    if let Some(refusal) = context::refused_while_under_way(&store)? {
        return Ok(refusal);
    }
    let bundle = take(&store, directory)?;
    let reasons = match bundle.plan.route {
        Route::Live => rehearse_live(context, &store, &bundle.plan)?,
        Route::Reboot => rehearse_reboot(context, &store, &bundle.plan)?,
    };
    if reasons.is_empty() {
        info!(attempt = bundle.plan.attempt.0, "plan can be applied");
        return Ok(HelperReport::done());
    }
    Ok(HelperReport::refused(reasons))
}

/// Reads a plan, and has it in the store if it is elsewhere. Plans of other attempts, which were
/// given up before they were begun, go.
pub(super) fn take(store: &JournalStore<'_>, directory: &str) -> anyhow::Result<Bundle> {
    let bundle = store.read_plan(directory).context("cannot read the plan")?;
    let attempt = &bundle.plan.attempt;
    if directory.trim_end_matches('/') != JournalStore::plan_directory(attempt)? {
        store.put_plan(&bundle)?;
    }
    for other in store.plans()? {
        if other != *attempt {
            store.discard_plan(&other)?;
        }
    }
    Ok(bundle)
}

fn rehearse_live(
    context: &Context,
    store: &JournalStore<'_>,
    plan: &Plan,
) -> anyhow::Result<Vec<String>> {
    let mut units = RunningUnits::new(&context.runtime);
    let mut reasons = Vec::new();
    let mut preflight = Preflight::default();
    let written: Vec<&str> = plan
        .steps
        .iter()
        .filter_map(|step| written(&step.action))
        .collect();
    for step in &plan.steps {
        let mut executor =
            StepExecutor::new(&context.root, &mut units, store, plan.attempt.clone());
        if let Err(error) = executor.check(&step.action, &mut preflight) {
            reasons.push(Chain(&error).to_string());
        }
        let is_written = |unit: &str| {
            let unit_path = format!("{}/{unit}", well_known::UNITS);
            written.contains(&unit_path.as_str())
        };
        // What a generator makes is there once it has run.
        let is_generated = || written.iter().any(|path| path.starts_with(QUADLETS));
        if let Action::RestartUnit { unit } | Action::ReloadUnit { unit } = &step.action
            && !links::exists(&context.root, unit)?
            && !is_written(unit)
            && !is_written(&links::template_of(unit))
            && !is_generated()
        {
            reasons.push(format!(
                "{} is to be told of the change and has no file",
                describe(&step.action)
            ));
        }
    }
    Ok(reasons)
}

fn rehearse_reboot(
    context: &Context,
    store: &JournalStore<'_>,
    plan: &Plan,
) -> anyhow::Result<Vec<String>> {
    let Some(deploy) = &plan.deploy else {
        return Ok(vec![Chain(&execute::Error::NoDeploy).to_string()]);
    };
    let mut reasons = updaters::found(&mut RunningUnits::new(&context.runtime))?;
    // After SIGTERM, it comes to its end: stopped halfway, it would leave a deployment to the next
    // one.
    let _told = {
        let _runtime = context.runtime.enter();
        signal(SignalKind::terminate()).context("cannot hear of SIGTERM")?
    };
    let mut deployments = lock_deployments()?;
    reasons.extend(deployments.rejections(deploy)?);
    if !reasons.is_empty() {
        return Ok(reasons);
    }
    let rehearsed = deployments.deploy(deploy).and_then(|made| {
        let mut units = Offline::new(made.root.path().to_owned());
        reboot::write_into(&made, &mut units, store, plan)?;
        let mut reasons = lacking(&made.root, &mut units, plan);
        reasons.extend(self_check::fails_in(made.root.path()));
        Ok(reasons)
    });
    // Thrown away in any case; what is left of one that could not be made, too.
    deployments.cleanup()?;
    // Whatever keeps this plan from being carried out on this host now does so after the drain too.
    Ok(rehearsed.unwrap_or_else(|error| vec![Chain(&error).to_string()]))
}

/// What of the target's files its image has to bring, and does not: no step writes them.
fn lacking(root: &Root, units: &mut dyn Units, plan: &Plan) -> Vec<String> {
    let is_built_in = |expected: &&Expectation| match expected {
        Expectation::File { path, .. } => belongs_to_image(path),
        Expectation::Record { .. }
        | Expectation::KernelArgument { .. }
        | Expectation::Masked { .. }
        | Expectation::Enabled { .. }
        | Expectation::Runs { .. }
        | Expectation::Started { .. }
        | Expectation::Active { .. } => false,
    };
    let expected: Vec<Expectation> = plan.expect.iter().filter(is_built_in).cloned().collect();
    let found = observe::mismatches(root, units, &expected);
    let image = plan.to.image.as_deref().unwrap_or("the OS image");
    found
        .iter()
        .map(|mismatch| format!("{image} is not built for the configuration: {mismatch}"))
        .collect()
}

fn written(action: &Action) -> Option<&str> {
    if let Action::WriteFile { path, .. } = action {
        Some(path)
    } else {
        None
    }
}
