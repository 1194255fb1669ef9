//! What is printed, from values.
//!
//! - `table`: cells that stand under each other
//! - `info`: a release
//! - `parts`: the images of a release, opened
//! - `difference`: how two releases differ
//! - `os`: OS images
//! - `json`: a release, for programs

pub(crate) mod difference;
pub(crate) mod info;
pub(crate) mod json;
pub(crate) mod os;
pub(crate) mod parts;
mod table;
