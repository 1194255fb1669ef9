//! What the judge finds in records that are made up.

use lab::audit::Version;
use lab::registry::Request;

use super::*;

fn at(second: u64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::try_from(second).unwrap()).unwrap()
}

/// Node `a` fetches a blob between these seconds, in a roll that lasts from 0 to 100.
fn rollout(from: u64, to: u64) -> Rollout {
    let fetch = Request {
        started: at(from),
        finished: at(to),
        method: "GET".to_owned(),
        path: "/v2/os/blobs/sha256:0".to_owned(),
        status: 200,
        bytes: 5,
        remote: "10.0.0.10".parse().unwrap(),
        user_agent: "skopeo".to_owned(),
    };
    let roll = Roll {
        title: "one".to_owned(),
        config: "rendered-worker-1".to_owned(),
        content: "v2".to_owned(),
        reboots: true,
        start: at(0),
        end: at(100),
        doubts: Vec::new(),
    };
    Rollout {
        record: Record {
            audit: Vec::new(),
            boots: BTreeMap::from([("a".to_owned(), Vec::new())]),
            fetches: BTreeMap::from([("a".to_owned(), vec![fetch])]),
        },
        rolls: vec![roll],
        workload: Workload {
            label: ("app".to_owned(), "web".to_owned()),
            needed: 5,
            max_out: 1,
        },
        is_over: true,
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
            rollout.without_an_outage(&outages).len(),
            found,
            "{outages:?}"
        );
    }
    let breaches = rollout.without_an_outage(&BTreeMap::new());
    assert_eq!(breaches[0].what, "a was never seen out in the roll one");
    rollout.rolls[0].reboots = false;
    assert_eq!(rollout.without_an_outage(&BTreeMap::new()), []);
}

#[test]
fn an_empty_audit_log_proves_nothing() {
    let verdict = rollout(5, 6).judge();
    let laws: Vec<_> = verdict.breaches.iter().map(|breach| breach.law).collect();
    assert_eq!(laws, [Law::Readiness, Law::Proven, Law::Proven]);
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
    let said = |rollout: &Rollout, phases: &[Phase]| {
        let breaches = rollout.without_a_phase(&showed(phases));
        let what = breaches.into_iter().map(|breach| breach.what);
        what.collect::<Vec<_>>()
    };
    assert!(said(&rollout, &Phase::ALL).is_empty());
    assert_eq!(
        said(&rollout, &[Phase::Fetch, Phase::Apply, Phase::Verify]),
        ["a showed no drain, reboot in the roll one"]
    );
    rollout.rolls[0].reboots = false;
    assert!(said(&rollout, &[Phase::Fetch]).is_empty());
    assert_eq!(said(&rollout, &[]), ["a showed no phase in the roll one"]);
}

#[test]
fn a_roll_for_which_nothing_was_fetched_is_found() {
    assert_eq!(rollout(5, 6).without_an_image(), []);
    let breaches = rollout(105, 106).without_an_image();
    assert_eq!(breaches[0].what, "a fetched no image for the roll one");
}

/// A boot from this second on.
fn boot(second: u64) -> Boot {
    Boot {
        id: second.to_string(),
        deployment: "aa.0".to_owned().try_into().unwrap(),
        content: Some("v2".to_owned()),
        options: String::new(),
        started: at(second),
        ready: None,
        ended: None,
    }
}

#[test]
fn a_roll_without_reboot_that_takes_a_node_out_is_found() {
    let out = |from, until| Interval {
        from: (Version(from), at(from)),
        until: Some((Version(until), at(until))),
    };
    let cases = [
        ("nothing happened", None, None, None),
        ("before it", Some(out(0, 1)), Some(9), None),
        ("after it", Some(out(101, 102)), Some(100), None),
        ("out", Some(out(20, 30)), None, Some("a was out at")),
        ("a boot", None, Some(10), Some("a booted at")),
    ];
    for (name, outage, booted, found) in cases {
        let mut rollout = rollout(5, 6);
        rollout.rolls[0].start = at(10);
        rollout.record.boots =
            BTreeMap::from([("a".to_owned(), booted.map(boot).into_iter().collect())]);
        let outages = BTreeMap::from([("a".to_owned(), outage.into_iter().collect())]);
        assert_eq!(
            rollout.undisturbed(&outages),
            [],
            "{name}, but it may reboot"
        );
        rollout.rolls[0].reboots = false;
        let breaches = rollout.undisturbed(&outages);
        assert_eq!(breaches.len(), usize::from(found.is_some()), "{name}");
        assert!(
            breaches.iter().all(|breach| breach.law == Law::Undisturbed),
            "{name}"
        );
        if let Some(found) = found {
            assert!(
                breaches[0].what.starts_with(found),
                "{name}: {}",
                breaches[0].what
            );
        }
    }
}
