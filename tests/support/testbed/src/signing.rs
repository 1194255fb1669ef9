//! Keys that sign releases, and the server of their signatures.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use jiff::{SignedDuration, Timestamp};
use pgp::armor::{self, BlockType};
use pgp::composed::{
    ArmorOptions, Deserializable as _, KeyType, SecretKeyParamsBuilder, SignedPublicKey,
    SignedSecretKey,
};
use pgp::packet::{KeyFlags, SignatureConfig, SignatureType, Subpacket, SubpacketData};
use pgp::types::{Duration, KeyDetails as _, Password, Tag};
use rand::rngs::OsRng;
use release::ImageDigest;
use release::claim::Claim;
use serde_json::Value;
use signatures::Signer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Bits of a key: the fewest that are in use, as each more takes time.
const RSA_BITS: u32 = 2048;

/// Seconds that a key is good for.
const LIFE_SECS: u32 = 24 * 60 * 60;

/// A key that was made for one run, good for a day.
pub struct ReleaseKey {
    signer: Signer,
    /// Its public part, armoured.
    pub public: Vec<u8>,
}

impl std::fmt::Debug for ReleaseKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReleaseKey").finish_non_exhaustive()
    }
}

impl ReleaseKey {
    /// Another one, of a kind that OpenShift's clients read: they know no curve of Edwards.
    pub fn make() -> Result<Self> {
        Self::made_at(Timestamp::now())
    }

    /// One that expired a day ago.
    pub fn expired() -> Result<Self> {
        let life = SignedDuration::from_secs(i64::from(LIFE_SECS));
        Self::made_at(Timestamp::now() - life - life)
    }

    fn made_at(time: Timestamp) -> Result<Self> {
        let mut key = SecretKeyParamsBuilder::default();
        key.key_type(KeyType::Rsa(RSA_BITS))
            .can_certify(true)
            .can_sign(true)
            .created_at(SystemTime::from(time).try_into()?)
            .primary_user_id("releases of a test".to_owned());
        let mut key = key.build()?.generate(OsRng)?;
        limit(&mut key)?;
        let secret = key.to_armored_bytes(ArmorOptions::default())?;
        Ok(Self {
            signer: Signer::parse(&secret, "")?,
            public: key
                .to_public_key()
                .to_armored_bytes(ArmorOptions::default())?,
        })
    }

    /// A signature that says this digest.
    pub fn sign(&self, digest: &ImageDigest) -> Result<Vec<u8>> {
        let claim = Claim {
            digest: digest.clone(),
            reference: "registry.example/release:1".to_owned(),
            creator: None,
            timestamp_secs: None,
        };
        Ok(self.signer.sign(&claim, Timestamp::now())?)
    }
}

/// The public parts of these keys as one keyring, armoured: either may have signed.
pub fn keyring(keys: &[&ReleaseKey]) -> Result<Vec<u8>> {
    let keys = keys.iter();
    let keys = keys.map(|key| SignedPublicKey::from_armor_single(key.public.as_slice()));
    let keys: Vec<_> = keys.map(|key| Ok(key?.0)).collect::<Result<_>>()?;
    let mut ring = Vec::new();
    armor::write(
        &keys.as_slice(),
        BlockType::PublicKey,
        &mut ring,
        None,
        true,
    )?;
    Ok(ring)
}

/// Has a key say of itself that it expires.
fn limit(key: &mut SignedSecretKey) -> Result<()> {
    let mut flags = KeyFlags::default();
    flags.set_certify(true);
    flags.set_sign(true);
    let mut config =
        SignatureConfig::from_key(OsRng, &key.primary_key, SignatureType::CertPositive)?;
    let life = Duration::from_secs(LIFE_SECS);
    config.hashed_subpackets = [
        SubpacketData::SignatureCreationTime(key.primary_key.created_at()),
        SubpacketData::IssuerFingerprint(key.primary_key.fingerprint()),
        SubpacketData::KeyFlags(flags),
        SubpacketData::KeyExpirationTime(life),
    ]
    .into_iter()
    .map(Subpacket::regular)
    .collect::<Result<_, _>>()?;
    // By this one, and no fingerprint, OpenShift's clients find whose certificate it is.
    let issuer = SubpacketData::IssuerKeyId(key.primary_key.legacy_key_id());
    config.unhashed_subpackets = vec![Subpacket::regular(issuer)?];
    let user = key.details.users.first_mut().context("a user")?;
    let certificate = config.sign_certification(
        &key.primary_key,
        key.primary_key.public_key(),
        &Password::empty(),
        Tag::UserId,
        &user.id,
    )?;
    // It takes the place of the one that says nothing of an end.
    user.signatures = vec![certificate];
    Ok(())
}

/// A server of signatures, over HTTP.
#[derive(Clone, Debug)]
pub struct SignatureServer {
    /// Where clusters look for signatures.
    pub address: String,
    files: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl SignatureServer {
    /// One for this machine.
    pub async fn start() -> Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST.into()).await
    }

    /// One that listens at this address.
    pub async fn start_at(address: IpAddr) -> Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let this = Self {
            address: format!("http://{}/signatures", listener.local_addr()?),
            files: Arc::default(),
        };
        let server = this.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    let mut request = vec![0; 4096];
                    let count = stream.read(&mut request).await.unwrap_or_default();
                    request.truncate(count);
                    let response = server.respond(&String::from_utf8_lossy(&request));
                    // A client that is gone sends its request again.
                    drop(stream.write_all(&response).await);
                });
            }
        });
        Ok(this)
    }

    fn respond(&self, request: &str) -> Vec<u8> {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let body = self.files().get(path).cloned();
        let status = match body {
            Some(_) => "200 OK",
            None => "404 Not Found",
        };
        let body = body.unwrap_or_default();
        let length = body.len();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        [head.into_bytes(), body].concat()
    }

    fn files(&self) -> MutexGuard<'_, HashMap<String, Vec<u8>>> {
        // Each write is whole.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a document at a path; none: not any more.
    pub fn serve(&self, path: &str, body: Option<&Value>) {
        let mut files = self.files();
        match body {
            Some(body) => drop(files.insert(path.to_owned(), body.to_string().into_bytes())),
            None => drop(files.remove(path)),
        }
    }

    /// Address of a path.
    pub fn at(&self, path: &str) -> String {
        self.address.replace("/signatures", path)
    }

    /// Serves a signature of an image.
    pub fn put(&self, digest: &ImageDigest, signature: Vec<u8>) {
        let path = format!("/signatures/sha256={}/signature-1", digest.hex());
        self.files().insert(path, signature);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use pgp::crypto::public_key::PublicKeyAlgorithm;

    use super::*;

    #[test]
    fn a_key_is_one_that_openshifts_clients_read() {
        let begun = Instant::now();
        let key = ReleaseKey::make().unwrap();
        println!("made in {:.1} s", begun.elapsed().as_secs_f64());
        let (public, _) = SignedPublicKey::from_armor_single(key.public.as_slice()).unwrap();
        assert_eq!(public.algorithm(), PublicKeyAlgorithm::RSA);
        let certificate = &public.details.users[0].signatures[0];
        assert_eq!(certificate.issuer_key_id(), [&public.legacy_key_id()]);
    }
}
