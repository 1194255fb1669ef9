//! What speaks against an installation: nothing is applied then.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use testbed::{ApiServer, Printed};

use crate::manifests::{VERSION, no_images, of, write};

/// Names of all objects that an installation could have made.
fn made(server: &ApiServer) -> Result<String> {
    let kinds = "namespaces,customresourcedefinitions,clusterroles";
    server
        .control_plane
        .kubectl(&["get", kinds, "--output=name"])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn what_speaks_against_an_installation_is_named_and_nothing_is_applied() -> Result<()> {
    let server = ApiServer::start("install", "refused").await?;
    let manifests = write(&server.dir, &of(VERSION, &no_images()?)?)?;
    let manifests = manifests.display().to_string();
    let install = |words: &[&str]| -> Result<Printed> {
        let words = ["install", "--timeout=0", "--manifests", &manifests]
            .into_iter()
            .chain(words.iter().copied());
        server.slipway(&words.collect::<Vec<_>>())
    };
    let before = made(&server)?;

    // What an administrator makes before, and what others bring.
    install(&["--component=machine-config,config-server,managed-upgrade,monitoring"])?.expect(
        1,
        &[
            "ConfigMap openshift-machine-config-operator/machine-config-server: it is not there",
            "Secret openshift-machine-config-operator/machine-config-server-tls: it is not there",
            "managed-upgrade: the API server serves no kind of machine.openshift.io",
            "monitoring: the API server serves no kind of monitoring.coreos.com",
            "nothing was applied",
        ],
    );
    install(&["--component=config-server"])?.expect(
        2,
        &["component config-server needs component machine-config"],
    );
    install(&["--component=mcd"])?.expect(2, &["there is no component \"mcd\": machine-config"]);
    install(&["--component=version-operator"])?
        .expect(2, &["component version-operator needs --release"]);
    let digest = format!("registry.example/release@sha256:{}", "0".repeat(64));
    install(&["--release", &digest, "--component=machine-config"])?.expect(
        2,
        &["--release cannot be used with component machine-config"],
    );
    install(&["--release", &digest])?.expect(1, &["registry.example/release"]);
    ensure!(made(&server)? == before);

    // A user without rights.
    server
        .control_plane
        .kubectl(&["create", "serviceaccount", "guest", "--namespace=default"])?;
    let token =
        server
            .control_plane
            .kubectl(&["create", "token", "guest", "--namespace=default"])?;
    let guest = server.kubeconfig("guest", &json!({ "token": token.trim() }))?;
    let words = ["install", "--manifests", &manifests];
    let denied = testbed::slipway(&guest, &words)?;
    denied.expect(1, &["error: "]);
    server.control_plane.kubectl(&[
        "create",
        "clusterrole",
        "reader",
        "--verb=get,list",
        "--resource=*.*",
    ])?;
    server.control_plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "reader",
        "--clusterrole=reader",
        "--serviceaccount=default:guest",
    ])?;
    testbed::slipway(&guest, &words)?.expect(
        1,
        &[
            "rights: you may not create namespaces",
            "rights: you may not patch daemonsets.apps in openshift-machine-config-operator",
            "nothing was applied",
        ],
    );

    // OpenShift's operator of the same name.
    server
        .control_plane
        .kubectl(&["create", "namespace", "openshift-cluster-version"])?;
    let before = made(&server)?;
    let labels = json!({ "a": "b" });
    let container = json!({ "name": "c", "image": "quay.io/other@sha256:1", "args": ["start"] });
    let rival = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "cluster-version-operator", "namespace": "openshift-cluster-version" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    });
    server.apply(&rival.to_string()).await?;
    install(&[])?.expect(
        1,
        &[
            "Deployment.apps openshift-cluster-version/cluster-version-operator: it runs \
             quay.io/other@sha256:1, an operator of OpenShift",
            "nothing was applied: 1 requirement is missing",
        ],
    );
    ensure!(made(&server)? == before);

    // A record that cannot be read is not overwritten.
    let deleted = [
        "delete",
        "deployment",
        "cluster-version-operator",
        "--namespace=openshift-cluster-version",
    ];
    server.control_plane.kubectl(&deleted)?;
    let record = [
        "create",
        "configmap",
        "slipway-install",
        "--namespace=kube-system",
    ];
    server.control_plane.kubectl(
        &[
            &record[..],
            &["--from-literal=record.json={\"schema\":7,\"version\":\"9.0.0\"}"],
        ]
        .concat(),
    )?;
    for words in [&["install", "--manifests", &manifests][..], &["uninstall"]] {
        let printed = server.slipway(words)?;
        printed.expect(1, &["schema 7", "take the slipway of version 9.0.0"]);
    }
    ensure!(made(&server)? == before);
    let record = server.control_plane.kubectl(&[
        "get",
        "configmap",
        "slipway-install",
        "--namespace=kube-system",
        "--output=json",
    ])?;
    let record: serde_json::Value = serde_json::from_str(&record).context("the record")?;
    ensure!(record["data"]["record.json"] == "{\"schema\":7,\"version\":\"9.0.0\"}");
    Ok(())
}
