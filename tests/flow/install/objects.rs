//! The objects of an installation, on an API server: there are no hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::{ApiServer, Programs};

use crate::manifests::{VERSION, no_images, object, of, remove, write};

/// What each installation here is asked for: programs do not run on an API server alone.
const WORDS: [&str; 4] = ["install", "--timeout=0", "--component", "machine-config"];

/// Between two objects after which an installation is killed.
const STRIDE: usize = 9;

/// All objects of the installation by kind and name, as the API server has them, without what it
/// keeps of writes.
fn stored(server: &ApiServer, manifests: &Path) -> Result<BTreeMap<String, Value>> {
    let text = server.slipway(&["install", "--render", "--manifests", &path(manifests)])?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, &text.out)?;
    let words = [
        "get",
        "--ignore-not-found",
        "--output=json",
        "--filename",
        &path(&file),
    ];
    let printed = server.control_plane.kubectl(&words)?;
    if printed.is_empty() {
        return Ok(BTreeMap::new());
    }
    let list: Value = serde_json::from_str(&printed)?;
    let items = list["items"].as_array().context("no list")?;
    let mut all = BTreeMap::new();
    for item in items {
        let mut item = item.clone();
        let place = &item["metadata"];
        let name = format!("{} {} {}", item["kind"], place["namespace"], place["name"]);
        for field in [
            "creationTimestamp",
            "generation",
            "managedFields",
            "resourceVersion",
            "uid",
        ] {
            item["metadata"]
                .as_object_mut()
                .context("no metadata")?
                .remove(field);
        }
        // The API server chooses addresses of services.
        if let Some(spec) = item.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        // Of definitions and policies controllers of the API server write it.
        item.as_object_mut().context("no object")?.remove("status");
        all.insert(name, item);
    }
    Ok(all)
}

fn path(of: &Path) -> String {
    of.display().to_string()
}

/// Runs `slipway` and kills it after it has reported so many objects; whether it was killed.
pub(crate) fn interrupted(kubeconfig: &Path, words: &[&str], lines: usize) -> Result<bool> {
    const REPORTS: [&str; 5] = ["created ", "changed ", "removed ", "took over ", "cleaned "];
    let mut child = Command::new(Programs::built()?.path("slipway")?)
        .args(words)
        .args(["--kubeconfig", &path(kubeconfig)])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let out = BufReader::new(child.stdout.take().context("no output")?);
    let mut seen = 0;
    for line in out.lines() {
        let line = line?;
        seen += usize::from(REPORTS.iter().any(|report| line.starts_with(report)));
        if seen == lines {
            child.kill()?;
            break;
        }
    }
    child.wait()?;
    Ok(seen == lines)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn an_installation_that_is_interrupted_anywhere_goes_on() -> Result<()> {
    let whole = ApiServer::start("install", "whole").await?;
    let manifests = write(&whole.dir, &of(VERSION, &no_images()?)?)?;
    let with = |words: &[&str]| {
        let file = path(&manifests);
        let words: Vec<_> = words
            .iter()
            .copied()
            .chain(["--manifests", &file])
            .collect();
        whole.slipway(&words)
    };
    let render = with(&["install", "--render"])?;
    render.expect(0, &["kind: CustomResourceDefinition"]);
    let count = render.out.matches("\n---\n").count() + 1;
    // A look changes nothing.
    let checked = with(&["install", "--check"])?;
    checked.expect(0, &[&format!("create {count:>4}"), "machine-config"]);
    ensure!(stored(&whole, &manifests)?.is_empty());

    with(&WORDS)?.expect(0, &["created DaemonSet.apps", "slipway 0.2.0 is applied"]);
    let expected = stored(&whole, &manifests)?;
    ensure!(expected.len() == count, "{} of {count}", expected.len());
    let again = with(&WORDS)?;
    again.expect(
        0,
        &[&format!("keep   {count:>4}"), "slipway 0.2.0 is applied"],
    );
    ensure!(
        !again.out.contains("created") && !again.out.contains("changed "),
        "{}",
        again.out
    );

    let server = ApiServer::start("install", "interrupted").await?;
    let mut runs = 0;
    // Each run goes on where the last one was killed.
    let file = path(&manifests);
    let words: Vec<_> = WORDS
        .iter()
        .copied()
        .chain(["--manifests", &file])
        .collect();
    let kubeconfig = server.control_plane.admin_kubeconfig();
    while interrupted(&kubeconfig, &words, STRIDE)? {
        runs += 1;
        ensure!(runs <= count, "the installation never ends");
    }
    ensure!(runs >= count / STRIDE, "it was killed {runs} times only");
    let found = stored(&server, &manifests)?;
    for (name, object) in &expected {
        ensure!(found.get(name) == Some(object), "{name} differs");
    }
    ensure!(found.len() == expected.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn a_newer_version_changes_what_differs_and_removes_what_it_has_not() -> Result<()> {
    let server = ApiServer::start("install", "newer").await?;
    let images = no_images()?;
    let old = write(&server.dir, &of(VERSION, &images)?)?;
    let run = |manifests: &Path, more: &[&str]| {
        let file = path(manifests);
        let words = WORDS.iter().chain(more).copied();
        let words: Vec<_> = words.chain(["--manifests", &file]).collect();
        server.slipway(&words)
    };
    run(&old, &[])?.expect(0, &["slipway 0.2.0 is applied"]);

    // A network policy that our own admission policies guard, a program, and a service that goes.
    let mut newer = of("0.3.0", &images)?;
    let policy = object(&mut newer, "NetworkPolicy", "default-deny")?;
    policy["metadata"]["labels"] = json!({ "a": "b" });
    let namespace = policy["metadata"]["namespace"]
        .as_str()
        .context("namespace")?
        .to_owned();
    let daemon = object(&mut newer, "DaemonSet", "machine-config-daemon")?;
    daemon["spec"]["template"]["metadata"]["labels"]["c"] = json!("d");
    remove(&mut newer, "Service", "machine-config-operator")?;
    let newer = write(&server.dir, &newer)?;
    run(&newer, &["--check"])?.expect(
        0,
        &[
            "slipway 0.3.0, from 0.2.0",
            "change    2",
            "remove    1  1 Service",
        ],
    );
    run(&newer, &[])?.expect(
        0,
        &[
            "changed NetworkPolicy.networking.k8s.io openshift-machine-config-operator/default-deny",
            "changed DaemonSet.apps openshift-machine-config-operator/machine-config-daemon",
            "removed Service openshift-machine-config-operator/machine-config-operator",
            "slipway 0.3.0 is applied",
        ],
    );
    let kubectl = |words: &[&str]| server.control_plane.kubectl(words);
    let label = kubectl(&[
        "get",
        "networkpolicy",
        "default-deny",
        "--namespace",
        &namespace,
        "--output=jsonpath={.metadata.labels.a}",
    ])?;
    ensure!(label == "b", "{label:?}");
    // The guards are bound again.
    let guards = kubectl(&["get", "validatingadmissionpolicybindings", "--output=name"])?;
    ensure!(guards.contains("networkpolicy-prevent-update"), "{guards}");
    run(&newer, &["--check"])?.expect(0, &["keep"]);
    ensure!(!run(&newer, &["--check"])?.out.contains("change "));

    // A field that another manager took over is named, and taken on demand.
    kubectl(&[
        "patch",
        "deployment",
        "machine-config-controller",
        "--namespace",
        "openshift-machine-config-operator",
        "--patch={\"spec\":{\"replicas\":5}}",
        "--field-manager=a-person",
    ])?;
    run(&newer, &[])?.expect(
        1,
        &[
            ".spec.replicas is owned by \"a-person\"",
            "--force-conflicts",
            "nothing was applied",
        ],
    );
    run(&newer, &["--force-conflicts"])?.expect(
        0,
        &["changed Deployment.apps openshift-machine-config-operator/machine-config-controller"],
    );
    Ok(())
}

/// Definitions outlive a removal, with the objects of people, until they are purged; those that
/// others have written stay.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn definitions_that_a_removal_kept_are_purged() -> Result<()> {
    const PURGED: &str =
        "CustomResourceDefinition.apiextensions.k8s.io machineconfigpools.machineconfiguration";
    const CHANGED: &str = "machineconfigs.machineconfiguration.openshift.io";
    let server = ApiServer::start("install", "purged").await?;
    let all = of(VERSION, &no_images()?)?;
    let manifests = path(&write(&server.dir, &all)?);
    // What nothing would end here: there is no controller of namespaces.
    let namespaces: BTreeSet<String> = namespaces(&all);
    let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    server.make_namespaces(&namespaces)?;
    let install = [&WORDS[..], &["--manifests", &manifests]].concat();
    server.slipway(&install)?.expect(0, &["is applied"]);
    let annotate = [
        "annotate",
        "customresourcedefinition",
        CHANGED,
        "example.com/of=others",
    ];
    server.control_plane.kubectl(&annotate)?;

    server
        .slipway(&["uninstall"])?
        .expect(0, &["slipway 0.2.0 is removed"]);
    let nothing = "has installed nothing on this cluster";
    server.slipway(&["uninstall"])?.expect(1, &[nothing]);
    let definitions = ["get", "customresourcedefinitions", "--output=name"];
    let kept = server.control_plane.kubectl(&definitions)?;
    let check = server.slipway(&["uninstall", "--purge", "--check"])?;
    check.expect(0, &[&format!("remove {PURGED}")]);
    let still = server.control_plane.kubectl(&definitions)?;
    ensure!(still == kept, "it was no check: {still}");
    let purged = server.slipway(&["uninstall", "--purge"])?;
    purged.expect(0, &[&format!("removed {PURGED}")]);
    ensure!(!purged.out.contains(CHANGED), "{}", purged.out);
    let left = server.control_plane.kubectl(&definitions)?;
    ensure!(
        left.trim().ends_with(CHANGED) && left.lines().count() == 1,
        "{left}"
    );
    server
        .slipway(&["uninstall", "--purge"])?
        .expect(1, &[nothing]);
    Ok(())
}

/// Those that objects of the manifests are in.
fn namespaces(of: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut left = vec![of];
    while let Some(value) = left.pop() {
        let name = value.pointer("/metadata/namespace").and_then(Value::as_str);
        names.extend(name.map(str::to_owned));
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(fields) => left.extend(fields.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    // The API server has made those.
    names.retain(|name| !name.starts_with("kube-") && name != "default");
    names
}
