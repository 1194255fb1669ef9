//! What a run leaves: the table on the terminal and `figures.json`.

use std::fs;
use std::io::{IsTerminal as _, Write as _, stdout};
use std::path::Path;

use anyhow::{Context as _, Result};
use display::ink::Ink;

use crate::figure::Figure;
use crate::table::{self, Failure};

/// What came out, in the order of [`crate::figure::ALL`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) figures: Vec<Figure>,
    pub(crate) failures: Vec<Failure>,
}

impl Report {
    /// Writes `figures.json`: what was measured.
    ///
    /// Errors: the folder cannot be written.
    #[expect(
        clippy::disallowed_methods,
        reason = "what a run leaves is made again by the next"
    )]
    pub(crate) fn write(&self, out: &Path) -> Result<()> {
        let path = out.join("figures.json");
        let text = serde_json::to_string_pretty(&self.figures)? + "\n";
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Shows the table.
    ///
    /// Errors: standard output is closed.
    pub(crate) fn show(&self) -> Result<()> {
        let mut out = stdout().lock();
        let ink = if out.is_terminal() {
            Ink::Coloured
        } else {
            Ink::Plain
        };
        let lines = table::draw(&self.figures, &self.failures, ink);
        writeln!(out, "{}", lines.join("\n")).context("cannot show the table")
    }

    /// Whether everything wanted was measured.
    pub(crate) fn is_complete(&self) -> bool {
        self.failures.is_empty()
    }
}
