//! Drains that are stuck are helped, under a lease of the node that its daemon honours.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use api::machineconfiguration::DrainLease;
use chassis::report::Chain;
use cluster::events::Severity;

use super::errors::DrainError;
use super::{Pass, UpgradeOperator};
use crate::stuck_pods::read_pods;
use upgrade_plan::capacity;
use upgrade_plan::drain_help::StuckPod;
use upgrade_plan::drain_help::lease::{HOLDER, LeaseStep, lease_step};
use upgrade_plan::drain_help::{self, DrainHold, DrainLimits, DrainStrategy, RemovalRight};
use upgrade_plan::node_view::{DrainStart, UpgradeNode};
use upgrade_plan::notice::NoticeState;

/// What people have been notified of about drains.
#[derive(Debug, Default)]
pub(super) struct DrainReports {
    /// Nodes from which nothing is removed although it is time, and why: by name, and whether it is
    /// their daemon that drains them.
    held: BTreeMap<(String, bool), DrainHold>,
    /// Version and text of an announcement that could not be made yet.
    unsaid: Option<(String, String)>,
}

/// The drain of a node by another program, which is helped.
#[derive(Debug, Clone, Copy)]
struct HelpedDrain<'a> {
    node: &'a UpgradeNode,
    start: DrainStart,
    /// Whether it is the daemon's, which honours a lease.
    is_leased: bool,
}

impl UpgradeOperator {
    /// Helps the drains of an upgrade that is under way. Names of nodes whose drain has failed.
    pub(super) async fn help_drains(&self, pass: &mut Pass) -> Vec<String> {
        let limits = pass.drain_limits();
        let nodes: Vec<Arc<UpgradeNode>> = self.caches.nodes.table().values().cloned().collect();
        let is_there = |name: &String| nodes.iter().any(|node| node.name == *name);
        self.drains().held.retain(|(name, _), _| is_there(name));
        self.announce_forced(pass).await;
        let mut failed = Vec::new();
        for node in nodes {
            match self.help_drain(pass, &node, &limits).await {
                Ok(false) => {}
                Ok(true) => failed.push(node.name.clone()),
                Err(error) => {
                    let error = Chain(&error).to_string();
                    tracing::warn!(node = node.name, error, "cannot help the drain of a node");
                    if node.has_stuck_drain(limits.free, pass.now) {
                        failed.push(node.name.clone());
                    }
                }
            }
        }
        failed
    }

    /// Releases the leases of drains that this operator has.
    pub(super) async fn release_nodes(&self) {
        let nodes: Vec<Arc<UpgradeNode>> = self.caches.nodes.table().values().cloned().collect();
        for node in nodes.iter().filter(|node| own_lease(node).is_some()) {
            if let Err(error) = self.requests.set_drain_lease(&node.name, None).await {
                let error = Chain(&error).to_string();
                tracing::warn!(
                    node = node.name,
                    error,
                    "cannot release the lease of a drain"
                );
            }
        }
    }

    /// Helps the drain of a machine that is taken away. Whether it has failed.
    pub(super) async fn help_machine(
        &self,
        pass: &mut Pass,
        machine: &serde_json::Value,
        node: &UpgradeNode,
    ) -> Result<bool, DrainError> {
        let Some(start) = capacity::drain_start(machine) else {
            return Ok(false);
        };
        let limits = pass.drain_limits();
        let drain = HelpedDrain {
            node,
            start,
            is_leased: false,
        };
        // On a node that takes pods, removed ones would only make room for others.
        if pass.config.helps_drains && node.is_cordoned {
            return self.help(pass, drain, &limits).await;
        }
        Ok(match start {
            DrainStart::At(started) => pass.now.duration_since(started) > limits.free,
            DrainStart::Unknown => true,
        })
    }

    /// Nodes from which nothing is removed by force although it is time, for people.
    pub(super) fn held_drains(&self) -> Vec<String> {
        let drains = self.drains();
        let held = drains.held.iter();
        held.map(|((node, _), why)| hold_text(node, *why)).collect()
    }

    /// Whether the node's drain has failed.
    async fn help_drain(
        &self,
        pass: &mut Pass,
        node: &UpgradeNode,
        limits: &DrainLimits,
    ) -> Result<bool, DrainError> {
        let start = node.drain.filter(|_| !node.is_control_plane());
        let is_helped = pass.config.helps_drains;
        let Some(start) = start.filter(|_| is_helped) else {
            self.drains().held.remove(&(node.name.clone(), true));
            self.step_lease(node, false, pass).await?;
            return Ok(!is_helped && node.has_stuck_drain(limits.free, pass.now));
        };
        let drain = HelpedDrain {
            node,
            start,
            is_leased: true,
        };
        self.help(pass, drain, limits).await
    }

    /// Removes what is due. Whether the drain has failed.
    async fn help(
        &self,
        pass: &mut Pass,
        drain: HelpedDrain<'_>,
        limits: &DrainLimits,
    ) -> Result<bool, DrainError> {
        let HelpedDrain { node, start, .. } = drain;
        let since = match start {
            DrainStart::At(started) => Some(started),
            DrainStart::Unknown => None,
        };
        let is_due = since.is_none_or(|since| {
            let elapsed = pass.now.duration_since(since);
            drain_help::is_any_due(limits, elapsed)
        });
        let right = drain_help::right(node, start, pass.now);
        self.hold(pass, drain, right.err().filter(|_| is_due));
        let Ok((right, elapsed)) = right else {
            self.step_drain(drain, false, pass).await?;
            return Ok(is_due);
        };
        if !is_due {
            self.step_drain(drain, false, pass).await?;
            return Ok(false);
        }
        let pods = self.requests.pods_of(&node.name).await?;
        let budgets = self.requests.budgets().await?;
        let pods = read_pods(&pods, &budgets, &pass.config.ignored_drains, since);
        let due = drain_help::due(limits, &pods, (right, elapsed), pass.now);
        let step = self.step_drain(drain, !due.is_empty(), pass).await?;
        let mut faults = Vec::new();
        if matches!(step, LeaseStep::Act | LeaseStep::Renew) {
            for (strategy, pod) in due {
                // One that the API server keeps must not keep the others.
                let removed = self.remove_pod(pass, node, (strategy, right), pod).await;
                faults.extend(removed.err());
            }
        }
        if faults.is_empty() {
            Ok(drain_help::has_failed(limits, &pods, true, elapsed))
        } else {
            Err(DrainError::Several(faults))
        }
    }

    /// What comes next about the lease, where there is one. Without a lease, pods are removed.
    async fn step_drain(
        &self,
        drain: HelpedDrain<'_>,
        is_needed: bool,
        pass: &Pass,
    ) -> Result<LeaseStep, DrainError> {
        if drain.is_leased {
            self.step_lease(drain.node, is_needed, pass).await
        } else {
            Ok(LeaseStep::Act)
        }
    }

    async fn step_lease(
        &self,
        node: &UpgradeNode,
        is_needed: bool,
        pass: &Pass,
    ) -> Result<LeaseStep, DrainError> {
        let lease = own_lease(node);
        let step = lease_step(lease.as_ref(), is_needed, pass.now);
        let wanted = match (step, lease) {
            (LeaseStep::Nothing | LeaseStep::Settle | LeaseStep::Act, _) => return Ok(step),
            (LeaseStep::Release, _) => None,
            (LeaseStep::Renew, Some(lease)) => Some(lease.since),
            (LeaseStep::Take | LeaseStep::Renew, _) => {
                tracing::info!(node = node.name, "takes the lease of the drain");
                Some(pass.now)
            }
        };
        let wanted = wanted.map(|since| DrainLease {
            holder: HOLDER.to_owned(),
            since,
            renewed: pass.now,
        });
        let written = self.requests.set_drain_lease(&node.name, wanted.as_ref());
        written.await?;
        Ok(step)
    }

    async fn remove_pod(
        &self,
        pass: &mut Pass,
        node: &UpgradeNode,
        (strategy, right): (DrainStrategy, RemovalRight),
        pod: &StuckPod,
    ) -> Result<(), DrainError> {
        let name = strategy.as_str();
        let removed = self.requests.remove_pod(pod, strategy.removal(right)).await;
        removed.map_err(|source| DrainError::Remove {
            strategy: name,
            pod: format!("{}/{}", pod.namespace, pod.name),
            source,
        })?;
        let text = format!(
            "{name} of pod {}/{} on node {}",
            pod.namespace, pod.name, node.name
        );
        tracing::warn!(
            node = node.name,
            pod = pod.name,
            strategy = name,
            "a drain is forced"
        );
        let severity = Severity::Warning;
        self.record(&pass.upgrade, severity, "DrainForced", &text, pass.now);
        if strategy == DrainStrategy::PdbDelete {
            let why = format!(
                "pod {}/{} on node {} is deleted in spite of its budget, see \
                 https://access.redhat.com/solutions/7075425",
                pod.namespace, pod.name, node.name
            );
            self.drains().unsaid = Some((pass.entry.version.clone(), why));
            self.announce_forced(pass).await;
        }
        Ok(())
    }

    /// Announces that a budget was overruled. The drain does not wait for it: what could not be
    /// announced is with the next pass.
    async fn announce_forced(&self, pass: &mut Pass) {
        let Some((version, why)) = self.drains().unsaid.clone() else {
            return;
        };
        if version == pass.entry.version
            && let Err(error) = self.announce(pass, NoticeState::DrainForced, &why).await
        {
            let error = Chain(&error).to_string();
            tracing::warn!(error, "cannot announce that a drain is forced");
            return;
        }
        self.drains().unsaid = None;
    }

    /// Notes whether something keeps pods of a node from being removed; people are notified once.
    fn hold(&self, pass: &Pass, drain: HelpedDrain<'_>, hold: Option<DrainHold>) {
        let node = drain.node;
        let key = (node.name.clone(), drain.is_leased);
        let Some(why) = hold else {
            self.drains().held.remove(&key);
            return;
        };
        let before = self.drains().held.insert(key, why);
        if before != Some(why) {
            let text = hold_text(&node.name, why);
            tracing::warn!(node = node.name, reason = %why, "a drain that is stuck is not helped");
            let severity = Severity::Warning;
            self.record(&pass.upgrade, severity, "DrainHeld", &text, pass.now);
        }
    }

    fn drains(&self) -> MutexGuard<'_, DrainReports> {
        self.drains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hold_text(node: &str, why: DrainHold) -> String {
    format!("no pod is removed from node {node}: {why}")
}

/// The lease of the node's drain, if it is this operator's.
fn own_lease(node: &UpgradeNode) -> Option<DrainLease> {
    node.drain_lease
        .clone()
        .filter(|lease| lease.holder == HOLDER)
}
