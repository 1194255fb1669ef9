//! Thinking about pools: which nodes belong to one, which of them get a new configuration now, and
//! what the pool reports.
//!
//! It must not know: clients, clocks, async, and how configurations are made or applied. Values in,
//! values out.
//!
//! - [`node`]: a Node as this crate sees it, parsed once
//! - [`selector`]: what a pool selects by labels
//! - [`view`]: a pool as this crate sees it, parsed once
//! - [`membership`]: which pool a node belongs to
//! - [`budget`]: how many nodes may be out of service at once
//! - [`policy`]: the steps of a rollout
//! - [`recurrence`]: windows that recur each week
//! - [`claim`]: assignments that were claimed and may not be visible on their nodes yet
//! - [`hold`]: what keeps a pool from being assigned anything
//! - [`stop`]: the switches by which people stop a pool
//! - [`kubelet_skew`]: kubelets that another minor release of the API server does not support
//! - [`image`]: the OS image of a pool in image mode, and how far it is
//! - [`pinned_sets`]: pinned image sets that a pool selects
//! - [`pins`]: which nodes are assigned them now, and how far each is
//! - [`list`]: names in sentences
//! - [`rollout`]: which nodes are assigned now, and why the others are not
//! - [`previous`]: what nodes had before
//! - [`rehearsal`]: which node rehearses what is no target of the pool
//! - [`mod@write`]: what to change on a Node
//! - [`status`]: counters and conditions

pub mod budget;
pub mod claim;
mod finding;
#[cfg(test)]
mod fixture;
pub mod hold;
pub mod image;
pub mod kubelet_skew;
pub mod list;
pub mod membership;
pub mod node;
pub mod pinned_sets;
pub mod pins;
pub mod policy;
pub mod previous;
pub mod recurrence;
pub mod rehearsal;
pub mod rollout;
pub mod selector;
pub mod status;
pub mod stop;
pub mod view;
pub mod write;
