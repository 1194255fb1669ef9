//! Images in registries, over the OCI distribution protocol.

use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use http::HeaderValue;
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::{DigestError, OciDistributionError};
use oci_client::manifest::OciImageIndex;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use oci_spec::image::Descriptor;
use release::ImageDigest;
use release::payload::DigestMismatch;
use release::scope::contains;
use tokio::sync::Mutex;

use crate::blob::{ArchiveFault, Blob, Writer};
use crate::credentials::Credentials;
use crate::document::{IMAGES, LISTS};
use crate::error::Error;

/// Forms of manifests that are accepted.
const MANIFESTS: [&str; 4] = [IMAGES[0], LISTS[0], IMAGES[1], LISTS[1]];

/// How long a connection may take, and how long a registry may be silent: what `skopeo` waits for
/// headers is 60 s.
const PATIENCE: Duration = Duration::from_mins(1);

/// Tags that are requested at once. Registries may send fewer.
const TAGS: usize = 1000;

/// Proxies on the way to registries; each empty: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageProxies {
    /// For plain HTTP.
    pub http: String,
    pub https: String,
    /// Hosts that are reached without, separated by commas.
    pub none: String,
}

/// Clients by registry and credentials: the library keeps one set of credentials a registry, and
/// namespaces have their own.
pub(crate) struct Registries {
    credentials: Credentials,
    /// Whether plain HTTP and unknown certificates are taken.
    is_insecure: bool,
    /// Registries and repositories of which they are taken in any case.
    insecure_scopes: Vec<String>,
    proxies: ImageProxies,
    /// Certificate authorities beside those of the system, as PEM.
    authorities: Vec<Vec<u8>>,
    /// How long a connection may take, and how long a registry may be silent.
    patience: Duration,
    clients: Mutex<HashMap<(String, Option<String>), Client>>,
}

impl Registries {
    pub(crate) fn new(credentials: Credentials, is_insecure: bool) -> Self {
        // Another part of the program may have installed one: it is the same, as there is no other
        // (deny.toml).
        drop(rustls::crypto::ring::default_provider().install_default());
        Self {
            credentials,
            is_insecure,
            insecure_scopes: Vec::new(),
            proxies: ImageProxies::default(),
            authorities: Vec::new(),
            patience: PATIENCE,
            clients: Mutex::default(),
        }
    }

    pub(crate) fn trust(&mut self, authority: Vec<u8>) {
        self.authorities.push(authority);
    }

    pub(crate) fn allow_insecure(&mut self, scopes: Vec<String>) {
        self.insecure_scopes = scopes;
    }

    pub(crate) fn go_through(&mut self, proxies: ImageProxies) {
        self.proxies = proxies;
    }

    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    pub(crate) const fn is_insecure(&self) -> bool {
        self.is_insecure
    }

    /// What is shown for an image.
    pub(crate) fn auth(&self, reference: &Reference) -> RegistryAuth {
        self.credentials.auth(reference)
    }

    /// A client for requests that the library does not have.
    pub(crate) fn plain_client(&self) -> Result<reqwest::Client, reqwest::Error> {
        let certificates = self.authorities.iter();
        let certificates = certificates.map(|pem| reqwest::Certificate::from_pem_bundle(pem));
        let certificates = certificates.collect::<Result<Vec<_>, _>>()?.concat();
        reqwest::Client::builder()
            .connect_timeout(self.patience)
            .read_timeout(self.patience)
            .tls_certs_merge(certificates)
            .tls_danger_accept_invalid_certs(self.is_insecure)
            .build()
    }

    async fn client(&self, reference: &Reference) -> Result<(Client, RegistryAuth), Error> {
        let auth = self.credentials.auth(reference);
        let name = match &auth {
            RegistryAuth::Basic(name, _) => Some(name.clone()),
            RegistryAuth::Anonymous | RegistryAuth::Bearer(_) => None,
        };
        let registry = reference.resolve_registry().to_owned();
        let key = (registry.clone(), name);
        let cached = self.clients.lock().await.get(&key).cloned();
        let client = match cached {
            Some(client) => client,
            None => self
                .connect(reference, &auth)
                .await
                .map_err(|source| Error::of_registry(reference.to_string(), source))?,
        };
        client.store_auth_if_needed(&registry, &auth).await;
        self.clients.lock().await.insert(key, client.clone());
        Ok((client, auth))
    }

    /// A client that speaks TLS, or whatever the registry speaks where that is allowed.
    async fn connect(
        &self,
        reference: &Reference,
        auth: &RegistryAuth,
    ) -> Result<Client, OciDistributionError> {
        let repository = format!("{}/{}", reference.registry(), reference.repository());
        let mut scopes = self.insecure_scopes.iter();
        let is_insecure = self.is_insecure || scopes.any(|scope| contains(scope, &repository));
        let filled = |text: &String| (!text.is_empty()).then(|| text.clone());
        let config = |protocol| ClientConfig {
            protocol,
            accept_invalid_certificates: is_insecure,
            http_proxy: filled(&self.proxies.http),
            https_proxy: filled(&self.proxies.https),
            no_proxy: filled(&self.proxies.none),
            connect_timeout: Some(self.patience),
            read_timeout: Some(self.patience),
            extra_root_certificates: self
                .authorities
                .iter()
                .map(|authority| Certificate {
                    encoding: CertificateEncoding::Pem,
                    data: authority.clone(),
                })
                .collect(),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config(ClientProtocol::Https))?;
        if !is_insecure {
            return Ok(client);
        }
        match client.auth(reference, auth, RegistryOperation::Pull).await {
            Err(OciDistributionError::RequestError(error)) if error.is_connect() => {
                Client::try_from(config(ClientProtocol::Http))
            }
            _ => Ok(client),
        }
    }

    /// All tags of the reference's repository, page by page.
    pub(crate) async fn tags(&self, reference: &Reference) -> Result<Vec<String>, Error> {
        let repository = format!("{}/{}", reference.registry(), reference.repository());
        let failed = |source| Error::of_registry(repository.clone(), source);
        let (client, auth) = self.client(reference).await?;
        let mut tags: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let last = tags.last().map(String::as_str);
            let page = client.list_tags(reference, &auth, Some(TAGS), last).await;
            let page = page.map_err(failed)?.tags;
            let (before, count) = (tags.len(), page.len());
            tags.extend(page.into_iter().filter(|tag| seen.insert(tag.clone())));
            if tags.len() == before {
                if count >= TAGS {
                    let text = "the registry repeats the first page of its tags".to_owned();
                    return Err(failed(OciDistributionError::GenericError(Some(text))));
                }
                return Ok(tags);
            }
        }
    }

    /// The digest of what the reference names now.
    pub(crate) async fn digest(&self, reference: &Reference) -> Result<ImageDigest, Error> {
        let failed = |source| Error::of_registry(reference.to_string(), source);
        let (client, auth) = self.client(reference).await?;
        let digest = client
            .fetch_manifest_digest(reference, &auth)
            .await
            .map_err(failed)?;
        digest.parse().map_err(|_| Error::Form {
            image: reference.to_string(),
            form: format!("digest {digest}"),
        })
    }

    /// A manifest or list, held against the digest that the reference names.
    pub(crate) async fn manifest(&self, reference: &Reference) -> Result<Vec<u8>, Error> {
        let (client, auth) = self.client(reference).await?;
        let pulled = client.pull_manifest_raw(reference, &auth, &MANIFESTS).await;
        let (bytes, _) =
            pulled.map_err(|source| Error::of_registry(reference.to_string(), source))?;
        Ok(bytes.into())
    }

    /// Manifests that refer to the image of the reference's digest. A registry that does not list
    /// them has none, or a tag with the list.
    pub(crate) async fn referrers(&self, reference: &Reference) -> Result<OciImageIndex, Error> {
        let failed = |source| Error::of_registry(reference.to_string(), source);
        let (client, auth) = self.client(reference).await?;
        client
            .auth(reference, &auth, RegistryOperation::Pull)
            .await
            .map_err(failed)?;
        client.pull_referrers(reference, None).await.map_err(failed)
    }

    /// A blob, held against its digest.
    pub(crate) async fn blob(
        &self,
        reference: &Reference,
        descriptor: &Descriptor,
        digest: &ImageDigest,
    ) -> Result<Blob, Error> {
        let layer_error = |source| Error::Layer {
            image: reference.to_string(),
            layer: digest.to_string(),
            source,
        };
        let (client, _) = self.client(reference).await?;
        let wanted = oci_client::manifest::OciDescriptor {
            digest: digest.to_string(),
            ..Default::default()
        };
        let stream = client.pull_blob_stream(reference, &wanted).await;
        let mut stream = stream
            .map_err(|source| layer_error(std::io::Error::other(source)))?
            .stream;
        let mut writer = Writer::new().map_err(layer_error)?;
        let mut left = descriptor.size();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| match mismatch(&error) {
                Some(mismatch) => Error::Mismatch {
                    image: reference.to_string(),
                    mismatch: Box::new(mismatch),
                },
                None => layer_error(error),
            })?;
            left = left.checked_sub(chunk.len() as u64).ok_or_else(|| {
                layer_error(std::io::Error::other("it is longer than its manifest says"))
            })?;
            writer.write_all(&chunk).map_err(layer_error)?;
        }
        writer.finish_as(digest).map_err(|fault| match fault {
            ArchiveFault::Io(source) => layer_error(source),
            ArchiveFault::Mismatch(mismatch) => Error::Mismatch {
                image: reference.to_string(),
                mismatch: Box::new(mismatch),
            },
        })
    }

    /// Whether the repository has a blob.
    pub(crate) async fn has_blob(
        &self,
        reference: &Reference,
        digest: &ImageDigest,
    ) -> Result<bool, Error> {
        let failed = |source| Error::of_registry(reference.to_string(), source);
        let (client, auth) = self.client(reference).await?;
        client
            .auth(reference, &auth, RegistryOperation::Push)
            .await
            .map_err(failed)?;
        client
            .blob_exists(reference, digest.as_str())
            .await
            .map_err(failed)
    }

    /// Puts a blob into the repository, unless it is there.
    pub(crate) async fn put_blob(&self, reference: &Reference, blob: &Blob) -> Result<(), Error> {
        let failed = |source| Error::of_registry(reference.to_string(), source);
        let (client, auth) = self.client(reference).await?;
        // Errors come late otherwise: the library tries without a token where it got none.
        client
            .auth(reference, &auth, RegistryOperation::Push)
            .await
            .map_err(failed)?;
        let digest = blob.digest().as_str();
        if client
            .blob_exists(reference, digest)
            .await
            .map_err(failed)?
        {
            return Ok(());
        }
        let chunks = blob.chunks();
        let chunks = stream::iter(chunks.map(|chunk| chunk.map_err(Into::into)));
        client
            .push_blob_stream(reference, chunks, digest, Some(blob.size()))
            .await
            .map_err(failed)?;
        Ok(())
    }

    /// Puts a manifest under the reference's tag.
    pub(crate) async fn put_manifest(
        &self,
        reference: &Reference,
        manifest: &[u8],
        media_type: &str,
    ) -> Result<(), Error> {
        let failed = |source| Error::of_registry(reference.to_string(), source);
        let (client, _) = self.client(reference).await?;
        let media_type = HeaderValue::from_str(media_type)
            .map_err(|error| failed(OciDistributionError::GenericError(Some(error.to_string()))))?;
        client
            .push_manifest_raw(reference, manifest.to_vec(), media_type)
            .await
            .map_err(failed)?;
        Ok(())
    }
}

/// What the library found at the end of a stream: other bytes than were requested.
fn mismatch(error: &std::io::Error) -> Option<DigestMismatch> {
    let error = error.get_ref()?.downcast_ref::<DigestError>()?;
    let DigestError::VerificationError { expected, actual } = error else {
        return None;
    };
    Some(DigestMismatch {
        expected: expected.parse().ok()?,
        found: actual.parse().ok()?,
    })
}

impl std::fmt::Debug for Registries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registries")
            .field("credentials", &self.credentials)
            .field("is_insecure", &self.is_insecure)
            .field("authorities", &self.authorities.len())
            .finish_non_exhaustive()
    }
}
