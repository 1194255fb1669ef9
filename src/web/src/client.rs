//! A client by its settings.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy};

use crate::request::{Error, WebRequest, WebResponse};

/// How long a connection may take, and after which time a silent one is probed.
const CONNECT: Duration = Duration::from_secs(30);

/// What a client is made with.
#[derive(Debug, Clone, Copy)]
pub struct ClientSettings<'a> {
    pub user_agent: &'a str,
    /// Which proxies it goes by.
    pub proxies: Proxies<'a>,
    /// Who signs the certificates of servers.
    pub authorities: Authorities<'a>,
    /// A host with its address, where the system's resolver does not know it.
    pub host: Option<(&'a str, SocketAddr)>,
}

/// Which proxies a client goes by.
#[derive(Debug, Clone, Copy)]
pub enum Proxies<'a> {
    /// None: the server is in the cluster.
    None,
    /// Those of the process's environment.
    Environment,
    /// Those of the object Proxy `cluster`; empty for none.
    Cluster {
        /// `status.httpProxy`.
        http: &'a str,
        /// `status.httpsProxy`.
        https: &'a str,
        /// `status.noProxy`.
        none: &'a str,
    },
}

/// Who signs the certificates of servers. Bundles are PEM; an empty one counts as none.
#[derive(Debug, Clone, Copy)]
pub enum Authorities<'a> {
    System,
    /// A bundle in their place.
    Only {
        name: &'a str,
        bundle: &'a [u8],
    },
    /// A bundle beside them. A pod may have none of the system.
    And {
        name: &'a str,
        bundle: &'a [u8],
    },
}

/// Sends requests by one set of settings.
#[derive(Debug, Clone)]
pub struct WebClient(Client);

impl WebClient {
    /// # Errors
    /// [`Error::Setting`], [`Error::Client`].
    pub fn new(settings: &ClientSettings<'_>) -> Result<Self, Error> {
        // A provider that is there already stays.
        drop(rustls::crypto::ring::default_provider().install_default());
        let build = |client: ClientBuilder| client.build().map(Self).map_err(Error::Client);
        match settings.authorities {
            Authorities::System => build(settings.builder()?),
            Authorities::Only { name, bundle } => match certificates(name, bundle)? {
                none if none.is_empty() => build(settings.builder()?),
                certificates => build(settings.builder()?.tls_certs_only(certificates)),
            },
            Authorities::And { name, bundle } => {
                let certificates = certificates(name, bundle)?;
                let merged = settings.builder()?.tls_certs_merge(certificates.clone());
                // Without authorities of the system there is still what needs no others.
                build(merged).or_else(|_| build(settings.builder()?.tls_certs_only(certificates)))
            }
        }
    }

    /// Sends a request, and reads the response. Any status is a response.
    ///
    /// # Errors
    /// [`Error::Exchange`], [`Error::TooLarge`].
    pub async fn send(&self, request: &WebRequest<'_>) -> Result<WebResponse, Error> {
        let failed = |source| Error::exchange(request.url, source);
        let mut response = request.on(&self.0).send().await.map_err(failed)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > request.max_bytes {
                return Err(Error::TooLarge {
                    url: request.url.to_owned(),
                    max_bytes: request.max_bytes,
                });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(WebResponse {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body,
        })
    }

    /// Sends a request, and leaves the body of the response unread.
    ///
    /// # Errors
    /// [`Error::Exchange`].
    pub async fn status(&self, request: &WebRequest<'_>) -> Result<http::StatusCode, Error> {
        let response = request.on(&self.0).send().await;
        response
            .map(|response| response.status())
            .map_err(|source| Error::exchange(request.url, source))
    }
}

impl ClientSettings<'_> {
    fn builder(&self) -> Result<ClientBuilder, Error> {
        let mut client = Client::builder()
            .user_agent(self.user_agent)
            .connect_timeout(CONNECT)
            .tcp_keepalive(CONNECT);
        if let Some((name, address)) = self.host {
            client = client.resolve(name, address);
        }
        match self.proxies {
            Proxies::Environment => {}
            Proxies::None => client = client.no_proxy(),
            Proxies::Cluster { http, https, none } => {
                client = client.no_proxy();
                let none = NoProxy::from_string(none);
                if !http.is_empty() {
                    let proxy = setting("Proxy cluster, status.httpProxy", Proxy::http(http))?;
                    client = client.proxy(proxy.no_proxy(none.clone()));
                }
                if !https.is_empty() {
                    let proxy = setting("Proxy cluster, status.httpsProxy", Proxy::https(https))?;
                    client = client.proxy(proxy.no_proxy(none));
                }
            }
        }
        Ok(client)
    }
}

fn certificates(name: &str, bundle: &[u8]) -> Result<Vec<Certificate>, Error> {
    if bundle.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    setting(name, Certificate::from_pem_bundle(bundle))
}

fn setting<T>(what: &str, made: reqwest::Result<T>) -> Result<T, Error> {
    made.map_err(|source| Error::Setting {
        what: what.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use chassis::report::Chain;

    use super::*;

    const PLAIN: ClientSettings<'_> = ClientSettings {
        user_agent: "test/1",
        proxies: Proxies::None,
        authorities: Authorities::System,
        host: None,
    };

    #[test]
    fn setting_that_cannot_be_used_is_named() {
        let proxy = |http, https| ClientSettings {
            proxies: Proxies::Cluster {
                http,
                https,
                none: "",
            },
            ..PLAIN
        };
        let only = |bundle| ClientSettings {
            authorities: Authorities::Only {
                name: "file ca.crt",
                bundle,
            },
            ..PLAIN
        };
        let broken = b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        for (settings, expected) in [
            (proxy("http://[", ""), "Proxy cluster, status.httpProxy"),
            (proxy("", "http://["), "Proxy cluster, status.httpsProxy"),
            (only(broken), "file ca.crt"),
        ] {
            let error = WebClient::new(&settings).unwrap_err();
            let text = Chain(&error).to_string();
            assert!(
                text.starts_with(&format!("cannot use {expected}: ")),
                "{text}"
            );
        }
        for settings in [
            proxy("", ""),
            only(b" \n"),
            ClientSettings {
                authorities: Authorities::And {
                    name: "none",
                    bundle: b"",
                },
                ..PLAIN
            },
        ] {
            WebClient::new(&settings).unwrap();
        }
    }
}
