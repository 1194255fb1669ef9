//! Nodes while they change: a table that is drawn in place, or a line for each change.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::ink::{Ink, Tone};
use crate::table::{AlignedTable, Cell, Column, cut};

/// A node as its daemon reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveNode {
    pub name: String,
    /// Its pool; the column is left out if no node has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// Phase of the daemon's state machine; empty before the daemon reported one.
    pub phase: String,
    /// What the phase waits for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Since when it is in the phase.
    pub since: Option<Timestamp>,
    /// Cordoned or not Ready.
    pub is_out: bool,
}

/// What stands above the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct LiveHeading {
    pub title: String,
    /// Facts about all nodes, one a line; each begins with what it is about, up to the colon.
    pub notes: Vec<String>,
}

/// Where the view is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A terminal, on which the table is drawn in place.
    Terminal(Ink),
    /// A file or pipe, to which each change is a line.
    Lines,
}

/// Columns and lines of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenSize {
    /// Characters in a line.
    pub columns: usize,
    /// Lines; the table and what stands above it take fewer.
    pub lines: usize,
}

/// The view, and what of it is shown already. Its methods return what is written next.
#[derive(Debug)]
pub struct LiveView {
    medium: Medium,
    /// Lines of the table that stand above the cursor.
    drawn: usize,
    nodes: Vec<LiveNode>,
    notes: Vec<String>,
}

const NODE: Column = Column::left("NODE");
const POOL: Column = Column::left("POOL");
// The longest of all phases.
const PHASE: Column = Column::left("PHASE").as_wide_as("Unreconcilable");
const SINCE: Column = Column::right("SINCE").as_wide_as("12h34m");
const WAITS_FOR: Column = Column::left("WAITS FOR");

const WITHOUT_POOL: [Column; 4] = [NODE, PHASE, SINCE, WAITS_FOR];
const WITH_POOL: [Column; 5] = [NODE, POOL, PHASE, SINCE, WAITS_FOR];

impl LiveView {
    /// A view that shows nothing yet.
    pub const fn new(medium: Medium) -> Self {
        Self {
            medium,
            drawn: 0,
            nodes: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub const fn medium(&self) -> Medium {
        self.medium
    }

    /// A line that stays, with what takes the table away; the next [`Self::show`] draws it below.
    pub fn say(&mut self, text: &str) -> String {
        format!("{}{text}\n", self.erase())
    }

    /// The nodes as they are at `now`.
    pub fn show(
        &mut self,
        heading: &LiveHeading,
        nodes: Vec<LiveNode>,
        now: Timestamp,
        size: ScreenSize,
    ) -> String {
        let text = match self.medium {
            Medium::Terminal(ink) => {
                let erase = self.erase();
                let lines = draw(ink, heading, &nodes, now, size);
                self.drawn = lines.len();
                format!("{erase}{}\n", lines.join("\n"))
            }
            Medium::Lines => self.changes(heading, &nodes, now),
        };
        self.nodes = nodes;
        self.notes.clone_from(&heading.notes);
        text
    }

    /// What takes the table off the terminal.
    fn erase(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        }
    }

    /// A line for each note and node that differs from what was shown.
    fn changes(&self, heading: &LiveHeading, nodes: &[LiveNode], now: Timestamp) -> String {
        let at = now.strftime("%H:%M:%S");
        let remarks = heading.notes.iter();
        let remarks = remarks.filter(|note| !self.notes.contains(note));
        let mut lines: Vec<String> = remarks.map(|note| format!("{at}  {note}")).collect();
        let mut before: BTreeMap<&str, &LiveNode> = self
            .nodes
            .iter()
            .map(|node| (node.name.as_str(), node))
            .collect();
        for node in nodes {
            if node.is_news(before.remove(node.name.as_str())) {
                lines.push(format!("{at}  {}", node.line()));
            }
        }
        lines.extend(before.keys().map(|name| format!("{at}  {name}  deleted")));
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

impl LiveNode {
    /// Whether it reports something else than before; the time in the phase alone is no news.
    fn is_news(&self, before: Option<&Self>) -> bool {
        let news = |node: &Self| {
            let (phase, waits_for) = (node.phase.clone(), node.waits_for.clone());
            (phase, waits_for, node.reason.clone(), node.is_out)
        };
        !self.phase.is_empty() && before.is_none_or(|before| news(before) != news(self))
    }

    /// What a change is written as, where lines cannot be drawn over.
    fn line(&self) -> String {
        let out = if self.is_out {
            "  (out of service)"
        } else {
            ""
        };
        let why = match (self.waits_for.as_str(), self.reason.as_str()) {
            ("", "") => String::new(),
            ("", reason) => format!("  {reason}"),
            (what, _) => format!("  waits for {what}"),
        };
        let line = format!("{}  {}{out}{why}", self.name, self.phase);
        cut(&line, usize::MAX)
    }

    fn tone(&self) -> Tone {
        match self.phase.as_str() {
            "Idle" | "Done" => Tone::Good,
            "Fetching" => Tone::Busy,
            "Draining" | "Applying" | "Rebooting" | "Verifying" | "Finishing" | "Starting"
            | "Working" => Tone::Away,
            "RollingBack" | "Held" | "Degraded" | "Unreconcilable" => Tone::Bad,
            _ => Tone::Plain,
        }
    }

    fn is_settled(&self) -> bool {
        self.tone() == Tone::Good && !self.is_out && self.waits_for.is_empty()
    }

    fn cells(&self, with_pool: bool, now: Timestamp) -> Vec<Cell> {
        let since = self.since.map(|since| ago(now.duration_since(since)));
        let why = [&self.waits_for, &self.reason];
        let why = why.into_iter().find(|why| !why.is_empty());
        let mut cells = vec![self.name.as_str().into()];
        if with_pool {
            cells.push(self.pool.as_str().into());
        }
        cells.push(Cell::new(self.phase.as_str(), self.tone()));
        cells.push(since.unwrap_or_default().into());
        cells.push(why.cloned().unwrap_or_default().into());
        cells
    }
}

/// Lines of the table at `now`, of which none is wider than the terminal. Where it has no room for
/// all nodes, those under way and failed ones are shown first.
fn draw(
    ink: Ink,
    heading: &LiveHeading,
    nodes: &[LiveNode],
    now: Timestamp,
    size: ScreenSize,
) -> Vec<String> {
    let width = size.columns;
    let mut lines = vec![
        String::new(),
        ink.paint(Tone::Strong, &cut(&heading.title, width)),
    ];
    let remarks = heading.notes.iter();
    lines.extend(remarks.map(|note| ink.paint(Tone::Soft, &cut(note, width))));
    lines.push(String::new());
    // Titles, the empty line at the end, and the line of the cursor.
    let room = size.lines.saturating_sub(lines.len() + 3).max(1);
    let (shown, rest) = choose(nodes, room);

    let with_pool = nodes.iter().any(|node| !node.pool.is_empty());
    let columns: &[Column] = if with_pool { &WITH_POOL } else { &WITHOUT_POOL };
    let mut table = AlignedTable::new(columns);
    for node in shown {
        let mark = if node.is_out {
            Cell::new("\u{25cb}", Tone::Away)
        } else {
            Cell::new("\u{25cf}", Tone::Good)
        };
        table.push(mark, node.cells(with_pool, now));
    }
    lines.extend(table.draw(ink, width));
    if rest > 0 {
        let more = format!("  and {rest} more nodes");
        lines.push(ink.paint(Tone::Soft, &cut(&more, width)));
    }
    lines.push(String::new());
    lines
}

/// The nodes that have room, in their order, and how many others there are.
fn choose(nodes: &[LiveNode], room: usize) -> (Vec<&LiveNode>, usize) {
    if nodes.len() <= room {
        return (nodes.iter().collect(), 0);
    }
    // One line is for the number of others.
    let room = room.saturating_sub(1).max(1);
    let mut places: Vec<usize> = (0..nodes.len()).collect();
    places.sort_by_key(|place| nodes.get(*place).is_some_and(LiveNode::is_settled));
    places.truncate(room);
    places.sort_unstable();
    let shown: Vec<&LiveNode> = places.iter().filter_map(|at| nodes.get(*at)).collect();
    let rest = nodes.len() - shown.len();
    (shown, rest)
}

/// `7s`, `1m05s`, `2h03m`
fn ago(length: SignedDuration) -> String {
    let secs = length.as_secs().max(0);
    match secs {
        0..60 => format!("{secs}s"),
        60..3600 => format!("{}m{:02}s", secs / 60, secs % 60),
        _ => format!("{}h{:02}m", secs / 3600, secs / 60 % 60),
    }
}

#[cfg(test)]
mod tests;
