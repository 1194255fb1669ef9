//! Sigstore: signatures that lie beside an image, by a key or by a certificate.
//!
//! - [`attached`]: a signature as it lies beside its image, in annotations and one blob
//! - [`key`]: a public key
//! - [`signer`]: a secret key, as cosign keeps it
//! - [`policy`]: what a ClusterImagePolicy demands, with its keys read
//! - [`verify`](mod@verify): whether signatures suffice for an image
//! - [`beside`]: signatures beside an image in its registries
//! - `certificate`: whose key a certificate has; `log_entry`: what a transparency log has promised
//! - `identity`: whether an image may bear the name that was signed
//!
//! All is verified offline, by what lies beside the image. Source: `containers-policy.json(5)`,
//! `sigstoreSigned`; cosign's signature specification.

pub mod attached;
pub mod beside;
mod certificate;
mod identity;
pub mod key;
mod log_entry;
pub mod policy;
pub mod signer;
pub mod verify;

pub use attached::AttachedSignature;
pub use beside::{PulledImage, SignedImage, UnsignedImage};
pub use policy::{SigstorePolicy, demanding};
pub use signer::SigstoreSigner;
pub use verify::{SigstoreFault, verify};

#[cfg(test)]
mod tests;
