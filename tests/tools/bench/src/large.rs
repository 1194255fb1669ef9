//! The controller in a cluster with many large configurations: the most memory that it takes.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use api::machineconfiguration::{MachineConfig, MachineConfigPool, annotation};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use testbed::Programs;
use testbed::config::File;

use crate::api_server;
use crate::figure::{Figure, Unit};
use crate::idle::{count, float};
use crate::memory;
use crate::pools::{config, create_ready, pool_name, pool_object, rendered, role, until};

/// Rendered configurations: some years of a cluster with ten pools of which no user removes any.
const CONFIGS: usize = 500;

/// Bytes of each, as JSON: etcd takes no object above one and a half million.
const CONFIG_BYTES: usize = 1_000_000;

/// Files of each, and the bytes that one has beside its content, which is in Base64.
const FILES: usize = 20;
const FILE_FRAME: usize = 150;

/// Written at once; each is as large as all that else is under way.
const AT_ONCE: usize = 4;

const NODES: usize = 10;

/// From the pool's status until the work that no object shows is done, too.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// The most memory of the controller until its first pass is over.
///
/// Errors: the controller ends, or does not render its pool.
pub(crate) async fn measure(programs: &Programs, out: &Path) -> Result<Vec<Figure>> {
    let server = api_server::start(out, "large").await?;
    let configs = server.all::<MachineConfig>();
    let pools = server.all::<MachineConfigPool>();
    let nodes = server.all::<Node>();
    let params = PostParams::default();
    configs.create(&params, &config("00-all", "quiet")?).await?;
    let pool = serde_json::from_value(pool_object(0))?;
    let pool: MachineConfigPool = pools.create(&params, &pool).await?;
    let uid = pool.metadata.uid.unwrap_or_default();
    let made = stream::iter(0..CONFIGS).map(async |number| {
        let object = rendered_config(number, &uid)?;
        anyhow::Ok(configs.create(&params, &object).await.map(drop)?)
    });
    made.buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    for number in 0..NODES {
        // What they run is one of these, as in a cluster.
        let node = node(number, &name(0));
        create_ready(&nodes, &node).await?;
    }
    let mut controller = api_server::controller(&server, programs, Duration::ZERO).await?;
    until("the pool is rendered", async || rendered(&pools).await).await?;
    until("the pool has its status", async || {
        let pools = pools.list(&ListParams::default()).await?;
        let counts = pools.items.iter().filter_map(|pool| pool.status.as_ref());
        let known: i32 = counts.map(|status| status.machine_count).sum();
        Ok((usize::try_from(known) == Ok(NODES)).then_some(()))
    })
    .await?;
    tokio::time::sleep(SETTLED_AFTER).await;
    controller.process.check()?;
    let process = controller.process.id();
    let (held, peak) = (memory::of(process)?, memory::peak_of(process)?);
    let figure = Figure::new("mcc_large_peak_rss", float(peak))?
        .beside("afterwards", float(held.resident), Unit::Bytes)
        .beside("anonymous", float(held.anonymous), Unit::Bytes)
        .beside("configurations", count(CONFIGS), Unit::Count)
        .beside("each", count(CONFIG_BYTES), Unit::Bytes);
    Ok(vec![figure])
}

fn name(number: usize) -> String {
    format!("rendered-{}-{number:032x}", pool_name(0))
}

/// A configuration as the pool was rendered once.
fn rendered_config(number: usize, pool: &str) -> Result<MachineConfig> {
    let length = (CONFIG_BYTES / FILES - FILE_FRAME) * 3 / 4;
    let files = (0..FILES).map(|file| {
        let line = format!("file {file} of configuration {number}\n");
        let content: String = line.chars().cycle().take(length).collect();
        File::new(format!("/etc/bench/{file:03}.conf"), content)
    });
    let spec = testbed::config::Config::new().files(files).spec();
    let owner = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "name": pool_name(0), "uid": pool, "controller": true, "blockOwnerDeletion": true,
    });
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name(number), "ownerReferences": [owner] },
        "spec": spec,
    }))?)
}

fn node(number: usize, config: &str) -> serde_json::Value {
    json!({
        "metadata": {
            "name": format!("{}-{number:03}", pool_name(0)),
            "labels": { role(0): "" },
            "annotations": {
                annotation::CURRENT_CONFIG: config,
                annotation::DESIRED_CONFIG: config,
                annotation::STATE: "Done",
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_is_as_large_as_the_figure_says() {
        let length = |number| {
            let config = rendered_config(number, "u").unwrap();
            serde_json::to_string(&config).unwrap().len()
        };
        for number in [0, CONFIGS - 1] {
            let length = length(number);
            let least = CONFIG_BYTES - CONFIG_BYTES / 20;
            assert!(
                (least..=CONFIG_BYTES * 21 / 20).contains(&length),
                "{length}"
            );
        }
    }
}
