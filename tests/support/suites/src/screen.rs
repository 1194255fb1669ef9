//! Where a run is shown: a terminal, whose last lines are drawn again, a stream of lines, or a file
//! that another program shows.
#![expect(
    clippy::disallowed_methods,
    reason = "a file of the build that the next moment replaces"
)]

use std::fs;
use std::io::{IsTerminal as _, Write as _, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::workspace::setting;

/// Time between two statuses where lines cannot be drawn again. Nothing is silent for longer.
const LINES_EVERY: Duration = Duration::from_secs(10);

/// The same in the log of a CI run.
const CI_LINES_EVERY: Duration = Duration::from_mins(1);

/// Columns where the terminal does not have the number.
const COLUMNS: usize = 100;

/// Where it is shown.
#[derive(Debug)]
pub(crate) enum Screen {
    Terminal {
        /// Lines of the status that stand above the cursor.
        drawn: usize,
    },
    Lines {
        every: Duration,
        last: Instant,
    },
    /// Only the status, in one line.
    File(PathBuf),
}

impl Screen {
    /// Standard output.
    pub(crate) fn new() -> Self {
        if stdout().is_terminal() {
            return Self::Terminal { drawn: 0 };
        }
        Self::Lines {
            every: match setting("CI") {
                Some(_) => CI_LINES_EVERY,
                None => LINES_EVERY,
            },
            last: Instant::now(),
        }
    }

    /// Time between two calls of [`Self::status`].
    pub(crate) fn tick(&self) -> Duration {
        match self {
            Self::Terminal { .. } | Self::File(_) => Duration::from_secs(1),
            Self::Lines { every, .. } => *every,
        }
    }

    /// Shows a line that stays.
    pub(crate) fn say(&mut self, line: &str) {
        let erase = match self {
            Self::Terminal { drawn } => erase(drawn),
            Self::Lines { last, .. } => {
                *last = Instant::now();
                String::new()
            }
            Self::File(_) => return,
        };
        write(&format!("{erase}{line}\n"));
    }

    /// Shows a status: a heading, and a line for each running job.
    pub(crate) fn status(&mut self, heading: &str, jobs: &[String]) {
        match self {
            Self::Terminal { drawn } => {
                let erase = erase(drawn);
                let columns = columns();
                let lines = std::iter::once(heading.to_owned());
                let lines: Vec<_> = lines
                    .chain(jobs.iter().map(|job| format!("        {job}")))
                    .map(|line| line.chars().take(columns).collect::<String>())
                    .collect();
                *drawn = lines.len();
                write(&format!("{erase}{}\n", lines.join("\n")));
            }
            Self::Lines { every, last } => {
                // A line that stays came meanwhile.
                if last.elapsed() + Duration::from_secs(1) < *every {
                    return;
                }
                *last = Instant::now();
                write(&format!("{heading}: {}\n", one_line(jobs)));
            }
            Self::File(path) => {
                // It is shown again in a second.
                drop(fs::write(path, one_line(jobs)));
            }
        }
    }

    /// Takes the status away.
    pub(crate) fn clear(&mut self) {
        if let Self::Terminal { drawn } = self {
            write(&erase(drawn));
        }
    }
}

fn one_line(jobs: &[String]) -> String {
    let squeeze = |job: &String| job.split_whitespace().collect::<Vec<_>>().join(" ");
    jobs.iter().map(squeeze).collect::<Vec<_>>().join(", ")
}

/// What takes the status off the terminal.
fn erase(drawn: &mut usize) -> String {
    match std::mem::take(drawn) {
        0 => String::new(),
        lines => format!("\x1b[{lines}A\x1b[J"),
    }
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    size.map_or(COLUMNS, |size| usize::from(size.ws_col).max(20))
}

/// Writes to standard output.
pub(crate) fn write(text: &str) {
    let mut out = stdout().lock();
    // Where standard output is closed, the exit code says it.
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}
