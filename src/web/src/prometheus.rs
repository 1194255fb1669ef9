//! The cluster's metrics: one query of PromQL with one sample, and other reads of the same server.
//!
//! The Service `thanos-querier` responds unless another address is given.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::access::Access;
use cluster::path;
use cluster::wire::{self, escape};
use http::StatusCode;
use http::header::AUTHORIZATION;
use release::prometheus::partial;
use release::prometheus::sample::{self, InvalidSample};
use serde_json::Value;

use crate::client::{Authorities, ClientSettings, Proxies, WebClient};
use crate::request::{self, WebRequest, WebResponse};

/// How long a response may take.
const LIMIT: Duration = Duration::from_mins(5);

/// Largest response that is read.
const MAX_BYTES: usize = 1 << 20;

/// Host of the cluster's metrics, by its Service.
const HOST: &str = "thanos-querier.openshift-monitoring.svc.cluster.local";
const PORT: u16 = 9091;

#[derive(Debug, Clone, Default)]
pub struct MetricsServer {
    /// What the program calls itself.
    pub user_agent: &'static str,
    /// Its address, without a slash at the end; none: the Service `thanos-querier`.
    pub url: Option<String>,
    /// Its authorities, as PEM, in place of the system's.
    pub authority: Option<PathBuf>,
    /// File of the token that is sent to it.
    pub token: Option<PathBuf>,
}

/// Why there is no response, or no sample in it.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    #[error("cannot read {}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Service(#[from] wire::Error),
    #[error("Service thanos-querier has no clusterIP")]
    NoAddress,
    #[error(transparent)]
    Request(#[from] request::Error),
    #[error("{status}")]
    Status {
        status: StatusCode,
        source: InvalidSample,
    },
    #[error(transparent)]
    Sample(#[from] InvalidSample),
}

impl MetricsServer {
    pub fn base(&self) -> String {
        let url = self.url.clone();
        url.unwrap_or_else(|| format!("https://{HOST}:{PORT}"))
    }

    /// Where a path of it is read.
    fn url(&self, path: &str) -> String {
        let mark = if path.contains('?') { '&' } else { '?' };
        format!("{}{path}{mark}{}", self.base(), partial::REFUSED)
    }

    /// Whether the one sample of a query is 1. The API server knows the address of the Service.
    ///
    /// # Errors
    /// There is no such sample.
    pub async fn sample(&self, access: &Access, query: &str) -> Result<bool, MetricsError> {
        let path = format!("/api/v1/query?query={}", escape(query));
        let response = self.read(access, &path).await?;
        sample::read(&response.body).map_err(|source| match response.status {
            status if status.is_success() => source.into(),
            status => MetricsError::Status { status, source },
        })
    }

    /// Reads a path of it. Any status is a response. The request forbids partial results;
    /// [`partial::check_whole`] tells whether the server obeyed. Authority and token are read each
    /// time, so that a rotation needs no restart.
    ///
    /// # Errors
    /// There is no response.
    pub async fn read(&self, access: &Access, path: &str) -> Result<WebResponse, MetricsError> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|source| MetricsError::Read {
                path: path.to_owned(),
                source,
            })
        };
        let bundle = self.authority.as_deref().map(|path| {
            let name = format!("file {}", path.display());
            read(path).map(|bundle| (name, bundle))
        });
        let bundle = bundle.transpose()?;
        let token = self.token.as_deref().map(read).transpose()?;
        let host = match &self.url {
            Some(_) => None,
            None => Some((HOST, address(access).await?)),
        };
        let client = WebClient::new(&ClientSettings {
            user_agent: self.user_agent,
            // It is in the cluster.
            proxies: Proxies::None,
            authorities: match &bundle {
                None => Authorities::System,
                Some((name, bundle)) => Authorities::Only {
                    name,
                    bundle: bundle.as_bytes(),
                },
            },
            host,
        });
        let url = self.url(path);
        let mut request = WebRequest::get(&url, LIMIT, MAX_BYTES);
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.trim()));
        }
        Ok(client?.send(&request).await?)
    }
}

/// Address of the Service: a host's resolver does not know its name.
async fn address(access: &Access) -> Result<SocketAddr, MetricsError> {
    let services = path::untyped("v1", Some("openshift-monitoring"), "services");
    let service: Value = access.get(&format!("{services}/thanos-querier")).await?;
    let address = service.pointer("/spec/clusterIP").and_then(Value::as_str);
    let address: Option<IpAddr> = address.and_then(|address| address.parse().ok());
    let address = address.ok_or(MetricsError::NoAddress)?;
    Ok((address, PORT).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_answers_are_declined() {
        let server = MetricsServer {
            url: Some("http://a:1".to_owned()),
            ..MetricsServer::default()
        };
        let table = [
            ("/api/v1/alerts", "/api/v1/alerts?partial_response=false"),
            (
                "/api/v1/query?query=up",
                "/api/v1/query?query=up&partial_response=false",
            ),
        ];
        for (path, expected) in table {
            assert_eq!(server.url(path), format!("http://a:1{expected}"));
        }
    }
}
