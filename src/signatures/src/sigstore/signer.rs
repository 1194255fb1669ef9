//! A secret key, as cosign keeps it: encrypted by a password.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use crypto_secretbox::{Key, Nonce, XSalsa20Poly1305};
use release::claim::{Claim, ClaimForm};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde::Deserialize;
use x509_cert::der::Encode as _;
use x509_cert::der::asn1::{AnyRef, BitStringRef, ObjectIdentifier};
use x509_cert::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};

use super::attached::{AttachedSignature, decode};
use super::key::VerifyingKey;

/// Kinds of PEM that hold such a key: by cosign since 2.0, and before.
const KINDS: [&str; 2] = [
    "ENCRYPTED SIGSTORE PRIVATE KEY",
    "ENCRYPTED COSIGN PRIVATE KEY",
];

/// Most memory that the password's hash may take: cosign's takes 64 MiB.
const HASH_BYTES_MAX: u64 = 256 << 20;

const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");

/// A secret key that signs: ECDSA P-256.
pub struct SigstoreSigner {
    pair: EcdsaKeyPair,
    public: Vec<u8>,
}

/// Why a key does not sign.
#[derive(Debug, thiserror::Error)]
pub enum SecretKeyError {
    #[error("it is no PEM")]
    Pem,
    /// PEM of this kind.
    #[error("it is PEM of {0:?}, and no ENCRYPTED SIGSTORE PRIVATE KEY, as cosign keeps it")]
    Kind(String),
    #[error("what it holds is no encrypted key")]
    Form(#[source] serde_json::Error),
    /// A member has another value than cosign writes.
    #[error("{0} {1:?} is not read")]
    Algorithm(&'static str, String),
    /// A member is out of bounds, or no Base64.
    #[error("member {0} cannot be used")]
    Member(&'static str),
    #[error("the password is wrong, or the key is damaged")]
    Password,
    #[error("it is no ECDSA key on curve P-256")]
    Curve,
    #[error("there is no randomness")]
    Random,
}

/// Source: `go-securesystemslib`, `encrypted`.
#[derive(Deserialize)]
struct Encrypted {
    kdf: Derivation,
    cipher: Cipher,
    ciphertext: String,
}

#[derive(Deserialize)]
struct Derivation {
    name: String,
    params: Parameters,
    salt: String,
}

#[derive(Deserialize)]
struct Parameters {
    #[serde(rename = "N")]
    cost: u64,
    r: u32,
    p: u32,
}

#[derive(Deserialize)]
struct Cipher {
    name: String,
    nonce: String,
}

impl SigstoreSigner {
    /// Reads a key.
    ///
    /// Shape: PEM, `ENCRYPTED SIGSTORE PRIVATE KEY`, as `cosign generate-key-pair` and
    /// `skopeo generate-sigstore-key` write it.
    ///
    /// # Errors
    /// [`SecretKeyError`].
    pub fn parse(bytes: &[u8], password: &str) -> Result<Self, SecretKeyError> {
        let block = pem::parse(bytes).map_err(|_| SecretKeyError::Pem)?;
        if !KINDS.contains(&block.tag()) {
            return Err(SecretKeyError::Kind(block.tag().to_owned()));
        }
        let key: Encrypted =
            serde_json::from_slice(block.contents()).map_err(SecretKeyError::Form)?;
        Self::of_pkcs8(&key.decrypt(password)?)
    }

    /// From a key that is not encrypted.
    pub(super) fn of_pkcs8(key: &[u8]) -> Result<Self, SecretKeyError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key, &random)
            .map_err(|_| SecretKeyError::Curve)?;
        let info = SubjectPublicKeyInfoRef {
            algorithm: AlgorithmIdentifierRef {
                oid: EC,
                parameters: Some(AnyRef::from(&P256)),
            },
            subject_public_key: BitStringRef::from_bytes(pair.public_key().as_ref())
                .map_err(|_| SecretKeyError::Curve)?,
        };
        let public = info.to_der().map_err(|_| SecretKeyError::Curve)?;
        Ok(Self { pair, public })
    }

    /// Signs a claim.
    ///
    /// # Errors
    /// [`SecretKeyError::Random`].
    pub fn sign(&self, claim: &Claim) -> Result<AttachedSignature, SecretKeyError> {
        let payload = claim.print(ClaimForm::Sigstore);
        let signature = self.sign_bytes(&payload)?;
        Ok(AttachedSignature {
            payload,
            signature: BASE64_STANDARD.encode(signature),
            ..AttachedSignature::default()
        })
    }

    pub(super) fn sign_bytes(&self, bytes: &[u8]) -> Result<Vec<u8>, SecretKeyError> {
        let signature = self.pair.sign(&SystemRandom::new(), bytes);
        let signature = signature.map_err(|_| SecretKeyError::Random)?;
        Ok(signature.as_ref().to_vec())
    }

    /// Whether this key has made a signature.
    pub fn has_made(&self, attached: &AttachedSignature) -> bool {
        let signature = decode(&attached.signature);
        let key = VerifyingKey::of_der(&self.public);
        match (key, signature) {
            (Ok(key), Ok(signature)) => key.has_signed(&attached.payload, &signature),
            _ => false,
        }
    }

    /// What people tell its public key by.
    pub fn fingerprint(&self) -> String {
        release::ImageDigest::of(&self.public).hex().to_owned()
    }

    /// The public key, as PEM.
    pub fn public_key(&self) -> String {
        let line_ending = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        let block = pem::Pem::new("PUBLIC KEY", self.public.clone());
        pem::encode_config(&block, line_ending)
    }
}

impl std::fmt::Debug for SigstoreSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigstoreSigner").finish_non_exhaustive()
    }
}

impl Encrypted {
    fn decrypt(&self, password: &str) -> Result<Vec<u8>, SecretKeyError> {
        let unread = |member, name: &str| SecretKeyError::Algorithm(member, name.to_owned());
        if self.kdf.name != "scrypt" {
            return Err(unread("kdf.name", &self.kdf.name));
        }
        if self.cipher.name != "nacl/secretbox" {
            return Err(unread("cipher.name", &self.cipher.name));
        }
        let bytes = |member, text: &str| {
            let bytes = BASE64_STANDARD.decode(text);
            bytes.map_err(|_| SecretKeyError::Member(member))
        };
        let salt = bytes("kdf.salt", &self.kdf.salt)?;
        let nonce = bytes("cipher.nonce", &self.cipher.nonce)?;
        let nonce: [u8; 24] = nonce
            .try_into()
            .map_err(|_| SecretKeyError::Member("cipher.nonce"))?;
        let ciphertext = bytes("ciphertext", &self.ciphertext)?;
        let mut key = [0; 32];
        scrypt::scrypt(
            password.as_bytes(),
            &salt,
            &self.kdf.params.checked()?,
            &mut key,
        )
        .map_err(|_| SecretKeyError::Member("kdf.params"))?;
        let cipher = XSalsa20Poly1305::new(&Key::from(key));
        let opened = cipher.decrypt(&Nonce::from(nonce), ciphertext.as_slice());
        opened.map_err(|_| SecretKeyError::Password)
    }
}

impl Parameters {
    /// Bounded: a key file may come from a stranger.
    fn checked(&self) -> Result<scrypt::Params, SecretKeyError> {
        let wrong = || SecretKeyError::Member("kdf.params");
        let memory = u64::from(self.r).checked_mul(128);
        let memory = memory.and_then(|block| block.checked_mul(self.cost));
        let is_bounded = memory.is_some_and(|bytes| bytes <= HASH_BYTES_MAX) && self.p <= 16;
        if !is_bounded || !self.cost.is_power_of_two() {
            return Err(wrong());
        }
        let log = u8::try_from(self.cost.trailing_zeros()).map_err(|_| wrong())?;
        scrypt::Params::new(log, self.r, self.p, 32).map_err(|_| wrong())
    }
}
