//! What was seen of cluster and nodes before anything is applied.

use std::collections::{BTreeMap, BTreeSet};

use api::machineconfiguration::controller_config;
use release::manifest::{Manifest, ObjectId};

use crate::component::InstallComponent;
use crate::rival::Rival;

/// The cluster and its nodes, as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallSurvey {
    /// `major` and `minor` of the API server's version, as it says them; empty if it does not.
    pub server: (String, String),
    /// Requests that this user may not send, such as `create daemonsets.apps in n`.
    pub denied: Vec<String>,
    /// What the API server reports of each object.
    pub rehearsed: BTreeMap<ObjectId, Rehearsed>,
    /// Workloads of other operators.
    pub rivals: Vec<Rival>,
    /// Whether their work is taken over.
    pub adopts: bool,
    /// Workloads whose component has to be taken over before the version operator.
    pub before: Vec<Rival>,
    /// Which of [`Provided`] are needed, and are not there with all their keys.
    pub lacking: BTreeSet<Provided>,
    /// Which of [`ServedGroup`] the API server serves.
    pub groups: BTreeSet<ServedGroup>,
    /// Nodes by name; none where no component runs on nodes.
    pub nodes: BTreeMap<String, NodeCheck>,
}

/// What the API server reports of an object that was applied for a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rehearsed {
    /// It would be created.
    Create,
    /// It would be changed.
    Change,
    /// It is as it should be.
    Keep,
    /// Its kind or namespace comes with this installation, so that no trial was possible.
    Later,
    /// Other field managers own fields of it: each with its path.
    Conflicts(Vec<String>),
    /// It is refused, for this reason.
    Refused(String),
}

/// What an administrator makes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Provided {
    /// The component that waits for it.
    pub component: InstallComponent,
    /// ConfigMap of a release without which it is not needed.
    pub with: Option<&'static str>,
    /// Its kind.
    pub kind: ProvidedKind,
    /// Namespace and name; no namespace for objects of the cluster.
    pub at: (&'static str, &'static str),
    /// Keys that it has.
    pub keys: &'static [&'static str],
}

impl Provided {
    /// Whether what is installed waits for it.
    ///
    /// Shape: `objects` are all that will be applied, also by a release's operator.
    pub fn is_needed(&self, components: &BTreeSet<InstallComponent>, objects: &[Manifest]) -> bool {
        let is_with = |name| {
            let mut maps = objects.iter().filter(|it| it.id.kind == "ConfigMap");
            maps.any(|it| it.id.name == name)
        };
        components.contains(&self.component) && self.with.is_none_or(is_with)
    }
}

/// Kind of an object that an administrator makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProvidedKind {
    /// ConfigMap.
    ConfigMap,
    /// ControllerConfig, whose definition comes with component `machine-config`.
    ControllerConfig,
    /// Secret.
    Secret,
}

/// All that an administrator makes before.
pub const PROVIDED: [Provided; 3] = [
    Provided {
        component: InstallComponent::ConfigServer,
        with: None,
        kind: ProvidedKind::ConfigMap,
        at: ("openshift-machine-config-operator", "machine-config-server"),
        keys: &["apiserver-url", "config-server-url", "ca.crt"],
    },
    Provided {
        component: InstallComponent::ConfigServer,
        with: None,
        kind: ProvidedKind::Secret,
        at: (
            "openshift-machine-config-operator",
            "machine-config-server-tls",
        ),
        keys: &["tls.crt", "tls.key"],
    },
    // Our operator completes it with the release's images, and never makes one.
    Provided {
        component: InstallComponent::VersionOperator,
        with: Some("machine-config-osimageurl"),
        kind: ProvidedKind::ControllerConfig,
        at: ("", controller_config::NAME),
        keys: &[],
    },
];

/// A group of kinds that a component's objects are of, and that others bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServedGroup {
    /// The component.
    pub component: InstallComponent,
    /// The group.
    pub group: &'static str,
    /// Who brings it.
    pub from: &'static str,
}

/// All groups that others bring.
pub const GROUPS: [ServedGroup; 2] = [
    ServedGroup {
        component: InstallComponent::Monitoring,
        group: "monitoring.coreos.com",
        from: "the Prometheus operator",
    },
    ServedGroup {
        component: InstallComponent::ManagedUpgrade,
        group: "machine.openshift.io",
        from: "OpenShift's machine API",
    },
];

/// State of a node's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeCheck {
    /// The host reported: what is missing, or may hurt.
    Reported(Vec<HostProblem>),
    /// The node is not Ready: nothing runs there now.
    Away,
    /// No report came, for this reason.
    Unknown(String),
}

/// What a host lacks, or what may hurt there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProblem {
    /// The check, such as `libraries`.
    pub check: String,
    /// Whether Slipway does not work without it.
    pub is_missing: bool,
    /// For people.
    pub message: String,
}

/// Whether a component runs on all nodes, so that their hosts matter.
pub fn runs_on_hosts(components: &BTreeSet<InstallComponent>) -> bool {
    components.contains(&InstallComponent::MachineConfig)
}

/// The namespaces and kinds that come with the objects themselves: of others in them there is no
/// trial before they are there.
pub fn brought(wanted: &[Manifest]) -> (BTreeSet<&str>, BTreeSet<(&str, &str)>) {
    let namespaces = wanted.iter().filter(|it| it.id.kind == "Namespace");
    let kinds = wanted.iter().filter_map(|it| {
        let text = |pointer| it.text(pointer);
        (it.id.kind == "CustomResourceDefinition")
            .then(|| Some((text("/spec/group")?, text("/spec/names/kind")?)))?
    });
    (
        namespaces.map(|it| it.id.name.as_str()).collect(),
        kinds.collect(),
    )
}
