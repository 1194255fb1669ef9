//! Requests to servers outside of the cluster, by its proxy and with its authorities.

use std::time::Duration;

use reqwest::{Certificate, Client, NoProxy, Proxy};

use crate::builder::ClusterProxy;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(30);

/// What the program calls itself.
pub(crate) const USER_AGENT: &str = concat!("ClusterVersionOperator/", env!("CARGO_PKG_VERSION"));

/// Why an answer could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting of the cluster cannot be used.
    #[error("cannot use {what}")]
    Setting {
        /// The object and field.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        source: reqwest::Error,
    },
    /// No client can be made.
    #[error("cannot make an HTTP client")]
    Client(#[source] reqwest::Error),
    /// The server did not answer.
    #[error("cannot read {url}")]
    Request {
        /// The address.
        url: String,
        /// What went wrong.
        #[source]
        source: reqwest::Error,
    },
    /// The answer is larger than any that is expected.
    #[error("{url} answers more than {max_bytes} bytes")]
    TooLarge {
        /// The address.
        url: String,
        /// The limit.
        max_bytes: usize,
    },
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status, such as `404 Not Found`.
    pub status: http::StatusCode,
    /// The body.
    pub body: Vec<u8>,
}

/// Requests by one set of settings.
#[derive(Debug, Clone)]
pub struct HttpFetcher(Client);

impl HttpFetcher {
    /// Goes by the cluster's proxy. `bundle` is PEM and takes the place of the system's
    /// authorities.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Client`].
    pub fn new(proxy: &ClusterProxy, bundle: Option<&str>) -> Result<Self, Error> {
        let none = NoProxy::from_string(&proxy.none);
        let mut client = Client::builder()
            .no_proxy()
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT);
        let setting = |what| move |source| Error::Setting { what, source };
        if !proxy.http.is_empty() {
            let http = Proxy::http(&proxy.http);
            let http = http.map_err(setting("Proxy cluster, status.httpProxy"))?;
            client = client.proxy(http.no_proxy(none.clone()));
        }
        if !proxy.https.is_empty() {
            let https = Proxy::https(&proxy.https);
            let https = https.map_err(setting("Proxy cluster, status.httpsProxy"))?;
            client = client.proxy(https.no_proxy(none));
        }
        if let Some(bundle) = bundle.filter(|bundle| !bundle.trim().is_empty()) {
            let certificates = Certificate::from_pem_bundle(bundle.as_bytes());
            let what = "the certificates of key ca-bundle.crt";
            client = client.tls_certs_only(certificates.map_err(setting(what))?);
        }
        client.build().map(Self).map_err(Error::Client)
    }

    /// Reads an address. Any status is an answer.
    ///
    /// # Errors
    /// [`Error::Request`], [`Error::TooLarge`].
    pub async fn get(
        &self,
        url: &str,
        headers: &[(http::HeaderName, String)],
        max_bytes: usize,
        limit: Duration,
    ) -> Result<HttpAnswer, Error> {
        let failed = |source: reqwest::Error| Error::Request {
            url: url.to_owned(),
            // The message names it already.
            source: source.without_url(),
        };
        let mut request = self.0.get(url).timeout(limit);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut response = request.send().await.map_err(failed)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > max_bytes {
                let url = url.to_owned();
                return Err(Error::TooLarge { url, max_bytes });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(HttpAnswer {
            status: response.status(),
            body,
        })
    }
}
