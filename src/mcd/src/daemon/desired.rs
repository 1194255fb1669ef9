//! What the Node asks for.

use std::sync::Arc;

use api::machineconfiguration::NodeStatus;
use chassis::shutdown::Shutdown;
use node::view::Node;
use node::watch::ObservedNode;
use node_update::phase::Event;
use node_update::plan::Target;
use tokio::sync::{mpsc, oneshot, watch};

/// The target that `desiredConfig` and `desiredImage` name; nothing before the node is managed.
fn target(status: &NodeStatus) -> Option<Target> {
    Some(Target {
        config: status.desired_config.clone()?,
        image: status.desired_image.clone(),
    })
}

/// Sends the loop what the Node asks for, whenever that changes, until the shutdown. `looked` is
/// sent once the Node was read for the first time, after what it asked for then.
pub async fn follow(
    mut seen: watch::Receiver<ObservedNode>,
    events: mpsc::Sender<Event>,
    looked: oneshot::Sender<()>,
    mut shutdown: Shutdown,
) {
    let mut last = (None, false);
    let mut looked = Some(looked);
    loop {
        let node = seen.borrow_and_update().clone();
        if let Some(node) = node {
            let asked = asked(&NodeStatus::read(&node.annotations));
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

/// What the Node asks for: a target, and whether it is released.
fn asked(status: &NodeStatus) -> (Option<Target>, bool) {
    (target(status), status.is_released())
}

/// What the Node's annotations said when it was last seen.
pub fn latest_status(seen: &watch::Receiver<ObservedNode>) -> Option<NodeStatus> {
    seen.borrow()
        .as_ref()
        .map(|node| NodeStatus::read(&node.annotations))
}

/// The node as it was last seen.
pub fn latest(seen: &watch::Receiver<ObservedNode>) -> Option<Arc<Node>> {
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
    use std::collections::BTreeMap;

    use api::machineconfiguration::annotation;

    use super::*;

    fn asked(config: &str, image: &str, retry: &str) -> (Option<Target>, bool) {
        let annotations = [
            (annotation::DESIRED_CONFIG, config),
            (annotation::DESIRED_IMAGE, image),
            (annotation::RETRY, retry),
        ];
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
        super::asked(&NodeStatus::read(&annotations.into()))
    }

    #[test]
    fn empty_annotations_ask_for_nothing() {
        assert_eq!(asked("", "", ""), (None, false));
        assert_eq!(target(&NodeStatus::read(&BTreeMap::new())), None);
    }

    #[test]
    fn a_release_names_the_configuration_it_means() {
        assert!(asked("b", "", "b").1);
        assert!(!asked("b", "", "a").1);
    }

    #[test]
    fn only_changes_are_sent() {
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
            "a target is never withdrawn by leaving it out"
        );
        assert_eq!(changes(&b, &asked("b", "", "b")), [Event::Release]);
    }
}
