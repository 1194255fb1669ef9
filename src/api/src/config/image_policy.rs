//! ClusterImagePolicy and ImagePolicy: which signatures images must have.
//!
//! Their CustomResourceDefinitions are not ours; a cluster may lack them.

use k8s_openapi::ByteString;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::nullable;

/// Signatures that images need in the whole cluster.
///
/// Source: `clusterimagepolicies.config.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterImagePolicy",
    plural = "clusterimagepolicies",
    schema = "disabled",
    derive = "PartialEq",
    doc = "ClusterImagePolicy names images that need a signature in the whole cluster."
)]
pub struct ClusterImagePolicySpec {
    /// What is demanded.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub policy: SignaturePolicy,
    /// Registries, repositories, images, or `*.` and a domain.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub scopes: Vec<String>,
}

/// Signatures that images need in the pods of a namespace.
///
/// Source: `imagepolicies.config.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ImagePolicy",
    plural = "imagepolicies",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    doc = "ImagePolicy names images that need a signature in a namespace."
)]
pub struct ImagePolicySpec {
    /// What is demanded.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub policy: SignaturePolicy,
    /// Registries, repositories, images, or `*.` and a domain.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub scopes: Vec<String>,
}

/// What is demanded of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignaturePolicy {
    /// Who must have signed.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub root_of_trust: RootOfTrust,
    /// Which name the signature must be for. Absent: the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_identity: Option<SignedIdentity>,
}

/// Who must have signed. Of the members, the one of the type counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RootOfTrust {
    /// `PublicKey`, `FulcioCAWithRekor` or `PKI`.
    #[serde(default)]
    pub policy_type: String,
    /// A key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<PublicKey>,
    /// A person or program, by the certificate of a Fulcio.
    #[serde(
        default,
        rename = "fulcioCAWithRekor",
        skip_serializing_if = "Option::is_none"
    )]
    pub fulcio: Option<FulcioTrust>,
    /// A person or program, by the certificate of an authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pki: Option<PkiTrust>,
}

/// A key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PublicKey {
    /// PEM.
    #[serde(default)]
    pub key_data: ByteString,
    /// PEM; absent: no transparency log is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rekor_key_data: Option<ByteString>,
}

/// A subject of a Fulcio.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FulcioTrust {
    /// PEM.
    #[serde(default, rename = "fulcioCAData")]
    pub fulcio_ca_data: ByteString,
    /// PEM.
    #[serde(default)]
    pub rekor_key_data: ByteString,
    /// Whose certificate.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub fulcio_subject: FulcioSubject,
}

/// Whose certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FulcioSubject {
    /// Issuer of the identity.
    #[serde(default, rename = "oidcIssuer")]
    pub oidc_issuer: String,
    /// Address in the certificate.
    #[serde(default, rename = "signedEmail")]
    pub signed_email: String,
}

/// A subject of an authority.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PkiTrust {
    /// PEM.
    #[serde(default)]
    pub ca_roots_data: ByteString,
    /// PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_intermediates_data: Option<ByteString>,
    /// Whose certificate.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub pki_certificate_subject: PkiSubject,
}

/// Whose certificate: at least one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PkiSubject {
    /// Address in the certificate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub email: String,
    /// Host in the certificate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
}

/// Which name the signature must be for. Of the members, the one of the policy counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedIdentity {
    /// `MatchRepoDigestOrExact`, `MatchRepository`, `ExactRepository` or `RemapIdentity`.
    #[serde(default)]
    pub match_policy: String,
    /// This repository.
    #[serde(
        default,
        rename = "exactRepository",
        skip_serializing_if = "Option::is_none"
    )]
    pub exact: Option<ExactRepository>,
    /// The image's, with another beginning.
    #[serde(
        default,
        rename = "remapIdentity",
        skip_serializing_if = "Option::is_none"
    )]
    pub remap: Option<RemapIdentity>,
}

/// A repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExactRepository {
    /// Its name.
    #[serde(default)]
    pub repository: String,
}

/// Beginnings of names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemapIdentity {
    /// Of the image.
    #[serde(default)]
    pub prefix: String,
    /// Of what was signed.
    #[serde(default)]
    pub signed_prefix: String,
}
