//! Certificates that a cluster rotates under its nodes, outside of configurations, and the pull
//! secret of its own registry: which files a node has of them, and what is in those.
//!
//! Source: `docs/reference/daemon.md`, "Certificates".

use std::collections::BTreeMap;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::paths::{CLOUD_CA, KUBELET_CA, REGISTRY_CERTIFICATES, REGISTRY_SECRET};
use crate::plan::Mode;
use crate::pull;

/// Where container tools look for a registry's CA, one directory a registry.
pub const REGISTRIES: &str = REGISTRY_CERTIFICATES;

/// Mode of a new file of certificates, and of one with a secret.
const MODE: Mode = Mode(0o644);
const SECRET_MODE: Mode = Mode(0o600);

/// File of a registry's CA in its directory.
const REGISTRY: &str = "ca.crt";

/// First line of a registry's file, by which it is known as ours when its registry is not named any
/// more. Text before a certificate means nothing to who reads PEM.
const OURS: &str = "# Of ControllerConfig machine-config-controller; removed when that names this registry no more.\n";

/// What a cluster tells its nodes.
#[derive(Debug, Clone, Default)]
pub struct ClusterCertificates<'a> {
    /// `spec.kubeAPIServerServingCAData`; empty says nothing.
    pub kubelet: &'a [u8],
    /// `spec.cloudProviderCAData`; empty says nothing.
    pub cloud: &'a [u8],
    /// Those of registries. Two of one registry are both trusted.
    pub registries: Vec<RegistryCertificates<'a>>,
    /// `spec.internalRegistryPullSecret`; empty says nothing.
    pub pull_secret: &'a [u8],
}

#[derive(Debug, Clone)]
pub struct RegistryCertificates<'a> {
    /// JSON path of the item.
    pub field: String,
    /// `file`: the registry's host, `..` before its port.
    pub file: &'a str,
    /// `data`, PEM.
    pub data: &'a [u8],
}

/// A file as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    pub path: String,
    pub pem: Vec<u8>,
    /// Whether it is written only where the directory of all registries is.
    pub is_registry: bool,
    /// Mode of a file that was not there. One that was keeps its own.
    pub mode: Mode,
}

/// What a node should have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesiredCertificates {
    /// Files, in a stable order.
    pub bundles: Vec<Bundle>,
    /// Directories below [`REGISTRIES`] of the registries that the cluster names, also where their
    /// certificates are refused: what they hold stays.
    pub registries: Vec<String>,
    /// What is refused: the field and why. What is on the host stays in force.
    pub refused: Vec<String>,
}

/// What a node should have by what its cluster tells it.
pub fn desired(cluster: &ClusterCertificates<'_>) -> DesiredCertificates {
    let mut desired = DesiredCertificates::default();
    for (field, path, pem) in [
        (
            "spec.kubeAPIServerServingCAData",
            KUBELET_CA,
            cluster.kubelet,
        ),
        ("spec.cloudProviderCAData", CLOUD_CA, cluster.cloud),
    ] {
        if pem.is_empty() {
            continue;
        }
        match check(pem) {
            Ok(()) => desired.bundles.push(Bundle {
                path: path.to_owned(),
                pem: lines(pem),
                is_registry: false,
                mode: MODE,
            }),
            Err(why) => desired.refused.push(format!("{field} {why}")),
        }
    }
    let secret = cluster.pull_secret;
    if !secret.is_empty() {
        match pull::check(REGISTRY_SECRET, secret) {
            Ok(()) => desired.bundles.push(Bundle {
                path: REGISTRY_SECRET.to_owned(),
                pem: secret.to_vec(),
                is_registry: false,
                mode: SECRET_MODE,
            }),
            Err(why) => {
                let field = "spec.internalRegistryPullSecret";
                desired
                    .refused
                    .push(format!("{field} cannot be used: {why}"));
            }
        }
    }
    let mut registries: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for RegistryCertificates { field, file, data } in &cluster.registries {
        let Some(host) = host(file) else {
            let why = "is no host of a registry";
            desired.refused.push(format!("{field}.file {file:?} {why}"));
            continue;
        };
        desired.registries.push(host.clone());
        match check(data) {
            Ok(()) => registries.entry(host).or_default().extend(lines(data)),
            Err(why) => desired.refused.push(format!("{field}.data {why}")),
        }
    }
    desired.registries.sort_unstable();
    desired.registries.dedup();
    for (host, pem) in registries {
        desired.bundles.push(Bundle {
            path: registry_path(&host),
            pem: [OURS.as_bytes(), &pem].concat(),
            is_registry: true,
            mode: MODE,
        });
    }
    desired
}

/// Path of the file of a registry's CA; `host` is the name of its directory.
pub fn registry_path(host: &str) -> String {
    format!("{REGISTRIES}/{host}/{REGISTRY}")
}

/// Whether a registry's file was written from a ControllerConfig.
pub fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(OURS.as_bytes())
}

/// Whether this is a bundle of certificates in PEM.
///
/// # Errors
/// What is wrong with it, to follow its name.
pub fn check(pem: &[u8]) -> Result<(), &'static str> {
    let mut count = 0_usize;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let is_der = certificate.is_ok_and(|certificate| is_whole(&certificate));
        if !is_der {
            return Err("has a malformed certificate");
        }
        count += 1;
    }
    if count == 0 {
        return Err("holds no certificate in PEM");
    }
    Ok(())
}

/// Whether bytes are one DER sequence from the first to the last, as a certificate is. Source:
/// X.690, 8.1.3 and 8.9.
fn is_whole(der: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    let [SEQUENCE, first, rest @ ..] = der else {
        return false;
    };
    let bytes = usize::from(first & 0x7f);
    if first & 0x80 == 0 {
        return rest.len() == bytes;
    }
    match rest.split_at_checked(bytes) {
        Some((length, content)) if (1..=4).contains(&bytes) => {
            let length = length
                .iter()
                .fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
            content.len() == length
        }
        Some(_) | None => false,
    }
}

/// A bundle that another may follow.
fn lines(pem: &[u8]) -> Vec<u8> {
    let mut lines = pem.trim_ascii().to_vec();
    lines.push(b'\n');
    lines
}

/// Directory of a registry: names of files in a ConfigMap hold no `:`, so `..` stands before a
/// port.
fn host(file: &str) -> Option<String> {
    let host = file.replacen("..", ":", 1);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    let is_one = host.bytes().all(plain) && host.bytes().any(|byte| byte.is_ascii_alphanumeric());
    is_one.then_some(host)
}

#[cfg(test)]
mod tests;
