//! Waits until what was applied runs, and says what it waits for.

use std::collections::BTreeMap;
use std::time::Duration;

use api::config::{ClusterVersion, cluster_version};
use cluster::path;
use install::cluster_version::waits_for_release;
use install::order;
use install::plan::InstallPlan;
use install::survey::runs_on_hosts;
use install::workload::waits_for;
use release::PullSpec;
use release::manifest::Manifest;
use serde::Deserialize as _;
use tokio::time::{Instant, sleep};

use super::arguments::InstallArgs;
use super::requests::InstallRequests;
use super::{PAUSE, hosts};
use crate::failure::Ending;
use crate::output::print;

/// Waits until the programs run, and a release is completed.
pub(super) async fn follow(
    requests: &InstallRequests,
    arguments: &InstallArgs,
    plan: &InstallPlan,
    wanted: &[Manifest],
) -> anyhow::Result<Ending> {
    let what = format!("slipway {}", plan.version);
    let seconds = arguments.timeout_secs;
    if seconds == 0 {
        print(format!("{what} is applied\n"))?;
        return Ok(Ending::Done);
    }
    let deadline = Instant::now() + Duration::from_secs(seconds);
    // Also of a cluster whose hosts were not checked.
    let nodes = hosts::nodes(requests).await?;
    let programs = async || programs(requests, &nodes, wanted).await;
    if !until_nothing_waits(deadline, programs).await? {
        print(format!(
            "{what} is installed, but does not run after {seconds} s\n"
        ))?;
        return Ok(Ending::NeedsAttention);
    }
    if let Some(release) = &arguments.release {
        let completed = async || completed(requests, release).await;
        if !until_nothing_waits(deadline, completed).await? {
            print(format!(
                "{what} is installed, but its release is not completed after {seconds} s\n"
            ))?;
            return Ok(Ending::NeedsAttention);
        }
    }
    print(format!("{what} is installed and runs\n"))?;
    let away = nodes
        .iter()
        .filter(|it| hosts::has_daemon(it) && !it.is_ready);
    let away: Vec<&str> = away.map(|it| it.name.as_str()).collect();
    if !away.is_empty() && runs_on_hosts(&plan.components) {
        print(format!("not yet on {}: not Ready\n", away.join(", ")))?;
    }
    Ok(Ending::Done)
}

/// Looks until nothing waits, and prints each reason once; false after the deadline.
async fn until_nothing_waits(
    deadline: Instant,
    look: impl AsyncFn() -> anyhow::Result<BTreeMap<String, String>>,
) -> anyhow::Result<bool> {
    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let waiting = look().await?;
        if waiting.is_empty() {
            return Ok(true);
        }
        for (id, why) in waiting {
            if shown.get(&id) != Some(&why) {
                print(format!("waiting {id}: {why}\n"))?;
                shown.insert(id, why);
            }
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(PAUSE).await;
    }
}

/// Which programs wait for what.
async fn programs(
    requests: &InstallRequests,
    nodes: &[hosts::SeenNode],
    wanted: &[Manifest],
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut waiting = BTreeMap::new();
    for workload in wanted.iter().filter(|it| order::is_workload(&it.id)) {
        let object = requests
            .find(&workload.id, &workload.full_api_version())
            .await?;
        let waits = match object {
            Some(object) => waits_for(&object, hosts::away(nodes, &object)),
            None => Some("it is not there any more".to_owned()),
        };
        waiting.extend(waits.map(|why| (workload.id.to_string(), why)));
    }
    Ok(waiting)
}

/// What the release waits for.
async fn completed(
    requests: &InstallRequests,
    release: &PullSpec,
) -> anyhow::Result<BTreeMap<String, String>> {
    let path = path::object::<ClusterVersion>(cluster_version::NAME);
    let found = requests.at(&path).await?;
    let version = found.map(ClusterVersion::deserialize).transpose()?;
    let status = version.as_ref().and_then(|it| it.status.as_ref());
    let waits = waits_for_release(status, release);
    let name = format!("ClusterVersion {}", cluster_version::NAME);
    Ok(waits.into_iter().map(|why| (name.clone(), why)).collect())
}
