//! The release is read for this cluster and applied, again and again.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use api::config::ClusterVersion;
use cluster::wire;
use operator::Next;
use release::capability::Capabilities;
use release::graph::Ordering;
use release::inclusion::Cluster;
use release::inventory::Entry;
use release::manifest::ObjectId;
use serde_json::Value;

use super::{Loaded, TICK, VersionOperator, VersionWork};
use crate::engine::Context;
use crate::payload::ReleaseFiles;
use version_update::builder::{self, ClusterProxy, ClusterTls, Injected};
use version_update::failure::Failure;
use version_update::overrides;
use version_update::progress::CHECKPOINT;
use version_update::report::Accepted;
use version_update::status;
use version_update::validation::{WantedRelease, validate};

impl VersionOperator {
    pub(super) async fn apply(&self) -> Result<Next, wire::Error> {
        let Some(object) = self.object() else {
            tracing::debug!("there is no ClusterVersion yet");
            return Ok(Next::Settled);
        };
        let known = self.known_version();
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
        let filter = self.filter(&object, &loaded);
        let entries = &payload.inventory.entries;
        let is_included =
            |entry: &&Entry| filter.exclusion(&entry.id, &entry.annotations).is_none();
        let entries: Vec<_> = entries.iter().filter(is_included).collect();
        let status = object.status.clone().unwrap_or_default();
        let attempt = self.pace().attempt;
        let ordering = status::ordering(&status, &payload.release, attempt);
        if let Some(fault) = &loaded.fault
            && !matches!(ordering, Ordering::Reconciling { .. })
        {
            // The rest of a release that is there is kept as it is; a cluster is not led to one
            // that cannot be read.
            self.shared.lock().unreadable = Some(fault.clone());
            return Ok(Next::After(self.settings.interval));
        }
        let context = Context {
            ordering,
            injected: self.injected(&object, payload, &entries).await?,
            tolerated: builder::tolerated(&object),
            now: self.now,
        };
        self.begin(&object, &loaded, &filter, &entries, (ordering, attempt));
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
        // Of a release that is read in part, it is not known which objects it has not.
        let ended = ended.map(|is_complete| is_complete && loaded.fault.is_none());
        if matches!(ended, Ok(true)) {
            self.prune(&object, &loaded).await;
        }
        // What a pass took is not needed before the next.
        chassis::memory::trim_heap();
        Ok(Next::After(match ended {
            Ok(is_complete) => self.pace_after(is_complete, ordering),
            // It still waits: what was applied long ago may have changed.
            Err(_) => Duration::ZERO,
        }))
    }

    /// Version of the release that is applied; empty before its files were read.
    fn known_version(&self) -> String {
        let report = self.shared.lock();
        let target = report.target.as_ref().map(|target| &target.release);
        let release = target.or_else(|| self.own.get());
        release.map_or_else(String::new, |release| release.version.clone())
    }

    /// When the release is applied next, after a pass that has ended.
    fn pace_after(&self, is_complete: bool, ordering: Ordering) -> Duration {
        let mut pace = self.pace();
        pace.attempt = match ordering {
            Ordering::Reconciling { attempt } => attempt + 1,
            Ordering::Updating | Ordering::Initializing if is_complete => 0,
            Ordering::Updating | Ordering::Initializing => pace.attempt,
        };
        if is_complete {
            pace.failures.reset();
            tracing::info!("applied the release");
            self.settings.interval
        } else {
            pace.failures.next_delay()
        }
    }

    /// What of the cluster decides which manifests it gets; without capabilities and overrides,
    /// which are read when a manifest's turn comes.
    pub(super) async fn cluster(&self, version: Option<&str>) -> Result<Cluster, wire::Error> {
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

    /// The release for this cluster, loaded once; each time while some of it cannot be read.
    fn payload(&self, cluster: &Cluster) -> Result<Arc<Loaded>, Failure> {
        let target = Arc::clone(&self.target());
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |loaded: &&Arc<Loaded>| {
            loaded.cluster == *cluster
                && Arc::ptr_eq(&loaded.target, &target)
                && loaded.fault.is_none()
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
        let integrity = |error| Failure::integrity(chassis::report::Chain(&error).to_string());
        let payload = ReleaseFiles::load_in_part(&target.root, &target.image, &asked);
        let (payload, fault) = payload.map_err(integrity)?;
        let fault = fault.map(integrity);
        if let Some(fault) = &fault {
            tracing::error!("{}", fault.message);
        }
        if target.is_local {
            self.own.get_or_init(|| payload.release.clone());
        }
        for (file, passed) in &payload.inventory.passed_over {
            tracing::debug!(file, "{passed}");
        }
        for warning in &payload.warnings {
            tracing::warn!("{warning}");
        }
        let payload = Arc::new(Loaded {
            target,
            cluster: cluster.clone(),
            files: payload,
            fault,
        });
        *loaded = Some(Arc::clone(&payload));
        self.waker.wake(vec![
            VersionWork::Request,
            VersionWork::Advice,
            VersionWork::Preflight,
        ]);
        Ok(payload)
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
        self.first_try.holds(has_begun)
    }

    /// What of the cluster is put into these objects.
    pub(super) async fn injected(
        &self,
        object: &ClusterVersion,
        files: &ReleaseFiles,
        entries: &[&Entry],
    ) -> Result<Injected, wire::Error> {
        let hands = self.engine.hands();
        let proxy = hands.setting("proxies").await?;
        let tls = if entries.iter().any(|entry| builder::asks_for_tls(entry)) {
            hands.setting("apiservers").await?
        } else {
            None
        };
        Ok(Injected {
            owner: object.metadata.uid.clone().unwrap_or_default(),
            proxy: proxy.as_ref().map(ClusterProxy::read).unwrap_or_default(),
            tls: tls.as_ref().map(ClusterTls::read).unwrap_or_default(),
            scaled: scaled(files, entries),
        })
    }

    /// What of the cluster decides whether a manifest's turn comes.
    pub(super) fn filter(&self, object: &ClusterVersion, loaded: &Loaded) -> Cluster {
        let asked = object.spec.capabilities.clone().unwrap_or_default();
        let additional = asked.additional_enabled_capabilities.into_iter().collect();
        let status = object.status.clone().unwrap_or_default();
        let before = status.capabilities.enabled_capabilities.into_iter();
        let before = before
            .chain(loaded.target.implied.iter().cloned())
            .collect();
        let overrides = overrides::in_force(object, (self.now)());
        let overrides = overrides.iter().map(overrides::id);
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
        loaded: &Loaded,
        filter: &Cluster,
        entries: &[&Entry],
        (ordering, attempt): (Ordering, u64),
    ) {
        let payload = &loaded.files;
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
        report.begin(accepted, entries.len());
        report.unreadable.clone_from(&loaded.fault);
        report.follow(&payload.release, ordering, entries);
    }

    /// Ends when another release is to be applied.
    async fn retargeted(&self, loaded: &Loaded) {
        while Arc::ptr_eq(&loaded.target, &self.target()) {
            tokio::time::sleep(TICK).await;
        }
    }
}

/// Workloads whose replicas an autoscaler of the release sets. An autoscaler that cannot be read
/// fails in its own turn.
fn scaled(files: &ReleaseFiles, entries: &[&Entry]) -> Vec<ObjectId> {
    let is_one = |entry: &&&Entry| {
        (entry.id.group.as_str(), entry.id.kind.as_str())
            == ("autoscaling", "HorizontalPodAutoscaler")
    };
    let autoscalers = entries.iter().filter(is_one);
    autoscalers
        .filter_map(|entry| builder::scaled_by(&entry.id, &files.object(entry).ok()?))
        .collect()
}
