//! `slipway upgrade --control-plane-only`: carries out the steps that `decide` names, until nothing
//! is left to do.
//!
//! What it did stands on the cluster: the record on ClusterVersion, the mark on each pool that it
//! paused. So a run that is killed costs nothing, and the next one goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::config::control_plane_only::{CONTROL_PLANE_ONLY, ControlPlaneOnlyRecord};
use api::config::{ClusterVersion, cluster_version};
use api::machineconfiguration::{MachineConfigPool, annotation};
use cluster::access::Access;
use cluster::list::{Select, list};
use cluster::objects::Objects;
use cluster::review;
use cluster::wire;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use pool::node::NodeView;
use release::Version;
use release::update_graph::UpdateGraph;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::arguments::{ControlPlaneOnlyArgs, UpgradeArgs};
use super::requests::ClusterRequests;
use crate::decide::object::text;
use crate::decide::upgrade::control_plane_only::{
    CpoCluster, CpoPlan, CpoStep, CpoWish, PoolPause, clear, next,
};
use crate::failure::{Ending, Usage};
use crate::output::{print, show, warn};
use crate::update_service::{self, ServiceArgs};

/// Time between two looks at what is waited for.
const EVERY: Duration = Duration::from_secs(5);

/// Where an API server reports its version.
const VERSION: &str = "/version";

/// Who owns the fields that are written.
const MANAGER: &str = "slipway";

pub(super) async fn run(arguments: &UpgradeArgs) -> anyhow::Result<Ending> {
    let options = &arguments.control_plane_only;
    let wish = wish(arguments)?;
    let requests = ClusterRequests::new(&arguments.cluster)?;
    let run = ControlPlaneOnlyRun {
        arguments,
        options,
        requests,
        clock: Timestamp::now,
    };
    match wish {
        Some(wish) => run.go(&wish).await,
        None => run.clear().await,
    }
}

/// The target; none to end the update.
fn wish(arguments: &UpgradeArgs) -> anyhow::Result<Option<CpoWish>> {
    match (&arguments.to, arguments.clear) {
        (None, true) => Ok(None),
        (Some(to), false) => {
            let to = to.parse::<Version>();
            let to = to.map_err(|error| Usage(format!("--to must be a semantic version: {error}")));
            Ok(Some(CpoWish {
                to: to?,
                through: arguments.control_plane_only.through.clone(),
                allow_not_recommended: arguments.allow_not_recommended,
            }))
        }
        (None, false) | (Some(_), true) => {
            let why = "--control-plane-only takes one of --to and --clear";
            bail!(Usage(why.to_owned()))
        }
    }
}

/// One run of the command.
struct ControlPlaneOnlyRun<'a> {
    arguments: &'a UpgradeArgs,
    options: &'a ControlPlaneOnlyArgs,
    requests: ClusterRequests,
    clock: fn() -> Timestamp,
}

impl ControlPlaneOnlyRun<'_> {
    const fn access(&self) -> &Access {
        &self.requests.access
    }

    /// Goes on until nothing is left to do, or the time is over.
    async fn go(&self, wish: &CpoWish) -> anyhow::Result<Ending> {
        let deadline = Instant::now() + Duration::from_secs(self.options.wait_secs);
        let mut shown = BTreeSet::new();
        let mut last = String::new();
        loop {
            let cluster = match self.observe().await {
                Ok(cluster) => cluster,
                // The API servers themselves are updated meanwhile.
                Err(error) if Instant::now() < deadline && !last.is_empty() => {
                    self.tell(&mut last, format!("cannot read the cluster: {error:#}"))?;
                    tokio::time::sleep(EVERY).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let state = next(&cluster, wish)?;
            for warning in state.warnings {
                if shown.insert(warning.clone()) {
                    warn(&warning);
                }
            }
            if self.arguments.dry_run {
                return self.dry(&cluster, wish, &state.step).await;
            }
            let done = match state.step {
                CpoStep::Done => {
                    return self.end(&format!("The cluster is at {}\n", wish.to));
                }
                CpoStep::Wait(why) if self.options.no_wait || Instant::now() >= deadline => {
                    warn(&format!("not done yet: {why}; run it again to go on"));
                    return Ok(Ending::NeedsAttention);
                }
                CpoStep::Wait(why) => {
                    self.tell(&mut last, why)?;
                    tokio::time::sleep(EVERY).await;
                    continue;
                }
                CpoStep::Plan => self.begin(&cluster, wish).await,
                CpoStep::Pause(pools) => self.pause(&cluster, &pools).await,
                CpoStep::Request { hop, update } => {
                    let change = json!({ "spec": { "desiredUpdate": {
                        "architecture": "", "version": update.version, "image": update.image,
                        "force": false
                    } } });
                    let message = format!("hop {hop} of 2: requested {}", update.version);
                    self.change_version(&cluster, change)
                        .await
                        .map(|()| message)
                }
                CpoStep::Resume(pools) => self.resume(&cluster, &pools).await,
                CpoStep::Forget => self.forget(&cluster).await,
            };
            match done {
                Ok(message) => self.tell(&mut last, message)?,
                // Another one changed the object: what is next is decided from what is there then.
                Err(error) if is_conflict(&error) && Instant::now() < deadline => {
                    self.tell(&mut last, format!("{error:#}"))?;
                    tokio::time::sleep(EVERY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends the update where the control plane stands.
    async fn clear(&self) -> anyhow::Result<Ending> {
        let mut last = String::new();
        loop {
            let cluster = self.observe().await?;
            let step = clear(&cluster)?;
            let message = match &step {
                CpoStep::Done if last.is_empty() => {
                    let none = "info: No update of the control plane alone is under way\n";
                    return self.end(none);
                }
                CpoStep::Done => {
                    return self.end("Ended the update of the control plane alone\n");
                }
                CpoStep::Resume(pools) if self.arguments.dry_run => {
                    return self.end(&format!(
                        "Would resume {}\ninfo: Dry run: nothing was changed\n",
                        names(pools)
                    ));
                }
                CpoStep::Forget if self.arguments.dry_run => {
                    let text = "Would remove the record\ninfo: Dry run: nothing was changed\n";
                    return self.end(text);
                }
                CpoStep::Resume(pools) => self.resume(&cluster, pools).await?,
                CpoStep::Forget => self.forget(&cluster).await?,
                CpoStep::Plan | CpoStep::Pause(_) | CpoStep::Request { .. } | CpoStep::Wait(_) => {
                    bail!("an end of the update has no step {step:?}")
                }
            };
            self.tell(&mut last, message)?;
        }
    }

    async fn observe(&self) -> anyhow::Result<CpoCluster> {
        let access = self.access();
        let version = self.requests.version().await?;
        let pools = list(access, Select::All, |pool: MachineConfigPool| pool).await;
        let nodes = list(access, Select::All, |node: Node| NodeView::parse(node)).await;
        let api_server = access.get::<Value>(VERSION).await;
        let api_server = api_server.context("cannot read the version of the API server")?;
        Ok(CpoCluster {
            version,
            pools: pools.context("cannot list MachineConfigPools")?,
            nodes: nodes.context("cannot list Nodes")?,
            api_server: text(&api_server, "/gitVersion").to_owned(),
            now: (self.clock)(),
        })
    }

    /// What would be done first.
    async fn dry(
        &self,
        cluster: &CpoCluster,
        wish: &CpoWish,
        step: &CpoStep,
    ) -> anyhow::Result<Ending> {
        let what = match step {
            CpoStep::Plan => {
                let plan = self.plan(cluster, wish).await?;
                show(self.arguments.cluster.output, &plan, || {
                    format!("{}info: Dry run: nothing was changed\n", plan.text())
                })?;
                return Ok(Ending::Done);
            }
            CpoStep::Pause(pools) => format!("Would pause {}", names(pools)),
            CpoStep::Request { hop, update } => {
                format!("hop {hop} of 2: would request {}", update.version)
            }
            CpoStep::Wait(why) => format!("Would wait: {why}"),
            CpoStep::Resume(pools) => format!("Would resume {}", names(pools)),
            CpoStep::Forget => "Would end: all nodes are updated".to_owned(),
            CpoStep::Done => format!("The cluster is at {}", wish.to),
        };
        self.end(&format!("{what}\ninfo: Dry run: nothing was changed\n"))
    }

    /// Plans by the graph of the cluster's channel, unless the release between is named.
    async fn plan(&self, cluster: &CpoCluster, wish: &CpoWish) -> anyhow::Result<CpoPlan> {
        let channel = cluster.version.text("/spec/channel");
        if wish.through.is_some() || channel.is_empty() {
            return Ok(CpoPlan::new(cluster, wish, None)?);
        }
        let is_multi = cluster.version.text("/status/desired/architecture") == "Multi";
        let default = if is_multi { "multi" } else { "amd64" };
        let service = ServiceArgs {
            upstream: self.options.upstream.clone(),
            certificate_authority: self.options.certificate_authority.clone(),
            arch: self
                .options
                .arch
                .clone()
                .unwrap_or_else(|| default.to_owned()),
        };
        let address = service.address(&self.arguments.cluster).await?;
        let read = update_service::read(&address, channel, &service).await;
        let (url, bytes) = read.with_context(|| {
            format!("cannot read the graph of channel {channel}; --through needs none")
        })?;
        let graph = UpdateGraph::parse(&bytes).with_context(|| format!("response of {url}"))?;
        Ok(CpoPlan::new(cluster, wish, Some((channel, &graph)))?)
    }

    /// Records the update. Pools are paused after it, so that none is paused without a record.
    async fn begin(&self, cluster: &CpoCluster, wish: &CpoWish) -> anyhow::Result<String> {
        let plan = self.plan(cluster, wish).await?;
        let record = ControlPlaneOnlyRecord::new(
            [plan.from.clone(), plan.through.clone(), plan.to.clone()],
            plan.pools.clone(),
            self.who().await,
            cluster.now,
        );
        let annotations = json!({ CONTROL_PLANE_ONLY: record.to_annotation() });
        let change = json!({ "metadata": { "annotations": annotations } });
        self.change_version(cluster, change).await?;
        Ok(plan.text().trim_end().to_owned())
    }

    /// The user, as the API server names him; empty where it does not. It is for people alone.
    async fn who(&self) -> String {
        match review::own_user(self.access()).await {
            Ok(user) => user.unwrap_or_default(),
            Err(error) => {
                let error = anyhow::Error::from(error);
                warn(&format!(
                    "the record does not name who requested it: {error:#}"
                ));
                String::new()
            }
        }
    }

    async fn change_version(&self, cluster: &CpoCluster, change: Value) -> anyhow::Result<()> {
        let versions = Objects::<ClusterVersion>::of_cluster(self.access()).manager(MANAGER);
        let versions = versions.read_as::<IgnoredAny>();
        let read = cluster.version.text("/metadata/resourceVersion");
        let changed = versions.patch_if(cluster_version::NAME, Some(read), change);
        let changed = changed.await;
        changed.context("cannot change ClusterVersion version")?;
        Ok(())
    }

    async fn pause(
        &self,
        cluster: &CpoCluster,
        pools: &BTreeSet<String>,
    ) -> anyhow::Result<String> {
        let mark = json!({ annotation::PAUSED_BY: annotation::CONTROL_PLANE_ONLY });
        let change = json!({
            "metadata": { "annotations": mark }, "spec": { "paused": true }
        });
        for pool in named(cluster, pools) {
            self.change_pool(pool, change.clone()).await?;
        }
        Ok(format!("paused {}", names(pools)))
    }

    /// Takes the marks away. A pool that is not paused stays as it is.
    async fn resume(
        &self,
        cluster: &CpoCluster,
        pools: &BTreeSet<String>,
    ) -> anyhow::Result<String> {
        for pool in named(cluster, pools) {
            let annotations = json!({ annotation::PAUSED_BY: null });
            let mut change = json!({ "metadata": { "annotations": annotations } });
            if PoolPause::of(pool) == PoolPause::Own
                && let Some(fields) = change.as_object_mut()
            {
                fields.insert("spec".to_owned(), json!({ "paused": false }));
            }
            self.change_pool(pool, change).await?;
        }
        Ok(format!("resumed {}", names(pools)))
    }

    /// A change that another one made meanwhile is a conflict: the pool may be paused by another
    /// one now.
    async fn change_pool(&self, pool: &MachineConfigPool, change: Value) -> anyhow::Result<()> {
        let pools = Objects::<MachineConfigPool>::of_cluster(self.access()).manager(MANAGER);
        let pools = pools.read_as::<IgnoredAny>();
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let read = pool.metadata.resource_version.as_deref();
        let changed = pools.patch_if(name, read, change).await;
        changed.with_context(|| format!("cannot change MachineConfigPool {name}"))?;
        Ok(())
    }

    async fn forget(&self, cluster: &CpoCluster) -> anyhow::Result<String> {
        let annotations = json!({ CONTROL_PLANE_ONLY: null });
        let change = json!({ "metadata": { "annotations": annotations } });
        self.change_version(cluster, change).await?;
        Ok("removed the record of the update".to_owned())
    }

    /// Prints what was done, or is waited for, once. Programs read the end alone.
    fn tell(&self, last: &mut String, what: String) -> anyhow::Result<()> {
        if *last != what && self.arguments.cluster.output.is_none() {
            print(format!("{what}\n"))?;
        }
        *last = what;
        Ok(())
    }

    fn end(&self, message: &str) -> anyhow::Result<Ending> {
        let done = json!({ "message": message.trim_end() });
        show(self.arguments.cluster.output, &done, || message.to_owned())?;
        Ok(Ending::Done)
    }
}

fn named<'a>(
    cluster: &'a CpoCluster,
    names: &BTreeSet<String>,
) -> impl Iterator<Item = &'a MachineConfigPool> {
    let pools = cluster.pools.iter();
    pools.filter(|pool| {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        names.contains(name)
    })
}

fn names(pools: &BTreeSet<String>) -> String {
    let names: Vec<&str> = pools.iter().map(String::as_str).collect();
    format!("pools {}", names.join(", "))
}

fn is_conflict(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    causes.any(|cause| {
        let error = cause.downcast_ref::<wire::Error>();
        error.is_some_and(wire::Error::is_conflict)
    })
}

#[cfg(test)]
mod tests;
