//! The HTTP endpoint for metrics and health.

use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::errno::Errno;
use tokio::net::TcpListener;

use crate::metrics::{self, Registry};
use crate::shutdown::Shutdown;

/// How long one connection may take from its first byte to its end; a scrape takes milliseconds.
const CONNECTION_LIMIT: Duration = Duration::from_secs(10);

/// Connections served at once. One prober and one scraper is what there is; more would only cost memory.
const CONNECTIONS: usize = 8;

/// What the endpoint answers from.
pub trait Probes: Send + Sync {
    /// Whether the process is alive: it makes progress, or has nothing to do. The text explains a no.
    ///
    /// # Errors
    /// Why a restart would help.
    fn healthy(&self) -> Result<(), String>;

    /// Whether the process can do its work now.
    ///
    /// # Errors
    /// What it lacks.
    fn ready(&self) -> Result<(), String>;
}

/// Why the endpoint is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// Address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Whether all addresses were asked for and there is no IPv6: `ipv6.disable=1` takes the family away, `disable_ipv6` its addresses.
fn is_without_ipv6(address: SocketAddr, error: &std::io::Error) -> bool {
    address.ip() == Ipv6Addr::UNSPECIFIED
        && matches!(
            error.raw_os_error().map(Errno::from_raw),
            Some(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL)
        )
}

/// An endpoint that is bound and waits to be served.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
}

impl Endpoint {
    /// Binds the address, so that a taken one is found at the start. All addresses (`[::]`) are those of IPv4 on a node that was booted
    /// without IPv6.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub async fn bind(address: SocketAddr) -> Result<Self, Error> {
        let bound = match TcpListener::bind(address).await {
            Err(error) if is_without_ipv6(address, &error) => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
            }
            bound => bound,
        };
        match bound {
            Ok(listener) => Ok(Self { listener }),
            Err(source) => Err(Error::Listen { address, source }),
        }
    }

    /// Address in use; tells the port when zero was asked for.
    ///
    /// # Errors
    /// When the socket has none.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers `/metrics`, `/healthz` and `/readyz` until the shutdown.
    pub async fn serve<P: Probes + 'static>(
        self,
        registry: Registry,
        probes: Arc<P>,
        mut shutdown: Shutdown,
    ) {
        let registry = Arc::new(registry);
        let places = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                () = shutdown.requested() => return,
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    // Out of descriptors, most likely: accepting at once would spin.
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                continue;
            };
            let (registry, probes) = (Arc::clone(&registry), Arc::clone(&probes));
            tokio::spawn(async move {
                let service = service_fn(|request: Request<Incoming>| {
                    let response = answer(
                        request.method(),
                        request.uri().path(),
                        &registry,
                        probes.as_ref(),
                    );
                    async { Ok::<_, Infallible>(response) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .keep_alive(false)
                    .max_buf_size(8 << 10)
                    .serve_connection(TokioIo::new(stream), service);
                match tokio::time::timeout(CONNECTION_LIMIT, connection).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%error, "probe connection failed"),
                    Err(_) => tracing::debug!("probe connection took too long"),
                }
                drop(place);
            });
        }
    }
}

fn answer<P: Probes + ?Sized>(
    method: &Method,
    path: &str,
    registry: &Registry,
    probes: &P,
) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
    }
    match path {
        "/metrics" => {
            let Ok(page) = registry.text() else {
                return text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "a metric cannot be printed\n",
                );
            };
            let mut response = text(StatusCode::OK, page);
            response.headers_mut().insert(
                CONTENT_TYPE,
                HeaderValue::from_static(metrics::CONTENT_TYPE),
            );
            response
        }
        "/healthz" => verdict(probes.healthy()),
        "/readyz" => verdict(probes.ready()),
        _ => text(StatusCode::NOT_FOUND, "not found\n"),
    }
}

fn verdict(result: Result<(), String>) -> Response<Full<Bytes>> {
    match result {
        Ok(()) => text(StatusCode::OK, "ok"),
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::metrics::Gauge;

    struct Program;

    impl Probes for Program {
        fn healthy(&self) -> Result<(), String> {
            Ok(())
        }

        fn ready(&self) -> Result<(), String> {
            Err("no connection to the API server".to_owned())
        }
    }

    #[test]
    fn each_path_has_its_answer() {
        let table = [
            (Method::GET, "/metrics", 200),
            (Method::GET, "/healthz", 200),
            (Method::GET, "/readyz", 503),
            (Method::GET, "/debug", 404),
            (Method::POST, "/metrics", 405),
        ];
        for (method, path, status) in table {
            assert_eq!(
                answer(&method, path, &Registry::default(), &Program)
                    .status()
                    .as_u16(),
                status,
                "{method} {path}"
            );
        }
    }

    #[test]
    fn only_all_addresses_fall_back_to_ipv4() {
        let all = "[::]:8797";
        let table = [
            (all, Errno::EAFNOSUPPORT, true),
            (all, Errno::EADDRNOTAVAIL, true),
            (all, Errno::EADDRINUSE, false),
            ("[::1]:8797", Errno::EAFNOSUPPORT, false),
            ("0.0.0.0:8797", Errno::EADDRNOTAVAIL, false),
        ];
        for (address, code, falls_back) in table {
            let error = std::io::Error::from(code);
            let address = address.parse().unwrap();
            assert_eq!(
                is_without_ipv6(address, &error),
                falls_back,
                "{address} {error}"
            );
        }
    }

    #[tokio::test]
    async fn a_scrape_over_the_wire() {
        let endpoint = Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let address = endpoint.address().unwrap();
        let (trigger, shutdown) = crate::shutdown::pair();
        let mut registry = Registry::default();
        let up: Gauge = Gauge::default();
        up.set(1);
        registry.register("up", "Always one.", up);
        let server = tokio::spawn(endpoint.serve(registry, Arc::new(Program), shutdown));

        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(
            response.contains("content-type: text/plain; version=0.0.4"),
            "{response}"
        );
        assert!(response.ends_with("# TYPE up gauge\nup 1\n"), "{response}");

        trigger.fire();
        server.await.unwrap();
    }
}
