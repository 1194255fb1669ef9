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
use cluster::cache::{Cache, CachedKind};
use k8s_openapi::api::core::v1::ConfigMap;
use operator::cli::{ClientArgs, LeaderArgs};
use operator::{Next, Operator, Reconcile, Wake, WatchScope, Watched, client};
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
pub(crate) struct Kept {
    name: String,
    version: String,
    data: BTreeMap<String, String>,
    digest: Option<String>,
}

enum ConfigMaps {}

impl CachedKind for ConfigMaps {
    type Entry = Kept;

    fn name(kept: &Kept) -> &str {
        &kept.name
    }

    fn version(kept: &Kept) -> &str {
        &kept.version
    }

    fn has_same_content(one: &Kept, other: &Kept) -> bool {
        (&one.data, &one.digest) == (&other.data, &other.digest)
    }
}

impl Watched for ConfigMaps {
    type Object = ConfigMap;

    fn parse(object: ConfigMap) -> Kept {
        let metadata = object.metadata;
        Kept {
            name: metadata.name.unwrap_or_default(),
            version: metadata.resource_version.unwrap_or_default(),
            data: object.data.unwrap_or_default(),
            digest: metadata.annotations.unwrap_or_default().remove(DIGEST),
        }
    }
}

struct Digests {
    cache: Cache<ConfigMaps>,
    applier: Applier,
    turns: Arc<Semaphore>,
}

impl Reconcile for Digests {
    type Key = String;
    type Error = apply::Error;

    fn keys(&self) -> Vec<String> {
        let table = self.cache.table();
        table.values().map(|kept| kept.name.clone()).collect()
    }

    async fn reconcile(&self, name: &String) -> Result<Next, apply::Error> {
        let Some(kept) = self.cache.get(name) else {
            return Ok(Next::Gone);
        };
        // The semaphore is never closed: an error would only skip the limit.
        let _turn = self.turns.acquire().await.ok();
        let digest = hex::encode(Sha256::digest(json!(kept.data).to_string()));
        if kept.digest.as_deref() != Some(&digest) {
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
    let access = Arc::new(client::connect(
        options.client.kubeconfig.as_deref(),
        "toy/1",
    )?);
    let leader = options.leader;
    let candidacy = leader.candidacy(&options.namespace, "toy", client::identity)?;
    let cache = Cache::default();
    let digests = Digests {
        applier: Applier::new(Arc::clone(&access), "toy").namespace(&options.namespace),
        cache: cache.clone(),
        turns,
    };
    let named = |kept: &Kept| Wake::Keys(vec![kept.name.clone()]);
    let server = Server::bind(options.admin.metrics_url, admin::LIMITS).await?;
    Operator::new("toy", access)
        .lease(candidacy)
        .deadline(Duration::from_secs(2))
        .serve(server, Registry::default())
        .watch(
            &cache,
            WatchScope::namespace(&options.namespace),
            move |before, after| after.or(before).map_or(Wake::All, named),
        )
        .run(digests, shutdown)
        .await?;
    Ok(())
}
