//! Certificates that the cluster rotates reach a host without a reboot, as soon as they are
//! announced, and its Node says which.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::annotation;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use lab::audit::{Stage, Verb};
use lab::host::Host;
use nix::sys::signal::Signal;
use testbed::logs;
use testbed::objects::annotation as value;
use testbed::{Cluster, DONE_WITHIN, NodeSpec, RotatedVersions, SOON, Testbed, until, until_so};

const NODE: &str = "worker-0";
const CONFIG: &str = api::machineconfiguration::controller_config::NAME;

/// Where a host has them, below `/etc`.
const KUBELET_CA: &str = "kubernetes/kubelet-ca.crt";
const CLOUD_CA: &str = "kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem";
const REGISTRIES: &str = "docker/certs.d";

/// How long a pod may take to be started again after its end: a kubelet waits longer each time.
const AGAIN_WITHIN: Duration = DONE_WITHIN;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
#[expect(clippy::disallowed_methods, reason = "a lab's own files")]
async fn rotated_certificates_reach_a_host_in_a_paused_pool() -> Result<()> {
    let logs = logs::folder("certificates", "paused-pool");
    let cluster = Testbed::new(logs).node(NodeSpec::new(NODE)).start().await?;
    let (own, other) = authorities(&cluster)?;
    cluster.objects().pause("worker", true).await?;
    let host = cluster.host(NODE)?;
    let etc = host.etc_of_booted()?;
    fs::create_dir_all(etc.join(REGISTRIES).join("by.hand"))?;
    fs::write(etc.join(REGISTRIES).join("by.hand/ca.crt"), &other)?;

    // What each says is written, and no other request is sent.
    let since = Timestamp::now();
    let version = cluster
        .rotate_certificates([&own, &own], &[("registry.test..5000", &other)], false)
        .await?;
    is_followed(&cluster, &version, "false").await?;
    ensure!(read(&etc, KUBELET_CA)? == own && read(&etc, CLOUD_CA)? == own);
    let registry = format!("{REGISTRIES}/registry.test:5000/ca.crt");
    ensure!(read(&etc, &registry)?.ends_with(&other));
    let sent = requests_since(&cluster, since)?;
    let namespace = format!(
        "/api/v1/namespaces/{}",
        api::machineconfiguration::NAMESPACE
    );
    let config = format!("/apis/machineconfiguration.openshift.io/v1/controllerconfigs/{CONFIG}");
    ensure!(
        sent == [
            format!("get {namespace}/configmaps/kubeconfig-data"),
            format!("get {config}"),
            format!("patch /api/v1/nodes/{NODE}")
        ],
        "it sent {sent:#?}"
    );

    // Another CA, and a registry that is not named any more: the first is written, the second's is
    // removed, others' stay.
    let version = cluster
        .rotate_certificates([&other, &own], &[], false)
        .await?;
    is_followed(&cluster, &version, "false").await?;
    ensure!(read(&etc, KUBELET_CA)? == other);
    ensure!(names(&etc.join(REGISTRIES))? == ["by.hand"]);

    // One that cannot be used is refused by name, and what is on the host stays.
    let refused = cluster
        .rotate_certificates(["no certificate", &own], &[], false)
        .await?;
    let why = format!(
        "ControllerConfig {CONFIG}: spec.kubeAPIServerServingCAData holds no certificate in PEM"
    );
    is_refused(&cluster, &why).await?;
    let node = cluster.objects().node(NODE).await?;
    ensure!(version.has(value(&node, annotation::LAST_SYNCED_CONTROLLER_CONFIG)));
    ensure!(!version.has(&refused.published) && read(&etc, KUBELET_CA)? == other);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
#[expect(clippy::disallowed_methods, reason = "a lab's own files")]
async fn a_rotated_ca_of_the_api_server_is_tried_before_it_is_trusted() -> Result<()> {
    let logs = logs::folder("certificates", "api-server");
    let cluster = Testbed::new(logs).node(NodeSpec::new(NODE)).start().await?;
    let (own, other) = authorities(&cluster)?;
    let host = cluster.host(NODE)?;
    let kubeconfig = host.var().join("lib/kubelet/kubeconfig");
    let before = fs::read_to_string(&kubeconfig)?;
    let kubelet = kubelet_since(host)?;

    // A CA that is not the API server's would cut the node off.
    cluster.publish_authority(&other).await?;
    cluster.rotate_certificates([&own, &own], &[], true).await?;
    let why = "ConfigMap openshift-machine-config-operator/kubeconfig-data binaryData[ca-bundle.crt] cannot be used, /var/lib/kubelet/kubeconfig does not reach its server with it: ";
    is_refused(&cluster, why).await?;
    ensure!(fs::read_to_string(&kubeconfig)? == before && kubelet_since(host)? == kubelet);

    // Both are trusted while one takes the other's place. The ControllerConfig is the same: a
    // daemon that starts sees it. A kubeconfig that cannot be read does not keep the kubelet's own
    // from being written.
    let bootstrap = host.etc_of_booted()?.join("kubernetes/kubeconfig");
    fs::create_dir_all(bootstrap.parent().context("a directory")?)?;
    fs::write(&bootstrap, "no kubeconfig")?;
    let both = format!("{other}{own}");
    cluster.publish_authority(&both).await?;
    let version = cluster.rotate_certificates([&own, &own], &[], true).await?;
    start_again(&cluster).await?;
    let why = "cannot use kubeconfig /etc/kubernetes/kubeconfig: it is not a kubeconfig in YAML";
    is_refused(&cluster, why).await?;
    has_authority(&kubeconfig, &both)?;
    let restarted = kubelet_since(host)?;
    ensure!(restarted != kubelet, "the kubelet was not restarted");
    ensure!(host.boots().len() == 1, "it was rebooted");

    // What is done is not done again.
    fs::write(&bootstrap, &before)?;
    start_again(&cluster).await?;
    is_followed(&cluster, &version, "true").await?;
    has_authority(&bootstrap, &both)?;
    ensure!(
        kubelet_since(host)? == restarted,
        "the kubelet was restarted again"
    );

    // A rotation whose time was over before the node looked.
    let next = format!("{}{own}", authorities(&cluster)?.1);
    cluster.publish_authority(&next).await?;
    let version = cluster
        .rotate_certificates([&own, &own], &[], false)
        .await?;
    is_followed(&cluster, &version, "false").await?;
    has_authority(&kubeconfig, &next)?;
    has_authority(&bootstrap, &next)?;
    ensure!(
        kubelet_since(host)? != restarted,
        "the kubelet was not restarted"
    );
    Ok(())
}

fn has_authority(kubeconfig: &Path, pem: &str) -> Result<()> {
    let text = fs::read_to_string(kubeconfig)?;
    let has = text.contains(&STANDARD.encode(pem));
    ensure!(has, "{} has another CA", kubeconfig.display());
    Ok(())
}

/// The CA of the API server, and one that is not.
fn authorities(cluster: &Cluster) -> Result<(String, String)> {
    let control_plane = cluster.control_plane();
    let own = String::from_utf8(control_plane.ca_pem().to_vec())?;
    let other = String::from_utf8(control_plane.another_authority()?)?;
    Ok((own, other))
}

/// Has the daemon end; its kubelet starts it again.
async fn start_again(cluster: &Cluster) -> Result<()> {
    let daemon = cluster.daemon(NODE)?;
    let starts = daemon.starts();
    daemon.signal(Signal::SIGKILL)?;
    until("the daemon to be started again", AGAIN_WITHIN, async || {
        Ok(if daemon.starts() > starts {
            Ok(())
        } else {
            Err("it is not".to_owned())
        })
    })
    .await
}

async fn is_followed(cluster: &Cluster, versions: &RotatedVersions, observed: &str) -> Result<()> {
    let follows = |node: &Node| {
        versions.has(value(node, annotation::LAST_SYNCED_CONTROLLER_CONFIG))
            && value(node, annotation::LAST_OBSERVED_SERVER_CA) == observed
    };
    let what = format!("synced with {versions:?}, CA observed {observed}");
    let objects = cluster.objects();
    objects.node_is(NODE, &what, SOON, follows).await.map(drop)
}

/// Waits for the event that certificates are refused.
async fn is_refused(cluster: &Cluster, why: &str) -> Result<()> {
    let read = async || {
        let events = cluster.objects().events().await?.into_iter();
        let refused = events.filter(|event| event.reason.as_deref() == Some("CertificatesRefused"));
        Ok(refused
            .filter_map(|event| event.message)
            .collect::<Vec<_>>())
    };
    until_so("an event", read, |messages| {
        messages.iter().any(|message| message.starts_with(why))
    })
    .await?;
    Ok(())
}

/// The daemon's requests, but for its watch, its events and its node's MachineConfigNode: each
/// once, sorted. The event of the drift monitor's start, and the MachineConfigNode, may come before
/// or after the certificates.
fn requests_since(cluster: &Cluster, since: Timestamp) -> Result<Vec<String>> {
    let events = cluster.events()?;
    let mut sent: Vec<String> = events
        .iter()
        .filter(|event| event.user_agent.starts_with("mcd/") && event.received > since)
        .filter(|event| event.verb != Verb::Watch && event.stage == Stage::ResponseComplete)
        .filter(|event| !event.uri.contains("/events"))
        .filter(|event| !event.uri.contains("/machineconfignodes/"))
        .map(|event| format!("{:?} {}", event.verb, event.uri).to_lowercase())
        .collect();
    sent.sort_unstable();
    sent.dedup();
    Ok(sent)
}

fn read(etc: &Path, path: &str) -> Result<String> {
    fs::read_to_string(etc.join(path)).with_context(|| format!("/etc/{path}"))
}

fn names(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// When the kubelet was started last.
fn kubelet_since(host: &Host) -> Result<String> {
    let property = "--property=ExecMainStartTimestampMonotonic";
    host.run(["systemctl", "show", property, "kubelet.service"])
}
