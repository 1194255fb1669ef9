//! Nodes whose kubelets are older than the API server: what a pool is while its control plane has
//! been updated, and itself not.

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use lab::control_plane::Older;
use lab::tree::Overlay;
use observer::host::Fact;
use testbed::config::Config;
use testbed::objects::{budget, deployment};
use testbed::{DONE_WITHIN, NodeSpec, Testbed, logs};

use crate::judge;

const POOL: &str = "worker";

/// Nodes, and how the version of each one's kubelet begins.
const NODES: [(&str, Option<Older>); 3] = [
    ("worker-0", None),
    ("worker-1", Some(Older::V35)),
    ("worker-2", Some(Older::V34)),
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab, and builds two older versions of Kubernetes"]
async fn nodes_with_older_kubelets_are_drained_and_updated() -> Result<()> {
    let workload = deployment("served", 2);
    let testbed = Testbed::new(logs::folder("skew", "kubelets")).objects(&workload);
    let testbed = NODES.into_iter().fold(testbed, |testbed, (name, older)| {
        let node = NodeSpec::new(name);
        testbed.node(match older {
            Some(older) => node.kubelet(older),
            None => node,
        })
    });
    let cluster = testbed.start().await?;
    cluster.objects().pods_ready(&[("served", 2)]).await?;
    cluster.apply(&budget("served", "minAvailable: 1")).await?;
    for (name, older) in NODES {
        let node = cluster.objects().node(name).await?;
        let info = node.status.and_then(|status| status.node_info);
        let version = info
            .context("a node says nothing of itself")?
            .kubelet_version;
        let expected = older.map_or("v1.36", Older::version);
        ensure!(version.starts_with(expected), "{name} runs {version}");
    }

    let since = Timestamp::now();
    let image = cluster.image(&Overlay::version("by-older-kubelets"))?;
    let spec = Config::new().os(&image.reference).spec();
    let target = cluster.change("60-os", POOL, &spec).await?;
    cluster.all_done(POOL, &target, DONE_WITHIN * 3).await?;
    for (name, _) in NODES {
        let content = image.content.clone();
        let host = cluster.host(name)?;
        Fact::Booted { content }.check(host).context(name)?;
        ensure!(host.boots().len() == 2, "{name}: {:?}", host.boots());
    }
    cluster.objects().pods_ready(&[("served", 2)]).await?;
    judge(&cluster, since)
}
