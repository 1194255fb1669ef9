//! The graph of a channel, from an update service.

use std::time::Duration;

use cluster::wire::escape;
use http::header::ACCEPT;
use reqwest::Url;

use crate::client::WebClient;
use crate::request::{Error, WebRequest, WebResponse};

/// How long a response may take.
const LIMIT: Duration = Duration::from_mins(5);

/// Largest response. The largest real one has 370 kB.
const MAX_BYTES: usize = 64 << 20;

/// What a graph is requested for.
#[derive(Debug, Clone, Copy)]
pub struct GraphRequest<'a> {
    /// Address of the service. What its own query has stays.
    pub service: &'a str,
    /// Architecture, such as `amd64`.
    pub architecture: &'a str,
    pub channel: &'a str,
    /// UUID and version of a cluster; none for a person.
    pub cluster: Option<(&'a str, &'a str)>,
}

impl GraphRequest<'_> {
    /// The address to read.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn url(&self) -> Result<String, Error> {
        let service = self.service.split('#').next().unwrap_or_default();
        if Url::parse(service).is_err() {
            return Err(Error::Address(self.service.to_owned()));
        }
        let separator = if service.contains('?') { '&' } else { '?' };
        let (architecture, channel) = (escape(self.architecture), escape(self.channel));
        let cluster = self.cluster.map(|(id, version)| {
            let (id, version) = (escape(id), escape(version));
            format!("&id={id}&version={version}")
        });
        let cluster = cluster.unwrap_or_default();
        Ok(format!(
            "{service}{separator}arch={architecture}&channel={channel}{cluster}"
        ))
    }
}

/// Reads a graph. Any status is a response.
///
/// # Errors
/// As of [`WebClient::send`].
pub async fn graph(client: &WebClient, url: &str) -> Result<WebResponse, Error> {
    let request = WebRequest::get(url, LIMIT, MAX_BYTES).header(ACCEPT, "application/json");
    client.send(&request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_what_is_known_in_its_query() {
        let url = |service, cluster| {
            let request = GraphRequest {
                service,
                architecture: "amd64",
                channel: "stable-4.18 & more",
                cluster,
            };
            request.url()
        };
        let channel = "stable-4.18%20%26%20more";
        for (service, begin) in [
            ("https://a/graph", "https://a/graph?"),
            ("https://a/graph?x=1", "https://a/graph?x=1&"),
            ("https://a/graph#part", "https://a/graph?"),
        ] {
            let plain = format!("{begin}arch=amd64&channel={channel}");
            assert_eq!(url(service, None).unwrap(), plain);
            let of_cluster = format!("{plain}&id=1-2&version=4.18.3%2Bx");
            assert_eq!(url(service, Some(("1-2", "4.18.3+x"))).unwrap(), of_cluster);
        }
        for service in ["", "graph", "#a"] {
            assert!(matches!(url(service, None), Err(Error::Address(_))));
        }
    }
}
