//! One node: its daemon and helper changed in each phase of an update.

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::annotation;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use lab::tree::Overlay;
use observer::host::Fact;
use testbed::config::{Config, File};
use testbed::objects::{self, budget, deployment};
use testbed::{Cluster, DONE_WITHIN, NodeSpec, Programs, SOON, Testbed, logs};

use crate::hold::{Hold, holdable};
use crate::{judge, releases};

const NODE: &str = "worker-0";
const POOL: &str = "worker";

/// Where a pod's budget holds the node.
const DRAINING: &str = "Draining";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab, and the programs of the last release"]
async fn an_update_goes_on_with_other_programs_in_each_phase() -> Result<()> {
    let [last, this] = releases()?;
    let testbed = Testbed::new(logs::folder("skew", "nodes")).programs(&last.programs);
    let testbed = testbed.objects(&deployment("held", 1));
    let mut cluster = testbed.node(holdable(NodeSpec::new(NODE))).start().await?;
    for (from, to) in [(&last, &this), (&this, &last)] {
        // It is by those programs from its first decision on.
        cluster.replace_daemon(NODE, &from.programs).await?;
        for phase in Phase::all() {
            let since = Timestamp::now();
            let what = format!("{} to {} in {}", from.name, to.name, phase.name());
            phase
                .update(&mut cluster, &what, &to.programs)
                .await
                .with_context(|| what.clone())?;
            judge(&cluster, since).context(what)?;
            cluster.replace_daemon(NODE, &from.programs).await?;
        }
        let what = format!("{} to {} at rest", from.name, to.name);
        live_after(&mut cluster, &to.programs).await.context(what)?;
        refuses_what_it_cannot_read(&cluster)
            .await
            .with_context(|| format!("the {} release", to.name))?;
    }
    Ok(())
}

/// A phase in which a node stays until it is let go.
#[derive(Clone, Copy)]
enum Phase {
    /// A plan is stored and rehearsed, the node cordoned.
    Draining,
    Held(Hold),
}

impl Phase {
    fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Draining).chain(Hold::ALL.map(Self::Held))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Draining => DRAINING,
            Self::Held(hold) => hold.phase(),
        }
    }

    /// Updates the node to another OS and another file; in this phase its programs change.
    async fn update(self, cluster: &mut Cluster, what: &str, to: &Programs) -> Result<()> {
        let version = what.replace(' ', "-").to_lowercase();
        let image = cluster.image(&Overlay::version(&version))?;
        let boots = cluster.host(NODE)?.boots().len();
        match self {
            Self::Draining => {
                cluster.objects().pods_ready(&[("held", 1)]).await?;
                cluster.apply(&budget("held", "minAvailable: 1")).await?;
            }
            Self::Held(hold) => hold.hold(cluster.host(NODE)?)?,
        }
        let file = File::new("/etc/skew.conf", version.clone());
        let spec = Config::new().os(&image.reference).files([file]).spec();
        let target = cluster.change("60-skew", POOL, &spec).await?;
        let is_there = |node: &Node| objects::annotation(node, annotation::PHASE) == self.name();
        let objects = cluster.objects();
        objects
            .node_is(NODE, self.name(), DONE_WITHIN, is_there)
            .await?;

        cluster.replace_daemon(NODE, to).await?;
        // The other program has read the node, and says so.
        let objects = cluster.objects();
        objects.node_is(NODE, self.name(), SOON, is_there).await?;
        match self {
            Self::Draining => {
                let delete = ["delete", "poddisruptionbudget", "held"];
                cluster.control_plane().kubectl(&delete)?;
            }
            Self::Held(hold) => hold.let_go(cluster.host(NODE)?)?,
        }
        cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        is_in(cluster, &image.content, &version)?;
        let booted = cluster.host(NODE)?.boots().len() - boots;
        ensure!(booted == 1, "the host was booted {booted} times");
        Ok(())
    }
}

/// A change without a reboot by other programs than those that wrote the record.
async fn live_after(cluster: &mut Cluster, to: &Programs) -> Result<()> {
    cluster.replace_daemon(NODE, to).await?;
    let boots = cluster.host(NODE)?.boots().len();
    let file = File::new("/etc/skew-live.conf", "live");
    let spec = Config::new().files([file]).spec();
    let policy = serde_json::json!({ "files": [
        { "path": "/etc/skew-live.conf", "actions": [{ "type": "None" }] },
    ] });
    cluster.write_policies(&policy).await?;
    let target = cluster.change("70-live", POOL, &spec).await?;
    cluster.all_done(POOL, &target, DONE_WITHIN).await?;
    cluster.remove_config("70-live").await?;
    let target = cluster.next_target(POOL, &target).await?;
    cluster.all_done(POOL, &target, DONE_WITHIN).await?;
    let text = cluster
        .host(NODE)?
        .exec(["test", "-e", "/etc/skew-live.conf"])?;
    ensure!(text.code == Some(1), "the file is still there");
    let booted = cluster.host(NODE)?.boots().len() - boots;
    ensure!(booted == 0, "the host was booted {booted} times");
    Ok(())
}

/// A journal of a later release is named, and neither followed nor lost.
async fn refuses_what_it_cannot_read(cluster: &Cluster) -> Result<()> {
    const JOURNAL: &str = "/var/lib/slipway/journal.json";
    const LATER: &str = r#"{"schema": 9, "of": "a later release"}"#;
    let host = cluster.host(NODE)?;
    let boots = host.boots().len();
    host.run(["sh", "-c", &format!("echo -n '{LATER}' >{JOURNAL}")])?;
    let spec = Config::new().argument("skew").spec();
    let target = cluster.change("80-unread", POOL, &spec).await?;
    let refuses = |node: &Node| {
        let reason = objects::annotation(node, annotation::REASON);
        reason.contains(&format!("{JOURNAL} is of version 9")) && objects::is_in_service(node)
    };
    let objects = cluster.objects();
    objects
        .node_is(NODE, "unable to read the journal", DONE_WITHIN, refuses)
        .await?;
    let found = host.run(["cat", JOURNAL])?;
    ensure!(found == LATER, "{JOURNAL} has {found:?}");
    let booted = host.boots().len() - boots;
    ensure!(booted == 0, "the host was booted {booted} times");
    // Its writer is back, and has ended what it began.
    host.run(["rm", JOURNAL])?;
    cluster.all_done(POOL, &target, DONE_WITHIN).await?;
    cluster.remove_config("80-unread").await?;
    let target = cluster.next_target(POOL, &target).await?;
    cluster.all_done(POOL, &target, DONE_WITHIN).await
}

fn is_in(cluster: &Cluster, content: &str, text: &str) -> Result<()> {
    let host = cluster.host(NODE)?;
    let booted = Fact::Booted {
        content: content.to_owned(),
    };
    booted.check(host)?;
    let found = host.run(["cat", "/etc/skew.conf"])?;
    ensure!(found == text, "/etc/skew.conf has {found:?}, not {text:?}");
    Ok(())
}
