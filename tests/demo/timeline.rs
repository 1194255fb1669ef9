//! `timeline.json`: what each node did when, and what the observer found.

use ::tests::observer::phases::Span;
use serde::Serialize;

/// The run in numbers.
///
/// Shape: this is the file's, times RFC 3339.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Timeline {
    /// In order of names.
    pub(crate) nodes: Vec<Lane>,
    /// Most nodes out of service at once.
    pub(crate) max_out: usize,
    /// Fewest replicas that were ready.
    pub(crate) min_ready_replicas: usize,
    /// Bytes that hosts took from the registry between cordon and uncordon.
    pub(crate) fetched_while_out_bytes: u64,
    /// Whether every node is proven updated and every law held.
    pub(crate) proven: bool,
}

/// What one node did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Lane {
    pub(crate) name: String,
    /// In order, of all rolls.
    pub(crate) phases: Vec<Span>,
}
