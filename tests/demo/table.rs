//! The live table: which phase each node is in, what it waits for, and since when. Pure; [`crate::live`] shows it.

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

/// A way to set off text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Plain,
    Strong,
    Soft,
    Works,
    Away,
    Well,
    Bad,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\x1b[1m",
            Self::Soft => "\x1b[2m",
            Self::Works => "\x1b[36m",
            Self::Away => "\x1b[33m",
            Self::Well => "\x1b[32m",
            Self::Bad => "\x1b[31m",
        }
    }
}

/// Lines of the table at `now`, none wider than `width` columns.
pub(crate) fn draw(heading: &Heading, rows: &[Row], now: Timestamp, width: usize) -> Vec<String> {
    let node_width = widest(rows.iter().map(|row| row.node.as_str()), "NODE");
    // The longest of all phases, so that the table stands still.
    let phase_width = "Unreconcilable".len();
    let since_width = 7;
    let left = 2 + node_width + 3 + phase_width + 2 + since_width + 2;
    let rest = width.saturating_sub(left);

    let (ready, replicas) = heading.ready;
    let mut lines = vec![
        String::new(),
        paint(Tone::Strong, &cut(&heading.title, width)),
        paint(
            Tone::Soft,
            &cut(&format!("{ready} of {replicas} replicas ready"), width),
        ),
        String::new(),
        paint(
            Tone::Soft,
            &cut(
                &format!(
                    "  {:node_width$}   {:phase_width$}  {:>since_width$}  WAITS FOR",
                    "NODE", "PHASE", "SINCE"
                ),
                width,
            ),
        ),
    ];
    for row in rows {
        let tone = tone(&row.phase);
        let since = row
            .since
            .map_or_else(String::new, |since| ago(now.duration_since(since)));
        let (mark, mark_tone) = if row.is_out {
            ("\u{25cb}", Tone::Away)
        } else {
            ("\u{25cf}", Tone::Well)
        };
        lines.push(format!(
            "{} {:node_width$}   {}  {:>since_width$}  {}",
            paint(mark_tone, mark),
            row.node,
            paint(tone, &format!("{:phase_width$}", row.phase)),
            since,
            cut(&row.waits_for, rest),
        ));
    }
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
        "Idle" => Tone::Well,
        "Fetching" => Tone::Works,
        "Draining" | "Applying" | "Rebooting" | "Verifying" | "Finishing" | "Starting" => {
            Tone::Away
        }
        "RollingBack" | "Held" | "Degraded" | "Unreconcilable" => Tone::Bad,
        _ => Tone::Plain,
    }
}

fn paint(tone: Tone, text: &str) -> String {
    if tone == Tone::Plain {
        text.to_owned()
    } else {
        format!("{}{text}\x1b[0m", tone.code())
    }
}

fn widest<'a>(texts: impl Iterator<Item = &'a str>, title: &str) -> usize {
    texts
        .map(|text| text.chars().count())
        .chain([title.len()])
        .max()
        .unwrap_or(0)
}

/// The first `width` characters, the last of them an ellipsis where something is left out. A line
/// end or a control character becomes a space.
fn cut(text: &str, width: usize) -> String {
    let clean = |character: char| {
        if character.is_control() {
            ' '
        } else {
            character
        }
    };
    if text.chars().count() <= width {
        return text.chars().map(clean).collect();
    }
    let kept = text.chars().take(width.saturating_sub(1)).map(clean);
    kept.chain((width > 0).then_some('\u{2026}')).collect()
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

    fn plain(line: &str) -> String {
        let mut plain = String::new();
        for (index, part) in line.split('\x1b').enumerate() {
            let shown = if index == 0 {
                part
            } else {
                part.split_once('m').unwrap().1
            };
            plain.push_str(shown);
        }
        plain
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
            .map(|line| plain(line))
            .collect();
        let expected = "
Roll 1
5 of 6 replicas ready

  NODE       PHASE             SINCE  WAITS FOR
\u{25cf} worker-0   Idle              1h01m  
\u{25cb} worker-1   Draining          1m15s  pod default/web-7f of budget web says no
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
                    plain(&line).chars().count() <= width,
                    "{width}: {}",
                    plain(&line)
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
