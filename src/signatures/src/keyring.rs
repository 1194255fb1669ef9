//! Public keys, and whether one of them signed a message.
//!
//! - `clients`: which keys OpenShift's own clients can read
//! - `signing_key`: the keys of a certificate that may sign data, and whether a signature counts

mod clients;
mod signing_key;

use std::io::Read as _;

use jiff::Timestamp;
use pgp::composed::{Message, PublicOrSecret, SignedPublicKey};

use self::signing_key::signing_keys;

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

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads a signed message that a key of this ring signed, as of `now`.
    ///
    /// A key counts unless it is revoked, is shorter than 2048 bits (RSA, DSA), or had expired when
    /// it signed; its own certificates in force, or those of its primary key, say so. A signature
    /// counts from its time until its lifetime is over. SHA-1 and older hashes do not count.
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
        let keys = self.keys.iter();
        for key in keys.flat_map(|key| signing_keys(key, &self.keys, now)) {
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

#[cfg(test)]
mod tests;
