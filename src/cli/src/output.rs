//! Where something is printed.

use std::io::Write as _;

use anyhow::Context as _;

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
