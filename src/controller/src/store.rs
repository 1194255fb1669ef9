//! What is known of the cluster, kept up to date.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{ControllerConfig, MachineConfigPool};
use cluster::cache::{Kind, Table};
use cluster::collection::News;
use pool::membership::{Membership, initial_pool};
use pool::node::NodeView;
use pool::view::PoolView;
use tokio::sync::Notify;

use crate::configs::ConfigMeta;

/// A pool as it was read, and parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// The object, without its managed fields.
    pub object: MachineConfigPool,
    /// The same, parsed.
    pub view: PoolView,
}

impl Pool {
    /// Reads a pool.
    pub fn parse(mut object: MachineConfigPool) -> Self {
        object.metadata.managed_fields = None;
        let view = PoolView::parse(&object);
        Self { object, view }
    }
}

/// MachineConfigPools.
#[derive(Debug)]
pub enum Pools {}

impl Kind for Pools {
    type Entry = Pool;

    fn name(entry: &Pool) -> &str {
        &entry.view.name
    }

    fn version(entry: &Pool) -> &str {
        &entry.view.resource_version
    }

    fn says_the_same(one: &Pool, other: &Pool) -> bool {
        one == other
    }
}

/// Nodes. A heartbeat is no news.
#[derive(Debug)]
pub enum Nodes {}

impl Kind for Nodes {
    type Entry = NodeView;

    fn name(entry: &NodeView) -> &str {
        &entry.name
    }

    fn version(entry: &NodeView) -> &str {
        &entry.resource_version
    }

    fn says_the_same(one: &NodeView, other: &NodeView) -> bool {
        let mut other = other.clone();
        other.resource_version.clone_from(&one.resource_version);
        *one == other
    }
}

/// MachineConfigs, by their metadata.
#[derive(Debug)]
pub enum Configs {}

impl Kind for Configs {
    type Entry = ConfigMeta;

    fn name(entry: &ConfigMeta) -> &str {
        &entry.name
    }

    fn version(entry: &ConfigMeta) -> &str {
        &entry.resource_version
    }

    fn says_the_same(one: &ConfigMeta, other: &ConfigMeta) -> bool {
        let mut other = other.clone();
        other.resource_version.clone_from(&one.resource_version);
        *one == other
    }
}

/// ControllerConfigs.
#[derive(Debug)]
pub enum ControllerConfigs {}

impl Kind for ControllerConfigs {
    type Entry = ControllerConfig;

    fn name(entry: &ControllerConfig) -> &str {
        entry.metadata.name.as_deref().unwrap_or_default()
    }

    fn version(entry: &ControllerConfig) -> &str {
        entry
            .metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    fn says_the_same(one: &ControllerConfig, other: &ControllerConfig) -> bool {
        one == other
    }
}

/// All that is known at one moment. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Pools.
    pub pools: Table<Pools>,
    /// Nodes.
    pub nodes: Table<Nodes>,
    /// Metadata of the MachineConfigs.
    pub configs: Table<Configs>,
    /// The cluster's ControllerConfig, if there is one.
    pub controller_configs: Table<ControllerConfigs>,
}

impl Snapshot {
    /// Whether every kind was read at least once.
    pub const fn is_known(&self) -> bool {
        self.pools.is_known()
            && self.nodes.is_known()
            && self.configs.is_known()
            && self.controller_configs.is_known()
    }

    /// All pools, with one of them in a newer form.
    pub fn views_with(&self, pool: &PoolView) -> Vec<PoolView> {
        self.pools
            .values()
            .map(|known| &known.view)
            .filter(|known| known.name != pool.name)
            .chain([pool])
            .cloned()
            .collect()
    }

    /// The custom pool that a node was born in and whose labels it was not given yet. Until it has them, no pool may tell it anything.
    pub fn birthplace(&self, node: &NodeView) -> Option<&PoolView> {
        let owner = |config: &str| self.configs.get(config)?.pool.clone();
        initial_pool(node, self.pools.values().map(|pool| &pool.view), owner)
    }

    /// Sorts `nodes` into `pools`, those left out that were not given the labels of their birth yet.
    pub fn sort<'a>(
        &self,
        nodes: impl IntoIterator<Item = &'a NodeView>,
        pools: &'a [PoolView],
    ) -> Membership<'a> {
        let has_its_labels = |node: &&NodeView| self.birthplace(node).is_none();
        Membership::sort(nodes.into_iter().filter(has_its_labels), pools)
    }

    /// The ControllerConfig that counts.
    pub fn controller_config(&self) -> Option<&ControllerConfig> {
        self.controller_configs
            .get(api::controller_config::NAME)
            .map(Arc::as_ref)
    }
}

/// The snapshot that watches and writes keep up to date.
#[derive(Debug, Default)]
pub struct Store {
    snapshot: Mutex<Snapshot>,
    changed: Notify,
}

impl Store {
    /// What is known now.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().clone()
    }

    /// What is known now of one pool.
    pub fn pool(&self, name: &str) -> Option<Arc<Pool>> {
        self.lock().pools.get(name).cloned()
    }

    /// Waits for news since the last wait.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes in a pool that a request was answered with.
    pub fn refresh_pool(&self, pool: Pool) {
        let is_news = self.lock().pools.refresh(pool);
        self.tell(is_news);
    }

    /// Takes in a node that a request was answered with.
    pub fn refresh_node(&self, node: NodeView) {
        let is_news = self.lock().nodes.refresh(node);
        self.tell(is_news);
    }

    /// Takes in what a watch tells of pools.
    pub fn learn_pools(&self, news: News<Pool>) {
        let is_news = self.lock().pools.learn(news);
        self.tell(is_news);
    }

    /// Takes in what a watch tells of nodes.
    pub fn learn_nodes(&self, news: News<NodeView>) {
        let is_news = self.lock().nodes.learn(news);
        self.tell(is_news);
    }

    /// Takes in what a watch tells of MachineConfigs, and one that was just made.
    pub fn learn_configs(&self, news: News<ConfigMeta>) {
        let is_news = self.lock().configs.learn(news);
        self.tell(is_news);
    }

    /// Takes in what a watch tells of ControllerConfigs.
    pub fn learn_controller_configs(&self, news: News<ControllerConfig>) {
        let is_news = self.lock().controller_configs.learn(news);
        self.tell(is_news);
    }

    fn tell(&self, is_news: bool) {
        if is_news {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_decided_before_everything_was_read() {
        let store = Store::default();
        store.learn_pools(News::All(vec![]));
        store.learn_nodes(News::All(vec![]));
        store.learn_configs(News::All(vec![]));
        assert!(!store.snapshot().is_known());
        store.learn_controller_configs(News::All(vec![]));
        assert!(store.snapshot().is_known());
        store.changed().await;
    }
}
