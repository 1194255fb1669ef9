//! What of the base configurations of a role is read: files that options are laid over.

use std::collections::BTreeMap;

use std::sync::Arc;

use api::config::NodeSettings;
use api::machineconfiguration::label;
use cluster::wire;
use generated::features::NoGates;
use generated::kubelet::compose::{self, KUBELET_CONF};
use generated::kubelet::{self, BaseError, KubeletBase};
use generated::latency::{LatencyProfile, NodeAsks};
use generated::node_settings;
use generated::pools::PoolFacts;
use generated::{features, object, runtime};
use serde_json::Value;

use super::Generating;
use crate::context::lock;
use crate::decide::controller_config;
use crate::events;
use crate::store::Snapshot;

/// The text of a file of a base configuration, or why there is none.
type BaseText = Result<String, BaseError>;

/// A file of a base configuration, as it was read.
#[derive(Debug, Clone)]
pub(super) struct BaseFile {
    uid: String,
    generation: Option<i64>,
    text: BaseText,
}

/// Why settings of all kubelets are not followed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettingsError {
    /// A request failed. All others are what the cluster does not say yet.
    #[error(transparent)]
    Request(#[from] wire::Error),
    #[error(transparent)]
    Gates(#[from] NoGates),
    #[error(transparent)]
    Node(#[from] node_settings::Error),
    #[error(transparent)]
    Kubelet(#[from] kubelet::Error),
}

impl Generating<'_> {
    /// What the options of kubelets are laid over.
    pub(super) async fn kubelet_base(
        &self,
        snapshot: &Snapshot,
        pools: &[PoolFacts],
    ) -> Result<KubeletBase, SettingsError> {
        let generators = &snapshot.generators;
        let gate = generators.feature_gates.values().next();
        let version =
            controller_config::release(snapshot.controller_config(), snapshot.version.as_str());
        let gates = gate
            .map(|gate| features::gates(gate, &version))
            .transpose()?;
        let node = match generators.node_settings.values().next() {
            None => None,
            Some(settings) => Some(self.node_asks(snapshot, settings).await?),
        };
        let server = generators.api_servers.values().next();
        Ok(KubeletBase {
            node,
            roles: self.kubelet_bases(snapshot, pools).await?,
            gates,
            tls: server.and_then(|server| server.spec.tls_security_profile.clone()),
        })
    }

    /// What the cluster's node settings ask for. A step between latency profiles that may not be
    /// made at once is not made: the profile stays.
    async fn node_asks(
        &self,
        snapshot: &Snapshot,
        settings: &NodeSettings,
    ) -> Result<NodeAsks, SettingsError> {
        let mut asks = node_settings::read(settings)?;
        let name = node_settings::config_name(label::role::WORKER);
        let Ok(text) = self.base_file(snapshot, &name, KUBELET_CONF).await? else {
            return Ok(asks);
        };
        let before = node_settings::profile_of_conf(&text).unwrap_or(LatencyProfile::Default);
        // Without a profile, the kubelet has its own default.
        let after = asks.profile.unwrap_or(LatencyProfile::Default);
        if !before.may_become(after) {
            let why = format!(
                "workerLatencyProfile {} is kept: {} is reached by way of {} only",
                before.as_str(),
                after.as_str(),
                LatencyProfile::MediumUpdateAverageReaction.as_str()
            );
            tracing::warn!(reason = why, "refused a step between latency profiles");
            events::record_prohibited(&self.context.recorder, settings, &why, self.context.now());
            asks.profile = Some(before);
        }
        Ok(asks)
    }

    /// The `kubelet.conf` of each role that pools have.
    async fn kubelet_bases(
        &self,
        snapshot: &Snapshot,
        pools: &[PoolFacts],
    ) -> Result<BTreeMap<String, Result<Value, BaseError>>, wire::Error> {
        let mut bases = BTreeMap::new();
        for role in roles(pools) {
            let name = format!("01-{role}-kubelet");
            let text = self.base_file(snapshot, &name, KUBELET_CONF).await?;
            let conf = text.and_then(|text| {
                compose::base_of(&text).map_err(|error| BaseError::ParseFile(name, error))
            });
            bases.insert(role.to_owned(), conf);
        }
        Ok(bases)
    }

    /// The `storage.conf` of each role whose base writes one.
    pub(super) async fn storage_bases(
        &self,
        snapshot: &Snapshot,
        pools: &[PoolFacts],
    ) -> Result<BTreeMap<String, String>, wire::Error> {
        let mut bases = BTreeMap::new();
        for role in roles(pools) {
            let name = format!("01-{role}-container-runtime");
            let text = self.base_file(snapshot, &name, runtime::STORAGE).await?;
            // What cannot be read is not written by this configuration either.
            if let Ok(text) = text {
                bases.insert(role.to_owned(), text);
            }
        }
        Ok(bases)
    }

    /// A file of a MachineConfig.
    async fn base_file(
        &self,
        snapshot: &Snapshot,
        name: &str,
        path: &'static str,
    ) -> Result<BaseText, wire::Error> {
        let missing = || Ok(Err(BaseError::Missing(name.to_owned())));
        let Some(base) = snapshot.configs.get(name) else {
            return missing();
        };
        let key = (name.to_owned(), path);
        let remembered = lock(self.state).bases.get(&key).cloned();
        if let Some(file) = remembered
            && file.uid == base.uid
            && file.generation == base.generation
        {
            return Ok(file.text);
        }
        let Some(config) = self.context.requests.read_config(name).await? else {
            return missing();
        };
        let text = object::file_of(&config.spec, path)
            .map_err(|error| BaseError::ReadFile(name.to_owned(), Arc::new(error)))
            .and_then(|text| text.ok_or_else(|| BaseError::NoFile(name.to_owned())));
        let file = BaseFile {
            uid: config.metadata.uid.unwrap_or_default(),
            generation: config.metadata.generation,
            text: text.clone(),
        };
        lock(self.state).bases.insert(key, file);
        Ok(text)
    }
}

/// The roles that pools have, each once.
fn roles(pools: &[PoolFacts]) -> Vec<&str> {
    let mut roles: Vec<&str> = pools.iter().map(PoolFacts::role).collect();
    roles.sort_unstable();
    roles.dedup();
    roles
}
