//! The update service: which releases a cluster may be updated to.
//!
//! - [`cli`], [`settings`]: options, and the one file of settings
//! - [`scrape`]: the loop that rebuilds the responses; [`releases`], [`data`]: its two sources
//! - [`trust`]: whose signature graph data needs
//! - [`responses`]: response bodies of one scrape; [`body`]: one of them, stored as gzip
//! - [`drawings`]: channels drawn for people; [`kept_drawings`]: those that were used last
//! - [`request`]: what a request asks for
//! - [`respond`]: from a request to its response
//! - [`openapi`]: the description of the interface
//! - [`metrics`]: what is counted
//! - [`process`]: one process, from its start to its end

pub mod body;
pub mod cli;
pub mod data;
pub mod drawings;
pub mod kept_drawings;
pub mod metrics;
pub mod openapi;
pub mod process;
pub mod releases;
pub mod request;
pub mod respond;
pub mod responses;
pub mod scrape;
pub mod settings;
pub mod trust;
