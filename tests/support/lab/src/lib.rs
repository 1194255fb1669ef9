//! The lab: real parts on one machine, and the observer that judges what happened on them.

pub mod audit;
pub mod cache;
pub mod control_plane;

mod cgroup;
mod disk;
pub mod host;
pub mod image;
mod network;
mod place;
mod program;
pub mod registry;
pub mod tree;
pub mod vm;

pub use self::place::Lab;
