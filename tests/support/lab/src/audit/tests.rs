use std::collections::BTreeMap;

use jiff::Timestamp;

use super::nodes::{Interval, NodeSnapshot};
use super::requests::{Asker, Request, Total};
use super::*;

/// Written by kube-apiserver v1.36.3 while `kubectl drain`, with a node's own credentials, met a
/// budget that allowed nothing and then one that did; bodies cut down to what is read here.
const DRAIN: &str = include_str!("testdata/drain.jsonl");

const POD: &str = "web-7bd577f759-86st7";

fn events() -> Vec<Event> {
    parse(DRAIN).unwrap()
}

fn time(seconds: &str) -> Timestamp {
    format!("2026-11-21T20:05:{seconds}Z").parse().unwrap()
}

fn history() -> Vec<NodeSnapshot> {
    nodes::histories(&events()).remove("n0").unwrap()
}

#[test]
fn a_half_written_last_line_is_left_for_later() {
    let whole = events().len();
    let cut = &DRAIN[..DRAIN.len() - 10];
    assert_eq!(parse(cut).unwrap().len(), whole - 1);
    let error = format!("{:#}", parse("{}\n").unwrap_err());
    assert!(error.starts_with("line 1 is no audit event"), "{error}");
}

#[test]
fn a_node_was_unschedulable_from_the_cordon_to_the_uncordon() {
    let expected = Interval {
        from: (Version(323), time("38.770120")),
        until: Some((Version(354), time("48.889096"))),
    };
    assert_eq!(
        nodes::intervals(&history(), |node| node.is_unschedulable),
        [expected]
    );
}

#[test]
fn a_node_that_registers_is_away_until_its_kubelet_is_up() {
    let expected = Interval {
        from: (Version(307), time("32.844132")),
        until: Some((Version(310), time("33.164645"))),
    };
    assert_eq!(
        nodes::intervals(&history(), |node| !node.is_ready),
        [expected]
    );
}

#[test]
fn a_patch_that_changes_nothing_is_no_state() {
    let at_307: Vec<_> = events()
        .into_iter()
        .filter(|event| event.at == time("32.850705"))
        .collect();
    assert_eq!(
        at_307[0].written("Node").and_then(Version::of),
        Some(Version(307))
    );
    let states: Vec<_> = history()
        .into_iter()
        .filter(|state| state.version == Version(307))
        .collect();
    assert_eq!(states.len(), 1);
    assert_eq!(states[0].at, time("32.844132"));
}

#[test]
fn states_are_in_order_of_versions_whatever_the_order_of_lines() {
    let mut events = events();
    events.reverse();
    assert_eq!(nodes::histories(&events)["n0"], history());
}

#[test]
fn an_annotation_has_its_values_one_after_another() {
    let history = history();
    let values = nodes::annotation_values(&history, "node.alpha.kubernetes.io/ttl");
    assert_eq!(
        values,
        [(time("32.844132"), None), (time("32.851876"), Some("0"))]
    );
}

#[test]
fn intervals_overlap_by_versions_not_by_times() {
    let interval = |from, until: Option<u64>| Interval {
        from: (Version(from), time("00")),
        until: until.map(|version| (Version(version), time("00"))),
    };
    for (intervals, expected) in [
        (vec![], 0),
        (vec![interval(1, Some(2)), interval(3, Some(4))], 1),
        (vec![interval(3, None), interval(1, Some(4))], 2),
        (
            vec![interval(1, None), interval(2, None), interval(3, Some(4))],
            3,
        ),
    ] {
        assert_eq!(nodes::max_overlap(&intervals), expected, "{intervals:?}");
    }
}

#[test]
fn evictions_are_listed_with_the_reason_of_a_refusal() {
    let evictions = pods::evictions(&events());
    let seen: Vec<_> = evictions
        .iter()
        .map(|eviction| (eviction.pod.as_str(), eviction.code))
        .collect();
    assert_eq!(seen, [(POD, 429), (POD, 429), (POD, 201)]);
    assert_eq!(
        evictions[0].message,
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    assert_eq!(evictions[2].message, "");
    assert_eq!(evictions[0].user, "system:node:n0");
    assert_eq!(evictions[0].grace_secs, None);
}

#[test]
fn a_pod_is_ready_until_it_is_evicted_and_another_takes_its_place() {
    assert_eq!(
        pods::ready(&events(), "default", ("app", "web")),
        [
            (time("34.320516"), 1),
            (time("47.832538"), 0),
            (time("49.208824"), 1)
        ]
    );
    assert_eq!(pods::ready(&events(), "default", ("app", "other")), []);
    assert_eq!(pods::ready(&events(), "other", ("app", "web")), []);
}

#[test]
fn a_pod_not_written_since_its_eviction_is_not_ready() {
    let mut events = events();
    events.retain(|event| event.at <= time("47.832538"));
    let last = pods::ready(&events, "default", ("app", "web")).pop();
    assert_eq!(last, Some((time("47.832538"), 0)));
}

#[test]
fn a_long_request_is_one_and_programs_of_one_user_are_apart() {
    let totals = requests::totals(&events());
    let of = |program: &str| {
        let asker = Asker {
            user: "system:node:n0".into(),
            program: program.into(),
        };
        let requests = totals.get(&asker).into_iter().flatten();
        requests
            .map(|(Request { verb, resource }, total)| ((verb.clone(), resource.as_str()), total))
            .collect::<BTreeMap<_, &Total>>()
    };
    let kubectl = of("kubectl");
    assert_eq!(kubectl[&(Verb::Create, "pods/eviction")].count, 3);
    assert_eq!(kubectl[&(Verb::Patch, "nodes")].count, 2);
    // Bodies of reads are not kept.
    assert_eq!(
        kubectl[&(Verb::Get, "pods")],
        &Total {
            count: 1,
            logged_bytes: 0
        }
    );
    let kubelet = of("kubelet");
    assert_eq!(kubelet[&(Verb::Watch, "nodes")].count, 1);
    assert!(kubelet[&(Verb::Patch, "pods/status")].logged_bytes > 1000);
}
