//! Pinned image sets on the nodes of a pool: which are assigned them now, and how far each is.

use std::collections::{BTreeMap, BTreeSet};

use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{NotPinnedReason, PinList};

use crate::node::{NodeView, Unready};

/// No set.
static NONE: PinList = PinList(BTreeMap::new());

/// The sets of a pool, and the nodes that are assigned them now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinRound {
    list: PinList,
    nodes: BTreeSet<String>,
}

impl PinRound {
    /// Decides which of the members are assigned `list` now; the others keep what they were
    /// assigned.
    ///
    /// Shape: at most `at_once` nodes pull at once, in the order of their names. A node that pulls
    /// what it was assigned earlier is assigned the list at once: it has its turn. So is one that
    /// has the images of all sets of the list: it only drops others. A node on which the images
    /// have no room, or that refuses them, has no turn; one that failed tries again, and keeps it.
    /// A node that is not ready has none: it may stay away. Nor has one on hold: it finishes what
    /// it pulls, and is assigned no other list. No node is assigned a list on which no daemon has
    /// reported, or which is being deleted.
    pub fn new(list: PinList, members: &[&NodeView], at_once: usize) -> Self {
        let followers = members.iter().copied();
        let followers = followers.filter(|node| has_daemon(node) && !node.is_deleted);
        let mut nodes = BTreeSet::new();
        let mut waiting = BTreeSet::new();
        let mut pulling = 0_usize;
        for node in followers {
            let is_held = node.hold.is_some();
            if has(node, &list) {
                nodes.extend((!is_held).then(|| node.name.clone()));
            } else if is_pulling(node) {
                pulling += 1;
                nodes.extend((!is_held).then(|| node.name.clone()));
            } else if is_held {
                // It has no turn.
            } else if !is_assigned(node, &list) && is_up(node) {
                waiting.insert(node.name.clone());
            }
        }
        let room = at_once.saturating_sub(pulling);
        nodes.extend(waiting.into_iter().take(room));
        Self { list, nodes }
    }

    /// The sets that a node is assigned now; nothing where it has been, or waits for its turn.
    pub(crate) fn assigns(&self, node: &NodeView) -> Option<&PinList> {
        let is_next = self.nodes.contains(&node.name) && !is_assigned(node, &self.list);
        is_next.then_some(&self.list)
    }
}

/// How far a node is with the sets of its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PinState {
    /// All images lie pinned on it.
    Pinned,
    /// It was assigned the sets.
    Pulling,
    /// It waits for its turn.
    Waiting,
    /// The images have no room on its disk.
    NoRoom,
    /// Images could not be pulled or pinned; it tries again.
    Failed,
    /// It refuses the sets.
    Refused,
}

impl PinState {
    pub const ALL: [Self; 6] = [
        Self::Pinned,
        Self::Pulling,
        Self::Waiting,
        Self::NoRoom,
        Self::Failed,
        Self::Refused,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pinned => "Pinned",
            Self::Pulling => "Pulling",
            Self::Waiting => "Waiting",
            Self::NoRoom => "NoRoom",
            Self::Failed => "Failed",
            Self::Refused => "Refused",
        }
    }

    /// How far a node is with these sets.
    pub fn of(node: &NodeView, list: &PinList) -> Self {
        if has(node, list) {
            return Self::Pinned;
        }
        if !is_assigned(node, list) {
            return Self::Waiting;
        }
        match reported(node) {
            None => Self::Pulling,
            Some(NotPinnedReason::NoRoom) => Self::NoRoom,
            Some(NotPinnedReason::Failed) => Self::Failed,
            Some(NotPinnedReason::Refused) => Self::Refused,
        }
    }
}

/// Why a node does not have the images that it was assigned, as it reports it: `<reason>: <cause>`.
/// Nothing where it has them: then a report is left over.
pub fn failure(node: &NodeView) -> Option<String> {
    let reported = node.status.not_pinned.as_ref()?;
    let is_left_over = has(node, assigned(node));
    (!is_left_over).then(|| match reported {
        Reading::Known(cause) => cause.to_string(),
        Reading::Unknown(text) => text.clone(),
    })
}

/// The sets that an annotation names. None where it cannot be read: a daemon of this version cannot
/// read it either.
fn list(annotation: Option<&Reading<PinList>>) -> &PinList {
    annotation.and_then(Reading::known).unwrap_or(&NONE)
}

fn assigned(node: &NodeView) -> &PinList {
    list(node.status.desired_pins.as_ref())
}

fn is_assigned(node: &NodeView, list: &PinList) -> bool {
    match &node.status.desired_pins {
        None => list.is_empty(),
        Some(Reading::Known(assigned)) => assigned == list,
        Some(Reading::Unknown(_)) => false,
    }
}

/// Whether all images of these sets lie pinned on a node, whatever else does.
pub(crate) fn has(node: &NodeView, sets: &PinList) -> bool {
    let current = list(node.status.current_pins.as_ref());
    let mut sets = sets.0.iter();
    sets.all(|(name, stamp)| current.0.get(name) == Some(stamp))
}

/// What a node reports of the sets that it was assigned. A report of another version is no success.
fn reported(node: &NodeView) -> Option<NotPinnedReason> {
    let reported = node.status.not_pinned.as_ref()?.known();
    Some(reported.map_or(NotPinnedReason::Failed, |cause| cause.reason))
}

/// Whether a node pulls what it was assigned, or tries to.
fn is_pulling(node: &NodeView) -> bool {
    let tries = match reported(node) {
        None | Some(NotPinnedReason::Failed) => true,
        Some(NotPinnedReason::NoRoom | NotPinnedReason::Refused) => false,
    };
    tries && is_up(node) && !has(node, assigned(node))
}

fn is_up(node: &NodeView) -> bool {
    !node.unready.contains(&Unready::NotReady)
}

fn has_daemon(node: &NodeView) -> bool {
    node.status.current_config.is_some()
}

#[cfg(test)]
mod tests;
