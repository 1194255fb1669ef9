//! How long the node is out of service for an update with a reboot, and what it and a start of the
//! daemon cost the API server.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use lab::audit::nodes::{NodeSnapshot, intervals};
use lab::audit::{Event, nodes};
use serde_json::json;
use testbed::SOON;

use crate::changes::ms;
use crate::figure::{Figure, Unit};
use crate::idle::{DAEMON, count, float};
use crate::session::{Cost, NODE, Session};
use crate::statistics::median;
use crate::traffic;

/// Above the floor that an update may be.
const ABOVE_FLOOR_MS: f64 = 450.0;

/// Requests of an update, besides one for each attempt to evict.
const UPDATE_REQUESTS: f64 = 17.0;

/// Time between two polls at a Node that comes back: short beside what is measured.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// Takes the node out so many times by the daemon, and as many by hand.
///
/// Errors: the node does not come to be Done or Ready, or the log has other times.
pub(crate) async fn measure(session: &mut Session, samples: usize) -> Result<Vec<Figure>> {
    let (mut starts, mut updates) = (Vec::new(), Vec::new());
    session.settle().await?;
    for _ in 0..samples {
        starts.push(session.cost(async |session| by_hand(session).await).await?);
        updates.push(
            session
                .cost(async |session| session.change_os().await)
                .await?,
        );
    }
    let rebootless = session
        .cost(async |session| session.change_files().await)
        .await?;

    let events = session.events()?;
    let history = nodes::histories(&events)
        .remove(NODE)
        .context("the log does not know the node")?;
    let times = |costs: &[Cost]| -> Result<Vec<f64>> {
        costs
            .iter()
            .map(|cost| out_of_service(&history, cost))
            .collect()
    };
    let floor = middle(&times(&starts)?)?;
    let value = middle(&times(&updates)?)?;
    let by_hand = |figure: Figure| {
        figure
            .of(samples)
            .beside("kubectl drain and a reboot", floor, Unit::Ms)
    };
    let mut figures = vec![
        by_hand(Figure::new("mcd_out_of_service_ms", value)?.at_most(floor + ABOVE_FLOOR_MS)),
        by_hand(Figure::new("mcd_out_of_service_ratio", value / floor)?),
    ];
    figures.extend(start_figures(&events, &starts)?);
    figures.extend(update_figures(&events, &updates, &rebootless)?);
    Ok(figures)
}

/// The same by hand: evicts by kubectl, reboots into what was booted, and gives the node back as
/// soon as it is Ready.
async fn by_hand(session: &Session) -> Result<()> {
    let cluster = session.cluster();
    cluster.control_plane().kubectl(&[
        "drain",
        NODE,
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--force",
    ])?;
    session.host()?.reboot()?;
    let deadline = tokio::time::Instant::now() + SOON;
    while !is_ready(&cluster.objects().node(NODE).await?) {
        if tokio::time::Instant::now() >= deadline {
            bail!(
                "the node is not Ready within {} s of its boot",
                SOON.as_secs()
            );
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    cluster
        .objects()
        .patch_node(NODE, &json!({ "spec": { "unschedulable": null } }))
        .await
}

fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let is_true = |c: &NodeCondition| c.type_ == "Ready" && c.status == "True";
    conditions.into_iter().flatten().any(is_true)
}

/// Milliseconds for which the node took no pods in a stretch of time in which it did so once.
fn out_of_service(history: &[NodeSnapshot], cost: &Cost) -> Result<f64> {
    let within = |at: Timestamp| cost.window.has(at);
    let out = intervals(history, |state| state.is_unschedulable);
    let mut out = out.iter().filter(|interval| within(interval.from.1));
    match (out.next(), out.next()) {
        (Some(interval), None) => {
            let (_, until) = interval.until.context("the node is still out of service")?;
            Ok(ms(interval.from.1, until))
        }
        (None, _) => bail!("the node was never out of service"),
        (Some(_), Some(_)) => bail!("the node was out of service more than once"),
    }
}

fn start_figures(events: &[Event], starts: &[Cost]) -> Result<[Figure; 2]> {
    let requests: Vec<_> = starts
        .iter()
        .map(|cost| count(traffic::requests(events, DAEMON, &cost.window).len()))
        .collect();
    let bytes: Vec<_> = starts.iter().map(|cost| float(cost.bytes)).collect();
    Ok([
        Figure::new("mcd_api_start_requests", middle(&requests)?)?.of(starts.len()),
        Figure::new("mcd_api_start_bytes", middle(&bytes)?)?.of(starts.len()),
    ])
}

/// An update with a reboot, both of its daemons counted.
fn update_figures(events: &[Event], updates: &[Cost], rebootless: &Cost) -> Result<[Figure; 2]> {
    let (mut requests, mut evictions, mut reads) = (Vec::new(), Vec::new(), 0);
    for cost in updates {
        let seen = traffic::requests(events, DAEMON, &cost.window);
        requests.push(count(seen.len()));
        evictions.push(count(traffic::evictions(&seen)));
        reads = reads.max(traffic::most_reads_of_one_config(&seen));
    }
    ensure!(
        reads <= 1,
        "a MachineConfig was read {reads} times in one update"
    );
    let bytes: Vec<_> = updates.iter().map(|cost| float(cost.bytes)).collect();
    let evictions = middle(&evictions)?;
    let without_reboot = count(traffic::requests(events, DAEMON, &rebootless.window).len());
    Ok([
        Figure::new("mcd_api_update_requests", middle(&requests)?)?
            .of(updates.len())
            .at_most(UPDATE_REQUESTS + evictions)
            .beside("attempts to evict", evictions, Unit::Count)
            .beside("most reads of one MachineConfig", count(reads), Unit::Count)
            .beside("without a reboot", without_reboot, Unit::Requests),
        Figure::new("mcd_api_update_bytes", middle(&bytes)?)?
            .of(updates.len())
            .beside("without a reboot", float(rebootless.bytes), Unit::Bytes),
    ])
}

fn middle(values: &[f64]) -> Result<f64> {
    median(values).context("nothing was measured")
}
