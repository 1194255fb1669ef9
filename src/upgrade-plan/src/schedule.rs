//! Whether the time of an upgrade has come.

use api::upgrade::PlanWindow;
use jiff::{SignedDuration, Timestamp};
use pool::recurrence::{RecurringWindow, next_opening};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartDecision {
    /// Not before so much time has passed.
    Wait(SignedDuration),
    Start,
    /// No more: its window has closed.
    Stale(String),
}

/// `spec.upgradeAt` is no time.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text:?} is no time by RFC 3339")]
pub struct InvalidStart {
    text: String,
    source: jiff::Error,
}

/// Reads `spec.upgradeAt`.
///
/// # Errors
/// The text is no time by RFC 3339.
pub fn parse_start(text: &str) -> Result<Timestamp, InvalidStart> {
    // A time without an offset from UTC is refused.
    text.parse().map_err(|source| InvalidStart {
        text: text.to_owned(),
        source,
    })
}

/// Decides about the start at `start`. `window` is how long after that time an upgrade may start;
/// none for as long as it stays. With `recurring` windows it starts in the first of them that is
/// open after that time, and one that was missed is followed by the next.
pub fn decide(
    start: Timestamp,
    window: Option<SignedDuration>,
    recurring: &[RecurringWindow],
    now: Timestamp,
) -> StartDecision {
    if !recurring.is_empty() {
        let Some(opening) = next_opening(recurring, start.max(now)) else {
            return StartDecision::Stale(format!("spec.upgradeAt: no window opens after {start}"));
        };
        let start = start.max(opening.opens);
        return if now <= start {
            StartDecision::Wait(start.duration_since(now))
        } else {
            StartDecision::Start
        };
    }
    if now <= start {
        return StartDecision::Wait(start.duration_since(now));
    }
    let late = now.duration_since(start);
    match window {
        Some(window) if late >= window => StartDecision::Stale(format!(
            "spec.upgradeAt: {start} is {} min ago and the window of {} min has closed: the \
             upgrade is not started",
            late.as_mins(),
            window.as_mins()
        )),
        _ => StartDecision::Start,
    }
}

/// When an upgrade at `start` may start, and until when.
pub fn window(
    start: Timestamp,
    window: Option<SignedDuration>,
    recurring: &[RecurringWindow],
    now: Timestamp,
) -> PlanWindow {
    match next_opening(recurring, start.max(now)) {
        Some(opening) => PlanWindow {
            opens: opening.opens.max(start),
            closes: Some(opening.closes),
            name: opening.name,
        },
        None => PlanWindow {
            opens: start,
            closes: window.and_then(|window| start.checked_add(window).ok()),
            name: String::new(),
        },
    }
}

/// Why the cluster is not changed now: all recurring windows are closed.
pub fn closed(recurring: &[RecurringWindow], now: Timestamp) -> Option<String> {
    let opening = next_opening(recurring, now)?;
    (opening.opens > now).then(|| {
        format!(
            "no window is open: {} opens at {}",
            opening.name, opening.opens
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{START, at};

    #[test]
    fn recurring_windows_put_a_start_off() {
        use jiff::{civil, tz::TimeZone};
        // The start is a Friday at 08:00.
        let night = RecurringWindow {
            name: "night".to_owned(),
            days: [5].into(),
            start: civil::time(22, 0, 0, 0),
            length: SignedDuration::from_mins(120),
            zone: TimeZone::UTC,
        };
        let all = [night];
        let (opens, week) = (14 * 60, 7 * 24 * 60);
        let wait = |minutes| StartDecision::Wait(SignedDuration::from_mins(minutes));
        let table = [
            (-60, wait(opens + 60)),
            (opens, wait(0)),
            (opens + 1, StartDecision::Start),
            (opens + 119, StartDecision::Start),
            // It was missed.
            (opens + 120, wait(week - 120)),
        ];
        let window = Some(SignedDuration::from_mins(30));
        for (minute, expected) in table {
            let found = decide(START, window, &all, at(minute));
            assert_eq!(found, expected, "minute {minute}");
        }
        let shown = super::window(START, window, &all, at(-60));
        assert_eq!(
            (shown.opens, shown.closes),
            (at(opens), Some(at(opens + 120)))
        );
        assert_eq!(closed(&all, at(opens)), None);
        let why = closed(&all, START).unwrap();
        assert_eq!(
            why,
            "no window is open: night opens at 2027-01-15T22:00:00Z"
        );
        assert_eq!(closed(&[], START), None);
    }

    #[test]
    fn upgrade_starts_in_its_window_only() {
        let window = Some(SignedDuration::from_mins(120));
        let wait = |minutes| StartDecision::Wait(SignedDuration::from_mins(minutes));
        let table = [
            (-180, window, Some(wait(180))),
            (0, window, Some(wait(0))),
            (1, window, Some(StartDecision::Start)),
            (119, window, Some(StartDecision::Start)),
            (120, window, None),
            (525_600, window, None),
            (525_600, None, Some(StartDecision::Start)),
        ];
        for (minute, window, expected) in table {
            let decision = decide(START, window, &[], at(minute));
            match expected {
                Some(expected) => assert_eq!(decision, expected, "minute {minute}"),
                None => assert!(
                    matches!(decision, StartDecision::Stale(_)),
                    "minute {minute}"
                ),
            }
        }
    }

    #[test]
    fn stale_start_names_field_and_age() {
        let StartDecision::Stale(why) =
            decide(START, Some(SignedDuration::from_mins(120)), &[], at(150))
        else {
            panic!("it starts");
        };
        let expected = "spec.upgradeAt: 2027-01-15T08:00:00Z is 150 min ago and the window of 120 \
                        min has closed: the upgrade is not started";
        assert_eq!(why, expected);
    }

    #[test]
    fn start_is_a_time_with_an_offset() {
        assert_eq!(parse_start("2027-01-15T09:00:00+01:00").unwrap(), START);
        for text in [
            "",
            "tomorrow",
            "2027-01-15",
            "2027-01-15T08:00:00",
            "2027-13-01T00:00:00Z",
        ] {
            let error = parse_start(text).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{text:?} is no time by RFC 3339")
            );
        }
    }
}
