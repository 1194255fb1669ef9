//! Whether a release is signed by those whom the running release trusts.

use std::path::Path;
use std::time::Duration;

use api::config::{ClusterVersion, cluster_version};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chassis::report::Chain;
use cluster::access::Access;
use cluster::objects::Objects;
use cluster::{path, wire};
use futures::future::join_all;
use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use release::verification::SignatureTrust;
use release::{ImageDigest, digest};
use serde_json::Value;
use signatures::sigstore::demanding;
use signatures::verify::{Unverified, verify};
use signatures::{Keyring, keyring, store};
use version_update::signature_cache;
use web::{WebClient, WebRequest};

use crate::node_registries::{NodeRegistries, NodeRegistriesError};
use crate::outbound;
use crate::payload::{ReleaseTrust, TrustError};
use crate::retrieval::RetrievalSettings;
use version_update::builder::ClusterProxy;

/// Namespace of the `ConfigMap`s with signatures.
const NAMESPACE: &str = "openshift-config-managed";

const LABEL: &str = "release.openshift.io/verification-signatures";

/// The one of them that keeps what was read from stores.
const CACHE: &str = "signatures-managed";

/// The highest number of a signature that is requested.
const LAST: u32 = 9;

/// Largest signature that is read.
const MAX_BYTES: usize = 50 << 10;

/// How long one request to a store may take.
const REQUEST: Duration = Duration::from_secs(30);

/// Where signatures are looked for, and by whom.
#[derive(Debug)]
pub struct Verifier<'a> {
    pub access: &'a Access,
    pub proxy: &'a ClusterProxy,
    /// The cluster's authorities, as PEM.
    pub bundle: Option<&'a str>,
    /// Keys, stores and policies of the running release.
    pub trust: &'a ReleaseTrust,
    /// How images are pulled.
    pub retrieval: &'a RetrievalSettings,
    /// The time, by which keys and signatures may have expired.
    pub now: Timestamp,
}

/// Why an image is not verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The running release does not say how.
    #[error(transparent)]
    Trust(TrustError),
    #[error("it was not verified within {} s", .0.as_secs())]
    Await(Duration),
    /// It is not named by digest.
    #[error("release images that are not accessed via digest cannot be verified")]
    FindDigest,
    #[error(transparent)]
    ParseDigest(digest::Error),
    /// Nothing of the running release is about the image.
    #[error(
        "the running release has no ConfigMap with annotation {}, and none of its policies is about \
         {image}: {}", release::verification::ANNOTATION, policies.join(", ")
    )]
    FindPolicy {
        image: String,
        /// The policies that there are.
        policies: Vec<String>,
    },
    /// Signatures beside the image do not suffice, or are not known.
    #[error(transparent)]
    Beside(NodeRegistriesError),
    /// A keyring cannot be read.
    #[error("{0}")]
    ParseKeyring(String, #[source] keyring::Error),
    /// The ClusterVersion cannot be read for its stores.
    #[error(transparent)]
    ReadStores(wire::Error),
    /// The ClusterVersion has an empty list of stores.
    #[error("spec.signatureStores is empty, and no store is asked")]
    FindStores,
    /// All places were read, and the signatures do not suffice: the image is refused.
    #[error("{}", [&[why.to_string()], why.reasons.as_slice(), notes].concat().join("; "))]
    Refused {
        /// By which keyrings.
        why: Unverified,
        notes: Vec<String>,
    },
}

/// Why a store cannot be read.
#[derive(Debug, thiserror::Error)]
enum StoreError {
    /// Its authority cannot be read.
    #[error(transparent)]
    ReadAuthority(wire::Error),
    /// Its authority is not there.
    #[error("ConfigMap openshift-config/{0} has no key ca-bundle.crt")]
    FindAuthority(String),
    /// There is no client for it.
    #[error(transparent)]
    MakeClient(web::Error),
}

/// A store, and the name of a ConfigMap with its authorities.
struct Place {
    address: String,
    authority: Option<String>,
}

impl Verifier<'_> {
    /// Verifies an image that is named by digest.
    ///
    /// # Errors
    /// [`VerifyError`], but for its first two.
    pub async fn verify(&self, image: &str) -> Result<(), VerifyError> {
        let digest = digest_of(image)?;
        let policies = demanding(&self.trust.policies, image);
        match &self.trust.openpgp {
            Some(trust) => self.verify_openpgp(&digest, trust).await?,
            None if policies.is_empty() => {
                let policies = self.trust.policies.iter();
                return Err(VerifyError::FindPolicy {
                    image: image.to_owned(),
                    policies: policies.map(|policy| policy.name().to_owned()).collect(),
                });
            }
            None => {}
        }
        if policies.is_empty() {
            return Ok(());
        }
        let (proxy, bundle) = (self.proxy, self.bundle);
        let trust = NodeRegistries::read(self.access, proxy, bundle, self.retrieval, self.now);
        let trust = trust.await.map_err(VerifyError::Beside)?;
        let verified = trust.verify((image, &digest), &policies).await;
        verified.map_err(VerifyError::Beside)
    }

    /// Holds signatures by OpenPGP against the image.
    async fn verify_openpgp(
        &self,
        digest: &ImageDigest,
        trust: &SignatureTrust,
    ) -> Result<(), VerifyError> {
        let keyrings = trust.keyrings.iter();
        let keyrings = keyrings.map(|(name, bytes)| {
            // As clients know it: by its key in the ConfigMap.
            let name = format!("verifier-public-key-{name}");
            let ring = Keyring::parse(&name, bytes);
            ring.map_err(|error| VerifyError::ParseKeyring(name, error))
        });
        let keyrings = keyrings.collect::<Result<Vec<_>, _>>()?;
        let mut notes = Vec::new();
        let mut found = match self.of_cluster(digest).await {
            Ok(found) => found,
            Err(why) => {
                notes.push(format!("ConfigMaps of {NAMESPACE}: {}", Chain(&why)));
                Vec::new()
            }
        };
        let count = found.len();
        let outcome = verify(digest, None, &keyrings, &found, self.now);
        let Err(_) = outcome else {
            return Ok(());
        };
        notes.push(format!("ConfigMaps of {NAMESPACE}: {count} signatures"));
        let places = self.places(trust).await?;
        let read = join_all(places.iter().map(|place| self.ask(place, digest))).await;
        for (place, (signatures, note)) in places.iter().zip(read) {
            let text = note.unwrap_or_else(|| format!("{} signatures", signatures.len()));
            notes.push(format!("store {}: {text}", place.address));
            found.extend(signatures);
        }
        match verify(digest, None, &keyrings, &found, self.now) {
            Ok(_) => {
                if let Err(error) = self.keep(digest, found.get(count..).unwrap_or(&[])).await {
                    tracing::warn!(error = %Chain(&error), "cannot keep signatures in ConfigMap {CACHE}");
                }
                Ok(())
            }
            Err(why) => Err(VerifyError::Refused { why, notes }),
        }
    }

    /// Stores of the ClusterVersion; else those of the running release.
    ///
    /// The field is read from the object as it is served, because not every definition has it.
    async fn places(&self, trust: &SignatureTrust) -> Result<Vec<Place>, VerifyError> {
        let path = path::object::<ClusterVersion>(cluster_version::NAME);
        let object: Value = self
            .access
            .get(&path)
            .await
            .map_err(VerifyError::ReadStores)?;
        let stores = object.pointer("/spec/signatureStores");
        let Some(stores) = stores.filter(|stores| !stores.is_null()) else {
            let stores = trust.stores.values();
            let places = stores.map(|address| Place {
                address: address.clone(),
                authority: None,
            });
            return Ok(places.collect());
        };
        let stores = stores.as_array().into_iter().flatten();
        let places = stores.filter_map(|store| {
            let text = |pointer| store.pointer(pointer).and_then(Value::as_str);
            Some(Place {
                address: text("/url")?.trim_end_matches('/').to_owned(),
                authority: text("/ca/name")
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned),
            })
        });
        let places: Vec<Place> = places.collect();
        if places.is_empty() {
            return Err(VerifyError::FindStores);
        }
        Ok(places)
    }

    /// Signatures of a store, and why there are no more.
    async fn ask(&self, place: &Place, digest: &ImageDigest) -> (Vec<Vec<u8>>, Option<String>) {
        if let Some(directory) = place.address.strip_prefix("file://") {
            return match store::read(Path::new(directory), digest) {
                Ok(signatures) => (signatures, None),
                Err(error) => (Vec::new(), Some(Chain(&error).to_string())),
            };
        }
        let client = match self.client(place.authority.as_deref()).await {
            Ok(client) => client,
            Err(why) => return (Vec::new(), Some(Chain(&why).to_string())),
        };
        let (mut signatures, mut faults) = (Vec::new(), Vec::new());
        for number in 1..=LAST {
            let hex = digest.hex();
            let url = format!("{}/sha256={hex}/signature-{number}", place.address);
            match client
                .send(&WebRequest::get(&url, REQUEST, MAX_BYTES))
                .await
            {
                Ok(response) if response.status == StatusCode::NOT_FOUND => break,
                Ok(response) if response.status.is_success() => signatures.push(response.body),
                Ok(response) => faults.push(format!("signature-{number}: {}", response.status)),
                Err(error) => {
                    faults.push(Chain(&error).to_string());
                    // The others of a server that is out of reach are, too.
                    break;
                }
            }
        }
        let note = (!faults.is_empty())
            .then(|| format!("{} signatures; {}", signatures.len(), faults.join("; ")));
        (signatures, note)
    }

    async fn client(&self, authority: Option<&str>) -> Result<WebClient, StoreError> {
        let own = match authority {
            None => None,
            Some(name) => Some(self.authority(name).await?),
        };
        let bundle = own.as_deref().or(self.bundle);
        outbound::client(self.proxy, bundle).map_err(StoreError::MakeClient)
    }

    async fn authority(&self, name: &str) -> Result<String, StoreError> {
        let path = path::namespaced::<ConfigMap>("openshift-config", name);
        let object: Value = self
            .access
            .get(&path)
            .await
            .map_err(StoreError::ReadAuthority)?;
        let bundle = object.pointer("/data/ca-bundle.crt");
        let bundle = bundle.and_then(Value::as_str).map(str::to_owned);
        bundle.ok_or_else(|| StoreError::FindAuthority(name.to_owned()))
    }

    /// Signatures in `ConfigMap`s.
    async fn of_cluster(&self, digest: &ImageDigest) -> Result<Vec<Vec<u8>>, wire::Error> {
        let label = wire::escape(LABEL);
        let maps = path::namespace::<ConfigMap>(NAMESPACE);
        let path = format!("{maps}?labelSelector={label}");
        let list: Value = self.access.get(&path).await?;
        let prefix = format!("sha256-{}", digest.hex());
        let maps = list.pointer("/items").and_then(Value::as_array);
        let entries = maps
            .into_iter()
            .flatten()
            .filter_map(|map| map.get("binaryData")?.as_object())
            .flatten()
            .filter(|(key, _)| key.starts_with(&prefix));
        let mut signatures = Vec::new();
        for (key, value) in entries {
            let bytes = BASE64_STANDARD.decode(value.as_str().unwrap_or_default());
            match bytes {
                Ok(bytes) if bytes.len() <= MAX_BYTES => signatures.push(bytes),
                Ok(_) => tracing::warn!(key, "a signature is larger than {MAX_BYTES} bytes"),
                Err(error) => tracing::warn!(key, %error, "a signature is not Base64"),
            }
        }
        Ok(signatures)
    }

    /// Keeps what was read from stores, so that the next process needs none. The oldest go.
    async fn keep(&self, digest: &ImageDigest, signatures: &[Vec<u8>]) -> Result<(), wire::Error> {
        if signatures.is_empty() {
            return Ok(());
        }
        let maps = Objects::<ConfigMap>::in_namespace(self.access, NAMESPACE).read_as::<Value>();
        let map = maps.get(CACHE).await?;
        let mut change = signature_cache::change(map.as_ref(), LABEL, digest, signatures);
        let made = if map.is_some() {
            maps.patch(CACHE, &change).await
        } else {
            if let Some(object) = change.as_object_mut() {
                object.insert("apiVersion".to_owned(), "v1".into());
                object.insert("kind".to_owned(), "ConfigMap".into());
            }
            let metadata = change.get_mut("metadata").and_then(Value::as_object_mut);
            if let Some(metadata) = metadata {
                metadata.insert("name".to_owned(), CACHE.into());
            }
            maps.create(&change).await
        };
        made.map(drop)
    }
}

/// The digest that an image is named by.
fn digest_of(image: &str) -> Result<ImageDigest, VerifyError> {
    let (_, digest) = image.rsplit_once('@').ok_or(VerifyError::FindDigest)?;
    digest.parse().map_err(VerifyError::ParseDigest)
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};
    use serde_json::json;

    use super::*;
    use crate::retrieval::RetrievalMethod;

    /// A store of the cluster has its own authority. Row 13 of
    /// `docs/reference/known-weaknesses.md`, "Version operator".
    #[tokio::test(start_paused = true)]
    async fn store_of_the_cluster_is_asked_with_its_own_authority() {
        let stores = json!([
            { "url": "https://one.example/", "ca": { "name": "one" } },
            { "url": "https://other.example", "ca": { "name": "" } },
        ]);
        let version = json!({ "spec": { "signatureStores": stores } });
        let map = |data: Value| Reply::ok(json!({ "data": data }));
        let path = "/api/v1/namespaces/openshift-config/configmaps/one";
        let (script, client) = Script::start(vec![
            Call::get(
                "/apis/config.openshift.io/v1/clusterversions/version",
                Reply::ok(version),
            ),
            Call::get(path, map(json!({ "other": "x" }))),
            Call::get(path, map(json!({ "ca-bundle.crt": "PEM" }))),
        ]);
        let trust = SignatureTrust {
            keyrings: std::collections::BTreeMap::new(),
            stores: [("release".to_owned(), "https://release.example".to_owned())].into(),
        };
        let verifier = Verifier {
            access: &Access::of_client(client),
            proxy: &ClusterProxy::default(),
            bundle: Some("of the cluster"),
            trust: &ReleaseTrust {
                openpgp: None,
                policies: Vec::new(),
            },
            retrieval: &RetrievalSettings {
                directory: "/".into(),
                method: RetrievalMethod::Pull {
                    credentials: None,
                    is_insecure: false,
                },
                limit: REQUEST,
            },
            now: Timestamp::UNIX_EPOCH,
        };
        let reads = async {
            let places = verifier.places(&trust).await.unwrap();
            let places: Vec<(String, Option<String>)> = places
                .into_iter()
                .map(|place| (place.address, place.authority))
                .collect();
            let missing = verifier.authority("one").await.unwrap_err();
            (places, missing, verifier.authority("one").await)
        };
        let (places, missing, bundle) = script.drive(Box::pin(reads)).await;
        let of = |address: &str, authority: Option<&str>| {
            (address.to_owned(), authority.map(str::to_owned))
        };
        assert_eq!(
            places,
            [
                of("https://one.example", Some("one")),
                of("https://other.example", None)
            ]
        );
        assert_eq!(
            missing.to_string(),
            "ConfigMap openshift-config/one has no key ca-bundle.crt"
        );
        assert_eq!(bundle.unwrap(), "PEM");
    }

    #[test]
    fn image_is_verified_by_its_digest() {
        let digest = ImageDigest::of(b"x");
        assert_eq!(digest_of(&format!("q/r:1@{digest}")).unwrap(), digest);
        assert_eq!(
            digest_of("q/r:1").unwrap_err().to_string(),
            "release images that are not accessed via digest cannot be verified"
        );
        assert!(
            digest_of("q/r@sha256:1")
                .unwrap_err()
                .to_string()
                .contains("is no digest")
        );
    }
}
