use lab::audit::Version;

use super::*;
use crate::laws::{Breach, node};
use crate::samples::{at, boot, rollout};

fn out(from: u64, until: Option<u64>) -> Interval {
    let place = |second| (Version(second), at(second));
    Interval {
        from: place(from),
        until: until.map(place),
    }
}

#[test]
fn one_node_after_another_keeps_the_budget() {
    let outages = BTreeMap::from([
        ("a".to_owned(), vec![out(1, Some(5)), out(9, None)]),
        ("b".to_owned(), vec![out(5, Some(9))]),
    ]);
    assert_eq!(budget(&outages, 1), None);
}

#[test]
fn two_nodes_at_once_are_named() {
    let outages = BTreeMap::from([
        ("a".to_owned(), vec![out(1, Some(6))]),
        ("b".to_owned(), vec![out(5, Some(9))]),
        ("c".to_owned(), vec![out(9, None)]),
    ]);
    let what = budget(&outages, 1).unwrap();
    let law = &BUDGET;
    assert_eq!(
        Breach { law, what }.to_string(),
        format!("law broken: {}: a, b at {}, of 1", law.sentence, at(5))
    );
    assert_eq!(budget(&outages, 2), None);
}

#[test]
fn nodes_that_were_never_out_are_named() {
    let nodes = ["a", "b", "c"].map(str::to_owned);
    let all = [("a", 1), ("b", 5), ("c", 9)];
    let cases: [(&[_], &[&str]); 4] = [
        (&all, &[]),
        (&[("a", 1), ("c", 9)], &["b"]),
        // Before the stretch of time, and after it.
        (&[("a", 1), ("b", 0), ("c", 10)], &["b", "c"]),
        (&[], &["a", "b", "c"]),
    ];
    for (seen, expected) in cases {
        let outages = seen
            .iter()
            .map(|(node, second)| ((*node).to_owned(), vec![out(*second, Some(20))]))
            .collect();
        let unseen = unseen(&outages, nodes.iter(), &(at(1)..=at(9)));
        assert_eq!(unseen, expected, "{seen:?}");
    }
}

#[test]
fn a_roll_in_which_a_node_was_never_out_is_found() {
    let out_at = |second| {
        let out = Interval {
            from: (Version(1), at(second)),
            until: None,
        };
        BTreeMap::from([("a".to_owned(), vec![out])])
    };
    let mut rollout = rollout(5, 6);
    for (outages, found) in [(out_at(20), 0), (out_at(101), 1), (BTreeMap::new(), 1)] {
        assert_eq!(
            without_an_outage(&rollout, &outages).len(),
            found,
            "{outages:?}"
        );
    }
    let breaches = without_an_outage(&rollout, &BTreeMap::new());
    assert_eq!(breaches[0], "a was never seen out in the roll one");
    rollout.rolls[0].reboots = false;
    assert_eq!(without_an_outage(&rollout, &BTreeMap::new()), [""; 0]);
}

#[test]
fn a_host_that_joined_after_a_roll_is_not_judged_by_it() {
    let phases = [("a".to_owned(), Vec::new())].into();
    for (second, found) in [(100, 1), (101, 0)] {
        // It fetched nothing in the roll.
        let mut rollout = rollout(102, 103);
        rollout.record.boots = [("a".to_owned(), vec![boot(second, None)])].into();
        assert_eq!(without_an_outage(&rollout, &BTreeMap::new()).len(), found);
        assert_eq!(without_a_phase(&rollout, &phases).len(), found);
        assert_eq!(without_an_image(&rollout).len(), found);
    }
}

#[test]
fn an_empty_audit_log_proves_nothing() {
    let verdict = rollout(5, 6).judge();
    let laws: Vec<_> = verdict.breaches.iter().map(|breach| breach.law).collect();
    assert_eq!(laws, [&node::READINESS, &PROVEN, &PROVEN]);
}

#[test]
fn a_roll_of_which_a_lane_lacks_a_phase_is_found() {
    let mut rollout = rollout(5, 6);
    let showed = |phases: &[Phase]| {
        let span = |phase: &Phase| Span {
            phase: *phase,
            start: at(1),
            end: at(2),
            waits_for: String::new(),
        };
        BTreeMap::from([("a".to_owned(), phases.iter().map(span).collect())])
    };
    let complaints =
        |rollout: &Rollout, phases: &[Phase]| without_a_phase(rollout, &showed(phases));
    assert!(complaints(&rollout, &Phase::ALL).is_empty());
    assert_eq!(
        complaints(&rollout, &[Phase::Fetch, Phase::Apply, Phase::Verify]),
        ["a showed no reboot in the roll one"]
    );
    assert!(complaints(&rollout, &[Phase::Reboot]).is_empty());
    assert_eq!(
        complaints(&rollout, &[]),
        ["a showed no phase in the roll one"]
    );
    rollout.rolls[0].reboots = false;
    assert!(complaints(&rollout, &[]).is_empty());
}

#[test]
fn a_roll_for_which_nothing_was_fetched_is_found() {
    assert_eq!(without_an_image(&rollout(5, 6)), [""; 0]);
    let breaches = without_an_image(&rollout(105, 106));
    assert_eq!(breaches[0], "a fetched no image for the roll one");
}
