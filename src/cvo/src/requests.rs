//! Requests of the version operator, and what it remembers of their responses.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::access::Access;
use cluster::apply::{Applier, Error as ApplyError, Ownership};
use cluster::discovery::ServedKind;
use cluster::list::{self, ObjectHead};
use cluster::objects::{self, Objects};
use cluster::path;
use cluster::wire::{self, ObjectEvent, PlainObject, RequestBody, escape};
use futures::StreamExt as _;
use http::Method;
use release::inventory::Entry;
use release::manifest::ObjectId;
use release::version_hash::VersionHash;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::sync::OnceCell;

/// Field manager: OpenShift's version operator has the same, so that its fields become ours.
const MANAGER: &str = "cluster-version-operator";

/// How long a watch of one object lasts until it is opened again.
const WATCH_SECS: u32 = 120;

/// Between two watches of one object.
const REOPEN: Duration = Duration::from_secs(1);

/// How often it is read whether an object is gone that was removed.
const GONE_READS: usize = 10;

/// Requests, and what was applied.
#[derive(Debug)]
pub struct ObjectRequests {
    access: Arc<Access>,
    applier: Applier,
    applied: Mutex<HashMap<ObjectId, LastApplied>>,
    /// Objects that failed for good.
    permanently_failed: Mutex<HashSet<ObjectId>>,
}

/// An object as it was after the last apply.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LastApplied {
    key: u64,
    version: String,
    generation: Option<i64>,
    metadata: u64,
    is_ready: bool,
}

/// Whether an object has to be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It is as it was after the last apply of the same.
    Nothing,
    /// The same, and its health has to be read.
    Health,
    /// It was not applied, or has changed.
    Apply,
}

/// The objects of a kind, as they were at one time of a pass.
#[derive(Debug)]
pub struct Listing {
    pub served: ServedKind,
    heads: HashMap<(String, String), ObjectHead>,
}

impl Listing {
    /// The object of a manifest.
    pub fn head(&self, id: &ObjectId) -> Option<&ObjectHead> {
        let namespace = if self.served.is_namespaced {
            id.namespace.clone()
        } else {
            String::new()
        };
        self.heads.get(&(namespace, id.name.clone()))
    }

    /// Path of the object of a manifest.
    pub fn path(&self, id: &ObjectId) -> String {
        self.served.path(&id.namespace, &id.name)
    }
}

/// A listing that is read when it is needed first.
type Cell = Arc<OnceCell<Arc<Listing>>>;

/// The listings of one pass: each kind is read once.
#[derive(Debug, Default)]
pub struct Listings(Mutex<HashMap<(String, String), Cell>>);

impl Listings {
    fn cell(&self, api_version: &str, kind: &str) -> Cell {
        // Nothing panics while it is held.
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (api_version.to_owned(), kind.to_owned());
        Arc::clone(cells.entry(key).or_default())
    }
}

impl ObjectRequests {
    /// Acts as this identity.
    pub fn new(access: Arc<Access>) -> Self {
        Self {
            applier: Applier::new(Arc::clone(&access), MANAGER),
            access,
            applied: Mutex::default(),
            permanently_failed: Mutex::default(),
        }
    }

    /// The objects of a manifest's kind.
    ///
    /// # Errors
    /// The kind is not served, or its objects cannot be read.
    pub async fn listing(
        &self,
        listings: &Listings,
        entry: &Entry,
    ) -> Result<Arc<Listing>, ApplyError> {
        let cell = listings.cell(&entry.api_version, &entry.id.kind);
        let read = || async {
            let served = self
                .applier
                .find(&entry.api_version, &entry.id.kind)
                .await?;
            let heads = list::heads(&self.access, &served.all()).await;
            let heads = heads.map_err(|source| request_error(&entry.id, source))?;
            let by_name = |head: ObjectHead| ((head.namespace.clone(), head.name.clone()), head);
            let heads = heads.into_iter().map(by_name).collect();
            Ok(Arc::new(Listing { served, heads }))
        };
        cell.get_or_try_init(read).await.cloned()
    }

    /// Whether an object has to be applied. `key` stands for what is to be applied.
    pub fn need(&self, id: &ObjectId, key: u64, head: Option<&ObjectHead>) -> Need {
        let applied = self.applied();
        let (Some(last), Some(head)) = (applied.get(id), head) else {
            return Need::Apply;
        };
        if last.key != key {
            return Need::Apply;
        }
        if last.version == head.resource_version {
            return if last.is_ready {
                Need::Nothing
            } else {
                Need::Health
            };
        }
        // Its status has changed, and nothing that is applied.
        let is_counted = head.generation.is_some() && head.generation == last.generation;
        if is_counted && last.metadata == metadata_hash(head) {
            Need::Health
        } else {
            Need::Apply
        }
    }

    /// Where the objects of a kind are.
    ///
    /// # Errors
    /// The kind is not served, or its group cannot be read.
    pub async fn served(&self, api_version: &str, kind: &str) -> Result<ServedKind, ApplyError> {
        self.applier.find(api_version, kind).await
    }

    /// Whether the same was applied before: then another writer has changed it.
    pub fn was_applied(&self, id: &ObjectId, key: u64) -> bool {
        self.applied().get(id).is_some_and(|last| last.key == key)
    }

    /// Remembers an object that was applied, or read.
    pub fn remember(&self, id: &ObjectId, key: u64, object: &Value, is_ready: bool) {
        let head = object.get("metadata").cloned().unwrap_or_default();
        // A response without metadata is remembered as one that no list has.
        let head: ObjectHead = serde_json::from_value(head).unwrap_or_default();
        self.remember_head(id, key, head, is_ready);
    }

    /// Remembers an object by its metadata.
    pub fn remember_head(&self, id: &ObjectId, key: u64, head: ObjectHead, is_ready: bool) {
        let last = LastApplied {
            key,
            metadata: metadata_hash(&head),
            version: head.resource_version,
            generation: head.generation,
            is_ready,
        };
        self.applied().insert(id.clone(), last);
    }

    /// Applies an object: our fields are set, also those that others own.
    ///
    /// # Errors
    /// What came of the request.
    pub async fn apply(&self, path: &str, object: &Value) -> Result<Value, ApplyError> {
        self.applier.apply_at(path, object, Ownership::Take).await
    }

    /// Does the same where nothing but the metadata of the response is read.
    ///
    /// # Errors
    /// What came of the request.
    pub async fn apply_for_head(
        &self,
        path: &str,
        object: Value,
    ) -> Result<ObjectHead, ApplyError> {
        let applied = self.applier.apply_for_head(path, object, Ownership::Take);
        applied.await
    }

    /// Has the API server check what [`Self::apply`] would do; nothing is stored. The object as it
    /// would be.
    ///
    /// # Errors
    /// What came of the request.
    pub async fn dry_run(
        &self,
        id: &ObjectId,
        path: &str,
        object: &Value,
    ) -> Result<Value, ApplyError> {
        let path = format!("{path}?dryRun=All&fieldManager={MANAGER}&force=true");
        let body = RequestBody::Apply(object);
        let response = self.access.send(Method::PATCH, &path, body).await;
        response.map_err(|source| request_error(id, source))
    }

    /// Changes an object by a merge patch.
    ///
    /// # Errors
    /// What came of the request.
    pub async fn merge(
        &self,
        id: &ObjectId,
        path: &str,
        change: &Value,
    ) -> Result<Value, ApplyError> {
        let path = format!("{path}?fieldManager={MANAGER}");
        let body = RequestBody::MergePatch(change);
        let response = self.access.send::<PlainObject>(Method::PATCH, &path, body);
        let response = response.await.map(|PlainObject(object)| object);
        response.map_err(|source| request_error(id, source))
    }

    /// Makes an object that may exist already. True if it was made.
    ///
    /// # Errors
    /// What came of the request.
    pub async fn create(
        &self,
        id: &ObjectId,
        listing: &Listing,
        object: &Value,
    ) -> Result<bool, ApplyError> {
        let all = listing.served.within(&id.namespace);
        let objects = Objects::<IgnoredAny>::at(&self.access, all).manager(MANAGER);
        let created = wire::unless_conflict(objects.create(object).await);
        let created = created.map_err(|source| request_error(id, source))?;
        Ok(created.is_some())
    }

    /// Reads an object.
    ///
    /// # Errors
    /// What came of the request.
    pub async fn read(&self, id: &ObjectId, path: &str) -> Result<Value, ApplyError> {
        let response = self.access.get::<PlainObject>(path).await;
        let response = response.map(|PlainObject(object)| object);
        response.map_err(|source| request_error(id, source))
    }

    /// Requests the removal of an object.
    ///
    /// # Errors
    /// What came of the request; that it does not exist is none.
    pub async fn delete(&self, id: &ObjectId, path: &str) -> Result<(), ApplyError> {
        let deleted = objects::delete_in_background(&self.access, path).await;
        deleted.map_err(|source| request_error(id, source))
    }

    /// Removes an object and waits until it is gone, so that another one can take its place.
    ///
    /// # Errors
    /// What came of a request; the last response where the object stays.
    pub async fn clear(&self, id: &ObjectId, path: &str) -> Result<(), ApplyError> {
        self.delete(id, path).await?;
        let mut last = Ok(());
        for _ in 0..GONE_READS {
            match self.access.find::<IgnoredAny>(path).await {
                Ok(None) => return Ok(()),
                Ok(Some(_)) => {}
                Err(source) => last = Err(request_error(id, source)),
            }
            tokio::time::sleep(REOPEN).await;
        }
        last
    }

    /// Notes that an object has failed for good: it is recreated when its turn comes again.
    pub fn mark_failed(&self, id: &ObjectId) {
        self.permanently_failed().insert(id.clone());
    }

    /// Whether it was noted; the note goes.
    pub fn take_failed(&self, id: &ObjectId) -> bool {
        self.permanently_failed().remove(id)
    }

    fn permanently_failed(&self) -> MutexGuard<'_, HashSet<ObjectId>> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.permanently_failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads one object of the cluster's settings; none where there is none, or its kind is not
    /// served.
    ///
    /// # Errors
    /// What came of the request.
    pub async fn setting(&self, plural: &str) -> Result<Option<Value>, wire::Error> {
        let all = path::untyped("config.openshift.io/v1", None, plural);
        Objects::at(&self.access, all).get("cluster").await
    }

    /// Calls `look` with an object each time that it changes, until that yields something. Never
    /// ends by itself; the caller has a deadline.
    pub async fn follow<T>(
        &self,
        listing: &Listing,
        id: &ObjectId,
        mut look: impl FnMut(&Value) -> Option<T>,
    ) -> T {
        let collection = listing.served.within(&id.namespace);
        let selector = escape(&format!("metadata.name={}", id.name));
        let path =
            format!("{collection}?watch=true&timeoutSeconds={WATCH_SECS}&fieldSelector={selector}");
        loop {
            match self.access.watch::<PlainObject>(&path).await {
                Ok(events) => {
                    let mut events = std::pin::pin!(events);
                    while let Some(event) = events.next().await {
                        if let Ok(ObjectEvent::Applied(PlainObject(object))) = event
                            && let Some(found) = look(&object)
                        {
                            return found;
                        }
                    }
                }
                Err(error) => {
                    tracing::debug!(object = %id, error = %chassis::report::Chain(&error), "cannot watch an object");
                }
            }
            tokio::time::sleep(REOPEN).await;
        }
    }

    fn applied(&self) -> MutexGuard<'_, HashMap<ObjectId, LastApplied>> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn request_error(id: &ObjectId, source: wire::Error) -> ApplyError {
    ApplyError::Request {
        object: id.to_string(),
        source,
    }
}

/// Of what is applied of an object's metadata.
fn metadata_hash(head: &ObjectHead) -> u64 {
    let parts = [&head.labels, &head.annotations, &head.owner_references];
    let hash = parts.iter().fold(VersionHash::default(), |hash, part| {
        hash.with(part.to_string().as_bytes()).with(b"\n")
    });
    hash.as_u64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn object_is_applied_again_only_if_something_applied_has_changed() {
        let (_script, client) = apimock::Script::start(vec![]);
        let requests = ObjectRequests::new(Arc::new(Access::of_client(client)));
        let id = ObjectId {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "n".to_owned(),
            name: "d".to_owned(),
        };
        let object = |version: &str, generation: i64, labels: Value| json!({ "metadata": { "name": "d", "resourceVersion": version, "generation": generation, "labels": labels } });
        let head = |object: &Value| -> ObjectHead {
            serde_json::from_value(object["metadata"].clone()).unwrap()
        };
        let applied = object("5", 2, json!({ "a": "b" }));
        assert_eq!(requests.need(&id, 1, Some(&head(&applied))), Need::Apply);
        requests.remember(&id, 1, &applied, true);
        let need = |key, object: Value| requests.need(&id, key, Some(&head(&object)));
        assert_eq!(need(1, applied.clone()), Need::Nothing);
        assert_eq!(need(2, applied.clone()), Need::Apply);
        assert_eq!(requests.need(&id, 1, None), Need::Apply);
        assert_eq!(need(1, object("6", 2, json!({ "a": "b" }))), Need::Health);
        assert_eq!(need(1, object("6", 3, json!({ "a": "b" }))), Need::Apply);
        assert_eq!(need(1, object("6", 2, json!({ "a": "c" }))), Need::Apply);
        requests.remember(&id, 1, &applied, false);
        assert_eq!(need(1, applied), Need::Health);
        // A kind that counts no generations.
        let plain = json!({ "metadata": { "name": "d", "resourceVersion": "5" } });
        requests.remember(&id, 1, &plain, true);
        let mut changed = plain.clone();
        changed["metadata"]["resourceVersion"] = json!("6");
        assert_eq!(need(1, plain), Need::Nothing);
        assert_eq!(need(1, changed), Need::Apply);
    }
}
