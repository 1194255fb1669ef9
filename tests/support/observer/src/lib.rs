//! Judges what happened in a run of the lab: from the API server's audit log, the registry's access
//! log, the lab's record of boots and the hosts' files, never from what the programs under test say
//! of themselves. What a node says is read only to know what it claims and when, and facts are
//! compared with that.
//!
//! - [`host`]: what a host is in the end
//! - `kept`: a rollout as a file
//! - [`laws`]: what must hold, a table for each storey
//! - [`phases`]: which phase of an update each node was in, and what it waited for
//! - [`pods`]: where pods were, and until when
//! - [`record`]: the facts of a run
//! - [`release`]: an update of the cluster to another release, by run levels
//! - [`rollout`]: a pool that was rolled, judged by all laws
//! - [`run`]: what the facts show, as laws read it
//! - [`shutdown`]: whether a host went down by logind
//! - [`wire`]: names of annotations and objects

pub mod host;
mod kept;
pub mod laws;
pub mod phases;
pub mod pods;
pub mod record;
pub mod release;
pub mod rollout;
pub mod run;
#[cfg(test)]
mod samples;
pub mod shutdown;
pub mod wire;
