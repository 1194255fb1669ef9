//! Requests over some connections, each as soon as the one before is answered, and how long they
//! took. Each connection is a thread, which blocks: the least that asking can cost.

use std::io::{ErrorKind, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

/// Longest head of a response.
const HEAD_MAX_BYTES: usize = 16 << 10;

/// How long one response may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// When to end, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    /// Of all connections together.
    pub(crate) requests: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// Of each response, in no order.
    took: Vec<Duration>,
    elapsed: Duration,
    /// Of one body.
    bytes: usize,
}

impl Load {
    /// Shape: `{"responses", "per_second", "p99_ms", "bytes"}`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let responses = u32::try_from(self.took.len()).unwrap_or(u32::MAX);
        let elapsed = self.elapsed.as_secs_f64();
        json!({
            "responses": responses,
            "per_second": f64::from(responses) / elapsed,
            "p99_ms": p99(&self.took).as_secs_f64() * 1e3,
            "bytes": self.bytes,
        })
    }
}

/// Asks for a path until a limit is reached.
///
/// Errors: a response is none, is no 200, or has another length than the first.
pub(crate) fn run(
    address: SocketAddr,
    path: &str,
    connections: u16,
    limits: Limits,
) -> Result<Load> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\n\
         Accept-Encoding: identity\r\n\r\n"
    );
    let left = AtomicU64::new(limits.requests);
    let began = Instant::now();
    let deadline = began + limits.time;
    let results: Vec<Result<Load>> = thread::scope(|scope| {
        let spawn = |_| scope.spawn(|| ask(address, request.as_bytes(), &left, deadline));
        let threads: Vec<_> = (0..connections).map(spawn).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            let done = thread.join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    let mut all = Load {
        elapsed: began.elapsed(),
        ..Load::default()
    };
    for one in results {
        let one = one?;
        all.took.extend(one.took);
        all.bytes = all.bytes.max(one.bytes);
    }
    ensure!(!all.took.is_empty(), "{address} answered nothing");
    Ok(all)
}

/// One connection's part. A server ends connections after a while: another one is opened then, and
/// its time is that of the request.
fn ask(address: SocketAddr, request: &[u8], left: &AtomicU64, deadline: Instant) -> Result<Load> {
    let mut load = Load::default();
    let mut buffer = vec![0; 256 << 10];
    let mut connection = connect(address)?;
    while Instant::now() < deadline {
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        });
        if taken.is_err() {
            break;
        }
        let began = Instant::now();
        let answered = match connection.write_all(request) {
            Ok(()) => read(&mut connection, &mut buffer)?,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => None,
            Err(error) => return Err(error).context("cannot ask"),
        };
        let response = if let Some(response) = answered {
            response
        } else {
            // Closed between two requests.
            connection = connect(address)?;
            connection.write_all(request)?;
            let response = read(&mut connection, &mut buffer)?;
            response.context("a new connection is closed at once")?
        };
        load.took.push(began.elapsed());
        ensure!(
            load.bytes == 0 || load.bytes == response.bytes,
            "responses of {} and of {} bytes",
            load.bytes,
            response.bytes
        );
        load.bytes = response.bytes;
        if response.is_last {
            connection = connect(address)?;
        }
    }
    Ok(load)
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let connection = TcpStream::connect_timeout(&address, PATIENCE);
    let connection = connection.with_context(|| format!("cannot connect to {address}"))?;
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// One response.
#[derive(Debug, PartialEq, Eq)]
struct LoadResponse {
    /// Of its body.
    bytes: usize,
    /// Whether the connection ends with it.
    is_last: bool,
}

/// Reads a response; none if the connection ended before it.
fn read(connection: &mut impl Read, buffer: &mut [u8]) -> Result<Option<LoadResponse>> {
    let mut head = Vec::new();
    let (end, mut body) = loop {
        let count = match connection.read(buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset && head.is_empty() => 0,
            Err(error) => return Err(error).context("cannot read a response"),
        };
        if count == 0 && head.is_empty() {
            return Ok(None);
        }
        ensure!(count > 0, "a response ends in its head");
        head.extend(buffer.iter().take(count));
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            break (end, head.len() - end - 4);
        }
        ensure!(head.len() < HEAD_MAX_BYTES, "a response has a long head");
    };
    head.truncate(end);
    let head = String::from_utf8(head).context("a response's head is no text")?;
    let head = head.to_ascii_lowercase();
    ensure!(
        head.starts_with("http/1.1 200"),
        "a response is no 200: {head}"
    );
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let Some(length) = length else {
        bail!("a response has no length: {head}");
    };
    let bytes: usize = length.trim().parse().context("content-length")?;
    while body < bytes {
        let count = connection.read(buffer).context("cannot read a body")?;
        ensure!(count > 0, "a body ends early");
        body += count;
    }
    ensure!(
        body == bytes,
        "a body of {body} bytes, which is to have {bytes}"
    );
    let is_last = head.contains("\r\nconnection: close");
    Ok(Some(LoadResponse { bytes, is_last }))
}

/// The least time that 99 of 100 are not above.
fn p99(took: &[Duration]) -> Duration {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * 99).div_ceil(100);
    let found = rank.checked_sub(1).and_then(|index| sorted.get(index));
    found.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that says these pieces, one a read.
    struct Pieces(Vec<&'static [u8]>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn response(pieces: &[&'static [u8]]) -> Result<Option<LoadResponse>> {
        read(&mut Pieces(pieces.to_vec()), &mut [0; 1024])
    }

    #[test]
    fn an_answer_is_read_whole_however_it_comes() {
        let whole = response(&[
            b"HTTP/1.1 200 OK\r\nContent-",
            b"Length: 5\r\nConnection: close\r\n\r\nab",
            b"cde",
        ]);
        let expected = LoadResponse {
            bytes: 5,
            is_last: true,
        };
        assert_eq!(whole.unwrap(), Some(expected));
        assert_eq!(response(&[]).unwrap(), None);
    }

    #[test]
    fn what_is_no_whole_answer_is_an_error() {
        for (piece, expected) in [
            ("HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n", "no 200"),
            ("HTTP/1.1 200 OK\r\n\r\n", "no length"),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab",
                "ends early",
            ),
            ("HTTP/1.1", "in its head"),
        ] {
            let error = response(&[piece.as_bytes()]).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }

    #[test]
    fn one_of_a_hundred_may_be_above_the_99th_percentile() {
        let took: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(p99(&took), Duration::from_millis(198));
    }
}
