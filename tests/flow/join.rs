//! A new host joins a cluster: Ignition fetches its configuration from the config server, the first
//! boot gives it the OS and kernel arguments that are left, and its node is Done.
#![expect(clippy::disallowed_methods, reason = "a test's own files")]

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use lab::control_plane::Process;
use lab::host::{BOOTED_WITHIN, Host};
use lab::image::Image;
use lab::tree::Overlay;
use lab::{manifest, wait};
use serde_json::json;
use testbed::config::{Config, File, unit_with_drop_in};
use testbed::{Authority, Cluster, DONE_WITHIN, NodeSpec, Programs, SOON, Testbed, logs};

const NODE: &str = "worker-0";

/// What is left for the first boot.
const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";

const FIRST_BOOT: &str = "machine-config-daemon-firstboot.service";

/// The unit, with the programs where the lab brings them.
fn first_boot() -> serde_json::Value {
    let text = include_str!("../../systemd/machine-config-daemon-firstboot.service");
    let brought =
        "[Service]\nExecStart=\nExecStart=/run/lab/programs/mcd firstboot-complete-machineconfig\n";
    unit_with_drop_in(FIRST_BOOT, text, ("10-lab.conf", brought))
}

/// What the pool asks for, besides its OS.
fn config() -> Config {
    Config::new()
        .files([File::new("/etc/site", "joined\n")])
        .units([first_boot()])
}

/// The config server beside a cluster, and the pointer of its machines.
struct Server {
    _process: Process,
    pointer: PathBuf,
}

/// Starts the server, reached by hosts.
async fn serve(cluster: &Cluster, dir: &Path) -> Result<Server> {
    std::fs::create_dir_all(dir)?;
    let dir = dir.canonicalize()?;
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/config-server");
    let client = cluster.objects().client();
    manifest::apply(client, &manifest::component(&deploy)?).await?;
    let control_plane = cluster.control_plane();
    let authority = String::from_utf8(control_plane.ca_pem().to_vec())?;
    let signers = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
        "data": { "client-ca-file": authority },
    });
    cluster.apply(&signers.to_string()).await?;
    cluster
        .publish_certificates(&[&authority, &authority], &[], false)
        .await?;
    let address = cluster.host_lab()?.lab.address();
    let port = || anyhow::Ok(TcpListener::bind("0.0.0.0:0")?.local_addr()?.port());
    let (secure, status) = (
        SocketAddr::from((address, port()?)),
        SocketAddr::from(([127, 0, 0, 1], port()?)),
    );
    let server = Authority::make("authority of the config server")?;
    server.issue_at(
        &dir.join("tls"),
        address.into(),
        "machine-config-server",
        "test",
    )?;
    let ca = dir.join("api-ca.crt");
    std::fs::write(&ca, &authority)?;
    let arguments = [
        "start".to_owned(),
        format!(
            "--kubeconfig={}",
            control_plane.admin_kubeconfig().display()
        ),
        format!("--apiserver-url={}", control_plane.server_url()),
        format!("--apiserver-ca-file={}", ca.display()),
        format!("--listen={secure}"),
        format!("--metrics-url={status}"),
        format!("--cert={}", dir.join("tls.crt").display()),
        format!("--key={}", dir.join("tls.key").display()),
        "--v=4".to_owned(),
    ];
    let program = Programs::built()?.path("mcs")?;
    let mut process = Process::start("mcs", &program, arguments, &dir)?;
    let url = format!("http://{status}/readyz");
    wait::until("the config server to be ready", SOON, async || {
        process.check()?;
        let curl = ["--silent", "--fail", "--noproxy", "*", url.as_str()];
        let asked = std::process::Command::new("curl").args(curl).output()?;
        Ok(if asked.status.success() {
            Ok(())
        } else {
            Err("it is not ready".to_owned())
        })
    })
    .await?;
    let token = control_plane.kubectl(&[
        "create",
        "token",
        "machine-worker",
        "--namespace=openshift-machine-config-operator",
        "--audience=machine-config-server",
    ])?;
    let pointer = dir.join("pointer.ign");
    let text = json!({ "ignition": {
        "version": "3.3.0",
        "config": { "merge": [{
            "source": format!("https://{secure}/config/worker"),
            "httpHeaders": [{ "name": "Authorization", "value": format!("Bearer {}", token.trim()) }],
        }] },
        "security": { "tls": { "certificateAuthorities": [
            { "source": format!("data:;base64,{}", BASE64.encode(&server.pem)) },
        ] } },
        "timeouts": { "httpTotal": 20 },
    } });
    std::fs::write(&pointer, text.to_string())?;
    Ok(Server {
        _process: process,
        pointer,
    })
}

/// A cluster with a host that nothing configured.
async fn cluster(name: &str) -> Result<(Cluster, NodeSpec, PathBuf)> {
    let logs = logs::folder("join", name);
    let node = NodeSpec::new(NODE).fresh();
    let cluster = Testbed::new(&logs).node(node.clone()).boot().await?;
    Ok((cluster, node, logs))
}

/// A file of the host's booted deployment, if it is there.
fn file(host: &Host, path: &str) -> Result<Option<String>> {
    let output = host.exec(["cat", path])?;
    Ok((output.code == Some(0)).then_some(output.stdout))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab and Ignition"]
async fn new_host_pivots_in_its_first_boot_and_its_node_is_done() -> Result<()> {
    let (mut cluster, node, logs) = cluster("pivot").await?;
    let image = cluster.image(&Overlay::version("join-2"))?;
    let spec = config()
        .os(&image.reference)
        .argument("slipway.test=join")
        .spec();
    let target = cluster.change("50-join", "worker", &spec).await?;
    let server = serve(&cluster, &logs.join("mcs")).await?;

    // A failed Ignition keeps the host out, and writes nothing.
    let broken = server.pointer.with_file_name("broken.ign");
    let text = std::fs::read_to_string(&server.pointer)?;
    std::fs::write(&broken, text.replace("/config/worker", "/config/unknown"))?;
    let error = cluster.host(NODE)?.ignite(&broken);
    ensure!(error.is_err(), "Ignition took an unknown pool");
    ensure!(
        cluster.objects().nodes().await?.is_empty(),
        "a node is there"
    );

    let host = cluster.host_mut(NODE)?;
    host.ignite(&server.pointer)?;
    host.start()?;
    host.wait_booted_after(1, DONE_WITHIN)?;
    cluster.introduce(&node).await?;
    cluster.all_done("worker", &target, DONE_WITHIN).await?;
    let host = cluster.host(NODE)?;
    let boots = host.boots();
    ensure!(boots.len() == 2, "{boots:?}");
    let last = boots.last().context("no boot")?;
    ensure!(last.content.as_ref() == Some(&image.content), "{last:?}");
    ensure!(last.options.contains("slipway.test=join"), "{last:?}");
    ensure!(file(host, "/etc/site")?.as_deref() == Some("joined\n"));
    ensure!(file(host, ENCAPSULATED)?.is_none(), "it was not renamed");
    ensure!(file(host, &format!("{ENCAPSULATED}.bak"))?.is_some());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab and Ignition"]
async fn new_host_that_has_its_os_joins_in_one_boot() -> Result<()> {
    let (mut cluster, node, logs) = cluster("one-boot").await?;
    // An image of the commit that the machine was installed from, as its installer has it.
    let host_lab = cluster.host_lab()?;
    let image = Image::with_repository(host_lab.tree.base())?;
    let image = host_lab.registry.push(&image, "os:installed")?;
    let spec = config().os(&image).spec();
    let target = cluster.change("50-join", "worker", &spec).await?;
    let server = serve(&cluster, &logs.join("mcs")).await?;
    let host = cluster.host_mut(NODE)?;
    host.ignite(&server.pointer)?;
    host.start()?;
    host.wait_booted(BOOTED_WITHIN)?;
    cluster.introduce(&node).await?;
    cluster.all_done("worker", &target, DONE_WITHIN).await?;
    let host = cluster.host(NODE)?;
    ensure!(host.boots().len() == 1, "{:?}", host.boots());
    ensure!(file(host, ENCAPSULATED)?.is_none(), "it was not removed");
    Ok(())
}
