//! The controller: renders the configuration of each pool and moves the pool's nodes to it under its budget.
//!
//! Level-triggered: watches fill a store, and each pass looks at all pools anew, as `observe → decide → apply`. What is decided comes
//! from `machineconfig` and `pool`; here it is only asked for and carried out. Two replicas run; the one that holds the lease works, and
//! its writes are guarded so that a deposed one does no harm.
//!
//! It must not know: hosts, drains, how an update is applied. That is the node's daemon.
//!
//! - [`cli`]: the command line, validated
//! - [`process`]: one process, from its start to its end
//! - [`version`]: which build this is
//! - [`store`]: what is known of the cluster, kept up to date
//! - [`configs`]: what is kept of a MachineConfig: never its content
//! - [`follow`]: the watches that fill the store
//! - [`requests`]: each request that is ever sent
//! - [`passes`]: the loop, and one pass over all pools
//! - [`rendering`]: the configuration of a pool
//! - [`telling`]: a claimed round, and the nodes that are told
//! - [`reporting`]: what a pool's status says, and what of it changed
//! - [`announce`]: what is said in events, and when
//! - [`figures`]: metrics and probes

pub mod announce;
pub mod cli;
pub mod configs;
pub mod figures;
#[cfg(test)]
mod fixture;
pub mod follow;
pub mod passes;
pub mod process;
pub mod rendering;
pub mod reporting;
pub mod requests;
pub mod store;
pub mod telling;
pub mod version;
