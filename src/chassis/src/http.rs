//! The HTTP server of every program here: of the admin endpoint and of services alike.
//!
//! It accepts connections, keeps their limits and ends them at the shutdown; what it serves is a
//! `tower` service, such as an `axum::Router`. HTTP/1.1 only: no client of these programs needs
//! more, and HTTP/2 would bring limits of its own to keep.
//!
//! - `certificate` (feature `tls`): the subject of a client's certificate
//! - `places`: which connections are held, and which one gives its place to a new one
//! - `tls` (feature): certificate and key that are read again when their files change
//! - `turn`: whether a connection has a request under way

#[cfg(feature = "tls")]
pub mod certificate;
mod places;
#[cfg(feature = "tls")]
pub mod tls;
mod turn;

use std::future::Future;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use hyper::body::{Body as HttpBody, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::errno::Errno;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tower::util::{MapFuture, MapRequest};
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::body::Limited;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::{RequestBodyTimeoutLayer, TimeoutBody};

use self::places::{Admission, Places};
use self::turn::{ServedBody, Turn};
use crate::report::Chain;
use crate::shutdown::Shutdown;

pub use self::places::network;

/// Body of a request, held to its limits: reading it fails past its size, or when it stalls.
pub type Body = Limited<TimeoutBody<Incoming>>;

/// Bytes that hyper asks to buffer at least.
const LEAST_BUFFER: usize = 8 << 10;

/// How long to wait after an error of the listener itself: out of descriptors, most likely, and
/// accepting at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// What a server allows its clients.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections served at once. At the limit, one without a request under way is closed for the
    /// next, the oldest that has sent none first; where there is none, the next waits in the
    /// backlog of the system.
    pub connections: usize,
    /// How many of them one [`network`] may have. At the limit, one of its own is closed for the
    /// next, or the next itself.
    pub per_network: usize,
    /// Bytes of a request's first line and headers. More are answered with 431.
    pub header_bytes: usize,
    /// How long a client may take for a TLS handshake, and for the headers of a request. The time
    /// counts from the end of the request before, so that an idle connection ends by it too.
    pub header: Duration,
    /// Bytes of a request's body. A longer one is answered with 413.
    pub body_bytes: usize,
    /// How long the body of a request may stall.
    pub stall: Duration,
    /// How long a connection takes new requests. It bounds the hold of a client that reads slowly,
    /// and spreads clients over replicas again.
    pub age: Duration,
    /// How long a request under way may still take, at the age and at the shutdown.
    pub grace: Duration,
    /// Whether a connection may carry more than one request.
    pub keep_alive: bool,
}

impl Default for Limits {
    /// Those of a service with many clients, whose responses are small.
    fn default() -> Self {
        Self {
            connections: 512,
            // All clients are one network behind a load balancer that hides addresses.
            per_network: usize::MAX,
            header_bytes: 16 << 10,
            header: Duration::from_secs(30),
            body_bytes: 1 << 20,
            stall: Duration::from_secs(10),
            age: Duration::from_mins(10),
            // Less than a pod has to end, which is 30 s by default.
            grace: Duration::from_secs(20),
            keep_alive: true,
        }
    }
}

/// The server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct Error {
    /// The requested address: it is taken, or not ours.
    pub address: SocketAddr,
    /// The error of the system.
    pub source: std::io::Error,
}

/// The token of a request; none where it shows none.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Who is at the other end of a connection; in the extensions of each of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its address. One of IPv4 is written as such, whatever socket it came by.
    pub address: SocketAddr,
    /// The certificate that it has shown, DER: one that the authorities of
    /// [`tls::ServerTls::with_client_authorities`] vouch for.
    pub certificate: Option<Arc<[u8]>>,
}

/// Makes of a connection what requests are read from.
pub(crate) trait Transport {
    /// What requests are read from.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Begins with one connection.
    fn open(
        &mut self,
        stream: TcpStream,
    ) -> impl Future<Output = std::io::Result<Self::Stream>> + Send + 'static;

    /// The certificate that the client has shown, DER.
    fn certificate(stream: &Self::Stream) -> Option<Arc<[u8]>>;
}

/// Plain HTTP.
struct Plain;

impl Transport for Plain {
    type Stream = TcpStream;

    fn open(
        &mut self,
        stream: TcpStream,
    ) -> impl Future<Output = std::io::Result<TcpStream>> + Send + 'static {
        std::future::ready(Ok(stream))
    }

    fn certificate(_: &TcpStream) -> Option<Arc<[u8]>> {
        None
    }
}

/// A server that is bound and waits to serve.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    limits: Limits,
}

impl Server {
    /// Binds the address, so that a taken one is found at the start. All addresses (`[::]`) are
    /// those of IPv4 on a node that was booted without IPv6.
    ///
    /// # Errors
    /// The address is taken, or not ours.
    pub async fn bind(address: SocketAddr, limits: Limits) -> Result<Self, Error> {
        let bound = match TcpListener::bind(address).await {
            Err(error) if is_without_ipv6(address, &error) => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
            }
            bound => bound,
        };
        match bound {
            Ok(listener) => Ok(Self { listener, limits }),
            Err(source) => Err(Error { address, source }),
        }
    }

    /// Address in use; tells the port when zero was requested.
    ///
    /// # Errors
    /// When the socket has none.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the shutdown, then lets the requests under way end: at most for the grace.
    pub async fn serve<S, B>(self, service: S, shutdown: Shutdown)
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError> + 'static,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.run(Plain, service, shutdown).await;
    }

    /// As [`Self::serve`], over TLS.
    #[cfg(feature = "tls")]
    pub async fn serve_tls<S, B>(self, tls: tls::ServerTls, service: S, shutdown: Shutdown)
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError> + 'static,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.run(tls, service, shutdown).await;
    }

    async fn run<T, S, B>(self, mut transport: T, service: S, mut shutdown: Shutdown)
    where
        T: Transport + 'static,
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError> + 'static,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let Self { listener, limits } = self;
        let service = ServiceBuilder::new()
            .layer(RequestBodyTimeoutLayer::new(limits.stall))
            .layer(RequestBodyLimitLayer::new(limits.body_bytes))
            .service(service);
        let mut open = JoinSet::new();
        let mut places: Places<AbortHandle> = Places::new(limits.connections, limits.per_network);
        let freed = Arc::new(Notify::new());
        // One that was accepted and waits for a place.
        let mut next: Option<(TcpStream, SocketAddr)> = None;
        loop {
            if let Some((stream, address)) = next.take() {
                let network = network(address.ip());
                match places.admit(network) {
                    Admission::Full => next = Some((stream, address)),
                    Admission::Crowded => {
                        tracing::debug!(peer = %address.ip(), "too many connections of a network");
                    }
                    admission @ (Admission::Free | Admission::InPlaceOf(_)) => {
                        if let Admission::InPlaceOf(other) = &admission {
                            tracing::debug!("a connection was closed for a new one");
                            other.abort();
                        }
                        let turn = Turn::new(Arc::clone(&freed));
                        let stream = opened::<T>(transport.open(stream), address);
                        let service = service.clone();
                        let shutdown = shutdown.clone();
                        let serving = connection(stream, service, turn.clone(), limits, shutdown);
                        places.hold(network, turn, open.spawn(serving));
                        // It reads what has arrived before the next one may take its place.
                        tokio::task::yield_now().await;
                    }
                }
            }
            tokio::select! {
                () = shutdown.requested() => break,
                Some(ended) = open.join_next_with_id() => {
                    let id = log_end(ended);
                    places.release(|held| held.id() == id);
                }
                () = freed.notified(), if next.is_some() => {}
                accepted = listener.accept(), if next.is_none() => match accepted {
                    Ok((stream, address)) => {
                        let ip = address.ip().to_canonical();
                        next = Some((stream, SocketAddr::new(ip, address.port())));
                    }
                    Err(error) if is_of_the_client(&error) => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::select! {
                            () = shutdown.requested() => break,
                            () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                        }
                    }
                },
            }
        }
        // New clients are turned away by the system while the last requests end.
        drop(next);
        drop(listener);
        while let Some(ended) = open.join_next_with_id().await {
            log_end(ended);
        }
    }
}

/// A connection that requests can be read from, and its peer.
async fn opened<T: Transport>(
    stream: impl Future<Output = std::io::Result<T::Stream>>,
    address: SocketAddr,
) -> std::io::Result<(T::Stream, Peer)> {
    let stream = stream.await?;
    let certificate = T::certificate(&stream);
    let peer = Peer {
        address,
        certificate,
    };
    Ok((stream, peer))
}

/// Serves one connection, from its handshake to its end.
async fn connection<I, S, B>(
    opened: impl Future<Output = std::io::Result<(I, Peer)>>,
    service: S,
    turn: Turn,
    limits: Limits,
    mut shutdown: Shutdown,
) where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    let opened = tokio::select! {
        () = shutdown.requested() => return,
        opened = tokio::time::timeout(limits.header, opened) => opened,
    };
    let (stream, peer) = match opened {
        Ok(Ok((stream, peer))) => (TokioIo::new(stream), peer),
        Ok(Err(error)) => {
            tracing::debug!(error = %Chain(&error), "handshake failed");
            return;
        }
        Err(_) => {
            tracing::debug!("handshake took too long");
            return;
        }
    };
    let service = MapFuture::new(service, move |response: S::Future| {
        let under_way = turn.begin();
        async move {
            let response = response.await?;
            Ok::<_, S::Error>(response.map(|body| ServedBody::new(body, under_way)))
        }
    });
    let service = MapRequest::new(service, move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        request
    });
    let service = TowerToHyperService::new(service);
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header)
            .max_buf_size(limits.header_bytes.max(LEAST_BUFFER))
            .max_header_size(limits.header_bytes)
            .keep_alive(limits.keep_alive)
            .serve_connection(stream, service)
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => Ok(ended),
        () = async {
            tokio::select! {
                () = shutdown.requested() => {}
                () = tokio::time::sleep(limits.age) => {}
            }
        } => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(limits.grace, connection).await
        }
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(error = %Chain(&error), "connection failed"),
        Err(_) => tracing::debug!("connection was cut after its grace"),
    }
}

/// Which task has ended. A panic ends a released program at once; a test must not lose it. A task
/// that gave its place to another was cancelled.
fn log_end(ended: Result<(Id, ()), JoinError>) -> Id {
    match ended {
        Ok((id, ())) => id,
        Err(error) => {
            if !error.is_cancelled() {
                tracing::error!(error = %Chain(&error), "a connection's task failed");
            }
            error.id()
        }
    }
}

/// Whether accepting failed because the client was gone already.
fn is_of_the_client(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

/// Whether all addresses were requested and there is no IPv6: `ipv6.disable=1` takes the family
/// away, `disable_ipv6` its addresses.
fn is_without_ipv6(address: SocketAddr, error: &std::io::Error) -> bool {
    address.ip() == Ipv6Addr::UNSPECIFIED
        && matches!(
            error.raw_os_error().map(Errno::from_raw),
            Some(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL)
        )
}

#[cfg(test)]
mod tests;
