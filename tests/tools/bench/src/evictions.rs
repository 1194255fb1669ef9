//! The drain of three pods under a budget of one, beside the same drain with instant retries.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use cluster::access::Access;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::EvictParams;
use node::drain::Drain;
use serde_json::json;
use testbed::objects::{budget, deployment};
use testbed::{Cluster, NodeSpec, Programs, Testbed};
use tokio::time::Instant;

use crate::figure::{Figure, Unit};
use crate::statistics::median;

const NODES: [&str; 2] = ["worker-0", "worker-1"];

const APP: &str = "budgeted";

const PODS: usize = 3;

/// Between two tries to evict, where they are instant.
const INSTANTLY: Duration = Duration::from_millis(20);

/// What one drain may take.
const LIMIT: Duration = Duration::from_mins(5);

/// Who drains.
#[derive(Clone, Copy)]
enum Drainer {
    Daemon,
    Instant,
}

/// Drains the node that has the pods, in turn by the daemon's own drain and by a loop that tries
/// each eviction again at once. The pods move between two nodes.
///
/// Errors: a part of the lab cannot be had, or a drain takes too long.
pub(crate) async fn measure(
    programs: &Programs,
    out: &Path,
    samples: usize,
) -> Result<Vec<Figure>> {
    let objects = deployment(APP, PODS) + &budget(APP, "maxUnavailable: 1");
    let [one, other] = NODES.map(NodeSpec::new);
    let testbed = Testbed::new(out.join("evictions")).programs(programs);
    let cluster = testbed.node(one).node(other).start().await?;
    // Its pods would be drained, too.
    cluster.control_plane().kubectl(&[
        "delete",
        "--namespace=openshift-machine-config-operator",
        "deployment/machine-config-controller",
    ])?;
    cordon(&cluster, NODES[1], true).await?;
    cluster.apply(&objects).await?;
    let (mut from, mut to) = (NODES[0], NODES[1]);
    let (mut own, mut instant) = (Vec::new(), Vec::new());
    // Each of the two drains either node as often as the other does.
    for sample in 0..samples.next_multiple_of(2) {
        let order = if sample % 2 == 0 {
            [Drainer::Daemon, Drainer::Instant]
        } else {
            [Drainer::Instant, Drainer::Daemon]
        };
        for drainer in order {
            let took = drain(&cluster, from, to, drainer).await?;
            match drainer {
                Drainer::Daemon => own.push(took),
                Drainer::Instant => instant.push(took),
            }
            (from, to) = (to, from);
        }
    }
    let drained = median(&own).context("no drain was measured")?;
    let at_once = median(&instant).context("no drain was measured")?;
    Ok(vec![
        Figure::new("drain_ratio", drained / at_once)?
            .of(own.len())
            .beside("the daemon's drain", drained, Unit::Ms)
            .beside("with instant retries", at_once, Unit::Ms),
    ])
}

/// Milliseconds until all pods have left a node for the other.
async fn drain(cluster: &Cluster, from: &str, to: &str, drainer: Drainer) -> Result<f64> {
    cluster.objects().pods_ready(&[(APP, PODS)]).await?;
    cordon(cluster, to, false).await?;
    cordon(cluster, from, true).await?;
    let began = Instant::now();
    let all_left = async {
        match drainer {
            Drainer::Daemon => by_the_daemon(cluster, from).await,
            Drainer::Instant => instantly(cluster, from).await,
        }
    };
    match tokio::time::timeout(LIMIT, all_left).await {
        Ok(done) => done?,
        Err(_) => bail!("node {from} is not drained within {} s", LIMIT.as_secs()),
    }
    Ok(began.elapsed().as_secs_f64() * 1000.0)
}

async fn by_the_daemon(cluster: &Cluster, node: &str) -> Result<()> {
    let kubeconfig = cluster.control_plane().admin_kubeconfig();
    let access = Access::kubeconfig(kubeconfig, Box::new(|path| std::fs::read(path)));
    let drain = Drain {
        access: &access,
        node,
        own: None,
        passed: Duration::ZERO,
    };
    drain.run(|_| ()).await;
    Ok(())
}

async fn instantly(cluster: &Cluster, node: &str) -> Result<()> {
    let objects = cluster.objects();
    let pods = Api::<Pod>::default_namespaced(objects.client().clone());
    loop {
        let all = objects.pods(("app", APP)).await?;
        let here =
            |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
        let mut stay = all.iter().filter(here).peekable();
        if stay.peek().is_none() {
            return Ok(());
        }
        for pod in stay.filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            match pods.evict(name, &EvictParams::default()).await {
                Ok(_) => {}
                // Refused by the budget, or gone.
                Err(kube::Error::Api(response)) if [404, 429].contains(&response.code) => {}
                Err(error) => return Err(error.into()),
            }
        }
        tokio::time::sleep(INSTANTLY).await;
    }
}

async fn cordon(cluster: &Cluster, node: &str, is_cordoned: bool) -> Result<()> {
    let spec = json!({ "spec": { "unschedulable": is_cordoned.then_some(true) } });
    cluster.objects().patch_node(node, &spec).await
}
