//! What programs and tools show to a person: tables on a terminal, pictures in a file. Pure.
//!
//! It must not know: files, clocks, networks, and what the things are that it shows.
//!
//! - [`chain`]: an error with its causes
//! - [`ink`]: colours, and text without them
//! - [`plain`](mod@plain): text of others, without what steers a terminal
//! - [`table`]: aligned columns
//! - [`live`]: nodes while they change
//! - [`svg`]: pictures for a browser

pub mod chain;
pub mod ink;
pub mod live;
pub mod plain;
pub mod svg;
pub mod table;

pub use chain::Chain;
