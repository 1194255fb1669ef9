//! A secret key, and the messages that it signs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pgp::composed::{
    ArmorOptions, DetachedSignature, MessageBuilder, PublicOrSecret, SignedSecretKey,
    SubpacketConfig,
};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Subpacket, SubpacketData};
use pgp::types::{KeyDetails as _, Password, SigningKey};
use rand::rngs::OsRng;
use release::claim::{Claim, ClaimForm};

/// A secret key that signs.
pub struct Signer {
    key: SignedSecretKey,
    passphrase: String,
}

/// What is signed.
enum Content<'a> {
    /// A message holds it, and the signature with it.
    Claim(&'a Claim),
    /// The signature stands apart, armoured.
    File(&'a [u8]),
}

/// Why a key does not sign.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are no secret key.
    #[error("it is no OpenPGP secret key")]
    Key(#[source] Box<pgp::errors::Error>),
    /// There is no key.
    #[error("it holds no key")]
    Empty,
    /// It is a public key.
    #[error("it is a public key, and no secret one")]
    Public,
    /// There are several keys.
    #[error("it holds several keys: keep the one that signs")]
    Several,
    /// The library cannot sign: a wrong passphrase, most often.
    #[error("the key does not sign; is the passphrase right?")]
    Sign(#[source] Box<pgp::errors::Error>),
    /// The time is not one that a signature can have.
    #[error("{0} is no time of a signature")]
    Time(Timestamp),
}

impl Signer {
    /// Reads one secret key, armoured or binary, as `gpg --export-secret-keys` writes it. The
    /// passphrase is empty for a key without one.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::Empty`], [`Error::Public`], [`Error::Several`].
    pub fn parse(bytes: &[u8], passphrase: &str) -> Result<Self, Error> {
        let wrong = |source| Error::Key(Box::new(source));
        let (mut keys, _) = PublicOrSecret::from_reader_many_buf(bytes).map_err(wrong)?;
        let first = keys.next().ok_or(Error::Empty)?;
        let key = match first.map_err(wrong)? {
            PublicOrSecret::Secret(key) => key,
            PublicOrSecret::Public(_) => return Err(Error::Public),
        };
        if keys.next().is_some() {
            return Err(Error::Several);
        }
        Ok(Self {
            key,
            passphrase: passphrase.to_owned(),
        })
    }

    /// Signs a claim, as of `now`: a binary OpenPGP signed message.
    ///
    /// The newest subkey that may sign does it, or the primary key where there is none.
    ///
    /// # Errors
    /// [`Error::Sign`], [`Error::Time`].
    pub fn sign(&self, claim: &Claim, now: Timestamp) -> Result<Vec<u8>, Error> {
        self.sign_content(&Content::Claim(claim), now)
    }

    /// Signs a file's bytes, as of `now`: an armoured signature that stands apart, for
    /// `gpg --verify`. By the same key as [`Self::sign`].
    ///
    /// # Errors
    /// The same.
    pub fn sign_file(&self, bytes: &[u8], now: Timestamp) -> Result<Vec<u8>, Error> {
        self.sign_content(&Content::File(bytes), now)
    }

    fn sign_content(&self, content: &Content<'_>, now: Timestamp) -> Result<Vec<u8>, Error> {
        let subkeys = self.key.secret_subkeys.iter().filter(|subkey| {
            let mut signatures = subkey.signatures.iter();
            signatures.any(|signature| signature.key_flags().sign())
        });
        let newest = subkeys.max_by_key(|subkey| subkey.key.created_at().as_secs());
        match newest {
            Some(subkey) => self.sign_by(&subkey.key, content, now),
            None => self.sign_by(&self.key.primary_key, content, now),
        }
    }

    fn sign_by(
        &self,
        key: &impl SigningKey,
        content: &Content<'_>,
        now: Timestamp,
    ) -> Result<Vec<u8>, Error> {
        let failed = |source| Error::Sign(Box::new(source));
        let secs = u32::try_from(now.as_second()).map_err(|_| Error::Time(now))?;
        let created = pgp::types::Timestamp::from_secs(secs);
        let subpacket = |data| Subpacket::regular(data).map_err(failed);
        let subpackets = SubpacketConfig::UserDefined {
            hashed: vec![
                subpacket(SubpacketData::IssuerFingerprint(key.fingerprint()))?,
                subpacket(SubpacketData::SignatureCreationTime(created))?,
            ],
            unhashed: vec![subpacket(SubpacketData::IssuerKeyId(key.legacy_key_id()))?],
        };
        let password = Password::from(self.passphrase.as_str());
        let hash = HashAlgorithm::Sha256;
        match content {
            Content::Claim(claim) => {
                let mut message = MessageBuilder::from_bytes("", claim.print(ClaimForm::OpenPgp));
                message.sign_with_subpackets(key, password, hash, subpackets);
                message.to_vec(OsRng).map_err(failed)
            }
            Content::File(bytes) => DetachedSignature::sign_binary_data_with_subpackets(
                OsRng, key, &password, hash, *bytes, subpackets,
            )
            .and_then(|signature| signature.to_armored_bytes(ArmorOptions::default()))
            .map_err(failed),
        }
    }

    /// Fingerprint of the primary key, in hexadecimal.
    pub fn fingerprint(&self) -> String {
        self.key.primary_key.fingerprint().to_string()
    }

    /// The public part, armoured: what a cluster is given to verify by.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn public_key(&self) -> Result<String, Error> {
        let headers = BTreeMap::new();
        let options = ArmorOptions {
            headers: Some(&headers),
            ..ArmorOptions::default()
        };
        let key = self.key.to_public_key();
        key.to_armored_string(options)
            .map_err(|source| Error::Key(Box::new(source)))
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Signer").field(&self.fingerprint()).finish()
    }
}
