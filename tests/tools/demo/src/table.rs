//! The live table: which phase each node is in, what it waits for, and since when. Pure;
//! [`crate::live`] shows it.

use display::ink::{Ink, Tone};
use display::table::{Cell, Column, Table, cut};
use jiff::{SignedDuration, Timestamp};

/// A node as its annotations show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) node: String,
    /// Phase of the daemon's state machine; empty before the daemon said any.
    pub(crate) phase: String,
    pub(crate) waits_for: String,
    /// Since when it is in the phase.
    pub(crate) since: Option<Timestamp>,
    /// Cordoned or not Ready.
    pub(crate) is_out: bool,
}

/// What stands above the table.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Heading {
    pub(crate) title: String,
    /// Ready replicas, of how many.
    pub(crate) ready: (usize, usize),
}

const COLUMNS: [Column; 4] = [
    Column::left("NODE"),
    // The longest of all phases.
    Column::left("PHASE").as_wide_as("Unreconcilable"),
    Column::right("SINCE").as_wide_as("12h34m"),
    Column::left("WAITS FOR"),
];

/// Lines of the table at `now`, none wider than `width` columns.
pub(crate) fn draw(heading: &Heading, rows: &[Row], now: Timestamp, width: usize) -> Vec<String> {
    let mut table = Table::new(&COLUMNS);
    for row in rows {
        let mark = if row.is_out {
            Cell::new("\u{25cb}", Tone::Away)
        } else {
            Cell::new("\u{25cf}", Tone::Good)
        };
        let since = row.since.map(|since| ago(now.duration_since(since)));
        let phase = Cell::new(row.phase.as_str(), tone(&row.phase));
        let since = since.unwrap_or_default().into();
        let cells = [
            row.node.as_str().into(),
            phase,
            since,
            row.waits_for.as_str().into(),
        ];
        table.push(mark, cells);
    }
    let ink = Ink::Coloured;
    let (ready, replicas) = heading.ready;
    let ready = format!("{ready} of {replicas} replicas ready");
    let mut lines = vec![
        String::new(),
        ink.paint(Tone::Strong, &cut(&heading.title, width)),
        ink.paint(Tone::Soft, &cut(&ready, width)),
        String::new(),
    ];
    lines.extend(table.draw(ink, width));
    lines.push(String::new());
    lines
}

/// One line for a change, where lines cannot be redrawn.
pub(crate) fn line(row: &Row, now: Timestamp) -> String {
    let at = now.strftime("%H:%M:%S");
    let out = if row.is_out { "  (out of service)" } else { "" };
    let waits = match row.waits_for.as_str() {
        "" => String::new(),
        what => format!("  waits for {what}"),
    };
    format!("{at}  {}  {}{out}{waits}", row.node, row.phase)
}

fn tone(phase: &str) -> Tone {
    match phase {
        "Idle" => Tone::Good,
        "Fetching" => Tone::Busy,
        "Draining" | "Applying" | "Rebooting" | "Verifying" | "Finishing" | "Starting" => {
            Tone::Away
        }
        "RollingBack" | "Held" | "Degraded" | "Unreconcilable" => Tone::Bad,
        _ => Tone::Plain,
    }
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
mod tests {
    use display::ink::strip;

    use super::*;

    fn rows(now: Timestamp) -> Vec<Row> {
        let row = |node: &str, phase: &str, waits_for: &str, secs: i64, is_out| Row {
            node: node.into(),
            phase: phase.into(),
            waits_for: waits_for.into(),
            since: Some(now - SignedDuration::from_secs(secs)),
            is_out,
        };
        vec![
            row("worker-0", "Idle", "", 3700, false),
            row(
                "worker-1",
                "Draining",
                "pod default/web-7f of budget web\nsays no",
                75,
                true,
            ),
            Row {
                since: None,
                ..row("worker-2", "", "", 0, false)
            },
        ]
    }

    #[test]
    fn a_table_has_a_line_a_node() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let heading = Heading {
            title: "Roll 1".into(),
            ready: (5, 6),
        };
        let lines: Vec<_> = draw(&heading, &rows(now), now, 80)
            .iter()
            .map(|line| strip(line))
            .collect();
        let expected = "
Roll 1
5 of 6 replicas ready

  NODE      PHASE            SINCE  WAITS FOR
\u{25cf} worker-0  Idle             1h01m
\u{25cb} worker-1  Draining         1m15s  pod default/web-7f of budget web says no
\u{25cf} worker-2
";
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let heading = Heading {
            title: "A title that goes on and on".into(),
            ready: (6, 6),
        };
        for width in [40, 60, 80] {
            for line in draw(&heading, &rows(now), now, width) {
                assert!(
                    strip(&line).chars().count() <= width,
                    "{width}: {}",
                    strip(&line)
                );
            }
        }
    }

    #[test]
    fn a_change_is_one_line() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let rows = rows(now);
        let line = line(&rows[1], now);
        assert_eq!(
            line.replace('\n', " "),
            "08:00:00  worker-1  Draining  (out of service)  waits for pod default/web-7f of \
             budget web says no"
        );
    }
}
