//! A controller on a page: keeps an annotation of each ConfigMap of a namespace equal to a digest
//! of its data.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chassis::admin;
use chassis::cli::AdminArgs;
use chassis::http::Server;
use chassis::metrics::Registry;
use chassis::shutdown::Shutdown;
use cluster::apply::{self, Applier, Ownership};
use cluster::cache::Cache;
use k8s_openapi::api::core::v1::ConfigMap;
use operator::cli::{ClientArgs, LeaderArgs};
use operator::watch::kept::{Kept, KeptPart, PartOf};
use operator::{ControllerProgram, Next, Operator, Reconcile, Wake, WatchScope, client};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

/// The annotation.
pub(crate) const DIGEST: &str = "toy.slipway.dev/digest";

/// The command line.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    #[command(flatten)]
    client: ClientArgs,
    #[arg(long)]
    namespace: String,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    leader: LeaderArgs,
}

/// What is kept of a ConfigMap.
#[derive(Debug, PartialEq)]
pub(crate) struct Digested {
    data: BTreeMap<String, String>,
    digest: Option<String>,
}

impl KeptPart for Digested {
    type Object = ConfigMap;

    fn of(object: ConfigMap) -> Self {
        let annotations = object.metadata.annotations.unwrap_or_default();
        Self {
            data: object.data.unwrap_or_default(),
            digest: annotations.get(DIGEST).cloned(),
        }
    }
}

/// The digest to be written; nothing where it is there already.
fn decide(map: &Digested) -> Option<String> {
    let digest = hex::encode(Sha256::digest(json!(map.data).to_string()));
    (map.digest.as_ref() != Some(&digest)).then_some(digest)
}

struct Digests {
    cache: Cache<PartOf<Digested>>,
    applier: Applier,
    turns: Arc<Semaphore>,
}

impl Reconcile for Digests {
    type Key = String;
    type Error = apply::Error;

    fn keys(&self) -> Vec<String> {
        let table = self.cache.table();
        table.values().map(|map| map.name.clone()).collect()
    }

    async fn reconcile(&self, name: &String) -> Result<Next, apply::Error> {
        let Some(map) = self.cache.get(name) else {
            return Ok(Next::Gone);
        };
        // The semaphore is never closed: an error would only skip the limit.
        let _turn = self.turns.acquire().await.ok();
        if let Some(digest) = decide(&map) {
            let metadata = json!({ "name": name, "annotations": { DIGEST: digest } });
            let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
            self.applier.apply(&object, Ownership::Respect).await?;
        }
        Ok(Next::Settled)
    }
}

/// Runs until the shutdown. `turns` are how many digests are made at once.
pub(crate) async fn start(
    options: Options,
    turns: Arc<Semaphore>,
    shutdown: Shutdown,
) -> anyhow::Result<()> {
    let kubeconfig = options.client.kubeconfig.as_deref();
    let program = ControllerProgram::of(client::connect(kubeconfig, "toy/1")?, shutdown);
    let leader = options.leader;
    let candidacy = leader.candidacy(&options.namespace, "toy", client::identity)?;
    let cache = Cache::default();
    let digests = Digests {
        applier: Applier::new(Arc::clone(&program.access), "toy").namespace(&options.namespace),
        cache: cache.clone(),
        turns,
    };
    let named = |map: &Kept<Digested>| Wake::Keys(vec![map.name.clone()]);
    let server = Server::bind(options.admin.metrics_url, admin::LIMITS).await?;
    let operator = Operator::new("toy", Arc::clone(&program.access))
        .lease(candidacy)
        .deadline(Duration::from_secs(2))
        .serve(server, Registry::default())
        .watch(
            &cache,
            WatchScope::namespace(&options.namespace),
            move |before, after| after.or(before).map_or(Wake::All, named),
        );
    Ok(program.run(operator, digests).await?)
}
