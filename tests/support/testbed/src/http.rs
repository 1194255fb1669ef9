//! Requests to servers of a run.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Seconds that a server of this machine may take to respond.
const RESPONSE_WITHIN_SECS: &str = "30";

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
