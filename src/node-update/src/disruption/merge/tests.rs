//! What is accepted, what is rejected, and what is in force.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn reload(service: &str) -> Value {
    json!({ "type": "Reload", "reload": { "serviceName": service } })
}

fn file(path: &str, actions: &[Value]) -> Value {
    json!({ "path": path, "actions": actions })
}

fn none() -> Value {
    json!({ "type": "None" })
}

/// Wrong fields of a policy, by path and reason.
fn faults(requested: &Value) -> Vec<String> {
    let errors = merge(requested).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn nothing_asked_for_is_the_defaults() {
    for requested in [
        json!(null),
        json!({}),
        json!({ "sshkey": { "actions": [] } }),
    ] {
        assert_eq!(merge(&requested), Ok(Policies::default()), "{requested}");
    }
}

#[test]
fn entry_replaces_the_default_of_its_path_or_name_and_others_follow() {
    let requested = json!({
        "files": [
            file("/etc/nmstate//openshift/", &[json!({ "type": "Reboot" })]),
            file("/etc/mine", &[json!({ "type": "Drain" }), reload("mine@1.service")]),
        ],
        "units": [{ "name": "iri-registry.service", "actions": [{ "type": "DaemonReload" }] }],
        "sshkey": { "actions": [{ "type": "Drain" }] },
    });
    let mut expected = Policies::default();
    let nmstate = "/etc/nmstate/openshift";
    let default = expected.files.iter_mut().find(|file| file.path == nmstate);
    default.unwrap().actions = vec![Action::Reboot];
    expected.files.push(FilePolicy {
        path: "/etc/mine".to_owned(),
        actions: vec![Action::Drain, Action::Reload("mine@1.service".to_owned())],
    });
    expected.units[0].actions = vec![Action::DaemonReload];
    expected.sshkey = vec![Action::Drain];
    assert_eq!(merge(&requested), Ok(expected));
}

#[test]
fn each_fault_is_named_by_its_field() {
    let service = |name: &str| json!({ "files": [file("/a", &[reload(name)])] });
    let actions = |actions: Value| json!({ "sshkey": { "actions": actions } });
    let long = format!("{}.service", "a".repeat(250));
    let files: Vec<Value> = (0..51)
        .map(|number| file(&format!("/{number}"), &[none()]))
        .collect();
    let drains = vec![json!({ "type": "Drain" }); 11];
    let unit = "is not a name with a suffix of systemd, such as .service";
    let at = "files[0].actions[0].reload.serviceName";
    let table = [
        (
            json!({ "files": [file("etc/a", &[])] }),
            "files[0].path: is not absolute".to_owned(),
        ),
        (
            json!({ "files": [file("/a/../b", &[])] }),
            "files[0].path: has a part \".\" or \"..\"".to_owned(),
        ),
        (
            json!({ "files": [file("/a\n", &[])] }),
            "files[0].path: has a control character".to_owned(),
        ),
        (
            json!({ "files": [file("/a", &[]), file("/a/", &[])] }),
            "files[1].path: is the path of an entry before".to_owned(),
        ),
        (
            json!({ "files": [{ "path": "/a" }] }),
            "files[0].actions: is missing or no list".to_owned(),
        ),
        (
            json!({ "files": files }),
            "files: has 51 entries, at most 50 are allowed".to_owned(),
        ),
        (
            json!({ "units": [{ "name": "a", "actions": [] }] }),
            format!("units[0].name: {unit}"),
        ),
        (
            json!({ "units": [{ "name": ".service", "actions": [] }] }),
            format!("units[0].name: {unit}"),
        ),
        (
            json!({ "units": [{ "name": "a.timer", "actions": [] }, { "name": "a.timer", "actions": [] }] }),
            "units[1].name: is the name of an entry before".to_owned(),
        ),
        (service("crio"), format!("{at}: {unit}")),
        (
            service("a b.service"),
            format!("{at}: has a character that no unit name has"),
        ),
        (service(&long), format!("{at}: is longer than 255 bytes")),
        (
            actions(json!([{ "type": "Restart" }])),
            "sshkey.actions[0].restart.serviceName: is missing or no text".to_owned(),
        ),
        (
            actions(json!([{ "type": "Drain", "reload": { "serviceName": "a.service" } }])),
            "sshkey.actions[0].reload: belongs to another type of action".to_owned(),
        ),
        (
            actions(json!([{ "type": "Special" }])),
            "sshkey.actions[0].type: Special is for the defaults only".to_owned(),
        ),
        (
            actions(json!([{ "type": "Halt" }])),
            "sshkey.actions[0].type: unknown type of action \"Halt\"".to_owned(),
        ),
        (
            actions(json!([{ "type": "Reboot" }, { "type": "Drain" }])),
            "sshkey.actions: Reboot stands beside other actions".to_owned(),
        ),
        (
            actions(json!([{ "type": "None" }, { "type": "None" }])),
            "sshkey.actions: None stands beside other actions".to_owned(),
        ),
        (
            actions(json!(drains)),
            "sshkey.actions: has 11 actions, at most 10 are allowed".to_owned(),
        ),
    ];
    for (requested, expected) in table {
        assert_eq!(faults(&requested), [expected], "{requested}");
    }
}

#[test]
fn all_faults_are_named_at_once() {
    let requested = json!({ "files": [file("a", &[reload("crio")])], "sshkey": {} });
    let fields = merge(&requested)
        .unwrap_err()
        .into_iter()
        .map(|error| error.field);
    let fields: Vec<String> = fields.collect();
    let expected = [
        "files[0].actions[0].reload.serviceName",
        "files[0].path",
        "sshkey.actions",
    ];
    assert_eq!(fields, expected);
}

proptest! {
    /// Whatever is asked for: each path has one policy, the one asked for or the default.
    #[test]
    fn each_path_has_the_policy_asked_for_or_the_default(
        own in proptest::collection::btree_set("/etc/[a-c]{1,2}", 0..5),
        over in proptest::collection::btree_set(0_usize..13, 0..5),
    ) {
        let defaults = Policies::default();
        let mut paths: Vec<String> = own.into_iter().collect();
        paths.extend(over.into_iter().map(|index| defaults.files[index].path.clone()));
        let files: Vec<Value> = (paths.iter())
            .map(|path| file(path, &[json!({ "type": "Drain" })]))
            .collect();
        let merged = merge(&json!({ "files": files })).unwrap();
        let all = paths.iter().chain(defaults.files.iter().map(|file| &file.path));
        let mut all: Vec<&str> = all.map(String::as_str).collect();
        all.sort_unstable();
        all.dedup();
        let mut known: Vec<&str> = merged.files.iter().map(|file| file.path.as_str()).collect();
        known.sort_unstable();
        prop_assert_eq!(known, all);
        for policy in &merged.files {
            let default = defaults.files.iter().find(|file| file.path == policy.path);
            let expected = if paths.contains(&policy.path) {
                vec![Action::Drain]
            } else {
                default.unwrap().actions.clone()
            };
            prop_assert_eq!(&policy.actions, &expected);
        }
    }
}
