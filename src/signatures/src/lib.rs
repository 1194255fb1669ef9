//! Hands for signatures of images: keys, signed statements, and the directories that keep them.
//!
//! What a statement says is [`release::claim`]. It must not know: files of releases, the Kubernetes
//! API.
//!
//! OpenPGP:
//! - [`keyring`]: public keys, and whether one of them signed a message
//! - [`signer`]: a secret key, and the messages that it signs
//! - [`verify`]: whether signatures suffice for an image
//! - [`store`]: signatures in directories, as servers of them lay them out
//!
//! [`sigstore`]: signatures that lie beside an image, by the policy of a cluster

pub mod keyring;
pub mod signer;
pub mod sigstore;
pub mod store;
pub mod verify;

pub use keyring::Keyring;
pub use signer::Signer;
pub use verify::verify;
