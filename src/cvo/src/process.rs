//! One process, from its start to its end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use chassis::http::Server;
use chassis::logs::Log;
use chassis::{admin, shutdown};
use cluster::cache::Cache;
use cluster::events::{Recorder, Speaker};
use jiff::Timestamp;
use operator::{Operator, Wake, WatchScope, client};
use tokio::sync::watch;

use crate::cli::VersionOperatorOptions;
use crate::engine::{Engine, Shared};
use crate::hands::Hands;
use crate::metrics::VersionMetrics;
use crate::reconcile::{VersionCaches, VersionOperator, VersionWork, Voice};
use crate::upgradeable::{ACKS, GATES};
use crate::watches::AdminMap;

/// What the process calls itself in requests.
const USER_AGENT: &str = concat!("cvo/", env!("CARGO_PKG_VERSION"));

/// A pass ends within two intervals; one that takes longer is stuck.
const STUCK_AFTER: Duration = Duration::from_mins(20);

/// Runs until it is asked to stop, or the lease is lost.
///
/// # Errors
/// Bad credentials, a taken address, a lost lease: a new process starts over better than this one.
pub async fn start(options: VersionOperatorOptions, log: Log) -> anyhow::Result<()> {
    // Another part of the program may have installed one: it is the same, as there is no other
    // (deny.toml).
    drop(rustls::crypto::ring::default_provider().install_default());
    let shutdown = shutdown::on_signals().context("cannot handle signals")?;
    let following = tokio::spawn(log.follow(shutdown.clone()));
    let access = Arc::new(client::connect(options.kubeconfig.as_deref(), USER_AGENT)?);
    let server = Server::bind(options.metrics, admin::LIMITS).await?;
    let (versions, operators) = (Cache::default(), Cache::default());
    let (gates, acks) = (Cache::default(), Cache::default());
    let (waker, changes) = watch::channel(());
    let shared = Shared::default();
    let metrics = Arc::new(VersionMetrics::new(
        versions.clone(),
        operators.clone(),
        shared.clone(),
    ));
    let registry = metrics.registry();
    let engine = Engine::new(
        Hands::new(Arc::clone(&access)),
        operators.clone(),
        changes,
        shared.clone(),
        metrics.rewrites.clone(),
    );
    let known = shared.clone();
    let operator = Operator::new("cvo", Arc::clone(&access));
    let caches = VersionCaches {
        versions: versions.clone(),
        operators: operators.clone(),
        gates: gates.clone(),
        acks: acks.clone(),
    };
    let speaker = Speaker {
        component: "cluster-version-operator".to_owned(),
        host: String::new(),
        namespace: options.namespace,
    };
    let (recorder, sending) = Recorder::new(Arc::clone(&access), speaker);
    let sending = tokio::spawn(sending);
    let version_operator = VersionOperator::new(
        access,
        options.settings,
        caches,
        engine,
        Voice {
            metrics: Arc::clone(&metrics),
            recorder,
        },
        operator.waker(),
        Timestamp::now,
    );
    let admin_map = |(namespace, name): (&str, &str)| WatchScope::namespace(namespace).named(name);
    let status = |_: Option<&AdminMap>, _: Option<&AdminMap>| Wake::Keys(vec![VersionWork::Status]);
    let result = operator
        .lease(options.candidacy)
        .deadline(STUCK_AFTER)
        .serve(server, registry)
        .watch(&versions, WatchScope::cluster(), |before, after| {
            let generation = |object: Option<&api::config::ClusterVersion>| {
                object.map(|object| object.metadata.generation)
            };
            if generation(before) == generation(after) {
                Wake::Keys(vec![VersionWork::Status])
            } else {
                Wake::All
            }
        })
        .watch(&operators, WatchScope::cluster(), move |before, after| {
            metrics.observe(before, after);
            waker.send_replace(());
            if known.lock().shown().is_empty() {
                Wake::Keys(vec![VersionWork::Status])
            } else {
                // A pass that has failed may go on now.
                Wake::Keys(vec![VersionWork::Release, VersionWork::Status])
            }
        })
        .watch(&gates, admin_map(GATES), status)
        .watch(&acks, admin_map(ACKS), status)
        .run(version_operator, shutdown)
        .await;
    // After a lost lease there is no shutdown that would end it.
    following.abort();
    // The last recorder is gone with the version operator: its events are sent, then the task ends.
    sending.await.context("the task that sends events failed")?;
    Ok(result?)
}
