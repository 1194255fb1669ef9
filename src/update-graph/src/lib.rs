//! Thinking about update graphs: which updates follow from releases and from the graph data that
//! curators keep, and how a channel of them looks.
//!
//! It must not know: registries, files, HTTP, clocks. Bytes and values in, values out.
//!
//! - [`graph_data`]: channels, blocked edges and raw metadata, read from the files of a repository;
//!   [`channel_file`], [`blocked_edge`]: one file each
//! - [`scraped`]: releases as images say them, and the graph that these alone make
//! - [`annotated`]: that graph with the graph data applied, of one architecture
//! - [`block_effect`]: what of the blocked edges matches nothing
//! - [`problem`]: what of a source was left out, and why
//! - [`path`]: the shortest update path between two releases
//! - [`promotion`]: a release moved on from channel to channel
//! - [`comparison`]: what a change of graph data adds and removes
//! - [`drawing`]: a channel as a picture, as SVG, as DOT and as a page

pub mod annotated;
pub mod block_effect;
pub mod blocked_edge;
pub mod channel_file;
pub mod comparison;
pub mod drawing;
pub mod graph_data;
pub mod path;
pub mod problem;
pub mod promotion;
pub mod scraped;
mod yaml;

pub use annotated::AnnotatedGraph;
pub use graph_data::GraphData;
pub use problem::SourceProblem;
pub use scraped::ScrapedRelease;

/// Prefix of the metadata keys that the graph's own rules read.
pub const KEY_PREFIX: &str = "io.openshift.upgrades.graph.";
