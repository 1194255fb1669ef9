//! One process, from its start to its end.

use std::sync::Arc;
use std::time::Duration;

use api::config::ClusterVersion;
use api::monitoring::METRICS_READER;
use chassis::admin;
use chassis::http::Server;
use chassis::http::tls::ClientAuthorities;
use chassis::logs::Log;
use cluster::cache::Cache;
use jiff::Timestamp;
use operator::watch::kept::{ConfigMapData, PartOf};
use operator::{ControllerProgram, Operator, Wake, WatchScope};
use tokio::sync::watch;

use crate::authorities::{self, AUTHORITIES};
use crate::cli::VersionOperatorOptions;
use crate::engine::{Engine, SharedReport};
use crate::metrics::VersionMetrics;
use crate::reconcile::{Reporters, VersionCaches, VersionOperator, VersionWork};
use crate::requests::ObjectRequests;
use version_update::preflight;
use version_update::upgradeable::{ACKS, GATES};

/// What the process calls itself in requests.
const USER_AGENT: &str = concat!("cvo/", env!("CARGO_PKG_VERSION"));

/// A pass ends within two intervals; one that takes longer is stuck.
const STUCK_AFTER: Duration = Duration::from_mins(20);

/// Runs until a signal ends it, or the lease is lost.
///
/// # Errors
/// Bad credentials, a taken address, a lost lease: a new process starts over better than this one.
pub async fn start(options: VersionOperatorOptions, log: Log) -> anyhow::Result<()> {
    let mut program = ControllerProgram::begin(log, options.kubeconfig.as_deref(), USER_AGENT)?;
    let access = Arc::clone(&program.access);
    let server = Server::bind(options.metrics, admin::LIMITS).await?;
    let clients = ClientAuthorities::default();
    let (versions, operators) = (Cache::default(), Cache::default());
    let (gates, acks) = (Cache::default(), Cache::default());
    let bundles = Cache::<PartOf<ConfigMapData>>::default();
    let (waker, changes) = watch::channel(());
    let shared = SharedReport::default();
    let metrics = Arc::new(VersionMetrics::new(
        versions.clone(),
        operators.clone(),
        shared.clone(),
    ));
    let registry = metrics.registry();
    let operator = Operator::new("cvo", Arc::clone(&access));
    let mut whole = metrics.registry();
    operator.register(&mut whole);
    if let Some(listener) = options.secure {
        program
            .serve_secure(listener, whole, clients.clone(), METRICS_READER)
            .await?;
    }
    let engine = Engine::new(
        ObjectRequests::new(Arc::clone(&access)),
        operators.clone(),
        changes,
        shared.clone(),
        metrics.rewrites.clone(),
    );
    // Also when all were read again: a pass that waits for one must see it.
    let counting = Arc::clone(&metrics);
    operators.listen(move |change| {
        counting.observe(change);
        waker.send_replace(());
    });
    // Also when all were read again. The listener keeps the cache as long as the process runs.
    let read = bundles.clone();
    bundles.listen(move |_| {
        let (_, name) = AUTHORITIES;
        let map = read.get(name);
        authorities::learn(&clients, map.as_ref().map(|map| &map.part));
    });
    let report = shared.clone();
    let caches = VersionCaches {
        versions: versions.clone(),
        operators: operators.clone(),
        gates: gates.clone(),
        acks: acks.clone(),
    };
    let recorder = program.record("cluster-version-operator", options.namespace);
    let version_operator = VersionOperator::new(
        access,
        options.settings,
        caches,
        engine,
        Reporters { metrics, recorder },
        operator.waker(),
        Timestamp::now,
    );
    let admin_map = |(namespace, name): (&str, &str)| WatchScope::namespace(namespace).named(name);
    let operator = operator
        .lease(options.candidacy)
        .deadline(STUCK_AFTER)
        .serve(server, registry)
        .watch(&versions, WatchScope::cluster(), work_of)
        .watch(&operators, WatchScope::cluster(), move |_, _| {
            if report.lock().shown().is_empty() {
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
        .watch(&acks, admin_map(ACKS), status);
    Ok(program.run(operator, version_operator).await?)
}

fn status<T>(_: Option<&T>, _: Option<&T>) -> Wake<VersionWork> {
    Wake::Keys(vec![VersionWork::Status])
}

/// The work that a change of ClusterVersion wakes.
fn work_of(before: Option<&ClusterVersion>, after: Option<&ClusterVersion>) -> Wake<VersionWork> {
    let generation =
        |object: Option<&ClusterVersion>| object.map(|object| object.metadata.generation);
    let request =
        |object: Option<&ClusterVersion>| object.and_then(preflight::request).map(str::to_owned);
    let is_open = |object: Option<&ClusterVersion>| object.is_some_and(preflight::is_open);
    if request(before) != request(after) || (is_open(after) && !is_open(before)) {
        Wake::Keys(vec![VersionWork::Preflight, VersionWork::Status])
    } else if generation(before) == generation(after) {
        Wake::Keys(vec![VersionWork::Status])
    } else {
        Wake::All
    }
}
