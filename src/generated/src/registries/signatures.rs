//! Signatures that images need: `policy.json` entries by scope, for the cluster and for namespaces.

use std::collections::BTreeMap;

use api::config::image_policy::{RootOfTrust, SignedIdentity};
use api::config::{ClusterImagePolicy, ImagePolicy, SignaturePolicy};
use k8s_openapi::ByteString;
use release::scope::{contains, repository};
use serde_json::{Map, Value, json};

use super::Error;
use super::scope::{self, InvalidScope};

/// The field of a policy that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The scope of this index.
    #[error("spec.scopes[{0}]")]
    Scope(usize, #[source] InvalidScope),
    /// A field that its neighbours need.
    #[error("spec.policy.{0} is missing")]
    Missing(&'static str),
    /// A field that is no key or certificate.
    #[error("spec.policy.{0} is not PEM")]
    NotPem(&'static str),
    /// A subject, and the members of which it has too few.
    #[error("spec.policy.rootOfTrust.{0} needs {1}")]
    Needs(&'static str, &'static str),
    /// A root of trust that there is not.
    #[error("spec.policy.rootOfTrust.policyType: there is no type {0:?}")]
    NoType(String),
    /// A way to match identities that there is not.
    #[error("spec.policy.signedIdentity.matchPolicy: there is no policy {0:?}")]
    NoMatchPolicy(String),
    /// A field that names repositories.
    #[error("spec.policy.signedIdentity.{0}")]
    Identity(&'static str, #[source] InvalidScope),
}

/// What is demanded of the images of each scope. Of several demands, all hold.
pub(super) type Demands = BTreeMap<String, Vec<Value>>;

/// What is demanded of images.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Signatures {
    pub(super) cluster: Demands,
    /// In the pods of a namespace, besides.
    pub(super) namespaces: BTreeMap<String, Demands>,
    /// ImagePolicies that cannot be followed, and why. Their scopes are rejected.
    pub(super) refused: Vec<Error>,
}

impl Signatures {
    /// Reads the policies. A bad one of a namespace holds up nothing but its own images: they do
    /// not run, because an image that must be signed may not run unsigned.
    ///
    /// # Errors
    /// ClusterImagePolicy and field, and why it is refused.
    pub(super) fn read(
        cluster: &[&ClusterImagePolicy],
        namespaced: &[&ImagePolicy],
    ) -> Result<Self, Error> {
        let mut read = Self::default();
        for policy in cluster {
            let name = policy.metadata.name.as_deref().unwrap_or_default();
            let at = |error| Error::ClusterPolicy(name.to_owned(), error);
            let demand = demand(&policy.spec.policy).map_err(at)?;
            for (index, scope) in policy.spec.scopes.iter().enumerate() {
                check(index, scope).map_err(at)?;
                add(&mut read.cluster, scope, &demand);
            }
        }
        for policy in namespaced {
            let metadata = &policy.metadata;
            let name = metadata.name.as_deref().unwrap_or_default();
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            let mut refuse = |error| {
                let name = format!("{namespace}/{name}");
                read.refused.push(Error::NamespacePolicy(name, error));
            };
            let demand = demand(&policy.spec.policy).unwrap_or_else(|error| {
                refuse(error);
                json!({ "type": "reject" })
            });
            let mut taken = Vec::new();
            for (index, scope) in policy.spec.scopes.iter().enumerate() {
                match check(index, scope) {
                    Ok(()) => taken.push(scope),
                    Err(error) => refuse(error),
                }
            }
            // What the cluster demands of an image, a namespace cannot replace.
            taken.retain(|scope| !read.cluster.keys().any(|above| contains(above, scope)));
            for scope in taken {
                let demands = read.namespaces.entry(namespace.to_owned()).or_default();
                add(demands, scope, &demand);
            }
        }
        Ok(read)
    }

    /// All scopes with a demand.
    pub(super) fn scopes(&self) -> impl Iterator<Item = &str> {
        let namespaces = self.namespaces.values().flat_map(BTreeMap::keys);
        self.cluster.keys().chain(namespaces).map(String::as_str)
    }
}

fn add(demands: &mut Demands, scope: &str, demand: &Value) {
    let present = demands.entry(scope.to_owned()).or_default();
    if !present.contains(demand) {
        present.push(demand.clone());
    }
}

/// A scope is what a registry's settings name, or one image.
fn check(index: usize, scope: &str) -> Result<(), PolicyError> {
    scope::check(repository(scope), true).map_err(|error| PolicyError::Scope(index, error))
}

/// An entry of `policy.json`.
///
/// Source: `containers-policy.json(5)`, `sigstoreSigned`.
fn demand(policy: &SignaturePolicy) -> Result<Value, PolicyError> {
    let mut demand = Map::new();
    demand.insert("type".to_owned(), json!("sigstoreSigned"));
    trust(&policy.root_of_trust, &mut demand)?;
    let identity = identity(policy.signed_identity.as_ref())?;
    demand.insert("signedIdentity".to_owned(), identity);
    Ok(Value::Object(demand))
}

fn trust(root: &RootOfTrust, demand: &mut Map<String, Value>) -> Result<(), PolicyError> {
    let mut put = |key: &str, value: Value| demand.insert(key.to_owned(), value);
    match root.policy_type.as_str() {
        "PublicKey" => {
            let key = root.public_key.as_ref();
            let key = key.ok_or(PolicyError::Missing("rootOfTrust.publicKey"))?;
            let data = pem("rootOfTrust.publicKey.keyData", &key.key_data)?;
            put("keyData", data);
            if let Some(rekor) = &key.rekor_key_data {
                let rekor = pem("rootOfTrust.publicKey.rekorKeyData", rekor)?;
                put("rekorPublicKeyData", rekor);
            }
        }
        "FulcioCAWithRekor" => {
            let fulcio = root.fulcio.as_ref();
            let fulcio = fulcio.ok_or(PolicyError::Missing("rootOfTrust.fulcioCAWithRekor"))?;
            let subject = &fulcio.fulcio_subject;
            if subject.oidc_issuer.is_empty() || subject.signed_email.is_empty() {
                let subject = "fulcioCAWithRekor.fulcioSubject";
                return Err(PolicyError::Needs(subject, "oidcIssuer and signedEmail"));
            }
            let (ca, rekor) = (&fulcio.fulcio_ca_data, &fulcio.rekor_key_data);
            let ca = pem("rootOfTrust.fulcioCAWithRekor.fulcioCAData", ca)?;
            let rekor = pem("rootOfTrust.fulcioCAWithRekor.rekorKeyData", rekor)?;
            put(
                "fulcio",
                json!({
                    "caData": ca,
                    "oidcIssuer": subject.oidc_issuer,
                    "subjectEmail": subject.signed_email
                }),
            );
            put("rekorPublicKeyData", rekor);
        }
        "PKI" => {
            let pki = root.pki.as_ref();
            let pki = pki.ok_or(PolicyError::Missing("rootOfTrust.pki"))?;
            let subject = &pki.pki_certificate_subject;
            if subject.email.is_empty() && subject.hostname.is_empty() {
                let subject = "pki.pkiCertificateSubject";
                return Err(PolicyError::Needs(subject, "email or hostname"));
            }
            let mut entry = Map::new();
            let roots = pem("rootOfTrust.pki.caRootsData", &pki.ca_roots_data)?;
            entry.insert("caRootsData".to_owned(), roots);
            if let Some(between) = &pki.ca_intermediates_data {
                let between = pem("rootOfTrust.pki.caIntermediatesData", between)?;
                entry.insert("caIntermediatesData".to_owned(), between);
            }
            let names = [
                ("subjectEmail", &subject.email),
                ("subjectHostname", &subject.hostname),
            ];
            for (key, name) in names.into_iter().filter(|(_, name)| !name.is_empty()) {
                entry.insert(key.to_owned(), json!(name));
            }
            put("pki", Value::Object(entry));
        }
        other => return Err(PolicyError::NoType(other.to_owned())),
    }
    Ok(())
}

/// Data in base64, as both the object and the file have it.
fn pem(field: &'static str, data: &ByteString) -> Result<Value, PolicyError> {
    if !data.0.trim_ascii_start().starts_with(b"-----BEGIN ") {
        return Err(PolicyError::NotPem(field));
    }
    Ok(json!(data))
}

fn identity(identity: Option<&SignedIdentity>) -> Result<Value, PolicyError> {
    let Some(identity) = identity else {
        return Ok(json!({ "type": "matchRepoDigestOrExact" }));
    };
    match identity.match_policy.as_str() {
        "MatchRepoDigestOrExact" => Ok(json!({ "type": "matchRepoDigestOrExact" })),
        "MatchRepository" => Ok(json!({ "type": "matchRepository" })),
        "ExactRepository" => {
            let exact = identity.exact.as_ref();
            let exact = exact.ok_or(PolicyError::Missing("signedIdentity.exactRepository"))?;
            scope::check(&exact.repository, false)
                .map_err(|error| PolicyError::Identity("exactRepository.repository", error))?;
            Ok(json!({ "type": "exactRepository", "dockerRepository": exact.repository }))
        }
        "RemapIdentity" => {
            let remap = identity.remap.as_ref();
            let remap = remap.ok_or(PolicyError::Missing("signedIdentity.remapIdentity"))?;
            for (field, prefix) in [
                ("remapIdentity.prefix", &remap.prefix),
                ("remapIdentity.signedPrefix", &remap.signed_prefix),
            ] {
                scope::check(prefix, false).map_err(|error| PolicyError::Identity(field, error))?;
            }
            Ok(json!({
                "type": "remapIdentity",
                "prefix": remap.prefix,
                "signedPrefix": remap.signed_prefix
            }))
        }
        other => Err(PolicyError::NoMatchPolicy(other.to_owned())),
    }
}
