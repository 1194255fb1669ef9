//! The version operator as a controller: keys accept the requested release, apply it, ask
//! for updates, evaluate their risks, and write the status.
//!
//! - `acceptance`: another release on its way to the one that is applied
//! - `advising`: the update service and the cluster's metrics
//! - `applying`: the release
//! - `preflighting`: another release is checked without a change
//! - `pruning`: objects that a release dropped
//! - `recording`: the progress record
//! - `releases`: the state of the release
//! - `reporting`: the status of the ClusterVersion, and how far the release is

mod acceptance;
mod advising;
mod applying;
mod preflighting;
mod pruning;
mod recording;
mod releases;
mod reporting;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::config::{ClusterVersion, cluster_version};
use cluster::access::Access;
use cluster::cache::Cache;
use cluster::events::Recorder;
use cluster::path;
use cluster::wire::{self, RequestBody};
use http::Method;
use jiff::Timestamp;
use operator::watch::kept::{ConfigMapData, PartOf};
use operator::{Next, Reconcile, Waker, Watched as _};
use release::inclusion::Cluster;
use serde_json::json;
use tokio::time::Instant;
use web::prometheus::MetricsServer;

use self::recording::LastRecord;
use self::releases::Releases;
use crate::engine::Engine;
use crate::metrics::VersionMetrics;
use crate::payload::ReleaseFiles;
use crate::retrieval::RetrievalSettings;
use crate::watches::{ClusterVersions, OperatorView};
use version_update::advised::Advised;
use version_update::builder;
use version_update::failure::Failure;
use version_update::release_state::ReleaseOnDisk;

/// How often the status is computed while a release is applied. It is written if it differs.
const TICK: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VersionWork {
    Request,
    Release,
    /// Updates that are offered.
    Advice,
    Risks,
    /// A preflight of another release.
    Preflight,
    /// The status of the ClusterVersion.
    Status,
}

impl fmt::Display for VersionWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Release => "release",
            Self::Advice => "advice",
            Self::Risks => "risks",
            Self::Preflight => "preflight",
            Self::Status => "status",
        })
    }
}

/// What a version operator is started with.
#[derive(Debug, Clone)]
pub struct VersionOperatorSettings {
    /// Directory of the own release.
    pub root: PathBuf,
    /// Pull spec of the own release.
    pub image: String,
    pub profile: String,
    /// Identity in exclusions.
    pub exclude: String,
    /// Capabilities that are always on.
    pub always: BTreeSet<String>,
    /// Base interval: the release is applied again that often.
    pub interval: Duration,
    /// Namespace of the inventory of applied releases, where dropped objects are removed by it.
    pub inventory: Option<String>,
    /// How other releases are retrieved.
    pub retrieval: RetrievalSettings,
    /// Sources of updates.
    pub advice: AdviceSettings,
}

/// Sources of updates and their risks.
#[derive(Debug, Clone, Default)]
pub struct AdviceSettings {
    /// The update service in place of the ClusterVersion's.
    pub service: Option<String>,
    pub metrics: MetricsServer,
}

/// A release that is read.
#[derive(Debug)]
struct Loaded {
    on_disk: Arc<ReleaseOnDisk>,
    cluster: Cluster,
    files: ReleaseFiles,
    /// What is wrong with manifests that are left out for it.
    fault: Option<Failure>,
}

/// What the version operator reads of others.
#[derive(Debug)]
pub struct VersionCaches {
    pub versions: Cache<ClusterVersions>,
    pub operators: Cache<PartOf<OperatorView>>,
    /// The ConfigMap in which a release asks administrators for something.
    pub gates: Cache<PartOf<ConfigMapData>>,
    /// The ConfigMap in which they acknowledge it.
    pub acks: Cache<PartOf<ConfigMapData>>,
}

#[derive(Debug)]
pub struct VersionOperator {
    access: Arc<Access>,
    settings: VersionOperatorSettings,
    caches: VersionCaches,
    engine: Engine,
    metrics: Arc<VersionMetrics>,
    recorder: Recorder,
    waker: Waker<VersionWork>,
    now: fn() -> Timestamp,
    /// The state of the release.
    releases: Mutex<Releases>,
    advised: Mutex<Advised>,
    /// What is written of the release.
    written: Mutex<Written>,
}

/// Metrics and events, which people read besides the status.
#[derive(Debug)]
pub struct Reporters {
    pub metrics: Arc<VersionMetrics>,
    pub recorder: Recorder,
}

/// What is written of the release.
#[derive(Debug, Default)]
struct Written {
    status: Option<Instant>,
    record: LastRecord,
}

impl VersionOperator {
    /// Applies the release of `settings` by `engine`, and reports by `reporters`.
    pub fn new(
        access: Arc<Access>,
        settings: VersionOperatorSettings,
        caches: VersionCaches,
        engine: Engine,
        reporters: Reporters,
        waker: Waker<VersionWork>,
        now: fn() -> Timestamp,
    ) -> Self {
        Self {
            access,
            releases: Mutex::new(Releases::new(&settings)),
            settings,
            caches,
            engine,
            metrics: reporters.metrics,
            recorder: reporters.recorder,
            waker,
            now,
            advised: Mutex::default(),
            written: Mutex::default(),
        }
    }

    fn object(&self) -> Option<Arc<ClusterVersion>> {
        self.caches.versions.get(cluster_version::NAME)
    }

    /// Sets an annotation of the ClusterVersion, or removes it.
    async fn annotate(&self, key: &str, text: Option<&str>) -> Result<(), wire::Error> {
        let change = json!({ "metadata": { "annotations": { key: text } } });
        let path = path::object::<ClusterVersion>(cluster_version::NAME);
        let written = self
            .access
            .send(Method::PATCH, &path, RequestBody::MergePatch(&change))
            .await?;
        self.caches
            .versions
            .refresh(ClusterVersions::parse(written));
        Ok(())
    }

    /// Ends when another spec is to be followed.
    async fn replaced(&self, object: &ClusterVersion) {
        loop {
            tokio::time::sleep(TICK).await;
            let now = self.object();
            let is_same = |now: Arc<ClusterVersion>| {
                now.metadata.generation == object.metadata.generation
                    && builder::tolerated(&now) == builder::tolerated(object)
            };
            if !now.is_some_and(is_same) {
                return;
            }
        }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconcile for VersionOperator {
    type Key = VersionWork;
    type Error = wire::Error;

    fn keys(&self) -> Vec<VersionWork> {
        vec![
            VersionWork::Request,
            VersionWork::Release,
            VersionWork::Advice,
            VersionWork::Risks,
            VersionWork::Preflight,
            VersionWork::Status,
        ]
    }

    async fn reconcile(&self, key: &VersionWork) -> Result<Next, wire::Error> {
        match key {
            VersionWork::Request => self.accept().await,
            VersionWork::Release => self.apply().await,
            VersionWork::Advice => self.retrieve_updates().await,
            VersionWork::Risks => self.evaluate().await,
            VersionWork::Preflight => Box::pin(self.preflight()).await,
            VersionWork::Status => self.report().await,
        }
    }

    async fn finish(&self) {
        // What is under way was given up: the status is written however long ago it was before.
        self.written().status = None;
        if let Err(error) = self.report().await {
            let error = chassis::report::Chain(&error).to_string();
            tracing::warn!(error, "cannot write the last status");
        }
    }
}

#[cfg(test)]
mod tests;
