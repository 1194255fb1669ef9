//! Shows the nodes on standard output while they change. Where nothing changes, a line says how
//! long what was begun last is under way.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use display::ink::Ink;
use display::live::{LiveHeading, LiveNode, LiveView, Medium, ScreenSize};
use jiff::Timestamp;

/// Size where the terminal reports none.
const SIZE: (u16, u16) = (100, 50);

/// After so long without a line, one says that it goes on. On a terminal it is drawn in place.
const SILENT_FOR: Duration = Duration::from_secs(8);
const SILENT_ON_TERMINAL_FOR: Duration = Duration::from_secs(1);

/// What takes the line at the cursor away.
const CLEAR: &str = "\r\x1b[K";

/// Time between two looks at how long nothing was written.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Standard output, and what is shown on it.
#[derive(Debug)]
pub(crate) struct Screen(Arc<Mutex<Shown>>);

#[derive(Debug)]
struct Shown {
    view: LiveView,
    is_terminal: bool,
    /// Whether the line of a silence stands at the cursor.
    has_line: bool,
    /// What was begun last, and when.
    begun: String,
    since: Instant,
    /// When something was written last.
    written: Instant,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let is_terminal = io::stdout().is_terminal();
        let shown = Shown {
            view: LiveView::new(if is_terminal {
                Medium::Terminal(Ink::Coloured)
            } else {
                Medium::Lines
            }),
            is_terminal,
            has_line: false,
            begun: String::new(),
            since: now,
            written: now,
        };
        let shown = Arc::new(Mutex::new(shown));
        let watched = Arc::downgrade(&shown);
        thread::spawn(move || watch(&watched));
        Self(shown)
    }

    /// Writes a line that stays.
    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        let mut shown = lock(&self.0);
        shown.begin(text);
        let text = shown.view.say(text);
        shown.write(&text)
    }

    /// Nothing is under way: something else writes, or nothing is to be shown.
    pub(crate) fn rest(&mut self) -> io::Result<()> {
        let mut shown = lock(&self.0);
        shown.begun.clear();
        if shown.has_line {
            shown.write(CLEAR)?;
        }
        Ok(())
    }

    /// Shows the nodes as they are at `now`.
    pub(crate) fn show(
        &mut self,
        heading: &LiveHeading,
        nodes: Vec<LiveNode>,
        now: Timestamp,
    ) -> io::Result<()> {
        let mut shown = lock(&self.0);
        shown.begin(&heading.title);
        let text = shown.view.show(heading, nodes, now, size());
        shown.write(&text)
    }
}

impl Shown {
    fn begin(&mut self, text: &str) {
        if self.begun != text {
            text.clone_into(&mut self.begun);
            self.since = Instant::now();
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.written = Instant::now();
        let clear = if std::mem::take(&mut self.has_line) {
            CLEAR
        } else {
            ""
        };
        let mut out = io::stdout().lock();
        out.write_all(format!("{clear}{text}").as_bytes())?;
        out.flush()
    }

    /// Writes the line of a silence.
    fn go_on(&mut self, line: &str) -> io::Result<()> {
        if !self.is_terminal {
            let text = self.view.say(line);
            return self.write(&text);
        }
        let columns = size().columns.saturating_sub(1);
        let line: String = line.chars().take(columns).collect();
        self.write(&format!("{CLEAR}{line}"))?;
        self.has_line = true;
        Ok(())
    }

    /// The line of a silence, if there is one at `now`.
    fn silence(&self, now: Instant) -> Option<String> {
        let silent_for = if self.is_terminal {
            SILENT_ON_TERMINAL_FOR
        } else {
            SILENT_FOR
        };
        let is_silent = now.duration_since(self.written) >= silent_for && !self.begun.is_empty();
        let secs = now.duration_since(self.since).as_secs();
        is_silent.then(|| format!("{}: {secs} s", self.begun))
    }
}

/// Ends silences until the screen is gone.
fn watch(watched: &Weak<Mutex<Shown>>) {
    while let Some(shown) = watched.upgrade() {
        {
            let mut shown = lock(&shown);
            if let Some(line) = shown.silence(Instant::now()) {
                // Who runs the demo learns of a closed output by its next line.
                drop(shown.go_on(&line));
            }
        }
        drop(shown);
        thread::sleep(LOOK_EVERY);
    }
}

fn lock(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

fn size() -> ScreenSize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    let (columns, lines) = size.map_or(SIZE, |size| (size.ws_col, size.ws_row));
    ScreenSize {
        columns: usize::from(columns).max(20),
        lines: usize::from(lines).max(20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_ended_by_what_is_under_way_since_it_began() {
        let start = Instant::now();
        let mut shown = Shown {
            view: LiveView::new(Medium::Lines),
            is_terminal: false,
            has_line: false,
            begun: String::new(),
            since: start,
            written: start,
        };
        assert_eq!(shown.silence(start + SILENT_FOR), None);
        shown.begin("starting hosts");
        shown.since = start;
        assert_eq!(shown.silence(start + SILENT_FOR / 2), None);
        let line = shown.silence(start + Duration::from_secs(9));
        assert_eq!(line.as_deref(), Some("starting hosts: 9 s"));
        shown.written = start + Duration::from_secs(9);
        assert_eq!(shown.silence(start + Duration::from_secs(10)), None);
        // The same title again does not begin anything.
        shown.begin("starting hosts");
        let line = shown.silence(start + Duration::from_secs(20));
        assert_eq!(line.as_deref(), Some("starting hosts: 20 s"));
    }
}
