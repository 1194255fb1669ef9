//! What the annotations of a Node say of its update, read in one place.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;

use jiff::{SignedDuration, Timestamp};

use super::{NodeState, NotPinned, PhaseName, PinList, Target, annotation};

/// After this time a drain counts as failed: its daemon and the controller say so.
///
/// Source: `docs/reference/controller.md`, "Drain limits".
pub const DRAIN_OVERDUE: SignedDuration = SignedDuration::from_hours(1);

/// A value, or its text where this version cannot read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<T> {
    /// The value.
    Known(T),
    /// The text as it was written.
    Unknown(String),
}

impl<T> Reading<T> {
    fn of(text: &str, parse: impl FnOnce(&str) -> Option<T>) -> Self {
        parse(text).map_or_else(|| Self::Unknown(text.to_owned()), Self::Known)
    }

    /// The value, if it could be read.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }
}

/// Value of [`annotation::DESIRED_DRAIN`] and [`annotation::LAST_APPLIED_DRAIN`].
///
/// Shape: `drain-<config>` or `uncordon-<config>`.
/// Source: `docs/reference/daemon.md`, "Node annotations".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainRequest {
    /// Cordon and drain for an update to this configuration.
    Drain(String),
    /// Uncordon in this configuration.
    Uncordon(String),
}

impl DrainRequest {
    /// The request that an annotation's value is.
    pub fn parse(text: &str) -> Option<Self> {
        let (verb, config) = text.split_once('-')?;
        match verb {
            "drain" => Some(Self::Drain(config.to_owned())),
            "uncordon" => Some(Self::Uncordon(config.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for DrainRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drain(config) => write!(f, "drain-{config}"),
            Self::Uncordon(config) => write!(f, "uncordon-{config}"),
        }
    }
}

/// Value of [`annotation::FAILED_IN`].
///
/// Shape: `<phase> <target>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedIn {
    /// Phase in which the newest attempt failed.
    pub phase: PhaseName,
    /// What it led to.
    pub target: Target,
}

impl FailedIn {
    /// The failure that an annotation's value names.
    pub fn parse(text: &str) -> Option<Self> {
        let (phase, target) = text.split_once(' ')?;
        Some(Self {
            phase: PhaseName::parse(phase)?,
            target: Target::parse(target)?,
        })
    }
}

impl fmt::Display for FailedIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.phase, self.target)
    }
}

/// How far a Node is with its configuration, as its annotations say.
///
/// Shape: an empty annotation reads as an absent one, except where a field says that presence
/// counts.
/// Source: the keys of [`annotation`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// Configuration in force, as verified after the boot.
    pub current_config: Option<String>,
    /// Configuration that the node was assigned.
    pub desired_config: Option<String>,
    /// Layered OS image in force.
    pub current_image: Option<String>,
    /// Layered OS image that the node was assigned.
    pub desired_image: Option<String>,
    /// The reported state; readers that need one use [`Self::state`].
    pub state: Option<Reading<NodeState>>,
    /// Why the state is what it is; empty when all is well.
    pub reason: String,
    /// What failed, and in which phase.
    pub failed_in: Option<Reading<FailedIn>>,
    /// Phase of the daemon's state machine.
    pub phase: Option<Reading<PhaseName>>,
    /// Since when it is in that phase. Presence counts.
    pub since: Option<Reading<Timestamp>>,
    /// What the node waits for.
    pub waits_for: Option<String>,
    /// Whether its daemon has asked for a reboot that is not over.
    pub is_rebooting: bool,
    /// The drain or uncordon that the daemon asks for.
    pub desired_drain: Option<Reading<DrainRequest>>,
    /// The last one that succeeded.
    pub last_applied_drain: Option<Reading<DrainRequest>>,
    /// Since when it is being drained. Presence counts.
    pub drain_since: Option<Reading<Timestamp>>,
    /// The attempt that cordoned it. Presence counts: it tells an own cordon from an
    /// administrator's.
    pub cordoned_by: Option<String>,
    /// The configuration that an administrator wants tried again.
    pub retry: Option<String>,
    /// What the node may fetch before its turn.
    pub next: Option<Reading<Target>>,
    /// Most bytes a second that it fetches of that.
    pub next_bytes_per_second: Option<Reading<NonZeroU64>>,
    /// What it has fetched.
    pub fetched: Option<Reading<Target>>,
    /// Why it could not fetch it: `<target>: <cause>`.
    pub not_fetched: Option<String>,
    /// Pinned image sets that the node is to have.
    pub desired_pins: Option<Reading<PinList>>,
    /// Those whose images all lie pinned on it.
    pub current_pins: Option<Reading<PinList>>,
    /// Why it does not have the desired ones yet.
    pub not_pinned: Option<Reading<NotPinned>>,
    /// Topology of the control plane.
    pub topology: Option<String>,
}

impl NodeStatus {
    /// Reads a Node's annotations.
    pub fn read(annotations: &BTreeMap<String, String>) -> Self {
        let present = |key: &str| annotations.get(key).map(String::as_str);
        let filled = |key: &str| present(key).filter(|text| !text.is_empty());
        let text = |key: &str| filled(key).map(ToOwned::to_owned);
        let drain = |key: &str| filled(key).map(|text| Reading::of(text, DrainRequest::parse));
        let target = |key: &str| filled(key).map(|text| Reading::of(text, Target::parse));
        let pins = |key: &str| filled(key).map(|text| Reading::of(text, PinList::parse));
        let time = |key: &str| present(key).map(|text| Reading::of(text, |it| it.parse().ok()));
        Self {
            current_config: text(annotation::CURRENT_CONFIG),
            desired_config: text(annotation::DESIRED_CONFIG),
            current_image: text(annotation::CURRENT_IMAGE),
            desired_image: text(annotation::DESIRED_IMAGE),
            state: filled(annotation::STATE).map(|text| Reading::of(text, NodeState::parse)),
            reason: text(annotation::REASON).unwrap_or_default(),
            failed_in: filled(annotation::FAILED_IN).map(|text| Reading::of(text, FailedIn::parse)),
            phase: filled(annotation::PHASE).map(|text| Reading::of(text, PhaseName::parse)),
            since: time(annotation::SINCE),
            waits_for: text(annotation::WAITS_FOR),
            is_rebooting: filled(annotation::POST_CONFIG_ACTION) == Some(annotation::REBOOTING),
            desired_drain: drain(annotation::DESIRED_DRAIN),
            last_applied_drain: drain(annotation::LAST_APPLIED_DRAIN),
            drain_since: time(annotation::DRAIN_SINCE),
            cordoned_by: present(annotation::CORDONED_BY).map(ToOwned::to_owned),
            retry: text(annotation::RETRY),
            next: target(annotation::NEXT_CONFIG),
            next_bytes_per_second: filled(annotation::NEXT_BYTES_PER_SECOND)
                .map(|text| Reading::of(text, |it| it.parse().ok())),
            fetched: target(annotation::FETCHED),
            not_fetched: text(annotation::NOT_FETCHED),
            desired_pins: pins(annotation::DESIRED_PINS),
            current_pins: pins(annotation::CURRENT_PINS),
            not_pinned: filled(annotation::NOT_PINNED)
                .map(|text| Reading::of(text, NotPinned::parse)),
            topology: text(annotation::CONTROL_PLANE_TOPOLOGY),
        }
    }

    /// The state that clients count it in. An absent one is `Done`. An unknown one is `Working`:
    /// neither finished nor failed, so that the node is neither trusted nor assigned another
    /// target.
    pub fn state(&self) -> NodeState {
        match &self.state {
            None => NodeState::Done,
            Some(Reading::Known(state)) => *state,
            Some(Reading::Unknown(_)) => NodeState::Working,
        }
    }

    /// The phase, if it is a known one.
    pub fn phase(&self) -> Option<PhaseName> {
        value(self.phase.as_ref()).copied()
    }

    /// Whether it reports Done in the assigned configuration and image.
    pub fn is_done(&self) -> bool {
        self.current_config.is_some()
            && !self.has_pending_target()
            && self.state() == NodeState::Done
    }

    /// Whether it was assigned a configuration or image that is not in force.
    pub fn has_pending_target(&self) -> bool {
        self.current_config != self.desired_config || self.current_image != self.desired_image
    }

    /// Whether the update to its assignment failed. It runs its previous configuration and can get
    /// another assignment.
    pub fn is_failing(&self) -> bool {
        self.has_pending_target() && self.state().is_failed()
    }

    /// Whether the node says that `target` failed on it after it was applied. A failure of unknown
    /// phase is none: the target may never have reached the host.
    pub fn has_failed_past_apply(&self, target: &Target) -> bool {
        let failed_in = value(self.failed_in.as_ref());
        self.is_failing()
            && failed_in.is_some_and(|it| it.target == *target && it.phase.is_past_apply())
    }

    /// What is in force.
    pub fn current(&self) -> Option<Target> {
        Some(Target {
            config: self.current_config.clone()?,
            image: self.current_image.clone(),
        })
    }

    /// Whether it was assigned exactly `target`: the configuration, and the layered image or none.
    pub fn is_assigned_to(&self, target: &Target) -> bool {
        self.desired_config.as_ref() == Some(&target.config) && self.desired_image == target.image
    }

    /// What it may fetch before its turn.
    pub fn next_target(&self) -> Option<&Target> {
        value(self.next.as_ref())
    }

    /// Whether it says that it has fetched exactly `target`.
    pub fn has_fetched(&self, target: &Target) -> bool {
        value(self.fetched.as_ref()) == Some(target)
    }

    /// Whether it runs exactly `target`, verified.
    pub fn is_updated(&self, target: &Target) -> bool {
        self.is_done() && self.is_assigned_to(target)
    }

    /// Whether an update is past its drain: the host is changed, verified, or rolled back.
    pub fn is_past_drain(&self) -> bool {
        self.phase().is_some_and(PhaseName::is_past_drain)
    }

    /// Whether its daemon asks for a drain that is not carried out, for whatever configuration.
    pub fn has_open_drain(&self) -> bool {
        let request = value(self.desired_drain.as_ref());
        matches!(request, Some(DrainRequest::Drain(_)))
            && self.desired_drain != self.last_applied_drain
    }

    /// Whether its daemon asks for a drain for `config`, carried out or not.
    pub fn is_to_drain_for(&self, config: &str) -> bool {
        is_drain_for(self.desired_drain.as_ref(), config)
    }

    /// Whether a drain for `config` is under way: asked for, begun, and not finished.
    pub fn is_draining_for(&self, config: &str) -> bool {
        self.is_to_drain_for(config)
            && !is_drain_for(self.last_applied_drain.as_ref(), config)
            && self.drain_since.is_some()
    }

    /// Whether an administrator releases its held target: the request names the assigned
    /// configuration.
    pub fn is_released(&self) -> bool {
        self.retry.is_some() && self.retry == self.desired_config
    }

    /// Whether the control plane has one node only: then there is nowhere to drain to.
    pub fn is_single_replica(&self) -> bool {
        self.topology.as_deref() == Some("SingleReplica")
    }
}

/// The value of an annotation that is there and could be read.
fn value<T>(reading: Option<&Reading<T>>) -> Option<&T> {
    reading?.known()
}

fn is_drain_for(request: Option<&Reading<DrainRequest>>, config: &str) -> bool {
    matches!(request.and_then(Reading::known), Some(DrainRequest::Drain(of)) if of == config)
}

#[cfg(test)]
mod tests;
