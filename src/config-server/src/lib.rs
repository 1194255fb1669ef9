//! The config server: serves the Ignition configuration of a pool to its new machines, over TLS,
//! to those that may have it.
//!
//! It must not know: how a configuration is rendered, hosts.
//!
//! - `accept`: which version of Ignition's specification a request asks for
//! - `authorize`: the identity behind a request, and whether it may have a pool's configuration
//! - `rate_limit`: how many requests a network may send, and how long a credential is served
//! - `flight`: responses that are built and not sent yet
//! - `store`: the pools, their configurations and certificates, kept up to date
//! - `image_mode`: which pools serve a built OS image with their configuration
//! - `own`: which configurations a node that has joined may have
//! - `document`: a pool's configuration with the files that only a new machine gets
//! - `refusal`: the status of each refusal
//! - `server`: from request to response
//! - `metrics`: what is counted
//! - [`cli`], [`process`]: the command line, and the process from its start to its end

mod accept;
mod authorize;
pub mod cli;
mod document;
mod flight;
mod image_mode;
mod metrics;
mod own;
pub mod process;
mod rate_limit;
mod refusal;
mod server;
mod store;
