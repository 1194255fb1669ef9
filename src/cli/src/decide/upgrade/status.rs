//! `slipway upgrade status`: how far an update is.
//!
//! - `target`: what it goes to, and where it comes from
//! - `control_plane`: the operators
//! - `duration`: how long it takes
//! - `steps`: the version operator's own record of the update
//! - `nodes`: nodes and pools
//! - `ends`: when all of it is done, by this cluster's own history
//! - `health`: what is in its way
//! - `verdict`: all of it in one line

pub(crate) mod control_plane;
pub(crate) mod duration;
pub(crate) mod ends;
pub(crate) mod health;
pub(crate) mod nodes;
pub(crate) mod steps;
mod target;
mod verdict;

use api::machineconfiguration::MachineConfigPool;
use api::machineconfiguration::label::role;
use chassis::report::Chain;
use jiff::Timestamp;
use release::progress::ProgressRecord;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use self::control_plane::{ControlPlaneView, operator_table};
use self::ends::UpdateEnds;
use self::health::{HealthInsight, health_details, health_table, insights};
use self::nodes::{NodesByPool, PoolUpgradeView, UnreadObject, node_table, pool_table};
use self::verdict::verdict;
use super::control_plane_only::ControlPlaneOnlyView;
use super::version::VersionView;
use crate::decide::object::ClusterObject;

const NOT_UPDATING: &str = "The cluster is not updating.";

/// Which details are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StatusDetails {
    /// None
    None,
    /// All
    All,
    /// All nodes
    Nodes,
    /// What each finding means
    Health,
    /// Operators that are being updated
    Operators,
}

impl StatusDetails {
    fn includes(self, wanted: Self) -> bool {
        self == wanted || self == Self::All
    }
}

/// What is read of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterSnapshot {
    pub(crate) version: ClusterObject,
    pub(crate) operators: Vec<ClusterObject>,
    pub(crate) pools: Vec<ClusterObject>,
    pub(crate) nodes: Vec<ClusterObject>,
    /// MachineConfigs, of which the metadata suffices.
    pub(crate) configs: Vec<ClusterObject>,
    /// Image of the machine-config operator's Deployment; none if it cannot be read.
    pub(crate) machine_config_image: Option<String>,
    /// What the version operator has recorded of the update; none if it keeps no record.
    pub(crate) record: Option<ProgressRecord>,
    /// Alerts as Prometheus returns them; none if they could not be read.
    pub(crate) alerts: Option<Value>,
    /// Why they, or some of them, could not be read.
    pub(crate) alerts_unread: Option<String>,
    /// What could not be read, with the reason. With one the status is incomplete.
    pub(crate) unread: Vec<String>,
}

/// What a view of an update needs, and the objects of the cluster lack.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IncompleteSnapshot {
    #[error("ClusterVersion version: status.conditions: there is no condition Progressing")]
    NoProgressing,
    #[error("ClusterVersion version: status.history is empty")]
    NoHistory,
    #[error("ClusterVersion version: status.history[0].startedTime is missing")]
    NoStart,
    #[error("ClusterVersion version: status.history has the installation only, and no update")]
    NoUpdate,
    #[error("there are no ClusterOperators: how far the update is, is not known")]
    NoOperators,
    #[error(transparent)]
    Unread(#[from] UnreadObject),
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpgradeStatus {
    pub(crate) is_updating: bool,
    /// How the update is, who holds it up, and since when.
    verdict: String,
    /// Who stopped the cluster, since when and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    /// What could not be read, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<String>,
    /// An update of the control plane alone, of which this may be one hop.
    #[serde(skip_serializing_if = "Option::is_none")]
    control_plane_only: Option<ControlPlaneOnlyView>,
    /// When all of it is done; none if the nodes of this cluster do not say how long they take.
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<UpdateEnds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    control_plane: Option<ControlPlaneView>,
    pools: Vec<PoolUpgradeView>,
    health: Vec<HealthInsight>,
}

impl UpgradeStatus {
    /// Reads the snapshot.
    ///
    /// # Errors
    /// What of it is missing.
    pub(crate) fn new(
        cluster: &ClusterSnapshot,
        now: Timestamp,
    ) -> Result<Self, IncompleteSnapshot> {
        let version = VersionView(&cluster.version);
        let progressing = version
            .condition("Progressing")
            .ok_or(IncompleteSnapshot::NoProgressing)?;
        let NodesByPool {
            pools,
            faults,
            unread,
        } = NodesByPool::new(cluster, now);
        let unread = unread.iter().map(|object| Chain(object).to_string());
        let unread: Vec<String> = cluster.unread.iter().cloned().chain(unread).collect();
        let is_rolled = |pool: &PoolUpgradeView| {
            pool.is_control_plane || pool.total == 0 || pool.updated == pool.total
        };
        let control_plane_only = control_plane_only(cluster);
        // What is not read may be what is not done.
        let is_known = unread.is_empty();
        let stopped = version.stopped();
        let is_updating = progressing.is_true()
            || control_plane_only.is_some()
            || !is_known
            || !pools.iter().all(is_rolled);
        if !is_updating {
            return Ok(Self {
                is_updating,
                verdict: NOT_UPDATING.to_owned(),
                stopped,
                unread: Vec::new(),
                control_plane_only: None,
                ends: None,
                control_plane: None,
                pools,
                health: faults.iter().map(HealthInsight::of_membership).collect(),
            });
        }
        if cluster.operators.is_empty() && is_known {
            return Err(IncompleteSnapshot::NoOperators);
        }
        let control_plane = ControlPlaneView::new(cluster, now)?;
        let health = insights(cluster, &control_plane, (&pools, &faults), now);
        Ok(Self {
            is_updating,
            verdict: verdict(&control_plane, &pools, &health, &unread),
            stopped,
            unread,
            control_plane_only,
            health,
            ends: UpdateEnds::of(&control_plane, &pools),
            control_plane: Some(control_plane),
            pools,
        })
    }

    /// Whether a person should read it.
    pub(crate) fn needs_attention(&self) -> bool {
        let is_bad = |insight: &HealthInsight| insight.level >= health::InsightLevel::Warning;
        let overdue = self
            .control_plane
            .as_ref()
            .and_then(ControlPlaneView::overdue);
        let of_both_hops = self.control_plane_only.as_ref();
        self.stopped.is_some()
            || !self.unread.is_empty()
            || of_both_hops.is_some_and(ControlPlaneOnlyView::needs_attention)
            || overdue.is_some()
            || self.health.iter().any(is_bad)
    }

    /// The status as text: who stopped the cluster, the verdict, then what upstream's command
    /// prints.
    pub(crate) fn text(&self, details: StatusDetails) -> String {
        let Some(control_plane) = &self.control_plane else {
            let faults = self.health.iter().map(HealthInsight::sentence);
            let verdict = std::iter::once(self.verdict.clone());
            let stopped = self.stopped.iter().cloned();
            let lines: Vec<String> = stopped.chain(verdict).chain(faults).collect();
            return format!("{}\n", lines.join("\n"));
        };
        let stopped = self.stopped.as_ref();
        let mut text = stopped.map_or_else(String::new, |stopped| format!("{stopped}\n"));
        text.extend([self.verdict.as_str(), "\n"]);
        if let Some(both_hops) = &self.control_plane_only {
            text.extend([both_hops.line(), "\n".to_owned()]);
        }
        if let Some(ends) = &self.ends {
            text.extend([ends.text(), "\n".to_owned()]);
        }
        text.push('\n');
        text.push_str(&control_plane.text());
        if details.includes(StatusDetails::Operators) {
            text.push_str(&operator_table(control_plane));
        }
        let all_nodes = details.includes(StatusDetails::Nodes);
        let of_control_plane = |pool: &&PoolUpgradeView| pool.is_control_plane && pool.total > 0;
        let mut left = self.pools.iter().filter(of_control_plane).peekable();
        if left.peek().is_some() && left.clone().all(|pool| pool.updated == pool.total) {
            let target = &control_plane.target;
            text.extend([format!(
                "\nAll control plane nodes successfully updated to {target}\n"
            )]);
        } else {
            text.extend(left.map(|pool| {
                let of = format!(": {}", pool.name);
                let of = if pool.name == role::MASTER { "" } else { &of };
                node_table(&format!("Control Plane Nodes{of}"), pool, all_nodes)
            }));
        }
        let workers: Vec<&PoolUpgradeView> = self
            .pools
            .iter()
            .filter(|pool| !pool.is_control_plane)
            .collect();
        if workers.iter().any(|pool| pool.total > 0) {
            text.push_str("\n= Worker Upgrade =\n");
            text.push_str(&pool_table(&workers));
            for pool in workers.iter().filter(|pool| pool.total > 0) {
                let title = format!("Worker Pool Nodes: {}", pool.name);
                text.push_str(&node_table(&title, pool, all_nodes));
            }
        }
        text.push_str("\n= Update Health =\n");
        if details.includes(StatusDetails::Health) {
            text.push_str(&health_details(&self.health));
        } else {
            text.push_str(&health_table(&self.health));
        }
        text
    }
}

/// The update of the control plane alone that is under way. A pool that cannot be read is named
/// with the other objects.
fn control_plane_only(cluster: &ClusterSnapshot) -> Option<ControlPlaneOnlyView> {
    let pools = cluster.pools.iter();
    let pools = pools.filter_map(|pool| MachineConfigPool::deserialize(&pool.0).ok());
    let pools: Vec<MachineConfigPool> = pools.collect();
    ControlPlaneOnlyView::of(&cluster.version, &pools)
}

#[cfg(test)]
mod tests;
