//! The hands on one Node and its pods: what is read of it, its annotations and cordon, drains.
//!
//! It must not know: what an update is, hosts, machine configurations, which nodes are next.
//!
//! - [`view`]: the fields that are read of a Node
//! - [`watch`]: one Node, kept up to date
//! - [`writer`]: the only writer of a Node's annotations and `unschedulable`
//! - [`drain`]: pods leave a node

pub mod drain;
pub mod view;
pub mod watch;
pub mod writer;
