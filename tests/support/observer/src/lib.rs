//! Judges what happened in a run of the lab: from the API server's audit log, the registry's access
//! log, the lab's record of boots and the hosts' files, never from what the programs under test say
//! of themselves. What a node says is read only to know what it claims and when, and facts are compared with that.
//!
//! - [`host`]: what a host is in the end
//! - `kept`: a rollout as a file
//! - [`laws`]: what must hold in every rollout, and where it did not
//! - [`phases`]: which phase of an update each node was in, and what it waited for
//! - [`pods`]: where pods were, and until when
//! - [`record`]: the facts of a run, and the laws that hold in any
//! - [`rollout`]: a pool that was rolled, judged by all laws
//! - [`shutdown`]: whether a host went down by logind
//! - [`traffic`]: what the programs asked of the API server
//! - [`wire`]: names of annotations and objects

pub mod host;
mod kept;
pub mod laws;
pub mod phases;
pub mod pods;
pub mod record;
pub mod rollout;
pub mod shutdown;
pub mod traffic;
pub mod wire;
