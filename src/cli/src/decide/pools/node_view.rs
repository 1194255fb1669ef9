//! One node, from objects.

use api::machineconfiguration::node_status::{DrainRequest, Reading};
use jiff::Timestamp;
use pool::membership::{Placement, place};
use pool::node::NodeView;
use serde::Serialize;

use super::objects::PoolObjects;
use super::view::seconds_since;
use crate::decide::blocks::{columns, duration, first_line};

/// A pod that a drain evicts or waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EvictionTrial {
    /// `namespace/name`.
    pub(crate) pod: String,
    pub(crate) outcome: TrialOutcome,
    pub(crate) budget: Option<String>,
    /// The message of the API server, where it refused.
    pub(crate) message: String,
}

/// What came of the trial of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum TrialOutcome {
    /// The API server refuses it now.
    Blocked,
    /// The API server did not respond to the request.
    Unknown,
    /// The pod is being deleted; a drain waits for it.
    Terminating,
    Evictable,
}

/// A node: what it runs, what it was assigned, and what it waits for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeDetails {
    name: String,
    pool: Option<String>,
    /// Why no pool manages it.
    unmanaged: Option<String>,
    state: &'static str,
    phase: Option<String>,
    /// Seconds since when it is in that phase.
    since_seconds: Option<i64>,
    unready: Vec<String>,
    current_config: Option<String>,
    desired_config: Option<String>,
    /// The configuration of its pool that it was not assigned yet.
    pool_config: Option<String>,
    waits_for: Option<String>,
    /// Why a person keeps it out of the rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<String>,
    reason: String,
    desired_drain: Option<String>,
    last_applied_drain: Option<String>,
    /// Pods that a drain would evict, if that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    evictions: Option<Vec<EvictionTrial>>,
    #[serde(skip)]
    is_failed: bool,
}

impl NodeDetails {
    pub(crate) fn new(
        node: &NodeView,
        pools: &PoolObjects,
        evictions: Option<Vec<EvictionTrial>>,
        now: Timestamp,
    ) -> Self {
        let views = pools.views();
        let placement = place(node, &views);
        let pool = placement.pool().map(ToOwned::to_owned);
        let unmanaged = match placement {
            Placement::Pool(_) | Placement::MasterOverCustom { .. } => None,
            Placement::Conflict(conflict) => Some(conflict.to_string()),
            Placement::Unmanaged => Some("no MachineConfigPool selects it".to_owned()),
        };
        let status = &node.status;
        let view = views.iter().find(|view| Some(&view.name) == pool.as_ref());
        let target = view.and_then(|view| view.target.clone());
        let since = status.since.as_ref().and_then(Reading::known);
        Self {
            name: node.name.clone(),
            unmanaged,
            pool,
            state: status.state().as_str(),
            phase: status.phase.as_ref().map(written),
            since_seconds: since.map(|since| seconds_since(now, *since)),
            unready: node.unready.iter().map(ToString::to_string).collect(),
            current_config: status.current_config.clone(),
            desired_config: status.desired_config.clone(),
            pool_config: target
                .filter(|target| !status.is_assigned_to(target))
                .map(|target| target.config),
            waits_for: status.waits_for.clone(),
            hold: node.hold.as_ref().map(ToString::to_string),
            reason: status.reason.clone(),
            desired_drain: status.desired_drain.as_ref().map(written::<DrainRequest>),
            last_applied_drain: status
                .last_applied_drain
                .as_ref()
                .map(written::<DrainRequest>),
            evictions,
            is_failed: status.state().is_failed(),
        }
    }

    /// Whether a person should read it: the node failed, or a pod cannot be evicted now.
    pub(crate) fn needs_attention(&self) -> bool {
        let trials = self.evictions.as_deref().unwrap_or_default();
        let is_open = |trial: &EvictionTrial| trial.outcome <= TrialOutcome::Unknown;
        self.is_failed || trials.iter().any(is_open)
    }

    pub(crate) fn text(&self) -> String {
        let since = self
            .since_seconds
            .map(|since| format!("for {}", duration(since)));
        let mut head = vec![self.state.to_owned()];
        head.extend(self.phase.clone());
        head.extend(since);
        let mut rows = Vec::new();
        let mut row = |key: &str, value: &str| {
            if !value.is_empty() {
                // Lines after the first stand under it.
                let value = value.replace('\n', "\n    ");
                rows.push(vec![format!("{key}:"), value]);
            }
        };
        let given = |value: &Option<String>| value.clone().unwrap_or_default();
        row("Pool", self.pool.as_deref().unwrap_or("none"));
        row("Unmanaged", &given(&self.unmanaged));
        row("Service", &{
            if self.unready.is_empty() {
                "ready".to_owned()
            } else {
                self.unready.join(", ")
            }
        });
        row(
            "Configuration",
            self.current_config.as_deref().unwrap_or("not reported"),
        );
        if self.desired_config != self.current_config {
            row("Assigned", &given(&self.desired_config));
        }
        row("Not assigned yet", &given(&self.pool_config));
        row("Hold", &given(&self.hold));
        row("Waits for", &given(&self.waits_for));
        row("Reason", &self.reason);
        if self.desired_drain != self.last_applied_drain {
            row("Asks for", &given(&self.desired_drain));
        }
        let mut text = format!("Node {}: {}\n", self.name, head.join(", "));
        text.push_str(&columns(2, 1, 0, &rows));
        match self.evictions.as_deref() {
            None => {}
            Some([]) => text.push_str("\nA drain evicts no pod of it.\n"),
            Some(trials) => {
                let mut table = vec![vec![
                    "POD".to_owned(),
                    "EVICTION".to_owned(),
                    "BUDGET".to_owned(),
                    "MESSAGE".to_owned(),
                ]];
                table.extend(trials.iter().map(EvictionTrial::cells));
                text.push_str("\nEach pod that a drain evicts, tried by itself:\n");
                text.push_str(&columns(2, 3, 0, &table));
            }
        }
        text
    }
}

impl EvictionTrial {
    fn cells(&self) -> Vec<String> {
        let outcome = match self.outcome {
            TrialOutcome::Blocked => "blocked",
            TrialOutcome::Unknown => "not answered",
            TrialOutcome::Terminating => "terminating",
            TrialOutcome::Evictable => "possible",
        };
        vec![
            self.pod.clone(),
            outcome.to_owned(),
            self.budget.clone().unwrap_or_default(),
            first_line(&self.message),
        ]
    }
}

/// A value, or its text where this version cannot read it.
fn written<T: ToString>(value: &Reading<T>) -> String {
    match value {
        Reading::Known(value) => value.to_string(),
        Reading::Unknown(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests;
