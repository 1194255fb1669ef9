//! All objects of a kind, or those with certain labels, as they are now.

use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::access::Access;
use crate::wire::{self, Content, escape};

/// Objects asked for at once; a page of Nodes is some megabytes.
const PAGE: usize = 250;

/// Which objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Path of the collection, without query.
    path: String,
    /// Label selector, unescaped; `None` is all.
    labels: Option<String>,
}

impl Scope {
    /// All objects of a collection.
    pub fn all(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            labels: None,
        }
    }

    /// Those with certain labels.
    #[must_use]
    pub fn labels(mut self, selector: String) -> Self {
        self.labels = Some(selector);
        self
    }

    fn query(&self, mut query: String) -> String {
        if let Some(labels) = &self.labels {
            query.push_str("&labelSelector=");
            query.push_str(&escape(labels));
        }
        format!("{}?{query}", self.path)
    }
}

#[derive(Deserialize)]
struct Page<W> {
    metadata: PageMetadata,
    #[serde(default = "Vec::new")]
    items: Vec<W>,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(default)]
    r#continue: String,
}

/// Reads the objects as they are now, newer than any write that was answered before: page by page,
/// each object parsed at once, so that no two pages of whole objects are held.
///
/// # Errors
/// All of [`wire::Error`].
pub async fn list<W: DeserializeOwned, T>(
    access: &Access,
    scope: &Scope,
    parse: impl Fn(W) -> T,
) -> Result<Vec<T>, wire::Error> {
    let mut items = Vec::new();
    let mut next = String::new();
    loop {
        let mut query = format!("limit={PAGE}");
        if !next.is_empty() {
            query.push_str("&continue=");
            query.push_str(&escape(&next));
        }
        let page: Page<W> = access
            .send(Method::GET, &scope.query(query), Content::Empty)
            .await?;
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
        let scope = Scope::all(PATH).labels("a/b=c,!d".to_owned());
        let name = |object: ConfigMap| object.metadata.name.unwrap();
        let names = script.drive(list(&access, &scope, name)).await.unwrap();
        assert_eq!(names, ["a", "b"]);
    }
}
