//! One manifest of a pass: applied, tried again, and waited for.

use std::sync::PoisonError;
use std::time::Duration;

use chassis::report::Chain;
use cluster::apply::Error as ApplyError;
use release::graph::{Ordering, Task};
use release::inventory::{CREATE_ONLY, Entry};
use release::version_hash::VersionHash;
use serde_json::{Value, json};

use super::{Pass, is_operator};
use crate::applied::Need;
use crate::request_failure;
use crate::requests::Listing;
use version_update::builder::{self, Health, Injected};
use version_update::failure::{Effect, Failure, FailureSubject};
use version_update::report::Report;

/// Waits before a manifest is tried again; after the last one it has failed. Three tries in all,
/// four while a cluster gets its first release.
const RETRIES: &[Duration] = &[Duration::from_secs(10), Duration::from_secs(13)];
const FIRST_RETRIES: &[Duration] = &[
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// What is waited for, and by whom.
enum Wait {
    /// Nothing: the manifest is done.
    Done,
    /// A change of a ClusterOperator.
    Operator,
}

impl Pass<'_> {
    pub(super) async fn apply(&self, task: Task) -> (Task, Result<(), Failure>) {
        let Some(entry) = self.entries.get(task) else {
            return (task, Ok(()));
        };
        if let Some(operators) = self.operators.get(&task) {
            for operator in operators {
                self.precreate(*operator).await;
            }
        }
        let name = self.name(task, entry);
        (task, self.apply_entry(task, entry, &name).await)
    }

    async fn apply_entry(&self, task: Task, entry: &Entry, name: &str) -> Result<(), Failure> {
        let retries = if self.context.ordering == Ordering::Initializing {
            FIRST_RETRIES
        } else {
            RETRIES
        };
        let mut retries = retries.iter();
        let mut has_waited = false;
        loop {
            let mut result = if self.superseded.contains(&task) {
                self.make_once(entry, name).await
            } else if is_operator(entry) {
                self.operator(task, entry, name).await
            } else {
                self.object(task, entry, name).await
            };
            if let Err(Stop::Request(error)) = &result
                && is_not_served(error)
                && !std::mem::replace(&mut has_waited, true)
            {
                match self.follow_definitions(task, &entry.id.group).await {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(stop) => result = Err(stop),
                }
            }
            match result {
                Ok(()) => return Ok(()),
                Err(Stop::Failure(failure)) => return Err(failure),
                Err(Stop::Request(error)) => {
                    let Some(delay) = retries.next() else {
                        return Err(request_failure::of_request(name, &error).of_file(&entry.file));
                    };
                    tracing::debug!(manifest = name, error = %chassis::report::Chain(&error), "trying again");
                    tokio::time::sleep(*delay).await;
                }
            }
        }
    }

    /// Makes an operator's object before the manifests of its component, so that it can report on
    /// them. An error is no failure: the object is waited for in its turn.
    async fn precreate(&self, task: Task) {
        let Some(entry) = self.entries.get(task) else {
            return;
        };
        if self.engine.operators.get(&entry.id.name).is_some() {
            return;
        }
        if let Err(error) = self.make_operator(entry).await {
            let text = match error {
                Stop::Failure(failure) => failure.message,
                Stop::Request(error) => chassis::report::Chain(&error).to_string(),
            };
            tracing::warn!(
                operator = entry.id.name,
                error = text,
                "cannot make an operator's object"
            );
        }
    }

    async fn make_operator(&self, entry: &Entry) -> Result<(), Stop> {
        let requests = &self.engine.requests;
        let listing = requests.listing(&self.listings, entry).await?;
        if listing.head(&entry.id).is_some() {
            return Ok(());
        }
        let manifest = self.payload.object(entry)?;
        let related = manifest.pointer("/status/relatedObjects").cloned();
        let object = self.wanted(entry, manifest, &entry.to_string())?;
        let path = listing.path(&entry.id);
        requests.apply_for_head(&path, object).await?;
        if let Some(related) = related {
            let change = json!({ "status": { "relatedObjects": related } });
            requests
                .merge(&entry.id, &format!("{path}/status"), &change)
                .await?;
        }
        Ok(())
    }

    /// Makes an object that a later manifest describes again, so that what comes in between finds
    /// it. The later one has the last word: what exists stays as it is.
    async fn make_once(&self, entry: &Entry, name: &str) -> Result<(), Stop> {
        if entry.is_deletion() || is_operator(entry) {
            return Ok(());
        }
        let requests = &self.engine.requests;
        let listing = requests.listing(&self.listings, entry).await?;
        if listing.head(&entry.id).is_none() {
            let wanted = self.wanted(entry, self.payload.object(entry)?, name)?;
            requests.create(&entry.id, &listing, &wanted).await?;
        }
        Ok(())
    }

    /// Waits until an operator is as it must be.
    async fn operator(&self, task: Task, entry: &Entry, name: &str) -> Result<(), Stop> {
        let manifest = self.payload.object(entry)?;
        if matches!(self.context.ordering, Ordering::Reconciling { .. }) {
            let object = self.wanted(entry, manifest.clone(), name)?;
            self.apply_object(entry, name, object).await?;
        }
        let mut changes = self.engine.changes.clone();
        loop {
            changes.mark_unchanged();
            match self.look(task, entry, name, &manifest)? {
                Wait::Done => return Ok(()),
                Wait::Operator => {
                    // The sender lives as long as the process.
                    if changes.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
            }
        }
    }

    fn look(
        &self,
        task: Task,
        entry: &Entry,
        name: &str,
        manifest: &Value,
    ) -> Result<Wait, Failure> {
        let (operator, ordering) = (&entry.id.name, self.context.ordering);
        let found = self.engine.operators.get(operator);
        let found = found.as_deref().map(|operator| &operator.status);
        let fault = builder::operator_health(operator, manifest, found, ordering);
        let fault = fault.map(|fault| builder::tolerate(fault, operator, &self.context.tolerated));
        let fault = fault.map(|fault| fault.with_detail(name, &builder::operator_message(found)));
        let mut report = self.engine.shared.lock();
        let Some(failure) = fault else {
            report.pending.remove(operator);
            report.failures.remove(&task);
            return Ok(Wait::Done);
        };
        report
            .pending
            .entry(operator.clone())
            .or_insert_with(self.context.now);
        if failure.effect == Effect::Report {
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            reported.insert(task, failure);
            return Ok(Wait::Done);
        }
        if !self.may_wait() || failure.reason == "ClusterOperatorNoVersions" {
            return Err(failure);
        }
        report.failures.insert(task, failure);
        Ok(Wait::Operator)
    }

    /// A release that is there is only read: what is wrong is reported, and the rest goes on.
    const fn may_wait(&self) -> bool {
        !matches!(self.context.ordering, Ordering::Reconciling { .. })
    }

    async fn object(&self, task: Task, entry: &Entry, name: &str) -> Result<(), Stop> {
        if entry.is_deletion() {
            return self.delete(entry).await;
        }
        let key = self.key(entry);
        let (requests, applied) = (&self.engine.requests, &self.engine.applied);
        let ordering = self.context.ordering;
        let (listing, object) = {
            // Waiting takes no worker. The semaphore is never closed.
            let _permit = self.workers.acquire().await.ok();
            let listing = requests.listing(&self.listings, entry).await?;
            let mut head = listing.head(&entry.id);
            if head.is_some() && builder::is_job(&entry.id) && applied.take_failed(&entry.id) {
                tracing::info!(manifest = name, "recreating a failed job");
                requests.clear(&entry.id, &listing.path(&entry.id)).await?;
                head = None;
            }
            if entry.is_create_only() && head.is_some() {
                return Ok(());
            }
            let object = match applied.need(&entry.id, key, head) {
                Need::Nothing => return Ok(()),
                Need::Health if !builder::is_read(&entry.id, ordering) => return Ok(()),
                Need::Health => requests.read(&entry.id, &listing.path(&entry.id)).await?,
                Need::Apply => {
                    let mut wanted = self.wanted(entry, self.payload.object(entry)?, name)?;
                    if head.is_some() && builder::has_shared(&entry.id, &wanted) {
                        let found = requests.read(&entry.id, &listing.path(&entry.id)).await?;
                        builder::keep_others(&entry.id, &mut wanted, &found);
                    }
                    if entry.is_create_only() {
                        requests.create(&entry.id, &listing, &wanted).await?;
                        return Ok(());
                    }
                    let Some(object) = self.apply_object(entry, name, wanted).await? else {
                        return Ok(());
                    };
                    object
                }
            };
            (listing, object)
        };
        let judge = |object: &Value| builder::health(&entry.id, name, object, ordering);
        self.wait(task, entry, &listing, object, judge).await
    }

    /// Waits until the definitions of a group's kinds are established that a first application
    /// sent before, on behalf of `task`. Definitions are not waited for in their turn there: most
    /// are of kinds of which a release has no object. Whether there was one.
    async fn follow_definitions(&self, task: Task, group: &str) -> Result<bool, Stop> {
        if self.context.ordering != Ordering::Initializing {
            return Ok(false);
        }
        let (requests, applied) = (&self.engine.requests, &self.engine.applied);
        let mut is_any = false;
        for (number, entry) in self.entries.iter().enumerate() {
            let is_one = builder::is_definition(&entry.id, group);
            if !is_one || !applied.was_applied(&entry.id, self.key(entry)) {
                continue;
            }
            is_any = true;
            let name = self.name(number, entry);
            let listing = requests.listing(&self.listings, entry).await?;
            let object = requests.read(&entry.id, &listing.path(&entry.id)).await?;
            let judge =
                |object: &Value| builder::health(&entry.id, &name, object, Ordering::Updating);
            self.wait(task, entry, &listing, object, judge).await?;
        }
        Ok(is_any)
    }

    /// What people read of a manifest.
    fn name(&self, task: Task, entry: &Entry) -> String {
        format!("{entry} ({} of {})", task + 1, self.entries.len())
    }

    /// The object of a manifest as it is applied.
    fn wanted(&self, entry: &Entry, manifest: Value, name: &str) -> Result<Value, Failure> {
        builder::wanted(entry, manifest, &self.context.injected)
            .map_err(|why| Failure::update(name, &Chain(&why).to_string()).of_file(&entry.file))
    }

    /// Applies an object, and removes what others have added where it does not belong. The object
    /// as it is then, if more of it is needed than its metadata.
    async fn apply_object(
        &self,
        entry: &Entry,
        name: &str,
        wanted: Value,
    ) -> Result<Option<Value>, Stop> {
        let (requests, applied) = (&self.engine.requests, &self.engine.applied);
        let listing = requests.listing(&self.listings, entry).await?;
        let key = self.key(entry);
        if is_operator(entry)
            && applied.need(&entry.id, key, listing.head(&entry.id)) != Need::Apply
        {
            return Ok(None);
        }
        if !self.may_wait() && applied.was_applied(&entry.id, key) {
            tracing::info!(manifest = name, "putting back what was changed");
            self.engine.rewrites.increment();
        }
        let path = listing.path(&entry.id);
        let is_read = builder::is_read(&entry.id, self.context.ordering);
        let before = listing.head(&entry.id);
        let had_bundle = before.is_some_and(|head| builder::asks_for_bundle(&head.annotations));
        let emptied = had_bundle
            .then(|| builder::without_bundles(&entry.id, &wanted))
            .flatten();
        if had_bundle && let Some(patch) = builder::without_webhook(&entry.id, &wanted) {
            requests.merge(&entry.id, &path, &patch).await?;
        }
        // While the annotation is there, its owner fills the bundle in.
        let is_left = |head: &Value| !builder::asks_for_bundle(head);
        if !is_read && !builder::has_excess(&entry.id) {
            let mut head = requests.apply_for_head(&path, wanted).await?;
            if let Some(emptied) = emptied.filter(|_| is_left(&head.annotations)) {
                tracing::info!(
                    manifest = name,
                    "removing a bundle that is not wanted any more"
                );
                head = requests.apply_for_head(&path, emptied).await?;
            }
            applied.remember_head(&entry.id, key, head, true);
            return Ok(None);
        }
        let mut object = match requests.apply(&path, &wanted).await {
            Err(error) if builder::is_job(&entry.id) && request_failure::is_immutable(&error) => {
                tracing::info!(manifest = name, "recreating a job that cannot be changed");
                requests.clear(&entry.id, &path).await?;
                requests.apply(&path, &wanted).await?
            }
            response => response?,
        };
        let annotations = object.pointer("/metadata/annotations").cloned();
        if let Some(emptied) = emptied.filter(|_| is_left(&annotations.unwrap_or_default())) {
            tracing::info!(
                manifest = name,
                "removing a bundle that is not wanted any more"
            );
            object = requests.apply(&path, &emptied).await?;
        }
        if builder::has_excess(&entry.id)
            && let Some(patch) = builder::excess(&entry.id, &wanted, &object)
        {
            tracing::info!(manifest = name, "removing what others have added");
            object = requests.merge(&entry.id, &path, &patch).await?;
        }
        applied.remember(&entry.id, key, &object, !builder::is_watched(&entry.id));
        Ok(Some(object))
    }

    /// Waits until an object is as it must be.
    async fn wait(
        &self,
        task: Task,
        entry: &Entry,
        listing: &Listing,
        object: Value,
        judge: impl Fn(&Value) -> Health,
    ) -> Result<(), Stop> {
        let key = self.key(entry);
        let (applied, shared) = (&self.engine.applied, &self.engine.shared);
        let workload = entry.to_string();
        let settle = |object: &Value| {
            let outcome = match judge(object) {
                Health::Waiting(failure) => {
                    let mut report = shared.lock();
                    let since = report.pending.entry(workload.clone());
                    since.or_insert_with(self.context.now);
                    let subject = FailureSubject::Workload(workload.clone());
                    report.failures.insert(task, Failure { subject, ..failure });
                    return None;
                }
                Health::Ready => Ok(()),
                Health::Failed(failure) => {
                    if builder::is_job(&entry.id) {
                        applied.mark_failed(&entry.id);
                    }
                    Err(Stop::Failure(failure))
                }
            };
            let mut report = shared.lock();
            report.failures.remove(&task);
            report.pending.remove(&workload);
            drop(report);
            applied.remember(&entry.id, key, object, outcome.is_ok());
            Some(outcome)
        };
        let settled = settle(&object);
        // Many objects are waited for at once.
        drop(object);
        match settled {
            Some(outcome) => outcome,
            // What rolls out while a release is there is no fault and nothing to wait for.
            None if !self.may_wait() => {
                let mut report = shared.lock();
                report.failures.remove(&task);
                report.pending.remove(&workload);
                Ok(())
            }
            None => {
                self.engine
                    .requests
                    .follow(listing, &entry.id, settle)
                    .await
            }
        }
    }

    /// Removes an object; only on the way to another release. It is not waited for.
    async fn delete(&self, entry: &Entry) -> Result<(), Stop> {
        let requests = &self.engine.requests;
        let deletions = |change: &dyn Fn(&mut Report)| change(&mut self.engine.shared.lock());
        let listing = match requests.listing(&self.listings, entry).await {
            Ok(listing) => listing,
            // There are no objects of a kind that is not served.
            Err(error) if is_not_served(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let name = entry.to_string();
        if listing.head(&entry.id).is_none() {
            deletions(&|report| {
                report.deletions.remove(&name);
            });
            return Ok(());
        }
        if self.context.ordering == Ordering::Updating {
            requests.delete(&entry.id, &listing.path(&entry.id)).await?;
            deletions(&|report| {
                report.deletions.insert(name.clone());
            });
        }
        Ok(())
    }

    /// Stands for what is applied of a manifest in this cluster.
    fn key(&self, entry: &Entry) -> u64 {
        let Injected {
            owner,
            proxy,
            tls,
            scaled,
        } = &self.context.injected;
        let is_create_only = entry.annotations.get(CREATE_ONLY);
        let tls = builder::asks_for_tls(entry).then_some(tls);
        let is_scaled = scaled.contains(&entry.id);
        let text = format!(
            "{:x} {owner} {proxy:?} {is_create_only:?} {tls:?} {is_scaled}",
            entry.content
        );
        VersionHash::default().with(text.as_bytes()).as_u64()
    }
}

/// Whether the API server has no such kind: its definition may be on its way.
const fn is_not_served(error: &ApplyError) -> bool {
    matches!(
        error,
        ApplyError::Discover {
            source: cluster::discovery::Error::NotServed { .. },
            ..
        }
    )
}

/// Why a manifest is not done.
enum Stop {
    /// Trying again does not help.
    Failure(Failure),
    Request(ApplyError),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<ApplyError> for Stop {
    fn from(error: ApplyError) -> Self {
        Self::Request(error)
    }
}
