//! The process of a held playground: its start, and its end.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};

/// Starts a held playground; the exit code, and what was printed.
pub(crate) fn hold(programs: &Path, out: &Path) -> Result<(Option<i32>, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_demo"))
        .args(["--playground", "--hold", "--programs"])
        .arg(programs)
        .arg("--out")
        .arg(out)
        .stdin(Stdio::null())
        .output()
        .context("cannot run the demo")?;
    Ok((output.status.code(), printed(&output)))
}

/// Ends what is held in a folder; what was printed.
pub(crate) fn end(out: &Path) -> Result<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("end-playground.sh");
    let output = Command::new(&script).arg(out).output();
    let output = output.with_context(|| format!("cannot run {}", script.display()))?;
    if !output.status.success() {
        bail!("{} fails: {}", script.display(), printed(&output));
    }
    Ok(printed(&output))
}

/// Standard output, then standard error.
pub(crate) fn printed(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}
