//! Pods with a network of their own take connections from those that need them alone.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::sources::{root, sources};

/// An object of a file of `deploy/`.
struct Deployed {
    file: String,
    object: Value,
}

impl Deployed {
    fn at(&self, pointer: &str) -> &Value {
        self.object.pointer(pointer).unwrap_or(&Value::Null)
    }
}

/// All objects of these kinds.
fn objects(kinds: &[&str]) -> Vec<Deployed> {
    let deploy = root().join("deploy");
    let mut found = Vec::new();
    for path in sources(&deploy, "yaml") {
        let text = std::fs::read_to_string(&path).unwrap();
        let is_of = |kind: &&str| text.contains(&format!("\nkind: {kind}\n"));
        if !kinds.iter().any(is_of) {
            continue;
        }
        assert!(is_listed(&path), "{} is not applied", path.display());
        let file = path.strip_prefix(&deploy).unwrap().display().to_string();
        for object in lab::manifest::parse(&text).unwrap() {
            let object = serde_json::to_value(object).unwrap();
            if kinds.iter().any(|kind| object["kind"] == *kind) {
                let file = file.clone();
                found.push(Deployed { file, object });
            }
        }
    }
    found
}

/// Whether the list of its folder names a file.
fn is_listed(path: &Path) -> bool {
    let list = path.with_file_name("kustomization.yaml");
    let list = std::fs::read_to_string(list).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    list.lines().any(|line| line == format!("  - {name}"))
}

fn labels(value: &Value) -> BTreeMap<&str, &Value> {
    let labels = value.as_object().into_iter().flatten();
    labels.map(|(key, value)| (key.as_str(), value)).collect()
}

#[test]
fn each_pod_with_a_network_of_its_own_has_a_policy_for_its_ports() {
    let policies = objects(&["NetworkPolicy"]);
    let mut count = 0;
    for workload in objects(&["Deployment", "DaemonSet"]) {
        if workload.at("/spec/template/spec/hostNetwork") == true {
            continue;
        }
        count += 1;
        let file = &workload.file;
        let pod = labels(workload.at("/spec/template/metadata/labels"));
        let policy = policies.iter().find(|policy| {
            let selected = labels(policy.at("/spec/podSelector/matchLabels"));
            policy.at("/metadata/namespace") == workload.at("/metadata/namespace")
                && !selected.is_empty()
                && selected
                    .iter()
                    .all(|(key, value)| pod.get(key) == Some(value))
        });
        let policy =
            policy.unwrap_or_else(|| panic!("no NetworkPolicy selects the pods of {file}"));
        assert_eq!(
            *policy.at("/spec/policyTypes"),
            serde_json::json!(["Ingress"])
        );
        let ports = workload.at("/spec/template/spec/containers/0/ports");
        let named = |wanted: &Value| {
            let mut ports = ports.as_array().into_iter().flatten();
            let is_it = |port: &&Value| port["name"] == *wanted || port["containerPort"] == *wanted;
            ports.find(is_it).map(|port| &port["name"])
        };
        let of_tls = served_over_tls(&workload);
        let rules = policy.at("/spec/ingress").as_array().unwrap();
        assert!(!rules.is_empty(), "{}", policy.file);
        for rule in rules {
            let ports = rule["ports"].as_array().unwrap();
            for port in ports {
                let wanted = &port["port"];
                let Some(name) = named(wanted) else {
                    panic!("{}: {file} has no port {wanted}", policy.file);
                };
                // What serves without TLS is for monitoring alone.
                let is_open = rule["from"].is_null();
                let is_safe = name == "https" || of_tls.contains(&name);
                assert!(!is_open || is_safe, "{}: {name} is open", policy.file);
            }
        }
    }
    assert!(count >= 3, "only {count}");
}

/// Names of the ports that a container serves over TLS, to clients that show a certificate: those
/// of `--listen`, which demands the server's own.
fn served_over_tls(workload: &Deployed) -> Vec<&Value> {
    let args = workload.at("/spec/template/spec/containers/0/args");
    let args = args.as_array().into_iter().flatten();
    let listened: Vec<&str> = args
        .filter_map(|arg| arg.as_str()?.strip_prefix("--listen=")?.rsplit(':').next())
        .collect();
    let ports = workload.at("/spec/template/spec/containers/0/ports");
    let ports = ports.as_array().into_iter().flatten();
    let is_of_tls = |port: &&Value| {
        let number = port["containerPort"].to_string();
        listened.contains(&number.as_str())
    };
    ports.filter(is_of_tls).map(|port| &port["name"]).collect()
}

#[test]
fn namespaces_of_components_deny_what_no_policy_admits() {
    let policies = objects(&["NetworkPolicy"]);
    for namespace in [
        "openshift-machine-config-operator",
        "openshift-cluster-version",
    ] {
        let mut all = policies.iter();
        let is_it = |policy: &&Deployed| {
            *policy.at("/metadata/namespace") == namespace
                && *policy.at("/metadata/name") == "default-deny"
        };
        let denies = all.find(is_it).expect(namespace);
        let expected =
            serde_json::json!({ "podSelector": {}, "policyTypes": ["Ingress", "Egress"] });
        assert_eq!(*denies.at("/spec"), expected, "{namespace}");
    }
}
