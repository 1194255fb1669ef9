//! Questions to the cluster's metrics: one query of PromQL with one sample, and other reads of the
//! same server.
//!
//! It must not know: what is asked, and what follows from an answer.
//!
//! - [`partial`]: whether an answer is of all that was asked
//! - [`sample`]: an answer that is one sample of 1 or 0
//!
//! The Service `thanos-querier` answers unless another address is given.

pub mod partial;
pub mod sample;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chassis::report::Chain;
use cluster::access::Access;
use cluster::wire::escape;
use http::StatusCode;
use http::header::AUTHORIZATION;
use reqwest::{Certificate, Client};
use serde_json::Value;

/// How long a connection, and an answer, may take.
const CONNECT: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_mins(5);

/// Largest answer that is read.
const MAX_BYTES: usize = 1 << 20;

/// Host of the cluster's metrics, by its Service.
const HOST: &str = "thanos-querier.openshift-monitoring.svc.cluster.local";
const PORT: u16 = 9091;

/// Path of that Service.
const SERVICE: &str = "/api/v1/namespaces/openshift-monitoring/services/thanos-querier";

/// Who is asked.
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

/// What it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsAnswer {
    /// The status, such as `404 Not Found`.
    pub status: StatusCode,
    /// The body.
    pub body: Vec<u8>,
}

impl MetricsServer {
    /// Its address.
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
    /// Why there is no such answer.
    pub async fn sample(&self, access: &Access, query: &str) -> Result<bool, String> {
        let path = format!("/api/v1/query?query={}", escape(query));
        let answer = self.read(access, &path).await?;
        sample::read(&answer.body).map_err(|why| {
            if answer.status.is_success() {
                why
            } else {
                format!("{}: {why}", answer.status)
            }
        })
    }

    /// Reads a path of it. Any status is an answer. It is asked to refuse where it knows a part
    /// only; [`partial::check_whole`] tells whether it did. Authority and token are read anew, so
    /// that a rotation needs no restart.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn read(&self, access: &Access, path: &str) -> Result<MetricsAnswer, String> {
        let said = |error: &dyn std::error::Error| Chain(error).to_string();
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path);
            text.map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let bundle = self.authority.as_deref().map(read).transpose()?;
        let token = self.token.as_deref().map(read).transpose()?;
        let host = match &self.url {
            Some(_) => None,
            None => Some(address(access).await?),
        };
        let client = client(self.user_agent, bundle.as_deref(), host);
        let client = client.map_err(|error| said(&error))?;
        let url = self.url(path);
        let mut request = client.get(&url).timeout(ANSWER);
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.trim()));
        }
        let failed = |error: reqwest::Error| {
            // The message names it already.
            format!("cannot read {url}: {}", Chain(&error.without_url()))
        };
        let mut response = request.send().await.map_err(failed)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MAX_BYTES {
                return Err(format!("{url} answers more than {MAX_BYTES} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(MetricsAnswer {
            status: response.status(),
            body,
        })
    }
}

/// Address of the Service: a host's resolver does not know its name.
async fn address(access: &Access) -> Result<SocketAddr, String> {
    let service: Result<Value, _> = access.get(SERVICE).await;
    let service = service.map_err(|error| Chain(&error).to_string())?;
    let address = service.pointer("/spec/clusterIP").and_then(Value::as_str);
    let address: Option<IpAddr> = address.and_then(|address| address.parse().ok());
    let address = address.ok_or("Service thanos-querier has no clusterIP")?;
    Ok((address, PORT).into())
}

/// A client without a proxy: what it asks is in the cluster.
fn client(
    user_agent: &str,
    bundle: Option<&str>,
    host: Option<SocketAddr>,
) -> Result<Client, reqwest::Error> {
    let mut client = Client::builder()
        .no_proxy()
        .user_agent(user_agent)
        .connect_timeout(CONNECT);
    if let Some(bundle) = bundle.filter(|bundle| !bundle.trim().is_empty()) {
        client = client.tls_certs_only(Certificate::from_pem_bundle(bundle.as_bytes())?);
    }
    if let Some(address) = host {
        client = client.resolve(HOST, address);
    }
    client.build()
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
