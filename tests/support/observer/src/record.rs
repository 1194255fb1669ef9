//! What the lab recorded of a cluster.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lab::audit::Event;
use lab::host::Boot;
use lab::registry::Request;
use serde::{Deserialize, Serialize};

use crate::laws::Breach;
use crate::run::Run;

/// The facts of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The API server's audit log.
    pub audit: Vec<Event>,
    /// Boots of each host, by its node's name.
    pub boots: BTreeMap<String, Vec<Boot>>,
    /// Requests of each host to the registry, by its node's name.
    pub fetches: BTreeMap<String, Vec<Request>>,
}

impl Record {
    /// The facts of nodes whose names begin so; the audit log stays whole.
    #[must_use]
    pub fn of_nodes(&self, prefix: &str) -> Self {
        let mut of = self.clone();
        of.boots.retain(|node, _| node.starts_with(prefix));
        of.fetches.retain(|node, _| node.starts_with(prefix));
        of
    }

    /// Whether a node's host was booted by then. One without a boot counts as there: its absence is
    /// a fault of the record.
    pub fn had_booted(&self, node: &str, by: Timestamp) -> bool {
        let first = self.boots.get(node).and_then(|boots| boots.first());
        first.is_none_or(|first| first.started <= by)
    }

    /// Judges by the laws that hold whatever is killed, rebooted or asked for meanwhile.
    pub fn judge(&self, since: Timestamp) -> Vec<Breach> {
        Run::of_record(self, since).judge()
    }
}
