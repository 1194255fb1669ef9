//! More clients than there are places.

use super::*;

#[tokio::test]
async fn requests_past_the_limit_wait_for_a_place() {
    let (arrived, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let limits = Limits {
        connections: 2,
        ..WIDE
    };
    let server = run(limits, waiting(&arrived, &go_on)).await;
    let mut held = Vec::new();
    for _ in 0..limits.connections {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        send(&mut stream, REQUEST).await;
        arrived.notified().await;
        held.push(stream);
    }
    let mut third = TcpStream::connect(server.address).await.unwrap();
    send(&mut third, REQUEST).await;
    let early = timeout(SHORT, arrived.notified()).await;
    assert!(early.is_err(), "the third request was served");
    // One that is answered gives its place, though its client keeps the connection.
    go_on.notify_one();
    timeout(PATIENCE, arrived.notified()).await.unwrap();
    for _ in 0..2 {
        go_on.notify_one();
    }
    assert!(
        read_to(&mut third, "late")
            .await
            .starts_with("HTTP/1.1 200 ")
    );
    server.end().await;
}

#[tokio::test]
async fn client_that_reads_slowly_keeps_its_place() {
    const LARGE: usize = 64 << 20;
    let router = Router::new().route("/", get(async || vec![b'x'; LARGE]));
    let limits = Limits {
        connections: 1,
        ..WIDE
    };
    let server = run(limits, router).await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    send(&mut slow, REQUEST).await;
    read_to(&mut slow, "\r\n\r\n").await;
    let mut other = TcpStream::connect(server.address).await.unwrap();
    send(&mut other, REQUEST).await;
    assert!(timeout(SHORT, other.readable()).await.is_err());
    let mut body = vec![0; LARGE];
    timeout(PATIENCE, slow.read_exact(&mut body))
        .await
        .unwrap()
        .unwrap();
    read_to(&mut other, "\r\n\r\n").await;
    drop(other);
    server.end().await;
}

/// Connections of clients that say nothing, or half of a request.
async fn open_silent(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut silent = Vec::new();
    for number in 0..count {
        let mut stream = TcpStream::connect(address).await.unwrap();
        if number % 2 == 0 {
            send(&mut stream, "GET / HTTP/1.1\r\nhost:").await;
        }
        silent.push(stream);
    }
    silent
}

/// How long a kubelet waits for a probe.
const PROBE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn probe_is_answered_while_silent_clients_hold_all_connections() {
    let server = run(crate::admin::LIMITS, hello()).await;
    for _ in 0..3 {
        let silent = open_silent(server.address, 64).await;
        let response = timeout(PROBE, ask(server.address, REQUEST)).await.unwrap();
        assert!(response.ends_with("hello"), "{response}");
        drop(silent);
    }
    server.end().await;
}

#[tokio::test]
async fn network_with_all_its_places_is_refused_and_others_are_served() {
    let (arrived, never) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let limits = Limits {
        connections: 3,
        per_network: 2,
        ..WIDE
    };
    let router = waiting(&arrived, &never).route("/free", get(async || "free"));
    let server = run(limits, router).await;
    let from = async |address: [u8; 4]| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((address, 0))).unwrap();
        socket.connect(server.address).await.unwrap()
    };
    let mut held = Vec::new();
    for _ in 0..limits.per_network {
        let mut stream = from([127, 0, 0, 2]).await;
        send(&mut stream, REQUEST).await;
        arrived.notified().await;
        held.push(stream);
    }
    let mut refused = from([127, 0, 0, 2]).await;
    assert_eq!(read_all(&mut refused).await, "");
    let mut other = from([127, 0, 0, 3]).await;
    send(&mut other, "GET /free HTTP/1.1\r\nhost: x\r\n\r\n").await;
    read_to(&mut other, "free").await;
    drop((held, other));
    server.trigger.fire();
}

#[tokio::test]
async fn scrape_over_tls_is_answered_while_silent_clients_hold_all_connections() {
    let folder = TempDir::new().unwrap();
    let trusted = issue(folder.path());
    let tls =
        ServerTls::load(folder.path().join("tls.crt"), folder.path().join("tls.key")).unwrap();
    let server = bind(crate::admin::LIMITS).await;
    let address = server.address().unwrap();
    let (_trigger, shutdown) = shutdown::pair();
    let _serving = tokio::spawn(server.serve_tls(tls, hello(), shutdown));
    let _silent = open_silent(address, 64).await;
    let answered = timeout(PROBE, async {
        let mut stream = connect(address, &trusted, rustls::ALL_VERSIONS)
            .await
            .unwrap();
        send(&mut stream, REQUEST).await;
        read_all(&mut stream).await
    });
    assert!(answered.await.unwrap().ends_with("hello"));
}
