//! What is known of the cluster, kept up to date.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{ControllerConfig, MachineConfigPool};
use cluster::collection::News;
use pool::membership::{Membership, born_in};
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

/// What can stand in the store.
pub trait Entry {
    /// Name, which is its key.
    fn name(&self) -> &str;

    /// Version of the object that was read.
    fn version(&self) -> &str;

    /// Whether `other` says the same but for its version: a kubelet's heartbeat is no news.
    fn says_the_same(&self, other: &Self) -> bool;
}

impl Entry for Pool {
    fn name(&self) -> &str {
        &self.view.name
    }

    fn version(&self) -> &str {
        &self.view.resource_version
    }

    fn says_the_same(&self, other: &Self) -> bool {
        self == other
    }
}

impl Entry for NodeView {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.resource_version
    }

    fn says_the_same(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.resource_version.clone_from(&self.resource_version);
        *self == other
    }
}

impl Entry for ConfigMeta {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.resource_version
    }

    fn says_the_same(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.resource_version.clone_from(&self.resource_version);
        *self == other
    }
}

impl Entry for ControllerConfig {
    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    fn version(&self) -> &str {
        self.metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    fn says_the_same(&self, other: &Self) -> bool {
        self == other
    }
}

/// Objects of one kind by name.
#[derive(Debug, Clone)]
pub struct Table<T> {
    entries: BTreeMap<String, Arc<T>>,
    is_known: bool,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            is_known: false,
        }
    }
}

impl<T: Entry> Table<T> {
    /// The object of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.entries.get(name)
    }

    /// All objects, by name.
    pub fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.entries.values()
    }

    /// Takes in what a watch told. True when it is news.
    fn learn(&mut self, news: News<T>) -> bool {
        match news {
            News::All(entries) => {
                self.entries = entries
                    .into_iter()
                    .map(|entry| (entry.name().to_owned(), Arc::new(entry)))
                    .collect();
                self.is_known = true;
                true
            }
            News::Present(entry) => self.put(entry),
            News::Gone(entry) => self.entries.remove(entry.name()).is_some(),
        }
    }

    /// Takes in the answer to a request, unless the object is not known: its end may have been told while the answer was on its way,
    /// and nobody would tell of that again. True when it is news.
    fn refresh(&mut self, entry: T) -> bool {
        self.entries.contains_key(entry.name()) && self.put(entry)
    }

    /// Puts an object unless a newer one is known: a watch may be behind the answer to a write of ours.
    fn put(&mut self, entry: T) -> bool {
        let known = self.entries.get(entry.name());
        if known.is_some_and(|known| is_newer(known.version(), entry.version())) {
            return false;
        }
        let is_news = !known.is_some_and(|known| known.says_the_same(&entry));
        self.entries
            .insert(entry.name().to_owned(), Arc::new(entry));
        is_news
    }
}

/// Whether the version `a` is newer than `b`.
///
/// Source: resource versions of one resource are decimal and comparable (KEP-5504). Others, which no Kubernetes sends, never are.
fn is_newer(a: &str, b: &str) -> bool {
    matches!((a.parse::<u128>(), b.parse::<u128>()), (Ok(a), Ok(b)) if a > b)
}

/// All that is known at one moment. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Pools.
    pub pools: Table<Pool>,
    /// Nodes.
    pub nodes: Table<NodeView>,
    /// Metadata of the MachineConfigs.
    pub configs: Table<ConfigMeta>,
    /// The cluster's ControllerConfig, if there is one.
    pub controller_configs: Table<ControllerConfig>,
}

impl Snapshot {
    /// Whether every kind was read at least once.
    pub const fn is_known(&self) -> bool {
        self.pools.is_known
            && self.nodes.is_known
            && self.configs.is_known
            && self.controller_configs.is_known
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
        born_in(node, self.pools.values().map(|pool| &pool.view), owner)
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
    use serde_json::json;

    use super::*;

    fn node(version: &str, current: &str) -> NodeView {
        let node = json!({ "metadata": {
            "name": "a", "resourceVersion": version,
            "annotations": { "machineconfiguration.openshift.io/currentConfig": current }
        } });
        NodeView::parse(serde_json::from_value(node).unwrap())
    }

    #[test]
    fn heartbeats_are_kept_and_are_no_news() {
        let mut table = Table::default();
        assert!(table.learn(News::All(vec![node("1", "x")])));
        assert!(!table.learn(News::Present(node("2", "x"))));
        assert_eq!(table.get("a").unwrap().resource_version, "2");
        assert!(table.learn(News::Present(node("3", "y"))));
    }

    #[test]
    fn a_watch_that_is_behind_takes_nothing_back() {
        let mut table = Table::default();
        assert!(table.put(node("10", "new")));
        assert!(!table.learn(News::Present(node("9", "old"))));
        assert_eq!(
            table.get("a").unwrap().current_config.as_deref(),
            Some("new")
        );
    }

    #[test]
    fn what_is_gone_is_gone() {
        let mut table = Table::default();
        table.put(node("1", "x"));
        assert!(table.learn(News::Gone(node("2", "x"))));
        assert!(table.get("a").is_none());
        table.put(node("3", "x"));
        assert!(table.learn(News::All(vec![])));
        assert_eq!(table.values().count(), 0);
    }

    #[test]
    fn a_late_answer_brings_nothing_back() {
        let mut table = Table::default();
        table.put(node("1", "x"));
        assert!(table.refresh(node("2", "y")));
        assert!(!table.refresh(node("1", "x")), "the answer is older");
        table.learn(News::Gone(node("3", "y")));
        assert!(!table.refresh(node("2", "y")));
        assert!(table.get("a").is_none());
        // It is there again: another Node of that name.
        assert!(table.learn(News::Present(node("4", "z"))));
        assert!(!table.refresh(node("2", "y")));
        assert_eq!(table.get("a").unwrap().resource_version, "4");
    }

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
