//! Metrics over HTTPS, for the cluster's Prometheus, which shows a certificate, and for clients
//! whose token the cluster knows.

use std::convert::Infallible;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;

use crate::admin::LIMITS;
use crate::http::tls::{ClientAuthorities, ServerTls};
use crate::http::{Body, Error, Peer, Server, bearer, certificate};
use crate::metrics::{CONTENT_TYPE, Registry};
use crate::report::Chain;
use crate::shutdown::Shutdown;

/// Time between two looks for the certificate. The operator that issues it comes with the release.
const LOOK: Duration = Duration::from_secs(10);

/// Where metrics are served over HTTPS, and with which certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecureListener {
    /// Address.
    pub address: SocketAddr,
    /// File of the certificate.
    pub certificate: PathBuf,
    /// File of its key.
    pub key: PathBuf,
}

/// What is served, and to whom.
#[derive(Debug)]
pub struct SecureMetrics {
    /// The metrics.
    pub registry: Registry,
    /// Authorities that vouch for clients. While they are not known, each client gets 401.
    pub authorities: ClientAuthorities,
    /// Common name of the only client that may read by a certificate.
    pub reader: &'static str,
    /// Judges clients without a certificate; none: they get 401.
    pub tokens: Option<Arc<dyn TokenJudge>>,
}

/// Judges who shows a token.
pub trait TokenJudge: Debug + Send + Sync {
    /// Whether the owner of this token may read metrics.
    fn judge<'a>(
        &'a self,
        token: &'a str,
    ) -> Pin<Box<dyn Future<Output = MetricsVerdict> + Send + 'a>>;
}

/// What a client may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsVerdict {
    /// It may read.
    Allowed,
    /// It is known, and may not.
    Forbidden,
    /// It is not known.
    Unknown,
    /// That cannot be found out now.
    Unavailable,
}

/// A server of metrics that is bound and waits to serve.
#[derive(Debug)]
pub struct SecureServer {
    server: Server,
    listener: SecureListener,
}

impl SecureServer {
    /// Binds the address, so that a taken one is found at the start.
    ///
    /// # Errors
    /// The address is taken, or not ours.
    pub async fn bind(listener: SecureListener) -> Result<Self, Error> {
        let server = Server::bind(listener.address, LIMITS).await?;
        Ok(Self { server, listener })
    }

    /// Serves until the shutdown, from when the certificate is there.
    pub async fn serve(self, metrics: SecureMetrics, mut shutdown: Shutdown) {
        let SecureMetrics {
            registry,
            authorities,
            reader,
            tokens,
        } = metrics;
        let Some(tls) = load(&self.listener, &mut shutdown).await else {
            return;
        };
        let registry = Arc::new(registry);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (registry, tokens) = (Arc::clone(&registry), tokens.clone());
            async move {
                let peer = request.extensions().get::<Peer>();
                let shown = peer.and_then(|peer| peer.certificate.as_deref());
                let token = bearer(request.headers());
                let verdict = match (shown, token, tokens) {
                    (Some(shown), ..) => of_certificate(shown, reader),
                    (None, Some(token), Some(tokens)) => tokens.judge(token).await,
                    (None, ..) => MetricsVerdict::Unknown,
                };
                let (method, path) = (request.method(), request.uri().path());
                Ok::<_, Infallible>(respond(method, path, verdict, &registry))
            }
        });
        let tls = tls.with_client_authorities(authorities);
        self.server.serve_tls(tls, service, shutdown).await;
    }
}

/// The certificate, once its files can be used; none at the shutdown.
async fn load(listener: &SecureListener, shutdown: &mut Shutdown) -> Option<ServerTls> {
    let mut has_said = false;
    loop {
        match ServerTls::load(listener.certificate.clone(), listener.key.clone()) {
            Ok(tls) => return Some(tls),
            Err(error) if has_said => {
                tracing::debug!(error = %Chain(&error), "metrics wait for their certificate");
            }
            Err(error) => {
                has_said = true;
                tracing::warn!(error = %Chain(&error), "metrics wait for their certificate");
            }
        }
        tokio::select! {
            () = shutdown.requested() => return None,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// The handshake has verified the certificate.
fn of_certificate(shown: &[u8], reader: &str) -> MetricsVerdict {
    let name = certificate::subject(shown).and_then(|subject| subject.common_name);
    if name.as_deref() == Some(reader) {
        MetricsVerdict::Allowed
    } else {
        MetricsVerdict::Forbidden
    }
}

fn respond(
    method: &Method,
    path: &str,
    verdict: MetricsVerdict,
    registry: &Registry,
) -> Response<Full<Bytes>> {
    match verdict {
        MetricsVerdict::Allowed => {}
        MetricsVerdict::Forbidden => {
            return text_response(StatusCode::FORBIDDEN, "not for this client\n");
        }
        MetricsVerdict::Unknown => {
            let text = "a certificate or a token of a known client is needed\n";
            return text_response(StatusCode::UNAUTHORIZED, text);
        }
        MetricsVerdict::Unavailable => {
            let text = "the token cannot be reviewed now\n";
            return text_response(StatusCode::SERVICE_UNAVAILABLE, text);
        }
    }
    if path != "/metrics" {
        return text_response(StatusCode::NOT_FOUND, "not found\n");
    }
    if method != Method::GET && method != Method::HEAD {
        let mut response = text_response(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(header::ALLOW, allowed);
        return response;
    }
    let Ok(page) = registry.text() else {
        let text = "a metric cannot be printed\n";
        return text_response(StatusCode::INTERNAL_SERVER_ERROR, text);
    };
    let mut response = text_response(StatusCode::OK, page);
    let kind = HeaderValue::from_static(CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn text_response(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    const READER: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";

    fn certificate(common_name: &str) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn only_the_reader_reads_metrics() {
        let of = |shown: &[u8]| of_certificate(shown, READER);
        let reader = of(&certificate(READER));
        let (other, none) = (of(&certificate("other")), of(b"no certificate"));
        let (get, post) = (Method::GET, Method::POST);
        for (method, path, verdict, status) in [
            (&get, "/metrics", MetricsVerdict::Unknown, 401),
            (&get, "/metrics", MetricsVerdict::Unavailable, 503),
            (&get, "/metrics", other, 403),
            (&get, "/metrics", none, 403),
            (&get, "/metrics", reader, 200),
            (&get, "/healthz", reader, 404),
            (&post, "/metrics", reader, 405),
        ] {
            let response = respond(method, path, verdict, &Registry::default());
            assert_eq!(response.status().as_u16(), status, "{method} {path}");
            let names_methods = response.headers().contains_key(header::ALLOW);
            assert_eq!(names_methods, status == 405, "{method} {path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_certificate_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let listener = SecureListener {
            address: "127.0.0.1:0".parse().unwrap(),
            certificate: directory.path().join("tls.crt"),
            key: directory.path().join("tls.key"),
        };
        let (trigger, mut shutdown) = crate::shutdown::pair();
        let waiting = tokio::time::timeout(LOOK * 3, load(&listener, &mut shutdown));
        assert!(waiting.await.is_err());
        trigger.fire();
        assert!(load(&listener, &mut shutdown).await.is_none());
    }
}
