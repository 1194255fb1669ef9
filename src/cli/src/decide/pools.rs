//! Pools and nodes.
//!
//! - [`view`]: a pool and its nodes, from objects
//! - [`node_view`]: one node, from objects

pub(crate) mod node_view;
pub(crate) mod objects;
pub(crate) mod view;
