use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{Cluster, node, owner, pool};

const NOW: i64 = 1_795_000_000;
const HOUR: i64 = 3600;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

/// A rendered name, by one digit.
fn name(digit: usize) -> String {
    format!("rendered-worker-{}", format!("{digit:x}").repeat(32))
}

fn config(name: &str, hours_old: i64, pool: &str) -> Value {
    let made = Timestamp::from_second(NOW - hours_old * HOUR).unwrap();
    json!({ "metadata": {
        "name": name, "uid": name, "resourceVersion": "1", "generation": 1,
        "creationTimestamp": made.to_string(), "ownerReferences": [owner(pool)],
    } })
}

fn retention(count: usize, hours: u64) -> Retention {
    Retention {
        count,
        age: Duration::from_hours(hours),
    }
}

fn removed(cluster: &Cluster, retention: Retention) -> Vec<String> {
    let snapshot = cluster.snapshot();
    let found = unused(&snapshot, retention, now());
    let all = found.into_values().flatten();
    all.map(|config| config.name.clone()).collect()
}

/// A pool with its target and ten configurations, the first the oldest: 10 hours.
fn cluster() -> Cluster {
    let configs =
        (0..10).map(|digit| config(&name(digit), 10 - i64::try_from(digit).unwrap(), "worker"));
    Cluster {
        pools: vec![pool(Some(&name(9)))],
        configs: configs.collect(),
        ..Cluster::default()
    }
}

#[test]
fn newest_and_youngest_are_kept() {
    let names = |digits: &[usize]| digits.iter().copied().map(name).collect::<Vec<_>>();
    let table = [
        (retention(0, 0), vec![8, 7, 6, 5, 4, 3, 2, 1, 0]),
        (retention(3, 0), vec![6, 5, 4, 3, 2, 1, 0]),
        (retention(0, 7), vec![2, 1, 0]),
        (retention(9, 7), vec![0]),
        (retention(10, 0), vec![]),
        (Retention::DEFAULT, vec![]),
    ];
    for (retention, expected) in table {
        assert_eq!(
            removed(&cluster(), retention),
            names(&expected),
            "{retention:?}"
        );
    }
}

/// What makes a configuration used.
type Uses = Box<dyn Fn(&mut Cluster)>;

#[test]
fn whatever_names_a_configuration_keeps_it() {
    let k = |key: &str| format!("machineconfiguration.openshift.io/{key}");
    let on_node = |key: String| {
        move |cluster: &mut Cluster| {
            let mut node = node("n", &name(9));
            node["metadata"]["annotations"][key.as_str()] = json!(name(0));
            cluster.nodes.push(node);
        }
    };
    let table: Vec<(&str, Uses)> = vec![
        ("currentConfig", Box::new(on_node(k("currentConfig")))),
        ("desiredConfig", Box::new(on_node(k("desiredConfig")))),
        ("firstPivotConfig", Box::new(on_node(k("firstPivotConfig")))),
        (
            "next-config",
            Box::new(on_node("slipway.dev/next-config".to_owned())),
        ),
        (
            "fetched",
            Box::new(on_node("slipway.dev/fetched".to_owned())),
        ),
        (
            "spec.configuration of another pool",
            Box::new(|cluster| {
                let mut other = pool(Some(&name(0)));
                other["metadata"]["name"] = json!("infra");
                other["metadata"]["uid"] = json!("uid-infra");
                cluster.pools.push(other);
            }),
        ),
        (
            "status.configuration",
            Box::new(|cluster| {
                cluster.pools[0]["status"] = json!({ "configuration": { "name": name(0) } });
            }),
        ),
        (
            "a claim",
            Box::new(|cluster| {
                cluster.pools[0]["metadata"]["annotations"] = json!({
                    "slipway.dev/round": json!({ "target": name(0), "nodes": {} }).to_string()
                });
            }),
        ),
    ];
    assert!(removed(&cluster(), retention(0, 0)).contains(&name(0)));
    for (what, uses) in table {
        let mut cluster = cluster();
        uses(&mut cluster);
        let removed = removed(&cluster, retention(0, 0));
        assert!(!removed.contains(&name(0)), "{what}");
        assert!(removed.contains(&name(1)), "{what}");
    }
}

#[test]
fn what_is_not_the_pools_own_rendering_is_left_alone() {
    let foreign = [
        config(&name(0), 100, "another"),
        config("rendered-worker-by-hand", 100, "worker"),
        config("99-worker-ssh", 100, "worker"),
        json!({ "metadata": { "name": name(1), "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z" } }),
    ];
    let mut cluster = Cluster {
        pools: vec![pool(Some(&name(9)))],
        configs: foreign.into(),
        ..Cluster::default()
    };
    assert_eq!(removed(&cluster, retention(0, 0)), Vec::<String>::new());
    cluster.configs = vec![config(&name(0), 100, "worker")];
    assert_eq!(removed(&cluster, retention(0, 0)), [name(0)]);
    // A build of an OS image names it.
    cluster.os_builds = vec![json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSBuild",
        "metadata": { "name": "worker-1" },
        "spec": {
            "machineConfig": { "name": name(0) },
            "machineOSConfig": { "name": "worker" },
            "renderedImagePushSpec": "registry.example/os:worker-1",
        },
    })];
    assert_eq!(removed(&cluster, retention(0, 0)), Vec::<String>::new());
}

proptest! {
    /// Nothing that is named, among the newest or young is removed, and all else is.
    #[test]
    fn removed_is_exactly_what_is_old_and_unused(
        ages in prop::collection::vec(0..48_i64, 0..12),
        used in prop::collection::btree_set(0..12_usize, 0..6),
        count in 0..6_usize,
        hours in 0..48_u64,
    ) {
        let configs = ages.iter().enumerate();
        let configs: Vec<Value> =
            configs.map(|(digit, age)| config(&name(digit), *age, "worker")).collect();
        let nodes = used.iter().map(|digit| node(&format!("n{digit}"), &name(*digit))).collect();
        let cluster = Cluster { pools: vec![pool(None)], configs, nodes, ..Cluster::default() };
        let removed = removed(&cluster, retention(count, hours));
        for (digit, age) in ages.iter().enumerate() {
            let newer = ages.iter().filter(|other| *other < age).count();
            let same = ages.iter().filter(|other| *other == age).count();
            let is_old = *age > i64::try_from(hours).unwrap();
            let is_removed = removed.contains(&name(digit));
            if used.contains(&digit) || !is_old || newer + same <= count {
                prop_assert!(!is_removed, "{digit} of {ages:?}");
            } else if newer >= count {
                prop_assert!(is_removed, "{digit} of {ages:?}");
            }
        }
    }
}
