//! Whether the time of an upgrade has come.

use jiff::{SignedDuration, Timestamp};

/// Whether an upgrade starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartDecision {
    /// Not before so much time has passed.
    Wait(SignedDuration),
    /// Now.
    Start,
    /// No more: its window has closed.
    Stale(String),
}

/// Reads `spec.upgradeAt`.
///
/// # Errors
/// The text is no time by RFC 3339.
pub fn parse_start(text: &str) -> Result<Timestamp, String> {
    // A time without an offset from UTC is refused.
    text.parse()
        .map_err(|error| format!("spec.upgradeAt: {text:?} is no time by RFC 3339: {error}"))
}

/// Decides about the start at `start`. `window` is how long after that time an upgrade may start;
/// none for as long as it stays.
pub fn decide(start: Timestamp, window: Option<SignedDuration>, now: Timestamp) -> StartDecision {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{START, at};

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
            let decision = decide(START, window, at(minute));
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
            decide(START, Some(SignedDuration::from_mins(120)), at(150))
        else {
            panic!("it starts");
        };
        let expected = "spec.upgradeAt: 2027-01-15T08:00:00Z is 150 min ago and the window of 120 \
                        min has closed: the upgrade is not started";
        assert_eq!(why, expected);
    }

    #[test]
    fn start_is_a_time_with_an_offset() {
        assert_eq!(parse_start("2027-01-15T09:00:00+01:00"), Ok(START));
        for text in [
            "",
            "tomorrow",
            "2027-01-15",
            "2027-01-15T08:00:00",
            "2027-13-01T00:00:00Z",
        ] {
            let why = parse_start(text).unwrap_err();
            assert!(why.starts_with("spec.upgradeAt: "), "{why}");
        }
    }
}
