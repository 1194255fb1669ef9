//! The laws of a rollout, each judged over what was recorded. An empty list is a pass.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use jiff::Timestamp;
use lab::audit::nodes::{self, Interval, NodeState};
use lab::audit::pods::Eviction;
use lab::host::Boot;

use super::pods::PodLife;
use super::wire;

/// What must hold, whatever happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// A pool has no more than `maxUnavailable` nodes out of service.
    Budget,
    /// A PodDisruptionBudget is never undercut.
    Readiness,
    /// Every pod that has to leave has left before its host goes down.
    Drained,
    /// Pods that belong to their node (of a DaemonSet, static) are not evicted.
    Spared,
    /// Nothing is fetched between cordon and uncordon.
    FetchBefore,
    /// A node says Done only of what its host booted.
    Truthful,
    /// What needs no reboot takes no node out of service.
    Undisturbed,
    /// A daemon asks the API server for what it needs, of its own node, and for nothing else.
    Modest,
    /// The API server keeps every field that is written.
    Kept,
    /// In the end every node is what it was to be.
    Proven,
}

impl Law {
    /// All.
    pub const ALL: [Self; 10] = [
        Self::Budget,
        Self::Readiness,
        Self::Drained,
        Self::Spared,
        Self::FetchBefore,
        Self::Truthful,
        Self::Undisturbed,
        Self::Modest,
        Self::Kept,
        Self::Proven,
    ];

    /// Its sentence, by which a failure names it.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Budget => "no more nodes are out than the pool allows",
            Self::Readiness => "no fewer replicas are ready than their budget asks for",
            Self::Drained => "no host goes down before its pods have left",
            Self::Spared => "pods of DaemonSets and static pods are not evicted",
            Self::FetchBefore => "nothing is fetched while a node is out",
            Self::Truthful => "no node says Done before its host booted what it says",
            Self::Undisturbed => "what needs no reboot takes no node out",
            Self::Modest => "nobody asks the API server for more than is theirs",
            Self::Kept => "every field that is written is kept",
            Self::Proven => "every node is proven to be what it was to be",
        }
    }
}

/// A law that did not hold, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which.
    pub law: Law,
    /// What happened, for people.
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "law broken: {}: {}", self.law.sentence(), self.what)
    }
}

impl Law {
    pub(super) fn broken(self, what: String) -> Breach {
        Breach { law: self, what }
    }
}

/// [`Law::Budget`]: at the moment with most nodes out.
pub fn budget(outages: &BTreeMap<String, Vec<Interval>>, max_out: usize) -> Option<Breach> {
    let starts = outages.values().flatten().map(|outage| outage.from);
    let worst = starts
        .map(|(version, at)| {
            let is_open = |outage: &Interval| {
                outage.from.0 <= version && outage.until.is_none_or(|until| until.0 > version)
            };
            let out: Vec<_> = outages
                .iter()
                .filter(|(_, intervals)| intervals.iter().any(is_open))
                .map(|(node, _)| node.as_str())
                .collect();
            (out, at)
        })
        .max_by_key(|(out, at)| (out.len(), std::cmp::Reverse(*at)))?;
    let (out, at) = worst;
    (out.len() > max_out)
        .then(|| Law::Budget.broken(format!("{} at {at}, of {max_out}", out.join(", "))))
}

/// Nodes that never went out of service in a stretch of time. Where each had to, an outage that is not
/// in the record cannot be judged by [`budget`].
pub fn unseen<'a>(
    outages: &BTreeMap<String, Vec<Interval>>,
    nodes: impl Iterator<Item = &'a String>,
    during: &RangeInclusive<Timestamp>,
) -> Vec<&'a str> {
    let was_out = |node: &&String| {
        let mut out = outages.get(*node).into_iter().flatten();
        out.any(|outage| during.contains(&outage.from.1))
    };
    nodes
        .filter(|node| !was_out(node))
        .map(String::as_str)
        .collect()
}

/// [`Law::Readiness`]: steps of the count in order; those before `since` are the way up, which has to
/// have an end.
pub fn readiness(ready: &[(Timestamp, usize)], since: Timestamp, needed: usize) -> Option<Breach> {
    let (at, count) = fewest(ready, since);
    (count < needed)
        .then(|| Law::Readiness.broken(format!("{count} ready at {at}, of {needed} needed")))
}

/// The lowest count from a moment on, and when it was first reached. It is 0 until the first step.
pub fn fewest(ready: &[(Timestamp, usize)], since: Timestamp) -> (Timestamp, usize) {
    let before = ready.iter().rev().find(|(at, _)| *at <= since);
    let before = (since, before.map_or(0, |(_, count)| *count));
    let after = ready.iter().filter(|(at, _)| *at > since).copied();
    after.fold(
        before,
        |fewest, step| {
            if step.1 < fewest.1 { step } else { fewest }
        },
    )
}

/// [`Law::Drained`]: `went_down` is when each node's host ended.
pub fn drained(pods: &[PodLife], went_down: &BTreeMap<String, Vec<Timestamp>>) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (node, times) in went_down {
        for down in times {
            let left: Vec<_> = pods
                .iter()
                .filter(|pod| pod.node == *node && pod.leaves && pod.is_bound_at(*down))
                .map(|pod| pod.name.as_str())
                .collect();
            if !left.is_empty() {
                let what = format!("{node} at {down}, with {}", left.join(", "));
                breaches.push(Law::Drained.broken(what));
            }
        }
    }
    breaches
}

/// [`Law::Spared`]
pub fn spared(evictions: &[Eviction], pods: &[PodLife]) -> Vec<Breach> {
    let stays = |eviction: &&Eviction| {
        pods.iter().any(|pod| {
            !pod.leaves && pod.name == eviction.pod && pod.namespace == eviction.namespace
        })
    };
    let what = |eviction: &Eviction| {
        format!(
            "{} tried to evict {} at {}",
            eviction.user, eviction.pod, eviction.received
        )
    };
    evictions
        .iter()
        .filter(stays)
        .map(|eviction| Law::Spared.broken(what(eviction)))
        .collect()
}

/// When a node told, for the first time after something else, that it is Done in a configuration.
pub fn said_done(history: &[NodeState]) -> Vec<(Timestamp, &str)> {
    let mut said = Vec::new();
    let mut last = None;
    for state in history {
        let value = |key| state.annotations.get(key).map(String::as_str);
        let done = (value(wire::STATE) == Some(wire::DONE))
            .then(|| value(wire::CURRENT_CONFIG))
            .flatten();
        if let Some(config) = done.filter(|_| done != last) {
            said.push((state.at, config));
        }
        last = done;
    }
    said
}

/// What a node may say Done of, and when: a configuration that a roll asked for, and the content of its OS.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Name of the configuration.
    pub config: &'a str,
    /// As [`lab::tree::content`] gives it.
    pub content: &'a str,
    /// When it was asked for.
    pub since: Timestamp,
}

/// [`Law::Truthful`]: each time the node said that it is Done, its host ran the OS that was asked for, booted since then.
pub fn truthful(
    node: &str,
    history: &[NodeState],
    boots: &[Boot],
    claim: Claim<'_>,
) -> Vec<Breach> {
    let Claim {
        config,
        content,
        since,
    } = claim;
    let claims = said_done(history).into_iter();
    let claims = claims.filter(|(at, done)| *done == config && *at >= since);
    let doubt = |at: Timestamp| {
        let running = boots.iter().rev().find(|boot| boot.started <= at);
        match running {
            Some(boot) if boot.started < since => Some("before it booted".to_owned()),
            Some(boot) if boot.content.as_deref() != Some(content) => {
                Some(format!("in another OS, {}", boot.deployment))
            }
            Some(_) => None,
            None => Some("before its first boot".to_owned()),
        }
    };
    claims
        .filter_map(|(at, _)| Some((at, doubt(at)?)))
        .map(|(at, doubt)| {
            Law::Truthful.broken(format!("{node} said {config} is Done at {at}, {doubt}"))
        })
        .collect()
}

/// When each node was out of service, from a moment on: cordoned, or not Ready.
pub fn outages(
    histories: &BTreeMap<String, Vec<NodeState>>,
    since: Timestamp,
) -> BTreeMap<String, Vec<Interval>> {
    intervals(histories, since, |state| {
        state.is_unschedulable || !state.is_ready
    })
}

/// When something held of each node, from a moment on.
///
/// What began before counts from then on; what had ended is left out.
pub fn intervals(
    histories: &BTreeMap<String, Vec<NodeState>>,
    since: Timestamp,
    holds: impl Fn(&NodeState) -> bool,
) -> BTreeMap<String, Vec<Interval>> {
    let of = |(node, history): (&String, &Vec<NodeState>)| {
        let mut intervals = nodes::intervals(history, &holds);
        intervals.retain(|interval| interval.until.is_none_or(|(_, until)| until > since));
        (node.clone(), intervals)
    };
    histories.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
