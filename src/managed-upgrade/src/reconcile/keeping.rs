//! Drains that are stuck are helped, under a lease of the node that its daemon honours.

use std::sync::Arc;

use api::machineconfiguration::DrainLease;
use chassis::report::Chain;
use cluster::events::Severity;
use jiff::SignedDuration;

use super::{Pass, UpgradeOperator};
use crate::node_keeper::{
    self, DrainLimits, DrainStrategy, ForcedRemoval, HOLDER, KeptPod, LeaseStep,
};
use crate::node_view::UpgradeNode;
use crate::notice::NoticeState;

impl UpgradeOperator {
    /// Helps the drains of an upgrade that is under way. Names of nodes whose drain has failed.
    pub(super) async fn keep_nodes(&self, pass: &mut Pass) -> Vec<String> {
        let force = i64::from(pass.upgrade.spec.pdb_force_drain_timeout);
        let expected = pass.config.expected_drain_time;
        let limits = DrainLimits {
            free: pass.config.node_drain_timeout,
            protected: SignedDuration::from_mins(force) + expected,
            expected,
        };
        let nodes: Vec<Arc<UpgradeNode>> = self.caches.nodes.table().values().cloned().collect();
        let mut failed = Vec::new();
        for node in nodes {
            match self.keep_node(pass, &node, &limits).await {
                Ok(false) => {}
                Ok(true) => failed.push(node.name.clone()),
                Err(error) => {
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

    /// Whether the node's drain has failed.
    async fn keep_node(
        &self,
        pass: &mut Pass,
        node: &UpgradeNode,
        limits: &DrainLimits,
    ) -> Result<bool, String> {
        let lease = own_lease(node);
        let since = node
            .drain_started
            .filter(|_| node.is_updating && !node.is_control_plane);
        let is_helped = pass.config.helps_drains;
        let since = since.filter(|since| node_keeper::is_any_due(limits, *since, pass.now));
        let Some(since) = since.filter(|_| is_helped) else {
            self.step_lease(node, lease.as_ref(), false, pass).await?;
            let is_failed = !is_helped && node.has_stuck_drain(limits.free, pass.now);
            return Ok(is_failed);
        };
        let said = |error: cluster::wire::Error| Chain(&error).to_string();
        let pods = self.requests.pods_of(&node.name).await.map_err(said)?;
        let budgets = self.requests.budgets().await.map_err(said)?;
        let pods = node_keeper::read_pods(&pods, &budgets, &pass.config.ignored_drains);
        let due = node_keeper::due(limits, &pods, since, pass.now);
        let step = self
            .step_lease(node, lease.as_ref(), !due.is_empty(), pass)
            .await?;
        if matches!(step, LeaseStep::Act | LeaseStep::Renew) {
            for (strategy, pod) in due {
                self.remove_pod(pass, node, strategy, pod).await?;
            }
        }
        Ok(node_keeper::has_failed(
            limits, &pods, true, since, pass.now,
        ))
    }

    async fn step_lease(
        &self,
        node: &UpgradeNode,
        lease: Option<&DrainLease>,
        is_needed: bool,
        pass: &Pass,
    ) -> Result<LeaseStep, String> {
        let step = node_keeper::lease_step(lease, is_needed, pass.now);
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
        written.await.map_err(|error| Chain(&error).to_string())?;
        Ok(step)
    }

    async fn remove_pod(
        &self,
        pass: &mut Pass,
        node: &UpgradeNode,
        strategy: DrainStrategy,
        pod: &KeptPod,
    ) -> Result<(), String> {
        let name = strategy.as_str();
        if strategy == DrainStrategy::PdbDelete {
            let why = format!(
                "pod {}/{} on node {} is deleted in spite of its budget, see \
                 https://access.redhat.com/solutions/7075425",
                pod.namespace, pod.name, node.name
            );
            self.announce(pass, NoticeState::DrainForced, &why).await?;
        }
        let removed = match strategy.removal() {
            ForcedRemoval::Delete => self.requests.delete_pod(pod).await,
            ForcedRemoval::ClearFinalizers => self.requests.clear_finalizers(pod).await,
        };
        removed.map_err(|error| {
            let error = Chain(&error);
            format!("{name} of pod {}/{}: {error}", pod.namespace, pod.name)
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
        Ok(())
    }
}

/// The lease of the node's drain, if it is this operator's.
fn own_lease(node: &UpgradeNode) -> Option<DrainLease> {
    node.drain_lease
        .clone()
        .filter(|lease| lease.holder == HOLDER)
}
