//! What the daemon holds and asks for while nothing happens.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::MachineConfig;
use jiff::Timestamp;
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PostParams};

use crate::figure::{Figure, Unit};
use crate::memory::{self, Memory};
use crate::session::Session;
use crate::traffic::{self, Window};

/// What the daemon calls itself.
pub(crate) const DAEMON: &str = "mcd";

/// After an update, until the daemon's memory is read.
const IDLE_AFTER: Duration = Duration::from_mins(1);

/// Rendered configurations in a small cluster, and in one that was updated for years.
const FEW: usize = 3;
const MANY: usize = 300;

/// Memory of the daemon, a minute after an update without reboot, which the same process has made
/// from its beginning to its end.
///
/// Errors: the node does not come to be Done, or there are more configurations than wanted.
pub(crate) async fn memory(session: &mut Session) -> Result<Vec<Figure>> {
    let few = after_an_update(session, FEW).await?;
    let many = after_an_update(session, MANY).await?;
    let growth = many.anonymous.abs_diff(few.anonymous);
    let resident = Figure::new("mcd_idle_rss_300", float(many.resident))?;
    Ok(vec![
        Figure::new("mcd_idle_anon_3", float(few.anonymous))?.beside(
            "resident",
            float(few.resident),
            Unit::Bytes,
        ),
        Figure::new("mcd_idle_anon_300", float(many.anonymous))?,
        Figure::new("mcd_idle_anon_growth", float(growth))?,
        resident,
    ])
}

/// Brings the cluster to so many rendered configurations, the last of them by an update, and reads
/// the daemon's memory a minute later.
async fn after_an_update(session: &mut Session, configs: usize) -> Result<Memory> {
    fill(session, configs - 1).await?;
    session.change_files().await?;
    let there = rendered(session).await?.len();
    ensure!(
        there == configs,
        "the cluster has {there} rendered configurations, not {configs}"
    );
    tokio::time::sleep(IDLE_AFTER).await;
    memory::of(session.daemon()?)
}

/// Adds copies of a rendered configuration until there are so many, under names of their own.
async fn fill(session: &Session, configs: usize) -> Result<()> {
    let there = rendered(session).await?;
    let largest = there
        .iter()
        .max_by_key(|config| config.spec.config.as_ref().map(length));
    let largest = largest.context("the cluster has no rendered configuration")?;
    let api = Api::<MachineConfig>::all(session.cluster().objects().client().clone());
    for number in there.len()..configs {
        let metadata = ObjectMeta {
            name: Some(format!("rendered-worker-{number:032x}")),
            annotations: largest.metadata.annotations.clone(),
            owner_references: largest.metadata.owner_references.clone(),
            ..ObjectMeta::default()
        };
        let copy = MachineConfig {
            metadata,
            ..largest.clone()
        };
        api.create(&PostParams::default(), &copy).await?;
    }
    Ok(())
}

fn length(config: &serde_json::Value) -> usize {
    config.to_string().len()
}

async fn rendered(session: &Session) -> Result<Vec<MachineConfig>> {
    let api = Api::<MachineConfig>::all(session.cluster().objects().client().clone());
    let mut all = api.list(&ListParams::default()).await?.items;
    all.retain(|config| {
        let name = config.metadata.name.as_deref();
        name.is_some_and(|name| name.starts_with("rendered-"))
    });
    Ok(all)
}

/// What an hour costs the API server in which the node has nothing to do. `watched` is how long
/// that is measured: two reports of the kubelet on an unchanged Node, which the daemon watches, are
/// five minutes apart, so that less than ten minutes say little.
///
/// Errors: the node does not come to rest, or the log cannot be read.
pub(crate) async fn traffic(session: &Session, watched: Duration) -> Result<Vec<Figure>> {
    session.settle().await?;
    let before = session.bytes();
    let from = Timestamp::now();
    tokio::time::sleep(watched).await;
    let window = Window {
        from,
        until: Timestamp::now(),
    };
    let bytes = float(session.bytes() - before) * 3600.0 / window.secs();
    let events = session.events()?;
    let seen = traffic::requests(&events, DAEMON, &window).len();
    let requests = traffic::requests_of_an_hour(&events, DAEMON, &window);
    let measured = |figure: Figure| figure.beside("measured for", window.secs(), Unit::Seconds);
    Ok(vec![
        measured(Figure::new("mcd_api_idle_hour_requests", requests)?).beside(
            "seen",
            count(seen),
            Unit::Requests,
        ),
        measured(Figure::new("mcd_api_idle_hour_bytes", bytes)?),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
pub(crate) fn float(bytes: u64) -> f64 {
    bytes as f64
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
pub(crate) fn count(things: usize) -> f64 {
    things as f64
}
