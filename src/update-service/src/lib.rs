//! The update service: which releases a cluster may be updated to.
//!
//! - [`cli`], [`settings`]: options, and the one file of settings
//! - [`scrape`]: the loop that makes answers anew; [`releases`], [`data`]: its two sources
//! - [`trust`]: whose signature graph data needs
//! - [`answers`]: every answer, made once; [`answer`]: one of them, kept compressed
//! - [`drawings`]: channels drawn for people; [`kept_drawings`]: those that were used last
//! - [`request`]: what a request asks for
//! - [`respond`]: what is answered
//! - [`openapi`]: the description of the interface
//! - [`metrics`]: what is counted
//! - [`process`]: one process, from its start to its end

pub mod answer;
pub mod answers;
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
pub mod scrape;
pub mod settings;
pub mod trust;
