//! Where something is printed.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use clap::ValueEnum;
use serde::Serialize;

/// Forms for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViewForm {
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// Prints a view as text, or in the form that was asked for.
pub(crate) fn show(
    form: Option<ViewForm>,
    view: &impl Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match form {
        None => print(text()),
        Some(ViewForm::Json) => print(serde_json::to_string_pretty(view)? + "\n"),
        // Through JSON, so that both forms have the same fields.
        Some(ViewForm::Yaml) => print(serde_saphyr::to_string(&serde_json::to_value(view)?)?),
    }
}

/// Prints to standard output, unchanged.
pub(crate) fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_ref())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")?;
    Ok(())
}

/// Prints a text, or writes it to a file; `-` is standard output.
pub(crate) fn print_or_write(path: &Path, text: &str) -> anyhow::Result<()> {
    if path.as_os_str() == "-" {
        print(text)
    } else {
        write(path, text.as_bytes())
    }
}

/// Replaces a file whole.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let replace = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new()
            .permissions(std::fs::Permissions::from_mode(0o644))
            .tempfile_in(directory.unwrap_or_else(|| Path::new(".")))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    replace().with_context(|| format!("cannot write {}", path.display()))
}

/// Prints a warning to standard error.
pub(crate) fn warn(text: &str) {
    #[expect(clippy::print_stderr, reason = "a warning of the command line")]
    {
        eprintln!("warning: {text}");
    }
}
