//! A release of two operating systems: a pool moves from one to the other with one reboot of each
//! node, and back by the default. Another pool stays.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{
    ControllerConfig, MachineConfigPool, NAMESPACE, OSImageStream, annotation, controller_config,
};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Api;
use lab::tree::Overlay;
use serde_json::{Value, json};
use testbed::{Cluster, DONE_WITHIN, NodeSpec, SOON, Testbed, VERSION, logs, objects, until};

const WORKERS: [&str; 2] = ["worker-0", "worker-1"];
const EDGE: &str = "edge-0";

/// A pool that takes what workers have.
const EDGE_POOL: &str = "
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: { name: edge }
spec:
  machineConfigSelector:
    matchExpressions:
    - { key: machineconfiguration.openshift.io/role, operator: In, values: [worker, edge] }
  nodeSelector: { matchLabels: { node-role.kubernetes.io/edge: '' } }
";

/// Both workers, one after the other.
const BOTH_WITHIN: Duration = DONE_WITHIN.saturating_mul(2);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn a_pool_moves_between_streams_with_one_reboot_of_each_node() -> Result<()> {
    let logs = logs::folder("streams", "moved");
    let definitions = testbed::workspace().join("deploy/crds");
    let testbed = Testbed::new(logs).definitions(&definitions).of_a_release();
    let mut testbed = testbed.objects(EDGE_POOL);
    for node in WORKERS {
        testbed = testbed.node(NodeSpec::new(node));
    }
    let edge = NodeSpec::new(EDGE).role("edge");
    let cluster = testbed.node(edge).start().await?;
    let objects = cluster.objects();
    let before = objects.target("worker").await?;
    let running = objects.machine_config(&before).await?.spec.os_image_url;
    let second = cluster.image(&Overlay::version("second").ballast(1 << 20, 7))?;
    release(&cluster, &running, &second.reference).await?;

    // The default is what all nodes run: nothing moves.
    for pool in ["worker", "edge"] {
        reaches(&cluster, pool, "first").await?;
    }
    let target = objects.target("worker").await?;
    ensure!(
        target == before,
        "the release's own image moved {before} to {target}"
    );
    boots(&cluster, [1, 1, 1])?;

    refuses_an_unknown_stream(&cluster).await?;
    choose(&cluster, "edge", Some("first")).await?;
    let edge = objects.target("edge").await?;
    choose(&cluster, "worker", Some("second")).await?;
    let target = cluster.next_target("worker", &before).await?;
    let image = objects.machine_config(&target).await?.spec.os_image_url;
    ensure!(image == second.reference, "{image} is not the second's");
    // Named only once all nodes have it.
    let pool = objects.pool("worker").await?;
    ensure!(stream(&pool) == "first", "{:?}", pool.status);
    for node in WORKERS {
        cluster.done_in(node, &target, BOTH_WITHIN).await?;
    }
    reaches(&cluster, "worker", "second").await?;
    boots(&cluster, [2, 2, 1])?;
    let kubeconfig = cluster.control_plane().admin_kubeconfig();
    let shown = tokio::task::block_in_place(|| testbed::slipway(&kubeconfig, &["pool", "worker"]))?;
    let row = shown.out.lines().find(|row| row.contains("OS stream:"));
    ensure!(
        row.is_some_and(|row| row.ends_with(" second")),
        "{}",
        shown.all()
    );

    // Back by the default: the configuration that they had.
    choose(&cluster, "worker", None).await?;
    let back = cluster.next_target("worker", &target).await?;
    ensure!(back == before, "{back} is not {before}");
    for node in WORKERS {
        cluster.done_in(node, &before, BOTH_WITHIN).await?;
    }
    reaches(&cluster, "worker", "first").await?;
    boots(&cluster, [3, 3, 1])?;

    let stayed = objects.target("edge").await?;
    ensure!(stayed == edge, "pool edge moved from {edge} to {stayed}");
    let node = objects.node(EDGE).await?;
    let desired = objects::annotation(&node, annotation::DESIRED_CONFIG);
    ensure!(desired == edge, "{EDGE} was assigned {desired}");
    Ok(())
}

/// Makes the cluster one of a release with two streams, of which the nodes run the first. No source
/// names an OS from then on.
async fn release(cluster: &Cluster, first: &str, second: &str) -> Result<()> {
    let authority = String::from_utf8(cluster.control_plane().ca_pem().to_vec())?;
    // Nothing is rendered from now on, until the release's images are in it.
    cluster
        .publish_certificates(&[&authority, &authority], &[], false)
        .await?;
    let none = json!({ "osImageURL": "" });
    cluster.configure("00-worker", "worker", &none).await?;
    // The daemons are processes here, which no DaemonSet counts.
    let client = cluster.objects().client();
    let daemons: Api<DaemonSet> = Api::namespaced(client.clone(), NAMESPACE);
    let nowhere =
        json!({ "spec": { "template": { "spec": { "nodeSelector": { "none": "none" } } } } });
    objects::merge(&daemons, "machine-config-daemon", &nowhere).await?;

    let stream = |name: &str, image: &str| json!({ "name": name, "osImage": image, "osExtensionsImage": "" });
    let streams = json!({
        "defaultStream": "first",
        "availableStreams": [stream("second", second), stream("first", first)]
    });
    let map = |name: &str, data: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": NAMESPACE }, "data": data
        })
    };
    let images = json!({ "images.json": json!({ "releaseVersion": VERSION }).to_string() });
    let images = map("machine-config-operator-images", images);
    cluster.apply(&images.to_string()).await?;
    let os = json!({
        "releaseVersion": VERSION, "baseOSContainerImage": first,
        "osImageStreams.json": streams.to_string()
    });
    let os = map("machine-config-osimageurl", os);
    cluster.apply(&os.to_string()).await?;

    let all: Api<OSImageStream> = Api::all(client.clone());
    until("the release's streams", SOON, async || {
        let object = all.get_opt("cluster").await?;
        let status = object.and_then(|object| object.status);
        let streams = status.map(|status| (status.default_stream, status.available_streams));
        let names = streams.map(|(default, streams)| {
            let streams = streams.into_iter().map(|stream| stream.name);
            (default, streams.collect::<Vec<_>>().join(","))
        });
        let wanted = ("first".to_owned(), "first,second".to_owned());
        Ok(if names == Some(wanted) {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        })
    })
    .await?;
    let configs: Api<ControllerConfig> = Api::all(client.clone());
    until("the release's image", SOON, async || {
        let config = configs.get(controller_config::NAME).await?;
        let image = config.spec.base_os_container_image;
        Ok(if image == first { Ok(()) } else { Err(image) })
    })
    .await
}

/// Has a pool choose a stream, or none.
async fn choose(cluster: &Cluster, pool: &str, stream: Option<&str>) -> Result<()> {
    let stream = stream.map(|name| json!({ "name": name }));
    let patch = json!({ "spec": { "osImageStream": stream } });
    cluster.objects().patch_pool(pool, &patch).await
}

/// The stream that all nodes of a pool have, by its status.
fn stream(pool: &MachineConfigPool) -> &str {
    let status = pool.status.as_ref();
    let stream = status.and_then(|status| status.os_image_stream.as_ref());
    stream
        .map(|stream| stream.name.as_str())
        .unwrap_or_default()
}

async fn reaches(cluster: &Cluster, pool: &str, wanted: &str) -> Result<()> {
    let what = format!("pool {pool} to have stream {wanted}");
    until(&what, SOON, async || {
        let pool = cluster.objects().pool(pool).await?;
        Ok(if stream(&pool) == wanted {
            Ok(())
        } else {
            Err(format!("{:?}", pool.status))
        })
    })
    .await
}

/// Holds the hosts to their numbers of boots.
fn boots(cluster: &Cluster, expected: [usize; 3]) -> Result<()> {
    for (name, expected) in [WORKERS[0], WORKERS[1], EDGE].into_iter().zip(expected) {
        let boots = cluster.host(name)?.boots().len();
        ensure!(
            boots == expected,
            "{name} has booted {boots} times, not {expected}"
        );
    }
    Ok(())
}

/// The API server takes a moment to put a policy in force. Until then the controller refuses the
/// stream.
async fn refuses_an_unknown_stream(cluster: &Cluster) -> Result<()> {
    let words = "spec.osImageStream third: OSImageStream cluster has no such stream in status.availableStreams (first, second)";
    until("the policy to be in force", SOON, async || {
        let result = choose(cluster, "worker", Some("third")).await;
        Ok(match result {
            Err(error) if format!("{error:#}").contains(words) => Ok(()),
            Err(error) => return Err(error).context("another failure"),
            Ok(()) => {
                // Else it is no change the next time.
                choose(cluster, "worker", None).await?;
                Err("it was let in".to_owned())
            }
        })
    })
    .await
}
