use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn pool(name: &str) -> PoolFacts {
    PoolFacts {
        name: name.to_owned(),
        labels: [("pool".to_owned(), name.to_owned())].into(),
        is_control_plane: false,
        selects_own_role: true,
    }
}

fn pools() -> Vec<PoolFacts> {
    vec![pool("edge"), pool("worker")]
}

/// An object: name, number that it has, pools that it selects; as old as its place in the list.
fn object(
    index: usize,
    name: &str,
    suffix: Option<&str>,
    pools: &[&str],
) -> (ObjectMeta, LabelSelector) {
    let annotations = suffix.map(|suffix| json!({ annotation::MC_NAME_SUFFIX: suffix }));
    let metadata = json!({
        "name": name, "creationTimestamp": format!("2026-01-01T00:00:{index:02}Z"),
        "annotations": annotations
    });
    let selector = json!({ "matchExpressions": [
        { "key": "pool", "operator": "In", "values": pools }
    ] });
    (read(metadata), read(selector))
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Name, number that it has, and the pools that it selects.
type Object<'a> = (&'a str, Option<&'a str>, &'a [&'a str]);

type Made = Vec<Result<(u32, Vec<String>), String>>;

fn claimed(list: &[Object<'_>]) -> Made {
    let objects: Vec<_> = list
        .iter()
        .enumerate()
        .map(|(index, (name, suffix, pools))| object(index, name, *suffix, pools))
        .collect();
    let claimants: Vec<Claimant<'_>> = objects
        .iter()
        .map(|(metadata, selector)| Claimant {
            metadata,
            selector: Some(selector),
        })
        .collect();
    let pools = pools();
    claims(SelectingKind::Kubelet, &claimants, &pools)
        .into_iter()
        .map(|made| {
            let names =
                |pools: Vec<&PoolFacts>| pools.iter().map(|pool| pool.name.clone()).collect();
            made.map(|made| (made.number, names(made.pools)))
                .map_err(|error| error.to_string())
        })
        .collect()
}

fn numbers(list: &[Object<'_>]) -> Vec<u32> {
    claimed(list)
        .into_iter()
        .map(|made| made.unwrap().0)
        .collect()
}

#[test]
fn the_first_of_a_pool_has_no_number_and_gaps_stay() {
    let worker: &[&str] = &["worker"];
    let table: [(&[Object<'_>], &[u32]); 6] = [
        (&[("a", None, worker)], &[0]),
        // The older one is first, whatever its name.
        (&[("b", None, worker), ("a", None, worker)], &[0, 1]),
        (&[("a", Some("3"), worker), ("b", None, worker)], &[3, 4]),
        (&[("new", None, worker), ("a", Some(""), worker)], &[1, 0]),
        // Of another pool.
        (&[("a", Some("3"), &["edge"]), ("b", None, worker)], &[3, 0]),
        (
            &[
                ("a", Some("3"), &["edge"]),
                ("b", None, &["edge", "worker"]),
            ],
            &[3, 4],
        ),
    ];
    for (list, expected) in table {
        assert_eq!(numbers(list), expected, "{list:?}");
    }
}

#[test]
fn the_tenth_has_a_name_and_the_eleventh_does_not() {
    let names: Vec<String> = (0..11).map(|index| format!("k{index:02}")).collect();
    let list: Vec<Object<'_>> = names
        .iter()
        .map(|name| (name.as_str(), None, ["worker"].as_slice()))
        .collect();
    let made = claimed(&list);
    assert_eq!(made[9].as_ref().unwrap().0, 9);
    let why = "max number of supported kubelet config (10) has been reached. Please delete old kubelet configs before retrying";
    assert_eq!(made[10].as_ref().unwrap_err(), why);
    assert_eq!(
        SelectingKind::Kubelet.config_name("worker", 9),
        "99-worker-generated-kubelet-9"
    );
    assert_eq!(
        SelectingKind::Runtime.config_name("worker", 0),
        "99-worker-generated-containerruntime"
    );
}

#[test]
fn an_object_without_pools_or_with_a_number_that_is_taken_is_refused() {
    let nothing = "could not find any MachineConfigPool set for KubeletConfig";
    assert_eq!(
        claimed(&[("a", None, &["gone"])])[0].as_ref().unwrap_err(),
        nothing
    );
    let made = claimed(&[("a", Some("1"), &["worker"]), ("b", Some("1"), &["worker"])]);
    assert!(made[0].is_ok());
    let why = "annotation machineconfiguration.openshift.io/mc-name-suffix is that of KubeletConfig a, which shares a pool: remove the annotation";
    assert_eq!(made[1].as_ref().unwrap_err(), why);
    for suffix in ["x", "10", "-1", "0"] {
        let made = claimed(&[("a", Some(suffix), &["worker"])]);
        assert!(
            made[0]
                .as_ref()
                .unwrap_err()
                .contains("no number from 1 to 9")
        );
    }
}

#[test]
fn absent_and_empty_selectors_select_nothing_and_a_deaf_pool_is_named() {
    let (metadata, _) = object(0, "a", None, &[]);
    let empty = LabelSelector::default();
    let mut pools = pools();
    let claim = |selector: Option<&LabelSelector>, pools: &[PoolFacts]| {
        let claimant = Claimant {
            metadata: &metadata,
            selector,
        };
        let made = claims(SelectingKind::Runtime, &[claimant], pools);
        let made = made.into_iter().next().unwrap();
        made.map_err(|error| error.to_string())
            .map(|made| made.number)
    };
    let why = "could not find any MachineConfigPool set for ContainerRuntimeConfig a";
    assert_eq!(claim(None, &pools).unwrap_err(), why);
    assert_eq!(claim(Some(&empty), &pools).unwrap_err(), why);
    let (_, worker) = object(0, "a", None, &["worker"]);
    pools[1].selects_own_role = false;
    assert_eq!(
        claim(Some(&worker), &pools).unwrap_err(),
        "MachineConfigPool worker: spec.machineConfigSelector does not select role worker, so the pool would not get the options"
    );
}
