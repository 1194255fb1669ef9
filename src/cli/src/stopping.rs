//! `slipway pool NAME stop|go`, `slipway upgrade stop|go` and `slipway node NAME hold|release`: the
//! switches that a person sets.

use anyhow::{Context as _, bail};
use api::config::{ClusterVersion, cluster_version};
use api::machineconfiguration::MachineConfigPool;
use api::stop::{StopRecord, StopSwitch};
use clap::{Args, ValueEnum};
use cluster::access::Access;
use cluster::objects::Objects;
use cluster::review;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pool::node::NodeView;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::decide::stop::{self, HoldWish, StopDecision, StopWish};
use crate::failure::{Ending, Usage};
use crate::kubeconfig::ClusterArgs;
use crate::output::{show, warn};

/// Who writes these annotations.
const MANAGER: &str = "slipway";

/// An object that may have a switch.
#[derive(Debug, Deserialize)]
struct Switched {
    metadata: ObjectMeta,
}

/// What is done about a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PoolVerb {
    /// Nothing new begins on its nodes; what has begun is finished
    Stop,
    /// It goes on
    Go,
}

/// What is done about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NodeVerb {
    /// It is assigned nothing new
    Hold,
    /// It has its turn again
    Release,
}

/// Why something is stopped.
#[derive(Debug, Clone, Args)]
pub struct ReasonArgs {
    /// Why, for people who find it stopped or on hold
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

impl ReasonArgs {
    /// Refuses a reason where nothing is stopped.
    fn check(&self, has_use: bool, with: &str) -> anyhow::Result<()> {
        if self.reason.is_some() && !has_use {
            bail!(Usage(format!("--reason is used with {with} only")));
        }
        Ok(())
    }

    fn text(&self) -> String {
        self.reason.clone().unwrap_or_default()
    }
}

/// A reason without a verb has no use.
pub(crate) fn check_without_verb(reason: &ReasonArgs, with: &str) -> anyhow::Result<()> {
    reason.check(false, with)
}

/// `slipway pool NAME stop|go`.
pub(crate) async fn pool(
    name: &str,
    verb: PoolVerb,
    reason: &ReasonArgs,
    arguments: &ClusterArgs,
) -> anyhow::Result<Ending> {
    reason.check(verb == PoolVerb::Stop, "stop")?;
    let access = arguments.access()?;
    let wish = match verb {
        PoolVerb::Stop => stop_wish(arguments, &access, reason).await?,
        PoolVerb::Go => StopWish::Go,
    };
    let what = format!("MachineConfigPool {name}");
    let pools = Objects::<MachineConfigPool>::of_cluster(&access).manager(MANAGER);
    let decided = set(&pools.read_as(), (&what, name), wish).await?;
    if verb == PoolVerb::Go {
        let versions = Objects::<ClusterVersion>::of_cluster(&access);
        let version = versions
            .read_as::<Switched>()
            .get(cluster_version::NAME)
            .await;
        let version = version.context("cannot read ClusterVersion version")?;
        let annotations = version.and_then(|version| version.metadata.annotations);
        if let Some(cluster) = StopSwitch::read(annotations.as_ref()) {
            warn(&stop::cluster_holds(&cluster));
        }
    }
    report(arguments, &decided, false)
}

/// `slipway upgrade stop|go`: none of `reason` lets the cluster go on.
pub(crate) async fn cluster(
    reason: Option<&ReasonArgs>,
    is_dry: bool,
    arguments: &ClusterArgs,
) -> anyhow::Result<Ending> {
    let access = arguments.access()?;
    let wish = match reason {
        Some(reason) => stop_wish(arguments, &access, reason).await?,
        None => StopWish::Go,
    };
    let versions = Objects::<ClusterVersion>::of_cluster(&access).manager(MANAGER);
    let versions = versions.dry_run(is_dry);
    let named = ("the cluster", cluster_version::NAME);
    let decided = set(&versions.read_as(), named, wish).await?;
    report(arguments, &decided, is_dry)
}

/// `slipway node NAME hold|release`.
pub(crate) async fn node(
    name: &str,
    verb: NodeVerb,
    reason: &ReasonArgs,
    arguments: &ClusterArgs,
) -> anyhow::Result<Ending> {
    reason.check(verb == NodeVerb::Hold, "hold")?;
    let access = arguments.access()?;
    let nodes = Objects::<Node>::of_cluster(&access).manager(MANAGER);
    let read = nodes.get(name).await;
    let read = read.with_context(|| format!("cannot read Node {name}"))?;
    let Some(read) = read else {
        bail!("Node {name}: there is no such node");
    };
    let present = NodeView::parse(read).hold;
    let wish = match verb {
        NodeVerb::Hold => HoldWish::Hold(reason.text()),
        NodeVerb::Release => HoldWish::Release,
    };
    let decided = stop::hold(name, present.as_ref(), wish);
    if let Some(patch) = &decided.patch {
        let changed = nodes.read_as::<IgnoredAny>().patch(name, patch).await;
        changed.with_context(|| format!("cannot change Node {name}"))?;
    }
    report(arguments, &decided, false)
}

/// Reads an object, decides about its switch, and changes it. Another change in between, such as
/// that of another person, is an error and no loss.
async fn set(
    objects: &Objects<'_, Switched>,
    (what, name): (&str, &str),
    wish: StopWish,
) -> anyhow::Result<StopDecision> {
    let read = objects.get(name).await;
    let read = read.with_context(|| format!("cannot read {what}"))?;
    let Some(read) = read else {
        bail!("{what}: there is no such object");
    };
    let metadata = read.metadata;
    let present = StopSwitch::read(metadata.annotations.as_ref());
    let decided = stop::switch(what, present.as_ref(), wish);
    if let Some(patch) = &decided.patch {
        let version = metadata.resource_version.as_deref();
        let changed = objects.patch_if(name, version, patch.clone()).await;
        changed.with_context(|| format!("cannot change {what}"))?;
    }
    Ok(decided)
}

/// A stop by the user of the kubeconfig, as of now.
async fn stop_wish(
    arguments: &ClusterArgs,
    access: &Access,
    reason: &ReasonArgs,
) -> anyhow::Result<StopWish> {
    Ok(StopWish::Stop(StopRecord {
        by: user(arguments, access).await?,
        since: Timestamp::from_second(Timestamp::now().as_second())?,
        reason: reason.text(),
    }))
}

/// Who the API server takes the user for; where it does not say, whom the kubeconfig names.
async fn user(arguments: &ClusterArgs, access: &Access) -> anyhow::Result<String> {
    match review::own_user(access).await {
        Ok(Some(user)) => Ok(user),
        Ok(None) => arguments.user(),
        Err(error) if error.is_not_found() || error.code() == Some(403) => arguments.user(),
        Err(error) => Err(error).context("cannot ask the API server who the user is"),
    }
}

fn report(arguments: &ClusterArgs, decided: &StopDecision, is_dry: bool) -> anyhow::Result<Ending> {
    let has_change = decided.patch.is_some();
    let done = json!({
        "changed": has_change && !is_dry, "message": decided.message.trim_end()
    });
    show(arguments.output, &done, || {
        let mut message = decided.message.clone();
        if is_dry && has_change {
            message.push_str("info: Dry run: nothing was changed\n");
        }
        message
    })?;
    Ok(Ending::Done)
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};
    use serde_json::Value;

    use super::*;

    const POOL: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools/worker";

    fn pool_with(annotations: &Value) -> Value {
        json!({
            "metadata": { "name": "worker", "resourceVersion": "7", "annotations": annotations },
            "spec": {}
        })
    }

    /// Decides about the pool by these calls.
    async fn decided(wish: StopWish, calls: Vec<Call>) -> anyhow::Result<StopDecision> {
        let (script, client) = Script::start(calls);
        let access = Access::of_client(client);
        let pools = Objects::<MachineConfigPool>::of_cluster(&access).manager(MANAGER);
        let named = ("MachineConfigPool worker", "worker");
        script.drive(set(&pools.read_as(), named, wish)).await
    }

    fn stop() -> StopWish {
        StopWish::Stop(StopRecord {
            by: "alice".to_owned(),
            since: "2026-11-30T07:15:00Z".parse().unwrap(),
            reason: "kernel bug".to_owned(),
        })
    }

    #[tokio::test]
    async fn a_switch_is_written_as_it_was_read_and_once() {
        let value = r#"{"by":"alice","since":"2026-11-30T07:15:00Z","reason":"kernel bug"}"#;
        let annotations = json!({ "slipway.dev/stop": value });
        let body = |value: Value| {
            json!({ "metadata": {
                "resourceVersion": "7", "annotations": { "slipway.dev/stop": value }
            } })
        };
        let get = |annotations: &Value| Call::get(POOL, Reply::ok(pool_with(annotations)));
        let patch = |value: Value, reply: Reply| {
            Call::patch(&format!("{POOL}?fieldManager=slipway"), body(value), reply)
        };
        let ok = || Reply::ok(pool_with(&annotations));
        let calls = vec![get(&json!({})), patch(json!(value), ok())];
        assert!(decided(stop(), calls).await.unwrap().patch.is_some());
        let calls = vec![get(&annotations)];
        assert_eq!(decided(stop(), calls).await.unwrap().patch, None);
        let calls = vec![get(&annotations), patch(Value::Null, ok())];
        let gone = decided(StopWish::Go, calls).await.unwrap();
        assert!(gone.message.contains("it was stopped by alice"));
        // Another person was faster.
        let conflict = Reply::failure(409, "Conflict", "the object has been modified");
        let calls = vec![get(&json!({})), patch(json!(value), conflict)];
        let error = decided(stop(), calls).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot change MachineConfigPool worker");
        let none = Reply::failure(404, "NotFound", "no");
        let error = decided(stop(), vec![Call::get(POOL, none)]).await;
        assert_eq!(
            error.unwrap_err().to_string(),
            "MachineConfigPool worker: there is no such object"
        );
    }

    /// Where the API server does not say who the user is, the kubeconfig does.
    #[tokio::test]
    async fn who_stops_is_known_to_the_server_or_named_by_the_kubeconfig() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let text = "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
                    clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                    users: [{name: admin, user: {token: t}}]\n\
                    contexts: [{name: x, context: {cluster: c, user: admin}}]\n";
        std::io::Write::write_all(&mut std::fs::File::create(&path).unwrap(), text.as_bytes())
            .unwrap();
        let arguments = ClusterArgs {
            kubeconfig: Some(path),
            output: None,
        };
        let reviewed = |user: Value| Reply::ok(json!({ "status": { "userInfo": user } }));
        for (reply, expected) in [
            (
                reviewed(json!({ "username": "system:admin" })),
                Some("system:admin"),
            ),
            (reviewed(json!({ "username": "" })), Some("admin")),
            (reviewed(json!({})), Some("admin")),
            (Reply::failure(404, "NotFound", "no"), Some("admin")),
            (Reply::failure(403, "Forbidden", "no"), Some("admin")),
            (Reply::failure(400, "BadRequest", "no"), None),
        ] {
            let review = Call::post(
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" }),
                reply,
            );
            let (script, client) = Script::start(vec![review]);
            let access = Access::of_client(client);
            let found = script.drive(user(&arguments, &access)).await;
            assert_eq!(found.ok().as_deref(), expected);
        }
    }
}
