//! Whose signatures beside images a release asks for: the ClusterImagePolicy `openshift`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::selection;

/// File of a release that holds the policy; the name that OpenShift's releases use.
pub const FILE: &str = "0000_90_openshift-cluster-image-policy.yaml";

/// The policy's name: those that begin so are the release's.
pub const NAME: &str = "openshift";

/// Profile of clusters that the policy is for.
const PROFILE: &str = "self-managed-high-availability";

/// A key that must have signed images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageKey {
    /// PEM, `PUBLIC KEY`.
    pub key: Vec<u8>,
    /// Registries, repositories or images that it must have signed. At least one.
    pub scopes: Vec<String>,
}

impl ImageKey {
    /// The policy's file.
    ///
    /// Shape: JSON, which is YAML.
    pub fn print(&self) -> Vec<u8> {
        crate::json::print(&json!({
            "apiVersion": "config.openshift.io/v1",
            "kind": "ClusterImagePolicy",
            "metadata": {
                "name": NAME,
                "annotations": {
                    "kubernetes.io/description": "Require the release's signatures of its images.",
                    format!("{}{PROFILE}", selection::INCLUDE): "true",
                },
            },
            "spec": {
                "scopes": self.scopes,
                "policy": {
                    "rootOfTrust": {
                        "policyType": "PublicKey",
                        "publicKey": { "keyData": BASE64_STANDARD.encode(&self.key) },
                    },
                },
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Manifest;

    #[test]
    fn policy_is_a_manifest_of_the_release() {
        let key = ImageKey {
            key: b"PEM".to_vec(),
            scopes: vec!["quay.example/release".to_owned()],
        };
        let manifests = Manifest::parse(FILE, &key.print()).unwrap();
        let [manifest] = manifests.as_slice() else {
            panic!("{manifests:?}");
        };
        assert_eq!(
            manifest.id.to_string(),
            "ClusterImagePolicy.config.openshift.io openshift"
        );
        assert!(manifest.selection().profiles.contains(PROFILE));
        let key = manifest
            .object
            .pointer("/spec/policy/rootOfTrust/publicKey/keyData");
        assert_eq!(key, Some(&json!(BASE64_STANDARD.encode("PEM"))));
    }
}
