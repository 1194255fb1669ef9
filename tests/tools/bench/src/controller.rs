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

use crate::api_server::ApiServer;
use crate::figure::{Figure, Unit};
use crate::idle::float;
use crate::memory;

const NODES: u32 = 2_000;

/// Images that a Node's status lists, as the kubelet has it by default.
const IMAGES: u32 = 50;

/// Between two reports of one kubelet.
const HEARTBEAT: Duration = Duration::from_mins(5);

/// Before the connections are cut, and after that, until the memory is read.
const HALF: Duration = Duration::from_secs(30);

/// Memory of the controller after a minute with 2,000 nodes and their heartbeats, and the lists
/// that it made after its first watch. Its connections are cut half-way.
///
/// Errors: the controller ends, or does not watch the nodes.
pub(crate) async fn measure(programs: &Programs, out: &Path) -> Result<Vec<Figure>> {
    let server = ApiServer::start(out, "controller").await?;
    let pool = manifest::parse(include_str!("objects/pool.yaml"))?;
    manifest::apply(&server.client, &pool).await?;
    let nodes = Api::<Node>::all(server.client.clone());
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

    let mut controller = server.controller(programs, Duration::ZERO).await?;
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
    let asked = asked(&server.control_plane.audit_log())?;
    let mut after = asked.iter().skip_while(|event| event.verb != Verb::Watch);
    ensure!(after.next().is_some(), "the controller watches no nodes");
    let lists = after.filter(|event| event.verb == Verb::List).count();
    Ok(vec![
        Figure::new("mcc_2000_nodes_anon_bytes", float(memory.anonymous))?.beside(
            "resident",
            float(memory.resident),
            Unit::Bytes,
        ),
        Figure::new("mcc_lists_after_first", float(lists as u64))?,
    ])
}

/// Reports the nodes as their kubelets do, one after another, until that fails.
async fn report(nodes: &Api<Node>) -> anyhow::Error {
    for number in (0..NODES).cycle() {
        tokio::time::sleep(HEARTBEAT / NODES).await;
        let time = Timestamp::now();
        let ready = json!({ "type": "Ready", "status": "True", "lastHeartbeatTime": time });
        let patch = Patch::Strategic(json!({ "status": { "conditions": [ready] } }));
        let (name, params) = (name(number), PatchParams::default());
        if let Err(error) = nodes.patch_status(&name, &params, &patch).await {
            return error.into();
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

/// What the controller asked of the nodes. Of the log's lines only these are parsed: the others
/// hold each Node twice.
pub(crate) fn asked(log: &Path) -> Result<Vec<Event>> {
    let mut lines = String::new();
    for line in BufReader::new(File::open(log)?).lines() {
        let line = line?;
        if line.contains("\"userAgent\":\"mcc/") {
            lines.push_str(&line);
            lines.push('\n');
        }
    }
    let mut events = audit::parse(&lines)?;
    events.retain(|event| event.concerns("", "nodes"));
    Ok(events)
}
