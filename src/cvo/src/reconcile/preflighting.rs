//! Checks another release without a change: it is verified, retrieved and loaded as for an update,
//! each manifest is applied by a dry run of the API server, its machine-config controller renders
//! the pools, and a node of each rehearses the result.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::config::preflight::{PREFLIGHT_RESULT, PreflightFindings, PreflightRecord, RenderedPool};
use api::config::{ClusterVersion, Release};
use chassis::report::Chain;
use cluster::apply::Error as ApplyError;
use cluster::{discovery, wire};
use futures::{StreamExt as _, stream};
use operator::Next;
use release::inventory::Entry;
use serde_json::Value;

use super::{Loaded, TICK, VersionOperator};
use crate::payload::ReleaseFiles;
use crate::rehearsal;
use crate::render_job::{self, PoolSources, RenderJob};
use crate::request_failure;
use crate::requests::Listings;
use version_update::acceptance::TargetRelease;
use version_update::builder;
use version_update::failure::Failure;
use version_update::precondition;
use version_update::preflight::{self, PreflightTurn};
use version_update::release_state::ReleaseOnDisk;
use version_update::validation::{WantedRelease, validate};

/// Dry runs at once: the cluster works meanwhile.
const DRY_RUNS: usize = 4;

/// What of a release makes a manifest's dry run impossible before it is there.
#[derive(Debug, Default)]
struct Coming {
    /// Group and kind of its definitions.
    kinds: BTreeSet<(String, String)>,
    namespaces: BTreeSet<String>,
}

/// What a dry run found.
enum DryRun {
    /// The object as it would be, if it would be written.
    Passed(Option<Value>),
    /// Why that cannot be checked.
    Unknown(String),
    Failed(String),
}

impl VersionOperator {
    /// Makes the preflight that the annotation of the ClusterVersion requests, if there is one.
    pub(super) async fn preflight(&self) -> Result<Next, wire::Error> {
        let (Some(object), Some(running)) = (self.object(), self.loaded()) else {
            // The running release says whose signatures count. It wakes this key once it is read.
            return Ok(Next::Settled);
        };
        let own = self.own();
        let is_updating = match validate(&object, &own).1 {
            WantedRelease::Own => !running.on_disk.is_own(),
            WantedRelease::Other(release) => release.image != running.on_disk.image,
        };
        let now = (self.now)();
        let request = preflight::request(&object).unwrap_or_default().to_owned();
        match preflight::turn(&object, &own, is_updating) {
            PreflightTurn::Nothing => {}
            PreflightTurn::Wait => return Ok(Next::After(self.settings.interval)),
            PreflightTurn::Remove => self.write_result(None).await?,
            PreflightTurn::Refuse(why) => {
                let record = PreflightRecord::begin(&request, &Release::default(), now);
                let failures = vec![why];
                let findings = PreflightFindings {
                    failures,
                    ..PreflightFindings::default()
                };
                self.write_result(Some(&record.end(findings, now))).await?;
            }
            PreflightTurn::Check(wanted) => {
                tracing::info!(version = wanted.version, image = wanted.image, "preflight");
                let mut record = PreflightRecord::begin(&request, &wanted, now);
                self.write_result(Some(&record)).await?;
                let has_job = AtomicBool::new(false);
                let check = self.check(&object, &wanted, &running, &mut record.version, &has_job);
                let findings = tokio::select! {
                    found = check => Some(found),
                    () = self.replaced(&object) => None,
                    () = self.asked_otherwise(&request) => None,
                };
                if has_job.load(Ordering::Relaxed) {
                    render_job::tidy(&self.access).await;
                    rehearsal::tidy(&self.access).await;
                }
                let Some(findings) = findings else {
                    return Ok(Next::After(std::time::Duration::ZERO));
                };
                let findings = findings?;
                let ended = record.end(findings, (self.now)());
                tracing::info!(
                    version = ended.version,
                    state = ?ended.state,
                    checked = ended.checked,
                    failures = ended.failures.len(),
                    "preflight ended"
                );
                self.write_result(Some(&ended)).await?;
            }
        }
        Ok(Next::Settled)
    }

    /// Ends when the annotation asks for something else.
    async fn asked_otherwise(&self, request: &str) {
        let is_same = || {
            let object = self.object();
            object.is_some_and(|object| preflight::request(&object) == Some(request))
        };
        while is_same() {
            tokio::time::sleep(TICK).await;
        }
    }

    async fn write_result(&self, record: Option<&PreflightRecord>) -> Result<(), wire::Error> {
        // A record always serializes.
        let text = record.map(|record| serde_json::to_string(record).unwrap_or_default());
        self.annotate(PREFLIGHT_RESULT, text.as_deref()).await
    }

    /// All that would keep the release from being applied. `version` becomes the one it has, and
    /// `has_job` true when there is something to remove.
    async fn check(
        &self,
        object: &ClusterVersion,
        wanted: &Release,
        running: &Loaded,
        version: &mut String,
        has_job: &AtomicBool,
    ) -> Result<PreflightFindings, wire::Error> {
        let mut findings = PreflightFindings::default();
        let retrieved = match self.retrieve(wanted, running, false).await? {
            Ok(retrieved) => retrieved,
            Err(why) => {
                findings.failures.push(Chain(&why).to_string());
                return Ok(findings);
            }
        };
        let (cluster, files) = match self.load(&retrieved.root, wanted).await? {
            Ok(loaded) => loaded,
            Err(why) => {
                findings.failures.push(Chain(&why).to_string());
                return Ok(findings);
            }
        };
        let found = &files.release;
        if !wanted.version.is_empty() && found.version != wanted.version {
            findings.failures.push(format!(
                "release image version {} does not match the expected upstream version {}",
                found.version, wanted.version
            ));
        }
        version.clone_from(&found.version);
        let checked = precondition::check(object, found, &files.rollback_sources);
        let blocking = checked.into_iter().chain(self.unsigned(&files).await?);
        let blocking: Vec<_> = blocking.filter(|finding| finding.is_blocking).collect();
        findings
            .failures
            .extend(precondition::summary(&blocking, false));
        let loaded = Loaded {
            on_disk: Arc::new(ReleaseOnDisk {
                root: retrieved.root,
                image: wanted.image.clone(),
                implied: self.implied(running, &files),
                accepted: Some(TargetRelease {
                    release: files.release.clone(),
                    ..TargetRelease::default()
                }),
            }),
            cluster,
            files,
            fault: None,
        };
        let filter = self.filter(object, &loaded);
        let entries = loaded.files.inventory.entries.iter();
        let is_included =
            |entry: &&Entry| filter.exclusion(&entry.id, &entry.annotations).is_none();
        let entries: Vec<&Entry> = entries.filter(is_included).collect();
        let files = &loaded.files;
        let sources = self.dry_run(object, files, &entries, &mut findings).await?;
        self.render(files, &entries, sources, has_job, &mut findings)
            .await?;
        Ok(findings)
    }

    /// Has the release's machine-config controller render the pools, and a node of each rehearse.
    async fn render(
        &self,
        files: &ReleaseFiles,
        entries: &[&Entry],
        sources: PoolSources,
        has_job: &AtomicBool,
        findings: &mut PreflightFindings,
    ) -> Result<(), wire::Error> {
        let rendering = match RenderJob::plan(files, entries, sources, (self.now)()) {
            Ok(job) => {
                has_job.store(true, Ordering::Relaxed);
                // What an earlier process left.
                rehearsal::tidy(&self.access).await;
                let mut rendering = job.run(&self.access).await?;
                let rehearsed = rehearsal::rehearse(&self.access, &mut rendering.pools).await?;
                rendering.failures.extend(rehearsed.failures);
                rendering.not_checked.extend(rehearsed.not_checked);
                rendering
            }
            Err(instead) => instead,
        };
        // What was stored for the rehearsal is removed, and why there was none is reported.
        let shown = |pool: RenderedPool| RenderedPool {
            stored: String::new(),
            not_rehearsed: String::new(),
            ..pool
        };
        findings.pools = rendering.pools.into_iter().map(shown).collect();
        findings.failures.extend(rendering.failures);
        findings.not_checked.extend(rendering.not_checked);
        Ok(())
    }

    /// Sends each manifest as a dry run. What of it pools are rendered from.
    async fn dry_run(
        &self,
        object: &ClusterVersion,
        files: &ReleaseFiles,
        entries: &[&Entry],
        findings: &mut PreflightFindings,
    ) -> Result<PoolSources, wire::Error> {
        let mut sources = PoolSources::default();
        let (deletions, entries): (Vec<&Entry>, Vec<&Entry>) = entries
            .iter()
            .copied()
            .partition(|entry| entry.is_deletion());
        let deletions = deletions
            .into_iter()
            .filter(|entry| PoolSources::has_kind(&entry.id));
        sources
            .deleted
            .extend(deletions.map(|entry| entry.id.name.clone()));
        let injected = self.injected(object, files, &entries).await?;
        let coming = Coming::of(files, &entries);
        let listings = Listings::default();
        let runs: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                let (coming, listings, injected) = (&coming, &listings, &injected);
                async move {
                    let wanted = files.object(entry).and_then(|object| {
                        builder::wanted(entry, object, injected).map_err(|why| {
                            let why = Chain(&why).to_string();
                            Failure::update(&entry.to_string(), &why).of_file(&entry.file)
                        })
                    });
                    let run = match wanted {
                        Ok(wanted) => self.try_entry(entry, &wanted, coming, listings).await,
                        Err(failure) => DryRun::Failed(failure.message),
                    };
                    (entry, run)
                }
            })
            .collect();
        let mut runs = stream::iter(runs).buffered(DRY_RUNS);
        while let Some((entry, run)) = runs.next().await {
            match run {
                DryRun::Passed(object) => {
                    findings.checked += 1;
                    if let Some(object) = object.filter(|_| PoolSources::has_kind(&entry.id)) {
                        sources.add(object);
                    }
                }
                DryRun::Unknown(why) => {
                    findings
                        .not_checked
                        .push(format!("{entry} of {}: {why}", entry.file));
                }
                DryRun::Failed(why) => findings.failures.push(why),
            }
        }
        Ok(sources)
    }

    async fn try_entry(
        &self,
        entry: &Entry,
        wanted: &Value,
        coming: &Coming,
        listings: &Listings,
    ) -> DryRun {
        let requests = self.engine.requests();
        let dry_run = async {
            let listing = requests.listing(listings, entry).await?;
            let exists = listing.head(&entry.id).is_some();
            if entry.is_create_only() && exists {
                return Ok(None);
            }
            let path = listing.path(&entry.id);
            requests.dry_run(&entry.id, &path, wanted).await.map(Some)
        };
        let error = match dry_run.await {
            Ok(object) => return DryRun::Passed(object),
            Err(error) => error,
        };
        // Such a Job is recreated.
        if builder::is_job(&entry.id) && request_failure::is_immutable(&error) {
            return DryRun::Passed(None);
        }
        if let Some(why) = coming.explains(entry, &error) {
            return DryRun::Unknown(why);
        }
        let failure = request_failure::of_request(&entry.to_string(), &error).of_file(&entry.file);
        DryRun::Failed(failure.message)
    }
}

impl Coming {
    fn of(files: &ReleaseFiles, entries: &[&Entry]) -> Self {
        let mut coming = Self::default();
        for entry in entries {
            match entry.id.kind.as_str() {
                "Namespace" => {
                    coming.namespaces.insert(entry.id.name.clone());
                }
                // One that cannot be read is a failure of its own.
                "CustomResourceDefinition" => {
                    if let Ok(object) = files.object(entry) {
                        let text = |pointer| {
                            let text = object.pointer(pointer).and_then(Value::as_str);
                            text.unwrap_or_default().to_owned()
                        };
                        let kind = (text("/spec/group"), text("/spec/names/kind"));
                        coming.kinds.insert(kind);
                    }
                }
                _ => {}
            }
        }
        coming
    }

    /// Whether an error only says that something of the release is not there yet.
    fn explains(&self, entry: &Entry, error: &ApplyError) -> Option<String> {
        let id = &entry.id;
        if let ApplyError::Discover { source, .. } = error {
            let kind = (id.group.clone(), id.kind.clone());
            let is_missing = matches!(source, discovery::Error::NotServed { .. });
            let is_coming = is_missing && self.kinds.contains(&kind);
            return is_coming.then(|| "its definition comes with the release".to_owned());
        }
        if let ApplyError::Request { source, .. } = error
            && source.is_not_found()
            && self.namespaces.contains(&id.namespace)
        {
            return Some("its namespace comes with the release".to_owned());
        }
        None
    }
}
