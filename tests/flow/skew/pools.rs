//! Three nodes: a pool's roll, begun by one release and ended by the other.

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use lab::tree::Overlay;
use observer::host::Fact;
use testbed::config::Config;
use testbed::objects;
use testbed::{Cluster, DONE_WITHIN, Image, NodeSpec, Testbed, logs, until};

use crate::{Release, judge, releases};

const NODES: [&str; 3] = ["worker-0", "worker-1", "worker-2"];
const POOL: &str = "worker";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab, and the programs of the last release"]
async fn a_roll_goes_on_whichever_release_runs_it() -> Result<()> {
    let [last, this] = releases()?;
    let testbed = Testbed::new(logs::folder("skew", "pools")).programs(&last.programs);
    let mut testbed = testbed.definitions(&last.definitions);
    for node in NODES {
        testbed = testbed.node(NodeSpec::new(node));
    }
    let mut cluster = testbed.start().await?;

    // An update of Slipway in the middle of a roll: definitions first.
    roll(&mut cluster, "updated", async |cluster| {
        cluster.redefine(&this.definitions).await?;
        all(cluster, &this).await
    })
    .await?;
    // The way back; definitions stay.
    roll(&mut cluster, "reverted", async |cluster| {
        all(cluster, &last).await
    })
    .await?;
    // Nodes of both under one controller, which changes while they roll.
    cluster.replace_daemon(NODES[0], &this.programs).await?;
    roll(&mut cluster, "mixed", async |cluster| {
        cluster.replace_replicas(&this.programs).await
    })
    .await?;
    roll(&mut cluster, "mixed-back", async |cluster| {
        cluster.replace_replicas(&last.programs).await
    })
    .await?;
    // The programs under test with the definitions of the release before.
    cluster.redefine(&last.definitions).await?;
    roll(&mut cluster, "undefined", async |cluster| {
        all(cluster, &this).await
    })
    .await
}

async fn all(cluster: &mut Cluster, release: &Release) -> Result<()> {
    cluster.replace_replicas(&release.programs).await?;
    for node in NODES {
        cluster.replace_daemon(node, &release.programs).await?;
    }
    Ok(())
}

/// Rolls the pool to another OS; once a node is out of service, something changes.
async fn roll(
    cluster: &mut Cluster,
    name: &str,
    change: impl AsyncFnOnce(&mut Cluster) -> Result<()>,
) -> Result<()> {
    let (since, boots) = (Timestamp::now(), boots(cluster)?);
    let image = cluster.image(&Overlay::version(name))?;
    let spec = Config::new().os(&image.reference).spec();
    let target = cluster.change("60-os", POOL, &spec).await?;
    until("a node to be out of service", DONE_WITHIN, async || {
        let nodes = cluster.objects().nodes().await?;
        let is_out = nodes.values().any(|node| !objects::is_in_service(node));
        Ok(is_out.then_some(()).ok_or_else(|| "none is".to_owned()))
    })
    .await?;
    change(cluster).await.with_context(|| name.to_owned())?;
    let done = cluster.all_done(POOL, &target, DONE_WITHIN * 3).await;
    done.with_context(|| name.to_owned())?;
    runs(cluster, &image).with_context(|| name.to_owned())?;
    let expected: Vec<_> = boots.iter().map(|before| before + 1).collect();
    let booted = self::boots(cluster)?;
    ensure!(
        booted == expected,
        "{name}: boots {booted:?}, not {expected:?}"
    );
    judge(cluster, since).with_context(|| name.to_owned())
}

fn boots(cluster: &Cluster) -> Result<Vec<usize>> {
    let all = NODES.into_iter();
    all.map(|node| Ok(cluster.host(node)?.boots().len()))
        .collect()
}

fn runs(cluster: &Cluster, image: &Image) -> Result<()> {
    for node in NODES {
        let content = image.content.clone();
        Fact::Booted { content }
            .check(cluster.host(node)?)
            .context(node)?;
    }
    Ok(())
}
