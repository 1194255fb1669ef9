//! One process, from its start to its end.

use std::sync::Arc;

use chassis::admin;
use chassis::http::Server;
use chassis::logs::Log;
use jiff::Timestamp;
use operator::{ControllerProgram, Operator};

use crate::cli::UpgradeOperatorOptions;
use crate::metrics::UpgradeMetrics;
use crate::monitoring::Monitoring;
use crate::reconcile::UpgradeOperator;
use crate::requests::Requests;
use crate::watches::{UpgradeCaches, watch_all};

/// What the process calls itself in requests.
const USER_AGENT: &str = concat!("muo/", env!("CARGO_PKG_VERSION"));

/// Runs until a signal ends it, or the lease is lost.
///
/// # Errors
/// Bad credentials, a taken address, a lost lease: a new process starts over better than this one.
pub async fn start(options: UpgradeOperatorOptions, log: Log) -> anyhow::Result<()> {
    let mut program = ControllerProgram::begin(log, options.kubeconfig.as_deref(), USER_AGENT)?;
    let access = Arc::clone(&program.access);
    let server = Server::bind(options.metrics, admin::LIMITS).await?;
    let recorder = program.record("managed-upgrade-operator", options.namespace.clone());
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
    let operator = watch_all(Operator::new("muo", access), &caches, &options.namespace)
        .lease(options.candidacy)
        .serve(server, metrics.registry());
    Ok(program.run(operator, reconciler).await?)
}
