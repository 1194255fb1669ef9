//! A registry that misbehaves on purpose, in front of the real one.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is done to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Answered with this status.
    Status(u16),
    /// Answered with half of the real response, and then the end.
    Half,
    /// Not answered.
    Silent,
}

/// What is done to requests whose path has this part.
type Rule = Arc<Mutex<Option<(String, Fault)>>>;

/// A relay on a port of its own, until the test ends.
pub(crate) struct Relay {
    address: SocketAddr,
    rule: Rule,
}

impl Relay {
    pub(crate) fn start(registry: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let rule = Rule::default();
        let shared = Arc::clone(&rule);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let rule = Arc::clone(&shared);
                std::thread::spawn(move || {
                    // A client that is gone ends its own connection only.
                    let _ended = relay(stream, registry, &rule);
                });
            }
        });
        Self { address, rule }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn set(&self, rule: Option<(String, Fault)>) {
        *self.rule.lock().unwrap() = rule;
    }
}

/// One request a connection: its head is all of it, as the service only reads.
fn relay(mut client: TcpStream, registry: SocketAddr, rule: &Rule) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        // The first byte of a TLS handshake is 22: there is none here.
        if client.read(&mut byte)? == 0 || (head.is_empty() && byte == [22]) {
            return Ok(());
        }
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let rule = rule.lock().map_or(None, |rule| rule.clone());
    let fault = rule
        .filter(|(part, _)| path.contains(part.as_str()))
        .map(|(_, fault)| fault);
    if let Some(Fault::Status(status)) = fault {
        let response =
            format!("HTTP/1.1 {status} Fault\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        return client.write_all(response.as_bytes());
    }
    if let Some(Fault::Silent) = fault {
        // Longer than the service is patient.
        std::thread::sleep(Duration::from_secs(5));
        return Ok(());
    }
    let head = head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    let mut server = TcpStream::connect(registry)?;
    server.write_all(head.as_bytes())?;
    let mut response = Vec::new();
    server.read_to_end(&mut response)?;
    let is_half = matches!(fault, Some(Fault::Half));
    let count = if is_half {
        response.len() - 20
    } else {
        response.len()
    };
    client.write_all(response.get(..count).unwrap_or_default())
}
