//! A public key.

use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256,
    UnparsedPublicKey, VerificationAlgorithm,
};
use x509_cert::der::{self, asn1::ObjectIdentifier};
use x509_cert::spki::SubjectPublicKeyInfoRef;

/// Algorithms of keys, and curves of elliptic ones. Source: RFC 5480, RFC 8017, RFC 8410.
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EDWARDS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// How large an RSA key is at least and at most, in bytes of its modulus.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// A public key, and how it verifies.
#[derive(Clone)]
pub struct VerifyingKey {
    algorithm: &'static dyn VerificationAlgorithm,
    /// As `algorithm` takes it.
    key: Vec<u8>,
    /// The whole key as DER.
    der: Vec<u8>,
}

/// Why bytes are no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("it is no PEM")]
    Pem,
    /// PEM of this kind.
    #[error("it is PEM of {0:?}, and no public key")]
    Kind(String),
    #[error("it holds more than one key")]
    Several,
    #[error("it is no public key: {0}")]
    Der(String),
    /// An algorithm, by its number.
    #[error("keys of algorithm {0} are not verified: take ECDSA P-256 or P-384, RSA or Ed25519")]
    Algorithm(String),
    #[error("RSA keys have 2048 to 8192 bits")]
    RsaSize,
}

impl VerifyingKey {
    /// Reads one key.
    ///
    /// Shape: PEM, `PUBLIC KEY`.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn of_pem(bytes: &[u8]) -> Result<Self, KeyError> {
        let blocks = pem::parse_many(bytes).map_err(|_| KeyError::Pem)?;
        match blocks.as_slice() {
            [] => Err(KeyError::Pem),
            [block] if block.tag() != "PUBLIC KEY" => Err(KeyError::Kind(block.tag().to_owned())),
            [block] => Self::of_der(block.contents()),
            _ => Err(KeyError::Several),
        }
    }

    /// Reads one key.
    ///
    /// Shape: `SubjectPublicKeyInfo` as DER.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn of_der(der: &[u8]) -> Result<Self, KeyError> {
        let wrong = |error: der::Error| KeyError::Der(error.to_string());
        let info = SubjectPublicKeyInfoRef::try_from(der)
            .map_err(|error| KeyError::Der(error.to_string()))?;
        let key = info.subject_public_key.raw_bytes();
        let algorithm: &'static dyn VerificationAlgorithm = match info.algorithm.oid {
            EC => {
                let curve = info.algorithm.parameters.as_ref();
                let curve = curve.map(|curve| curve.decode_as::<ObjectIdentifier>());
                match curve.transpose().map_err(wrong)? {
                    Some(P256) => &ECDSA_P256_SHA256_ASN1,
                    Some(P384) => &ECDSA_P384_SHA256_ASN1,
                    Some(other) => return Err(KeyError::Algorithm(other.to_string())),
                    None => return Err(KeyError::Algorithm(EC.to_string())),
                }
            }
            RSA => {
                let parts = pkcs1::RsaPublicKey::try_from(key)
                    .map_err(|error| KeyError::Der(error.to_string()))?;
                if !RSA_BYTES.contains(&parts.modulus.as_bytes().len()) {
                    return Err(KeyError::RsaSize);
                }
                &RSA_PKCS1_2048_8192_SHA256
            }
            EDWARDS => &ED25519,
            other => return Err(KeyError::Algorithm(other.to_string())),
        };
        Ok(Self {
            algorithm,
            key: key.to_vec(),
            der: der.to_vec(),
        })
    }

    /// Whether it has signed a message.
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(self.algorithm, &self.key);
        key.verify(message, signature).is_ok()
    }

    /// The key as DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// What people tell it by: SHA-256 of its DER, in hexadecimal.
    pub fn fingerprint(&self) -> String {
        release::ImageDigest::of(&self.der).hex().to_owned()
    }
}

impl std::fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VerifyingKey({})", self.fingerprint())
    }
}
