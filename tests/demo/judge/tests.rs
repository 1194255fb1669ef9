//! What the judge finds in records made up.

use lab::audit::Version;

use super::*;

fn at(second: u64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::try_from(second).unwrap()).unwrap()
}

/// Node `a` fetches a blob between these seconds, in a roll that lasts from 0 to 100.
fn record(from: u64, to: u64) -> Record {
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
        reboots: true,
        start: at(0),
        end: at(100),
        doubts: Vec::new(),
    };
    Record {
        rolls: vec![roll],
        audit: Vec::new(),
        boots: BTreeMap::from([("a".to_owned(), Vec::new())]),
        fetches: BTreeMap::from([("a".to_owned(), vec![fetch])]),
    }
}

#[test]
fn what_is_fetched_while_a_node_is_out_is_found() {
    let out = Interval {
        from: (Version(1), at(20)),
        until: Some((Version(2), at(30))),
    };
    let outages = BTreeMap::from([("a".to_owned(), vec![out])]);
    for (from, to, bytes) in [
        (5, 19, 0),
        (31, 32, 0),
        (22, 23, 5),
        (19, 21, 5),
        (29, 31, 5),
        (5, 60, 5),
    ] {
        let mut breaches = Vec::new();
        let found = record(from, to).fetched_while_out(&outages, &mut breaches);
        assert_eq!(
            (found, breaches.len()),
            (bytes, usize::from(bytes > 0)),
            "{from} to {to}"
        );
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
    let mut record = record(5, 6);
    for (outages, found) in [(out_at(20), 0), (out_at(101), 1), (BTreeMap::new(), 1)] {
        assert_eq!(
            record.without_an_outage(&outages).len(),
            found,
            "{outages:?}"
        );
    }
    let breaches = record.without_an_outage(&BTreeMap::new());
    assert_eq!(breaches[0].what, "a was never seen out in the roll one");
    record.rolls[0].reboots = false;
    assert_eq!(record.without_an_outage(&BTreeMap::new()), []);
}

#[test]
fn an_empty_audit_log_proves_nothing() {
    let verdict = record(5, 6).judge();
    assert_eq!(verdict.timeline.min_ready_replicas, 0);
    assert!(!verdict.timeline.proven);
    let laws: Vec<_> = verdict.breaches.iter().map(|breach| breach.law).collect();
    assert_eq!(laws, [Law::Readiness, Law::Proven, Law::Proven]);
}

#[test]
fn a_roll_of_which_a_lane_lacks_a_phase_is_found() {
    let mut record = record(5, 6);
    let lane = |phases: &[Phase]| Lane {
        name: "a".to_owned(),
        phases: phases
            .iter()
            .map(|phase| Span {
                phase: *phase,
                start: at(1),
                end: at(2),
                waits_for: String::new(),
            })
            .collect(),
    };
    let said = |record: &Record, phases: &[Phase]| {
        let breaches = record.without_a_phase(&[lane(phases)]);
        breaches
            .into_iter()
            .map(|breach| breach.what)
            .collect::<Vec<_>>()
    };
    assert!(said(&record, &Phase::ALL).is_empty());
    assert_eq!(
        said(&record, &[Phase::Fetch, Phase::Apply, Phase::Verify]),
        ["a showed no drain, reboot in the roll one"]
    );
    record.rolls[0].reboots = false;
    assert!(said(&record, &[Phase::Fetch]).is_empty());
    assert_eq!(said(&record, &[]), ["a showed no phase in the roll one"]);
}

#[test]
fn a_roll_for_which_nothing_was_fetched_is_found() {
    assert_eq!(record(5, 6).without_an_image(), []);
    let breaches = record(105, 106).without_an_image();
    assert_eq!(breaches[0].what, "a fetched no image for the roll one");
}
