//! One process, from its start to its end.

use std::sync::Arc;

use anyhow::Context as _;
use chassis::http::Server;
use chassis::logs::Log;
use chassis::{admin, shutdown};
use cluster::events::{Recorder, Speaker};
use jiff::Timestamp;
use operator::{Operator, client};

use crate::cli::ControllerOptions;
use crate::metrics::ControllerMetrics;
use crate::reconcile::Controller;
use crate::requests::Requests;
use crate::store::Store;
use crate::watches::watch_all;

/// What the process calls itself in requests.
const USER_AGENT: &str = concat!("mcc/", env!("CARGO_PKG_VERSION"));

/// Runs until it is asked to stop, or the lease is lost.
///
/// # Errors
/// Bad credentials, a taken address, a lost lease: a new process starts over better than this one.
pub async fn start(options: ControllerOptions, log: Log) -> anyhow::Result<()> {
    let shutdown = shutdown::on_signals().context("cannot handle signals")?;
    let following = tokio::spawn(log.follow(shutdown.clone()));
    let access = Arc::new(client::connect(options.kubeconfig.as_deref(), USER_AGENT)?);
    let server = Server::bind(options.metrics, admin::LIMITS).await?;
    let metrics = Arc::new(ControllerMetrics::default());
    let registry = metrics.registry();
    let speaker = Speaker {
        component: "machineconfigcontroller".to_owned(),
        host: String::new(),
        namespace: options.namespace,
    };
    let (recorder, sending) = Recorder::new(Arc::clone(&access), speaker);
    let sending = tokio::spawn(sending);
    let store = Store {
        version: options.version,
        ..Store::default()
    };
    let requests = Requests::new(Arc::clone(&access));
    let controller = Controller::new(requests, store.clone(), recorder, metrics, Timestamp::now);
    let result = watch_all(Operator::new("mcc", access), &store)
        .lease(options.candidacy)
        .serve(server, registry)
        .run(controller, shutdown)
        .await;
    // After a lost lease there is no shutdown that would end it.
    following.abort();
    // The last recorder is gone with the controller: its events are sent, then the task ends.
    sending.await.context("the task that sends events failed")?;
    Ok(result?)
}
