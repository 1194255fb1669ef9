//! One process, from its start to its end.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::config::preflight::RenderedPools;
use api::monitoring::METRICS_READER;
use chassis::http::Server;
use chassis::http::tls::ClientAuthorities;
use chassis::logs::Log;
use chassis::metrics::Registry;
use chassis::secure_metrics::{SecureListener, SecureMetrics, SecureServer};
use chassis::shutdown::Shutdown;
use chassis::{admin, shutdown};
use cluster::access::Access;
use cluster::events::{Recorder, Speaker};
use jiff::Timestamp;
use operator::token_clients::TokenClients;
use operator::{Operator, client};
use tokio::task::JoinSet;

use crate::cli::{ControllerOptions, RenderOptions};
use crate::duties::Duties;
use crate::metrics::ControllerMetrics;
use crate::metrics_clients;
use crate::reconcile::Controller;
use crate::requests::Requests;
use crate::store::Store;
use crate::version::USER_AGENT;
use crate::watches::watch_all;

/// How long all requests of a rendering may take.
const RENDER: Duration = Duration::from_mins(2);

/// Runs until it is asked to stop, or the lease is lost.
///
/// # Errors
/// Bad credentials, a taken address, a lost lease: a new process starts over better than this one.
pub async fn start(options: ControllerOptions, log: Log) -> anyhow::Result<()> {
    // It fails if a provider was installed before: then that one is used.
    drop(rustls::crypto::ring::default_provider().install_default());
    let shutdown = shutdown::on_signals().context("cannot handle signals")?;
    let following = tokio::spawn(log.follow(shutdown.clone()));
    let access = Arc::new(client::connect(options.kubeconfig.as_deref(), USER_AGENT)?);
    let server = Server::bind(options.metrics, admin::LIMITS).await?;
    let metrics = Arc::new(ControllerMetrics::default());
    let duties = options.duties;
    let registry = || match duties {
        Duties::All | Duties::Pools => metrics.registry(),
        // Those are of pools and nodes.
        Duties::Cluster => Registry::default(),
    };
    let operator = Operator::new(duties.prefix(), Arc::clone(&access));
    let mut page = registry();
    operator.register(&mut page);
    let beside = serve_metrics(options.secure, page, &access, &shutdown).await?;
    let registry = registry();
    let speaker = Speaker {
        component: duties.speaker().to_owned(),
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
    let metrics = Arc::clone(&metrics);
    let controller = Controller::new(requests, store.clone(), recorder, metrics, Timestamp::now)
        .with_duties(duties)
        .keeping(options.retention)
        .on_node(options.node)
        .asking(options.metrics_server);
    let result = watch_all(operator, &store, duties)
        .lease(options.candidacy)
        .serve(server, registry)
        .run(controller, shutdown)
        .await;
    // After a lost lease there is no shutdown that would end them.
    following.abort();
    drop(beside);
    // The last recorder is gone with the controller: its events are sent, then the task ends.
    sending.await.context("the task that sends events failed")?;
    Ok(result?)
}

/// Serves metrics over HTTPS, where they are wanted. Dropped, the tasks end.
async fn serve_metrics(
    listener: Option<SecureListener>,
    registry: Registry,
    access: &Arc<Access>,
    shutdown: &Shutdown,
) -> Result<JoinSet<()>, chassis::http::Error> {
    let mut beside = JoinSet::new();
    let Some(listener) = listener else {
        return Ok(beside);
    };
    let authorities = ClientAuthorities::default();
    let server = SecureServer::bind(listener).await?;
    let page = SecureMetrics {
        registry,
        authorities: authorities.clone(),
        reader: METRICS_READER,
        tokens: Some(Arc::new(TokenClients::new(Arc::clone(access)))),
    };
    let following = metrics_clients::follow(Arc::clone(access), authorities, shutdown.clone());
    beside.spawn(following);
    beside.spawn(server.serve(page, shutdown.clone()));
    Ok(beside)
}

/// Renders every pool as another release would, and writes the outcome to a file.
///
/// # Errors
/// The cluster cannot be read within [`RENDER`], or the file cannot be written. That a pool cannot
/// be rendered is an outcome.
pub async fn render(options: RenderOptions) -> anyhow::Result<()> {
    let access = Arc::new(client::connect(options.kubeconfig.as_deref(), USER_AGENT)?);
    let requests = Requests::new(access);
    let rendered = tokio::time::timeout(RENDER, options.release.render(&requests));
    let rendered = rendered.await.context("the cluster does not answer")?;
    let rendered = rendered.context("cannot read the cluster")?;
    for pool in &rendered {
        if pool.failure.is_empty() {
            tracing::info!(pool = pool.pool, config = pool.config, "rendered");
        } else {
            tracing::warn!(pool = pool.pool, reason = pool.failure, "not rendered");
        }
    }
    let path = &options.output;
    let failed = || format!("cannot write {}", path.display());
    // The kubelet has made the file, and mounted it: it cannot be replaced.
    let mut file = std::fs::OpenOptions::new();
    let file = file.write(true).create(true).truncate(true).open(path);
    let message = RenderedPools::to_message(rendered);
    file.and_then(|mut file| file.write_all(message.as_bytes()))
        .with_context(failed)
}
