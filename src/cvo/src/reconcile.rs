//! The version operator as a controller: keys accept the release that is asked for, apply it, ask
//! for updates, evaluate their risks, and write the status.
//!
//! - `acceptance`: another release on its way to the one that is applied
//! - `advising`: the update service and the cluster's metrics
//! - `applying`: the release
//! - `preflighting`: another release is checked without a change
//! - `pruning`: objects that a release dropped
//! - `recording`: the progress record
//! - `reporting`: the status of the ClusterVersion, and how far the release is

mod acceptance;
mod advising;
mod applying;
mod preflighting;
mod pruning;
mod recording;
mod reporting;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use api::config::{ClusterVersion, Release, cluster_version};
use chassis::backoff::Backoff;
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

use self::acceptance::{FirstTry, RequestPace};
use self::advising::Advised;
use self::recording::KnownRecord;
use crate::engine::{Engine, Shared};
use crate::metrics::VersionMetrics;
use crate::payload::ReleaseFiles;
use crate::retrieval::RetrievalSettings;
use crate::watches::{ClusterVersions, OperatorView};
use version_update::builder;
use version_update::dropped::ReleaseInventory;
use version_update::failure::Failure;
use version_update::status;

/// How often the status is made anew while a release is applied. It is written if it differs.
const TICK: Duration = Duration::from_secs(1);

/// What is reconciled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VersionWork {
    /// The release that is asked for.
    Request,
    /// The release.
    Release,
    /// Updates that are offered.
    Advice,
    /// Their risks.
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
    /// Cluster profile.
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
    /// Who is asked about updates.
    pub advice: AdviceSettings,
}

/// Who is asked about updates and their risks.
#[derive(Debug, Clone, Default)]
pub struct AdviceSettings {
    /// The update service in place of the ClusterVersion's.
    pub service: Option<String>,
    /// The cluster's metrics.
    pub metrics: MetricsServer,
}

/// The release that is applied, on disk.
#[derive(Debug)]
struct Target {
    root: PathBuf,
    image: String,
    /// Whether it is the own one.
    is_local: bool,
    /// Capabilities that the update to it has turned on.
    implied: BTreeSet<String>,
}

impl Target {
    /// The own release.
    fn local(settings: &VersionOperatorSettings) -> Self {
        Self {
            root: settings.root.clone(),
            image: settings.image.clone(),
            is_local: true,
            implied: BTreeSet::new(),
        }
    }
}

/// The release that is applied, read.
#[derive(Debug)]
struct Loaded {
    target: Arc<Target>,
    cluster: Cluster,
    files: ReleaseFiles,
    /// What is wrong with manifests that are left out for it.
    fault: Option<Failure>,
}

/// What the version operator reads of others.
#[derive(Debug)]
pub struct VersionCaches {
    /// The ClusterVersion.
    pub versions: Cache<ClusterVersions>,
    /// ClusterOperators.
    pub operators: Cache<PartOf<OperatorView>>,
    /// The ConfigMap in which a release asks administrators for something.
    pub gates: Cache<PartOf<ConfigMapData>>,
    /// The ConfigMap in which they answer.
    pub acks: Cache<PartOf<ConfigMapData>>,
}

/// The version operator.
#[derive(Debug)]
pub struct VersionOperator {
    access: Arc<Access>,
    settings: VersionOperatorSettings,
    caches: VersionCaches,
    engine: Engine,
    shared: Shared,
    metrics: Arc<VersionMetrics>,
    recorder: Recorder,
    waker: Waker<VersionWork>,
    now: fn() -> Timestamp,
    target: Mutex<Arc<Target>>,
    loaded: Mutex<Option<Arc<Loaded>>>,
    /// The own release, once it was read.
    own: OnceLock<Release>,
    /// Whether the release that is asked for was tried since the start.
    first_try: FirstTry,
    pace: Mutex<Pace>,
    request_pace: Mutex<RequestPace>,
    advised: Mutex<Advised>,
    /// What is stored of the release that is applied.
    inventory: Mutex<Option<ReleaseInventory>>,
    /// The progress record, and what is stored of it.
    record: Mutex<KnownRecord>,
}

/// Metrics and events, which people read besides the status.
#[derive(Debug)]
pub struct Voice {
    /// Metrics.
    pub metrics: Arc<VersionMetrics>,
    /// Events.
    pub recorder: Recorder,
}

/// How often the release was applied, and when the status was written.
#[derive(Debug)]
struct Pace {
    attempt: u64,
    failures: Backoff,
    written: Option<Instant>,
}

impl VersionOperator {
    /// Applies the release of `settings` by `engine`, and tells people by `voice`.
    pub fn new(
        access: Arc<Access>,
        settings: VersionOperatorSettings,
        caches: VersionCaches,
        engine: Engine,
        voice: Voice,
        waker: Waker<VersionWork>,
        now: fn() -> Timestamp,
    ) -> Self {
        let interval = settings.interval;
        Self {
            access,
            target: Mutex::new(Arc::new(Target::local(&settings))),
            settings,
            caches,
            shared: engine.shared(),
            engine,
            metrics: voice.metrics,
            recorder: voice.recorder,
            waker,
            now,
            loaded: Mutex::default(),
            own: OnceLock::new(),
            first_try: FirstTry::default(),
            advised: Mutex::default(),
            inventory: Mutex::default(),
            record: Mutex::default(),
            request_pace: Mutex::new(RequestPace::new(interval)),
            pace: Mutex::new(Pace {
                attempt: 0,
                failures: Backoff::new(interval / 16, interval),
                written: None,
            }),
        }
    }

    fn object(&self) -> Option<Arc<ClusterVersion>> {
        self.caches.versions.get(cluster_version::NAME)
    }

    /// The release that is applied, if it was read.
    fn loaded(&self) -> Option<Arc<Loaded>> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.clone()
    }

    /// The own release: all that is known of it. While its files cannot be read, what the status
    /// has of it.
    fn own(&self) -> Release {
        self.own.get().cloned().unwrap_or_else(|| {
            let object = self.object();
            let status = object.as_ref().and_then(|object| object.status.as_ref());
            status::known_release(&self.settings.image, status)
        })
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

    fn target(&self) -> std::sync::MutexGuard<'_, Arc<Target>> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inventory(&self) -> std::sync::MutexGuard<'_, Option<ReleaseInventory>> {
        let inventory = self.inventory.lock();
        inventory.unwrap_or_else(PoisonError::into_inner)
    }

    fn request_pace(&self) -> std::sync::MutexGuard<'_, RequestPace> {
        let pace = self.request_pace.lock();
        pace.unwrap_or_else(PoisonError::into_inner)
    }

    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
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
            VersionWork::Advice => self.advise().await,
            VersionWork::Risks => self.evaluate().await,
            VersionWork::Preflight => Box::pin(self.preflight()).await,
            VersionWork::Status => self.report().await,
        }
    }

    async fn finish(&self) {
        // What is under way was given up: the status is written however long ago it was before.
        self.pace().written = None;
        if let Err(error) = self.report().await {
            let error = chassis::report::Chain(&error).to_string();
            tracing::warn!(error, "cannot write the last status");
        }
    }
}
