//! What is read of the cluster.

use api::config::control_plane_only::{CONTROL_PLANE_ONLY, ControlPlaneOnlyRecord};
use api::machineconfiguration::label::role;
use api::machineconfiguration::{MachineConfigPool, annotation};
use chassis::report::Chain;
use jiff::Timestamp;
use pool::kubelet_skew::KubernetesMinor;
use pool::membership::Membership;
use pool::node::NodeView;
use pool::view::PoolView;
use release::Version;

use super::obstacle::CpoObstacle;
use crate::decide::object::{ClusterObject, text};
use crate::decide::upgrade::version::VersionView;

/// A cluster at one moment.
#[derive(Debug)]
pub(crate) struct CpoCluster {
    pub(crate) version: ClusterObject,
    pub(crate) pools: Vec<MachineConfigPool>,
    pub(crate) nodes: Vec<NodeView>,
    /// Version of the API server, as it reports it.
    pub(crate) api_server: String,
    pub(crate) now: Timestamp,
}

/// Whether a pool is paused, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolPause {
    Resumed,
    /// By an administrator, or by another program.
    Other,
    /// By an update of the control plane alone.
    Own,
    /// Such an update paused it, and a person resumed it since.
    ResumedByPerson,
}

impl PoolPause {
    pub(crate) fn of(pool: &MachineConfigPool) -> Self {
        let annotations = pool.metadata.annotations.as_ref();
        let mark = annotations.and_then(|all| all.get(annotation::PAUSED_BY));
        let is_own = mark.is_some_and(|mark| mark == annotation::CONTROL_PLANE_ONLY);
        match (pool.spec.paused, is_own) {
            (true, true) => Self::Own,
            (true, false) => Self::Other,
            (false, true) => Self::ResumedByPerson,
            (false, false) => Self::Resumed,
        }
    }

    /// Whether the pool has the mark of such an update.
    pub(crate) const fn is_marked(self) -> bool {
        matches!(self, Self::Own | Self::ResumedByPerson)
    }
}

/// A pool and its nodes.
#[derive(Debug)]
pub(super) struct PoolFacts<'a> {
    pub(super) name: &'a str,
    pub(super) object: &'a MachineConfigPool,
    pub(super) pause: PoolPause,
    /// Whether it is updated with each hop: it is of the control plane, or has nodes of it.
    pub(super) is_control_plane: bool,
    pub(super) members: Vec<&'a NodeView>,
}

impl CpoCluster {
    pub(super) const fn view(&self) -> VersionView<'_> {
        VersionView(&self.version)
    }

    /// The update that is recorded on the ClusterVersion; none where there is no annotation.
    pub(super) fn record(&self) -> Result<Option<ControlPlaneOnlyRecord>, CpoObstacle> {
        record(&self.version).map_err(|why| CpoObstacle::Record { why })
    }

    /// The minor release of the API server.
    pub(super) fn api_server(&self) -> Result<KubernetesMinor, CpoObstacle> {
        KubernetesMinor::parse(&self.api_server).ok_or_else(|| CpoObstacle::ApiServer {
            version: self.api_server.clone(),
        })
    }

    /// The head of the history: its version, and whether it is completed.
    pub(super) fn head(&self) -> Result<(Version, bool), CpoObstacle> {
        let history = self.version.list("/status/history");
        let head = history.first().ok_or(CpoObstacle::NoHistory)?;
        let version = text(head, "/version");
        let parsed = version.parse::<Version>();
        let version = parsed.map_err(|error| CpoObstacle::HeadVersion {
            why: Chain(&error).to_string(),
        })?;
        Ok((version, text(head, "/state") == "Completed"))
    }

    /// The version that is requested; empty where none is, or an image alone.
    pub(super) fn requested(&self) -> &str {
        self.version.text("/spec/desiredUpdate/version")
    }

    /// All pools with their nodes, in the order of their names.
    pub(super) fn pools(&self) -> Vec<PoolFacts<'_>> {
        let views: Vec<PoolView> = self.pools.iter().map(PoolView::parse).collect();
        let sorted = Membership::sort(&self.nodes, &views);
        let facts = self.pools.iter().map(|object| {
            let name = name(object);
            let names: Vec<&str> = sorted.of(name).iter().map(|it| it.name.as_str()).collect();
            let members = self.nodes.iter();
            let members = members.filter(|node| names.contains(&node.name.as_str()));
            let members: Vec<&NodeView> = members.collect();
            let has_control_plane = members.iter().any(|node| node.is_control_plane());
            PoolFacts {
                name,
                object,
                pause: PoolPause::of(object),
                is_control_plane: role::is_control_plane(name) || has_control_plane,
                members,
            }
        });
        let mut facts: Vec<PoolFacts<'_>> = facts.collect();
        facts.sort_by_key(|pool| pool.name);
        facts
    }
}

/// The update that is recorded on a ClusterVersion, or why the annotation cannot be read.
pub(super) fn record(version: &ClusterObject) -> Result<Option<ControlPlaneOnlyRecord>, String> {
    let annotations = version.annotations();
    let Some(text) = annotations.get(CONTROL_PLANE_ONLY) else {
        return Ok(None);
    };
    let parsed = ControlPlaneOnlyRecord::parse(text);
    parsed.map(Some).map_err(|error| Chain(&error).to_string())
}

pub(super) fn name(pool: &MachineConfigPool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}
