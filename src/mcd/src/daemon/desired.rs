//! What the Node asks for.

use std::sync::Arc;

use api::machineconfiguration::NodeState;
use api::machineconfiguration::annotation;
use chassis::shutdown::Shutdown;
use node::view::Node;
use node::watch::Seen;
use node_update::phase::Event;
use node_update::plan::Target;
use tokio::sync::{mpsc, oneshot, watch};

/// The target that `desiredConfig` and `desiredImage` name; nothing before the node is managed.
pub fn target(node: &Node) -> Option<Target> {
    let config = filled(node, annotation::DESIRED_CONFIG)?;
    Some(Target {
        config,
        image: filled(node, annotation::DESIRED_IMAGE),
    })
}

/// Whether an administrator asks for a held target to be tried again: the annotation names its configuration.
pub fn is_release(node: &Node) -> bool {
    let asked = filled(node, annotation::RETRY);
    asked.is_some() && asked == filled(node, annotation::DESIRED_CONFIG)
}

/// Whether the control plane has one node only: then there is nowhere to drain to.
pub fn is_single_replica(node: &Node) -> bool {
    node.annotation(annotation::CONTROL_PLANE_TOPOLOGY) == Some("SingleReplica")
}

/// Whether the Node shows Done; as in the original, so does one that shows no state.
pub fn is_done(node: &Node) -> bool {
    node.annotation(annotation::STATE)
        .is_none_or(|state| state == NodeState::Done.as_str())
}

fn filled(node: &Node, key: &str) -> Option<String> {
    node.annotation(key)
        .filter(|value| !value.is_empty())
        .map(ToOwned::to_owned)
}

/// Tells the loop what the Node asks for, whenever that changes, until the shutdown. `looked` is told once the Node was read for the
/// first time, after what it asked for then.
pub async fn follow(
    mut seen: watch::Receiver<Seen>,
    events: mpsc::Sender<Event>,
    looked: oneshot::Sender<()>,
    mut shutdown: Shutdown,
) {
    let mut last = (None, false);
    let mut looked = Some(looked);
    loop {
        let node = seen.borrow_and_update().clone();
        if let Some(node) = node {
            let asked = (target(&node), is_release(&node));
            for event in changes(&last, &asked) {
                if events.send(event).await.is_err() {
                    return;
                }
            }
            last = asked;
            if let Some(looked) = looked.take()
                && looked.send(()).is_err()
            {
                tracing::debug!("the loop did not wait for the node");
            }
        }
        tokio::select! {
            () = shutdown.requested() => return,
            changed = seen.changed() => if changed.is_err() { return },
        }
    }
}

/// The node as it was last seen.
pub fn latest(seen: &watch::Receiver<Seen>) -> Option<Arc<Node>> {
    seen.borrow().clone()
}

fn changes(before: &(Option<Target>, bool), now: &(Option<Target>, bool)) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some(target) = &now.0
        && before.0.as_ref() != Some(target)
    {
        events.push(Event::Desired(target.clone()));
    }
    if now.1 && !before.1 {
        events.push(Event::Release);
    }
    events
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(annotations: &Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n", "annotations": annotations}}))
            .unwrap()
    }

    fn asked(config: &str, image: &str, retry: &str) -> (Option<Target>, bool) {
        let node = node(&json!({
            annotation::DESIRED_CONFIG: config, annotation::DESIRED_IMAGE: image, annotation::RETRY: retry,
        }));
        (target(&node), is_release(&node))
    }

    #[test]
    fn empty_annotations_ask_for_nothing() {
        assert_eq!(asked("", "", ""), (None, false));
        assert_eq!(target(&node(&json!({}))), None);
    }

    #[test]
    fn a_release_names_the_configuration_it_means() {
        assert!(asked("b", "", "b").1);
        assert!(!asked("b", "", "a").1);
    }

    #[test]
    fn only_changes_are_told() {
        let none = (None, false);
        let b = asked("b", "", "");
        let layered = asked("b", "registry/os@sha256:1", "");
        assert_eq!(changes(&none, &b), [Event::Desired(b.0.clone().unwrap())]);
        assert_eq!(changes(&b, &b), []);
        assert_eq!(
            changes(&b, &layered),
            [Event::Desired(layered.0.clone().unwrap())]
        );
        assert_eq!(
            changes(&b, &none),
            [],
            "a target is never taken back by leaving it out"
        );
        assert_eq!(changes(&b, &asked("b", "", "b")), [Event::Release]);
    }
}
