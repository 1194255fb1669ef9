//! Signatures beside images, where nodes of the cluster pull these from.

use std::time::Duration;

use api::config::{Image, ImageDigestMirrorSet};
use api::operator::ImageContentSourcePolicy;
use chassis::report::Chain;
use cluster::access::Access;
use cluster::{path, wire};
use futures::StreamExt as _;
use generated::registries::{self, RegistryFacts};
use images::store::ImageProxies;
use images::{Credentials, ImageLocation, Stores, credentials, location};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use release::{ImageDigest, PullSpec};
use serde::de::DeserializeOwned;
use signatures::sigstore::{PulledImage, SigstorePolicy, UnsignedImage, demanding};
use version_update::builder::ClusterProxy;
use version_update::precondition::UnsignedComponent;

use crate::retrieval::{RetrievalError, RetrievalMethod, RetrievalSettings, read_credentials};

/// Namespace and name of the cluster's credentials for registries, and their key.
const PULL_SECRET: (&str, &str) = ("openshift-config", "pull-secret");
const PULL_SECRET_KEY: &str = ".dockerconfigjson";

/// How long a registry may be silent.
const PATIENCE: Duration = Duration::from_secs(20);

/// Images that are looked at at once.
const AT_ONCE: usize = 8;

/// How this cluster reaches registries.
#[derive(Debug)]
pub struct NodeRegistries {
    stores: Stores,
    digest: Vec<ImageDigestMirrorSet>,
    content_source: Vec<ImageContentSourcePolicy>,
    now: Timestamp,
}

/// Why signatures beside an image are not known.
#[derive(Debug, thiserror::Error)]
pub enum NodeRegistriesError {
    /// A setting of the cluster cannot be read.
    #[error(transparent)]
    ReadSettings(#[from] wire::Error),
    #[error("Secret {}/{}: key {PULL_SECRET_KEY}", PULL_SECRET.0, PULL_SECRET.1)]
    ParseCredentials(#[source] credentials::Error),
    /// Those of this program cannot be read.
    #[error(transparent)]
    ReadCredentials(RetrievalError),
    /// Mirrors cannot be followed.
    #[error(transparent)]
    FollowMirrors(registries::Error),
    /// A pull spec is none.
    #[error(transparent)]
    ParseLocation(location::Error),
    /// An image is not named by digest.
    #[error(transparent)]
    ParsePullSpec(release::pull_spec::Error),
    /// No signature suffices.
    #[error(transparent)]
    Verify(Box<UnsignedImage>),
}

/// The members of a list.
#[derive(serde::Deserialize)]
struct Items<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

async fn list<T: DeserializeOwned>(access: &Access, path: &str) -> Result<Vec<T>, wire::Error> {
    // A cluster may lack the kind.
    let list: Option<Items<T>> = access.find(path).await?;
    Ok(list.map(|list| list.items).unwrap_or_default())
}

impl NodeRegistries {
    /// Reads the cluster's settings. `bundle` is PEM, the cluster's authorities. Where this program
    /// pulls images itself, it has credentials of its own, and may take any registry without TLS.
    ///
    /// # Errors
    /// A setting cannot be read or used. One that is not there asks for nothing.
    pub async fn read(
        access: &Access,
        proxy: &ClusterProxy,
        bundle: Option<&str>,
        retrieval: &RetrievalSettings,
        now: Timestamp,
    ) -> Result<Self, NodeRegistriesError> {
        let (namespace, name) = PULL_SECRET;
        let (credentials, is_insecure) = match &retrieval.method {
            RetrievalMethod::Job(_) => {
                let secret: Option<Secret> = access
                    .find(&path::namespaced::<Secret>(namespace, name))
                    .await?;
                let bytes = secret.and_then(|secret| secret.data?.remove(PULL_SECRET_KEY));
                let credentials = bytes.map(|bytes| Credentials::parse(&bytes.0)).transpose();
                let credentials = credentials.map_err(NodeRegistriesError::ParseCredentials)?;
                (credentials.unwrap_or_default(), false)
            }
            RetrievalMethod::Pull {
                credentials,
                is_insecure,
            } => {
                let credentials = read_credentials(credentials.as_deref());
                let credentials = credentials.map_err(NodeRegistriesError::ReadCredentials)?;
                (credentials, *is_insecure)
            }
        };
        let image: Option<Image> = access.find(&path::object::<Image>("cluster")).await?;
        let image = image.map(|image| image.spec).unwrap_or_default();
        let mut stores = Stores::new(credentials, is_insecure)
            .insecure_at(image.registry_sources.insecure_registries)
            .with_patience(PATIENCE)
            .through(ImageProxies {
                http: proxy.http.clone(),
                https: proxy.https.clone(),
                none: proxy.none.clone(),
            });
        if let Some(bundle) = bundle {
            stores = stores.trusting(bundle.as_bytes().to_vec());
        }
        let authorities = image.additional_trusted_ca.as_ref();
        let authorities = authorities.and_then(|map| map.get("name")?.as_str());
        if let Some(authorities) = authorities.filter(|name| !name.is_empty()) {
            let path = path::namespaced::<ConfigMap>(namespace, authorities);
            let map: Option<ConfigMap> = access.find(&path).await?;
            for authority in map
                .and_then(|map| map.data)
                .unwrap_or_default()
                .into_values()
            {
                stores = stores.trusting(authority.into_bytes());
            }
        }
        Ok(Self {
            stores,
            digest: list(access, &path::all::<ImageDigestMirrorSet>()).await?,
            content_source: list(access, &path::all::<ImageContentSourcePolicy>()).await?,
            now,
        })
    }

    fn places(&self, image: &str) -> Result<Vec<ImageLocation>, NodeRegistriesError> {
        let facts = RegistryFacts {
            digest: self.digest.iter().collect(),
            content_source: self.content_source.iter().collect(),
            ..RegistryFacts::default()
        };
        let places = registries::pull_places(image, &facts);
        let places = places
            .map_err(NodeRegistriesError::FollowMirrors)?
            .into_iter();
        let places = places.map(|place| place.parse().map_err(NodeRegistriesError::ParseLocation));
        places.collect()
    }

    /// Holds signatures beside an image, wherever nodes may pull it, against all of these policies.
    ///
    /// # Errors
    /// One of them is not fulfilled, with what was found where.
    pub async fn verify(
        &self,
        (image, digest): (&str, &ImageDigest),
        policies: &[&SigstorePolicy],
    ) -> Result<(), NodeRegistriesError> {
        let places = self.places(image)?;
        let pulled = PulledImage {
            name: image,
            digest,
            places: &places,
        };
        for policy in policies {
            let verified = pulled.verify(&self.stores, policy, self.now).await;
            verified.map_err(|why| NodeRegistriesError::Verify(Box::new(why)))?;
        }
        Ok(())
    }

    /// Images that nodes would not pull once these policies are theirs: from where they pull them,
    /// nothing that suffices lies beside. An image that is nowhere is none.
    pub async fn unsigned<'a>(
        &self,
        images: impl Iterator<Item = (&'a str, &'a str)>,
        policies: &[SigstorePolicy],
    ) -> Vec<UnsignedComponent> {
        let checks = images.map(|(name, image)| async move {
            let checked = self.check(image, &demanding(policies, image)).await;
            checked.err().map(|why| UnsignedComponent {
                name: name.to_owned(),
                why: Chain(&why).to_string(),
            })
        });
        let checks: Vec<_> = checks.collect();
        let checks = futures::stream::iter(checks).buffered(AT_ONCE);
        let found: Vec<_> = checks.collect().await;
        found.into_iter().flatten().collect()
    }

    async fn check(
        &self,
        image: &str,
        policies: &[&SigstorePolicy],
    ) -> Result<(), NodeRegistriesError> {
        if policies.is_empty() {
            return Ok(());
        }
        let spec: PullSpec = image.parse().map_err(NodeRegistriesError::ParsePullSpec)?;
        let places = self.places(image)?;
        let pulled = PulledImage {
            name: image,
            digest: spec.digest(),
            places: &places,
        };
        for policy in policies {
            let checked = pulled
                .verify_where_pulled(&self.stores, policy, self.now)
                .await;
            checked.map_err(|why| NodeRegistriesError::Verify(Box::new(why)))?;
        }
        Ok(())
    }
}
