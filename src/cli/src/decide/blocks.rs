//! Pieces of text that several views have.

use std::cmp::Ordering;

use release::Version;

use crate::decide::object::ObjectCondition;

/// A condition with its reason and message. Lines of the message after the first are indented.
pub(crate) fn block(head: &str, condition: &ObjectCondition<'_>) -> String {
    let (reason, message) = (condition.reason, condition.message);
    format!(
        "{head}={}:\n\n  Reason: {reason}\n  Message: {}\n\n",
        condition.status,
        message.replace('\n', "\n  ")
    )
}

/// Rows under a head, after `indent` blanks: all cells but the last are as wide as the widest of
/// their column, and at least `least`, and `gap` more.
pub(crate) fn columns(indent: usize, gap: usize, least: usize, rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
            .max(least)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        text.extend(std::iter::repeat_n(' ', indent));
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            text.push_str(cell);
            if column + 1 < count {
                let blanks = width + gap - cell.chars().count();
                text.extend(std::iter::repeat_n(' ', blanks));
            }
        }
        text.push('\n');
    }
    text
}

/// What stands where text of a cell was cut.
const CUT: &str = "...";

/// The first line of a text, marked if there are more.
pub(crate) fn first_line(text: &str) -> String {
    match text.trim_end().split_once('\n') {
        Some((first, _)) => format!("{}{CUT}", first.trim_end()),
        None => text.trim_end().to_owned(),
    }
}

/// A text of at most so many characters, marked if it was cut.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width - CUT.len());
    kept.chain(CUT.chars()).collect()
}

/// Newest first; what is no version comes last.
pub(crate) fn newest_first(one: &str, other: &str) -> Ordering {
    match (one.parse::<Version>(), other.parse::<Version>()) {
        (Ok(one), Ok(other)) => other.cmp(&one),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => one.cmp(other),
    }
}

/// Seconds as a duration of Go without its last parts that are zero: `1h`, `1h0m17s`, `now`.
pub(crate) fn duration(seconds: i64) -> String {
    let (sign, rest) = if seconds < 0 {
        ("-", -seconds)
    } else {
        ("", seconds)
    };
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    match (hours, minutes, seconds) {
        (0, 0, 0) => "now".to_owned(),
        (0, 0, seconds) => format!("{sign}{seconds}s"),
        (0, minutes, 0) => format!("{sign}{minutes}m"),
        (0, minutes, seconds) => format!("{sign}{minutes}m{seconds}s"),
        (hours, 0, 0) => format!("{sign}{hours}h"),
        (hours, minutes, 0) => format!("{sign}{hours}h{minutes}m"),
        (hours, minutes, seconds) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// To whole minutes above ten minutes, else to whole seconds, as Go rounds: half away from zero.
pub(crate) fn rounded(seconds: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an update takes less than years"
    )]
    if seconds.abs() > 600.0 {
        (seconds / 60.0).round() as i64 * 60
    } else {
        seconds.round() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_newest_first_and_other_texts_last() {
        let mut texts = ["4.1.0-rc.2", "x", "4.1.0-ec.3", "4.1.0", "4.1.0-rc.10", "a"];
        texts.sort_by(|one, other| newest_first(one, other));
        assert_eq!(
            texts,
            ["4.1.0", "4.1.0-rc.10", "4.1.0-rc.2", "4.1.0-ec.3", "a", "x"]
        );
    }

    #[test]
    fn text_that_is_cut_is_marked() {
        assert_eq!(first_line("one"), "one");
        assert_eq!(first_line("one\n"), "one");
        assert_eq!(first_line("one\ntwo"), "one...");
        assert_eq!(shortened("12345", 5), "12345");
        assert_eq!(shortened("123456", 5), "12...");
    }

    #[test]
    fn durations_drop_their_last_zeros() {
        for (seconds, expected) in [
            (0, "now"),
            (7, "7s"),
            (2160, "36m"),
            (3600, "1h"),
            (3617, "1h0m17s"),
            (89, "1m29s"),
            (-90, "-1m30s"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }
}
