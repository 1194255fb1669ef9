//! What a release of Slipway consists of, in one directory: `make release VERSION=…`.
//!
//! The same commit, packages and compiler give the same bytes, wherever the checkout is.
//!
//! - [`assembly`]: all parts, in their order
//! - [`release_image`]: the release image and its signature
//! - [`notes`]: what is new, of `CHANGELOG.md`
//! - [`bundle`]: the kustomize bundle, what people apply of `deploy/`
//! - [`chart`]: the Helm chart of the same objects
//! - [`manifests`]: the same objects, as `slipway install` reads them
//! - [`command_line`]: `slipway` as people install it
//! - [`archive`]: folders as `.tar.gz`; `files`; `kustomization`, `images`: what `deploy/` has
//! - [`checksums`]: `SHA256SUMS` of all files, the last one that is written

#![expect(
    clippy::disallowed_methods,
    reason = "a release whose making broke off is made again"
)]

pub mod archive;
pub mod assembly;
pub mod bundle;
pub mod chart;
pub mod checksums;
pub mod command_line;
mod files;
mod images;
mod kustomization;
pub mod manifests;
pub mod notes;
pub mod release_image;
