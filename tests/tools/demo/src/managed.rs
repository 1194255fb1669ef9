//! The last roll by a managed upgrade: the UpgradeConfig, and how far it is.

use std::path::Path;

use anyhow::Result;
use api::upgrade::{
    NAMESPACE, UpgradeConfig, UpgradeHistoryEntry, UpgradePhase, UpgradePlan, plan, upgrade_config,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use testbed::{Cluster, Programs};

use crate::releases::{DemoRelease, Releases};
use crate::services::{CHANNEL, GraphData, Services};
use crate::steps::{self, StepSpan};

/// How long before its start the upgrade is asked for.
const AHEAD: SignedDuration = SignedDuration::from_mins(2);

/// A managed upgrade, and what it needs.
pub(crate) struct Managed {
    upgrades: Api<UpgradeConfig>,
    events: Api<Event>,
    maps: Api<ConfigMap>,
    services: Services,
    /// The version that was asked for.
    version: &'static str,
    /// When it starts.
    at: Timestamp,
    /// What its entry was when it was last read.
    entry: Option<UpgradeHistoryEntry>,
    plan: Option<UpgradePlan>,
}

impl Managed {
    /// Starts all parts. The cluster is at the first release.
    pub(crate) async fn start(
        cluster: &Cluster,
        programs: &Programs,
        out: &Path,
        releases: &Releases,
    ) -> Result<Self> {
        let graph_data = GraphData {
            versions: &[releases.first.version, releases.second.version],
            blocked: None,
        };
        let services = Services::start(cluster, programs, out, &graph_data).await?;
        let client = cluster.objects().client();
        Ok(Self {
            upgrades: Api::namespaced(client.clone(), NAMESPACE),
            events: Api::namespaced(client.clone(), NAMESPACE),
            maps: Api::namespaced(client.clone(), NAMESPACE),
            services,
            version: releases.second.version,
            at: Timestamp::UNIX_EPOCH,
            entry: None,
            plan: None,
        })
    }

    /// Asks for a release, two minutes ahead.
    pub(crate) async fn schedule(&mut self, release: &DemoRelease) -> Result<()> {
        self.at = Timestamp::from_second((Timestamp::now() + AHEAD).as_second())?;
        let object = json!({
            "apiVersion": "upgrade.managed.openshift.io/v1alpha1", "kind": "UpgradeConfig",
            "metadata": { "name": upgrade_config::NAME },
            "spec": {
                "type": "OSD", "upgradeAt": self.at.to_string(), "PDBForceDrainTimeout": 30,
                "capacityReservation": true,
                "desired": { "version": release.version, "channel": CHANNEL },
            },
        });
        let params = PatchParams::apply("demo").force();
        let name = upgrade_config::NAME;
        self.upgrades
            .patch(name, &params, &Patch::Apply(object))
            .await?;
        Ok(())
    }

    /// Does what the machine API would, and reads how far the upgrade is.
    pub(crate) async fn advance(&mut self, cluster: &mut Cluster) -> Result<()> {
        let pointer = &self.services.config_server.pointer;
        self.services.machines.advance(cluster, pointer).await?;
        let upgrade = self.upgrades.get(upgrade_config::NAME).await?;
        let history = upgrade.status.unwrap_or_default().history;
        self.entry = history
            .into_iter()
            .find(|entry| entry.version == self.version);
        let map = self.maps.get_opt(plan::NAME).await?;
        let text = map.and_then(|map| map.data?.remove(plan::KEY));
        let plan = text.map(|text| UpgradePlan::parse(&text)).transpose()?;
        self.plan = plan.filter(|plan| plan.version == self.version);
        Ok(())
    }

    /// What stands above run levels and nodes.
    pub(crate) fn notes(&self, now: Timestamp) -> Result<Vec<String>> {
        let phase = self.entry.as_ref().map_or("", |entry| entry.phase.as_str());
        let mut notes = vec![if now < self.at {
            let at = self.at.strftime("%H:%M:%S UTC");
            format!("UpgradeConfig: {phase}, starts at {at}")
        } else {
            format!("UpgradeConfig: {phase}")
        }];
        notes.extend(self.plan.iter().flat_map(steps::notes));
        notes.extend(self.silences()?.into_iter().map(|it| format!("  {it}")));
        notes.push(String::new());
        Ok(notes)
    }

    /// Whether all of its steps are done.
    pub(crate) fn is_over(&self) -> bool {
        let phase = self.entry.as_ref().map(|entry| &entry.phase);
        phase == Some(&UpgradePhase::Upgraded)
    }

    /// Its steps that are done.
    pub(crate) fn steps(&self) -> Vec<StepSpan> {
        let both = self.plan.as_ref().zip(self.entry.as_ref());
        both.map_or_else(Vec::new, |(plan, entry)| steps::spans(plan, entry))
    }

    /// What went wrong about it, though the cluster is updated: something that it added is there
    /// still, or was never there.
    pub(crate) async fn doubts(&self) -> Result<Vec<String>> {
        let mut doubts = Vec::new();
        let silences = self.silences()?;
        if !silences.is_empty() {
            doubts.push(format!(
                "alerts are silenced still: {}",
                silences.join(", ")
            ));
        }
        doubts.extend(self.services.machines.doubt().await?);
        let reported = self.reported().await?;
        for state in ["StateStarted", "StateCompleted"] {
            if reported.iter().filter(|it| *it == state).count() != 1 {
                doubts.push(format!(
                    "{state} was not reported once: {}",
                    reported.join(", ")
                ));
            }
        }
        Ok(doubts)
    }

    /// States that events reported, sorted.
    pub(crate) async fn reported(&self) -> Result<Vec<String>> {
        let events = self.events.list(&ListParams::default()).await?;
        let reasons = events.items.into_iter().filter_map(|event| event.reason);
        let mut states: Vec<String> = reasons
            .filter(|reason| reason.starts_with("State"))
            .collect();
        states.sort();
        Ok(states)
    }

    /// Comments of the silences in force.
    fn silences(&self) -> Result<Vec<String>> {
        let silences = self.services.monitoring.servers.silences()?;
        Ok(silences.into_iter().map(|it| it.comment).collect())
    }
}
