//! Requests for the objects of one kind: read, list, create, change, apply, delete.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use http::Method;
use kube::Resource;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use crate::access::Access;
use crate::list::{self, Select};
use crate::path;
use crate::wire::{self, Error, RequestBody, escape};

/// The objects of one kind, without namespaces or in one; responses are read as `K`.
///
/// Names are escaped. All methods fail with [`Error`].
#[derive(Debug)]
pub struct Objects<'a, K> {
    access: &'a Access,
    /// Path of all of them.
    all: String,
    /// Path of the part that is written, below an object; empty for the object itself.
    part: &'static str,
    /// Query of a write.
    query: String,
    kind: PhantomData<fn() -> K>,
}

/// What an object has to be for its deletion; no condition where both are absent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Precondition<'a> {
    /// Its unique id: another one of its name stays.
    pub uid: Option<&'a str>,
    /// Its version, as it was read.
    pub resource_version: Option<&'a str>,
}

impl<'a, K> Objects<'a, K> {
    /// Objects of a kind without namespaces.
    pub fn of_cluster(access: &'a Access) -> Self
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        Self::at(access, path::all::<K>())
    }

    /// Objects of a kind in one namespace.
    pub fn in_namespace(access: &'a Access, namespace: &str) -> Self
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Self::at(access, path::namespace::<K>(namespace))
    }

    /// Objects below a path, such as one of [`path::untyped`].
    pub const fn at(access: &'a Access, all: String) -> Self {
        Self {
            access,
            all,
            part: "",
            query: String::new(),
            kind: PhantomData,
        }
    }

    /// Writes as this field manager.
    #[must_use]
    pub fn manager(mut self, manager: &str) -> Self {
        self.query = format!("?fieldManager={}", escape(manager));
        self
    }

    /// Has the API server check a creation or change, and store nothing. After
    /// [`Self::manager`].
    #[must_use]
    pub fn dry_run(mut self, is_dry: bool) -> Self {
        if is_dry {
            self.query.push_str("&dryRun=All");
        }
        self
    }

    /// Writes the status instead of the object itself.
    #[must_use]
    pub const fn status(mut self) -> Self {
        self.part = "/status";
        self
    }

    /// Reads responses as `T`: a part of the object, or [`IgnoredAny`].
    #[must_use]
    pub fn read_as<T>(self) -> Objects<'a, T> {
        Objects {
            access: self.access,
            all: self.all,
            part: self.part,
            query: self.query,
            kind: PhantomData,
        }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{}", self.all, escape(name))
    }

    /// Path and query of a write.
    fn target(&self, name: &str) -> String {
        format!("{}{}{}", self.path(name), self.part, self.query)
    }
}

impl<K: DeserializeOwned> Objects<'_, K> {
    /// Reads one; nothing where it is not there, or the API has no such kind.
    ///
    /// # Errors
    /// All of [`Error`] but 404.
    pub async fn get(&self, name: &str) -> Result<Option<K>, Error> {
        self.access.find(&self.path(name)).await
    }

    /// Reads all of them, or those that are selected, page by page.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn list(&self, select: Select<'_>) -> Result<Vec<K>, Error> {
        list::below(self.access, &self.all, select, |object| object).await
    }

    /// Creates one.
    ///
    /// # Errors
    /// All of [`Error`]; a conflict where one of its name is there.
    pub async fn create(&self, object: &Value) -> Result<K, Error> {
        let path = format!("{}{}", self.all, self.query);
        let body = RequestBody::Object(object);
        self.access.send(Method::POST, &path, body).await
    }

    /// Changes one by a merge patch.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn patch(&self, name: &str, change: &Value) -> Result<K, Error> {
        let body = RequestBody::MergePatch(change);
        self.access
            .send(Method::PATCH, &self.target(name), body)
            .await
    }

    /// Changes one by a merge patch, if it still has the version that was read.
    ///
    /// # Errors
    /// All of [`Error`]; a conflict where it has changed.
    pub async fn patch_if(
        &self,
        name: &str,
        resource_version: Option<&str>,
        change: Value,
    ) -> Result<K, Error> {
        self.patch(name, &guarded(resource_version, change)).await
    }

    /// Applies the fields of an object that are ours, also where others own them.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn apply(&self, name: &str, object: &Value) -> Result<K, Error> {
        let path = format!("{}&force=true", self.target(name));
        let body = RequestBody::Apply(object);
        self.access.send(Method::PATCH, &path, body).await
    }

    /// Deletes one that is as it has to be. That it is gone already is no error.
    ///
    /// # Errors
    /// All of [`Error`] but 404; a conflict where it is another one, or has changed.
    pub async fn delete(&self, name: &str, precondition: Precondition<'_>) -> Result<(), Error> {
        let options = precondition.options();
        self.delete_with(name, RequestBody::Object(&options)).await
    }

    /// Deletes one with these `DeleteOptions`. That it is gone already is no error.
    ///
    /// # Errors
    /// All of [`Error`] but 404.
    pub async fn delete_with(&self, name: &str, options: RequestBody<'_>) -> Result<(), Error> {
        delete(self.access, &self.path(name), options).await
    }
}

impl<'a> Precondition<'a> {
    /// The very object, whatever its version.
    pub const fn uid(uid: Option<&'a str>) -> Self {
        Self {
            uid,
            resource_version: None,
        }
    }

    /// `DeleteOptions`.
    pub fn options(self) -> Value {
        let fields = [
            ("uid", self.uid),
            ("resourceVersion", self.resource_version),
        ];
        let present = fields
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        let preconditions: BTreeMap<&str, &str> = present.collect();
        json!({ "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions })
    }
}

/// Deletes what is at a path, an object or all that a query selects, and then what it owns. That
/// there is none is no error.
///
/// # Errors
/// All of [`Error`] but 404.
pub async fn delete_in_background(access: &Access, path: &str) -> Result<(), Error> {
    let options = json!({ "propagationPolicy": "Background" });
    delete(access, path, RequestBody::Object(&options)).await
}

async fn delete(access: &Access, path: &str, options: RequestBody<'_>) -> Result<(), Error> {
    let deleted = access
        .send::<IgnoredAny>(Method::DELETE, path, options)
        .await;
    wire::found(deleted).map(drop)
}

/// The change with the version that it is for.
fn guarded(resource_version: Option<&str>, mut change: Value) -> Value {
    if let Some(change) = change.as_object_mut() {
        let metadata = change.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".to_owned(), json!(resource_version));
        }
    }
    change
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};
    use k8s_openapi::api::core::v1::{ConfigMap, Node};

    use super::*;

    const NODE: &str = "/api/v1/nodes/n";
    const MAPS: &str = "/api/v1/namespaces/a/configmaps";

    fn refused(code: u16) -> Reply {
        Reply::failure(code, "Reason", "message")
    }

    #[tokio::test]
    async fn absent_object_is_none_and_any_other_refusal_an_error() {
        let found = Reply::ok(json!({ "metadata": { "name": "n" } }));
        let calls = [found, refused(404), refused(403)].map(|reply| Call::get(NODE, reply));
        let (script, client) = Script::start(calls.to_vec());
        let access = Access::of_client(client);
        let nodes = Objects::<Node>::of_cluster(&access);
        let read = async {
            let name = nodes.get("n").await.unwrap().unwrap().metadata.name;
            assert_eq!(name.as_deref(), Some("n"));
            assert!(nodes.get("n").await.unwrap().is_none());
            assert_eq!(nodes.get("n").await.unwrap_err().code(), Some(403));
        };
        script.drive(read).await;
    }

    #[tokio::test]
    async fn objects_of_a_namespace_are_listed_page_by_page() {
        let page = |next: &str, name: &str| {
            let items = [json!({ "metadata": { "name": name } })];
            Reply::ok(json!({ "metadata": { "continue": next }, "items": items }))
        };
        let query = "fieldSelector=a%3Db&limit=250";
        let calls = vec![
            Call::get(&format!("{MAPS}?{query}"), page("x y", "one")),
            Call::get(&format!("{MAPS}?{query}&continue=x%20y"), page("", "two")),
        ];
        let (script, client) = Script::start(calls);
        let access = Access::of_client(client);
        let maps = Objects::<ConfigMap>::in_namespace(&access, "a");
        let listed = script
            .drive(maps.list(Select::Fields("a=b")))
            .await
            .unwrap();
        let names = listed.iter().filter_map(|map| map.metadata.name.as_deref());
        assert_eq!(names.collect::<Vec<_>>(), ["one", "two"]);
    }

    #[tokio::test]
    async fn change_carries_the_version_that_was_read() {
        let body = json!({ "metadata": { "labels": { "a": "b" }, "resourceVersion": "7" } });
        let status = json!({ "status": { "x": 1 }, "metadata": { "resourceVersion": null } });
        let path = format!("{NODE}?fieldManager=m");
        let status_path = format!("{NODE}/status?fieldManager=m&dryRun=All");
        let calls = vec![
            Call::patch(&path, body, refused(409)),
            Call::patch(&status_path, status, Reply::ok(json!({}))),
        ];
        let (script, client) = Script::start(calls);
        let access = Access::of_client(client);
        let nodes = || Objects::<Node>::of_cluster(&access).read_as::<IgnoredAny>();
        let sent = async {
            let change = json!({ "metadata": { "labels": { "a": "b" } } });
            let changed = nodes().manager("m").patch_if("n", Some("7"), change).await;
            assert!(changed.unwrap_err().is_conflict());
            let nodes = nodes().manager("m").dry_run(true).status();
            let change = json!({ "status": { "x": 1 } });
            nodes.patch_if("n", None, change).await.unwrap();
        };
        script.drive(sent).await;
    }

    #[tokio::test]
    async fn object_is_created_and_applied_by_its_manager() {
        let object = json!({ "metadata": { "name": "b" } });
        let apply = format!("{MAPS}/b/status?fieldManager=m&force=true");
        let calls = vec![
            Call::post(
                &format!("{MAPS}?fieldManager=m"),
                object.clone(),
                Reply::ok(object.clone()),
            ),
            Call::patch(&apply, object.clone(), Reply::ok(object.clone())),
        ];
        let (script, client) = Script::start(calls);
        let access = Access::of_client(client);
        let maps = Objects::<Value>::at(&access, MAPS.to_owned()).manager("m");
        let sent = async {
            assert_eq!(maps.create(&object).await.unwrap(), object);
            assert_eq!(maps.status().apply("b", &object).await.unwrap(), object);
        };
        script.drive(sent).await;
    }

    #[tokio::test]
    async fn deletion_names_its_preconditions_and_may_come_too_late() {
        let options = |preconditions: Value| json!({ "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions });
        let both = options(json!({ "uid": "u", "resourceVersion": "7" }));
        let delete = |body, reply| Call::new(Method::DELETE, NODE, reply).with_body(body);
        let calls = vec![
            delete(both, refused(404)),
            delete(options(json!({ "uid": "u" })), refused(409)),
        ];
        let (script, client) = Script::start(calls);
        let access = Access::of_client(client);
        let nodes = Objects::<Node>::of_cluster(&access).manager("m");
        let sent = async {
            let mut precondition = Precondition {
                uid: Some("u"),
                resource_version: Some("7"),
            };
            nodes.delete("n", precondition).await.unwrap();
            precondition.resource_version = None;
            let deleted = nodes.delete("n", precondition).await;
            assert!(deleted.unwrap_err().is_conflict());
        };
        script.drive(sent).await;
    }
}
