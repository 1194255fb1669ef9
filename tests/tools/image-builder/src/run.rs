//! Programs of the machine that images are made on.

#![expect(
    clippy::disallowed_methods,
    reason = "a tool that builds runs programs; it ships nowhere"
)]

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// Runs a program in a directory; what it printed.
///
/// # Errors
/// It cannot be run, or fails; with what it said.
pub fn output(directory: &Path, words: &[&str]) -> anyhow::Result<Vec<u8>> {
    let (program, arguments) = words.split_first().context("no program")?;
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    ensure!(
        output.status.success(),
        "{} failed: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(output.stdout)
}

/// The same, as text without the last line's end.
///
/// # Errors
/// Those of [`output`], or what it printed is not UTF-8.
pub fn text(directory: &Path, words: &[&str]) -> anyhow::Result<String> {
    let bytes = output(directory, words)?;
    let text = String::from_utf8(bytes).with_context(|| words.join(" "))?;
    Ok(text.trim_end().to_owned())
}
