//! Public keys, and whether one of them signed a message.

use std::io::Read as _;

use jiff::Timestamp;
use pgp::composed::{Message, PublicOrSecret, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType};
use pgp::types::{KeyDetails as _, Tag, VerifyingKey};

/// Largest statement that is read. One is some hundred bytes.
const CONTENT_MAX_BYTES: u64 = 64 << 10;

/// Compressed packets within each other that are opened.
const NESTING_MAX: usize = 3;

/// Public keys under one name.
#[derive(Clone, Debug)]
pub struct Keyring {
    name: String,
    keys: Vec<SignedPublicKey>,
}

/// A message that a key of a ring signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// What was signed.
    pub content: Vec<u8>,
    /// Fingerprint of the key, in hexadecimal.
    pub fingerprint: String,
}

/// What may be wrong with a keyring or a message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are no keys.
    #[error("keyring {name} holds no OpenPGP keys")]
    Keys {
        /// Name of the ring.
        name: String,
        /// What is wrong with it.
        #[source]
        source: Box<pgp::errors::Error>,
    },
    /// There is no key.
    #[error("keyring {0} is empty")]
    Empty(String),
    /// The bytes are no signed message.
    #[error("it is no OpenPGP signed message")]
    Message(#[source] Box<pgp::errors::Error>),
    /// The message cannot be read to its end.
    #[error("it cannot be read to its end")]
    Read(#[source] std::io::Error),
    /// The content is larger than any statement.
    #[error("its content is larger than {CONTENT_MAX_BYTES} bytes")]
    TooLarge,
    /// No key of the ring signed it.
    #[error("no key of keyring {0} signed it")]
    Foreign(String),
    /// A key of the ring signed it, and that signature does not count.
    #[error("key {fingerprint} signed it, and {why}")]
    Refused {
        /// The key, in hexadecimal.
        fingerprint: String,
        /// Why it does not count.
        why: &'static str,
    },
}

impl Keyring {
    /// Reads public keys, armoured or binary. Secret keys count by their public part.
    ///
    /// # Errors
    /// [`Error::Keys`], [`Error::Empty`].
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |source| Error::Keys {
            name: name.to_owned(),
            source: Box::new(source),
        };
        let (keys, _) = PublicOrSecret::from_reader_many_buf(bytes).map_err(wrong)?;
        let keys: Vec<SignedPublicKey> = keys
            .map(|key| {
                key.map(|key| match key {
                    PublicOrSecret::Public(key) => key,
                    PublicOrSecret::Secret(key) => key.to_public_key(),
                })
            })
            .collect::<Result<_, _>>()
            .map_err(wrong)?;
        if keys.is_empty() {
            return Err(Error::Empty(name.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            keys,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads a signed message that a key of this ring signed, as of `now`.
    ///
    /// A key counts unless it is revoked or had expired when it signed; its own certificates, or
    /// those of its primary key, say so. A signature counts until its lifetime is over. SHA-1 and
    /// older hashes do not count.
    ///
    /// # Errors
    /// [`Error`]: all but [`Error::Keys`] and [`Error::Empty`].
    pub fn open(&self, message: &[u8], now: Timestamp) -> Result<Signed, Error> {
        let wrong = |source| Error::Message(Box::new(source));
        let mut message = Message::from_bytes(message).map_err(wrong)?;
        for _ in 0..NESTING_MAX {
            if message.is_compressed() {
                message = message.decompress().map_err(wrong)?;
            }
        }
        let mut content = Vec::new();
        let taken = (&mut message).take(CONTENT_MAX_BYTES + 1);
        let mut taken = taken;
        taken.read_to_end(&mut content).map_err(Error::Read)?;
        if content.len() as u64 > CONTENT_MAX_BYTES {
            return Err(Error::TooLarge);
        }
        let mut refused = None;
        for key in self.keys.iter().flat_map(signing_keys) {
            let Some(signature) = key.signature(&message) else {
                continue;
            };
            match key.refusal(signature, now) {
                None => {
                    return Ok(Signed {
                        content,
                        fingerprint: key.fingerprint,
                    });
                }
                Some(why) => {
                    refused = Some(Error::Refused {
                        fingerprint: key.fingerprint,
                        why,
                    });
                }
            }
        }
        Err(refused.unwrap_or_else(|| Error::Foreign(self.name.clone())))
    }
}

/// A key that may sign: a primary key or a subkey.
struct SigningKey<'a> {
    key: Key<'a>,
    fingerprint: String,
    is_revoked: bool,
    /// When it stops to count, in seconds since 1970, if ever.
    expires_secs: Option<u64>,
}

enum Key<'a> {
    Primary(&'a SignedPublicKey),
    Subkey(&'a SignedPublicSubKey),
}

impl SigningKey<'_> {
    /// The signature of this key on a message that was read; none where it is another's.
    fn signature<'m>(&self, message: &'m Message<'_>) -> Option<&'m Signature> {
        let Message::Signed { reader, .. } = message else {
            return None;
        };
        let key: &dyn VerifyingKey = match &self.key {
            Key::Primary(key) => *key,
            Key::Subkey(key) => *key,
        };
        (0..reader.num_signatures())
            .find_map(|number| message.verify_nested_explicit(number, key).ok())
    }

    /// Why a signature of this key does not count.
    fn refusal(&self, signature: &Signature, now: Timestamp) -> Option<&'static str> {
        let created = signature.created().map(|time| u64::from(time.as_secs()));
        let now_secs = u64::try_from(now.as_second()).unwrap_or_default();
        let Some(created_secs) = created else {
            return Some("it does not say when");
        };
        let ends_secs = signature
            .signature_expiration_time()
            .map(|life| created_secs + u64::from(life.as_secs()))
            .filter(|ends| *ends != created_secs);
        let is_of_data = matches!(
            signature.typ(),
            Some(SignatureType::Binary | SignatureType::Text)
        );
        let is_weak = matches!(
            signature.hash_alg(),
            None | Some(HashAlgorithm::Md5 | HashAlgorithm::Sha1 | HashAlgorithm::Ripemd160)
        );
        if self.is_revoked {
            Some("the key is revoked")
        } else if self.expires_secs.is_some_and(|ends| ends <= created_secs) {
            Some("the key had expired by then")
        } else if ends_secs.is_some_and(|ends| ends <= now_secs) {
            Some("the signature's lifetime is over")
        } else if !is_of_data {
            Some("the signature is not one of data")
        } else if is_weak {
            Some("its hash is broken")
        } else {
            None
        }
    }
}

/// The keys of a certificate that may sign data.
fn signing_keys(key: &SignedPublicKey) -> impl Iterator<Item = SigningKey<'_>> {
    let primary = &key.primary_key;
    let own: Vec<&Signature> = certifications(key).collect();
    let newest = newest(own.iter().copied());
    let revocations = &key.details.revocation_signatures;
    let is_revoked = revocations.iter().any(|it| it.verify_key(primary).is_ok());
    let expires_secs = newest.and_then(|it| expiry_secs(primary.created_at(), it));
    // Without flags a primary key may do all; without a certificate of its own nothing is known of
    // it.
    let may_sign = newest.is_some_and(|it| it.key_flags().sign() || !has_flags(it));
    let of_primary = may_sign.then(|| SigningKey {
        key: Key::Primary(key),
        fingerprint: primary.fingerprint().to_string(),
        is_revoked,
        expires_secs,
    });
    let subkeys = key.public_subkeys.iter().filter_map(move |subkey| {
        let bindings = subkey.signatures.iter().filter(|it| {
            it.typ() == Some(SignatureType::SubkeyBinding)
                && it.verify_subkey_binding(primary, &subkey.key).is_ok()
        });
        let binding = self::newest(bindings)?;
        // A key that others made must not become a subkey of this one: it says itself whose it is.
        let back = binding.embedded_signature()?;
        let is_bound = binding.key_flags().sign()
            && back
                .verify_primary_key_binding(&subkey.key, primary)
                .is_ok();
        let revocations = subkey.signatures.iter().filter(|it| {
            it.typ() == Some(SignatureType::SubkeyRevocation)
                && it.verify_subkey_binding(primary, &subkey.key).is_ok()
        });
        let own_expiry = expiry_secs(subkey.key.created_at(), binding);
        is_bound.then(|| SigningKey {
            fingerprint: subkey.key.fingerprint().to_string(),
            is_revoked: is_revoked || revocations.count() > 0,
            expires_secs: [own_expiry, expires_secs].into_iter().flatten().min(),
            key: Key::Subkey(subkey),
        })
    });
    of_primary.into_iter().chain(subkeys)
}

/// What a primary key says of itself: valid certificates of its users, and of the key alone.
fn certifications(key: &SignedPublicKey) -> impl Iterator<Item = &Signature> {
    let primary = &key.primary_key;
    let of_users = key.details.users.iter().flat_map(move |user| {
        let valid = move |it: &&Signature| {
            it.is_certification()
                && it
                    .verify_certification(primary, Tag::UserId, &user.id)
                    .is_ok()
        };
        user.signatures.iter().filter(valid)
    });
    let direct = key.details.direct_signatures.iter();
    of_users.chain(direct.filter(move |it| it.verify_key(primary).is_ok()))
}

fn newest<'a>(signatures: impl Iterator<Item = &'a Signature>) -> Option<&'a Signature> {
    signatures.max_by_key(|it| it.created().map(pgp::types::Timestamp::as_secs))
}

fn has_flags(signature: &Signature) -> bool {
    let flags = signature.key_flags();
    flags.certify() || flags.sign() || flags.encrypt_comms() || flags.authentication()
}

fn expiry_secs(created: pgp::types::Timestamp, signature: &Signature) -> Option<u64> {
    let life = u64::from(signature.key_expiration_time()?.as_secs());
    (life > 0).then(|| u64::from(created.as_secs()) + life)
}

#[cfg(test)]
mod tests;
