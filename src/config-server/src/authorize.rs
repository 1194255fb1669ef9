//! The identity behind a request, and whether it may have a pool's configuration.
//!
//! A machine shows a bootstrap token, which the API server reviews, or a client certificate, which
//! the TLS handshake has verified. Either is an identity like any other of the cluster, so RBAC
//! decides which pool's configuration it may `get`: subresource `ignition` of the
//! MachineConfigPool. Source: `docs/reference/config-server.md`, "Who may ask".

use std::collections::BTreeMap;
use std::sync::Arc;

use chassis::http::{Peer, certificate};
use chassis::report::Chain;
use cluster::access::Access;
use cluster::{review, wire};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::TokenReviewStatus;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::refusal::Refusal;

/// Where the API server says which token of its account a request came with.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// An identity, as the API server knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
    /// Tells this token or certificate from others of the same user; no secret.
    pub(crate) credential: String,
}

impl Identity {
    /// The node whose kubelet this is.
    pub(crate) fn node(&self) -> Option<&str> {
        let is_node = self.groups.iter().any(|group| group == "system:nodes");
        self.user
            .strip_prefix("system:node:")
            .filter(|name| is_node && !name.is_empty())
    }
}

/// Finds out who asks.
#[derive(Debug)]
pub(crate) struct Authorizer {
    access: Arc<Access>,
    /// Audiences that a token must be made for. One for the API server is not for this server, so
    /// that a pod's own token opens nothing here, and a machine's nothing there.
    audiences: Vec<String>,
}

impl Authorizer {
    pub(crate) const fn new(access: Arc<Access>, audiences: Vec<String>) -> Self {
        Self { access, audiences }
    }

    /// The identity behind a request.
    ///
    /// # Errors
    /// [`Refusal::Unauthenticated`]; [`Refusal::NotReady`] where the API server does not respond.
    pub(crate) async fn identify(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<Identity, Refusal> {
        if let Some(certificate) = &peer.certificate {
            return of_certificate(certificate);
        }
        let token = bearer(headers)?;
        let status = review::token(&self.access, token, &self.audiences)
            .await
            .map_err(|error| unavailable("review a token", &error))?;
        of_review(status, token, &self.audiences)
    }

    /// Whether an identity may have the configuration of a pool.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`]; [`Refusal::NotReady`] where the API server does not respond.
    pub(crate) async fn admit(&self, identity: &Identity, pool: &str) -> Result<(), Refusal> {
        let spec = json!({
            "user": identity.user,
            "uid": identity.uid,
            "groups": identity.groups,
            "extra": identity.extra,
            "resourceAttributes": {
                "group": api::machineconfiguration::GROUP,
                "resource": "machineconfigpools",
                "subresource": "ignition",
                "name": pool,
                "verb": "get",
            },
        });
        let is_allowed = review::access(&self.access, &spec)
            .await
            .map_err(|error| unavailable("review the access", &error))?;
        if is_allowed {
            return Ok(());
        }
        Err(Refusal::Forbidden(format!(
            "{:?} may not get machineconfigpools/ignition of {pool:?}",
            identity.user
        )))
    }
}

/// What the API server refuses or does not respond to is not the machine's fault.
pub(crate) fn unavailable(what: &str, error: &wire::Error) -> Refusal {
    Refusal::NotReady(format!("cannot {what}: {}", Chain(error)))
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let refused = |why: &str| Refusal::Unauthenticated(why.to_owned());
    if !headers.contains_key(AUTHORIZATION) {
        return Err(refused("there is none"));
    }
    chassis::http::bearer(headers).ok_or_else(|| refused("it is no bearer token"))
}

/// The identity that the API server found, made for one of the audiences.
fn of_review(
    status: TokenReviewStatus,
    token: &str,
    audiences: &[String],
) -> Result<Identity, Refusal> {
    let is_for_us = (status.audiences.iter().flatten()).any(|one| audiences.contains(one));
    if status.authenticated != Some(true) || !is_for_us {
        let why = status.error.unwrap_or_default();
        let why = if why.is_empty() {
            "the token is not valid for this server".to_owned()
        } else {
            why
        };
        return Err(Refusal::Unauthenticated(why));
    }
    let user = status.user.unwrap_or_default();
    let extra = user.extra.unwrap_or_default();
    let id = extra.get(CREDENTIAL_ID).and_then(|ids| ids.first());
    let credential = id.cloned().unwrap_or_else(|| digest(token.as_bytes()));
    Ok(Identity {
        user: user.username.unwrap_or_default(),
        uid: user.uid,
        groups: user.groups.unwrap_or_default(),
        extra,
        credential,
    })
}

/// The identity of a certificate that the handshake has verified: the API server makes a user of
/// its common name and groups of its organisations.
fn of_certificate(der: &[u8]) -> Result<Identity, Refusal> {
    let refused = |why: &str| Refusal::Unauthenticated(why.to_owned());
    let subject = certificate::subject(der)
        .ok_or_else(|| refused("the subject of the certificate cannot be read"))?;
    let user =
        (subject.common_name).ok_or_else(|| refused("the certificate has no common name"))?;
    let mut groups = subject.organizations;
    groups.push("system:authenticated".to_owned());
    Ok(Identity {
        user,
        groups,
        credential: digest(der),
        ..Identity::default()
    })
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn certificate_names_user_and_groups() {
        let mut params = CertificateParams::default();
        let name = &mut params.distinguished_name;
        name.push(DnType::OrganizationName, "system:nodes");
        name.push(DnType::CommonName, "system:node:worker-0");
        let key = KeyPair::generate().unwrap();
        let der = params.self_signed(&key).unwrap().der().to_vec();
        let identity = of_certificate(&der).unwrap();
        assert_eq!(identity.user, "system:node:worker-0");
        assert_eq!(identity.groups, ["system:nodes", "system:authenticated"]);
        assert_eq!(identity.node(), Some("worker-0"));
        let alone = Identity {
            groups: Vec::new(),
            ..identity
        };
        assert_eq!(alone.node(), None);
        assert!(of_certificate(b"no certificate").is_err());
    }

    #[test]
    fn request_without_a_bearer_token_has_no_identity() {
        let mut headers = HeaderMap::new();
        assert!(bearer(&headers).is_err());
        headers.insert(AUTHORIZATION, "Basic YTpi".parse().unwrap());
        assert!(bearer(&headers).is_err());
        headers.insert(AUTHORIZATION, "bearer abc".parse().unwrap());
        assert_eq!(bearer(&headers).unwrap(), "abc");
    }

    fn reviewed(status: &serde_json::Value) -> Result<Identity, Refusal> {
        let status = serde_json::from_value(status.clone()).unwrap_or_default();
        of_review(status, "secret", &["machine-config-server".to_owned()])
    }

    #[test]
    fn token_is_of_the_reviewed_user_if_it_is_for_this_server() {
        let user = json!({"username": "u", "groups": ["g"], "extra": {CREDENTIAL_ID: ["JTI=1"]}});
        let audiences = json!(["machine-config-server"]);
        let identity =
            reviewed(&json!({"authenticated": true, "user": user, "audiences": audiences}));
        let identity = identity.unwrap();
        assert_eq!(
            (identity.user.as_str(), identity.credential.as_str()),
            ("u", "JTI=1")
        );
        // Without an id, the digest tells tokens apart; the token itself is kept nowhere.
        let user = json!({"username": "u"});
        let plain = reviewed(&json!({"authenticated": true, "user": user, "audiences": audiences}));
        assert!(
            plain
                .unwrap()
                .credential
                .starts_with("sha256:2bb80d537b1da3e3")
        );
        // An API server without audiences reviews tokens for itself.
        let foreign = reviewed(&json!({"authenticated": true, "user": user}));
        assert!(matches!(foreign, Err(Refusal::Unauthenticated(_))));
        let refused = reviewed(&json!({"authenticated": false, "error": "expired"}));
        assert!(refused.unwrap_err().to_string().ends_with("expired"));
    }
}
