//! Nodes over time, as the writes to them left them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Event, Version, at, is_condition_true, text};

/// A node after one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSnapshot {
    /// Place among all writes.
    pub version: Version,
    /// When the write was answered.
    pub at: Timestamp,
    /// Who wrote.
    pub user: String,
    /// `spec.unschedulable`.
    pub is_unschedulable: bool,
    /// Condition `Ready` is `True`.
    pub is_ready: bool,
    /// All annotations.
    pub annotations: BTreeMap<String, String>,
}

/// States of each node by name, in order of their versions.
pub fn histories(events: &[Event]) -> BTreeMap<String, Vec<NodeSnapshot>> {
    let mut histories = BTreeMap::<String, BTreeMap<Version, NodeSnapshot>>::new();
    for event in events.iter().filter(|event| event.concerns("", "nodes")) {
        let Some((node, version)) = event
            .written("Node")
            .and_then(|node| Some((node, Version::of(node)?)))
        else {
            continue;
        };
        let annotations = at(node, "/metadata/annotations").as_object();
        let state = NodeSnapshot {
            version,
            at: event.at,
            user: event.user.username.clone(),
            is_unschedulable: *at(node, "/spec/unschedulable") == true,
            is_ready: is_condition_true(node, "Ready"),
            annotations: annotations
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), text(value).to_owned()))
                .collect(),
        };
        let name = text(at(node, "/metadata/name")).to_owned();
        // A write that changed nothing answers with the version that another write made: its author
        // is the one that was answered first.
        let history = histories.entry(name).or_default();
        match history.get(&version) {
            Some(known) if known.at <= state.at => {}
            Some(_) | None => {
                history.insert(version, state);
            }
        }
    }
    histories
        .into_iter()
        .map(|(name, history)| (name, history.into_values().collect()))
        .collect()
}

/// A time during which something held of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The write that began it, and when.
    pub from: (Version, Timestamp),
    /// The write that ended it, and when; none if it still holds.
    pub until: Option<(Version, Timestamp)>,
}

/// When `holds` held of a node, given its states in order.
///
/// `intervals(history, |state| state.is_unschedulable)` is when it was cordoned;
/// `intervals(history, |state| !state.is_ready)` when it was away.
pub fn intervals(history: &[NodeSnapshot], holds: impl Fn(&NodeSnapshot) -> bool) -> Vec<Interval> {
    let mut intervals = Vec::<Interval>::new();
    for state in history {
        let now = (state.version, state.at);
        match intervals.last_mut().filter(|last| last.until.is_none()) {
            Some(open) if !holds(state) => open.until = Some(now),
            None if holds(state) => intervals.push(Interval {
                from: now,
                until: None,
            }),
            Some(_) | None => {}
        }
    }
    intervals
}

/// Most intervals open at once, counted in order of versions, which is exact.
///
/// Shape: the intervals of any number of nodes, in any order.
pub fn max_overlap<'a>(intervals: impl IntoIterator<Item = &'a Interval>) -> usize {
    let mut steps = Vec::new();
    for interval in intervals {
        steps.push((interval.from.0, 1_isize));
        steps.extend(interval.until.map(|(version, _)| (version, -1)));
    }
    steps.sort_unstable();
    let mut open = 0;
    steps
        .into_iter()
        .fold(0, |most, (_, step)| {
            open += step;
            most.max(open)
        })
        .unsigned_abs()
}

/// Values that an annotation had, one after another, and since when each; `None` while it was not
/// there. Starts with the first state.
pub fn annotation_values<'a>(
    history: &'a [NodeSnapshot],
    key: &str,
) -> Vec<(Timestamp, Option<&'a str>)> {
    let mut values = Vec::new();
    for state in history {
        let value = state.annotations.get(key).map(String::as_str);
        if values.last().is_none_or(|(_, last)| *last != value) {
            values.push((state.at, value));
        }
    }
    values
}
