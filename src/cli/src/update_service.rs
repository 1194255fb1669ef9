//! Requests to an update service.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use release::update_graph::DEFAULT_SERVICE;
use web::update_service::{GraphRequest, graph};
use web::{Authorities, ClientSettings, Proxies, WebClient};

use crate::cluster_version;
use crate::decide::blocks::shortened;
use crate::kubeconfig::ClusterArgs;

/// The update service, and the parameters of its requests.
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
    /// The cluster cannot be read.
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

/// The graph of a channel, as the service sends it, and its address.
///
/// # Errors
/// The service does not respond, or with an error, or with too much.
pub(crate) async fn read(
    service: &str,
    channel: &str,
    arguments: &ServiceArgs,
) -> anyhow::Result<(String, Vec<u8>)> {
    let request = GraphRequest {
        service,
        architecture: &arguments.arch,
        channel,
        cluster: None,
    };
    let url = request.url()?;
    let authority = arguments.certificate_authority.as_deref();
    let authority = authority.map(|path| {
        let bundle = std::fs::read(path);
        let bundle = bundle.with_context(|| format!("cannot read {}", path.display()))?;
        anyhow::Ok((format!("file {}", path.display()), bundle))
    });
    let authority = authority.transpose()?;
    let client = WebClient::new(&ClientSettings {
        user_agent: concat!("slipway/", env!("CARGO_PKG_VERSION")),
        proxies: Proxies::Environment,
        authorities: match &authority {
            None => Authorities::System,
            Some((name, bundle)) => Authorities::Only { name, bundle },
        },
        host: None,
    })?;
    let response = graph(&client, &url).await?;
    if !response.status.is_success() {
        let (status, excerpt) = (response.status, excerpt(&response.body));
        bail!("{url} answers {status}: {excerpt}");
    }
    Ok((url, response.body))
}

/// What an error of an update service says, as far as it fits a line.
fn excerpt(body: &[u8]) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let value = parsed.as_ref().and_then(|body| body["value"].as_str());
    match value {
        Some(value) => value.to_owned(),
        None => shortened(&String::from_utf8_lossy(body), 200),
    }
}

#[cfg(test)]
pub(crate) mod fixture;
