//! The hands on a Kubernetes cluster: requests, the node's own watch and writes, drains, events.
//!
//! It must not know: what an update is, hosts, machine configurations. It sends what it is told and says exactly what came back.
//!
//! - [`access`]: an identity at the API server, with credentials that rotate
//! - [`wire`]: one request, and errors by what they mean
//! - [`node`]: what is read of a Node
//! - [`watch`]: one Node, kept up to date
//! - [`collection`]: all objects of a kind, kept up to date
//! - [`lease`]: of several replicas one leads
//! - [`node_writer`]: the only writer of a Node's annotations and `unschedulable`
//! - [`drain`]: pods leave a node
//! - [`events`]: what operators search for

pub mod access;
pub mod collection;
pub mod drain;
pub mod events;
pub mod lease;
pub mod node;
pub mod node_writer;
pub mod watch;
pub mod wire;
