//! Shows the nodes on standard output while they change.

use std::io::{self, IsTerminal as _, Write as _};

use display::ink::Ink;
use display::live::{LiveHeading, LiveNode, LiveView, Medium, ScreenSize};
use jiff::Timestamp;

/// Size where the terminal reports none.
const SIZE: (u16, u16) = (100, 50);

/// Standard output, and what is shown on it.
#[derive(Debug)]
pub(crate) struct Screen(LiveView);

impl Screen {
    pub(crate) fn new() -> Self {
        Self(LiveView::new(if io::stdout().is_terminal() {
            Medium::Terminal(Ink::Coloured)
        } else {
            Medium::Lines
        }))
    }

    /// Writes a line that stays.
    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        write(&self.0.say(text))
    }

    /// Shows the nodes as they are at `now`.
    pub(crate) fn show(
        &mut self,
        heading: &LiveHeading,
        nodes: Vec<LiveNode>,
        now: Timestamp,
    ) -> io::Result<()> {
        write(&self.0.show(heading, nodes, now, size()))
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn size() -> ScreenSize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    let (columns, lines) = size.map_or(SIZE, |size| (size.ws_col, size.ws_row));
    ScreenSize {
        columns: usize::from(columns).max(20),
        lines: usize::from(lines).max(20),
    }
}
