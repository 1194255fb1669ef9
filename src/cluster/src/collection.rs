//! All objects of a kind, or those with certain labels, kept up to date.

use std::time::Duration;

use chassis::backoff::{self, Backoff};
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use futures::StreamExt as _;
use http::Method;
use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use crate::access::Access;
use crate::wire::{self, Change, Content};

/// Objects asked for at once; a page of Nodes is some megabytes.
const PAGE: usize = 250;

/// How long one watch is asked to last. The API server ends it then and we resume where we were.
const LENGTH: Duration = Duration::from_mins(30);

/// The longest silence of a live watch: the server sends a bookmark every minute. After it the connection counts as dead.
const SILENCE: Duration = Duration::from_mins(6);

/// First and longest wait before a failed list or watch is tried again.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// A watch that ends sooner and without an event counts as failed.
const SHORT: Duration = Duration::from_secs(10);

/// Which objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Path of the collection, without query.
    pub path: String,
    /// Label selector, unescaped; `None` is all.
    pub labels: Option<String>,
    /// Whether their metadata is all that is wanted.
    pub is_metadata_only: bool,
}

/// What is told about a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News<T> {
    /// These are all. What was known before and is not among them is gone.
    All(Vec<T>),
    /// This object is there, like this.
    Present(T),
    /// This object is gone; this is how it was last.
    Gone(T),
}

impl Scope {
    /// All objects of a collection.
    pub fn all(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            labels: None,
            is_metadata_only: false,
        }
    }

    /// Those with certain labels.
    #[must_use]
    pub fn labels(mut self, selector: String) -> Self {
        self.labels = Some(selector);
        self
    }

    /// Only their metadata: what a `PartialObjectMetadata` holds.
    #[must_use]
    pub const fn metadata_only(mut self) -> Self {
        self.is_metadata_only = true;
        self
    }

    fn query(&self, mut query: String) -> String {
        if let Some(labels) = &self.labels {
            query.push_str("&labelSelector=");
            query.push_str(&wire::escape(labels));
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
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

/// Reads the objects as they are now, newer than any write that was answered before: page by page, each object parsed at once, so that
/// no two pages of whole objects are held.
///
/// Also tells the version of the collection, from which a watch can go on.
///
/// # Errors
/// All of [`wire::Error`].
pub async fn list<W: DeserializeOwned, T>(
    access: &Access,
    scope: &Scope,
    parse: impl Fn(W) -> T,
) -> Result<(Vec<T>, String), wire::Error> {
    let content = if scope.is_metadata_only {
        Content::MetadataList
    } else {
        Content::Empty
    };
    let mut items = Vec::new();
    let mut next = String::new();
    loop {
        let mut query = format!("limit={PAGE}");
        if !next.is_empty() {
            query.push_str("&continue=");
            query.push_str(&wire::escape(&next));
        }
        let page: Page<W> = access
            .send(Method::GET, &scope.query(query), content)
            .await?;
        items.extend(page.items.into_iter().map(&parse));
        if page.metadata.r#continue.is_empty() {
            return Ok((items, page.metadata.resource_version));
        }
        next = page.metadata.r#continue;
    }
}

/// Follows the objects and tells what is known of them, until the shutdown. Errors are logged and retried.
pub async fn follow<W, T>(
    access: &Access,
    scope: &Scope,
    parse: impl Fn(W) -> T,
    tell: impl FnMut(News<T>),
    mut shutdown: Shutdown,
) where
    W: Clone + DeserializeOwned + Resource,
{
    tokio::select! {
        () = shutdown.requested() => {}
        () = keep_following(access, scope, parse, tell) => {}
    }
}

async fn keep_following<W, T>(
    access: &Access,
    scope: &Scope,
    parse: impl Fn(W) -> T,
    mut tell: impl FnMut(News<T>),
) where
    W: Clone + DeserializeOwned + Resource,
{
    let mut retry = Backoff::new(RETRY.0, RETRY.1);
    let mut position: Option<String> = None;
    loop {
        let began = Instant::now();
        let before = position.clone();
        let result = match position.clone() {
            None => list(access, scope, &parse).await.map(|(items, version)| {
                tell(News::All(items));
                position = Some(version);
            }),
            Some(version) => watch(access, scope, version, &parse, &mut tell, &mut position).await,
        };
        match result {
            Ok(()) if position != before || began.elapsed() > SHORT => {
                retry.reset();
                continue;
            }
            Ok(()) => tracing::debug!(path = scope.path, "watch ended at once"),
            Err(error) if error.code() == Some(410) => {
                // The position is older than what the server keeps: everything is listed anew.
                tracing::debug!(path = scope.path, "watch position expired");
                if position.take().is_some() {
                    continue;
                }
            }
            Err(error) => {
                if position != before {
                    retry.reset();
                }
                tracing::warn!(path = scope.path, error = %Chain(&error), "cannot follow");
            }
        }
        tokio::time::sleep(retry.next_delay()).await;
    }
}

/// Follows one watch to its end. `position` is where the next one resumes.
async fn watch<W, T>(
    access: &Access,
    scope: &Scope,
    version: String,
    parse: impl Fn(W) -> T,
    tell: &mut impl FnMut(News<T>),
    position: &mut Option<String>,
) -> Result<(), wire::Error>
where
    W: Clone + DeserializeOwned + Resource,
{
    let content = if scope.is_metadata_only {
        Content::Metadata
    } else {
        Content::Empty
    };
    let query = format!(
        "watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={version}",
        backoff::spread(LENGTH).as_secs()
    );
    let client = access.client().await?;
    let events = wire::watch::<W>(&client, &scope.query(query), content).await?;
    let mut events = std::pin::pin!(events);
    loop {
        let Ok(event) = timeout(SILENCE, events.next()).await else {
            // As with the watch of one Node: the API server may not have come to this position yet. Everything is listed anew.
            tracing::warn!(path = scope.path, "watch fell silent, listing anew");
            *position = None;
            return Ok(());
        };
        let version = match event.transpose()? {
            None => return Ok(()),
            Some(Change::Present(object)) => {
                let version = object.meta().resource_version.clone();
                tell(News::Present(parse(object)));
                version
            }
            Some(Change::Gone(object)) => {
                let version = object.meta().resource_version.clone();
                tell(News::Gone(parse(object)));
                version
            }
            Some(Change::Position(version)) => Some(version),
        };
        if version.is_some() {
            *position = version;
        }
    }
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;

    const PATH: &str = "/api/v1/configmaps";

    fn object(name: &str, version: &str) -> Value {
        json!({ "metadata": { "name": name, "resourceVersion": version } })
    }

    fn page(version: &str, next: &str, items: &Value) -> Reply {
        Reply::ok(
            json!({ "metadata": { "resourceVersion": version, "continue": next }, "items": items }),
        )
    }

    fn event(r#type: &str, object: &Value) -> (Duration, Value) {
        (Duration::ZERO, json!({ "type": r#type, "object": object }))
    }

    fn watch(version: &str) -> String {
        format!(
            "{PATH}?watch=true&allowWatchBookmarks=true&timeoutSeconds=N&resourceVersion={version}"
        )
    }

    fn name(object: ConfigMap) -> String {
        object.metadata.name.unwrap_or_default()
    }

    /// What is told until all calls have come. The last of them is a watch that stays open.
    async fn told(mut calls: Vec<Call>, position: &str) -> Vec<News<String>> {
        let open = Reply::Events(vec![], Duration::from_hours(1));
        calls.push(Call::get(&watch(position), open));
        let (script, client) = Script::start(calls);
        let access = Access::of_client(client);
        let (trigger, shutdown) = chassis::shutdown::pair();
        let mut told = Vec::new();
        let scope = Scope::all(PATH);
        let following = follow(&access, &scope, name, |news| told.push(news), shutdown);
        let all_came = async {
            while script.remaining() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            trigger.fire();
        };
        script
            .drive(futures::future::join(following, all_came))
            .await;
        told
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_falls_silent_lists_anew() {
        // As after the store was restored: its versions are behind what was seen.
        let list = |version: &str, items: &Value| {
            Call::get(&format!("{PATH}?limit=250"), page(version, "", items))
        };
        let silent = Reply::Events(vec![], Duration::from_hours(1));
        let calls = vec![
            list("70", &json!([object("a", "60")])),
            Call::get(&watch("70"), silent),
            list("7", &json!([])),
        ];
        let told = told(calls, "7").await;
        assert_eq!(told, [News::All(vec!["a".to_owned()]), News::All(vec![])]);
    }

    #[tokio::test(start_paused = true)]
    async fn lists_by_pages_then_watches_from_there() {
        let calls = vec![
            Call::get(
                &format!("{PATH}?limit=250"),
                page("7", "a b", &json!([object("a", "1")])),
            ),
            Call::get(
                &format!("{PATH}?limit=250&continue=a%20b"),
                page("7", "", &json!([object("b", "2")])),
            ),
            Call::get(
                &watch("7"),
                Reply::Events(
                    vec![
                        event("ADDED", &object("c", "8")),
                        event("DELETED", &object("a", "9")),
                        event(
                            "BOOKMARK",
                            &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "resourceVersion": "12" } }),
                        ),
                    ],
                    Duration::ZERO,
                ),
            ),
            Call::get(
                &watch("12"),
                Reply::Events(vec![event("MODIFIED", &object("c", "13"))], Duration::ZERO),
            ),
        ];
        let text = |name: &str| name.to_owned();
        assert_eq!(
            told(calls, "13").await,
            [
                News::All(vec![text("a"), text("b")]),
                News::Present(text("c")),
                News::Gone(text("a")),
                News::Present(text("c")),
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_position_lists_anew() {
        let expired = json!({ "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old" });
        let calls = vec![
            Call::get(&format!("{PATH}?limit=250"), page("7", "", &json!([]))),
            Call::get(
                &watch("7"),
                Reply::Events(vec![event("ERROR", &expired)], Duration::ZERO),
            ),
            Call::get(&format!("{PATH}?limit=250"), page("90", "", &json!([]))),
        ];
        assert_eq!(
            told(calls, "90").await,
            [News::All(vec![]), News::All(vec![])]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_resumes_where_it_was() {
        let calls = vec![
            Call::get(&format!("{PATH}?limit=250"), Reply::Broken),
            Call::get(&format!("{PATH}?limit=250"), page("7", "", &json!([]))),
            Call::get(&watch("7"), Reply::Broken),
            Call::get(
                &watch("7"),
                Reply::Events(vec![event("ADDED", &object("a", "8"))], Duration::ZERO),
            ),
        ];
        assert_eq!(told(calls, "8").await.len(), 2);
    }

    #[test]
    fn scopes_become_queries() {
        let scope = Scope::all(PATH).labels("a/b=c,!d".to_owned());
        assert_eq!(
            scope.query("limit=1".to_owned()),
            format!("{PATH}?limit=1&labelSelector=a%2Fb%3Dc%2C%21d")
        );
    }
}
