//! A pool that was rolled from one configuration to the next, judged by all laws.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lab::audit::nodes::Interval;
use serde::{Deserialize, Serialize};

use crate::laws::Breach;
use crate::phases::Span;
use crate::record::Record;
use crate::run::Run;

/// What was recorded of a cluster, and what was requested of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rollout {
    /// The facts.
    pub record: Record,
    /// In order.
    pub rolls: Vec<Roll>,
    /// What ran meanwhile.
    pub workload: Workload,
    /// Whether the last roll is at its end.
    pub is_over: bool,
}

/// What has to be kept running, and how much of the pool may be out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// Label of the pods, in namespace `default`.
    pub label: (String, String),
    /// Fewest of them that have to be ready.
    pub needed: usize,
    /// Most nodes that may be out at once.
    pub max_out: usize,
}

/// One roll as it went.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Roll {
    /// For people.
    pub title: String,
    /// The rendered configuration that every node was to reach.
    pub config: String,
    /// Content of the OS that they were to run, as [`lab::tree::content`] gives it.
    pub content: String,
    /// Whether it needs a reboot.
    pub reboots: bool,
    /// When it was requested.
    pub start: Timestamp,
    /// When every node was there, or given up.
    pub end: Timestamp,
    /// What was found on the hosts at its end that speaks against it.
    pub doubts: Vec<String>,
}

/// The judgement, and what it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// All laws that did not hold.
    pub breaches: Vec<Breach>,
    /// Phases of each node's updates.
    pub phases: BTreeMap<String, Vec<Span>>,
    /// When each node was out of service.
    pub outages: BTreeMap<String, Vec<Interval>>,
    /// How many pods of the workload were ready, and since when.
    pub ready: Vec<(Timestamp, usize)>,
    /// Bytes that nodes took from the registry while they were out.
    pub fetched_while_out_bytes: u64,
}

impl Rollout {
    /// Judges it.
    pub fn judge(&self) -> Verdict {
        let run = Run::of_rollout(self);
        let breaches = run.judge();
        let fetched_while_out_bytes = run.bytes_fetched_while_out().into_values().sum();
        let rolled = run.rolled;
        let (phases, ready) = rolled.map_or_else(Default::default, |it| (it.phases, it.ready));
        Verdict {
            breaches,
            phases,
            outages: run.outages,
            ready,
            fetched_while_out_bytes,
        }
    }
}

#[cfg(test)]
mod records;
