//! What is watched. Each change wakes the one key that there is.

use std::fmt;

use api::config::{ClusterOperator, ClusterOperatorStatus, ClusterVersion, cluster_version};
use api::machineconfiguration::MachineConfigPool;
use api::stop::StopSwitch;
use api::upgrade::{UpgradeConfig, upgrade_config};
use cluster::cache::{Cache, CachedKind};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use operator::watch::kept::{ConfigMapData, KeptPart, PartOf};
use operator::{Operator, Wake, WatchScope, Watched};

use upgrade_plan::config::CONFIG_MAP;
use upgrade_plan::node_view::{PoolProgress, UpgradeNode};

/// The one thing that is reconciled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct UpgradeKey;

impl fmt::Display for UpgradeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(upgrade_config::NAME)
    }
}

/// The caches of the cluster, kept up to date. Its clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct UpgradeCaches {
    pub(crate) upgrades: Cache<Upgrades>,
    pub(crate) versions: Cache<Versions>,
    pub(crate) operators: Cache<PartOf<OperatorReport>>,
    pub(crate) pools: Cache<PoolsProgress>,
    pub(crate) nodes: Cache<UpgradeNodes>,
    pub(crate) settings: Cache<PartOf<ConfigMapData>>,
}

/// Watches all kinds.
pub(crate) fn watch_all(
    operator: Operator<UpgradeKey>,
    caches: &UpgradeCaches,
    namespace: &str,
) -> Operator<UpgradeKey> {
    let upgrades = WatchScope::namespace(namespace).named(upgrade_config::NAME);
    let settings = WatchScope::namespace(namespace).named(CONFIG_MAP);
    let version = WatchScope::cluster().named(cluster_version::NAME);
    operator
        .watch(&caches.upgrades, upgrades, |_, _| Wake::All)
        .watch(&caches.settings, settings, |_, _| Wake::All)
        .watch(&caches.versions, version, |_, _| Wake::All)
        .watch(&caches.operators, WatchScope::cluster(), |_, _| Wake::All)
        .watch(&caches.pools, WatchScope::cluster(), |_, _| Wake::All)
        .watch(&caches.nodes, WatchScope::cluster(), |_, _| Wake::All)
}

fn text(text: Option<&String>) -> &str {
    text.map(String::as_str).unwrap_or_default()
}

fn name(metadata: &ObjectMeta) -> &str {
    text(metadata.name.as_ref())
}

fn version(metadata: &ObjectMeta) -> &str {
    text(metadata.resource_version.as_ref())
}

/// Objects of the kind UpgradeConfig; one counts.
#[derive(Debug)]
pub(crate) enum Upgrades {}

impl CachedKind for Upgrades {
    type Entry = UpgradeConfig;

    fn name(entry: &UpgradeConfig) -> &str {
        name(&entry.metadata)
    }

    fn version(entry: &UpgradeConfig) -> &str {
        version(&entry.metadata)
    }

    fn has_same_content(one: &UpgradeConfig, other: &UpgradeConfig) -> bool {
        let mut other = other.clone();
        other
            .metadata
            .resource_version
            .clone_from(&one.metadata.resource_version);
        *one == other
    }
}

impl Watched for Upgrades {
    type Object = UpgradeConfig;

    fn parse(mut object: UpgradeConfig) -> UpgradeConfig {
        object.metadata.managed_fields = None;
        object
    }
}

/// Objects of the kind ClusterVersion; one counts.
#[derive(Debug)]
pub(crate) enum Versions {}

impl CachedKind for Versions {
    type Entry = ClusterVersion;

    fn name(entry: &ClusterVersion) -> &str {
        name(&entry.metadata)
    }

    fn version(entry: &ClusterVersion) -> &str {
        version(&entry.metadata)
    }

    fn has_same_content(one: &ClusterVersion, other: &ClusterVersion) -> bool {
        let switch = |it: &ClusterVersion| StopSwitch::read(it.metadata.annotations.as_ref());
        (&one.spec, &one.status) == (&other.spec, &other.status) && switch(one) == switch(other)
    }
}

impl Watched for Versions {
    type Object = ClusterVersion;

    fn parse(mut object: ClusterVersion) -> ClusterVersion {
        object.metadata.managed_fields = None;
        object
    }
}

/// Conditions of a ClusterOperator.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OperatorReport {
    pub(crate) status: ClusterOperatorStatus,
}

impl KeptPart for OperatorReport {
    type Object = ClusterOperator;

    fn of(object: ClusterOperator) -> Self {
        let mut status = object.status.unwrap_or_default();
        status.extension = None;
        status.related_objects.clear();
        status.versions.clear();
        Self { status }
    }
}

#[derive(Debug)]
pub(crate) enum PoolsProgress {}

impl CachedKind for PoolsProgress {
    type Entry = PoolProgress;

    fn name(entry: &PoolProgress) -> &str {
        &entry.name
    }

    fn version(entry: &PoolProgress) -> &str {
        &entry.resource_version
    }

    fn has_same_content(one: &PoolProgress, other: &PoolProgress) -> bool {
        let mut other = other.clone();
        other.resource_version.clone_from(&one.resource_version);
        *one == other
    }
}

impl Watched for PoolsProgress {
    type Object = MachineConfigPool;

    fn parse(object: MachineConfigPool) -> PoolProgress {
        PoolProgress::parse(object)
    }
}

/// Nodes. A heartbeat is kept and is no change.
#[derive(Debug)]
pub(crate) enum UpgradeNodes {}

impl CachedKind for UpgradeNodes {
    type Entry = UpgradeNode;

    fn name(entry: &UpgradeNode) -> &str {
        &entry.name
    }

    fn version(entry: &UpgradeNode) -> &str {
        &entry.resource_version
    }

    fn has_same_content(one: &UpgradeNode, other: &UpgradeNode) -> bool {
        let mut other = other.clone();
        other.reported = one.reported;
        other.resource_version.clone_from(&one.resource_version);
        *one == other
    }
}

impl Watched for UpgradeNodes {
    type Object = Node;

    fn parse(object: Node) -> UpgradeNode {
        UpgradeNode::parse(object)
    }
}
