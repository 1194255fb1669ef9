//! Which path a kind has, as the API server says it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList};

use crate::access::Access;
use crate::path;
use crate::wire::{self, escape};

/// A kind that the API server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedKind {
    /// Path of its group and version.
    root: String,
    /// Plural name, as it stands in paths.
    plural: String,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
}

impl ServedKind {
    /// Path of all objects, in all namespaces.
    pub fn all(&self) -> String {
        let Self { root, plural, .. } = self;
        format!("{root}/{plural}")
    }

    /// Path of all objects, in `namespace` where the kind has namespaces.
    pub fn within(&self, namespace: &str) -> String {
        let Self { root, plural, .. } = self;
        if self.is_namespaced {
            let namespace = escape(namespace);
            format!("{root}/namespaces/{namespace}/{plural}")
        } else {
            self.all()
        }
    }

    /// Path of the object `name`, in `namespace` where the kind has namespaces.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.within(namespace), escape(name))
    }
}

/// Names of the groups that the API server serves, without the core's.
///
/// # Errors
/// The API server does not respond.
pub async fn groups(access: &Access) -> Result<Vec<String>, wire::Error> {
    let groups: APIGroupList = access.get("/apis").await?;
    Ok(groups.groups.into_iter().map(|group| group.name).collect())
}

/// A kind whose objects are in namespaces and can be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespacedKind {
    /// Group and version, `v1` for the core.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Plural name, as it stands in paths.
    pub plural: String,
}

/// All kinds whose objects are in namespaces, in the version that each group prefers. Subresources
/// and kinds that cannot be listed are left out.
///
/// # Errors
/// The API server, or one behind it, does not respond.
pub async fn namespaced_kinds(access: &Access) -> Result<Vec<NamespacedKind>, wire::Error> {
    let groups: APIGroupList = access.get("/apis").await?;
    let versions = groups.groups.into_iter().filter_map(|group| {
        let preferred = group.preferred_version;
        let first = group.versions.into_iter().next();
        preferred.or(first).map(|version| version.group_version)
    });
    let mut kinds = Vec::new();
    for api_version in std::iter::once("v1".to_owned()).chain(versions) {
        let list: APIResourceList = access.get(&path::root(&api_version)).await?;
        let resources = list.resources.into_iter().filter(|it| {
            it.namespaced && !it.name.contains('/') && it.verbs.iter().any(|verb| verb == "list")
        });
        kinds.extend(resources.map(|it| NamespacedKind {
            api_version: api_version.clone(),
            kind: it.kind,
            plural: it.name,
        }));
    }
    Ok(kinds)
}

/// Why a kind has no path.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server does not serve it: its definition is missing, or not served yet.
    #[error("the API server serves no kind {kind} in {api_version}")]
    NotServed {
        /// Group and version, `v1` for the core.
        api_version: String,
        /// Kind.
        kind: String,
    },
    /// The kinds of a group and version cannot be read.
    #[error("cannot read the kinds of {api_version}")]
    Read {
        /// Group and version, `v1` for the core.
        api_version: String,
        /// What came of the request.
        source: wire::Error,
    },
}

/// Kinds by name.
type Kinds = BTreeMap<String, ServedKind>;

/// The kinds that were requested, with the others of their group and version.
#[derive(Debug, Default)]
pub struct Discovery {
    discovered: Mutex<BTreeMap<String, Kinds>>,
}

impl Discovery {
    /// Finds a kind: one request for each group and version, and again only for a kind that was not
    /// in it.
    ///
    /// Shape: `api_version` as objects have it, `v1` or `apps/v1`.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn find(
        &self,
        access: &Access,
        api_version: &str,
        kind: &str,
    ) -> Result<ServedKind, Error> {
        let discovered = self
            .discovered()
            .get(api_version)
            .and_then(|kinds| kinds.get(kind))
            .cloned();
        if let Some(discovered) = discovered {
            return Ok(discovered);
        }
        let kinds = read(access, api_version).await?;
        let found = kinds.get(kind).cloned();
        self.discovered().insert(api_version.to_owned(), kinds);
        found.ok_or_else(|| Error::NotServed {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
    }

    /// Forgets a group and version: a definition may have been replaced.
    pub fn forget(&self, api_version: &str) {
        self.discovered().remove(api_version);
    }

    fn discovered(&self) -> MutexGuard<'_, BTreeMap<String, Kinds>> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.discovered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the kinds of a group and version; none where the API server does not serve it.
async fn read(access: &Access, api_version: &str) -> Result<Kinds, Error> {
    let root = path::root(api_version);
    let list: APIResourceList = match access.get(&root).await {
        Ok(list) => list,
        Err(error) if error.is_not_found() => return Ok(Kinds::new()),
        Err(source) => {
            return Err(Error::Read {
                api_version: api_version.to_owned(),
                source,
            });
        }
    };
    // `deployments/scale` is a part of a Deployment, not a kind.
    let whole = list
        .resources
        .into_iter()
        .filter(|resource| !resource.name.contains('/'));
    let kinds = whole.map(|resource| {
        let served = ServedKind {
            root: root.clone(),
            plural: resource.name,
            is_namespaced: resource.namespaced,
        };
        (resource.kind, served)
    });
    Ok(kinds.collect())
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};
    use serde_json::{Value, json};

    use super::*;

    fn resource(name: &str, kind: &str, namespaced: bool) -> Value {
        json!({ "name": name, "kind": kind, "namespaced": namespaced, "singularName": "", "verbs": ["patch"] })
    }

    fn list(resources: &[Value]) -> Reply {
        Reply::ok(json!({ "kind": "APIResourceList", "groupVersion": "x", "resources": resources }))
    }

    async fn find(calls: Vec<Call>, wanted: &[(&str, &str)]) -> Vec<Result<String, String>> {
        let (script, client) = Script::start(calls);
        let access = Access::of_client(client);
        let discovery = Discovery::default();
        script
            .drive(async {
                let mut found = Vec::new();
                for (api_version, kind) in wanted {
                    let served = discovery.find(&access, api_version, kind).await;
                    found.push(match served {
                        Ok(served) => Ok(served.path("ns", "a:b")),
                        Err(error) => Err(error.to_string()),
                    });
                }
                found
            })
            .await
    }

    #[tokio::test]
    async fn kinds_of_one_version_cost_one_request() {
        let apps = list(&[
            resource("deployments", "Deployment", true),
            resource("deployments/scale", "Scale", true),
            resource("daemonsets", "DaemonSet", true),
        ]);
        let core = list(&[resource("nodes", "Node", false)]);
        let calls = vec![Call::get("/apis/apps/v1", apps), Call::get("/api/v1", core)];
        let wanted = [
            ("apps/v1", "Deployment"),
            ("apps/v1", "DaemonSet"),
            ("v1", "Node"),
            ("v1", "Node"),
        ];
        let found = find(calls, &wanted).await;
        let paths = [
            "/apis/apps/v1/namespaces/ns/deployments/a%3Ab",
            "/apis/apps/v1/namespaces/ns/daemonsets/a%3Ab",
            "/api/v1/nodes/a%3Ab",
            "/api/v1/nodes/a%3Ab",
        ];
        assert_eq!(found, paths.map(|path| Ok(path.to_owned())));
    }

    #[tokio::test]
    async fn a_kind_that_is_defined_later_is_found_then() {
        let missing = Reply::Object(404, json!("404 page not found"));
        let calls = vec![
            Call::get("/apis/example.com/v1", missing),
            Call::get("/apis/example.com/v1", list(&[resource("as", "A", false)])),
            Call::get("/apis/example.com/v1", list(&[resource("as", "A", false)])),
        ];
        let wanted = [
            ("example.com/v1", "A"),
            ("example.com/v1", "A"),
            ("example.com/v1", "B"),
        ];
        let found = find(calls, &wanted).await;
        let not_served = |kind| {
            Err(format!(
                "the API server serves no kind {kind} in example.com/v1"
            ))
        };
        let path = Ok("/apis/example.com/v1/as/a%3Ab".to_owned());
        assert_eq!(found, [not_served("A"), path, not_served("B")]);
    }

    #[tokio::test]
    async fn an_outage_is_not_a_kind_that_is_missing() {
        let down = Reply::failure(503, "ServiceUnavailable", "down");
        let found = find(vec![Call::get("/api/v1", down)], &[("v1", "Node")]).await;
        assert_eq!(found, [Err("cannot read the kinds of v1".to_owned())]);
    }
}
