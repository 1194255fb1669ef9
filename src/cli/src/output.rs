//! Where something is printed.
//!
//! Text for people passes [`plain`] here, on its way to standard output and standard error alike:
//! clusters, releases and update services wrote parts of it. Forms for programs are data and stay
//! as they are.

use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use clap::ValueEnum;
use display::plain::plain;
use serde::Serialize;

use crate::failure;

/// Forms for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViewForm {
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// Prints a view as text, or in the requested form.
pub(crate) fn show(
    form: Option<ViewForm>,
    view: &impl Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match form {
        None => print(text()),
        Some(ViewForm::Json) => print_data(serde_json::to_string_pretty(view)? + "\n"),
        // Through JSON, so that both forms have the same fields.
        Some(ViewForm::Yaml) => print_data(serde_saphyr::to_string(&serde_json::to_value(view)?)?),
    }
}

/// Prints text to standard output.
pub(crate) fn print(text: impl AsRef<str>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    write_text(&mut out, text.as_ref())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Writes text for people: the one way of it to either output.
pub(crate) fn write_text(out: &mut impl Write, text: &str) -> std::io::Result<()> {
    out.write_all(plain(text).as_bytes())
}

/// Prints to standard output, unchanged: what programs read, files, and a drawing for a terminal
/// whose parts are [`plain`] already.
pub(crate) fn print_data(data: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(data.as_ref())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")?;
    Ok(())
}

/// Prints a document, or writes it to a file; `-` is standard output.
pub(crate) fn print_or_write(path: &Path, text: &str) -> anyhow::Result<()> {
    if path.as_os_str() == "-" {
        print_data(text)
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
    print_error("warning", text);
}

/// Prints why a command failed to standard error.
pub fn report(error: &anyhow::Error) {
    for line in failure::lines(error) {
        print_error("error", &line);
    }
}

fn print_error(kind: &str, text: &str) {
    // Without a standard error there is no one to report it to.
    drop(write_text(
        &mut std::io::stderr().lock(),
        &format!("{kind}: {text}\n"),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_does_not_steer_the_terminal() {
        let mut out = Vec::new();
        let reason = "\x1b]52;c;Y3VybCBldmlsfHNo\x07\x1b[1A\x1b[2KNode w2: Done\n\tlast\u{202e}";
        write_text(&mut out, reason).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\u{fffd}]52;c;Y3VybCBldmlsfHNo\u{fffd}\u{fffd}[1A\u{fffd}[2KNode w2: Done\n\tlast\u{fffd}"
        );
    }
}
