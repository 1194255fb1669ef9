//! The release is read for this cluster and applied, again and again.

use std::sync::Arc;
use std::task::Poll;

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
use crate::payload::{self, ReleaseFiles};
use version_update::builder::{self, ClusterProxy, ClusterTls, Injected};
use version_update::failure::Failure;
use version_update::overrides;
use version_update::progress::CHECKPOINT;
use version_update::release_state::{
    LoadedRelease, NewestEntry, PassEnd, PassOutcome, ReleaseEvent, ReleaseOnDisk, ReleaseTask,
    ReleaseWait,
};
use version_update::report::Accepted;
use version_update::status;

impl VersionOperator {
    pub(super) async fn apply(&self) -> Result<Next, wire::Error> {
        let Some(object) = self.object() else {
            tracing::debug!("there is no ClusterVersion yet");
            return Ok(Next::Settled);
        };
        let (loaded, is_new) = match self.payload().await? {
            Ok(loaded) => loaded,
            Err(failure) => {
                tracing::error!("{}", failure.message);
                self.engine.report().unreadable = Some(failure);
                return Ok(self.wait_after(&object, ReleaseEvent::Unreadable));
            }
        };
        let payload = &loaded.files;
        let status = object.status.clone().unwrap_or_default();
        let attempt = self.releases().state.attempt();
        let ordering = status::ordering(&status, &payload.release, attempt);
        let seen = LoadedRelease {
            is_new,
            has_fault: loaded.fault.is_some(),
            newest: NewestEntry::of(&object, &payload.release, &self.own(), ordering),
        };
        let task = self.tell(&object, ReleaseEvent::Loaded(seen));
        if let ReleaseTask::Wait(wait) = task {
            if wait == ReleaseWait::Readable {
                self.engine.report().unreadable.clone_from(&loaded.fault);
            }
            return Ok(self.wait(wait));
        }
        let filter = self.filter(&object, &loaded);
        let entries = &payload.inventory.entries;
        let is_included =
            |entry: &&Entry| filter.exclusion(&entry.id, &entry.annotations).is_none();
        let entries: Vec<_> = entries.iter().filter(is_included).collect();
        let context = Context {
            ordering,
            injected: self.injected(&object, payload, &entries).await?,
            tolerated: builder::tolerated(&object),
            versions: self.caches.versions.clone(),
            now: self.now,
        };
        if !self.is_applied(&loaded.on_disk) {
            return Ok(self.wait(ReleaseWait::Nothing));
        }
        self.begin(&object, &loaded, &filter, &entries, (ordering, attempt));
        if task == ReleaseTask::Record {
            self.waker.wake(vec![VersionWork::Status]);
            return Ok(Next::Retry);
        }
        let outcome = self.pass(&object, &loaded, &entries, &context).await;
        // What a pass took is not needed before the next.
        chassis::memory::trim_heap();
        Ok(self.wait_after(
            &object,
            ReleaseEvent::Ended(PassEnd {
                on_disk: Arc::clone(&loaded.on_disk),
                is_kept: matches!(ordering, Ordering::Reconciling { .. }),
                outcome,
            }),
        ))
    }

    /// One pass over the release.
    async fn pass(
        &self,
        object: &ClusterVersion,
        loaded: &Loaded,
        entries: &[&Entry],
        context: &Context,
    ) -> PassOutcome {
        let ordering = context.ordering;
        let interval = self.settings.interval;
        let limit = if ordering == Ordering::Initializing {
            interval
        } else {
            interval * 2
        };
        tracing::info!(?ordering, manifests = entries.len(), "applying the release");
        let pass = self.engine.run(&loaded.files, entries, context);
        let ended = tokio::select! {
            // First: nothing more is done for a release that was left.
            biased;
            () = self.left(loaded) => return PassOutcome::GivenUp,
            () = self.replaced(object) => return PassOutcome::GivenUp,
            ended = tokio::time::timeout(limit, pass) => ended,
        };
        match ended {
            // A release that is read in part does not show which objects it has not.
            Ok(true) if loaded.fault.is_none() => {
                self.prune(object, loaded).await;
                tracing::info!("applied the release");
                PassOutcome::Complete
            }
            Ok(_) => PassOutcome::Incomplete,
            Err(_) => PassOutcome::Overdue,
        }
    }

    /// Tells the state of an event after which this key waits.
    fn wait_after(&self, object: &ClusterVersion, event: ReleaseEvent) -> Next {
        if let ReleaseTask::Wait(wait) = self.tell(object, event) {
            self.wait(wait)
        } else {
            // Nothing else follows.
            Next::Retry
        }
    }

    /// What of the cluster decides which manifests it gets; without capabilities and overrides,
    /// which are read when a manifest's turn comes.
    pub(super) async fn cluster(&self, version: &str) -> Result<Cluster, wire::Error> {
        let gates = self.engine.requests().setting("featuregates").await?;
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
            .find(|entry| entry.get("version").and_then(Value::as_str) == Some(version));
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

    /// The version of the release that is applied: manifests are included by its gates.
    fn version_of(&self, on_disk: &ReleaseOnDisk) -> Result<String, payload::Error> {
        let accepted = on_disk.accepted.as_ref();
        let read = accepted.map(|accepted| accepted.release.clone());
        if let Some(read) = read.or_else(|| self.releases().own.clone()) {
            return Ok(read.version);
        }
        let described = ReleaseFiles::describe(&on_disk.root, &on_disk.image)?;
        Ok(described.version)
    }

    /// The release for this cluster, loaded once; each time while some of it cannot be read. With
    /// it, whether that was now.
    async fn payload(&self) -> Result<Result<(Arc<Loaded>, bool), Failure>, wire::Error> {
        let integrity = |error| Failure::integrity(chassis::report::Chain(&error).to_string());
        let (on_disk, cluster) = loop {
            let on_disk = Arc::clone(self.releases().state.on_disk());
            let version = match self.version_of(&on_disk) {
                Ok(version) => version,
                Err(error) => return Ok(Err(integrity(error))),
            };
            let cluster = self.cluster(&version).await?;
            if self.is_applied(&on_disk) {
                break (on_disk, cluster);
            }
        };
        let is_it = |loaded: &Arc<Loaded>| loaded.cluster == cluster && loaded.fault.is_none();
        if let Some(loaded) = self.loaded().filter(is_it) {
            return Ok(Ok((loaded, false)));
        }
        let whole = Cluster {
            // A manifest of a capability that this program does not know is not left out of
            // another release.
            capabilities: cluster.capabilities.clone().filter(|_| on_disk.is_own()),
            ..cluster.clone()
        };
        let files = ReleaseFiles::load_in_part(&on_disk.root, &on_disk.image, &whole);
        let (files, fault) = match files {
            Ok(files) => files,
            Err(error) => return Ok(Err(integrity(error))),
        };
        let fault = fault.map(integrity);
        if let Some(fault) = &fault {
            tracing::error!("{}", fault.message);
        }
        let loaded = Loaded {
            on_disk,
            cluster,
            files,
            fault,
        };
        Ok(Ok((self.releases().keep(loaded), true)))
    }

    /// What of the cluster is put into these objects.
    pub(super) async fn injected(
        &self,
        object: &ClusterVersion,
        files: &ReleaseFiles,
        entries: &[&Entry],
    ) -> Result<Injected, wire::Error> {
        let requests = self.engine.requests();
        let proxy = requests.setting("proxies").await?;
        let tls = if entries.iter().any(|entry| builder::asks_for_tls(entry)) {
            requests.setting("apiservers").await?
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
        let wanted = object.spec.capabilities.clone().unwrap_or_default();
        let additional = wanted.additional_enabled_capabilities.into_iter().collect();
        let status = object.status.clone().unwrap_or_default();
        let before = status.capabilities.enabled_capabilities.into_iter();
        let before = before
            .chain(loaded.on_disk.implied.iter().cloned())
            .collect();
        let overrides = overrides::in_force(object, (self.now)());
        let overrides = overrides.iter().map(overrides::id);
        let always = &self.settings.always;
        let set = &wanted.baseline_capability_set;
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
        let mut report = self.engine.report();
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

    fn is_applied(&self, on_disk: &Arc<ReleaseOnDisk>) -> bool {
        Arc::ptr_eq(on_disk, self.releases().state.on_disk())
    }

    /// Ends when another release is to be applied. It is looked at whenever this is polled, and now
    /// and then.
    async fn left(&self, loaded: &Loaded) {
        let mut ticks = tokio::time::interval(TICK);
        std::future::poll_fn(|context| {
            while ticks.poll_tick(context).is_ready() {}
            if self.is_applied(&loaded.on_disk) {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
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
