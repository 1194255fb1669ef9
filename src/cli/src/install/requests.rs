//! Requests of an installation: the cluster's objects, applied, found and removed.
//!
//! - `survey`: what is there before anything is applied
//! - `stored`: what an installation stores of itself, and makes again of others

mod stored;
mod survey;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use cluster::access::Access;
use cluster::apply::{self, Applier, ApplyOutcome, Ownership};
use cluster::wire::{self, RequestBody};
use http::Method;
use install::adoption::AdoptionError;
use install::record::{RecordError, RecordedObject};
use release::manifest::{Manifest, ObjectId};
use serde::Deserialize;
use serde_json::{Value, json};

/// Field manager of all that is installed.
const MANAGER: &str = "slipway-install";

/// How often an apply is tried again while its kind is on its way.
const APPLY_TRIES: u32 = 40;

const APPLY_PAUSE: Duration = Duration::from_millis(500);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Apply(#[from] apply::Error),
    #[error(transparent)]
    Request(#[from] wire::Error),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Adoption(#[from] AdoptionError),
}

/// A list of any kind.
#[derive(Deserialize)]
struct Items {
    #[serde(default)]
    items: Option<Vec<Value>>,
}

/// The cluster, as an installation asks it.
#[derive(Debug)]
pub(super) struct InstallRequests {
    pub(super) access: Arc<Access>,
    applier: Applier,
    ownership: Ownership,
}

impl InstallRequests {
    pub(super) fn new(access: Access, ownership: Ownership) -> Self {
        let access = Arc::new(access);
        Self {
            applier: Applier::new(Arc::clone(&access), MANAGER).strict(),
            access,
            ownership,
        }
    }

    /// Applies an object; tries again while its kind or its admission is on its way.
    pub(super) async fn apply(&self, manifest: &Manifest) -> Result<ApplyOutcome, Error> {
        let version = manifest.full_api_version();
        if is_create_only(&manifest.object) && self.find(&manifest.id, &version).await?.is_some() {
            return Ok(ApplyOutcome::Unchanged);
        }
        let mut tries = 0;
        loop {
            match self.applier.apply(&manifest.object, self.ownership).await {
                Ok(done) => return Ok(done.change),
                Err(error) if tries < APPLY_TRIES && is_on_its_way(&error) => {
                    tries += 1;
                    tokio::time::sleep(APPLY_PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// An object as it is; nothing where it, or its kind, is not there.
    pub(super) async fn find(
        &self,
        id: &ObjectId,
        api_version: &str,
    ) -> Result<Option<Value>, Error> {
        match self.path(id, api_version).await? {
            Some(path) => self.at(&path).await,
            None => Ok(None),
        }
    }

    /// Path of a manifest's object; none where its kind is not served.
    pub(super) async fn path_of(&self, manifest: &Manifest) -> Result<Option<String>, Error> {
        self.path(&manifest.id, &manifest.full_api_version()).await
    }

    /// Has an object removed, with what it owns; whether it was there.
    pub(super) async fn remove(&self, object: &RecordedObject) -> Result<bool, Error> {
        match self.path(&object.id(), &object.api_version).await? {
            Some(path) => self.delete(&path).await,
            None => Ok(false),
        }
    }

    /// Waits until objects are gone; those that are not, after a limit.
    pub(super) async fn until_gone<'a>(
        &self,
        objects: &'a [RecordedObject],
        limit: Duration,
    ) -> Result<Vec<&'a RecordedObject>, Error> {
        let deadline = tokio::time::Instant::now() + limit;
        let mut left: Vec<_> = objects.iter().collect();
        loop {
            let mut still = Vec::new();
            for object in left {
                if self
                    .find(&object.id(), &object.api_version)
                    .await?
                    .is_some()
                {
                    still.push(object);
                }
            }
            left = still;
            if left.is_empty() || tokio::time::Instant::now() >= deadline {
                return Ok(left);
            }
            tokio::time::sleep(APPLY_PAUSE).await;
        }
    }

    async fn path(&self, id: &ObjectId, api_version: &str) -> Result<Option<String>, Error> {
        match self.applier.find(api_version, &id.kind).await {
            Ok(served) => Ok(Some(served.path(&id.namespace, &id.name))),
            Err(apply::Error::Discover {
                source: cluster::discovery::Error::NotServed { .. },
                ..
            }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes what is at a path; whether it was there.
    pub(super) async fn delete(&self, path: &str) -> Result<bool, Error> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
        });
        let delete = || {
            let body = RequestBody::Object(&options);
            self.access.send::<Value>(Method::DELETE, path, body)
        };
        Ok(wire::found(patiently(delete).await)?.is_some())
    }

    /// All objects below a path; none where the kind is not served.
    pub(super) async fn list(&self, path: &str) -> Result<Vec<Value>, Error> {
        let found: Option<Items> = patiently(|| self.access.find(path)).await?;
        Ok(found.and_then(|it| it.items).unwrap_or_default())
    }

    /// The object at a path; nothing where it, or its kind, is not there.
    pub(super) async fn at(&self, path: &str) -> Result<Option<Value>, Error> {
        Ok(patiently(|| self.access.find(path)).await?)
    }
}

/// Sends a request again while the API server cannot serve it yet: it reloads its own definitions
/// for a moment after each change of them.
async fn patiently<T, F>(send: impl Fn() -> F) -> Result<T, wire::Error>
where
    F: Future<Output = Result<T, wire::Error>>,
{
    let mut tries = 0;
    loop {
        match send().await {
            Err(error) if tries < APPLY_TRIES && error.is_transient() => {
                tries += 1;
                tokio::time::sleep(APPLY_PAUSE).await;
            }
            result => return result,
        }
    }
}

/// Whether an object is only made where it is not there.
fn is_create_only(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    let value = annotations.and_then(|all| all.get("release.openshift.io/create-only"));
    value.is_some_and(|value| value == "true")
}

/// Whether an object may be applied soon: its kind is served a moment after its definition, its
/// namespace and what admits it a moment after they were written.
fn is_on_its_way(error: &apply::Error) -> bool {
    match error {
        apply::Error::Request { source, .. } => source.is_transient() || source.is_not_found(),
        apply::Error::Discover { .. }
        | apply::Error::Incomplete { .. }
        | apply::Error::Conflicts { .. } => error.is_transient(),
    }
}
