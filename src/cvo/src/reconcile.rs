//! The version operator as a controller: keys accept the release that is asked for, apply it, ask
//! for updates, evaluate their risks, and write the status.
//!
//! - `acceptance`: another release on its way to the one that is applied
//! - `advising`: the update service and the cluster's metrics
//! - `pruning`: objects that a release dropped
//! - `reporting`: the status of the ClusterVersion, and how far the release is

mod acceptance;
mod advising;
mod pruning;
mod reporting;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use api::config::{ClusterVersion, Release, cluster_version};
use chassis::backoff::Backoff;
use cluster::access::Access;
use cluster::cache::Cache;
use cluster::events::Recorder;
use cluster::wire;
use jiff::Timestamp;
use operator::{Next, Reconcile, Waker};
use release::capability::Capabilities;
use release::graph::Ordering;
use release::inclusion::Cluster;
use release::manifest::ObjectId;
use serde_json::Value;
use tokio::time::Instant;

use self::advising::Advised;
use crate::builder::{self, ClusterProxy};
use crate::dropped::ReleaseInventory;
use crate::engine::{Context, Engine, Shared};
use crate::failure::Failure;
use crate::metrics::VersionMetrics;
use crate::overrides;
use crate::payload::ReleaseFiles;
use crate::progress::CHECKPOINT;
use crate::report::Accepted;
use crate::retrieval::RetrievalSettings;
use crate::status;
use crate::validation::{WantedRelease, validate};
use crate::watches::{AdminMaps, ClusterOperators, ClusterVersions};

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
    /// The cluster's metrics; none: those of the Service `thanos-querier`.
    pub metrics: Option<String>,
    /// Their authority.
    pub metrics_ca: Option<PathBuf>,
    /// File of the token that is sent to them.
    pub metrics_token: Option<PathBuf>,
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
}

/// What the version operator reads of others.
#[derive(Debug)]
pub struct VersionCaches {
    /// The ClusterVersion.
    pub versions: Cache<ClusterVersions>,
    /// ClusterOperators.
    pub operators: Cache<ClusterOperators>,
    /// The ConfigMap in which a release asks administrators for something.
    pub gates: Cache<AdminMaps>,
    /// The ConfigMap in which they answer.
    pub acks: Cache<AdminMaps>,
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
    has_tried: AtomicBool,
    pace: Mutex<Pace>,
    request_pace: Mutex<Backoff>,
    advised: Mutex<Advised>,
    /// What is stored of the release that is applied.
    inventory: Mutex<Option<ReleaseInventory>>,
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
            has_tried: AtomicBool::new(false),
            advised: Mutex::default(),
            inventory: Mutex::default(),
            request_pace: Mutex::new(Backoff::new(interval / 16, interval)),
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

    /// What of the cluster decides which manifests it gets; without capabilities and overrides,
    /// which are read when a manifest's turn comes.
    async fn cluster(&self, version: Option<&str>) -> Result<Cluster, wire::Error> {
        let gates = self.engine.hands().setting("featuregates").await?;
        let gates = gates.unwrap_or_default();
        let text = |pointer| {
            gates
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let of_version = gates
            .pointer("/status/featureGates")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .find(|entry| entry.get("version").and_then(Value::as_str) == version);
        let enabled = of_version.and_then(|entry| entry.get("enabled")?.as_array());
        let names = enabled.into_iter().flatten();
        let names = names.filter_map(|gate| Some(gate.get("name")?.as_str()?.to_owned()));
        let gates = names.collect();
        Ok(Cluster {
            profile: self.settings.profile.clone(),
            exclude: self.settings.exclude.clone(),
            feature_set: text("/spec/featureSet").to_owned(),
            capabilities: Some(Capabilities::all(&gates)),
            gates,
            ..Cluster::default()
        })
    }

    /// The release for this cluster, loaded once.
    fn payload(&self, cluster: &Cluster) -> Result<Arc<Loaded>, Failure> {
        let target = Arc::clone(&self.target());
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |loaded: &&Arc<Loaded>| {
            loaded.cluster == *cluster && Arc::ptr_eq(&loaded.target, &target)
        };
        if let Some(loaded) = loaded.as_ref().filter(is_it) {
            return Ok(Arc::clone(loaded));
        }
        let asked = Cluster {
            // A manifest of a capability that this program does not know is not left out of
            // another release.
            capabilities: cluster.capabilities.clone().filter(|_| target.is_local),
            ..cluster.clone()
        };
        let payload = ReleaseFiles::load(&target.root, &target.image, &asked)
            .map_err(|error| Failure::integrity(chassis::report::Chain(&error).to_string()))?;
        if target.is_local {
            self.own.get_or_init(|| payload.release.clone());
        }
        for (file, passed) in &payload.inventory.passed_over {
            tracing::debug!(file, "not applied: {passed:?}");
        }
        let payload = Arc::new(Loaded {
            target,
            cluster: cluster.clone(),
            files: payload,
        });
        *loaded = Some(Arc::clone(&payload));
        self.waker
            .wake(vec![VersionWork::Request, VersionWork::Advice]);
        Ok(payload)
    }

    /// The release that is applied, if it was read.
    fn loaded(&self) -> Option<Arc<Loaded>> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.clone()
    }

    /// The own release: all that is known of it.
    fn own(&self) -> Release {
        self.own.get().cloned().unwrap_or_else(|| Release {
            image: self.settings.image.clone(),
            ..Release::default()
        })
    }

    /// Whether another release is asked for whose application had begun before this process: the
    /// own one must not be applied in between.
    fn must_wait(&self, object: &ClusterVersion) -> bool {
        let WantedRelease::Other(wanted) = validate(object, &self.own()).1 else {
            return false;
        };
        let status = object.status.as_ref();
        let head = status.and_then(|status| status.history.first());
        let has_begun = head.is_some_and(|head| head.image == wanted.image);
        has_begun && !self.has_tried.load(std::sync::atomic::Ordering::Relaxed)
    }

    async fn apply(&self) -> Result<Next, wire::Error> {
        let Some(object) = self.object() else {
            tracing::debug!("there is no ClusterVersion yet");
            return Ok(Next::Settled);
        };
        let known = {
            let report = self.shared.lock();
            let target = report.target.as_ref();
            target.map_or_else(
                || self.own().version,
                |target| target.release.version.clone(),
            )
        };
        let cluster = self.cluster(
            Some(&known)
                .filter(|known| !known.is_empty())
                .map(String::as_str),
        );
        let cluster = cluster.await?;
        let loaded = match self.payload(&cluster) {
            Ok(loaded) => loaded,
            Err(failure) => {
                tracing::error!("{}", failure.message);
                self.shared.lock().unreadable = Some(failure);
                return Ok(Next::After(self.settings.interval));
            }
        };
        let payload = &loaded.files;
        if known.is_empty() {
            // Gates are those of the version, which is known only now.
            let cluster = self.cluster(Some(&payload.release.version)).await?;
            if cluster != loaded.cluster {
                return Ok(Next::Retry);
            }
        }
        if self.must_wait(&object) {
            tracing::info!("waiting for the release whose application had begun");
            return Ok(Next::Settled);
        }
        let proxy = self.engine.hands().setting("proxies").await?;
        let filter = self.filter(&object, &loaded);
        let entries = &payload.inventory.entries;
        let is_included = |entry: &&release::inventory::Entry| {
            filter.exclusion(&entry.id, &entry.annotations).is_none()
        };
        let entries: Vec<_> = entries.iter().filter(is_included).collect();
        let status = object.status.clone().unwrap_or_default();
        let attempt = self.pace().attempt;
        let ordering = status::ordering(&status, &payload.release, attempt);
        let context = Context {
            ordering,
            owner: object.metadata.uid.clone().unwrap_or_default(),
            proxy: proxy
                .map(|proxy| ClusterProxy::read(&proxy))
                .unwrap_or_default(),
            tolerated: builder::tolerated(&object),
            now: self.now,
        };
        self.begin(&object, payload, &filter, entries.len(), attempt);
        let head = status.history.first();
        let is_recorded = head.is_some_and(|head| head.image == payload.release.image);
        if !loaded.target.is_local && !is_recorded {
            // The own Deployment ends this process. The next one must find in the history how this
            // release was accepted.
            self.waker.wake(vec![VersionWork::Status]);
            return Ok(Next::Retry);
        }
        let interval = self.settings.interval;
        let limit = if ordering == Ordering::Initializing {
            interval
        } else {
            interval * 2
        };
        tracing::info!(?ordering, manifests = entries.len(), "applying the release");
        let pass = tokio::time::timeout(limit, self.engine.run(payload, &entries, &context));
        let ended = tokio::select! {
            ended = pass => ended,
            () = self.replaced(&object) => return Ok(Next::After(Duration::ZERO)),
            () = self.retargeted(&loaded) => return Ok(Next::After(Duration::ZERO)),
        };
        if matches!(ended, Ok(true)) {
            self.prune(&object, &loaded).await;
        }
        let mut pace = self.pace();
        match ended {
            Ok(true) => {
                pace.attempt = match ordering {
                    Ordering::Reconciling { attempt } => attempt + 1,
                    Ordering::Updating | Ordering::Initializing => 0,
                };
                pace.failures.reset();
                tracing::info!("applied the release");
                Ok(Next::After(interval))
            }
            Ok(false) => {
                if let Ordering::Reconciling { attempt } = ordering {
                    pace.attempt = attempt + 1;
                }
                Ok(Next::After(pace.failures.next_delay()))
            }
            // It still waits: what was applied long ago may have changed.
            Err(_) => Ok(Next::After(Duration::ZERO)),
        }
    }

    /// What of the cluster decides whether a manifest's turn comes.
    fn filter(&self, object: &ClusterVersion, loaded: &Loaded) -> Cluster {
        let asked = object.spec.capabilities.clone().unwrap_or_default();
        let additional = asked.additional_enabled_capabilities.into_iter().collect();
        let status = object.status.clone().unwrap_or_default();
        let before = status.capabilities.enabled_capabilities.into_iter();
        let before = before
            .chain(loaded.target.implied.iter().cloned())
            .collect();
        let overrides = overrides::in_force(object, (self.now)());
        let overrides = overrides.into_iter().map(|one| ObjectId {
            group: one.group,
            kind: one.kind,
            namespace: one.namespace,
            name: one.name,
        });
        let always = &self.settings.always;
        let set = &asked.baseline_capability_set;
        let capabilities =
            Capabilities::resolve(set, &additional, &before, always, &loaded.cluster.gates);
        Cluster {
            capabilities: Some(capabilities),
            overrides: overrides.collect(),
            ..loaded.cluster.clone()
        }
    }

    fn begin(
        &self,
        object: &ClusterVersion,
        payload: &ReleaseFiles,
        filter: &Cluster,
        total: usize,
        attempt: u64,
    ) {
        let version_hash = payload.inventory.version_hash.to_string();
        let mut report = self.shared.lock();
        if report.checkpoint.version_hash.is_empty() {
            // The process has started: go on from what the one before had done.
            let annotations = object.metadata.annotations.as_ref();
            let stored = annotations.and_then(|all| all.get(CHECKPOINT)?.parse().ok());
            report.resume(stored.unwrap_or_default());
        }
        if attempt == 0 && report.failures.is_empty() {
            report.pending.clear();
        }
        let accepted = Accepted {
            version_hash,
            capabilities: filter.capabilities.clone().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
        };
        report.begin(accepted, total);
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

    /// Ends when another release is to be applied.
    async fn retargeted(&self, loaded: &Loaded) {
        while Arc::ptr_eq(&loaded.target, &self.target()) {
            tokio::time::sleep(TICK).await;
        }
    }

    fn target(&self) -> std::sync::MutexGuard<'_, Arc<Target>> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inventory(&self) -> std::sync::MutexGuard<'_, Option<ReleaseInventory>> {
        let inventory = self.inventory.lock();
        inventory.unwrap_or_else(PoisonError::into_inner)
    }

    fn request_pace(&self) -> std::sync::MutexGuard<'_, Backoff> {
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
            VersionWork::Status,
        ]
    }

    async fn reconcile(&self, key: &VersionWork) -> Result<Next, wire::Error> {
        match key {
            VersionWork::Request => self.accept().await,
            VersionWork::Release => self.apply().await,
            VersionWork::Advice => self.advise().await,
            VersionWork::Risks => self.evaluate().await,
            VersionWork::Status => self.report().await,
        }
    }
}
