//! A rollout policy that analyses the canaries by a real Prometheus.

use std::path::Path;

use anyhow::{Result, ensure};
use api::rollout::RolloutPolicy;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lab::control_plane::Process;
use lab::free_address;
use serde_json::{Value, json};
use testbed::logs;

use crate::env::Env;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn others_follow_the_canary_once_a_real_prometheus_answers_1() -> Result<()> {
    let dir = logs::folder("two-controllers", "analysis-prometheus");
    logs::empty(&dir)?;
    let address = free_address()?;
    let arguments = [
        // An empty file is a configuration: it scrapes nothing.
        "--config.file=/dev/null".to_owned(),
        "--storage.tsdb.path=prometheus".to_owned(),
        format!("--web.listen-address={address}"),
    ];
    let _prometheus = Process::start("prometheus", Path::new("prometheus"), arguments, &dir)?;
    let url = format!("--promql-url=http://{address}");
    let definitions = Path::new(super::DEFINITIONS);
    let (env, first) = Env::start("analysis", definitions, &["--leader-elect=true", &url]).await?;
    let policies = Api::<RolloutPolicy>::all(env.objects().client().clone());
    let spec = |query: &str| {
        json!({
            "canaries": { "count": 1 },
            "analysis": [{ "name": "errors", "query": query }]
        })
    };
    let policy: RolloutPolicy = serde_json::from_value(json!({
        "metadata": { "name": "worker" }, "spec": spec("vector(0)")
    }))?;
    policies.create(&PostParams::default(), &policy).await?;
    env.configure("50-change", "a=1").await?;
    let words = "the rollout policy analyses the canaries by the query errors: ";
    env.waits_for(&format!("{words}it answers 0")).await?;
    let ask = async |query: &str| {
        let patch: Value = json!({ "spec": spec(query) });
        let patch = Patch::Merge(&patch);
        let params = PatchParams::default();
        policies.patch("worker", &params, &patch).await.map(drop)
    };
    ask("vector(").await?;
    env.waits_for(&format!("{words}it has no answer: 400 Bad Request"))
        .await?;
    let nodes = env.objects().nodes().await?;
    let assigned = nodes.values().filter(|node| {
        let desired = testbed::objects::annotation(
            node,
            api::machineconfiguration::annotation::DESIRED_CONFIG,
        );
        desired != first
    });
    let assigned = assigned.count();
    ensure!(assigned == 1, "{assigned} nodes were assigned");
    ask("vector(1)").await?;
    let target = env.objects().target("worker").await?;
    env.all_done(&target).await
}
