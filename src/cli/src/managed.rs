//! `slipway managed`: upgrades on a date, which the managed upgrade operator carries out.
//!
//! Steps, windows, gates and the forecast are the operator's own plan: nothing of it is decided
//! here a second time.
//!
//! - `arguments`: verbs and options
//! - `requests`: requests to the cluster

pub mod arguments;
mod requests;

use jiff::Timestamp;
use serde_json::json;

use self::arguments::{ManagedArgs, ManagedVerb};
use self::requests::ManagedRequests;
use crate::decide::managed::request::{self, ScheduleDecision};
use crate::decide::managed::view::ManagedView;
use crate::failure::Ending;
use crate::output::{show, warn};

pub(crate) async fn run(arguments: ManagedArgs) -> anyhow::Result<Ending> {
    let form = arguments.cluster.output;
    let requests = ManagedRequests::new(&arguments.cluster)?;
    let now = Timestamp::now();
    let (message, warnings, is_changed) = match &arguments.verb {
        ManagedVerb::Plan | ManagedVerb::Status => {
            let (upgrade, plan) = requests.read().await?;
            let view = ManagedView::new(upgrade.as_ref(), plan, now);
            let is_plan = matches!(arguments.verb, ManagedVerb::Plan);
            show(form, &view, || view.text(is_plan))?;
            return Ok(if view.needs_attention() {
                Ending::NeedsAttention
            } else {
                Ending::Done
            });
        }
        ManagedVerb::Schedule { wish, dry_run } => {
            let present = requests.upgrade().await?;
            let version = requests.version().await?;
            let decision = wish.decide(present.as_ref(), &version, now)?;
            let is_changed = match &decision.change {
                ScheduleDecision::Nothing => false,
                ScheduleDecision::Create(object) => {
                    requests.create(object, *dry_run).await?;
                    !dry_run
                }
                ScheduleDecision::Change(patch) => {
                    requests.change(patch, *dry_run).await?;
                    !dry_run
                }
            };
            (decision.message, decision.warnings, is_changed)
        }
        ManagedVerb::Cancel { dry_run } => match requests.upgrade().await? {
            None => (
                "info: No upgrade is scheduled\n".to_owned(),
                Vec::new(),
                false,
            ),
            Some(upgrade) => {
                let version = requests.version().await?;
                let message = request::cancel(&upgrade, &version)?;
                requests.delete(&upgrade, *dry_run).await?;
                (message, Vec::new(), !dry_run)
            }
        },
    };
    for warning in &warnings {
        warn(warning);
    }
    let is_dry = arguments.is_dry();
    let done = json!({
        "changed": is_changed, "message": message.trim_end(), "warnings": warnings
    });
    show(form, &done, || {
        let dry = "info: Dry run: nothing was changed\n";
        format!("{message}{}", if is_dry { dry } else { "" })
    })?;
    Ok(Ending::Done)
}
