//! Programs of this machine that the lab runs to their end.
#![expect(
    clippy::disallowed_methods,
    reason = "the lab runs programs; it is no part of what it tests"
)]

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};

/// A command with nothing of this process's environment but the way to the programs and, for those
/// that download, the proxy.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C.UTF-8");
    for name in ["http_proxy", "https_proxy", "no_proxy"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Runs a command and returns its standard output, without the last line's end.
///
/// # Errors
///
/// It cannot be started, or exits with another code than 0; with its standard error.
pub fn run(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    ensure!(
        output.status.success(),
        "{command:?} failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    let text = String::from_utf8(output.stdout)
        .with_context(|| format!("{command:?} printed what is not UTF-8"))?;
    Ok(text.trim_end_matches('\n').to_owned())
}

/// Runs a command to its end, whatever that is.
///
/// # Errors
///
/// It cannot be started.
pub fn output(command: &mut Command) -> Result<Output> {
    command
        .output()
        .with_context(|| format!("cannot run {command:?}"))
}
