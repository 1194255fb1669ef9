//! The controller with 2,000 nodes: its memory, and whether it lists them again after its
//! connections were cut.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lab::audit::{self, Event, Verb};
use lab::manifest;
use serde_json::{Value, json};
use testbed::Programs;
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
    let (share, rate) = heartbeats(&nodes, controller.process.id()).await?;
    controller.process.check()?;
    Ok(vec![
        Figure::new("mcc_heartbeats_core_ratio", share)?.beside(
            "heartbeats a second",
            rate,
            Unit::Count,
        ),
        Figure::new("mcc_2000_nodes_anon_bytes", float(memory.anonymous))?.beside(
            "resident",
            float(memory.resident),
            Unit::Bytes,
        ),
        Figure::new("mcc_lists_after_first", float(lists as u64))?,
    ])
}

/// Share of a core that the controller takes for a thousand heartbeats a second, and how many a
/// second there were: as many as the API server takes, up to a thousand.
async fn heartbeats(nodes: &Api<Node>, process: u32) -> Result<(f64, f64)> {
    let began = Instant::now();
    let before = memory::processor_time(process)?;
    let beats = stream::iter((0..NODES).cycle().take(HEARTBEATS)).enumerate();
    let beats = beats.map(async |(place, number)| {
        tokio::time::sleep_until(began + BEAT * u32::try_from(place)?).await;
        heartbeat(nodes, number).await
    });
    beats.buffered(64).try_collect::<Vec<()>>().await?;
    let took = began.elapsed();
    // The last ones are on their way.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let taken = memory::processor_time(process)?.saturating_sub(before);
    let beats = count(HEARTBEATS);
    let rate = beats / took.as_secs_f64();
    Ok((taken.as_secs_f64() * 1e3 / beats, rate))
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
