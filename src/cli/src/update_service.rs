//! Requests to an update service.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::blocks::shortened;
use crate::cluster_version;
use crate::kubeconfig::ClusterArgs;

/// The service that clusters ask where ClusterVersion names none.
const DEFAULT_SERVICE: &str = "https://api.openshift.com/api/upgrades_info/v1/graph";

/// How long an answer may take.
const WITHIN: Duration = Duration::from_mins(1);

/// Most bytes of an answer. The largest real one has 370 kB.
const MOST_BYTES: usize = 64 << 20;

/// Which update service is asked, and for what.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Update service")]
pub struct ServiceArgs {
    /// Update service [default: spec.upstream of the cluster's ClusterVersion; without a cluster
    /// the public one]
    #[arg(long, value_name = "ADDRESS")]
    pub upstream: Option<String>,
    /// Authorities in PEM that the update service's certificate is checked against [default: the
    /// system's]
    #[arg(long, value_name = "FILE")]
    pub certificate_authority: Option<PathBuf>,
    /// Architecture
    #[arg(long, value_name = "ARCH", default_value = "amd64")]
    pub arch: String,
}

impl ServiceArgs {
    /// The address of the service: the one that is named, the cluster's, or the public one.
    ///
    /// # Errors
    /// The cluster cannot be asked.
    pub(crate) async fn address(&self, cluster: &ClusterArgs) -> anyhow::Result<String> {
        match &self.upstream {
            Some(address) => Ok(address.clone()),
            None => upstream(cluster).await,
        }
    }
}

/// The update service of the cluster; the public one where no cluster is named.
async fn upstream(cluster: &ClusterArgs) -> anyhow::Result<String> {
    if !cluster.is_there() {
        return Ok(DEFAULT_SERVICE.to_owned());
    }
    let version = cluster_version::read(&cluster.access()?).await?;
    let named = version.text("/spec/upstream");
    Ok(if named.is_empty() {
        DEFAULT_SERVICE.to_owned()
    } else {
        named.to_owned()
    })
}

/// Address of a channel's graph.
///
/// # Errors
/// The service's address is none.
pub(crate) fn question(service: &str, channel: &str, arch: &str) -> anyhow::Result<reqwest::Url> {
    let mut url = reqwest::Url::parse(service)
        .with_context(|| format!("update service {service:?} is no address"))?;
    url.query_pairs_mut()
        .append_pair("channel", channel)
        .append_pair("arch", arch);
    Ok(url)
}

/// The body of an answer.
///
/// # Errors
/// The service does not answer, or with an error, or with too much.
pub(crate) async fn ask(url: &str, authority: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    // A provider that is there already stays.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut client = reqwest::Client::builder()
        .user_agent(concat!("slipway/", env!("CARGO_PKG_VERSION")))
        .timeout(WITHIN);
    if let Some(path) = authority {
        let failed = || format!("cannot read {}", path.display());
        let bundle = std::fs::read(path).with_context(failed)?;
        let authorities = reqwest::Certificate::from_pem_bundle(&bundle);
        let authorities = authorities.with_context(|| format!("file {}", path.display()))?;
        client = client.tls_certs_only(authorities);
    }
    let client = client.build().context("cannot make an HTTP client")?;
    let failed = || format!("cannot read {url}");
    let request = client.get(url).header("accept", "application/json");
    let response = request.send().await.map_err(reqwest::Error::without_url);
    let mut response = response.with_context(failed)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.with_context(failed)? {
        if body.len() + chunk.len() > MOST_BYTES {
            bail!("{url} answers more than {MOST_BYTES} bytes");
        }
        body.extend_from_slice(&chunk);
    }
    if !status.is_success() {
        bail!("{url} answers {status}: {}", said(&body));
    }
    Ok(body)
}

/// What an error of an update service says, as far as it fits a line.
fn said(body: &[u8]) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let value = parsed.as_ref().and_then(|body| body["value"].as_str());
    match value {
        Some(value) => value.to_owned(),
        None => shortened(&String::from_utf8_lossy(body), 200),
    }
}

#[cfg(test)]
pub(crate) mod fixture;
