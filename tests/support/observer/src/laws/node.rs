//! What an update does to a node: its pods, its host, and what it says meanwhile.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lab::audit::nodes::{Interval, NodeSnapshot};
use lab::audit::pods::{Eviction, evictions};
use lab::host::Boot;

use super::Law;
use crate::pods::PodLife;
use crate::rollout::{Roll, Rollout};
use crate::wire;

/// Laws of a node.
pub const LAWS: &[&Law] = &[
    &READINESS,
    &DRAINED,
    &SPARED,
    &FETCH_BEFORE,
    &TRUTHFUL,
    &UNDISTURBED,
];

/// A PodDisruptionBudget is never undercut.
pub static READINESS: Law = Law {
    name: "Readiness",
    sentence: "no fewer replicas are ready than their budget asks for",
    judge: |run| {
        let of = run.rolled.as_ref().and_then(|rolled| {
            readiness(&rolled.ready, rolled.start, rolled.rollout.workload.needed)
        });
        of.into_iter().collect()
    },
};

/// Every pod that has to leave has left before its host goes down.
pub static DRAINED: Law = Law {
    name: "Drained",
    sentence: "no host goes down before its pods have left",
    judge: |run| drained(&run.pods, &run.went_down),
};

/// Pods that belong to their node (of a DaemonSet, static) are not evicted.
pub static SPARED: Law = Law {
    name: "Spared",
    sentence: "pods of DaemonSets and static pods are not evicted",
    judge: |run| spared(&evictions(&run.record.audit), &run.pods),
};

/// Nothing is fetched between cordon and uncordon.
pub static FETCH_BEFORE: Law = Law {
    name: "FetchBefore",
    sentence: "nothing is fetched while a node is out",
    judge: |run| {
        let fetched = run.bytes_fetched_while_out().into_iter();
        fetched
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(node, bytes)| format!("{node} took {bytes} bytes from the registry"))
            .collect()
    },
};

/// A node says Done only of what its host booted.
pub static TRUTHFUL: Law = Law {
    name: "Truthful",
    sentence: "no node says Done before its host booted what it says",
    judge: |run| {
        let rolls = run.rolled.iter().flat_map(|rolled| &rolled.rollout.rolls);
        let reboots: Vec<_> = rolls.filter(|roll| roll.reboots).collect();
        let of = |(node, history): (&String, &Vec<NodeSnapshot>)| {
            let boots = run.record.boots.get(node).map_or(&[][..], Vec::as_slice);
            let of_roll = |roll: &&Roll| truthful(node, history, boots, roll);
            reboots.iter().flat_map(of_roll).collect::<Vec<_>>()
        };
        run.histories.iter().flat_map(of).collect()
    },
};

/// What needs no reboot takes no node out of service.
pub static UNDISTURBED: Law = Law {
    name: "Undisturbed",
    sentence: "what needs no reboot takes no node out",
    judge: |run| {
        let rolled = run.rolled.as_ref();
        rolled.map_or_else(Vec::new, |rolled| undisturbed(rolled.rollout, &run.outages))
    },
};

/// Steps of the count in order; those before `since` are the way up, which has to
/// have an end.
fn readiness(ready: &[(Timestamp, usize)], since: Timestamp, needed: usize) -> Option<String> {
    let (at, count) = fewest(ready, since);
    (count < needed).then(|| format!("{count} ready at {at}, of {needed} needed"))
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

/// `went_down` is when each node's host ended.
fn drained(pods: &[PodLife], went_down: &BTreeMap<String, Vec<Timestamp>>) -> Vec<String> {
    let mut found = Vec::new();
    for (node, times) in went_down {
        for down in times {
            let left: Vec<_> = pods
                .iter()
                .filter(|pod| pod.node == *node && pod.leaves && pod.is_bound_at(*down))
                .map(|pod| pod.name.as_str())
                .collect();
            if !left.is_empty() {
                found.push(format!("{node} at {down}, with {}", left.join(", ")));
            }
        }
    }
    found
}

fn spared(evictions: &[Eviction], pods: &[PodLife]) -> Vec<String> {
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
    evictions.iter().filter(stays).map(what).collect()
}

/// When a node reported, for the first time after something else, that it is Done in a
/// configuration.
fn said_done(history: &[NodeSnapshot]) -> Vec<(Timestamp, &str)> {
    let mut reported = Vec::new();
    let mut last = None;
    for state in history {
        let value = |key| state.annotations.get(key).map(String::as_str);
        let done = (value(wire::STATE) == Some(wire::DONE))
            .then(|| value(wire::CURRENT_CONFIG))
            .flatten();
        if let Some(config) = done.filter(|_| done != last) {
            reported.push((state.at, config));
        }
        last = done;
    }
    reported
}

/// Each time the node reported that it is Done, its host ran the requested OS, booted since
/// then.
fn truthful(node: &str, history: &[NodeSnapshot], boots: &[Boot], roll: &Roll) -> Vec<String> {
    let (config, content, since) = (&roll.config, roll.content.as_str(), roll.start);
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
        .map(|(at, doubt)| format!("{node} said {config} is Done at {at}, {doubt}"))
        .collect()
}

/// A roll without reboot has no node out, and no host that boots.
fn undisturbed(rollout: &Rollout, outages: &BTreeMap<String, Vec<Interval>>) -> Vec<String> {
    let mut found = Vec::new();
    for roll in rollout.rolls.iter().filter(|roll| !roll.reboots) {
        let during = roll.start..roll.end;
        for (node, out) in outages {
            let began = out.iter().map(|interval| interval.from.1);
            let began = began.filter(|at| during.contains(at));
            found.extend(began.map(|at| format!("{node} was out at {at}")));
        }
        for (node, boots) in &rollout.record.boots {
            let began = boots.iter().map(|boot| boot.started);
            let began = began.filter(|at| during.contains(at));
            found.extend(began.map(|at| format!("{node} booted at {at}")));
        }
    }
    found
}

#[cfg(test)]
mod tests;
