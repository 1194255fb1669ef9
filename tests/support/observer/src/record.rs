//! What the lab recorded of a cluster, and the laws that hold in any run of it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lab::audit::nodes::{self, Interval, NodeState};
use lab::audit::{Event, pods::evictions};
use lab::host::{Boot, End};
use lab::registry::Request;
use serde::{Deserialize, Serialize};

use super::laws::{self, Breach, Law};
use super::{pods, traffic, wire};

/// The facts of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The API server's audit log.
    pub audit: Vec<Event>,
    /// Boots of each host, by its node's name.
    pub boots: BTreeMap<String, Vec<Boot>>,
    /// What each host asked of the registry, by its node's name.
    pub fetches: BTreeMap<String, Vec<Request>>,
}

impl Record {
    /// Judges by the laws that hold whatever is killed, rebooted or asked for meanwhile: [`Law::FetchBefore`],
    /// [`Law::Spared`], [`Law::Drained`], [`Law::Kept`] and [`Law::Modest`].
    ///
    /// Where hosts go down for other reasons than an update, two laws are narrower than in a rollout: only a node that
    /// is cordoned counts as out, and a host has to be drained only for a reboot that its node announced, unless its
    /// control plane is a single replica. A daemon that starts anew may read a configuration again.
    pub fn judge(&self, since: Timestamp) -> Vec<Breach> {
        let histories = nodes::histories(&self.audit);
        let cordoned = laws::intervals(&histories, since, |state| state.is_unschedulable);
        let mut reboots = self.went_down(since, |end| end != End::Killed);
        for (node, times) in &mut reboots {
            let history = histories.get(node).map_or(&[][..], Vec::as_slice);
            times.retain(|at| needs_drain(history, *at));
        }
        let pods = pods::lives(&self.audit);
        let mut breaches = self.fetched_while(&cordoned);
        breaches.extend(laws::spared(&evictions(&self.audit), &pods));
        breaches.extend(laws::drained(&pods, &reboots));
        breaches.extend(traffic::kept(&self.audit));
        breaches.extend(traffic::asked_for_theirs(&self.audit));
        breaches
    }

    /// When each host ended, after `since` and for a reason that counts.
    pub(super) fn went_down(
        &self,
        since: Timestamp,
        counts: impl Fn(End) -> bool,
    ) -> BTreeMap<String, Vec<Timestamp>> {
        let ends = |boots: &[Boot]| -> Vec<_> {
            let ends = boots.iter().filter_map(|boot| boot.ended);
            let ends = ends.filter(|(at, end)| *at > since && counts(*end));
            ends.map(|(at, _)| at).collect()
        };
        self.boots
            .iter()
            .map(|(node, boots)| (node.clone(), ends(boots)))
            .collect()
    }

    /// [`Law::FetchBefore`], given when each node was out.
    pub(super) fn fetched_while(&self, out: &BTreeMap<String, Vec<Interval>>) -> Vec<Breach> {
        let bytes = self.bytes_fetched_while(out);
        bytes
            .into_iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(node, bytes)| {
                Law::FetchBefore.broken(format!("{node} took {bytes} bytes from the registry"))
            })
            .collect()
    }

    /// Bytes of images and their manifests that each node took while it was out.
    pub(super) fn bytes_fetched_while<'a>(
        &self,
        out: &'a BTreeMap<String, Vec<Interval>>,
    ) -> BTreeMap<&'a str, u64> {
        let of = |node: &String, out: &[Interval]| {
            let is_out = |request: &&Request| {
                out.iter().any(|interval| {
                    interval.from.1 <= request.finished
                        && interval
                            .until
                            .is_none_or(|(_, until)| request.started <= until)
                })
            };
            let fetches = self.fetches.get(node).into_iter().flatten();
            fetches
                .filter(|request| request.is_blob_fetch() || request.is_manifest_fetch())
                .filter(is_out)
                .map(|request| request.bytes)
                .sum()
        };
        out.iter()
            .map(|(node, out)| (node.as_str(), of(node, out)))
            .collect()
    }
}

/// Whether the node had announced a reboot, for which its pods had to leave.
fn needs_drain(history: &[NodeState], down: Timestamp) -> bool {
    let last = history.iter().rev().find(|state| state.at <= down);
    let value = |key| last.and_then(|state| state.annotations.get(key));
    value(wire::PHASE).is_some_and(|phase| phase == wire::REBOOTING)
        && value(wire::CONTROL_PLANE_TOPOLOGY).is_none_or(|one| one != wire::SINGLE_REPLICA)
}

#[cfg(test)]
mod tests;
