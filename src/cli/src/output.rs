//! Where something is printed.

use std::io::Write as _;

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

/// Prints a warning to standard error.
pub(crate) fn warn(text: &str) {
    #[expect(clippy::print_stderr, reason = "a warning of the command line")]
    {
        eprintln!("warning: {text}");
    }
}
