//! The plan that clients read is kept: gates are evaluated ahead of their turn, and nothing is
//! changed.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use api::upgrade::plan::RENEWED_SECS;
use api::upgrade::{UpgradePhase, UpgradePlan};
use chassis::report::Chain;
use jiff::{SignedDuration, Timestamp};
use operator::Next;

use super::walking::failing_dependencies;
use super::{Pass, UpgradeOperator};
use upgrade_plan::commence::{self, CommenceStep};
use upgrade_plan::health::{self, HealthFinding};
use upgrade_plan::history::{self, StepOutcome};
use upgrade_plan::pass::VALID;
use upgrade_plan::plan::{self, GateResult, UpgradePace};
use upgrade_plan::release_state::{is_completed, started};
use upgrade_plan::schedule;
use upgrade_plan::step::StepName;
use upgrade_plan::walk::steps;

/// Gates of an upgrade that waits are evaluated so often at most.
const EVALUATE_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// So near to the start they are not evaluated ahead of it: a response may take as long.
const NEAR: SignedDuration = SignedDuration::from_secs(90);

impl UpgradeOperator {
    /// Renews the plan, if that is due. It is for people: a failure is logged, and the upgrade goes
    /// on without it.
    pub(super) async fn keep_plan(&self, pass: &Pass, next: Next) -> Next {
        let uid = pass.upgrade.metadata.uid.as_deref().unwrap_or_default();
        let last = self.last_plan().clone().filter(|(last, _)| {
            (last.uid.as_str(), last.phase.as_str()) == (uid, pass.entry.phase.as_str())
                && last.version == pass.entry.version
        });
        let waits = matches!(pass.entry.phase, UpgradePhase::New | UpgradePhase::Pending);
        let since = |time: Timestamp| pass.now.duration_since(time).abs();
        if waits {
            let left = last
                .as_ref()
                .map(|(_, evaluated)| EVALUATE_EVERY.saturating_sub(since(*evaluated)));
            if let Some(left) = left.filter(SignedDuration::is_positive) {
                return sooner(next, left);
            }
            if starts_soon(pass) {
                return next;
            }
        }
        let plan = self.plan(pass, uid, waits).await;
        let kept = last.map(|(last, _)| last).filter(|last| {
            last.says_the_same(&plan) && since(last.evaluated).as_secs() < RENEWED_SECS
        });
        // What is the same is written seldom.
        let plan = match kept {
            Some(kept) => kept,
            None => match self.requests.apply_plan(&pass.upgrade, &plan).await {
                Ok(()) => plan,
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "cannot keep the plan");
                    return next;
                }
            },
        };
        *self.last_plan() = Some((plan, pass.now));
        next
    }

    fn last_plan(&self) -> std::sync::MutexGuard<'_, Option<(UpgradePlan, Timestamp)>> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn plan(&self, pass: &Pass, uid: &str, waits: bool) -> UpgradePlan {
        let steps = pass.config.steps(&pass.upgrade.spec.r#type);
        let mut ahead = BTreeMap::new();
        if waits {
            for step in &steps {
                if let Some(result) = self.ask(pass, step.name).await {
                    ahead.insert(step.name, result);
                }
            }
        }
        let refused = pass.entry.condition(VALID);
        let refused = refused.filter(|condition| waits && condition.status == false.into());
        let start = schedule::parse_start(&pass.upgrade.spec.upgrade_at).ok();
        let window = start.map(|start| {
            let config = &pass.config;
            schedule::window(start, config.window, &config.windows, pass.now)
        });
        let is_commenced = pass.is_commenced() == Ok(true);
        let opens = window.as_ref().map(|window| window.opens);
        let from = if waits { opens } else { Some(pass.now) };
        let is_over = matches!(
            pass.entry.phase,
            UpgradePhase::Upgraded | UpgradePhase::Failed
        );
        let pace = self.pace(pass, is_commenced);
        let forecast = from
            .filter(|_| !is_over && refused.is_none() && pass.stop().is_none())
            .map(|from| plan::forecast(from.max(pass.now), &pace));
        UpgradePlan {
            uid: uid.to_owned(),
            evaluated: pass.now,
            version: pass.entry.version.clone(),
            phase: pass.entry.phase.to_string(),
            refused: refused
                .map(|condition| condition.message.clone())
                .unwrap_or_default(),
            window: window.filter(|_| waits),
            steps: plan::steps(
                &pass.entry,
                &steps,
                &pass.config.hooks,
                &ahead,
                is_commenced,
            ),
            forecast,
        }
    }

    /// The result of a gate now. It is evaluated as in its turn, and changes nothing.
    async fn ask(&self, pass: &Pass, step: StepName) -> Option<GateResult> {
        let passes = || GateResult::Passes(String::new());
        match step {
            StepName::IsUpgradeable => Some(match steps::is_upgradeable(pass) {
                StepOutcome::Hold(why) | StepOutcome::Failed(why) => GateResult::Holds(why),
                StepOutcome::Done | StepOutcome::Waiting => passes(),
            }),
            StepName::PreUpgradeHealthCheck => {
                let (holding, others): (Vec<_>, Vec<_>) = self
                    .find(pass)
                    .await
                    .into_iter()
                    .partition(HealthFinding::holds);
                Some(if holding.is_empty() {
                    GateResult::Passes(health::texts(&others))
                } else {
                    GateResult::Holds(health::texts(&holding))
                })
            }
            StepName::ExternalDependencyAvailabilityCheck => {
                let faults = failing_dependencies(pass).await;
                Some(if faults.is_empty() {
                    passes()
                } else {
                    GateResult::Holds(faults.join("; "))
                })
            }
            StepName::EnsureExtraUpgradeWorkers => {
                if !pass.upgrade.spec.capacity_reservation {
                    return Some(passes());
                }
                Some(match self.machine_pools(pass).await {
                    Ok(()) => passes(),
                    Err(error) => {
                        let why = Chain(&error);
                        GateResult::Passes(format!("goes on without machines: {why}"))
                    }
                })
            }
            StepName::CommenceUpgrade => {
                let desired = &pass.upgrade.spec.desired;
                let accepted = &pass.config.accepted_risks;
                Some(match commence::decide(desired, &pass.version, accepted) {
                    CommenceStep::Hold(why) => GateResult::Holds(why),
                    CommenceStep::SetChannel(_) => GateResult::Passes(format!(
                        "sets channel {}; what it offers is known then",
                        desired.channel
                    )),
                    CommenceStep::SetRelease(_) | CommenceStep::Done => passes(),
                })
            }
            StepName::SendStartedNotification
            | StepName::UpgradeDelayedCheck
            | StepName::CreateControlPlaneMaintWindow
            | StepName::ControlPlaneUpgraded
            | StepName::RemoveControlPlaneMaintWindow
            | StepName::CreateWorkerMaintWindow
            | StepName::AllWorkersUpgraded
            | StepName::RemoveExtraScaledNodes
            | StepName::RemoveMaintWindow
            | StepName::PostUpgradeHealthCheck
            | StepName::PostUpgradeProcedures
            | StepName::SendCompletedNotification => None,
        }
    }

    fn pace(&self, pass: &Pass, is_commenced: bool) -> UpgradePace {
        let config = &pass.config;
        let status = pass.version.status.clone().unwrap_or_default();
        let version = pass.entry.version.as_str();
        let is_plane_done = is_commenced && is_completed(&status, version);
        let machines = if is_plane_done {
            self.pending_workers()
        } else {
            let pools = self.caches.pools.table();
            let workers = pools.values().filter(|pool| !pool.is_control_plane());
            workers.map(|pool| pool.machines.0).sum()
        };
        let needs_machines = pass.upgrade.spec.capacity_reservation
            && !is_commenced
            && !history::is_step_done(&pass.entry, StepName::EnsureExtraUpgradeWorkers);
        UpgradePace {
            capacity: if needs_machines {
                config.scale_timeout
            } else {
                SignedDuration::ZERO
            },
            control_plane: (!is_plane_done).then(|| {
                let began = started(&status, version).filter(|_| is_commenced);
                (config.control_plane_time, began)
            }),
            earlier: plan::earlier_updates(&status),
            machines,
            machine: config.expected_drain_time,
            machines_limit: config.worker_window(machines, pass.force_drain()),
        }
    }
}

fn starts_soon(pass: &Pass) -> bool {
    let start = schedule::parse_start(&pass.upgrade.spec.upgrade_at);
    let opens = start.map(|start| {
        let config = &pass.config;
        schedule::window(start, config.window, &config.windows, pass.now).opens
    });
    let invalid = pass.entry.condition(VALID);
    let is_valid = invalid.is_some_and(|condition| condition.status == true.into());
    is_valid && opens.is_ok_and(|opens| opens.duration_since(pass.now) < NEAR)
}

/// The sooner of the next pass and this time.
pub(super) fn sooner(next: Next, left: SignedDuration) -> Next {
    let left = Duration::try_from(left).unwrap_or_default();
    match next {
        Next::Settled => Next::After(left),
        Next::After(wait) => Next::After(wait.min(left)),
        Next::Retry | Next::Gone => next,
    }
}
