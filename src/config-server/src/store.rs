//! The pools, their configurations and certificates, kept up to date.
//!
//! Pools are watched. Of the MachineConfigs only those that a pool serves are read, once each: a
//! cluster holds hundreds of some hundred kilobytes. Responses come from what is kept, so that they
//! do not wait for the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::machineconfiguration::{
    ControllerConfig, MachineConfig, MachineConfigPool, controller_config,
};
use chassis::http::tls::{self, ClientAuthorities};
use cluster::access::Access;
use cluster::cache::Cache;
use cluster::{path, wire};
use k8s_openapi::api::core::v1::ConfigMap;
use operator::watch::kept::{Kept, KeptPart, PartOf};
use operator::{Next, Operator, Reconcile, Wake, WatchScope};
use pool::view::PoolView;

use crate::image_mode::{NoImage, Offer, OsBuildPart, OsConfigPart, serves_image};

/// Key of the ConfigMap under which the API server publishes who signs its clients' certificates.
const CLIENT_CA: &str = "client-ca-file";

/// A pool, as far as it is served.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServedPool {
    /// The rendered configuration that a new machine gets.
    pub(crate) config: Option<String>,
    /// Whether a node of the pool is what the pool assigns.
    pub(crate) is_proved: bool,
    view: PoolView,
}

impl KeptPart for ServedPool {
    type Object = MachineConfigPool;

    /// New machines get the pool's new configuration once one node has proved it.
    fn of(pool: MachineConfigPool) -> Self {
        let view = PoolView::parse(&pool);
        let status = pool.status.unwrap_or_default();
        let is_proved = status.updated_machine_count > 0;
        let configuration = if is_proved {
            &pool.spec.configuration
        } else {
            &status.configuration
        };
        Self {
            config: configuration.name().map(ToOwned::to_owned),
            is_proved,
            view,
        }
    }
}

/// Certificates that machines get.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bundles {
    pub(crate) kubelet_ca: Vec<u8>,
    pub(crate) cloud_ca: Vec<u8>,
}

impl KeptPart for Bundles {
    type Object = ControllerConfig;

    fn of(object: ControllerConfig) -> Self {
        let spec = object.spec;
        Self {
            kubelet_ca: spec.kube_api_server_serving_ca_data.0,
            cloud_ca: spec.cloud_provider_ca_data.unwrap_or_default().0,
        }
    }
}

/// Who signs the certificates of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signers {
    bundle: Option<String>,
}

impl KeptPart for Signers {
    type Object = ConfigMap;

    fn of(object: ConfigMap) -> Self {
        Self {
            bundle: object.data.and_then(|mut data| data.remove(CLIENT_CA)),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ServedKey {
    /// The configuration of the pool of this name.
    Pool(String),
    /// Who signs the certificates of clients.
    Signers,
}

impl fmt::Display for ServedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(name) => write!(f, "pool {name}"),
            Self::Signers => f.write_str("client authorities"),
        }
    }
}

/// What responses are built from.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServedStore {
    pools: Cache<PartOf<ServedPool>>,
    certificates: Cache<PartOf<Bundles>>,
    signers: Cache<PartOf<Signers>>,
    os_configs: Cache<PartOf<OsConfigPart>>,
    os_builds: Cache<PartOf<OsBuildPart>>,
    configs: Arc<Mutex<BTreeMap<String, Arc<MachineConfig>>>>,
}

/// What a pool serves now.
#[derive(Debug)]
pub(crate) enum Serving {
    /// There is no such pool.
    Unknown,
    /// It has nothing to serve, and why.
    NotYet(String),
    /// A configuration, and the image that is built for it or the reason why none is served.
    Config {
        config: Arc<MachineConfig>,
        image: Result<String, NoImage>,
    },
}

impl ServedStore {
    /// A pool that serves a configuration.
    #[cfg(test)]
    pub(crate) fn of(pool: &str, config: MachineConfig) -> Self {
        let store = Self::default();
        let name = config.metadata.name.clone().unwrap_or_default();
        let of = serde_json::json!({
            "metadata": { "name": pool, "resourceVersion": "1" },
            "spec": { "configuration": { "name": name } },
            "status": { "configuration": { "name": name } },
        });
        let pool = Kept::parse(serde_json::from_value(of).unwrap());
        let synced = cluster::cache::WatchEvent::Synced(vec![pool]);
        store.pools.apply(synced);
        store.has_no_images();
        store.configs().insert(name, Arc::new(config));
        store
    }

    /// A cluster without the kinds of image mode.
    #[cfg(test)]
    fn has_no_images(&self) {
        self.os_configs
            .apply(cluster::cache::WatchEvent::Synced(Vec::new()));
        self.os_builds
            .apply(cluster::cache::WatchEvent::Synced(Vec::new()));
    }

    /// What a pool serves now.
    pub(crate) fn serving(&self, pool: &str) -> Serving {
        let table = self.pools.table();
        if !table.has_synced() {
            return Serving::NotYet("pools were not read yet".to_owned());
        }
        let Some(found) = table.get(pool) else {
            return Serving::Unknown;
        };
        let Some(name) = found.config.as_deref() else {
            return Serving::NotYet(format!("pool {pool:?} has no rendered configuration yet"));
        };
        let Some(config) = self.configs().get(name).cloned() else {
            return Serving::NotYet(format!("MachineConfig {name:?} was not read yet"));
        };
        let (os_configs, os_builds) = (self.os_configs.table(), self.os_builds.table());
        if !os_configs.has_synced() || !os_builds.has_synced() {
            return Serving::NotYet("built images were not read yet".to_owned());
        }
        let os_config = os_configs.get(pool).map(|kept| &***kept);
        let build = os_config.and_then(OsConfigPart::build);
        let build = build.and_then(|name| os_builds.get(name));
        let offer = Offer {
            pool,
            config: name,
            is_proved: found.is_proved,
        };
        let target = serves_image(offer, os_config, build.map(|kept| &***kept));
        let image = target.map(|target| target.image.unwrap_or_default());
        Serving::Config { config, image }
    }

    /// All pools; none before they were read: until then a node may be of any of them.
    pub(crate) fn views(&self) -> Option<Vec<PoolView>> {
        let table = self.pools.table();
        let views = table.values().map(|pool| pool.view.clone());
        table.has_synced().then(|| views.collect())
    }

    /// Certificates that machines get.
    pub(crate) fn bundles(&self) -> Option<Arc<Kept<Bundles>>> {
        self.certificates
            .table()
            .get(controller_config::NAME)
            .cloned()
    }

    /// Each pool, and whether a machine would get its configuration.
    pub(crate) fn pools(&self) -> Vec<(String, bool)> {
        let configs = self.configs();
        let table = self.pools.table();
        let is_ready = |pool: &Arc<Kept<ServedPool>>| {
            let config = pool.config.as_ref();
            config.is_some_and(|config| configs.contains_key(config))
        };
        table
            .values()
            .map(|pool| (pool.name.clone(), is_ready(pool)))
            .collect()
    }

    /// Has the operator watch all that responses are built from.
    pub(crate) fn watch(
        &self,
        operator: Operator<ServedKey>,
        signers: &(String, String),
    ) -> Operator<ServedKey> {
        let (namespace, name) = signers;
        operator
            .watch(&self.pools, WatchScope::cluster(), |before, after| {
                let pool = after.or(before).map(|pool| pool.name.clone());
                Wake::Keys(pool.into_iter().map(ServedKey::Pool).collect())
            })
            .watch(&self.certificates, WatchScope::cluster(), |_, _| {
                Wake::Keys(Vec::new())
            })
            // A cluster without image mode has neither kind.
            .watch(
                &self.os_configs,
                WatchScope::cluster().optional(),
                |_, _| Wake::Keys(Vec::new()),
            )
            .watch(&self.os_builds, WatchScope::cluster().optional(), |_, _| {
                Wake::Keys(Vec::new())
            })
            .watch(
                &self.signers,
                WatchScope::namespace(namespace).named(name),
                |_, _| Wake::Keys(vec![ServedKey::Signers]),
            )
    }

    fn configs(&self) -> MutexGuard<'_, BTreeMap<String, Arc<MachineConfig>>> {
        // Nothing panics while it is held; a poisoned lock still holds a whole map.
        self.configs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why something that is served cannot be kept up to date.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A pool's configuration cannot be read.
    #[error("cannot read the configuration of pool {pool:?}")]
    Config { pool: String, source: wire::Error },
    /// The authorities of clients cannot be used.
    #[error("cannot use {CLIENT_CA} of the ConfigMap of client authorities")]
    Signers(#[from] tls::Error),
}

/// Reads what the pools serve.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) store: ServedStore,
    pub(crate) access: Arc<Access>,
    pub(crate) authorities: ClientAuthorities,
}

impl Keeper {
    /// Reads a configuration that no pool has served yet, and forgets those that none serves any
    /// more.
    async fn read(&self, pool: &str) -> Result<Next, Error> {
        let table = self.store.pools.table();
        let served: BTreeSet<&str> = table
            .values()
            .filter_map(|pool| pool.config.as_deref())
            .collect();
        self.store
            .configs()
            .retain(|config, _| served.contains(config.as_str()));
        let Some(found) = table.get(pool) else {
            return Ok(Next::Gone);
        };
        let Some(config) = &found.config else {
            return Ok(Next::Settled);
        };
        // Again with each resync: someone may have edited it.
        let path = path::object::<MachineConfig>(config);
        let read: Result<MachineConfig, _> = self.access.get(&path).await;
        let mut read = read.map_err(|source| Error::Config {
            pool: pool.to_owned(),
            source,
        })?;
        read.metadata.managed_fields = None;
        let before = self.store.configs().insert(config.clone(), Arc::new(read));
        if before.is_none() {
            tracing::info!(pool, config, "serving a configuration");
        }
        Ok(Next::Settled)
    }

    fn sign(&self) -> Result<Next, Error> {
        let table = self.store.signers.table();
        let signers = table.values().next();
        let bundle = signers.and_then(|signers| signers.bundle.as_deref());
        self.authorities.set(bundle.map(str::as_bytes))?;
        Ok(Next::Settled)
    }
}

impl Reconcile for Keeper {
    type Key = ServedKey;
    type Error = Error;

    fn keys(&self) -> Vec<ServedKey> {
        let table = self.store.pools.table();
        let pools = table
            .values()
            .map(|pool| ServedKey::Pool(pool.name.clone()));
        pools.chain([ServedKey::Signers]).collect()
    }

    async fn reconcile(&self, key: &ServedKey) -> Result<Next, Error> {
        match key {
            ServedKey::Pool(pool) => self.read(pool).await,
            ServedKey::Signers => self.sign(),
        }
    }
}

#[cfg(test)]
mod tests {
    use cluster::cache::WatchEvent;
    use serde_json::json;

    use super::*;

    fn pool(updated: i32, spec: &str, status: &str) -> Kept<ServedPool> {
        let name = |name: &str| match name {
            "" => json!({}),
            name => json!({"name": name}),
        };
        let pool = json!({
            "metadata": {"name": "worker", "resourceVersion": "1"},
            "spec": {"configuration": name(spec)},
            "status": {"updatedMachineCount": updated, "configuration": name(status)},
        });
        Kept::parse(serde_json::from_value(pool).unwrap())
    }

    #[test]
    fn new_configuration_is_served_once_a_node_runs_it() {
        let table = [
            ((0, "new", "old"), Some("old")),
            ((1, "new", "old"), Some("new")),
            ((0, "new", ""), None),
            ((0, "", ""), None),
        ];
        for ((updated, spec, status), expected) in table {
            assert_eq!(pool(updated, spec, status).config.as_deref(), expected);
        }
    }

    #[test]
    fn pool_is_served_once_its_configuration_was_read() {
        let store = ServedStore::default();
        assert!(matches!(store.serving("worker"), Serving::NotYet(_)));
        assert_eq!(store.views().map(|pools| pools.len()), None);
        let event = WatchEvent::Synced(vec![pool(1, "new", "old")]);
        store.pools.apply(event);
        assert_eq!(store.views().map(|pools| pools.len()), Some(1));
        assert!(matches!(store.serving("edge"), Serving::Unknown));
        assert!(matches!(store.serving("worker"), Serving::NotYet(_)));
        assert_eq!(store.pools(), [("worker".to_owned(), false)]);
        let config = Arc::new(MachineConfig::default());
        store.configs().insert("new".to_owned(), config);
        // Whether an image is built for it is not determined yet.
        assert!(matches!(store.serving("worker"), Serving::NotYet(_)));
        store.has_no_images();
        assert!(matches!(
            store.serving("worker"),
            Serving::Config { image: Err(_), .. }
        ));
        assert_eq!(store.pools(), [("worker".to_owned(), true)]);
    }
}
