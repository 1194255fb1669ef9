//! All objects of a kind, or those with certain labels, as they are now; whole, or their metadata.

use http::Method;
use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::access::Access;
use crate::path;
use crate::wire::{self, RequestBody, escape};

/// Objects asked for at once; a page of Nodes is some megabytes.
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

/// Reads the objects as they are now, newer than any write that was answered before: page by page,
/// each object parsed at once, so that no two pages of whole objects are held.
///
/// Shape: `labels` is a label selector, unescaped; `None` is all.
///
/// # Errors
/// All of [`wire::Error`].
pub async fn list<K: Resource<DynamicType = ()> + DeserializeOwned, T>(
    access: &Access,
    labels: Option<&str>,
    parse: impl Fn(K) -> T,
) -> Result<Vec<T>, wire::Error> {
    let path = path::all::<K>();
    let mut items = Vec::new();
    let mut next = String::new();
    loop {
        let mut query = format!("limit={PAGE}");
        if !next.is_empty() {
            query.push_str("&continue=");
            query.push_str(&escape(&next));
        }
        if let Some(labels) = labels {
            query.push_str("&labelSelector=");
            query.push_str(&escape(labels));
        }
        let page: Page<K> = access.get(&format!("{path}?{query}")).await?;
        items.extend(page.items.into_iter().flatten().map(&parse));
        if page.metadata.r#continue.is_empty() {
            return Ok(items);
        }
        next = page.metadata.r#continue;
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
    let mut heads = Vec::new();
    let mut next = String::new();
    loop {
        let page: Page<Whole> = access
            .send(
                Method::GET,
                &format!("{path}?limit={HEADS}{next}"),
                RequestBody::MetadataList,
            )
            .await?;
        heads.extend(
            page.items
                .into_iter()
                .flatten()
                .map(|object| object.metadata),
        );
        if page.metadata.r#continue.is_empty() {
            return Ok(heads);
        }
        next = format!("&continue={}", escape(&page.metadata.r#continue));
    }
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

    /// As kube-apiserver 1.36 answers for a kind without objects.
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
        let labels = Some("a/b=c,!d");
        let name = |object: ConfigMap| object.metadata.name.unwrap();
        let names = script.drive(list(&access, labels, name)).await.unwrap();
        assert_eq!(names, ["a", "b"]);
    }
}
