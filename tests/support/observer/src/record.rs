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
    /// What each host asked of the registry, by its node's name.
    pub fetches: BTreeMap<String, Vec<Request>>,
}

impl Record {
    /// Judges by the laws that hold whatever is killed, rebooted or asked for meanwhile.
    pub fn judge(&self, since: Timestamp) -> Vec<Breach> {
        Run::of_record(self, since).judge()
    }
}
