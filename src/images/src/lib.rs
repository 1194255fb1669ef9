//! Hands for container images: read, made and stored, in registries and in OCI layout directories.
//!
//! It must not know: what an image is for, release payloads, Kubernetes, or a container runtime.
//!
//! - [`location`]: where an image is, in the notation of command lines
//! - [`credentials`]: names and passwords for registries
//! - `removal`: images are removed from a registry
//! - [`reply`]: what a registry says of an image
//! - [`store`]: registries and layout directories, by one set of verbs; `registry`, `layout`: each
//!   of them
//! - [`image`]: an existing image: manifest, configuration, layers
//! - [`layer`]: what a layer holds; [`archive`]: its entries, read within a [`budget`]
//! - [`content`]: files of an image, over its layers
//! - [`copy`]: an image from place to place
//! - [`attached`]: what lies beside an image: signatures
//! - [`tree`]: files from which a layer is made, byte for byte the same each time
//! - [`draft`]: a new image; `built`: one that was made
//! - [`blob`]: bytes by digest; `document`: those of manifests and configurations, as JSON

pub mod archive;
pub mod attached;
pub mod blob;
pub mod budget;
mod built;
pub mod content;
pub mod copy;
pub mod credentials;
mod document;
pub mod draft;
pub mod error;
pub mod image;
pub mod layer;
mod layout;
pub mod location;
mod registry;
mod removal;
pub mod reply;
pub mod store;
pub mod tree;

pub use credentials::Credentials;
pub use draft::Draft;
pub use error::Error;
pub use image::Image;
pub use location::ImageLocation;
pub use reply::ImageReply;
pub use store::Stores;
pub use tree::Tree;
