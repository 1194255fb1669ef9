use serde_json::json;

use super::*;
use crate::fixture::{NEW, NOW, assigned, decided, node, updated, why, worker};

#[test]
fn no_node_goes_before_the_start() {
    let start = NOW + SignedDuration::from_hours(1);
    let pool = worker(2, json!({ "startAfter": start.to_string() }));
    let decision = decided(&pool, &[node("a"), node("b")]);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(
        why(&decision, "a"),
        format!("the rollout policy starts at {start}")
    );
    assert_eq!(decision.wakes, Some(start));
    let pool = worker(2, json!({ "startAfter": NOW.to_string() }));
    let decision = decided(&pool, &[node("a"), node("b")]);
    assert_eq!(assigned(&decision), ["a", "b"]);
    assert_eq!(decision.wakes, None);
}

#[test]
fn a_node_that_is_out_for_an_older_target_goes_at_once() {
    let start = NOW + SignedDuration::from_hours(1);
    let pool = worker(1, json!({ "startAfter": start.to_string() }));
    let decision = decided(&pool, &[node("a"), node("b").working("rendered-worker-0")]);
    assert_eq!(assigned(&decision), ["b"]);
}

#[test]
fn a_rollout_is_halted_above_so_many_failures() {
    let nodes = |failed: usize| -> Vec<NodeView> {
        let all = ["a", "b", "c", "d"].iter().enumerate();
        all.map(|(place, name)| {
            if place < failed {
                node(name).failing(NEW)
            } else {
                node(name)
            }
        })
        .collect()
    };
    for (above, failed, halts) in [
        (json!(0), 0, false),
        (json!(0), 1, true),
        (json!(1), 1, false),
        (json!(1), 2, true),
        (json!("25%"), 1, false),
        (json!("25%"), 2, true),
        (json!("24%"), 1, true),
        (json!("100%"), 3, false),
    ] {
        let pool = worker(4, json!({ "haltAboveFailures": above }));
        let decision = decided(&pool, &nodes(failed));
        assert_eq!(decision.is_halted(), halts, "{above} {failed}");
    }
}

#[test]
fn nodes_go_in_the_order_of_the_policy() {
    let with = |name: &str, zone: &str, created: i64, rack: Option<&str>| {
        let mut node = node(name).zone_and_age(Some(zone), created);
        let rack = rack.map(|rack| ("example.com/rack".to_owned(), rack.to_owned()));
        node.labels.extend(rack);
        node
    };
    let nodes = [
        with("a", "z2", 3, Some("r1")),
        with("b", "z1", 1, None),
        with("c", "z1", 2, Some("r2")),
        node("d"),
    ];
    for (order, expected) in [
        (json!([]), ["b", "c", "a", "d"]),
        (json!(["newest"]), ["a", "c", "b", "d"]),
        (json!(["oldest"]), ["b", "c", "a", "d"]),
        (json!(["zone", "newest"]), ["c", "b", "a", "d"]),
        (json!(["label:example.com/rack"]), ["a", "c", "b", "d"]),
    ] {
        let pool = worker(9, json!({ "order": order }));
        assert_eq!(assigned(&decided(&pool, &nodes)), expected, "{order}");
    }
}

#[test]
fn nodes_with_fewer_blocked_pods_go_first_and_canaries_stay() {
    let spec = json!({ "order": ["fewestBlockedPods"], "canaries": {} });
    let mut pool = worker(9, spec);
    let blocked = |counts: &[(&str, usize)]| {
        let counts = counts.iter();
        counts
            .map(|(node, count)| ((*node).to_owned(), *count))
            .collect()
    };
    pool.facts.blocked_pods = blocked(&[("a", 2), ("b", 1), ("c", 1)]);
    let nodes = ["a", "b", "c", "d"].map(node);
    assert_eq!(assigned(&decided(&pool, &nodes)), ["d"]);
    // The canary has pods of others by now. It is the canary nevertheless.
    pool.facts.blocked_pods = blocked(&[("a", 2), ("b", 1), ("d", 7)]);
    let mut nodes = nodes;
    nodes[3] = node("d").working(NEW);
    let decision = decided(&pool, &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    nodes[3] = updated("d");
    assert_eq!(assigned(&decided(&pool, &nodes)), ["c", "b", "a"]);
}

#[test]
fn nodes_go_in_windows_only() {
    // The time of decisions is a Tuesday, 22:13:20 in UTC.
    let window = |days: &[&str], start: &str, zone: &str| {
        json!({ "windows": [{
            "name": "night", "days": days, "start": start, "minutes": 60, "timeZone": zone
        }] })
    };
    for (days, start, zone, opens) in [
        (&["Tue"][..], "22:00", "UTC", None),
        (&[], "22:13", "UTC", None),
        (&["Tue"], "22:14", "UTC", Some("2023-11-14T22:14:00Z")),
        (&["Tue"], "21:00", "UTC", Some("2023-11-21T21:00:00Z")),
        (
            &["Wed"],
            "23:00",
            "Europe/Berlin",
            Some("2023-11-15T22:00:00Z"),
        ),
        (&["Tue"], "23:00", "Europe/Berlin", None),
    ] {
        let pool = worker(2, window(days, start, zone));
        let out = node("b").working("rendered-worker-0");
        let decision = decided(&pool, &[node("a"), out]);
        match opens {
            None => assert_eq!(assigned(&decision), ["b", "a"], "{days:?} {start} {zone}"),
            Some(opens) => {
                // What is out of service already goes on.
                assert_eq!(assigned(&decision), ["b"], "{days:?} {start} {zone}");
                let expected =
                    format!("no window of the rollout policy is open: night opens at {opens}");
                assert_eq!(why(&decision, "a"), expected);
                assert_eq!(decision.wakes, Some(opens.parse().unwrap()));
            }
        }
    }
}

#[test]
fn others_follow_while_the_analysis_passes() {
    let spec = json!({
        "canaries": {},
        "analysis": [{ "name": "errors", "query": "a" }, { "name": "latency", "query": "b" }],
    });
    let mut pool = worker(9, spec);
    let result = |seconds: i64, result| (NOW - SignedDuration::from_secs(seconds), result);
    // The canaries need no analysis.
    assert_eq!(assigned(&decided(&pool, &["a", "b"].map(node))), ["a"]);
    let nodes = [updated("a"), node("b")];
    for (one, other, fault) in [
        (None, None, Some("errors: it was not asked yet")),
        (
            Some(result(0, QueryAnswer::Failed)),
            Some(result(0, QueryAnswer::Passed)),
            Some("errors: it answers 0"),
        ),
        (
            Some(result(60, QueryAnswer::Passed)),
            Some(result(0, QueryAnswer::Missing("no route".to_owned()))),
            Some("latency: it has no answer: no route"),
        ),
        (
            Some(result(61, QueryAnswer::Passed)),
            Some(result(0, QueryAnswer::Passed)),
            Some("errors: it was not asked yet"),
        ),
        (
            Some(result(60, QueryAnswer::Passed)),
            Some(result(0, QueryAnswer::Passed)),
            None,
        ),
    ] {
        let results = [("a", one), ("b", other)].into_iter();
        let results = results.filter_map(|(query, result)| Some((query.to_owned(), result?)));
        pool.facts.answers = results.collect();
        let decision = decided(&pool, &nodes);
        let Some(fault) = fault else {
            assert_eq!(assigned(&decision), ["b"]);
            continue;
        };
        assert_eq!(assigned(&decision), [""; 0], "{fault}");
        let expected = format!("the rollout policy analyses the canaries by the query {fault}");
        assert_eq!(why(&decision, "b"), expected);
        assert_eq!(decision.wakes, Some(NOW + SignedDuration::from_secs(30)));
    }
    // Once all are updated no query is sent any more.
    pool.facts.answers.clear();
    let decision = decided(&pool, &[updated("a"), updated("b")]);
    assert_eq!(decision.wakes, None);
}
