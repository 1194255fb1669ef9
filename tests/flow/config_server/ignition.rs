//! Ignition itself asks, and writes a new machine.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::Authority;

use crate::env::{AUDIENCE, Machine};
use crate::{served, site};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, ignition, curl and the control-plane binary"]
async fn ignition_fetches_over_tls_and_writes_a_new_machine() -> Result<()> {
    let site = site("ignition").await?;
    let server = site.serve("mcs", &[]).await?;
    let token = site.token("machine-worker", Some(AUDIENCE))?;
    served(&server, &token).await?;
    let machine = Machine::provision(&site, "machine", &server, &site.authority.pem, &token);
    machine.boot()?;
    let which = ("rendered-worker-old".to_owned(), 0o640);
    assert_eq!(machine.file("/etc/which"), which);
    let authority = machine.file("/etc/kubernetes/kubelet-ca.crt");
    assert_eq!(authority, ("authority of kubelets".to_owned(), 0o644));
    let (unit, _) = machine.file("/etc/systemd/system/site.service");
    ensure!(unit.contains("ExecStart=/bin/true"), "{unit}");
    let (annotations, mode) = machine.file("/etc/machine-config-daemon/node-annotations.json");
    let annotations: Value = serde_json::from_str(&annotations)?;
    let prefix = "machineconfiguration.openshift.io";
    for key in ["currentConfig", "desiredConfig", "firstPivotConfig"] {
        assert_eq!(
            annotations[format!("{prefix}/{key}")],
            "rendered-worker-old"
        );
    }
    assert_eq!(annotations[format!("{prefix}/state")], "Done");
    assert_eq!(mode, 0o644);
    // What the first boot still has to do: Ignition 2.14 asks for 3.3, so it did the arguments.
    let (encapsulated, mode) = machine.file("/etc/ignition-machine-config-encapsulated.json");
    let encapsulated: Value = serde_json::from_str(&encapsulated)?;
    assert_eq!(mode, 0o600);
    assert_eq!(encapsulated["metadata"]["name"], "rendered-worker-old");
    assert_eq!(
        encapsulated["spec"]["osImageURL"],
        "registry.example/os@sha256:0"
    );
    assert_eq!(encapsulated["spec"]["kernelArguments"], json!(["a=1"]));
    let empty = json!({ "ignition": { "version": "3.3.0" } });
    assert_eq!(encapsulated["spec"]["config"], empty);
    let (content, mode) = machine.file("/etc/mcs-machine-config-content.json");
    let content: Value = serde_json::from_str(&content)?;
    assert_eq!(mode, 0o600);
    assert_eq!(
        content["spec"]["config"]["storage"]["files"][0]["path"],
        "/etc/which"
    );

    // The machine's token asks for a kubelet's certificate and does nothing else.
    let (kubeconfig, mode) = machine.file("/etc/kubernetes/kubeconfig");
    assert_eq!(mode, 0o600);
    let kubeconfig: Value = serde_json::from_str(&kubeconfig)?;
    let server = &kubeconfig["clusters"][0]["cluster"]["server"];
    assert_eq!(server, &site.control_plane.server_url());
    let path = machine.root.join("etc/kubernetes/kubeconfig");
    let path = format!("--kubeconfig={}", path.display());
    let may = |verb: &str, what: &str| {
        let arguments = ["auth", "can-i", verb, what, &path];
        site.control_plane.kubectl(&arguments).is_ok()
    };
    ensure!(may("create", "certificatesigningrequests"));
    for (verb, what) in [
        ("get", "secrets"),
        ("list", "nodes"),
        ("get", "machineconfigs"),
    ] {
        ensure!(!may(verb, what), "the bootstrap token may {verb} {what}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, ignition, curl and the control-plane binary"]
async fn ignition_writes_nothing_when_it_is_refused_or_meets_another_server() -> Result<()> {
    let site = site("refused").await?;
    let server = site.serve("mcs", &[]).await?;
    let token = site.token("machine-worker", Some(AUDIENCE))?;
    served(&server, &token).await?;
    let other = Authority::make("another authority")?.pem;
    let own = &site.authority.pem;
    let foreign = site.token("machine-worker", None)?;
    for (name, trusted, token, expected) in [
        (
            "stranger",
            &other,
            &token,
            "certificate signed by unknown authority",
        ),
        ("no-token", own, &foreign, "GET result: Unauthorized"),
    ] {
        let machine = Machine::provision(&site, name, &server, trusted, token);
        let error = machine.boot().unwrap_err().to_string();
        ensure!(error.contains(expected), "{name}: {error}");
        ensure!(!machine.root.join("etc/which").exists(), "{name}");
    }
    Ok(())
}
