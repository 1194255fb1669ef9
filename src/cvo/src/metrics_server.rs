//! Metrics over HTTPS, for the cluster's Prometheus alone.
//!
//! Source: `docs/reference/cvo.md`, "Operation".

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chassis::http::tls::{ClientAuthorities, ServerTls};
use chassis::http::{Body, Peer, Server, certificate};
use chassis::metrics::{CONTENT_TYPE, Registry};
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use tokio::task::JoinHandle;

use crate::watches::AdminMap;

/// Namespace and name of the ConfigMap with the authorities of clients.
pub const AUTHORITIES: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// Key of these authorities.
const CLIENT_CA: &str = "client-ca-file";

/// Common name of the only client that may read.
const SCRAPER: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";

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

/// Takes over authorities of clients from their ConfigMap; without it, clients have none.
pub fn learn(authorities: &ClientAuthorities, map: Option<&AdminMap>) {
    let bundle = map.and_then(|map| map.data.get(CLIENT_CA));
    if let Err(error) = authorities.set(bundle.map(String::as_bytes)) {
        let (namespace, name) = AUTHORITIES;
        tracing::warn!(
            error = %Chain(&error),
            "ConfigMap {namespace}/{name}: the authorities before stay"
        );
    }
}

/// Binds the address, if one is asked for, and serves there in a task.
///
/// # Errors
/// The address is taken, or not ours.
pub async fn start(
    listener: Option<SecureListener>,
    (authorities, registry): (ClientAuthorities, Registry),
    shutdown: Shutdown,
) -> Result<Option<JoinHandle<()>>, chassis::http::Error> {
    let Some(listener) = listener else {
        return Ok(None);
    };
    let server = Server::bind(listener.address, chassis::admin::LIMITS).await?;
    let serving = serve(server, listener, authorities, registry, shutdown);
    Ok(Some(tokio::spawn(serving)))
}

/// Serves until the shutdown, from when the certificate is there.
async fn serve(
    server: Server,
    listener: SecureListener,
    authorities: ClientAuthorities,
    registry: Registry,
    mut shutdown: Shutdown,
) {
    let Some(tls) = load(&listener, &mut shutdown).await else {
        return;
    };
    let registry = Arc::new(registry);
    let service = tower::service_fn(move |request: Request<Body>| {
        let peer = request.extensions().get::<Peer>();
        let shown = peer.and_then(|peer| peer.certificate.as_deref());
        let response = answer(request.method(), request.uri().path(), shown, &registry);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let tls = tls.with_client_authorities(authorities);
    server.serve_tls(tls, service, shutdown).await;
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

/// The handshake has verified the certificate, if one was shown.
fn answer(
    method: &Method,
    path: &str,
    shown: Option<&[u8]>,
    registry: &Registry,
) -> Response<Full<Bytes>> {
    let Some(shown) = shown else {
        return said(StatusCode::UNAUTHORIZED, "a client certificate is needed\n");
    };
    let name = certificate::subject(shown).and_then(|subject| subject.common_name);
    if name.as_deref() != Some(SCRAPER) {
        return said(StatusCode::FORBIDDEN, "not for this client\n");
    }
    if path != "/metrics" {
        return said(StatusCode::NOT_FOUND, "not found\n");
    }
    if method != Method::GET && method != Method::HEAD {
        return said(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
    }
    let Ok(page) = registry.text() else {
        let text = "a metric cannot be printed\n";
        return said(StatusCode::INTERNAL_SERVER_ERROR, text);
    };
    let mut response = said(StatusCode::OK, page);
    let kind = HeaderValue::from_static(CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn said(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use cluster::cache::CachedKind as _;
    use operator::Watched as _;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use serde_json::json;

    use super::*;
    use crate::watches::AdminMaps;

    fn certificate(common_name: &str) -> (Vec<u8>, String) {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        (certificate.der().to_vec(), certificate.pem())
    }

    #[test]
    fn only_prometheus_reads_metrics() {
        let (scraper, other) = (certificate(SCRAPER).0, certificate("other").0);
        let (get, post) = (Method::GET, Method::POST);
        for (method, path, shown, status) in [
            (&get, "/metrics", None, 401),
            (&get, "/metrics", Some(other.as_slice()), 403),
            (&get, "/metrics", Some(b"no certificate".as_slice()), 403),
            (&get, "/metrics", Some(scraper.as_slice()), 200),
            (&get, "/healthz", Some(scraper.as_slice()), 404),
            (&post, "/metrics", Some(scraper.as_slice()), 405),
        ] {
            let response = answer(method, path, shown, &Registry::default());
            assert_eq!(response.status().as_u16(), status, "{method} {path}");
        }
    }

    #[test]
    fn authorities_are_those_of_the_cluster_and_a_broken_bundle_changes_nothing() {
        let map = |bundle: &str| {
            let data = json!({ CLIENT_CA: bundle });
            let object = json!({ "metadata": { "name": AUTHORITIES.1 }, "data": data });
            AdminMaps::parse(serde_json::from_value(object).unwrap())
        };
        let authorities = ClientAuthorities::default();
        let pem = certificate("authority").1;
        assert_eq!(AdminMaps::name(&map(&pem)), AUTHORITIES.1);
        learn(&authorities, Some(&map(&pem)));
        assert!(authorities.are_known());
        learn(&authorities, Some(&map("no PEM")));
        assert!(authorities.are_known());
        learn(&authorities, None);
        assert!(!authorities.are_known());
    }

    #[tokio::test(start_paused = true)]
    async fn the_certificate_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let listener = SecureListener {
            address: "127.0.0.1:0".parse().unwrap(),
            certificate: directory.path().join("tls.crt"),
            key: directory.path().join("tls.key"),
        };
        let (trigger, mut shutdown) = chassis::shutdown::pair();
        let waiting = tokio::time::timeout(LOOK * 3, load(&listener, &mut shutdown));
        assert!(waiting.await.is_err());
        trigger.fire();
        assert!(load(&listener, &mut shutdown).await.is_none());
    }
}
