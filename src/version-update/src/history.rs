//! The releases that a cluster had, newest first.

use api::config::{HistoryEntry, HistoryState, Release};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Longest list. One entry more, and the least important one goes.
const LONGEST: usize = 100;

/// Entries at the front that always stay.
const NEWEST: usize = 5;

/// Takes over that `release` is applied, and with `is_completed` that all of it was.
///
/// Shape: `accepted_risks` is none for a release that this process did not accept itself, and then
/// those of the process before stay.
///
/// Source: `docs/reference/cvo.md`, "ClusterVersion".
pub fn merge(
    history: &mut Vec<HistoryEntry>,
    release: &Release,
    is_completed: bool,
    is_verified: bool,
    accepted_risks: Option<&str>,
    now: Timestamp,
) {
    if release.image.is_empty() {
        history.clear();
        return;
    }
    let is_same = history.first().is_some_and(|head| {
        let has_version = head.version.is_empty()
            || release.version.is_empty()
            || head.version == release.version;
        (head.image == release.image && has_version)
            || (head.image.is_empty() && head.version == release.version)
    });
    if !is_same {
        if let Some(head) = history.first_mut() {
            head.completion_time.get_or_insert(Time(now));
        }
        let entry = HistoryEntry {
            state: HistoryState::Partial,
            started_time: Time(now),
            completion_time: None,
            version: release.version.clone(),
            image: release.image.clone(),
            verified: is_verified,
            accepted_risks: String::new(),
        };
        history.insert(0, entry);
    }
    if let Some(head) = history.first_mut() {
        if head.version.is_empty() {
            head.version.clone_from(&release.version);
        }
        if head.image.is_empty() {
            head.image.clone_from(&release.image);
        }
        head.verified |= is_verified;
        if let Some(risks) = accepted_risks {
            risks.clone_into(&mut head.accepted_risks);
        }
        if is_completed {
            head.state = HistoryState::Completed;
            head.completion_time.get_or_insert(Time(now));
        }
    }
    if history.len() > LONGEST
        && let Some(least) = least(history)
    {
        history.remove(least);
    }
}

/// The entry of lowest rank. Ages count a little more than one each, so that of equal weights the
/// oldest goes.
fn least(history: &[HistoryEntry]) -> Option<usize> {
    let newest = history.iter().position(is_completed);
    let rank = |index: usize| {
        // Hundredths.
        let age = i64::try_from(index).unwrap_or(i64::MAX / 1000) * 101;
        weight(history, index, newest) * 100 - age
    };
    (0..history.len()).min_by_key(|index| rank(*index))
}

fn is_completed(entry: &HistoryEntry) -> bool {
    entry.state == HistoryState::Completed
}

fn weight(history: &[HistoryEntry], index: usize, newest: Option<usize>) -> i64 {
    let Some(entry) = history.get(index) else {
        return 0;
    };
    if index < NEWEST || index == LONGEST || newest == Some(index) {
        return 1000;
    }
    let newer = history
        .iter()
        .take(index)
        .rev()
        .find(|entry| is_completed(entry));
    let older = history
        .iter()
        .skip(index + 1)
        .find(|entry| is_completed(entry));
    let part =
        |entry: &HistoryEntry, number| entry.version.split('.').nth(number).map(str::to_owned);
    let differs =
        |one: &HistoryEntry, other: &HistoryEntry, number| part(one, number) != part(other, number);
    if is_completed(entry) {
        let is_edge = |neighbour: Option<&HistoryEntry>| {
            neighbour.is_none_or(|neighbour| differs(neighbour, entry, 1))
        };
        return if is_edge(newer) || is_edge(older) {
            30
        } else {
            0
        };
    }
    match newer.zip(older) {
        Some((newer, older)) if differs(newer, older, 1) => 20,
        Some((newer, older)) if differs(newer, older, 2) => -20,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(version: &str) -> Release {
        Release {
            version: version.to_owned(),
            image: format!("q/r:{version}"),
            ..Release::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn states(history: &[HistoryEntry]) -> Vec<String> {
        let time = |time: &Time| time.0.as_second();
        let one = |entry: &HistoryEntry| {
            let end = entry.completion_time.as_ref().map(time);
            format!(
                "{} {} {}-{end:?}",
                entry.version,
                entry.state,
                time(&entry.started_time)
            )
        };
        history.iter().map(one).collect()
    }

    #[test]
    fn release_is_begun_completed_and_replaced() {
        let mut history = Vec::new();
        merge(&mut history, &release("1"), false, false, None, at(1));
        assert_eq!(states(&history), ["1 Partial 1-None"]);
        merge(&mut history, &release("1"), true, true, Some("risk"), at(2));
        merge(&mut history, &release("1"), true, false, None, at(3));
        assert_eq!(states(&history), ["1 Completed 1-Some(2)"]);
        assert!(history[0].verified);
        assert_eq!(history[0].accepted_risks, "risk");
        merge(&mut history, &release("2"), false, false, None, at(4));
        merge(&mut history, &release("3"), false, false, None, at(5));
        assert_eq!(
            states(&history),
            [
                "3 Partial 5-None",
                "2 Partial 4-Some(5)",
                "1 Completed 1-Some(2)"
            ]
        );
        merge(&mut history, &Release::default(), false, false, None, at(6));
        assert!(history.is_empty());
    }

    #[test]
    fn missing_version_or_image_is_filled_in() {
        let mut history = Vec::new();
        let unversioned = Release {
            version: String::new(),
            ..release("1")
        };
        merge(&mut history, &unversioned, false, false, None, at(1));
        merge(&mut history, &release("1"), false, false, None, at(2));
        assert_eq!(states(&history), ["1 Partial 1-None"]);
        let other = Release {
            image: "q/other".to_owned(),
            ..release("1")
        };
        merge(&mut history, &other, false, false, None, at(3));
        assert_eq!(history.len(), 2);
    }

    fn entry(version: &str, is_completed: bool) -> HistoryEntry {
        HistoryEntry {
            state: if is_completed {
                HistoryState::Completed
            } else {
                HistoryState::Partial
            },
            started_time: Time(at(0)),
            completion_time: Some(Time(at(0))),
            version: version.to_owned(),
            image: String::new(),
            verified: false,
            accepted_risks: String::new(),
        }
    }

    #[test]
    fn least_important_entry_goes() {
        // Without differences the oldest but the first one goes.
        let mut history: Vec<HistoryEntry> = (0..101).map(|_| entry("4.1.1", true)).collect();
        assert_eq!(least(&history), Some(99));
        // A Partial between Completed ones of two patches goes before older ones.
        history[85] = entry("4.1.2", false);
        for newer in &mut history[..85] {
            *newer = entry("4.1.2", true);
        }
        assert_eq!(least(&history), Some(85));
        // Between Completed ones of two minor releases it stays, as these do.
        for newer in &mut history[..85] {
            *newer = entry("4.2.0", true);
        }
        assert_eq!(least(&history), Some(99));
        let weights = [84, 85, 86, 87].map(|index| weight(&history, index, Some(0)));
        assert_eq!(weights, [30, 20, 30, 0]);
        let release = release("4.2.1");
        history.truncate(100);
        merge(&mut history, &release, false, false, None, at(9));
        assert_eq!(history.len(), 100);
        assert_eq!(history[0].version, "4.2.1");
    }
}
