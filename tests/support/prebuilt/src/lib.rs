//! What the lab is made of and what takes minutes to make: built once a machine, kept in a cache
//! outside the checkout.
//!
//! It depends on little, so that it is built first: the makers run beside the compiler of
//! everything else. Its program makes one part and prints a line for each step.
//!
//! - `control_plane`: the programs of Kubernetes and etcd; `container_runtime`: containerd; `go`:
//!   the modules that both are built from
//! - `helm`: Helm, which installs charts; `skopeo`: what copies images and checks their signatures
//! - `cross`: the compiler for another processor
//! - `tree`: the operating system of hosts
//! - `cache`: folders under a digest of what they are made from
//! - `program`: programs that run to their end

mod archive;
pub mod cache;
pub mod container_runtime;
pub mod control_plane;
pub mod cross;
mod debian;
mod go;
pub mod helm;
pub mod program;
pub mod skopeo;
pub mod tree;
