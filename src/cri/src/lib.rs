//! The node's container runtime, over its socket.
//!
//! It must not know Kubernetes' API, or which images are wanted and why. CRI-O and containerd serve
//! the Container Runtime Interface; containerd's own service of image records is beside it, because
//! the interface has no call that pins an image.
//!
//! - [`client`]: the runtime of a host, and its calls
//! - [`error`]: why a call failed
//! - [`kind`]: the runtimes that are supported
//! - `records`: image records of containerd
//! - `wire`: the messages, as far as they are read

pub mod client;
pub mod error;
pub mod kind;
mod records;
mod wire;

pub use client::{ImageState, RuntimeClient};
pub use error::{Error, RuntimeFault};
pub use kind::RuntimeKind;
pub use records::ImageRecord;

#[cfg(test)]
mod tests;
