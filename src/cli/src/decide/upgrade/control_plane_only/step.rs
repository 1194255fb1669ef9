//! What is done next, from what is observed.

use std::collections::BTreeSet;

use api::condition::ConditionStatus;
use api::config::control_plane_only::ControlPlaneOnlyRecord;
use api::machineconfiguration::machine_config_pool::PoolConditionType;
use release::Version;

use super::facts::{CpoCluster, PoolFacts, PoolPause};
use super::obstacle::{CpoObstacle, Obstacles};
use super::plan::{CpoWish, kubelets_after_a_hop, offered, states};
use crate::decide::object::{ClusterObject, ObjectCondition, text};
use crate::decide::upgrade::version::OfferedUpdate;

/// What is done next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CpoStep {
    /// Nothing is recorded: it is planned, recorded, and begins.
    Plan,
    /// These pools are paused, with the mark.
    Pause(BTreeSet<String>),
    /// This release is requested.
    Request { hop: u8, update: OfferedUpdate },
    /// Nothing: this is waited for.
    Wait(String),
    /// These pools lose the mark, and are resumed where they are paused.
    Resume(BTreeSet<String>),
    /// The record is removed.
    Forget,
    /// Nothing is left to do.
    Done,
}

/// The next step, and what a person should know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CpoState {
    pub(crate) step: CpoStep,
    /// Pools that others changed meanwhile.
    pub(crate) warnings: Vec<String>,
}

/// Decides the next step to a target.
///
/// # Errors
/// What forbids it, and does not pass by itself.
pub(crate) fn next(cluster: &CpoCluster, wish: &CpoWish) -> Result<CpoState, Obstacles> {
    let pools = cluster.pools();
    let (head, is_completed) = cluster.head()?;
    let Some(record) = cluster.record()? else {
        let is_there = head.is_release(&wish.to) && is_completed;
        let step = if is_there {
            resume(&pools).unwrap_or(CpoStep::Done)
        } else {
            CpoStep::Plan
        };
        let warnings = Vec::new();
        return Ok(CpoState { step, warnings });
    };
    let [from, through, to] = versions(&record)?;
    if !to.is_release(&wish.to) {
        return Err(CpoObstacle::AnotherRecord {
            to: record.to,
            since: record.since,
            by: record.by,
        }
        .into());
    }
    let warnings = warnings(&record, &pools);
    let way = Way {
        cluster,
        record: &record,
        pools: &pools,
        wish,
    };
    let step = if head.is_release(&to) && is_completed {
        way.roll()
    } else if head.minor() == from.minor() {
        way.first(&head, &through, is_completed)?
    } else if head.minor() == through.minor() || head.is_release(&to) {
        way.second(&head, &to, is_completed)?
    } else {
        return Err(CpoObstacle::OffPath {
            version: head,
            from: record.from,
            to: record.to,
        }
        .into());
    };
    Ok(CpoState { step, warnings })
}

/// Decides the next step to an end of the update where the control plane stands. Pools are resumed
/// and not waited for.
///
/// # Errors
/// The control plane stands between two releases, or goes to another one.
pub(crate) fn clear(cluster: &CpoCluster) -> Result<CpoStep, Obstacles> {
    let pools = cluster.pools();
    // What cannot be read is removed, too.
    let is_recorded = !matches!(cluster.record(), Ok(None));
    if !is_recorded && !pools.iter().any(|pool| pool.pause.is_marked()) {
        return Ok(CpoStep::Done);
    }
    let (head, is_completed) = cluster.head()?;
    let mut obstacles = Vec::new();
    if !is_completed {
        let version = head.clone();
        obstacles.push(CpoObstacle::UnderWay { version });
    }
    let requested = cluster.requested();
    if !requested.is_empty() && requested != head.to_string() {
        let version = format!("{requested}, and `slipway upgrade --clear` takes that back:");
        obstacles.push(CpoObstacle::Requested { version });
    }
    if !obstacles.is_empty() {
        return Err(Obstacles(obstacles));
    }
    Ok(resume(&pools).unwrap_or(if is_recorded {
        CpoStep::Forget
    } else {
        CpoStep::Done
    }))
}

/// The versions of a record.
fn versions(record: &ControlPlaneOnlyRecord) -> Result<[Version; 3], CpoObstacle> {
    let parse = |field: &str, text: &str| {
        let parsed = text.parse::<Version>();
        parsed.map_err(|error| CpoObstacle::Record {
            why: format!("the record of the update: {field}: {error}"),
        })
    };
    Ok([
        parse("from", &record.from)?,
        parse("through", &record.through)?,
        parse("to", &record.to)?,
    ])
}

/// The marks are taken away, where there are some.
fn resume(pools: &[PoolFacts<'_>]) -> Option<CpoStep> {
    let marked = pools.iter().filter(|pool| pool.pause.is_marked());
    let marked: BTreeSet<String> = marked.map(|pool| pool.name.to_owned()).collect();
    (!marked.is_empty()).then_some(CpoStep::Resume(marked))
}

/// What others did to pools of the update.
fn warnings(record: &ControlPlaneOnlyRecord, pools: &[PoolFacts<'_>]) -> Vec<String> {
    let of_record = pools.iter().filter(|pool| record.pools.contains(pool.name));
    let warnings = of_record.filter_map(|pool| match pool.pause {
        PoolPause::ResumedByPerson => Some(format!(
            "MachineConfigPool {}: spec.paused: a person resumed the pool; its nodes are updated \
             with each hop, and it is not paused again",
            pool.name
        )),
        PoolPause::Other => Some(format!(
            "MachineConfigPool {}: spec.paused: another one paused the pool; it stays so at the end",
            pool.name
        )),
        PoolPause::Own | PoolPause::Resumed => None,
    });
    warnings.collect()
}

/// An update that is recorded, and the cluster that it is about.
struct Way<'a> {
    cluster: &'a CpoCluster,
    record: &'a ControlPlaneOnlyRecord,
    pools: &'a [PoolFacts<'a>],
    wish: &'a CpoWish,
}

impl Way<'_> {
    /// At the start: pools are paused, then the release between is requested.
    fn first(
        &self,
        head: &Version,
        through: &Version,
        is_completed: bool,
    ) -> Result<CpoStep, Obstacles> {
        if !is_completed {
            let version = head.clone();
            return Err(CpoObstacle::UnderWay { version }.into());
        }
        let not_paused = self.pools.iter().filter(|pool| {
            self.record.pools.contains(pool.name) && pool.pause == PoolPause::Resumed
        });
        let not_paused: BTreeSet<String> = not_paused.map(|pool| pool.name.to_owned()).collect();
        // Once the hop is requested, a pool that is not paused was resumed by a person.
        let is_requested = self.cluster.requested() == through.to_string();
        if !is_requested && !not_paused.is_empty() {
            return Ok(CpoStep::Pause(not_paused));
        }
        self.hop(1, head, through)
    }

    /// On the way to the release between, at it, or on the way from it.
    fn second(
        &self,
        head: &Version,
        to: &Version,
        is_completed: bool,
    ) -> Result<CpoStep, Obstacles> {
        if !is_completed {
            return Ok(CpoStep::Wait(self.progress(head)));
        }
        self.hop(2, head, to)
    }

    /// Requests a release, or waits for what it needs.
    fn hop(&self, hop: u8, head: &Version, target: &Version) -> Result<CpoStep, Obstacles> {
        let cluster = self.cluster;
        let requested = cluster.requested();
        if requested == target.to_string() {
            return Ok(CpoStep::Wait(self.acceptance(target)));
        }
        if !requested.is_empty() && requested != head.to_string() {
            let version = requested.to_owned();
            return Err(CpoObstacle::Requested { version }.into());
        }
        kubelets_after_a_hop(cluster, hop)?;
        // Between two hops they pass: operators report on the new release, updates are retrieved.
        if let Some(state) = states(cluster).first() {
            return Ok(CpoStep::Wait(format!("hop {hop} of 2: {state}")));
        }
        match offered(cluster, target, self.wish.allow_not_recommended) {
            Ok(update) => Ok(CpoStep::Request { hop, update }),
            Err(obstacle) => Ok(CpoStep::Wait(format!("hop {hop} of 2: {obstacle}"))),
        }
    }

    /// Why a release that is requested is not applied yet.
    fn acceptance(&self, target: &Version) -> String {
        let accepted = self.cluster.view().condition("ReleaseAccepted");
        match accepted.filter(|found| found.status != "True") {
            Some(found) => format!(
                "{target} is requested: ReleaseAccepted is {}: {}: {}",
                found.status, found.reason, found.message
            ),
            None => format!("{target} is requested, and not begun"),
        }
    }

    /// How far the update to a release is.
    fn progress(&self, target: &Version) -> String {
        let view = self.cluster.view();
        let failing = view.condition("Failing").filter(ObjectCondition::is_true);
        let found = failing.or_else(|| view.condition("Progressing"));
        let message = found.map_or("", |found| found.message);
        if message.is_empty() {
            format!("the control plane goes to {target}")
        } else {
            format!("the control plane goes to {target}: {message}")
        }
    }

    /// Both hops are done: pools are resumed and waited for.
    fn roll(&self) -> CpoStep {
        if let Some(step) = resume(self.pools) {
            return step;
        }
        let of_record = self
            .pools
            .iter()
            .filter(|pool| self.record.pools.contains(pool.name));
        // One that another one paused meanwhile is no longer this update's.
        let waits: Vec<String> = of_record
            .filter(|pool| pool.pause != PoolPause::Other)
            .filter_map(rolls)
            .collect();
        if waits.is_empty() {
            CpoStep::Forget
        } else {
            CpoStep::Wait(waits.join("; "))
        }
    }
}

/// How far a pool is, until all of its nodes are updated.
fn rolls(pool: &PoolFacts<'_>) -> Option<String> {
    let name = pool.name;
    let Some(status) = &pool.object.status else {
        return Some(format!("pool {name}: status is missing"));
    };
    let holds = |kind: &PoolConditionType| {
        let condition = status.condition(kind)?;
        (condition.status == ConditionStatus::True).then_some(condition)
    };
    let is_current = status.observed_generation == pool.object.metadata.generation;
    if is_current && holds(&PoolConditionType::Updated).is_some() {
        return None;
    }
    let (updated, total) = (status.updated_machine_count, status.machine_count);
    let mut text = format!("pool {name}: {updated} of {total} nodes are updated");
    if let Some(degraded) = holds(&PoolConditionType::Degraded) {
        text = format!("{text}, it is degraded: {}", degraded.message);
    }
    Some(text)
}

/// The release that ran last and was completed, and the one that is applied, as texts.
pub(super) fn applied(cluster: &ClusterObject) -> (&str, bool) {
    let head = cluster.list("/status/history").first();
    head.map_or(("", false), |head| {
        (text(head, "/version"), text(head, "/state") == "Completed")
    })
}

#[cfg(test)]
mod tests;
