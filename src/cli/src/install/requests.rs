//! Requests of an installation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::config::ClusterVersion;
use chassis::report::Chain;
use cluster::access::Access;
use cluster::apply::{self, Applier, ApplyOutcome, Ownership};
use cluster::wire::{self, RequestBody};
use cluster::{discovery, path, review};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use install::adoption::{self, Adoption, AdoptionError, Override};
use install::order;
use install::record::{CONFIG_MAP, InstallRecord, KEY, RecordError, RecordedObject};
use install::rival::{Rival, Suspect};
use install::survey::{GROUPS, PROVIDED, Provided, ProvidedKind, Rehearsed, ServedGroup, brought};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use release::manifest::{Manifest, ObjectId};
use serde::Deserialize;
use serde_json::{Value, json};

/// Field manager of all that is installed.
const MANAGER: &str = "slipway-install";

/// Requests that are under way at once.
const CONCURRENCY: usize = 8;

/// Verbs that an installation needs for each kind.
const VERBS: [&str; 4] = ["get", "create", "patch", "delete"];

/// Status of a request whose object is not valid.
const UNPROCESSABLE: u16 = 422;

/// How long an apply is tried again while its kind is on its way.
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

    /// What is installed; nothing where there is no record.
    pub(super) async fn record(&self) -> Result<Option<InstallRecord>, Error> {
        let found: Option<ConfigMap> = self.access.find(&record_path()).await?;
        let data = found.map(|it| it.data.unwrap_or_default());
        Ok(data.map(|data| InstallRecord::read(&data)).transpose()?)
    }

    /// Stores what is installed.
    pub(super) async fn put_record(&self, record: &InstallRecord) -> anyhow::Result<()> {
        let (namespace, name) = CONFIG_MAP;
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": namespace },
            "data": { KEY: serde_json::to_string(record)? },
        });
        self.applier.apply(&object, Ownership::Take).await?;
        Ok(())
    }

    /// What was taken over from OpenShift's operators; nothing where nothing was.
    pub(super) async fn adoption(&self) -> Result<Option<Adoption>, Error> {
        let found: Option<ConfigMap> = self.access.find(&adoption_path()).await?;
        let data = found.map(|it| it.data.unwrap_or_default());
        Ok(data.map(|data| Adoption::read(&data)).transpose()?)
    }

    /// Stores what is taken over; before it is.
    pub(super) async fn put_adoption(&self, adoption: &Adoption) -> anyhow::Result<()> {
        let (namespace, name) = adoption::CONFIG_MAP;
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": namespace },
            "data": { adoption::KEY: adoption.text()? },
        });
        self.applier.apply(&object, Ownership::Take).await?;
        Ok(())
    }

    pub(super) async fn delete_adoption(&self) -> Result<(), Error> {
        self.delete(&adoption_path()).await?;
        Ok(())
    }

    /// The overrides of ClusterVersion; null without any.
    pub(super) async fn overrides(&self) -> Result<Value, Error> {
        let path = path::object::<ClusterVersion>("version");
        let version: Option<Value> = self.access.find(&path).await?;
        let overrides = version.and_then(|it| it.pointer("/spec/overrides").cloned());
        Ok(overrides.unwrap_or(Value::Null))
    }

    /// Changes the overrides of ClusterVersion, where there is one.
    pub(super) async fn change_overrides(
        &self,
        add: &[Override],
        remove: &[Override],
    ) -> anyhow::Result<()> {
        const TRIES: u32 = 20;
        let at = path::object::<ClusterVersion>("version");
        for _ in 0..TRIES {
            let Some(version) = self.access.find::<Value>(&at).await? else {
                return Ok(());
            };
            let present = version.pointer("/spec/overrides").unwrap_or(&Value::Null);
            let Some(merged) = adoption::merge(present, add, remove) else {
                return Ok(());
            };
            let read = version.pointer("/metadata/resourceVersion");
            let patch = json!({
                "metadata": { "resourceVersion": read }, "spec": { "overrides": merged },
            });
            let body = RequestBody::MergePatch(&patch);
            let sent = self.access.send::<Value>(Method::PATCH, &at, body).await;
            // The version operator writes often.
            if wire::unless_conflict(sent)?.is_some() {
                return Ok(());
            }
        }
        anyhow::bail!(
            "ClusterVersion version was changed at each of {TRIES} tries to set overrides"
        )
    }

    /// Makes an object what it was, or makes it again.
    pub(super) async fn restore(&self, was: &Value) -> anyhow::Result<()> {
        let Some(id) = adoption::id(was) else {
            return Ok(());
        };
        let api_version = was
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let Some(path) = self.path(&id, api_version).await? else {
            anyhow::bail!("cannot restore {id}: the API server does not serve its kind");
        };
        let body = RequestBody::Object(was);
        let Some(present) = self.access.find::<Value>(&path).await? else {
            let (all, _) = path.rsplit_once('/').unwrap_or_default();
            self.access.send::<Value>(Method::POST, all, body).await?;
            return Ok(());
        };
        let mut object = was.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            let read = present.pointer("/metadata/resourceVersion").cloned();
            metadata.extend(read.map(|read| ("resourceVersion".to_owned(), read)));
        }
        let body = RequestBody::Object(&object);
        let sent = self.access.send::<Value>(Method::PUT, &path, body).await;
        match sent {
            Ok(_) => Ok(()),
            // A field that only a new object may have with another value.
            Err(error) if error.code() == Some(UNPROCESSABLE) => self.make_again(&path, was).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Removes what is at a path and makes an object in its place.
    async fn make_again(&self, path: &str, object: &Value) -> anyhow::Result<()> {
        self.delete(path).await?;
        let (all, _) = path.rsplit_once('/').unwrap_or_default();
        let mut tries = 0;
        loop {
            let body = RequestBody::Object(object);
            match self.access.send::<Value>(Method::POST, all, body).await {
                // What was there has not gone yet.
                Err(error) if error.is_conflict() && tries < APPLY_TRIES => {
                    tries += 1;
                    tokio::time::sleep(APPLY_PAUSE).await;
                }
                sent => return Ok(sent.map(drop)?),
            }
        }
    }

    pub(super) async fn delete_record(&self) -> Result<(), Error> {
        self.delete(&record_path()).await?;
        Ok(())
    }

    /// `major` and `minor` of the API server.
    pub(super) async fn server(&self) -> Result<(String, String), Error> {
        #[derive(Deserialize)]
        struct Version {
            #[serde(default)]
            major: String,
            #[serde(default)]
            minor: String,
        }
        let Version { major, minor } = self.access.get("/version").await?;
        Ok((major, minor))
    }

    /// Which groups of others the API server serves.
    pub(super) async fn groups(&self) -> Result<BTreeSet<ServedGroup>, Error> {
        let groups = discovery::groups(&self.access).await?;
        let is_served = |it: &ServedGroup| groups.iter().any(|group| group == it.group);
        Ok(GROUPS.into_iter().filter(is_served).collect())
    }

    /// What of [`PROVIDED`] is there with its keys.
    pub(super) async fn provided(&self) -> Result<BTreeSet<Provided>, Error> {
        let mut there = BTreeSet::new();
        for wanted in PROVIDED {
            let (namespace, name) = wanted.at;
            let path = match wanted.kind {
                ProvidedKind::ConfigMap => path::namespaced::<ConfigMap>(namespace, name),
                ProvidedKind::Secret => path::namespaced::<Secret>(namespace, name),
            };
            let found: Option<Value> = self.access.find(&path).await?;
            let has = |key: &&str| {
                let value = found
                    .as_ref()
                    .and_then(|it| it.get("data")?.get(*key)?.as_str());
                value.is_some_and(|value| !value.trim().is_empty())
            };
            if wanted.keys.iter().all(has) {
                there.insert(wanted);
            }
        }
        Ok(there)
    }

    /// Workloads of other operators.
    pub(super) async fn rivals(&self, suspects: &BTreeSet<Suspect>) -> Result<Vec<Rival>, Error> {
        let mut rivals = Vec::new();
        for suspect in suspects {
            let object = self.find(&suspect.id, "apps/v1").await?;
            rivals.extend(object.and_then(|object| suspect.judge(&object)));
        }
        Ok(rivals)
    }

    /// What this user may not do with the kinds of the objects.
    pub(super) async fn denied(&self, wanted: &[Manifest]) -> Result<Vec<String>, Error> {
        if self.may(("*", "*", "*", "")).await? {
            return Ok(Vec::new());
        }
        let mut kinds: BTreeSet<(String, String, String)> = BTreeSet::new();
        for manifest in wanted {
            let version = manifest.full_api_version();
            kinds.insert((
                version,
                manifest.id.kind.clone(),
                manifest.id.namespace.clone(),
            ));
        }
        let mut asked = Vec::new();
        for (version, kind, namespace) in kinds {
            let served = match self.applier.find(&version, &kind).await {
                Ok(served) => served,
                // A kind that is not served yet has no plural; who may define kinds may use them.
                Err(apply::Error::Discover {
                    source: discovery::Error::NotServed { .. },
                    ..
                }) => continue,
                Err(error) => return Err(error.into()),
            };
            let group = version.split_once('/').map_or("", |(group, _)| group);
            let all = served.all();
            let plural = all.rsplit('/').next().unwrap_or_default().to_owned();
            for verb in VERBS {
                asked.push((verb, group.to_owned(), plural.clone(), namespace.clone()));
            }
        }
        let reviews = asked
            .into_iter()
            .map(|(verb, group, resource, namespace)| async move {
                if self.may((verb, &group, &resource, &namespace)).await? {
                    return Ok(None);
                }
                let name = if group.is_empty() {
                    resource
                } else {
                    format!("{resource}.{group}")
                };
                let place = if namespace.is_empty() {
                    String::new()
                } else {
                    format!(" in {namespace}")
                };
                Ok::<_, Error>(Some(format!("{verb} {name}{place}")))
            });
        let reviews = stream::iter(reviews).buffered(CONCURRENCY);
        let denied: Vec<Option<String>> = reviews.try_collect().await?;
        Ok(denied.into_iter().flatten().collect())
    }

    /// Whether this user may do something with all objects of a kind in a namespace, or in all.
    async fn may(
        &self,
        (verb, group, resource, namespace): (&str, &str, &str, &str),
    ) -> Result<bool, Error> {
        let attributes = json!({
            "verb": verb, "group": group, "resource": resource, "namespace": namespace,
        });
        let spec = json!({ "resourceAttributes": attributes });
        Ok(review::own_access(&self.access, &spec).await?)
    }

    /// Applies each object for a trial.
    pub(super) async fn rehearse(
        &self,
        wanted: &[Manifest],
    ) -> Result<BTreeMap<ObjectId, Rehearsed>, Error> {
        let (namespaces, kinds) = brought(wanted);
        let trials = wanted.iter().map(|manifest| {
            let id = &manifest.id;
            let is_new = kinds.contains(&(id.group.as_str(), id.kind.as_str()));
            let is_inside = namespaces.contains(id.namespace.as_str());
            async move {
                if let Some(done) = self.created_before(manifest).await {
                    return (id.clone(), done);
                }
                let said = self
                    .applier
                    .rehearse(&manifest.object, self.ownership)
                    .await;
                let said = match said {
                    Ok(ApplyOutcome::Created) => Rehearsed::Create,
                    Ok(ApplyOutcome::Changed) => Rehearsed::Change,
                    Ok(ApplyOutcome::Unchanged) => Rehearsed::Keep,
                    Err(apply::Error::Conflicts { conflicts, .. }) => {
                        Rehearsed::Conflicts(conflicts.iter().map(ToString::to_string).collect())
                    }
                    // A newer definition may allow what the one that is there does not.
                    Err(apply::Error::Discover {
                        source: discovery::Error::NotServed { .. },
                        ..
                    }) if is_new => Rehearsed::Later,
                    Err(apply::Error::Request { source, .. })
                        if is_new && source.code() == Some(400)
                            || is_inside && source.is_not_found() =>
                    {
                        Rehearsed::Later
                    }
                    Err(error) => Rehearsed::Refused(Chain(&error).to_string()),
                };
                (id.clone(), said)
            }
        });
        Ok(stream::iter(trials)
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await)
    }

    /// What is said of an object that is created only, and is there: an administrator's changes of
    /// it stay.
    async fn created_before(&self, manifest: &Manifest) -> Option<Rehearsed> {
        if !is_create_only(&manifest.object) {
            return None;
        }
        let version = manifest.full_api_version();
        match self.find(&manifest.id, &version).await {
            Ok(found) => found.map(|_| Rehearsed::Keep),
            Err(error) => Some(Rehearsed::Refused(Chain(&error).to_string())),
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

    /// Which of these objects are there by others. Where Slipway runs already, by whatever it was
    /// applied, only namespaces and definitions may be; of these a former installation's own are
    /// not.
    pub(super) async fn there(
        &self,
        objects: &[Manifest],
        has_slipway: bool,
    ) -> Result<BTreeSet<ObjectId>, Error> {
        let of_others =
            |it: &&Manifest| !has_slipway || order::is_shared(&it.id) || is_create_only(&it.object);
        let looks = objects.iter().filter(of_others).map(|it| async move {
            let object = self.find(&it.id, &it.full_api_version()).await?;
            let is_own = object.as_ref().is_some_and(is_own_alone);
            let is_there = object.is_some() && !(is_own && order::is_shared(&it.id));
            Ok::<_, Error>(is_there.then(|| it.id.clone()))
        });
        let looks = stream::iter(looks.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY);
        let there: Vec<Option<ObjectId>> = looks.try_collect().await?;
        Ok(there.into_iter().flatten().collect())
    }

    /// An object as it is; nothing where it, or its kind, is not there.
    pub(super) async fn find(
        &self,
        id: &ObjectId,
        api_version: &str,
    ) -> Result<Option<Value>, Error> {
        match self.path(id, api_version).await? {
            Some(path) => Ok(self.access.find(&path).await?),
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
        let body = RequestBody::Object(&options);
        let deleted = self.access.send::<Value>(Method::DELETE, path, body).await;
        Ok(wire::found(deleted)?.is_some())
    }

    /// All objects below a path.
    pub(super) async fn list(&self, path: &str) -> Result<Vec<Value>, Error> {
        let Items { items } = self.access.get(path).await?;
        Ok(items.unwrap_or_default())
    }
}

/// Whether an object is only made where it is not there.
fn is_create_only(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    let value = annotations.and_then(|all| all.get("release.openshift.io/create-only"));
    value.is_some_and(|value| value == "true")
}

/// Whether only an installation of ours has fields of an object; reports of its state do not count.
fn is_own_alone(object: &Value) -> bool {
    let managers = object.pointer("/metadata/managedFields");
    let managers = managers.and_then(Value::as_array).into_iter().flatten();
    let of_content = managers.filter(|it| it["subresource"].as_str().is_none());
    let mut names = of_content.map(|it| it["manager"].as_str()).peekable();
    names.peek().is_some() && names.all(|name| name == Some(MANAGER))
}

fn adoption_path() -> String {
    let (namespace, name) = adoption::CONFIG_MAP;
    path::namespaced::<ConfigMap>(namespace, name)
}

fn record_path() -> String {
    let (namespace, name) = CONFIG_MAP;
    path::namespaced::<ConfigMap>(namespace, name)
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
