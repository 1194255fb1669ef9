//! Clients of the API server: users with static tokens, random for each run.

use std::fs::File;
use std::io::Read as _;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A user of the token file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) groups: &'static str,
    token: String,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl User {
    /// A user whose token the API server made.
    pub(super) fn with_token(name: impl Into<String>, token: String) -> Self {
        Self {
            name: name.into(),
            groups: "",
            token,
        }
    }

    /// A user with a token of 128 random bits.
    pub(super) fn new(name: impl Into<String>, groups: &'static str) -> Result<Self> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom")
            .and_then(|mut random| random.read_exact(&mut bytes))
            .context("cannot read random bytes")?;
        let token = format!("{:032x}", u128::from_ne_bytes(bytes));
        Ok(Self {
            name: name.into(),
            groups,
            token,
        })
    }

    /// The kubelet's user of a node, which the Node authorizer and NodeRestriction know.
    pub(super) fn node(node: &str) -> Result<Self> {
        Self::new(format!("system:node:{node}"), "system:nodes")
    }

    /// A kubeconfig for this user. Holds everything itself, so that it works on a host as well.
    pub(super) fn kubeconfig(&self, server: &str, ca_pem: &[u8]) -> String {
        self.kubeconfig_with(server, ca_pem, &format!("token: {}", self.token))
    }

    /// A kubeconfig for this user, known by a certificate that is in a PEM file with its key. A
    /// relative path is one from the kubeconfig's folder.
    pub(super) fn certificate_kubeconfig(&self, server: &str, ca_pem: &[u8], file: &str) -> String {
        let pair = format!("client-certificate: {file}\n    client-key: {file}");
        self.kubeconfig_with(server, ca_pem, &pair)
    }

    fn kubeconfig_with(&self, server: &str, ca_pem: &[u8], credential: &str) -> String {
        let name = &self.name;
        let ca = STANDARD.encode(ca_pem);
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: \"{name}\"
  user:
    {credential}
contexts:
- name: lab
  context:
    cluster: lab
    user: \"{name}\"
current-context: lab
"
        )
    }
}

/// The API server's `--token-auth-file`: one line a user, token, name, uid, groups.
pub(super) fn token_file<'a>(users: impl IntoIterator<Item = &'a User>) -> String {
    let lines = users.into_iter().map(
        |User {
             name,
             groups,
             token,
         }| { format!("{token},{name},{name},\"{groups}\"\n") },
    );
    lines.collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_in_the_nodes_group_under_its_own_token() {
        let (a, b) = (User::node("a").unwrap(), User::node("b").unwrap());
        assert_ne!(a.token, b.token);
        let file = token_file([&a, &b]);
        let first = file.lines().next().unwrap();
        assert_eq!(
            first,
            format!("{},system:node:a,system:node:a,\"system:nodes\"", a.token)
        );
    }

    #[test]
    fn the_kubeconfig_is_read_by_the_client_library() {
        let user = User::node("a").unwrap();
        let text = user.kubeconfig("https://10.0.0.1:6443", b"pem");
        let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        assert_eq!(config.auth_infos[0].name, "system:node:a");
        assert_eq!(
            config.clusters[0]
                .cluster
                .as_ref()
                .unwrap()
                .server
                .as_deref(),
            Some("https://10.0.0.1:6443")
        );
    }

    #[test]
    fn a_kubeconfig_with_a_certificate_has_no_token() {
        let user = User::node("a").unwrap();
        let text = user.certificate_kubeconfig("https://10.0.0.1:6443", b"pem", "pki/a.pem");
        let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let info = config.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(info.client_certificate.as_deref(), Some("pki/a.pem"));
        assert_eq!(info.client_key.as_deref(), Some("pki/a.pem"));
        assert!(info.token.is_none());
    }

    #[test]
    fn a_printed_user_keeps_its_token() {
        let user = User::node("a").unwrap();
        assert!(!format!("{user:?}").contains(&user.token));
    }
}
