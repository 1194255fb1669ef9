//! What is there before anything is applied.

use std::collections::{BTreeMap, BTreeSet};

use api::machineconfiguration::ControllerConfig;
use chassis::report::Chain;
use cluster::apply::{self, ApplyOutcome};
use cluster::{discovery, path, review};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use install::component::InstallComponent;
use install::order;
use install::record::RecordedObject;
use install::rival::{Rival, Suspect};
use install::survey::{GROUPS, PROVIDED, Provided, ProvidedKind, Rehearsed, ServedGroup, brought};
use k8s_openapi::Resource as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use release::manifest::{Manifest, ObjectId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Error, InstallRequests, MANAGER, is_create_only};

/// Requests that are under way at once.
const CONCURRENCY: usize = 8;

/// Verbs that an installation needs for each kind.
const VERBS: [&str; 4] = ["get", "create", "patch", "delete"];

impl InstallRequests {
    /// `major` and `minor` of the API server.
    pub(in crate::install) async fn server(&self) -> Result<(String, String), Error> {
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

    /// UID of namespace `kube-system`, which lives as long as its cluster.
    pub(in crate::install) async fn cluster_uid(&self) -> Result<String, Error> {
        let system: Namespace = self
            .access
            .get(&path::object::<Namespace>("kube-system"))
            .await?;
        Ok(system.metadata.uid.unwrap_or_default())
    }

    /// Which groups of others the API server serves.
    pub(in crate::install) async fn groups(&self) -> Result<BTreeSet<ServedGroup>, Error> {
        let groups = discovery::groups(&self.access).await?;
        let is_served = |it: &ServedGroup| groups.iter().any(|group| group == it.group);
        Ok(GROUPS.into_iter().filter(is_served).collect())
    }

    /// What of [`PROVIDED`] is needed and not there with its keys.
    pub(in crate::install) async fn lacking(
        &self,
        components: &BTreeSet<InstallComponent>,
        objects: &[Manifest],
    ) -> Result<BTreeSet<Provided>, Error> {
        let mut lacking = BTreeSet::new();
        let needed = |it: &Provided| it.is_needed(components, objects);
        for provided in PROVIDED.into_iter().filter(needed) {
            let (namespace, name) = provided.at;
            let path = match provided.kind {
                ProvidedKind::ControllerConfig => path::object::<ControllerConfig>(name),
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
            if found.is_none() || !provided.keys.iter().all(has) {
                lacking.insert(provided);
            }
        }
        Ok(lacking)
    }

    /// Definitions that only installations have written.
    pub(in crate::install) async fn own_definitions(&self) -> Result<Vec<RecordedObject>, Error> {
        type Definition = CustomResourceDefinition;
        let all = self.list(&path::all::<Definition>()).await?;
        let own = all.iter().filter(|object| is_own_alone(object));
        let names = own.filter_map(|object| object.pointer("/metadata/name")?.as_str());
        let definition = |name: &str| RecordedObject {
            api_version: Definition::API_VERSION.to_owned(),
            kind: Definition::KIND.to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
            was_there: false,
        };
        Ok(names.map(definition).collect())
    }

    /// Workloads of other operators.
    pub(in crate::install) async fn rivals(
        &self,
        suspects: &BTreeSet<Suspect>,
    ) -> Result<Vec<Rival>, Error> {
        let mut rivals = Vec::new();
        for suspect in suspects {
            let object = self.find(&suspect.id, "apps/v1").await?;
            rivals.extend(object.and_then(|object| suspect.judge(&object)));
        }
        Ok(rivals)
    }

    /// What this user may not do with the kinds of the objects.
    pub(in crate::install) async fn denied(
        &self,
        wanted: &[Manifest],
    ) -> Result<Vec<String>, Error> {
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
        let mut wanted_rights = Vec::new();
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
                wanted_rights.push((verb, group.to_owned(), plural.clone(), namespace.clone()));
            }
        }
        let reviews =
            wanted_rights
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
    pub(in crate::install) async fn rehearse(
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
                let rehearsed = self
                    .applier
                    .rehearse(&manifest.object, self.ownership)
                    .await;
                let rehearsed = match rehearsed {
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
                (id.clone(), rehearsed)
            }
        });
        Ok(stream::iter(trials)
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await)
    }

    /// The outcome of an object that is created only, and is there: an administrator's changes of
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

    /// Which of these objects are there by others. Where Slipway runs already, by whatever it was
    /// applied, only namespaces and definitions may be; of these a former installation's own are
    /// not.
    pub(in crate::install) async fn there(
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
}

/// Whether only an installation of ours has fields of an object; reports of its state do not count.
fn is_own_alone(object: &Value) -> bool {
    let managers = object.pointer("/metadata/managedFields");
    let managers = managers.and_then(Value::as_array).into_iter().flatten();
    let of_content = managers.filter(|it| it["subresource"].as_str().is_none());
    let mut names = of_content.map(|it| it["manager"].as_str()).peekable();
    names.peek().is_some() && names.all(|name| name == Some(MANAGER))
}
