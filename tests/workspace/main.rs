//! What the sources promise as a whole: the layers of `src/README.md`, no fault in a product crate,
//! and citations that lead somewhere.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests that read the workspace"
)]

mod book;
mod circles;
mod citations;
mod explained;
mod faults;
mod hardening;
mod layers;
mod network;
mod packages;
mod requests;
mod sources;
mod upstream_data;
mod words;
