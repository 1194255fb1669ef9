//! Signatures that images need: `policy.json` entries by scope, for the cluster and for namespaces.

use std::collections::BTreeMap;

use api::config::image_policy::{RootOfTrust, SignedIdentity};
use api::config::{ClusterImagePolicy, ImagePolicy, SignaturePolicy};
use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};

use super::scope::{self, contains, repository};

/// What is demanded of the images of each scope. Of several demands, all hold.
pub(super) type Demands = BTreeMap<String, Vec<Value>>;

/// What is demanded of images.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Signatures {
    /// Everywhere.
    pub(super) cluster: Demands,
    /// In the pods of a namespace, besides.
    pub(super) namespaces: BTreeMap<String, Demands>,
    /// ImagePolicies that cannot be followed, and why. Their scopes are rejected.
    pub(super) refused: Vec<String>,
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
    ) -> Result<Self, String> {
        let mut read = Self::default();
        for policy in cluster {
            let name = policy.metadata.name.as_deref().unwrap_or_default();
            let at = |why: String| format!("ClusterImagePolicy {name}: spec.{why}");
            let demand = demand(&policy.spec.policy).map_err(at)?;
            for (index, scope) in policy.spec.scopes.iter().enumerate() {
                check(scope).map_err(|why| at(format!("scopes[{index}]: {why}")))?;
                add(&mut read.cluster, scope, &demand);
            }
        }
        for policy in namespaced {
            let metadata = &policy.metadata;
            let name = metadata.name.as_deref().unwrap_or_default();
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            let mut at = |why: String| {
                read.refused
                    .push(format!("ImagePolicy {namespace}/{name}: spec.{why}"));
            };
            let demand = demand(&policy.spec.policy).unwrap_or_else(|why| {
                at(why);
                json!({ "type": "reject" })
            });
            let mut taken = Vec::new();
            for (index, scope) in policy.spec.scopes.iter().enumerate() {
                match check(scope) {
                    Ok(()) => taken.push(scope),
                    Err(why) => at(format!("scopes[{index}]: {why}")),
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
    let known = demands.entry(scope.to_owned()).or_default();
    if !known.contains(demand) {
        known.push(demand.clone());
    }
}

/// A scope is what a registry's settings name, or one image.
fn check(scope: &str) -> Result<(), String> {
    scope::check(repository(scope), true)
}

/// An entry of `policy.json`. The error begins with the field.
///
/// Source: `containers-policy.json(5)`, `sigstoreSigned`.
fn demand(policy: &SignaturePolicy) -> Result<Value, String> {
    let mut demand = Map::new();
    demand.insert("type".to_owned(), json!("sigstoreSigned"));
    trust(&policy.root_of_trust, &mut demand).map_err(|why| format!("policy.rootOfTrust.{why}"))?;
    let identity = identity(policy.signed_identity.as_ref())
        .map_err(|why| format!("policy.signedIdentity.{why}"))?;
    demand.insert("signedIdentity".to_owned(), identity);
    Ok(Value::Object(demand))
}

fn trust(root: &RootOfTrust, demand: &mut Map<String, Value>) -> Result<(), String> {
    let mut put = |key: &str, value: Value| demand.insert(key.to_owned(), value);
    match root.policy_type.as_str() {
        "PublicKey" => {
            let key = root.public_key.as_ref().ok_or("publicKey is missing")?;
            put("keyData", pem("publicKey.keyData", &key.key_data)?);
            if let Some(rekor) = &key.rekor_key_data {
                let rekor = pem("publicKey.rekorKeyData", rekor)?;
                put("rekorPublicKeyData", rekor);
            }
        }
        "FulcioCAWithRekor" => {
            let field = "fulcioCAWithRekor";
            let fulcio = root.fulcio.as_ref();
            let fulcio = fulcio.ok_or_else(|| format!("{field} is missing"))?;
            let subject = &fulcio.fulcio_subject;
            if subject.oidc_issuer.is_empty() || subject.signed_email.is_empty() {
                return Err(format!(
                    "{field}.fulcioSubject needs oidcIssuer and signedEmail"
                ));
            }
            let ca = pem(&format!("{field}.fulcioCAData"), &fulcio.fulcio_ca_data)?;
            let rekor = pem(&format!("{field}.rekorKeyData"), &fulcio.rekor_key_data)?;
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
            let pki = root.pki.as_ref().ok_or("pki is missing")?;
            let subject = &pki.pki_certificate_subject;
            if subject.email.is_empty() && subject.hostname.is_empty() {
                return Err("pki.pkiCertificateSubject needs email or hostname".to_owned());
            }
            let mut entry = Map::new();
            let roots = pem("pki.caRootsData", &pki.ca_roots_data)?;
            entry.insert("caRootsData".to_owned(), roots);
            if let Some(between) = &pki.ca_intermediates_data {
                let between = pem("pki.caIntermediatesData", between)?;
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
        other => return Err(format!("policyType: there is no type {other:?}")),
    }
    Ok(())
}

/// Data in base64, as both the object and the file have it.
fn pem(field: &str, data: &ByteString) -> Result<Value, String> {
    if !data.0.trim_ascii_start().starts_with(b"-----BEGIN ") {
        return Err(format!("{field} is not PEM"));
    }
    serde_json::to_value(data).map_err(|error| format!("{field}: {error}"))
}

fn identity(identity: Option<&SignedIdentity>) -> Result<Value, String> {
    let Some(identity) = identity else {
        return Ok(json!({ "type": "matchRepoDigestOrExact" }));
    };
    match identity.match_policy.as_str() {
        "MatchRepoDigestOrExact" => Ok(json!({ "type": "matchRepoDigestOrExact" })),
        "MatchRepository" => Ok(json!({ "type": "matchRepository" })),
        "ExactRepository" => {
            let exact = identity.exact.as_ref();
            let exact = exact.ok_or("exactRepository is missing")?;
            scope::check(&exact.repository, false)
                .map_err(|why| format!("exactRepository.repository: {why}"))?;
            Ok(json!({ "type": "exactRepository", "dockerRepository": exact.repository }))
        }
        "RemapIdentity" => {
            let remap = identity.remap.as_ref().ok_or("remapIdentity is missing")?;
            for (field, prefix) in [
                ("prefix", &remap.prefix),
                ("signedPrefix", &remap.signed_prefix),
            ] {
                scope::check(prefix, false)
                    .map_err(|why| format!("remapIdentity.{field}: {why}"))?;
            }
            Ok(json!({
                "type": "remapIdentity",
                "prefix": remap.prefix,
                "signedPrefix": remap.signed_prefix
            }))
        }
        other => Err(format!("matchPolicy: there is no policy {other:?}")),
    }
}
