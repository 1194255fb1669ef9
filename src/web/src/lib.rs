//! HTTP to servers that are no API server: of the cluster's metrics, of updates, of a fleet, of
//! signatures.
//!
//! It must not know: what is requested, and what follows from a response.
//!
//! - [`client`]: one client by its settings: proxy, authorities, addresses
//! - [`request`]: a request with its limits, and a response
//! - [`retry`]: which failures pass by themselves, and how often a request is repeated
//! - [`update_service`]: the graph of a channel
//! - [`prometheus`]: the cluster's metrics

pub mod client;
pub mod prometheus;
pub mod request;
pub mod retry;
pub mod update_service;

pub use client::{Authorities, ClientSettings, Proxies, WebClient};
pub use request::{Error, WebRequest, WebResponse};
