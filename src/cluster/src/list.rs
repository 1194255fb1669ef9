//! All objects of a kind, or those with certain labels, as they are now.

use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::access::Access;
use crate::path;
use crate::wire::{self, escape};

/// Objects asked for at once; a page of Nodes is some megabytes.
const PAGE: usize = 250;

#[derive(Deserialize)]
struct Page<K> {
    metadata: PageMetadata,
    #[serde(default = "Vec::new")]
    items: Vec<K>,
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
        items.extend(page.items.into_iter().map(&parse));
        if page.metadata.r#continue.is_empty() {
            return Ok(items);
        }
        next = page.metadata.r#continue;
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
