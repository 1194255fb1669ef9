//! One process, from its start to its end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::config::ClusterVersion;
use api::monitoring::METRICS_READER;
use chassis::http::Server;
use chassis::http::tls::ClientAuthorities;
use chassis::logs::Log;
use chassis::secure_metrics::{SecureListener, SecureMetrics, SecureServer};
use chassis::shutdown::Shutdown;
use chassis::{admin, shutdown};
use cluster::cache::Cache;
use cluster::events::{Recorder, Speaker};
use jiff::Timestamp;
use operator::token_clients::TokenClients;
use operator::{Operator, Wake, WatchScope, client};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::authorities::{self, AUTHORITIES};
use crate::cli::VersionOperatorOptions;
use crate::engine::{Engine, Shared};
use crate::hands::Hands;
use crate::metrics::VersionMetrics;
use crate::preflight;
use crate::reconcile::{VersionCaches, VersionOperator, VersionWork, Voice};
use crate::upgradeable::{ACKS, GATES};
use crate::watches::{AdminMap, AdminMaps};

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
    let clients = ClientAuthorities::default();
    let (versions, operators) = (Cache::default(), Cache::default());
    let (gates, acks) = (Cache::default(), Cache::default());
    let bundles = Cache::<AdminMaps>::default();
    let (waker, changes) = watch::channel(());
    let shared = Shared::default();
    let metrics = Arc::new(VersionMetrics::new(
        versions.clone(),
        operators.clone(),
        shared.clone(),
    ));
    let registry = metrics.registry();
    let operator = Operator::new("cvo", Arc::clone(&access));
    let mut whole = metrics.registry();
    operator.register(&mut whole);
    let page = SecureMetrics {
        registry: whole,
        authorities: clients.clone(),
        reader: METRICS_READER,
        tokens: Some(Arc::new(TokenClients::new(Arc::clone(&access)))),
    };
    let secure = serve_metrics(options.secure, page, shutdown.clone()).await?;
    let engine = Engine::new(
        Hands::new(Arc::clone(&access)),
        operators.clone(),
        changes,
        shared.clone(),
        metrics.rewrites.clone(),
    );
    // Also when all were read anew: a pass that waits for one must see it.
    let counting = Arc::clone(&metrics);
    operators.listen(move |change| {
        counting.observe(change);
        waker.send_replace(());
    });
    // Also when all were read anew. The listener keeps the cache as long as the process runs.
    let read = bundles.clone();
    bundles.listen(move |_| {
        let (_, name) = AUTHORITIES;
        authorities::learn(&clients, read.get(name).as_deref());
    });
    let known = shared.clone();
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
        Voice { metrics, recorder },
        operator.waker(),
        Timestamp::now,
    );
    let admin_map = |(namespace, name): (&str, &str)| WatchScope::namespace(namespace).named(name);
    let status = |_: Option<&AdminMap>, _: Option<&AdminMap>| Wake::Keys(vec![VersionWork::Status]);
    let result = operator
        .lease(options.candidacy)
        .deadline(STUCK_AFTER)
        .serve(server, registry)
        .watch(&versions, WatchScope::cluster(), work_of)
        .watch(&operators, WatchScope::cluster(), move |_, _| {
            if known.lock().shown().is_empty() {
                Wake::Keys(vec![VersionWork::Status])
            } else {
                // A pass that has failed may go on now.
                Wake::Keys(vec![VersionWork::Release, VersionWork::Status])
            }
        })
        .watch(&bundles, admin_map(AUTHORITIES), |_, _| {
            Wake::Keys(Vec::new())
        })
        .watch(&gates, admin_map(GATES), status)
        .watch(&acks, admin_map(ACKS), status)
        .run(version_operator, shutdown)
        .await;
    // After a lost lease there is no shutdown that would end them.
    following.abort();
    if let Some(secure) = secure {
        secure.abort();
    }
    // The last recorder is gone with the version operator: its events are sent, then the task ends.
    sending.await.context("the task that sends events failed")?;
    Ok(result?)
}

/// Binds the address of metrics over HTTPS, if one is asked for, and serves there in a task.
async fn serve_metrics(
    listener: Option<SecureListener>,
    page: SecureMetrics,
    shutdown: Shutdown,
) -> Result<Option<JoinHandle<()>>, chassis::http::Error> {
    let Some(listener) = listener else {
        return Ok(None);
    };
    let server = SecureServer::bind(listener).await?;
    Ok(Some(tokio::spawn(server.serve(page, shutdown))))
}

/// The work that a change of ClusterVersion wakes.
fn work_of(before: Option<&ClusterVersion>, after: Option<&ClusterVersion>) -> Wake<VersionWork> {
    let generation =
        |object: Option<&ClusterVersion>| object.map(|object| object.metadata.generation);
    let asked =
        |object: Option<&ClusterVersion>| object.and_then(preflight::request).map(str::to_owned);
    let is_open = |object: Option<&ClusterVersion>| object.is_some_and(preflight::is_open);
    if asked(before) != asked(after) || (is_open(after) && !is_open(before)) {
        Wake::Keys(vec![VersionWork::Preflight, VersionWork::Status])
    } else if generation(before) == generation(after) {
        Wake::Keys(vec![VersionWork::Status])
    } else {
        Wake::All
    }
}
