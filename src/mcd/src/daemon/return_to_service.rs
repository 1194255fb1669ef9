//! Giving the node back: uncordoned if the cordon is ours, once its kubelet is Ready.

use std::sync::Arc;
use std::time::Duration;

use api::machineconfiguration::node_status::{DrainRequest, Reading};
use api::machineconfiguration::{NodeStatus, annotation};
use jiff::Timestamp;
use node::view::Node;
use node::watch::ObservedNode;
use node::writer::{self, Change, NodeWriter};
use tokio::sync::watch;
use tokio::time::timeout;

use super::publish::Shown;

/// How long the kubelet may take to say Ready: `docs/reference/daemon.md`, "Return to service".
const READY_LIMIT: Duration = Duration::from_mins(10);

/// Why the node is not in service again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubelet does not say Ready.
    #[error(
        "failed to uncordon node: {node} after {} minutes: its kubelet is not Ready",
        READY_LIMIT.as_secs() / 60
    )]
    NotReady { node: String },
    /// The API server refuses it.
    #[error(transparent)]
    Write(#[from] writer::Error),
}

/// Uncordons if the cordon is ours, and says in `desiredDrain` and `lastAppliedDrain` that the node
/// is in service in what it runs, whether it had been drained or not. An administrator's own cordon
/// stays.
///
/// With the same write the Node gets what `shown` has for it: it is in service and says so at one
/// time.
///
/// Shape: `up_since` is when this boot began: an older word of the kubelet is not waited for but
/// overlooked.
///
/// # Errors
/// All of [`Error`].
pub async fn return_to_service(
    writer: &NodeWriter,
    seen: &watch::Receiver<ObservedNode>,
    node: &str,
    config: &str,
    up_since: Timestamp,
    shown: impl FnOnce() -> Option<Shown>,
) -> Result<(), Error> {
    let mut seen = seen.clone();
    let is_cached = |seen: &ObservedNode| seen.is_some();
    // Without a shutdown the sender lives: an error ends this process anyway.
    let cached: Option<Arc<Node>> = match seen.wait_for(is_cached).await {
        Ok(seen) => seen.clone(),
        Err(_) => None,
    };
    if cached.is_some_and(|node| is_ours(&node)) {
        let is_ready = |seen: &ObservedNode| {
            seen.as_ref()
                .is_some_and(|node| node.is_ready_since(up_since))
        };
        let ready = timeout(READY_LIMIT, seen.wait_for(is_ready)).await;
        if !matches!(ready, Ok(Ok(_))) {
            return Err(Error::NotReady {
                node: node.to_owned(),
            });
        }
    }
    let (config, shown) = (config.to_owned(), shown());
    let in_service = move |node: &Node| {
        let change = change(node, &config);
        match &shown {
            Some(shown) => change.and(shown.change(node)),
            None => change,
        }
    };
    writer.write(in_service).await?;
    Ok(())
}

fn is_ours(node: &Node) -> bool {
    NodeStatus::read(&node.annotations).cordoned_by.is_some()
}

fn change(node: &Node, config: &str) -> Change {
    let status = NodeStatus::read(&node.annotations);
    let mut change = Change::default();
    if status.cordoned_by.is_some() {
        change = change.unschedulable(false).remove(annotation::CORDONED_BY);
    }
    let request = DrainRequest::Uncordon(config.to_owned());
    let wanted = Some(Reading::Known(request.clone()));
    for (key, present) in [
        (annotation::DESIRED_DRAIN, &status.desired_drain),
        (annotation::LAST_APPLIED_DRAIN, &status.last_applied_drain),
    ] {
        if *present != wanted {
            change = change.set(key, request.to_string());
        }
    }
    if status.drain_since.is_some() {
        change = change.remove(annotation::DRAIN_SINCE);
    }
    change
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(unschedulable: bool, annotations: &Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n", "annotations": annotations}, "spec": {"unschedulable": unschedulable},
        }))
        .unwrap()
    }

    fn in_service() -> Change {
        Change::default()
            .set(annotation::DESIRED_DRAIN, "uncordon-b")
            .set(annotation::LAST_APPLIED_DRAIN, "uncordon-b")
    }

    #[test]
    fn only_our_cordon_is_taken_away() {
        let ours = node(
            true,
            &json!({annotation::CORDONED_BY: "1", annotation::DESIRED_DRAIN: "drain-b", annotation::DRAIN_SINCE: "x"}),
        );
        let uncordoned = in_service()
            .remove(annotation::DRAIN_SINCE)
            .unschedulable(false)
            .remove(annotation::CORDONED_BY);
        assert_eq!(change(&ours, "b"), uncordoned);

        let admins = node(true, &json!({annotation::DESIRED_DRAIN: "drain-b"}));
        assert_eq!(change(&admins, "b"), in_service());
    }

    #[test]
    fn a_node_that_was_not_drained_says_what_it_runs_and_says_it_once() {
        let before = json!({annotation::DESIRED_DRAIN: "uncordon-a", annotation::LAST_APPLIED_DRAIN: "uncordon-a"});
        assert_eq!(change(&node(true, &before), "b"), in_service());
        assert_eq!(change(&node(false, &json!({})), "b"), in_service());
        let after = json!({annotation::DESIRED_DRAIN: "uncordon-b", annotation::LAST_APPLIED_DRAIN: "uncordon-b"});
        assert_eq!(change(&node(false, &after), "b"), Change::default());
    }
}
