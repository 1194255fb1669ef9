//! Requests to servers of a run.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Seconds that a server of this machine may take to respond.
const RESPONSE_WITHIN_SECS: &str = "30";

/// Seconds that a server with a queue, a limit or a handshake may take.
const ASKED_WITHIN_SECS: &str = "60";

/// A response.
#[derive(Clone, Debug)]
pub struct HttpReply {
    /// Its code.
    pub status: u16,
    head: String,
    /// Its body.
    pub body: String,
}

impl HttpReply {
    /// A header's value; empty where it is absent.
    pub fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map_or("", |(_, value)| value)
    }

    /// Its status line and headers.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Its body as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| self.body.clone())
    }
}

/// Sends a request by curl, which is another's client, with further arguments of curl.
#[expect(clippy::disallowed_methods, reason = "a program of the machine")]
pub fn ask<A: AsRef<OsStr>>(url: &str, arguments: &[A]) -> Result<HttpReply> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--globoff"])
        .args(["--max-time", ASKED_WITHIN_SECS, "--noproxy", "*"])
        .args(arguments)
        .arg(url)
        .env_remove("https_proxy")
        .output()
        .context("cannot run curl")?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "curl: {}", why.trim());
    let text = String::from_utf8(output.stdout)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no end of headers")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok(HttpReply {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// The body of a successful response.
#[expect(clippy::disallowed_methods, reason = "a program of the machine")]
pub fn get(url: &str) -> Result<String> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--noproxy", "*"])
        .args(["--max-time", RESPONSE_WITHIN_SECS, url])
        .output()
        .context("cannot run curl")?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot read {url}: {}", why.trim());
    Ok(String::from_utf8(output.stdout)?)
}
