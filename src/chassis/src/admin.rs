//! The admin endpoint of a process: `/metrics`, `/healthz` and `/readyz`.
//!
//! Services route by `axum`. Here three fixed paths are matched by hand: a router for them would
//! make the node daemon 95 kB larger (10,349,480 bytes instead of 10,254,408).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;

use crate::health::Probes;
use crate::http::{Limits, Server};
use crate::metrics::{self, Registry};
use crate::report::Chain;
use crate::shutdown::Shutdown;

/// One prober and one scraper is what there is, and each response takes milliseconds. More would
/// cost the daemon memory.
pub const LIMITS: Limits = Limits {
    connections: 8,
    // Prober and scraper are of different networks, so that neither needs more.
    per_network: 4,
    header_bytes: 8 << 10,
    header: Duration::from_secs(5),
    body_bytes: 0,
    stall: Duration::from_secs(5),
    age: Duration::from_secs(8),
    grace: Duration::from_secs(2),
    keep_alive: false,
};

/// Serves the endpoint until the shutdown.
pub async fn serve<P: Probes + 'static>(
    server: Server,
    registry: Registry,
    probes: Arc<P>,
    shutdown: Shutdown,
) {
    let registry = Arc::new(registry);
    let service = tower::service_fn(move |request: Request<crate::http::Body>| {
        let response = respond(
            request.method(),
            request.uri().path(),
            &registry,
            probes.as_ref(),
        );
        std::future::ready(Ok::<_, Infallible>(response))
    });
    server.serve(service, shutdown).await;
}

fn respond<P: Probes + ?Sized>(
    method: &Method,
    path: &str,
    registry: &Registry,
    probes: &P,
) -> Response<Full<Bytes>> {
    let verdict = match path {
        "/metrics" => None,
        "/healthz" | "/livez" | "/liveness" => Some(probes.healthy()),
        "/readyz" | "/readiness" => Some(probes.ready()),
        _ => return text(StatusCode::NOT_FOUND, "not found\n"),
    };
    if method != Method::GET && method != Method::HEAD {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        let headers = response.headers_mut();
        headers.insert(ALLOW, HeaderValue::from_static("GET,HEAD"));
        return response;
    }
    match verdict {
        Some(Ok(())) => text(StatusCode::OK, "ok"),
        Some(Err(failure)) => text(StatusCode::SERVICE_UNAVAILABLE, Chain(&failure).to_string()),
        None => match registry.text() {
            Ok(page) => {
                let mut response = text(StatusCode::OK, page);
                let headers = response.headers_mut();
                headers.insert(
                    CONTENT_TYPE,
                    HeaderValue::from_static(metrics::CONTENT_TYPE),
                );
                response
            }
            Err(std::fmt::Error) => text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "a metric cannot be printed\n",
            ),
        },
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::health::ProbeFailure;
    use crate::metrics::Gauge;

    struct Program;

    impl Probes for Program {
        fn healthy(&self) -> Result<(), ProbeFailure> {
            Ok(())
        }

        fn ready(&self) -> Result<(), ProbeFailure> {
            Err(ProbeFailure::NotSynced)
        }
    }

    fn registry() -> Registry {
        let mut registry = Registry::default();
        let up: Gauge = Gauge::default();
        up.set(1);
        registry.register("up", "Always one.", up);
        registry
    }

    #[test]
    fn each_path_has_its_answer() {
        let table = [
            (Method::GET, "/metrics", 200),
            (Method::HEAD, "/metrics", 200),
            (Method::GET, "/healthz", 200),
            (Method::GET, "/readyz", 503),
            (Method::GET, "/debug", 404),
            (Method::POST, "/metrics", 405),
            (Method::DELETE, "/healthz", 405),
        ];
        for (method, path, status) in table {
            let response = respond(&method, path, &registry(), &Program);
            assert_eq!(response.status().as_u16(), status, "{method} {path}");
            let allow = response.headers().get(ALLOW);
            assert_eq!(allow.is_some(), status == 405, "{method} {path}");
        }
    }

    #[tokio::test]
    async fn a_page_goes_over_the_wire_and_the_connection_ends() {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(local, LIMITS).await.unwrap();
        let address = server.address().unwrap();
        let (trigger, shutdown) = crate::shutdown::pair();
        let serving = tokio::spawn(serve(server, registry(), Arc::new(Program), shutdown));
        let ask = async |method: &str| {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let request = format!("{method} /metrics HTTP/1.1\r\nhost: x\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            response
        };
        let response = ask("GET").await;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        let version = "content-type: text/plain; version=0.0.4; charset=utf-8\r\n";
        assert!(response.contains(version), "{response}");
        assert!(response.ends_with("# TYPE up gauge\nup 1\n"), "{response}");
        let response = ask("HEAD").await;
        assert!(response.contains(version), "{response}");
        assert!(response.ends_with("\r\n\r\n"), "{response}");
        trigger.fire();
        serving.await.unwrap();
    }
}
