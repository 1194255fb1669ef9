//! Thinking about the packages of an OS image: which there are, and how two images differ.
//!
//! It must not know: images, registries, files, `SQLite`. Bytes and values in, values out.
//!
//! - [`package`]: a package, and the list of all that an image has
//! - [`dpkg`]: the status file of dpkg; [`rpm_header`]: a header of rpm's database
//! - [`version`]: which of two versions is the newer one
//! - [`place`]: where an image keeps its database, its kernels and its own version
//! - [`content`]: what is shown of one image
//! - [`difference`]: what differs between two of them
//! - [`download`]: which layers of one image another one lacks

pub mod content;
pub mod difference;
pub mod download;
pub mod dpkg;
pub mod package;
pub mod place;
pub mod rpm_header;
pub mod version;
