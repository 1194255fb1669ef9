//! What OpenShift's clients and its operators' own end-to-end tests ask of a cluster: the same
//! requests, held against what those expect.
//!
//! - `status`: `oc adm upgrade status`
//! - `related_objects`: `oc adm inspect` and must-gather
//! - `keys`: `oc adm release mirror`
//! - `namespaces`, `network_policies`, `metrics`: tests of the version operator and of the
//!   machine-config operator
//! - `kubelet_configs`, `disruption_policies`: files of their own

mod disruption_policies;
mod kubelet_configs;
mod pool;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use testbed::until_blocking;

use crate::held::{Held, SHOWN_WITHIN, TRY_EVERY};

const NAMESPACE: &str = "openshift-machine-config-operator";

/// Network policies that clients know by name.
const POLICIES: [&str; 4] = [
    "default-deny",
    "allow-all-egress",
    "allow-machine-config-controller",
    "allow-machine-os-builder",
];

/// All of them, in a cluster in which nothing else happens.
pub(crate) fn all(held: &Held) -> Result<()> {
    related_objects(held).context("related objects")?;
    keys(held).context("keys")?;
    namespaces(held).context("namespaces")?;
    network_policies(held).context("network policies")?;
    metrics(held).context("metrics")?;
    disruption_policies::all(held).context("disruption policies")?;
    kubelet_configs::all(held).context("kubelet configurations")
}

/// What `oc adm upgrade status` reads, with 404 for nothing but alerts; it fails else.
pub(crate) fn status(held: &Held) -> Result<()> {
    let version = held.json("kubectl get clusterversions.config.openshift.io version")?;
    let progressing = condition(&version, "Progressing").context("Progressing")?;
    ensure!(
        ["True", "False"].contains(&progressing),
        "Progressing is {progressing}"
    );
    ensure!(condition(&version, "Failing").is_some(), "no Failing");
    let operators = held.items("kubectl get clusteroperators.config.openshift.io")?;
    let config = operators
        .iter()
        .find(|one| one["metadata"]["name"] == "machine-config")
        .context("no ClusterOperator machine-config")?;
    let deployment = format!("kubectl get --namespace={NAMESPACE} deployments.apps");
    let deployment = held.json(&format!("{deployment} machine-config-operator"))?;
    let container = array(&deployment, "/spec/template/spec/containers")
        .iter()
        .find(|one| one["name"] == "machine-config-operator")
        .context("no container machine-config-operator")?;
    let images = array(config, "/status/versions");
    let image = images.iter().find(|one| one["name"] == "operator-image");
    let image = image.context("no version operator-image")?;
    // While it is updated the Deployment is ahead.
    if progressing == "False" {
        ensure!(image["version"] == container["image"], "{image}");
    }

    let pools = held.items("kubectl get machineconfigpools.machineconfiguration.openshift.io")?;
    ensure!(pools.len() >= 2, "{} pools", pools.len());
    for node in held.items("kubectl get nodes")? {
        for key in ["currentConfig", "desiredConfig"] {
            let name = &node["metadata"]["annotations"]
                [format!("machineconfiguration.openshift.io/{key}")];
            let name = name.as_str().context("a node without a configuration")?;
            let get = "kubectl get machineconfigs.machineconfiguration.openshift.io";
            let config = held.json(&format!("{get} {name}"))?;
            let version = &config["metadata"]["annotations"]["machineconfiguration.openshift.io/release-image-version"];
            let is_version = version
                .as_str()
                .is_some_and(|text| text.starts_with("1.0."));
            ensure!(is_version, "{name} is of release {version}");
        }
    }
    Ok(())
}

/// All objects that operators name are there.
fn related_objects(held: &Held) -> Result<()> {
    for operator in held.items("kubectl get clusteroperators.config.openshift.io")? {
        for object in array(&operator, "/status/relatedObjects") {
            let text = |key: &str| object[key].as_str().unwrap_or_default();
            let (group, name) = (text("group"), text("name"));
            let dot = if group.is_empty() { "" } else { "." };
            let namespace = match text("namespace") {
                "" => String::new(),
                namespace => format!("--namespace={namespace}"),
            };
            let get = format!(
                "kubectl get {namespace} {}{dot}{group} {name}",
                text("resource")
            );
            // Without a name it is all of them.
            held.json(get.trim_end())?;
        }
    }
    Ok(())
}

/// Clients read the keys of releases, and those they can read are of RSA.
fn keys(held: &Held) -> Result<()> {
    let maps = held.items("kubectl get configmaps --namespace=openshift-config-managed")?;
    let maps = maps.iter().filter(|map| {
        let annotations = &map["metadata"]["annotations"];
        annotations["release.openshift.io/verification-config-map"].is_string()
    });
    let data = maps.filter_map(|map| map["data"].as_object());
    let entries: Vec<_> = data.flatten().collect();
    ensure!(
        entries.iter().any(|(key, _)| key.starts_with("store-")),
        "no store of signatures"
    );
    let keys = entries
        .iter()
        .filter(|(key, _)| key.starts_with("verifier-public-key-"));
    let keys: Vec<_> = keys.filter_map(|(_, value)| value.as_str()).collect();
    ensure!(!keys.is_empty(), "no key");
    for key in keys {
        let ran = held.run("gpg --show-keys --with-colons", key)?;
        let is_rsa = |line: &str| line.split(':').nth(3) == Some("1");
        let public = ran.printed.lines().filter(|line| line.starts_with("pub:"));
        let public: Vec<_> = public.collect();
        ensure!(
            !public.is_empty() && public.iter().all(|line| is_rsa(line)),
            "{}",
            ran.printed
        );
    }
    Ok(())
}

fn namespaces(held: &Held) -> Result<()> {
    for name in ["openshift-cluster-version", NAMESPACE] {
        let namespace = held.json(&format!("kubectl get namespaces {name}"))?;
        let labels = &namespace["metadata"]["labels"];
        ensure!(labels["openshift.io/run-level"] == "", "{name}: {labels}");
        ensure!(
            labels["openshift.io/cluster-monitoring"] == "true",
            "{name}: {labels}"
        );
        let get = format!("kubectl get networkpolicies --namespace={name} default-deny");
        let deny = held.json(&get)?;
        let spec = &deny["spec"];
        ensure!(spec["podSelector"] == serde_json::json!({}), "{deny}");
        ensure!(
            spec["ingress"].is_null() && spec["egress"].is_null(),
            "{deny}"
        );
        ensure!(array(&deny, "/spec/policyTypes").len() == 2, "{deny}");
    }
    let pods = "kubectl get pods --namespace=openshift-cluster-version \
                --selector=k8s-app=cluster-version-operator --field-selector=status.phase=Running";
    ensure!(held.items(pods)?.len() == 1, "not one version operator");
    Ok(())
}

/// They are there, stay as they are, and leave room for those of others.
fn network_policies(held: &Held) -> Result<()> {
    let get = format!("kubectl get networkpolicies --namespace={NAMESPACE}");
    let egress = held.json(&format!("{get} allow-all-egress"))?;
    ensure!(!array(&egress, "/spec/egress").is_empty(), "{egress}");
    for component in ["machine-config-controller", "machine-os-builder"] {
        let policy = held.json(&format!("{get} allow-{component}"))?;
        let spec = &policy["spec"];
        ensure!(
            spec["podSelector"]["matchLabels"]["k8s-app"] == component,
            "{policy}"
        );
        let port = &spec["ingress"][0]["ports"][0];
        ensure!(
            port["port"] == 9001 && port["protocol"] == "TCP",
            "{policy}"
        );
    }
    for name in POLICIES {
        for change in [
            format!("kubectl delete --namespace={NAMESPACE} networkpolicies {name}"),
            format!("kubectl label --namespace={NAMESPACE} networkpolicies {name} test=blocked"),
        ] {
            let ran = held.run(&change, "")?;
            let is_refused = ran.code == Some(1)
                && ran.printed.contains("MCO-managed NetworkPolicy")
                && ran.printed.contains("is invalid");
            ensure!(is_refused, "{change}: {:?} {}", ran.code, ran.printed);
        }
    }
    let own = serde_json::json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "name": "test-additional-allow", "namespace": NAMESPACE },
        "spec": {
            "podSelector": { "matchLabels": { "k8s-app": "machine-config-controller" } },
            "ingress": [{ "ports": [{ "protocol": "TCP", "port": 8080 }] }],
            "policyTypes": ["Ingress"],
        },
    });
    held.apply(&own)?;
    let names: Vec<_> = held.items(&get)?;
    let names: BTreeSet<_> = names
        .iter()
        .filter_map(|policy| policy["metadata"]["name"].as_str())
        .collect();
    let expected = POLICIES.into_iter().chain(["test-additional-allow"]);
    for name in expected {
        ensure!(names.contains(name), "{name} is not one of {names:?}");
    }
    held.done(&format!(
        "kubectl delete --namespace={NAMESPACE} networkpolicies test-additional-allow"
    ))
}

/// Who has the token of the cluster's Prometheus reads the replicas behind a Service, over TLS and
/// from a node. The one that leads knows the pools.
fn metrics(held: &Held) -> Result<()> {
    let token = "kubectl create token --namespace=openshift-monitoring prometheus-k8s";
    for (component, value) in [
        (
            "machine-config-controller",
            "mco_unavailable_machine_count{pool=\"worker\"} 0\n",
        ),
        ("machine-config-operator", "# TYPE "),
    ] {
        let get = format!("kubectl get endpoints --namespace={NAMESPACE} {component}");
        let asks = |options: &str| -> Result<Vec<String>> {
            // A warning of kubectl may stand before the list.
            let printed = held
                .run(&format!("{get} --output=json 2>/dev/null"), "")?
                .printed;
            let endpoints: Value = serde_json::from_str(&printed)?;
            let addresses = array(&endpoints, "/subsets/0/addresses").iter();
            let addresses = addresses.filter_map(|address| address["ip"].as_str());
            let printed = addresses.map(|address| {
                let ask = format!(
                    "nsenter --net --target $(cat $HOSTS/master-0/leader) \
                     curl --silent --show-error --insecure --noproxy '*' --max-time 30 \
                     --write-out ' answered %{{http_code}}' {options} https://{address}:9001/metrics"
                );
                Ok(held.run(&ask, "")?.printed)
            });
            printed.collect()
        };
        until_blocking(component, SHOWN_WITHIN, TRY_EVERY, || {
            let responses = asks(&format!("--header \"Authorization: Bearer $({token})\""))?;
            let is_there = responses.iter().any(|response| response.contains(value))
                && responses
                    .iter()
                    .all(|response| response.ends_with(" answered 200"));
            Ok(is_there.then_some(()).ok_or_else(|| responses.join("\n")))
        })?;
        for response in asks("")? {
            ensure!(
                response.ends_with(" answered 401"),
                "without a token: {response}"
            );
        }
    }
    Ok(())
}

fn condition<'a>(object: &'a Value, r#type: &str) -> Option<&'a str> {
    let found = array(object, "/status/conditions")
        .iter()
        .find(|one| one["type"] == r#type);
    found?["status"].as_str()
}

fn array<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    let found = object.pointer(pointer).and_then(Value::as_array);
    found.map_or(&[], Vec::as_slice)
}
