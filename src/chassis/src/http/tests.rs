use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{self, ClientConfig, ProtocolVersion, RootCertStore};

use super::tls::{ClientAuthorities, ServerTls};
use super::*;
use crate::shutdown::{self, Trigger};

mod crowd;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

const SHORT: Duration = Duration::from_millis(200);

/// Limits that nothing here meets, but what a test makes of them.
const WIDE: Limits = Limits {
    connections: 64,
    per_network: 64,
    header_bytes: 8 << 10,
    header: PATIENCE,
    body_bytes: 1 << 10,
    stall: PATIENCE,
    age: PATIENCE,
    grace: PATIENCE,
    keep_alive: true,
};

/// A server that runs, and how it ends.
struct Running {
    address: SocketAddr,
    trigger: Trigger,
    task: JoinHandle<()>,
}

impl Running {
    async fn end(self) {
        self.trigger.fire();
        timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

async fn bind(limits: Limits) -> Server {
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    Server::bind(local, limits).await.unwrap()
}

async fn run(limits: Limits, router: Router) -> Running {
    let server = bind(limits).await;
    let address = server.address().unwrap();
    let (trigger, shutdown) = shutdown::pair();
    let task = tokio::spawn(server.serve(router, shutdown));
    Running {
        address,
        trigger,
        task,
    }
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), request: &str) {
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
}

/// Everything up to the end of the connection. A reset is an end too.
async fn read_all(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut bytes));
    if let Err(error) = read.await.expect("the connection stays open") {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    String::from_utf8(bytes).unwrap()
}

/// Reads until `end` came, and no further.
async fn read_to(stream: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        let byte = timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap();
        bytes.push(byte);
    }
    String::from_utf8(bytes).unwrap()
}

async fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    send(&mut stream, request).await;
    read_all(&mut stream).await
}

#[tokio::test]
async fn a_router_answers_by_path_and_method() {
    let server = run(WIDE, hello()).await;
    let table = [
        ("GET", "/", "200 OK", "\r\n\r\nhello"),
        ("HEAD", "/", "200 OK", "\r\n\r\n"),
        ("GET", "/none", "404 Not Found", "\r\n\r\n"),
        ("POST", "/", "405 Method Not Allowed", "\r\n\r\n"),
    ];
    for (method, path, status, end) in table {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let response = ask(server.address, &request).await;
        let first = format!("HTTP/1.1 {status}\r\n");
        assert!(response.starts_with(&first), "{response}");
        assert!(response.ends_with(end), "{response}");
        if status.starts_with("405") {
            assert!(response.contains("allow: GET,HEAD\r\n"), "{response}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_client_that_is_slow_with_its_headers_is_cut() {
    let header = SHORT;
    let server = run(Limits { header, ..WIDE }, hello()).await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    send(&mut slow, "GET / HTTP/1.1\r\nhost:").await;
    let began = Instant::now();
    assert_eq!(read_all(&mut slow).await, "");
    assert!(began.elapsed() < PATIENCE / 2);
    // The headers of its second request never come.
    let began = Instant::now();
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    send(&mut idle, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(read_all(&mut idle).await.ends_with("hello"));
    assert!(began.elapsed() < PATIENCE / 2);
    server.end().await;
}

#[tokio::test]
async fn headers_and_bodies_past_their_size_are_refused() {
    let router = Router::new().route("/", post(async |body: String| body));
    let server = run(WIDE, router).await;
    let padding = "x".repeat(WIDE.header_bytes);
    let request = format!("POST / HTTP/1.1\r\nhost: x\r\npadding: {padding}\r\n\r\n");
    let response = ask(server.address, &request).await;
    assert!(response.starts_with("HTTP/1.1 431 "), "{response}");

    let post = "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    let length = WIDE.body_bytes + 1;
    let request = format!("{post}content-length: {length}\r\n\r\n");
    let response = ask(server.address, &request).await;
    assert!(response.starts_with("HTTP/1.1 413 "), "{response}");

    let chunk = "x".repeat(length);
    let chunked = format!("{post}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{chunk}\r\n");
    let response = ask(server.address, &chunked).await;
    assert!(response.starts_with("HTTP/1.1 413 "), "{response}");

    let request = format!("{post}content-length: 4\r\n\r\nfits");
    let response = ask(server.address, &request).await;
    assert!(response.ends_with("\r\n\r\nfits"), "{response}");
    server.end().await;
}

#[tokio::test]
async fn a_body_that_stalls_is_refused() {
    let router = Router::new().route("/", post(async |body: String| body));
    let stall = SHORT;
    let server = run(Limits { stall, ..WIDE }, router).await;
    let request = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf";
    let response = ask(server.address, request).await;
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    server.end().await;
}

/// Routes that wait until they are let go on, and count who arrived.
fn waiting(arrived: &Arc<Notify>, go_on: &Arc<Notify>) -> Router {
    let (arrived, go_on) = (Arc::clone(arrived), Arc::clone(go_on));
    let wait = async move || {
        arrived.notify_one();
        go_on.notified().await;
        "late"
    };
    Router::new().route("/", get(wait))
}

const REQUEST: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test]
async fn a_connection_ends_at_its_age() {
    let age = SHORT;
    let server = run(Limits { age, ..WIDE }, hello()).await;
    let began = Instant::now();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    send(&mut stream, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(read_all(&mut stream).await.ends_with("hello"));
    assert!(began.elapsed() < PATIENCE / 2);
    server.end().await;
}

#[tokio::test]
async fn a_shutdown_ends_idle_connections_and_lets_a_request_end() {
    let (arrived, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = run(WIDE, waiting(&arrived, &go_on)).await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    send(&mut busy, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    arrived.notified().await;
    let began = Instant::now();
    server.trigger.fire();
    assert_eq!(read_all(&mut idle).await, "");
    assert!(!server.task.is_finished());
    go_on.notify_one();
    let response = read_all(&mut busy).await;
    assert!(response.contains("connection: close\r\n"), "{response}");
    assert!(response.ends_with("late"), "{response}");
    let address = server.address;
    server.end().await;
    assert!(began.elapsed() < PATIENCE / 2);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_shutdown_cuts_a_request_after_its_grace() {
    let (arrived, never) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let grace = SHORT;
    let server = run(Limits { grace, ..WIDE }, waiting(&arrived, &never)).await;
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    send(&mut busy, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    arrived.notified().await;
    let began = Instant::now();
    server.end().await;
    assert!(began.elapsed() >= grace && began.elapsed() < PATIENCE / 2);
    assert_eq!(read_all(&mut busy).await, "");
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_it() {
    let first = bind(WIDE).await;
    let address = first.address().unwrap();
    let error = Server::bind(address, WIDE).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {address}"));
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

/// Replaces the files by a new pair, and returns its certificate.
fn issue(folder: &Path) -> rustls::pki_types::CertificateDer<'static> {
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    write(&folder.join("tls.crt"), &pair.cert.pem());
    write(&folder.join("tls.key"), &pair.signing_key.serialize_pem());
    pair.cert.der().clone()
}

#[expect(clippy::disallowed_methods, reason = "a file of the test's own folder")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// Connects, trusting one certificate.
async fn connect(
    address: SocketAddr,
    trusted: &rustls::pki_types::CertificateDer<'static>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> std::io::Result<TlsStream<TcpStream>> {
    connect_as(address, trusted, versions, None).await
}

/// The same, with a certificate of the client's own.
async fn connect_as(
    address: SocketAddr,
    trusted: &rustls::pki_types::CertificateDer<'static>,
    versions: &[&'static rustls::SupportedProtocolVersion],
    client: Option<&rcgen::CertifiedKey<rcgen::KeyPair>>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let config = match client {
        None => config.with_no_client_auth(),
        Some(client) => {
            let key = client.signing_key.serialize_der().try_into().unwrap();
            let chain = vec![client.cert.der().clone()];
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let stream = TcpStream::connect(address).await?;
    let name = "localhost".try_into().unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

#[tokio::test]
async fn a_new_certificate_is_served_and_open_connections_go_on() {
    let folder = TempDir::new().unwrap();
    let first = issue(folder.path());
    let mut tls =
        ServerTls::load(folder.path().join("tls.crt"), folder.path().join("tls.key")).unwrap();
    tls.period = Duration::ZERO;
    let server = bind(WIDE).await;
    let address = server.address().unwrap();
    let (trigger, shutdown) = shutdown::pair();
    let task = tokio::spawn(server.serve_tls(tls, hello(), shutdown));
    let request = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    let mut old = connect(address, &first, rustls::ALL_VERSIONS)
        .await
        .unwrap();
    send(&mut old, request).await;
    read_to(&mut old, "hello").await;

    // A key that does not belong to the certificate: the pair before stays.
    let text = std::fs::read_to_string(folder.path().join("tls.crt")).unwrap();
    issue(folder.path());
    write(&folder.path().join("tls.crt"), &text);
    connect(address, &first, rustls::ALL_VERSIONS)
        .await
        .unwrap();

    let second = issue(folder.path());
    let versions = [&rustls::version::TLS12];
    let new = connect(address, &second, &versions).await.unwrap();
    assert_eq!(
        new.get_ref().1.protocol_version(),
        Some(ProtocolVersion::TLSv1_2)
    );
    let refused = connect(address, &first, rustls::ALL_VERSIONS).await;
    assert!(refused.is_err(), "the old certificate is still served");
    send(&mut old, request).await;
    read_to(&mut old, "hello").await;

    trigger.fire();
    timeout(PATIENCE, task).await.unwrap().unwrap();
}

/// A certificate for clients, and the authority that vouches for it.
fn issue_client(name: &str) -> (String, rcgen::CertifiedKey<rcgen::KeyPair>) {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let subject = &mut authority.distinguished_name;
    subject.push(DnType::CommonName, format!("authority of {name}"));
    let bundle = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let signing_key = KeyPair::generate().unwrap();
    let cert = params.signed_by(&signing_key, &issuer).unwrap();
    (bundle, rcgen::CertifiedKey { cert, signing_key })
}

#[tokio::test]
async fn requests_carry_the_peer_and_the_certificate_that_its_authority_vouches_for() {
    let folder = TempDir::new().unwrap();
    let trusted = issue(folder.path());
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let authorities = ClientAuthorities::default();
    let mut tls = ServerTls::load(certificate, key)
        .unwrap()
        .with_client_authorities(authorities.clone());
    tls.period = Duration::ZERO;
    let server = bind(WIDE).await;
    let address = server.address().unwrap();
    let (_trigger, shutdown) = shutdown::pair();
    let who = async |request: axum::extract::Request| {
        let peer = request.extensions().get::<Peer>().unwrap();
        let certificate = peer.certificate.as_deref().map(<[u8]>::to_vec);
        format!("{} {certificate:?}.", peer.address.ip())
    };
    let router = Router::new().route("/", get(who));
    let _serving = tokio::spawn(server.serve_tls(tls, router, shutdown));
    let ask = async |client: Option<&rcgen::CertifiedKey<rcgen::KeyPair>>| {
        let mut stream = connect_as(address, &trusted, rustls::ALL_VERSIONS, client).await?;
        let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await?;
        let mut response = String::new();
        // With TLS 1.3 a client learns with its first read that it was refused.
        stream.read_to_string(&mut response).await?;
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        Ok::<_, std::io::Error>(body.to_owned())
    };
    let (bundle, node) = issue_client("node");
    let (_, stranger) = issue_client("stranger");
    // Without an authority no certificate is requested.
    assert_eq!(ask(Some(&node)).await.unwrap(), "127.0.0.1 None.");
    authorities.set(Some(bundle.as_bytes())).unwrap();
    assert_eq!(ask(None).await.unwrap(), "127.0.0.1 None.");
    let shown = node.cert.der().to_vec();
    let expected = format!("127.0.0.1 {:?}.", Some(shown));
    assert_eq!(ask(Some(&node)).await.unwrap(), expected);
    ask(Some(&stranger)).await.unwrap_err();
    // What cannot be used leaves the authority before in place.
    assert!(authorities.set(Some(b"no certificate")).is_err());
    assert_eq!(ask(Some(&node)).await.unwrap(), expected);
    ask(Some(&stranger)).await.unwrap_err();
}

#[tokio::test]
async fn a_client_that_never_ends_its_handshake_is_cut() {
    let folder = TempDir::new().unwrap();
    issue(folder.path());
    let tls =
        ServerTls::load(folder.path().join("tls.crt"), folder.path().join("tls.key")).unwrap();
    let header = SHORT;
    let server = bind(Limits { header, ..WIDE }).await;
    let address = server.address().unwrap();
    let (_trigger, shutdown) = shutdown::pair();
    let _serving = tokio::spawn(server.serve_tls(tls, hello(), shutdown));
    let mut silent = TcpStream::connect(address).await.unwrap();
    assert_eq!(read_all(&mut silent).await, "");
}

#[test]
fn files_that_cannot_be_served_are_named() {
    let folder = TempDir::new().unwrap();
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let load = || {
        let error = ServerTls::load(certificate.clone(), key.clone()).unwrap_err();
        error.to_string()
    };
    assert_eq!(load(), format!("cannot read {}", certificate.display()));
    issue(folder.path());
    write(&key, "no key");
    assert_eq!(load(), format!("cannot parse {}", key.display()));
    write(&key, &rcgen::KeyPair::generate().unwrap().serialize_pem());
    assert_eq!(
        load(),
        format!("cannot use the certificate {}", certificate.display())
    );
}

#[test]
fn a_token_is_the_one_behind_bearer() {
    let mut headers = HeaderMap::new();
    assert_eq!(bearer(&headers), None);
    for (value, token) in [
        ("Basic YTpi", None),
        ("Bearer ", None),
        ("Bearer", None),
        ("bearer abc", Some("abc")),
        ("Bearer  abc ", Some("abc")),
    ] {
        headers.insert(AUTHORIZATION, ::http::HeaderValue::from_static(value));
        assert_eq!(bearer(&headers), token, "{value:?}");
    }
}
