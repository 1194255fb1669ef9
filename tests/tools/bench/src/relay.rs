//! A relay before the API server that counts bytes: what goes over the wire, TLS and HTTP included.
//!
//! The kubelet and the daemon use one kubeconfig. Each connection is counted for the program that
//! opened it, which the kernel's table of sockets shows.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep_until};

use crate::memory;

/// Pieces of one direction that are under way at once.
const PIECES: usize = 1024;

/// A relay. It ends, and with it its connections, when dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    counts: Counts,
    accepting: JoinHandle<()>,
    cuts: broadcast::Sender<()>,
}

/// What programs sent and received.
#[derive(Clone, Debug, Default)]
struct Counts(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Counts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        // A thread that panicked with the lock held had added a number or not.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Relay {
    /// Listens on a free port of the server's own address, so that its certificate is good for it.
    /// Connections of programs other than `programs` are relayed and not counted. What the server
    /// sends is passed on so much later; how much may be under way does not change.
    ///
    /// Errors: it cannot listen.
    pub(crate) async fn start(
        server: SocketAddr,
        programs: &'static [&'static str],
        latency: Duration,
    ) -> Result<Self> {
        let listener = TcpListener::bind((server.ip(), 0)).await;
        let listener = listener.with_context(|| format!("cannot listen on {}", server.ip()))?;
        let address = listener.local_addr()?;
        let counts = Counts::default();
        let counted = counts.clone();
        let cuts = broadcast::Sender::new(1);
        let cutting = cuts.clone();
        let accepting = tokio::spawn(async move {
            // Ends with the process's descriptors, or when the relay is dropped.
            while let Ok((client, peer)) = listener.accept().await {
                let relayed = relay(client, peer, server, programs, counted.clone(), latency);
                let mut cut = cutting.subscribe();
                tokio::spawn(async move {
                    tokio::select! {
                        () = relayed => {}
                        _ = cut.recv() => {}
                    }
                });
            }
        });
        Ok(Self {
            address,
            counts,
            accepting,
            cuts,
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the connections that are open. New ones are accepted.
    pub(crate) fn cut(&self) {
        // It fails where there are none.
        drop(self.cuts.send(()));
    }

    /// Bytes that a program sent and received so far.
    pub(crate) fn bytes(&self, program: &str) -> u64 {
        self.counts.lock().get(program).copied().unwrap_or_default()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn relay(
    client: TcpStream,
    peer: SocketAddr,
    server: SocketAddr,
    programs: &[&'static str],
    counts: Counts,
    latency: Duration,
) {
    let own = client.local_addr().ok();
    let mut programs = programs.iter().copied();
    let owner = own.and_then(|own| programs.find(|program| owns(program, peer, own)));
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    // A relay that waits for more to send would be seen in the times.
    if client
        .set_nodelay(true)
        .and_then(|()| server.set_nodelay(true))
        .is_err()
    {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let counted = counts.clone();
    let up = tokio::spawn(async move {
        pass_on(from_client, to_server, owner, &counted, Duration::ZERO).await;
    });
    let _up = EndWith(up.abort_handle());
    pass_on(from_server, to_client, owner, &counts, latency).await;
}

/// A task that ends when this is dropped.
struct EndWith(AbortHandle);

impl Drop for EndWith {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Passes on until one end is closed, and closes the other. Each piece is passed on `latency` after
/// it came.
async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    owner: Option<&'static str>,
    counts: &Counts,
    latency: Duration,
) {
    let (pieces, mut under_way) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES);
    let reading = async move {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if let Some(owner) = owner {
                *counts.lock().entry(owner).or_default() += length as u64;
            }
            let piece = buffer.get(..length).unwrap_or_default().to_vec();
            let due = Instant::now() + latency;
            if pieces.send((due, piece)).await.is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((due, piece)) = under_way.recv().await {
            sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reading, writing);
}

/// Whether a process of this program has the connection whose end there is `peer`, and `own` here.
/// A process that ends meanwhile has not.
fn owns(program: &str, peer: SocketAddr, own: SocketAddr) -> bool {
    let (SocketAddr::V4(peer), SocketAddr::V4(own)) = (peer, own) else {
        return false;
    };
    let processes = memory::named(program).unwrap_or_default();
    processes.into_iter().any(|process| {
        let table = fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap_or_default();
        socket(&table, peer, own).is_some_and(|inode| has_open(process, inode))
    })
}

fn has_open(process: u32, inode: u64) -> bool {
    let link = format!("socket:[{inode}]");
    let open = fs::read_dir(format!("/proc/{process}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    open.map(|entry| fs::read_link(entry.path()))
        .any(|target| target.is_ok_and(|target| target.as_os_str() == link.as_str()))
}

/// Inode of the socket between these addresses: connections to several peers may share a local one.
/// Source: the kernel's `proc(5)`, `/proc/net/tcp`: the address as hexadecimal of the bytes in
/// memory, the port as a number, the inode in the tenth field.
fn socket(table: &str, local: SocketAddrV4, remote: SocketAddrV4) -> Option<u64> {
    let ends = [local, remote].map(|end| {
        let address = u32::from_ne_bytes(end.ip().octets());
        format!("{address:08X}:{:04X}", end.port())
    });
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_between = ends.iter().all(|end| fields.next() == Some(end));
        is_between.then(|| fields.nth(6)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_found_by_both_ends() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0A00610A:B3AC 0200610A:1A0B 06 00000000:00000000 03:00000D5C 00000000     0        0 0 3 0
   2: 0A00610A:B3AC 0100610A:1A0B 01 00000000:00000000 02:000005DC 00000000     0        0 987654 2 0 20 4 30 10 -1
";
        let remote = "10.97.0.1:6667".parse().unwrap();
        let found = |text: &str| socket(table, text.parse().unwrap(), remote);
        assert_eq!(found("10.97.0.10:45996"), Some(987_654));
        assert_eq!(found("10.97.0.10:45997"), None);
    }

    #[tokio::test]
    async fn bytes_of_both_directions_are_counted_for_who_connected() {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = echo.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = echo.accept().await.unwrap();
            let mut word = [0; 5];
            stream.read_exact(&mut word).await.unwrap();
            stream.write_all(b"back").await.unwrap();
        });
        let own = fs::read_to_string("/proc/self/comm")
            .unwrap()
            .trim_end()
            .to_owned();
        let names: &'static [&'static str] = vec![&*own.leak()].leak();
        let relay = Relay::start(server, names, Duration::from_millis(5))
            .await
            .unwrap();
        let mut stream = TcpStream::connect(relay.address()).await.unwrap();
        stream.write_all(b"there").await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert_eq!(response, "back");
        assert_eq!(relay.bytes(names[0]), 9);
        assert_eq!(relay.bytes("mcd"), 0);
    }
}
