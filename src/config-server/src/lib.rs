//! The config server: answers new machines with the Ignition configuration of their pool, over TLS,
//! to those that may have it.
//!
//! It must not know: how a configuration is rendered, hosts.
//!
//! - `accept`: which version of Ignition's specification a request asks for
//! - `who`: the identity behind a request, and whether it may have a pool's configuration
//! - `visits`: how often a network may ask, and how long a credential is answered
//! - `flight`: answers that were made and are not sent yet
//! - `store`: the pools, their configurations and certificates, kept up to date
//! - `own`: which configurations a node that has joined may have
//! - `document`: a pool's configuration with the files that only a new machine gets
//! - `answer`: the status of each refusal
//! - `server`: from request to answer
//! - `metrics`: what is counted
//! - [`cli`], [`process`]: the command line, and the process from its start to its end

mod accept;
mod answer;
pub mod cli;
mod document;
mod flight;
mod metrics;
mod own;
pub mod process;
mod server;
mod store;
mod visits;
mod who;
