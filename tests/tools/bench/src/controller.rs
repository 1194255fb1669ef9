//! The controller with 2,000 nodes: its memory, and whether it lists them again after its
//! connections were cut.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lab::audit::{self, Event, Verb};
use lab::control_plane::Process;
use lab::manifest;
use serde_json::{Value, json};
use testbed::{ApiServer, Programs};
use tokio::time::Instant;

use crate::api_server;
use crate::figure::{Figure, Unit};
use crate::idle::{count, float};
use crate::memory;

const NODES: u32 = 2_000;

/// Images that a Node's status lists, as the kubelet has it by default.
const IMAGES: u32 = 50;

/// Between two reports of one kubelet.
const HEARTBEAT: Duration = Duration::from_mins(5);

/// Heartbeats of which the processor time is taken, and the time between two of them.
const HEARTBEATS: usize = 10_000;
const BEAT: Duration = Duration::from_millis(1);

/// Before the connections are cut, and after that, until the memory is read.
const HALF: Duration = Duration::from_secs(30);

/// Memory of the controller after a minute with 2,000 nodes and their heartbeats, and the lists
/// that it made after its first watch. Its connections are cut half-way.
///
/// Errors: the controller ends, or does not watch the nodes.
pub(crate) async fn measure(programs: &Programs, out: &Path) -> Result<Vec<Figure>> {
    let server = api_server::start(out, "controller").await?;
    let pool = manifest::parse(include_str!("objects/pool.yaml"))?;
    manifest::apply(server.objects.client(), &pool).await?;
    let nodes = server.all::<Node>();
    let made = stream::iter(0..NODES).map(async |number| {
        let node = serde_json::from_value(node(number)?)?;
        anyhow::Ok(
            nodes
                .create(&PostParams::default(), &node)
                .await
                .map(drop)?,
        )
    });
    made.buffer_unordered(16).try_collect::<Vec<_>>().await?;

    let mut controller = api_server::controller(&server, programs, Duration::ZERO).await?;
    let quiet = async {
        tokio::time::sleep(HALF).await;
        controller.relay.cut();
        tokio::time::sleep(HALF).await;
    };
    tokio::select! {
        () = quiet => {}
        error = report(&nodes) => return Err(error),
    }
    controller.process.check()?;
    let memory = memory::of(controller.process.id())?;
    let node_requests = node_requests(&server.control_plane.audit_log())?;
    let mut after = node_requests
        .iter()
        .skip_while(|event| event.verb != Verb::Watch);
    ensure!(after.next().is_some(), "the controller watches no nodes");
    let lists = after.filter(|event| event.verb == Verb::List).count();
    let peer = reader(&server, controller.relay.address())?;
    // Its first events are the nodes that are there.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let ids = [controller.process.id(), peer.id()];
    let ([share, of_peer], rate) = heartbeats(&nodes, ids).await?;
    controller.process.check()?;
    Ok(vec![
        Figure::new("mcc_heartbeats_core_ratio", share)?
            .beside("heartbeats a second", rate, Unit::Count)
            .beside("curl, which discards them", of_peer, Unit::Ratio),
        Figure::new("mcc_heartbeats_ratio", share / of_peer)?,
        Figure::new("mcc_2000_nodes_anon_bytes", float(memory.anonymous))?.beside(
            "resident",
            float(memory.resident),
            Unit::Bytes,
        ),
        Figure::new("mcc_lists_after_first", float(lists as u64))?,
    ])
}

/// Starts a client that watches the nodes in the same form and by the same way as the controller,
/// and discards what it receives: what the events cost before anything is read of them.
///
/// Errors: curl cannot be started.
#[expect(
    clippy::disallowed_methods,
    reason = "a file that lasts as long as the run"
)]
fn reader(server: &ApiServer, relay: SocketAddr) -> Result<Process> {
    let admin = fs::read_to_string(server.control_plane.admin_kubeconfig())?;
    let token = admin
        .lines()
        .find_map(|line| line.trim().strip_prefix("token: "));
    let token = token.context("the kubeconfig has no token")?;
    let authority = server.dir.join("curl.ca");
    fs::write(&authority, server.control_plane.ca_pem())?;
    let path = "api/v1/nodes?watch=true&timeoutSeconds=1800";
    let accept = "Accept: application/vnd.kubernetes.protobuf;stream=watch";
    let arguments = [
        "--silent",
        "--show-error",
        "--output",
        "/dev/null",
        "--cacert",
        &authority.display().to_string(),
        "--header",
        &format!("Authorization: Bearer {token}"),
        "--header",
        accept,
        &format!("https://{relay}/{path}"),
    ];
    let arguments = arguments.map(str::to_owned);
    Process::start("curl", Path::new("/usr/bin/curl"), &arguments, &server.dir)
}

/// Share of a core that each process takes for a thousand heartbeats a second, and how many a
/// second there were: as many as the API server takes, up to a thousand.
async fn heartbeats(nodes: &Api<Node>, processes: [u32; 2]) -> Result<([f64; 2], f64)> {
    let began = Instant::now();
    let times = || -> Result<[Duration; 2]> {
        let [one, other] = processes;
        Ok([memory::processor_time(one)?, memory::processor_time(other)?])
    };
    let before = times()?;
    let beats = stream::iter((0..NODES).cycle().take(HEARTBEATS)).enumerate();
    let beats = beats.map(async |(place, number)| {
        tokio::time::sleep_until(began + BEAT * u32::try_from(place)?).await;
        heartbeat(nodes, number).await
    });
    beats.buffered(64).try_collect::<Vec<()>>().await?;
    let took = began.elapsed();
    // The last ones are on their way.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let beats = count(HEARTBEATS);
    let rate = beats / took.as_secs_f64();
    let share = |(after, before): (Duration, Duration)| {
        after.saturating_sub(before).as_secs_f64() * 1e3 / beats
    };
    let ([first, second], [before, before_second]) = (times()?, before);
    Ok((
        [share((first, before)), share((second, before_second))],
        rate,
    ))
}

async fn heartbeat(nodes: &Api<Node>, number: u32) -> Result<()> {
    let time = Timestamp::now();
    let ready = json!({ "type": "Ready", "status": "True", "lastHeartbeatTime": time });
    let patch = Patch::Strategic(json!({ "status": { "conditions": [ready] } }));
    let (name, params) = (name(number), PatchParams::default());
    nodes.patch_status(&name, &params, &patch).await?;
    Ok(())
}

/// Reports the nodes as their kubelets do, one after another, until that fails.
async fn report(nodes: &Api<Node>) -> anyhow::Error {
    for number in (0..NODES).cycle() {
        tokio::time::sleep(HEARTBEAT / NODES).await;
        if let Err(error) = heartbeat(nodes, number).await {
            return error;
        }
    }
    anyhow::Error::msg("there are no nodes")
}

fn name(number: u32) -> String {
    format!("worker-{number:04}.cluster.example.com")
}

/// A Node with all that a real one has.
fn node(number: u32) -> Result<Value> {
    let mut node: Value = serde_json::from_str(include_str!("objects/node.json"))?;
    let image = |image: u32| {
        let names = [
            format!("quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:{image:064x}"),
            format!("registry.example.com/mirror/image-{image}:v4.{number}"),
        ];
        json!({ "names": names, "sizeBytes": 400_000_000 + image })
    };
    let images: Vec<Value> = (0..IMAGES).map(image).collect();
    for (path, value) in [
        ("/metadata/name", json!(name(number))),
        ("/status/images", json!(images)),
    ] {
        *node.pointer_mut(path).context("the Node lacks a field")? = value;
    }
    Ok(node)
}

/// What the controller asked of the nodes.
pub(crate) fn node_requests(log: &Path) -> Result<Vec<Event>> {
    let mut events = requests(log)?;
    events.retain(|event| event.concerns("", "nodes"));
    Ok(events)
}

/// All requests of the controller. Of the log's lines only these are parsed: the others hold each
/// Node twice.
pub(crate) fn requests(log: &Path) -> Result<Vec<Event>> {
    let mut lines = String::new();
    for line in BufReader::new(File::open(log)?).lines() {
        let line = line?;
        if line.contains("\"userAgent\":\"mcc/") {
            lines.push_str(&line);
            lines.push('\n');
        }
    }
    audit::parse(&lines)
}
