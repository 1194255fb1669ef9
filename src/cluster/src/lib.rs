//! The hands on a Kubernetes cluster: requests, lists and watches, a lease, events.
//!
//! It must not know: what an update is, hosts, machine configurations, what a Node or any other
//! object means. It sends the requests of its callers and returns the responses unchanged.
//!
//! - [`access`]: an identity at the API server, with credentials that rotate
//! - [`kubeconfig`]: a kubeconfig with all it points to read in
//! - [`wire`]: one request, and errors by what they mean
//! - [`objects`]: the objects of one kind: read, create, change, apply, delete
//! - [`list`]: all objects of a kind, as they are now
//! - [`cache`]: the objects of a kind by name, kept up to date
//! - [`path`]: paths of kinds fixed at compile time
//! - [`discovery`]: paths of all other kinds
//! - [`apply`]: server-side apply of any object
//! - [`review`]: who shows a token, and what a user may
//! - [`lease`]: of several replicas one leads
//! - [`events`]: what operators search for

#![warn(missing_docs)]

pub mod access;
pub mod apply;
pub mod cache;
pub mod discovery;
pub mod events;
pub mod kubeconfig;
pub mod lease;
pub mod list;
pub mod objects;
pub mod path;
pub mod review;
pub mod wire;
