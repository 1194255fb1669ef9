//! A pool as this crate sees it, parsed once.

use std::collections::BTreeMap;

use api::IntOrString;
use api::machineconfiguration::{MachineConfigPool, Target, annotation};
use api::stop::StopSwitch;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::budget::budget;
use crate::claim::RoundClaim;
use crate::hold::Hold;
use crate::image::{PoolImage, PoolImageState};
use crate::node::NodeView;
use crate::pins::PinRound;
use crate::policy::{PolicyFacts, RolloutPolicy};
use crate::selector::{InvalidSelector, Selector};
use crate::stop::PoolStops;

/// What is read of a MachineConfigPool.
///
/// Source: MachineConfigPool object.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolView {
    pub name: String,
    /// Version of the object that was read; a claim that carries it fails if the object has changed
    /// since.
    pub resource_version: String,
    pub uid: String,
    /// Generation of the spec that was read.
    pub generation: Option<i64>,
    /// Whether the object is being deleted: it reports its status and nothing else.
    pub is_deleted: bool,
    /// Whether no node may be assigned a new configuration.
    pub is_paused: bool,
    /// The switches that stop it. That of the cluster is set by who knows that object.
    pub stops: PoolStops,
    /// What nodes are to reach: the rendered configuration, none before the first rendering. The
    /// image with it is set by who knows the objects beside the pool, as `hold` is.
    pub target: Option<Target>,
    /// How far the pool's own OS image is, if it is in image mode. Set as `hold` is.
    pub image: Option<PoolImage>,
    /// Budget as written.
    pub max_unavailable: Option<IntOrString>,
    /// Nodes of the pool.
    pub node_selector: Result<Selector, InvalidSelector>,
    /// Whether its nodes fetch what they are to reach before their turn.
    pub prefetches: bool,
    /// What one of its nodes rehearses though it is no target of the pool.
    pub rehearsal: Option<Rehearsal>,
    /// Labels with which a node is of the pool, as far as its selector names them.
    pub node_labels: BTreeMap<String, String>,
    /// Configurations that are rendered for the pool.
    pub config_selector: Result<Selector, InvalidSelector>,
    /// Assignments that were claimed.
    pub claim: RoundClaim,
    /// Why no node may be assigned anything. The pool does not say so: it is set by who knows the
    /// objects beside it.
    pub hold: Option<Hold>,
    /// In which steps its nodes are updated, if another object than the pool says so; set by who
    /// knows that object.
    pub policy: Option<RolloutPolicy>,
    /// What that policy asks for. Set as `policy` is.
    pub facts: PolicyFacts,
    /// What all its nodes had last. The image with it is set by who knows the nodes.
    pub previous: Option<Target>,
    /// The node that the deciding controller runs on, if its options name it. Set as `hold` is.
    pub leader: Option<String>,
    /// Its pinned image sets, and the nodes that are assigned them now; without it nodes keep what
    /// they were assigned. Set as `hold` is.
    pub pins: Option<PinRound>,
}

/// What is rehearsed, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehearsal {
    pub config: String,
    /// The node. The pool does not say so: it is set by who knows its nodes.
    pub node: Option<String>,
}

impl PoolView {
    /// Reads a pool. Invalid fields are kept as errors, to be reported by condition.
    pub fn parse(pool: &MachineConfigPool) -> Self {
        let metadata = &pool.metadata;
        let spec = &pool.spec;
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation,
            is_deleted: metadata.deletion_timestamp.is_some(),
            is_paused: spec.paused,
            stops: PoolStops {
                cluster: None,
                pool: StopSwitch::read(metadata.annotations.as_ref()),
            },
            target: spec.configuration.name().map(Target::of_config),
            image: None,
            max_unavailable: spec.max_unavailable.clone(),
            node_selector: Selector::parse("spec.nodeSelector", spec.node_selector.as_ref()),
            prefetches: metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(annotation::PREFETCH))
                .is_none_or(|value| value == "true"),
            rehearsal: metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(annotation::REHEARSE))
                .filter(|config| !config.is_empty())
                .map(|config| Rehearsal {
                    config: config.clone(),
                    node: None,
                }),
            node_labels: labels(spec.node_selector.as_ref()),
            config_selector: Selector::parse(
                "spec.machineConfigSelector",
                spec.machine_config_selector.as_ref(),
            ),
            claim: RoundClaim::read(metadata.annotations.as_ref()),
            hold: None,
            policy: None,
            facts: PolicyFacts::default(),
            previous: pool
                .status
                .as_ref()
                .and_then(|status| status.configuration.name())
                .map(Target::of_config),
            leader: None,
            pins: None,
        }
    }

    /// Name of the rendered configuration that nodes are to reach.
    pub fn target_config(&self) -> Option<&str> {
        self.target.as_ref().map(|target| target.config.as_str())
    }

    /// Puts the pool in image mode: its nodes get the image with their configuration, and nothing
    /// until it is built.
    pub fn follow_image(&mut self, image: PoolImage) {
        if let Some(target) = &mut self.target {
            target.image = image.image().map(ToOwned::to_owned);
        }
        if image.image().is_none() {
            self.hold.get_or_insert_with(|| Hold::Image(image.clone()));
        }
        self.image = Some(image);
    }

    /// Whether its nodes are to get an image that is not built: none of them has it, whatever it
    /// runs.
    pub(crate) fn waits_for_image(&self) -> bool {
        self.image
            .as_ref()
            .is_some_and(|image| image.image().is_none())
    }

    /// Whether a node runs what the pool's nodes are to reach, verified.
    pub fn is_reached_by(&self, node: &NodeView) -> bool {
        let target = self.target.as_ref().filter(|_| !self.waits_for_image());
        target.is_some_and(|target| node.status.is_updated(target))
    }

    /// Takes over what was set of the same pool as it was read before: the pool does not say it.
    pub fn take_surroundings(&mut self, before: Self) {
        let is_same = before.target.as_ref().map(|it| &it.config)
            == self.target.as_ref().map(|it| &it.config);
        if is_same {
            self.target = before.target;
            self.image = before.image;
        } else if let Some(image) = before.image {
            // Nothing says which image belongs to the other configuration.
            self.follow_image(PoolImage {
                config: image.config,
                state: PoolImageState::NotBegun,
            });
        }
        (self.policy, self.facts, self.previous, self.pins) =
            (before.policy, before.facts, before.previous, before.pins);
        self.leader = before.leader;
        self.stops.cluster = before.stops.cluster;
    }

    /// Whether nodes are assigned as the budget allows: the pool has a target and a valid budget,
    /// and is neither stopped, paused, held nor deleted.
    pub fn is_rolling(&self) -> bool {
        let has_budget = budget(&self.name, self.max_unavailable.as_ref(), 1).is_ok();
        let goes_on = has_budget && self.allows_assignments() && self.reverted().is_none();
        self.target.is_some() && goes_on
    }

    /// What nodes return to, if the policy asks for that when a rollout is halted.
    pub(crate) fn returns_to(&self) -> Option<&Target> {
        let returns = self.policy.as_ref().is_some_and(RolloutPolicy::returns);
        let previous = self.previous.as_ref().filter(|_| returns);
        previous.filter(|previous| self.target.as_ref() != Some(*previous))
    }

    /// What nodes return to, if the return from the target has begun.
    pub fn reverted(&self) -> Option<&Target> {
        let target = self.target.as_ref()?;
        let rejected = self.claim.rejected.get(&self.name)?;
        let has_begun = Target::parse(rejected).as_ref() == Some(target);
        self.returns_to().filter(|_| has_begun)
    }

    /// Whether any node may be assigned. A pause, a switch or a deletion stops a round between two
    /// writes.
    pub const fn allows_assignments(&self) -> bool {
        !self.is_paused && !self.is_deleted && self.hold.is_none() && !self.stops.are_set()
    }

    /// Whether its selector would select the node with the labels that the selector names.
    pub fn would_select(&self, node: &NodeView) -> bool {
        let mut labels = node.labels.clone();
        labels.extend(self.node_labels.clone());
        self.node_selector
            .as_ref()
            .is_ok_and(|selector| selector.matches(&labels))
    }

    /// Whether its selector selects the node.
    pub fn selects(&self, node: &NodeView) -> bool {
        self.node_selector
            .as_ref()
            .is_ok_and(|selector| selector.matches(&node.labels))
    }
}

/// The fields of a pool that nothing follows. A stream of OS images is followed where the cluster
/// has streams.
pub fn unhandled(pool: &MachineConfigPool, has_streams: bool) -> Vec<String> {
    let stream = pool.spec.os_image_stream.as_ref();
    let stream = stream.filter(|_| !has_streams);
    let stream = stream.map(|stream| format!("spec.osImageStream {}", stream.name));
    stream.into_iter().collect()
}

/// The labels that a selector requires: `matchLabels`, `In` with one value, and `Exists`.
fn labels(selector: Option<&LabelSelector>) -> BTreeMap<String, String> {
    let Some(selector) = selector else {
        return BTreeMap::new();
    };
    let requirements = selector
        .match_expressions
        .iter()
        .flatten()
        .filter_map(|requirement| {
            let values = requirement.values.as_deref().unwrap_or_default();
            match (requirement.operator.as_str(), values) {
                ("In", [value]) => Some((requirement.key.clone(), value.clone())),
                ("Exists", _) => Some((requirement.key.clone(), String::new())),
                _ => None,
            }
        });
    requirements
        .chain(selector.match_labels.clone().unwrap_or_default())
        .collect()
}
