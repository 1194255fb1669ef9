//! Which keys OpenShift's own clients can read.

use pgp::crypto::public_key::PublicKeyAlgorithm;
use pgp::types::{EcdhPublicParams, EcdsaPublicParams, KeyDetails, KeyVersion, PublicParams};

use super::Keyring;

impl Keyring {
    /// Keys of the ring that OpenShift's clients pass over, each with its algorithm: where no other
    /// is left, they can verify nothing, and refuse to mirror a release with this ring.
    ///
    /// Shape: fingerprint in hexadecimal, of the primary key, and the name of the algorithm of the
    /// key or of a subkey: one that is unknown to them makes all of its certificate so.
    /// Source: `golang.org/x/crypto/openpgp`, which knows versions 3 and 4, and RSA, DSA, `ElGamal`
    /// and the curves of NIST.
    pub fn unknown_to_clients(&self) -> Vec<(String, String)> {
        let unknown = self.keys.iter().filter_map(|key| {
            let subkeys = key
                .public_subkeys
                .iter()
                .map(|subkey| algorithm(&subkey.key));
            let mut parts = std::iter::once(algorithm(&key.primary_key)).chain(subkeys);
            let name = parts.find_map(|unknown| unknown)?;
            Some((key.primary_key.fingerprint().to_string(), name))
        });
        unknown.collect()
    }
}

/// The algorithm of a key, if they do not know it.
fn algorithm(key: &impl KeyDetails) -> Option<String> {
    let is_old = matches!(key.version(), KeyVersion::V3 | KeyVersion::V4);
    // All others are newer.
    let is_known = matches!(
        key.public_params(),
        PublicParams::RSA(_)
            | PublicParams::DSA(_)
            | PublicParams::Elgamal(_)
            | PublicParams::ECDSA(
                EcdsaPublicParams::P256 { .. }
                    | EcdsaPublicParams::P384 { .. }
                    | EcdsaPublicParams::P521 { .. }
            )
            | PublicParams::ECDH(
                EcdhPublicParams::P256 { .. }
                    | EcdhPublicParams::P384 { .. }
                    | EcdhPublicParams::P521 { .. }
            )
    );
    let name = if key.algorithm() == PublicKeyAlgorithm::EdDSALegacy {
        "EdDSA".to_owned()
    } else {
        format!("{:?}", key.algorithm())
    };
    (!is_old || !is_known).then_some(name)
}
