//! Requests of the version operator.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
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

/// Requests for the objects of a release.
#[derive(Debug)]
pub struct ObjectRequests {
    access: Arc<Access>,
    applier: Applier,
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

    /// Where the objects of a kind are.
    ///
    /// # Errors
    /// The kind is not served, or its group cannot be read.
    pub async fn served(&self, api_version: &str, kind: &str) -> Result<ServedKind, ApplyError> {
        self.applier.find(api_version, kind).await
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
}

fn request_error(id: &ObjectId, source: wire::Error) -> ApplyError {
    ApplyError::Request {
        object: id.to_string(),
        source,
    }
}
