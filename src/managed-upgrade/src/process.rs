//! One process, from its start to its end.

use std::sync::Arc;

use anyhow::Context as _;
use chassis::http::Server;
use chassis::logs::Log;
use chassis::{admin, shutdown};
use cluster::events::{Recorder, Speaker};
use jiff::Timestamp;
use operator::{Operator, client};

use crate::cli::UpgradeOperatorOptions;
use crate::metrics::UpgradeMetrics;
use crate::monitoring::Monitoring;
use crate::reconcile::UpgradeOperator;
use crate::requests::Requests;
use crate::watches::{UpgradeCaches, watch_all};

/// What the process calls itself in requests.
const USER_AGENT: &str = concat!("muo/", env!("CARGO_PKG_VERSION"));

/// Runs until it is asked to stop, or the lease is lost.
///
/// # Errors
/// Bad credentials, a taken address, a lost lease: a new process starts over better than this one.
pub async fn start(options: UpgradeOperatorOptions, log: Log) -> anyhow::Result<()> {
    // Another part of the program may have installed one: it is the same, as there is no other
    // (deny.toml).
    drop(rustls::crypto::ring::default_provider().install_default());
    let shutdown = shutdown::on_signals().context("cannot handle signals")?;
    let following = tokio::spawn(log.follow(shutdown.clone()));
    let access = Arc::new(client::connect(options.kubeconfig.as_deref(), USER_AGENT)?);
    let server = Server::bind(options.metrics, admin::LIMITS).await?;
    let speaker = Speaker {
        component: "managed-upgrade-operator".to_owned(),
        host: String::new(),
        namespace: options.namespace.clone(),
    };
    let (recorder, sending) = Recorder::new(Arc::clone(&access), speaker);
    let sending = tokio::spawn(sending);
    let metrics = Arc::new(UpgradeMetrics::default());
    let caches = UpgradeCaches::default();
    let reconciler = UpgradeOperator::new(
        Requests::new(Arc::clone(&access), options.namespace.clone()),
        Monitoring::new(options.monitoring),
        caches.clone(),
        recorder,
        Arc::clone(&metrics),
        options.namespace.clone(),
        Timestamp::now,
    );
    let result = watch_all(Operator::new("muo", access), &caches, &options.namespace)
        .lease(options.candidacy)
        .serve(server, metrics.registry())
        .run(reconciler, shutdown)
        .await;
    // After a lost lease there is no shutdown that would end it.
    following.abort();
    // The last recorder is gone with the reconciler: its events are sent, then the task ends.
    sending.await.context("the task that sends events failed")?;
    Ok(result?)
}
