//! All objects of a kind, or those with certain labels, as they are now; whole, or their metadata.

use http::Method;
use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::access::Access;
use crate::path;
use crate::wire::{self, RequestBody, escape};

/// Objects requested at once; a page of Nodes is some megabytes.
const PAGE: usize = 250;

/// The same, where only metadata is sent.
const HEADS: usize = 1000;

#[derive(Deserialize)]
struct Page<K> {
    metadata: PageMetadata,
    // The API server writes `null` for no metadata at all.
    #[serde(default = "Option::default")]
    items: Option<Vec<K>>,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(default)]
    r#continue: String,
}

/// Which objects of a kind are read.
#[derive(Debug, Clone, Copy)]
pub enum Select<'a> {
    /// Each one.
    All,
    /// Those that a label selector matches.
    Labels(&'a str),
    /// Those that a field selector matches.
    Fields(&'a str),
}

/// Reads the objects of all namespaces as they are now, newer than any write before: page by page,
/// each object parsed at once, so that no two pages of whole objects are held.
///
/// # Errors
/// All of [`wire::Error`].
pub async fn list<K: Resource<DynamicType = ()> + DeserializeOwned, T>(
    access: &Access,
    select: Select<'_>,
    parse: impl Fn(K) -> T,
) -> Result<Vec<T>, wire::Error> {
    below(access, &path::all::<K>(), select, parse).await
}

/// Does the same with the objects below a path.
pub(crate) async fn below<K: DeserializeOwned, T>(
    access: &Access,
    path: &str,
    select: Select<'_>,
    parse: impl Fn(K) -> T,
) -> Result<Vec<T>, wire::Error> {
    let (fields, labels) = match select {
        Select::All => (String::new(), String::new()),
        Select::Labels(labels) => (String::new(), format!("&labelSelector={}", escape(labels))),
        Select::Fields(fields) => (format!("fieldSelector={}&", escape(fields)), String::new()),
    };
    let first = format!("{path}?{fields}limit={PAGE}");
    pages(access, (&first, &labels), RequestBody::Empty, parse).await
}

/// Reads page by page: the token of the next one stands between both parts of the query.
async fn pages<K: DeserializeOwned, T>(
    access: &Access,
    (first, last): (&str, &str),
    body: RequestBody<'_>,
    parse: impl Fn(K) -> T,
) -> Result<Vec<T>, wire::Error> {
    let mut items = Vec::new();
    let mut next = String::new();
    loop {
        let path = format!("{first}{next}{last}");
        let page: Page<K> = access.send(Method::GET, &path, body).await?;
        items.extend(page.items.into_iter().flatten().map(&parse));
        if page.metadata.r#continue.is_empty() {
            return Ok(items);
        }
        next = format!("&continue={}", escape(&page.metadata.r#continue));
    }
}

/// What tells an object as it was from what it is.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectHead {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its namespace; empty where its kind has none.
    #[serde(default)]
    pub namespace: String,
    /// Its version.
    #[serde(default)]
    pub resource_version: String,
    /// How often what it asks for was changed; none where its kind does not count that.
    pub generation: Option<i64>,
    /// Its labels.
    #[serde(default)]
    pub labels: Value,
    /// Its annotations.
    #[serde(default)]
    pub annotations: Value,
    /// Its owners.
    #[serde(default)]
    pub owner_references: Value,
}

/// An object of which only the metadata is read.
#[derive(Deserialize)]
pub(crate) struct Whole {
    pub(crate) metadata: ObjectHead,
}

/// Reads the metadata of all objects below a path, page by page.
///
/// # Errors
/// All of [`wire::Error`].
pub async fn heads(access: &Access, path: &str) -> Result<Vec<ObjectHead>, wire::Error> {
    let first = format!("{path}?limit={HEADS}");
    let metadata = |object: Whole| object.metadata;
    pages(access, (&first, ""), RequestBody::MetadataList, metadata).await
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;

    const PATH: &str = "/api/v1/configmaps";

    fn page(next: &str, name: &str) -> Reply {
        let items: [Value; 1] = [json!({ "metadata": { "name": name } })];
        Reply::ok(json!({ "metadata": { "continue": next }, "items": items }))
    }

    /// As kube-apiserver 1.36 responds for a kind without objects.
    #[tokio::test]
    async fn a_kind_without_objects_has_no_heads() {
        let none = Reply::ok(json!({ "metadata": { "resourceVersion": "7" }, "items": null }));
        let calls = vec![Call::get(&format!("{PATH}?limit=1000"), none)];
        let (script, client) = Script::start(calls);
        let access = Access::of_client(client);
        assert_eq!(script.drive(heads(&access, PATH)).await.unwrap(), []);
    }

    #[tokio::test]
    async fn heads_of_all_pages_are_read() {
        let head = |next: &str, name: &str| {
            let metadata =
                json!({ "name": name, "namespace": "n", "resourceVersion": "7", "generation": 2 });
            Reply::ok(
                json!({ "metadata": { "continue": next }, "items": [{ "metadata": metadata }] }),
            )
        };
        let calls = vec![
            Call::get(&format!("{PATH}?limit=1000"), head("a b", "a")),
            Call::get(&format!("{PATH}?limit=1000&continue=a%20b"), head("", "b")),
        ];
        let (script, client) = Script::start(calls);
        let access = Access::of_client(client);
        let heads = script.drive(heads(&access, PATH)).await.unwrap();
        assert_eq!(heads[1].name, "b");
        assert_eq!(
            (heads[0].resource_version.as_str(), heads[0].generation),
            ("7", Some(2))
        );
    }

    #[tokio::test]
    async fn all_pages_are_read() {
        let query = "limit=250&labelSelector=a%2Fb%3Dc%2C%21d";
        let calls = vec![
            Call::get(&format!("{PATH}?{query}"), page("a b", "a")),
            Call::get(
                &format!("{PATH}?limit=250&continue=a%20b&labelSelector=a%2Fb%3Dc%2C%21d"),
                page("", "b"),
            ),
        ];
        let (script, client) = Script::start(calls);
        let access = Access::of_client(client);
        let labels = Select::Labels("a/b=c,!d");
        let name = |object: ConfigMap| object.metadata.name.unwrap();
        let names = script.drive(list(&access, labels, name)).await.unwrap();
        assert_eq!(names, ["a", "b"]);
    }
}
