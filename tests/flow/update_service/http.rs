//! Requests of a test: one connection each, so that nothing is kept between them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result};
use lab::PATIENCE;

/// A response.
#[derive(Debug, Clone)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpAnswer {
    /// A header's value; empty where it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Asks with these headers.
pub(crate) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<HttpAnswer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        request.extend([format!("{name}: {value}\r\n")]);
    }
    stream.write_all(format!("{request}\r\n").as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .context("no end of headers")?;
    let (head, body) = bytes.split_at(end);
    let head = String::from_utf8(head.to_vec())?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .context("no status")?;
    let headers = lines.filter_map(|line| line.split_once(": "));
    Ok(HttpAnswer {
        status: status.parse()?,
        headers: headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        body: body.get(4..).unwrap_or_default().to_vec(),
    })
}
