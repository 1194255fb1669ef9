//! Container images of our components, made without a container engine: `make images`.
//!
//! An image is files of named Debian packages, our programs, and the manifests of `deploy/`. The
//! same commit, packages and compiler give the same digest, wherever the checkout is.
//!
//! - [`component`]: the table of images; a new component is one entry
//! - [`architecture`]: processors that images are made for
//! - [`debian`]: packages, by their archive's own tools, cached by version
//! - [`manifests`]: the files of an operator's `/manifests`
//! - [`sbom`]: what an image is made of, in SPDX
//! - [`parts`]: what images of several versions have in common
//! - [`build`]: one image of these
//! - [`checkout`]: commit and version that images are labelled with
//! - [`push`]: images to a registry
//! - [`run`]: programs of the machine

pub mod architecture;
pub mod build;
pub mod checkout;
pub mod component;
pub mod debian;
pub mod manifests;
pub mod parts;
pub mod push;
pub mod run;
pub mod sbom;

pub use architecture::Architecture;
pub use build::{Options, build_all, build_component, build_keys, build_named};
pub use images::tree::Packing;
pub use parts::PackedParts;
