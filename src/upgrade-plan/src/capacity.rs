//! Machines that are added for the time of an upgrade: which MachineSets are copied, and how far
//! the copies are.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::config::OperatorConfig;
use crate::node_view::DrainStart;

/// Label of what was added.
pub const ADDED: &str = "upgrade.managed.openshift.io";
/// Label by which machines name their MachineSet.
const OF_SET: &str = "machine.openshift.io/cluster-api-machineset";
/// Label of the pool that a MachineSet belongs to.
const POOL: &str = "hive.openshift.io/machine-pool";
/// Label by which the machines of a MachineSet name their role.
const ROLE: &str = "machine.openshift.io/cluster-api-machine-role";
/// The pool whose MachineSets are copied.
const WORKER: &str = "worker";

/// How far the copies are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CapacityState {
    /// Each has its machine, whose node is ready.
    Ready,
    /// Some are not ready, and why.
    Waiting(String),
    /// One was not ready in time, and why.
    TimedOut(String),
}

/// There is no MachineSet to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no MachineSet has the label {POOL}={WORKER} or that of a pool of scale.extraMachinePools, nor \
     machines with the label {ROLE}={WORKER}"
)]
pub struct NoMachinePool;

/// MachineSets to copy: those of the pool `worker` and of the pools that the settings name. Where
/// none has the label of a pool, as outside of OpenShift Dedicated, the installer's label of the
/// machines' role counts in its place.
///
/// # Errors
/// There is none.
pub fn originals<'a>(
    sets: &'a [Value],
    config: &OperatorConfig,
) -> Result<Vec<&'a Value>, NoMachinePool> {
    let has_pools = sets.iter().any(|set| label(set, POOL).is_some());
    let pool = |set: &Value| {
        let pool = if has_pools {
            label(set, POOL)
        } else {
            role(set)
        };
        pool.unwrap_or_default()
    };
    let is_wanted = |set: &&Value| {
        let pool = pool(set);
        let is_extra = || {
            config
                .extra_machine_pools
                .iter()
                .any(|glob| glob.matches(&pool))
        };
        !is_added(set) && (pool == WORKER || (!pool.is_empty() && is_extra()))
    };
    let found: Vec<&Value> = sets.iter().filter(is_wanted).collect();
    if found.is_empty() {
        return Err(NoMachinePool);
    }
    Ok(found)
}

/// Copies that are missing, of so many machines each.
pub fn missing_copies(originals: &[&Value], sets: &[Value], machines: u32) -> Vec<Value> {
    let wanted = originals.iter().map(|set| format!("{}-upgrade", name(set)));
    let is_there = |copy: &str| sets.iter().any(|set| name(set) == copy);
    let missing = wanted.zip(originals).filter(|(copy, _)| !is_there(copy));
    missing
        .map(|(copy, set)| copy_of(set, &copy, machines))
        .collect()
}

/// The copy of a MachineSet, which tells its own machines from those of its original.
fn copy_of(set: &Value, copy: &str, machines: u32) -> Value {
    let mut spec = set.get("spec").cloned().unwrap_or_default();
    put(&mut spec, &["replicas"], json!(machines));
    for place in [
        &["template", "metadata", "labels"][..],
        &["selector", "matchLabels"],
    ] {
        for (key, value) in [(ADDED, "true"), (OF_SET, copy)] {
            put(&mut spec, &[place, &[key]].concat(), json!(value));
        }
    }
    json!({
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "MachineSet",
        "metadata": {
            "name": copy,
            "namespace": set.pointer("/metadata/namespace").cloned().unwrap_or_default(),
            "labels": { ADDED: "true" },
        },
        "spec": spec,
    })
}

/// Sets a field; what is on the way to it and no object becomes one.
fn put(place: &mut Value, path: &[&str], value: Value) {
    let [first, rest @ ..] = path else {
        *place = value;
        return;
    };
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    if let Value::Object(fields) = place {
        let field = fields.entry(*first).or_insert(Value::Null);
        put(field, rest, value);
    }
}

/// How far the copies are. `nodes` are all nodes, each with whether it is ready.
pub fn state(
    sets: &[Value],
    machines: &[Value],
    nodes: &BTreeMap<String, bool>,
    timeout: SignedDuration,
    now: Timestamp,
) -> CapacityState {
    let mut waiting = None;
    for set in sets.iter().filter(|set| is_added(set)) {
        let Some(why) = unready(set, machines, nodes) else {
            continue;
        };
        let why = format!("MachineSet {}: {why}", name(set));
        let created = set
            .pointer("/metadata/creationTimestamp")
            .and_then(Value::as_str);
        let created: Option<Timestamp> = created.and_then(|text| text.parse().ok());
        if created.is_some_and(|created| now.duration_since(created) > timeout) {
            return CapacityState::TimedOut(why);
        }
        waiting.get_or_insert(why);
    }
    waiting.map_or(CapacityState::Ready, CapacityState::Waiting)
}

/// What a copy lacks to be ready.
fn unready(set: &Value, machines: &[Value], nodes: &BTreeMap<String, bool>) -> Option<String> {
    let count = |pointer: &str| set.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let (replicas, ready) = (count("/spec/replicas"), count("/status/readyReplicas"));
    if replicas != ready {
        return Some(format!("{ready} of {replicas} machines ready"));
    }
    let mine: Vec<&Value> = added_machines(machines)
        .filter(|machine| label(machine, OF_SET).as_deref() == Some(name(set)))
        .collect();
    if i64::try_from(mine.len()) != Ok(replicas) {
        return Some(format!("{} machines in place of {replicas}", mine.len()));
    }
    for machine in mine {
        let Some(node) = node_of(machine) else {
            return Some(format!("machine {} has no node", name(machine)));
        };
        if nodes.get(node) != Some(&true) {
            return Some(format!("node {node} is not ready"));
        }
    }
    None
}

/// Names of MachineSets that were added and are not being deleted.
pub fn sets_to_delete(sets: &[Value]) -> Vec<&str> {
    let is_there = |set: &&Value| {
        let deleted = set.pointer("/metadata/deletionTimestamp");
        is_added(set) && deleted.is_none_or(Value::is_null)
    };
    sets.iter().filter(is_there).map(name).collect()
}

/// Machines that were added.
pub fn added_machines(machines: &[Value]) -> impl Iterator<Item = &Value> {
    machines.iter().filter(|machine| is_added(machine))
}

/// Name of a machine's node.
pub fn node_of(machine: &Value) -> Option<&str> {
    machine
        .pointer("/status/nodeRef/name")
        .and_then(Value::as_str)
}

/// When the machine API began to drain a machine, if it is being taken away.
pub fn drain_start(machine: &Value) -> Option<DrainStart> {
    let deleted = machine.pointer("/metadata/deletionTimestamp");
    let deleted = deleted.filter(|deleted| !deleted.is_null())?;
    let at = deleted.as_str().and_then(|text| text.parse().ok());
    Some(at.map_or(DrainStart::Unknown, DrainStart::At))
}

pub fn name(object: &Value) -> &str {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or_default()
}

fn is_added(object: &Value) -> bool {
    label(object, ADDED).as_deref() == Some("true")
}

/// Role of a MachineSet's machines.
fn role(set: &Value) -> Option<String> {
    let labels = set.pointer("/spec/template/metadata/labels")?;
    Some(labels.get(ROLE)?.as_str()?.to_owned())
}

fn label(object: &Value, key: &str) -> Option<String> {
    let labels = object.pointer("/metadata/labels")?;
    Some(labels.get(key)?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{START, at, config};

    fn set(name: &str, pool: &str) -> Value {
        json!({
            "metadata": {
                "name": name, "namespace": "openshift-machine-api", "annotations": { "a": "b" },
                "labels": { POOL: pool, "other": "x" },
            },
            "spec": {
                "replicas": 3,
                "selector": { "matchLabels": { OF_SET: name, "cluster": "c" } },
                "template": {
                    "metadata": { "labels": { OF_SET: name, "cluster": "c" } },
                    "spec": { "providerSpec": { "value": 7 } },
                },
            },
        })
    }

    fn copy(name: &str, ready: i64) -> Value {
        let mut copy = copy_of(&set(name, "worker"), &format!("{name}-upgrade"), 1);
        copy["metadata"]["creationTimestamp"] = json!(START.to_string());
        copy["status"] = json!({ "readyReplicas": ready });
        copy
    }

    fn machine(of: &str, node: Option<&str>) -> Value {
        json!({
            "metadata": { "name": format!("{of}-x"), "labels": { ADDED: "true", OF_SET: of } },
            "status": node.map(|node| json!({ "nodeRef": { "name": node } })),
        })
    }

    #[test]
    fn worker_pools_and_the_extra_ones_are_copied() {
        let sets = [
            set("a", "worker"),
            set("g", "gpu-1"),
            set("i", "infra"),
            copy("a", 1),
        ];
        let config = config("scale: {extraMachinePools: ['gpu-*']}");
        let names = |found: Vec<&Value>| -> Vec<String> {
            found.iter().map(|set| name(set).to_owned()).collect()
        };
        assert_eq!(names(originals(&sets, &config).unwrap()), ["a", "g"]);
        // The usual pool is absent, and another one is named.
        assert_eq!(names(originals(&sets[1..], &config).unwrap()), ["g"]);
        assert_eq!(originals(&sets[2..], &config), Err(NoMachinePool));
        let none = NoMachinePool.to_string();
        assert!(
            none.contains("hive.openshift.io/machine-pool=worker"),
            "{none}"
        );
    }

    #[test]
    fn without_pools_the_role_of_the_machines_counts() {
        let with_role = |name: &str, role: &str| {
            let mut set = set(name, "");
            set["metadata"]["labels"] = json!({ "other": "x" });
            set["spec"]["template"]["metadata"]["labels"][ROLE] = json!(role);
            set
        };
        let sets = [with_role("w", "worker"), with_role("i", "infra")];
        let found = originals(&sets, &config("")).unwrap();
        assert_eq!(found, [&sets[0]]);
        assert_eq!(originals(&sets[1..], &config("")), Err(NoMachinePool));
    }

    #[test]
    fn each_of_several_machines_is_waited_for() {
        let nodes = BTreeMap::from([("n".to_owned(), true), ("m".to_owned(), false)]);
        let mut two = copy("a", 2);
        two["spec"]["replicas"] = json!(2);
        let found = |of: &[Option<&str>]| {
            let machines: Vec<Value> = of.iter().map(|node| machine("a-upgrade", *node)).collect();
            let sets = std::slice::from_ref(&two);
            state(
                sets,
                &machines,
                &nodes,
                SignedDuration::from_mins(30),
                at(1),
            )
        };
        let waiting = |why: &str| CapacityState::Waiting(format!("MachineSet a-upgrade: {why}"));
        assert_eq!(found(&[Some("n")]), waiting("1 machines in place of 2"));
        assert_eq!(
            found(&[Some("n"), Some("m")]),
            waiting("node m is not ready")
        );
        assert_eq!(found(&[Some("n"), Some("n")]), CapacityState::Ready);
    }

    #[test]
    fn each_missing_copy_is_made_with_machines_of_its_own() {
        let sets = [set("a", "worker"), set("b", "worker"), copy("a", 1)];
        let originals: Vec<&Value> = sets.iter().take(2).collect();
        let missing = missing_copies(&originals, &sets, 2);
        let labels = json!({ OF_SET: "b-upgrade", "cluster": "c", ADDED: "true" });
        let expected = json!({
            "apiVersion": "machine.openshift.io/v1beta1",
            "kind": "MachineSet",
            "metadata": {
                "name": "b-upgrade", "namespace": "openshift-machine-api",
                "labels": { ADDED: "true" },
            },
            "spec": {
                "replicas": 2,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "providerSpec": { "value": 7 } },
                },
            },
        });
        assert_eq!(missing, [expected]);
        // An original without labels gets them.
        let bare = json!({ "metadata": { "name": "c" }, "spec": {} });
        let copy = &missing_copies(&[&bare], &[], 1)[0];
        assert_eq!(
            copy["spec"]["selector"]["matchLabels"][ADDED],
            json!("true")
        );
    }

    #[test]
    fn copy_is_ready_with_the_node_of_its_one_machine() {
        let nodes = BTreeMap::from([("n".to_owned(), true), ("m".to_owned(), false)]);
        let timeout = SignedDuration::from_mins(30);
        let found = |sets: &[Value], machines: &[Value], minute| {
            state(sets, machines, &nodes, timeout, at(minute))
        };
        let one = [copy("a", 1)];
        let ready = [machine("a-upgrade", Some("n"))];
        assert_eq!(found(&one, &ready, 99), CapacityState::Ready);
        let table: [(&[Value], &[Value], &str); 5] = [
            (&[copy("a", 0)], &ready, "0 of 1 machines ready"),
            (&one, &[], "0 machines in place of 1"),
            (&one, &[machine("a", Some("n"))], "0 machines in place of 1"),
            (
                &one,
                &[machine("a-upgrade", None)],
                "machine a-upgrade-x has no node",
            ),
            (
                &one,
                &[machine("a-upgrade", Some("m"))],
                "node m is not ready",
            ),
        ];
        for (sets, machines, why) in table {
            let why = format!("MachineSet a-upgrade: {why}");
            let waiting = CapacityState::Waiting(why.clone());
            assert_eq!(found(sets, machines, 30), waiting);
            assert_eq!(found(sets, machines, 31), CapacityState::TimedOut(why));
        }
    }

    #[test]
    fn only_added_sets_are_deleted_and_each_once() {
        let mut deleting = copy("b", 1);
        deleting["metadata"]["deletionTimestamp"] = json!(START.to_string());
        let sets = [set("a", "worker"), copy("a", 1), deleting];
        assert_eq!(sets_to_delete(&sets), ["a-upgrade"]);
        let machines = [
            machine("a-upgrade", None),
            json!({ "metadata": { "name": "other" } }),
        ];
        assert_eq!(added_machines(&machines).count(), 1);
        assert_eq!(drain_start(&machines[0]), None);
        let leaving = |at: &str| json!({ "metadata": { "deletionTimestamp": at } });
        let began = drain_start(&leaving(&START.to_string()));
        assert_eq!(began, Some(DrainStart::At(START)));
        assert_eq!(drain_start(&leaving("soon")), Some(DrainStart::Unknown));
    }
}
