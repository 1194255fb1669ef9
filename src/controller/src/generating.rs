//! MachineConfigs that other objects ask for: decided by the crate `generated`, stored here.
//!
//! - `bases`: what of the base configurations is read
//! - `cluster_wide`: what one object asks for all built-in pools
//! - `templates`: base configurations of the roles
//! - `storing`: a generated MachineConfig is made, restored or removed

mod bases;
mod cluster_wide;
mod storing;
mod templates;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use api::machineconfiguration::{ContainerRuntimeConfig, KubeletConfig};
use chassis::report::Chain;
use cluster::cache::{Cache, Table};
use cluster::wire;
use generated::kubelet;
use generated::object::{GeneratedConfig, SettingOutcome};
use generated::pools::PoolFacts;
use generated::runtime;
use operator::Next;
use operator::watch::kept::WholeObject;

use self::bases::{BaseFile, SettingsError};
use self::storing::{Stored, Storing};
use crate::context::{Context, lock};
use crate::decide::generating::setting::{self, Setting};
use crate::decide::{self, controller_config};
use crate::store::generators::SettingCaches;
use crate::store::{Snapshot, Store};

/// What is remembered from one reconcile to the next. All of it can be lost.
#[derive(Debug)]
pub(crate) struct GeneratingState {
    /// What the last one that was settled depended on.
    settled: Option<Fingerprint>,
    /// Files of base configurations.
    bases: BTreeMap<(String, &'static str), BaseFile>,
    /// What is stored, as far as it was compared.
    stored: BTreeMap<String, Stored>,
}

impl GeneratingState {
    pub(crate) const fn new() -> Self {
        Self {
            settled: None,
            bases: BTreeMap::new(),
            stored: BTreeMap::new(),
        }
    }
}

/// What the result depends on: where it is the same, nothing is to be done.
#[derive(Debug, Clone, PartialEq)]
struct Fingerprint {
    objects: Vec<(&'static str, String, String)>,
    pools: Vec<PoolFacts>,
    configs: Vec<(String, String, Option<i64>, Option<String>)>,
    payload: Vec<String>,
    controller_config: Option<(String, i64)>,
    pull_secret: Option<String>,
}

/// Whether there is anything to generate, or to remove.
pub(crate) fn has_generated(store: &Store) -> bool {
    !store.generators.tables().is_empty()
        || decide::generating::templates::source(&store.snapshot()).is_some()
        || decide::generating::cluster_wide::leftovers(&store.configs.table())
            .next()
            .is_some()
}

/// Generates the configs of all settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Generating<'a> {
    pub(crate) context: &'a Context,
    pub(crate) state: &'a Mutex<GeneratingState>,
}

impl Generating<'_> {
    /// Generates the configs of all settings, and reports on the objects of these settings.
    pub(crate) async fn reconcile(&self, snapshot: &Snapshot) -> Result<Next, wire::Error> {
        let own = snapshot.version.as_str();
        let config = snapshot.controller_config();
        if let Some(why) = config.and_then(|config| controller_config::foreign_release(config, own))
        {
            tracing::debug!(reason = why, "nothing is generated yet");
            return Ok(Next::Settled);
        }
        let pools = facts(snapshot);
        let seen = fingerprint(snapshot, &pools);
        if lock(self.state).settled.as_ref() == Some(&seen) {
            return Ok(Next::Settled);
        }
        if !self.reconcile_templates(snapshot, &pools).await? {
            return Ok(Next::Retry);
        }
        // With the base configurations, which the others are laid over.
        let snapshot = &self.context.store.snapshot();
        let config = snapshot.controller_config();
        if let Some(why) = config.and_then(controller_config::unsettled_reason) {
            tracing::debug!(reason = why, "nothing is generated yet");
            return Ok(Next::Settled);
        }
        let is_done = self.reconcile_kubelet_configs(snapshot, &pools).await?
            & self.reconcile_runtime_configs(snapshot, &pools).await?
            & self.reconcile_cluster_wide(snapshot, &pools).await?;
        if !is_done {
            return Ok(Next::Retry);
        }
        // Not the state of now: an edit that came meanwhile was not compared.
        lock(self.state).settled = Some(seen);
        Ok(Next::Settled)
    }

    async fn reconcile_kubelet_configs(
        &self,
        snapshot: &Snapshot,
        pools: &[PoolFacts],
    ) -> Result<bool, wire::Error> {
        let table = &snapshot.generators.kubelet_configs;
        let configs: Vec<&KubeletConfig> = table.values().map(Arc::as_ref).collect();
        if configs.is_empty() {
            return Ok(true);
        }
        let base = match self.kubelet_base(snapshot, pools).await {
            Ok(base) => base,
            Err(SettingsError::Request(error)) => return Err(error),
            Err(error) => {
                tracing::info!(reason = %Chain(&error), "options of kubelets wait");
                return Ok(true);
            }
        };
        let plan = kubelet::plan(&configs, pools, &base);
        self.follow_all(snapshot, table, &plan.outcomes, &plan.configs)
            .await
    }

    async fn reconcile_runtime_configs(
        &self,
        snapshot: &Snapshot,
        pools: &[PoolFacts],
    ) -> Result<bool, wire::Error> {
        let table = &snapshot.generators.runtime_configs;
        let configs: Vec<&ContainerRuntimeConfig> = table.values().map(Arc::as_ref).collect();
        if configs.is_empty() {
            return Ok(true);
        }
        let storage = self.storage_bases(snapshot, pools).await?;
        let plan = runtime::plan(&configs, pools, &storage);
        self.follow_all(snapshot, table, &plan.outcomes, &plan.configs)
            .await
    }

    /// Does for each object what was decided. False where something changed meanwhile.
    async fn follow_all<S: CachedSetting, E: Error>(
        &self,
        snapshot: &Snapshot,
        table: &Table<WholeObject<S>>,
        outcomes: &[SettingOutcome<E>],
        configs: &[GeneratedConfig],
    ) -> Result<bool, wire::Error> {
        for object in table.values() {
            if object.meta().deletion_timestamp.is_some() {
                self.release(snapshot, object.as_ref(), &[]).await?;
            }
        }
        let mut is_done = true;
        for outcome in outcomes {
            if let Some(object) = table.get(&outcome.name) {
                let wanted = configs.iter();
                let wanted: Vec<_> = wanted
                    .filter(|config| outcome.configs.contains(&config.name))
                    .collect();
                is_done &= self
                    .follow(snapshot, object.as_ref(), outcome, &wanted)
                    .await?;
            }
        }
        Ok(is_done)
    }

    /// Gives an object its number and finalizers, stores its MachineConfigs, and reports. False
    /// where a MachineConfig changed meanwhile.
    async fn follow<S: CachedSetting, E: Error>(
        &self,
        snapshot: &Snapshot,
        object: &S,
        outcome: &SettingOutcome<E>,
        wanted: &[&GeneratedConfig],
    ) -> Result<bool, wire::Error> {
        let mut object = object.clone();
        let refusal = outcome.result.as_ref().err();
        let mut refusal = refusal.map(|error| Chain(error).to_string());
        if refusal.is_none() {
            if let Some(change) = setting::claim(&object, outcome) {
                object = self
                    .context
                    .requests
                    .objects::<S>()
                    .patch(object.name(), &change)
                    .await?;
                S::cache(&self.context.store.generators).refresh(object.clone());
            }
            for config in wanted {
                match self.store_generated(snapshot, config).await? {
                    Storing::Done => {}
                    Storing::Refused(why) => {
                        refusal = Some(why);
                        break;
                    }
                    Storing::Late => return Ok(false),
                }
            }
            if refusal.is_none() {
                object = self.release(snapshot, &object, &outcome.configs).await?;
            }
        }
        let now = self.context.now();
        if let Some(change) = setting::report(&object, (refusal.as_deref(), &outcome.remarks), now)
        {
            if let Some(why) = &refusal {
                let (kind, name) = (S::KIND.as_str(), object.name());
                tracing::warn!(kind, name, reason = why, "refused options of pools");
            }
            let objects = self.context.requests.objects::<S>().status();
            let written = objects.patch(object.name(), &change).await?;
            S::cache(&self.context.store.generators).refresh(written);
        }
        Ok(true)
    }

    /// Removes the MachineConfigs of an object but those that it keeps, and their finalizers. The
    /// object as it is then.
    async fn release<S: CachedSetting>(
        &self,
        snapshot: &Snapshot,
        object: &S,
        keeps: &[String],
    ) -> Result<S, wire::Error> {
        let gone = setting::released(object, keeps);
        if gone.is_empty() {
            return Ok(object.clone());
        }
        for name in &gone {
            let controller = snapshot
                .configs
                .get(name)
                .and_then(|config| config.controller.clone());
            let is_its = controller.is_some_and(|controller| {
                controller.kind == S::KIND.as_str() && controller.uid == object.uid()
            });
            if is_its {
                self.remove_generated(snapshot, name).await?;
            }
        }
        let change = setting::without_finalizers(object, &gone);
        let objects = self.context.requests.objects::<S>();
        let written = objects.patch(object.name(), &change).await?;
        if object.meta().deletion_timestamp.is_none() {
            S::cache(&self.context.store.generators).refresh(written.clone());
        }
        Ok(written)
    }
}

fn facts(snapshot: &Snapshot) -> Vec<PoolFacts> {
    let pools = snapshot.pools.values();
    pools
        .filter(|pool| !pool.view.is_deleted)
        .map(|pool| PoolFacts::read(&pool.object))
        .collect()
}

fn fingerprint(snapshot: &Snapshot, pools: &[PoolFacts]) -> Fingerprint {
    let mut pull_secrets = snapshot.pull_secrets.values();
    let configs = snapshot.configs.values();
    let configs = configs
        .filter(|config| {
            ["00-", "01-"]
                .iter()
                .any(|start| config.name.starts_with(start))
                || config.name.contains("-generated-")
        })
        .map(|config| {
            (
                config.name.clone(),
                config.uid.clone(),
                config.generation,
                config.generated_by.clone(),
            )
        });
    Fingerprint {
        objects: snapshot.generators.versions(),
        pools: pools.to_vec(),
        configs: configs.collect(),
        payload: decide::generating::cluster_wide::payload(snapshot)
            .into_iter()
            .map(str::to_owned)
            .collect(),
        controller_config: decide::generating::templates::source(snapshot).map(|config| {
            let uid = config.metadata.uid.clone().unwrap_or_default();
            (uid, config.metadata.generation.unwrap_or_default())
        }),
        pull_secret: pull_secrets.next().map(|secret| secret.version.clone()),
    }
}

/// A kind whose objects select pools, and where they are cached.
trait CachedSetting: Setting {
    fn cache(caches: &SettingCaches) -> &Cache<WholeObject<Self>>;
}

impl CachedSetting for KubeletConfig {
    fn cache(caches: &SettingCaches) -> &Cache<WholeObject<Self>> {
        &caches.kubelet_configs
    }
}

impl CachedSetting for ContainerRuntimeConfig {
    fn cache(caches: &SettingCaches) -> &Cache<WholeObject<Self>> {
        &caches.runtime_configs
    }
}
