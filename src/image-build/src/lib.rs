//! Thinking about OS images that are built for pools: what one is made from, what its build is
//! called, which objects it needs, how far it is, and what is kept of it.
//!
//! It must not know: files, clocks, networks, async. Values in, values out.
//!
//! - [`refusal`]: why nothing is built
//! - [`architecture`]: for which machines an image is
//! - [`push_spec`]: where an image is pushed to
//! - [`containerfile`]: what people write, and the text that is built
//! - [`files`]: files of a configuration that belong to the image
//! - [`packages`]: packages that an image gets besides its base
//! - [`inputs`]: all that an image is made from
//! - [`name`]: what a build is called, and the digest of an image's content
//! - [`registries`]: which registries have no TLS
//! - [`settings`]: time limit, resources and nodes of a build
//! - [`login`]: Secrets of registries, in one form
//! - [`objects`]: ConfigMap, Secrets and Job of a build
//! - [`outcome`]: how a Job ended
//! - [`hold`]: why no pod of a Job runs
//! - [`status`]: conditions and times of a build
//! - [`observed`]: what is known when a step is chosen
//! - [`step`]: what is done next

pub mod architecture;
pub mod containerfile;
pub mod files;
pub mod hold;
pub mod inputs;
pub mod login;
pub mod name;
pub mod objects;
pub mod observed;
pub mod outcome;
pub mod packages;
pub mod push_spec;
pub mod refusal;
pub mod registries;
pub mod settings;
pub mod status;
pub mod step;

pub use refusal::BuildRefusal;

#[cfg(test)]
mod fixture;
