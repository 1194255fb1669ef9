//! The window of an upgrade: how long it may wait for its gates.

use api::upgrade::{UpgradeHistoryEntry, UpgradeType};
use jiff::{SignedDuration, Timestamp};

use crate::release_state::NoSource;

/// Whether an upgrade is given up: its window has closed, and the cluster is unchanged. Where that
/// is unknown, it is not given up. ARO has no such policy.
pub fn has_expired(
    r#type: &UpgradeType,
    entry: &UpgradeHistoryEntry,
    is_commenced: Result<bool, NoSource>,
    window: Option<SignedDuration>,
    now: Timestamp,
) -> bool {
    *r#type == UpgradeType::Osd && is_commenced == Ok(false) && is_past(entry, window, now)
}

/// Whether an upgrade counts as delayed.
pub fn is_delayed(
    entry: &UpgradeHistoryEntry,
    trigger: Option<SignedDuration>,
    now: Timestamp,
) -> bool {
    is_past(entry, trigger, now)
}

fn is_past(entry: &UpgradeHistoryEntry, limit: Option<SignedDuration>, now: Timestamp) -> bool {
    let (Some(start), Some(limit)) = (&entry.start_time, limit) else {
        return false;
    };
    now.duration_since(start.0) > limit
}

#[cfg(test)]
mod tests {
    use api::upgrade::UpgradePhase;

    use super::*;
    use crate::fixture::{at, entry};

    #[test]
    fn window_ends_only_what_has_not_changed_the_cluster() {
        let window = Some(SignedDuration::from_mins(120));
        let osd = UpgradeType::Osd;
        let table = [
            (&osd, Ok(false), window, 120, false),
            (&osd, Ok(false), window, 121, true),
            (&osd, Ok(true), window, 121, false),
            (&osd, Err(NoSource), window, 121, false),
            (&osd, Ok(false), None, 9999, false),
            (&UpgradeType::Aro, Ok(false), window, 121, false),
            // The clock was set back.
            (&osd, Ok(false), window, -500, false),
        ];
        for (r#type, is_commenced, window, minute, expected) in table {
            let entry = entry(UpgradePhase::Upgrading);
            let found = has_expired(r#type, &entry, is_commenced, window, at(minute));
            assert_eq!(
                found, expected,
                "{type} {is_commenced:?} {window:?} {minute}"
            );
        }
        let mut unstarted = entry(UpgradePhase::Upgrading);
        unstarted.start_time = None;
        assert!(!has_expired(&osd, &unstarted, Ok(false), window, at(999)));
    }

    #[test]
    fn upgrade_is_delayed_after_its_trigger() {
        let entry = entry(UpgradePhase::Upgrading);
        let trigger = Some(SignedDuration::from_mins(30));
        assert!(!is_delayed(&entry, trigger, at(30)));
        assert!(is_delayed(&entry, trigger, at(31)));
        assert!(!is_delayed(&entry, None, at(999)));
    }
}
