//! Releases: made of images, signed, read again, all by `slipway` and a real registry.
//!
//! - `upstream`: OpenShift's own manifests
//! - `scene`: a registry, toy images in it, and the program
//! - `round_trip`: a release is made, signed, verified, read and made again
//! - `mirror`: a release is mirrored, goes on after a failure, and is compared
//! - `os_packages`: the packages of two releases' operating systems
//! - `sigstore`: signatures beside images, by skopeo and for skopeo
//! - `bad_input`: what is wrong is named, and nothing is pushed

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails; it runs the programs and writes files of its own"
)]

mod bad_input;
mod mirror;
mod os_packages;
mod round_trip;
mod scene;
mod sigstore;
mod upstream;
