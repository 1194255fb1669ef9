//! One Node, kept up to date.

use std::sync::Arc;
use std::time::Duration;

use chassis::backoff::{self, Backoff};
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use futures::StreamExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::view::Node;
use cluster::access::{Access, SILENCE};
use cluster::path;
use cluster::wire::{self, ObjectEvent};

/// How long one watch lasts, at most. The API server ends it then and we resume where we were:
/// one request in half of that time and more.
const LENGTH: Duration = Duration::from_hours(2);

/// First and longest wait before a failed watch is opened again.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// A watch that ends sooner and without an event counts as failed.
const SHORT: Duration = Duration::from_secs(10);

/// The Node as last observed: `None` before the first event and after its deletion.
pub type ObservedNode = Option<Arc<Node>>;

/// Watches the Node `name` and publishes it in `seen`, until the shutdown.
///
/// Opens without a list: the server sends the Node as it is, then its changes. The field selector
/// is what the Node authorizer asks of a kubelet's credentials. Errors are logged and retried: to a
/// reader an API server out of reach looks like a Node that does not change.
pub async fn observe(
    access: &Access,
    name: &str,
    seen: &watch::Sender<ObservedNode>,
    mut shutdown: Shutdown,
) {
    tokio::select! {
        () = shutdown.requested() => {}
        () = keep_watching(access, name, seen) => {}
    }
}

async fn keep_watching(access: &Access, name: &str, seen: &watch::Sender<ObservedNode>) {
    let mut retry = Backoff::new(RETRY.0, RETRY.1);
    let mut position = None;
    loop {
        let began = Instant::now();
        let before = position.clone();
        match follow(access, name, seen, &mut position).await {
            Ok(()) if position != before || began.elapsed() > SHORT => {
                retry.reset();
                continue;
            }
            Ok(()) => tracing::debug!(node = name, "watch ended at once"),
            Err(error) if error.code() == Some(410) => {
                // The position is older than what the server keeps: it starts over with the Node as
                // it is.
                tracing::debug!(node = name, "watch position expired");
                if position.take().is_some() {
                    continue;
                }
            }
            Err(error) => {
                if position != before {
                    retry.reset();
                }
                tracing::warn!(node = name, error = %Chain(&error), "watch failed");
            }
        }
        tokio::time::sleep(retry.next_delay()).await;
    }
}

/// Follows one watch to its end. `position` is where the next one resumes.
async fn follow(
    access: &Access,
    name: &str,
    seen: &watch::Sender<ObservedNode>,
    position: &mut Option<String>,
) -> Result<(), wire::Error> {
    let path = path(name, position.as_deref(), backoff::spread(LENGTH));
    let mut events = std::pin::pin!(access.watch::<Node>(&path).await?);
    loop {
        let Ok(event) = timeout(SILENCE, events.next()).await else {
            // Its position may be ahead of the API server, as after its store was restored: then no
            // event comes until the server reaches it. A watch without a position starts with the
            // Node as it is.
            tracing::warn!(node = name, "watch fell silent, opening it again");
            *position = None;
            return Ok(());
        };
        match event.transpose()? {
            None => return Ok(()),
            Some(ObjectEvent::Applied(node)) => {
                *position = Some(node.resource_version.clone());
                seen.send_replace(Some(Arc::new(node)));
            }
            Some(ObjectEvent::Deleted(node)) => {
                *position = Some(node.resource_version);
                seen.send_replace(None);
            }
            Some(ObjectEvent::Bookmark(version)) => *position = Some(version),
        }
    }
}

fn path(name: &str, position: Option<&str>, length: Duration) -> String {
    let mut path = format!(
        "{}?fieldSelector=metadata.name%3D{name}&watch=true&allowWatchBookmarks=true&timeoutSeconds={}",
        path::untyped("v1", None, "nodes"),
        length.as_secs()
    );
    if let Some(position) = position {
        path.push_str("&resourceVersion=");
        path.push_str(position);
    }
    path
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};
    use chassis::shutdown;
    use serde_json::{Value, json};

    use super::*;

    const FIRST: &str = "/api/v1/nodes?fieldSelector=metadata.name%3Dn&watch=true&allowWatchBookmarks=true&timeoutSeconds=N";

    fn resumed(version: u32) -> String {
        format!("{FIRST}&resourceVersion={version}")
    }

    fn event(kind: &str, version: u32) -> Value {
        json!({"type": kind, "object": {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u", "resourceVersion": version.to_string()},
        }})
    }

    fn expired() -> Value {
        json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}})
    }

    fn words(minutes: u64, events: &[Value]) -> Reply {
        let pause = Duration::from_mins(minutes);
        Reply::Events(
            events.iter().map(|event| (pause, event.clone())).collect(),
            pause,
        )
    }

    /// Runs until the script is through, then a shutdown ends it. Returns the versions seen.
    async fn watched(calls: Vec<Call>) -> Vec<Option<String>> {
        let (script, client) = Script::start(calls);
        let (trigger, shutdown) = shutdown::pair();
        let (sender, mut seen) = watch::channel(None);
        let mut versions = Vec::new();
        let access = Access::of_client(client);
        let watching = observe(&access, "n", &sender, shutdown);
        let reading = async {
            while script.remaining() > 0 || versions.is_empty() {
                tokio::select! {
                    changed = seen.changed() => {
                        changed.unwrap();
                        let node = seen.borrow_and_update().clone();
                        versions.push(node.map(|node| node.resource_version.clone()));
                    }
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                }
            }
            trigger.fire();
        };
        script
            .drive(async { tokio::join!(watching, reading) })
            .await;
        versions
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_hour_is_one_watch_resumed_where_it_ended() {
        let mut hour = vec![event("ADDED", 5)];
        hour.extend((6..60).map(|version| event("BOOKMARK", version)));
        hour.push(event("MODIFIED", 60));
        let seen = watched(vec![
            Call::get(FIRST, words(1, &hour)),
            Call::get(&resumed(60), words(1, &[])),
        ])
        .await;
        assert_eq!(seen, [Some("5".to_owned()), Some("60".to_owned())]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_position_starts_over() {
        let seen = watched(vec![
            Call::get(FIRST, words(1, &[event("ADDED", 5), expired()])),
            Call::get(FIRST, words(1, &[event("ADDED", 9)])),
            Call::get(&resumed(9), words(1, &[])),
        ])
        .await;
        assert_eq!(seen.last().unwrap().as_deref(), Some("9"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_given_up_and_a_broken_one_retried() {
        watched(vec![
            Call::get(FIRST, Reply::Broken),
            Call::get(FIRST, words(1, &[event("ADDED", 5)])),
            Call::get(&resumed(5), words(100, &[])),
            Call::get(FIRST, words(1, &[event("ADDED", 3)])),
            Call::get(
                &resumed(3),
                Reply::failure(500, "InternalError", "no leader"),
            ),
            Call::get(&resumed(3), words(1, &[])),
        ])
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_node_is_known_no_more() {
        let seen = watched(vec![
            Call::get(FIRST, words(1, &[event("ADDED", 5), event("DELETED", 6)])),
            Call::get(&resumed(6), words(1, &[])),
        ])
        .await;
        assert_eq!(seen, [Some("5".to_owned()), None]);
    }
}
