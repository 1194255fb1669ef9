//! One process, from its start to its end.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::config::preflight::RenderedPools;
use api::monitoring::METRICS_READER;
use chassis::admin;
use chassis::http::Server;
use chassis::http::tls::ClientAuthorities;
use chassis::logs::Log;
use chassis::metrics::Registry;
use jiff::Timestamp;
use operator::{ControllerProgram, Operator, client};

use crate::api_server;
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

/// Runs until a signal stops it, or the lease is lost.
///
/// # Errors
/// Bad credentials, a taken address, a lost lease: a new process starts over better than this one.
pub async fn start(options: ControllerOptions, log: Log) -> anyhow::Result<()> {
    let mut program = ControllerProgram::begin(log, options.kubeconfig.as_deref(), USER_AGENT)?;
    let access = Arc::clone(&program.access);
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
    if let Some(listener) = options.secure {
        let authorities = ClientAuthorities::default();
        program
            .serve_secure(listener, page, authorities.clone(), METRICS_READER)
            .await?;
        let shutdown = program.shutdown.clone();
        let follow = metrics_clients::follow(Arc::clone(&access), authorities, shutdown);
        program.spawn(follow);
    }
    let registry = registry();
    let recorder = program.record(duties.speaker(), options.namespace);
    let store = Store {
        version: options.version,
        ..Store::default()
    };
    if duties.has_pools() {
        let version = store.api_server.clone();
        let shutdown = program.shutdown.clone();
        program.spawn(api_server::follow(Arc::clone(&access), version, shutdown));
    }
    let requests = Requests::new(access);
    let metrics = Arc::clone(&metrics);
    let controller = Controller::new(requests, store.clone(), recorder, metrics, Timestamp::now)
        .with_duties(duties)
        .keeping(options.retention)
        .on_node(options.node)
        .with_metrics_server(options.metrics_server)
        .building_with(options.os_builder_image);
    let operator = watch_all(operator, &store, duties)
        .lease(options.candidacy)
        .serve(server, registry);
    Ok(program.run(operator, controller).await?)
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
