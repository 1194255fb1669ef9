//! What the tools show to a person: tables on a terminal, pictures in a file. Pure.
//!
//! - [`ink`]: colours, and text without them
//! - [`table`]: aligned columns
//! - [`svg`]: pictures for a browser

pub mod ink;
pub mod svg;
pub mod table;
