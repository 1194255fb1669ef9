//! `slipway install` and `slipway uninstall` on real parts: what is looked at before, what is
//! applied, interrupted at each object, and what is left after a removal.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "helpers of tests, and their own files"
)]

mod adoption;
mod hosts;
mod manifests;
mod objects;
mod refused;
mod released;
