//! Shows the table while nodes change: redrawn in place on a terminal, a line a change elsewhere.

use std::io::{self, IsTerminal as _, Write as _};

use jiff::Timestamp;

use crate::table::{self, Heading, Row};

/// Columns where the terminal does not say.
const COLUMNS: usize = 100;

/// Standard output, and what of it can be drawn over.
#[derive(Debug)]
pub(crate) struct Screen {
    is_terminal: bool,
    /// Lines of the table that stand above the cursor.
    drawn: usize,
    last: Vec<Row>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self {
            is_terminal: io::stdout().is_terminal(),
            drawn: 0,
            last: Vec::new(),
        }
    }

    /// Writes a line that stays.
    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        let erase = self.erase();
        let mut out = io::stdout().lock();
        writeln!(out, "{erase}{text}")?;
        out.flush()
    }

    /// Shows the nodes as they are at `now`.
    pub(crate) fn show(
        &mut self,
        heading: &Heading,
        rows: &[Row],
        now: Timestamp,
    ) -> io::Result<()> {
        let erase = self.erase();
        let mut out = io::stdout().lock();
        if self.is_terminal {
            let lines = table::draw(heading, rows, now, columns());
            self.drawn = lines.len();
            writeln!(out, "{erase}{}", lines.join("\n"))?;
        } else {
            for row in rows.iter().filter(|row| is_news(row, &self.last)) {
                writeln!(out, "{}", table::line(row, now))?;
            }
        }
        self.last = rows.to_vec();
        out.flush()
    }

    /// What takes the table off the terminal.
    fn erase(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        }
    }
}

/// Whether a row says something else than before; the time in the phase alone does not.
fn is_news(row: &Row, before: &[Row]) -> bool {
    let before = before.iter().find(|before| before.node == row.node);
    !row.phase.is_empty()
        && before.is_none_or(|before| {
            (&before.phase, &before.waits_for, before.is_out)
                != (&row.phase, &row.waits_for, row.is_out)
        })
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    size.map_or(COLUMNS, |size| usize::from(size.ws_col))
        .max(20)
}
