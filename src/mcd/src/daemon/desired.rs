//! The desired state that the Node names.

use std::sync::Arc;

use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{NodeStatus, annotation};
use chassis::shutdown::Shutdown;
use node::view::Node;
use node::watch::ObservedNode;
use node_update::phase::{Event, NextTarget};
use node_update::plan::Target;
use tokio::sync::{mpsc, oneshot, watch};

use super::ahead::Spread;

/// The target that `desiredConfig` and `desiredImage` name; nothing before the node is managed.
fn target(status: &NodeStatus) -> Option<Target> {
    Some(Target {
        config: status.desired_config.clone()?,
        image: status.desired_image.clone(),
    })
}

/// Sends the loop the desired state of the Node, whenever that changes, until the shutdown.
/// `looked` is sent once the Node was read for the first time, after the events of that state.
pub async fn follow(
    mut seen: watch::Receiver<ObservedNode>,
    spread: Spread,
    events: mpsc::Sender<Event>,
    looked: oneshot::Sender<()>,
    mut shutdown: Shutdown,
) {
    let mut last = DesiredState::default();
    let mut looked = Some(looked);
    let mut unread = None;
    loop {
        let node = seen.borrow_and_update().clone();
        if let Some(node) = node {
            let status = NodeStatus::read(&node.annotations);
            let desired = DesiredState::of(&status, &spread);
            // Once for each text.
            let text = unread_next(&status).map(ToOwned::to_owned);
            if let Some(text) = text.as_ref().filter(|_| text != unread) {
                let key = annotation::NEXT_CONFIG;
                tracing::warn!(key, text, "annotation of the Node names no target");
            }
            unread = text;
            for event in changes(&last, &desired) {
                if events.send(event).await.is_err() {
                    return;
                }
            }
            last = desired;
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

/// The desired state that the Node names.
#[derive(Debug, Default, PartialEq, Eq)]
struct DesiredState {
    target: Option<Target>,
    /// Whether a held target is to be tried again.
    is_released: bool,
    /// What may be fetched before the node's turn.
    next: Option<NextTarget>,
}

impl DesiredState {
    fn of(status: &NodeStatus, spread: &Spread) -> Self {
        Self {
            target: target(status),
            is_released: status.is_released(),
            next: spread.next(status),
        }
    }
}

/// The text by which the Node names something next that is no target.
fn unread_next(status: &NodeStatus) -> Option<&str> {
    match status.next.as_ref()? {
        Reading::Known(_) => None,
        Reading::Unknown(text) => Some(text),
    }
}

/// The status in the annotations of the Node as it was last seen.
pub fn latest_status(seen: &watch::Receiver<ObservedNode>) -> Option<NodeStatus> {
    seen.borrow()
        .as_ref()
        .map(|node| NodeStatus::read(&node.annotations))
}

/// The node as it was last seen.
pub fn latest(seen: &watch::Receiver<ObservedNode>) -> Option<Arc<Node>> {
    seen.borrow().clone()
}

fn changes(before: &DesiredState, now: &DesiredState) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some(target) = &now.target
        && before.target.as_ref() != Some(target)
    {
        events.push(Event::Desired(target.clone()));
    }
    if now.is_released && !before.is_released {
        events.push(Event::Release);
    }
    if now.next != before.next {
        events.push(Event::Next(now.next.clone()));
    }
    events
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    fn desired(config: &str, image: &str, retry: &str) -> DesiredState {
        let annotations = [
            (annotation::DESIRED_CONFIG, config),
            (annotation::DESIRED_IMAGE, image),
            (annotation::RETRY, retry),
        ];
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
        of(&annotations.into())
    }

    fn of(annotations: &BTreeMap<String, String>) -> DesiredState {
        let spread = Spread::new("n", Duration::ZERO);
        DesiredState::of(&NodeStatus::read(annotations), &spread)
    }

    #[test]
    fn empty_annotations_ask_for_nothing() {
        assert_eq!(desired("", "", ""), DesiredState::default());
        assert_eq!(target(&NodeStatus::read(&BTreeMap::new())), None);
    }

    #[test]
    fn a_release_names_the_configuration_it_means() {
        assert!(desired("b", "", "b").is_released);
        assert!(!desired("b", "", "a").is_released);
    }

    #[test]
    fn text_that_names_no_target_differs_from_none() {
        let unread = |text: &str| {
            let annotations = [(annotation::NEXT_CONFIG.to_owned(), text.to_owned())];
            unread_next(&NodeStatus::read(&annotations.into())).map(ToOwned::to_owned)
        };
        assert_eq!(unread(""), None);
        assert_eq!(unread("b registry/os"), None);
        assert_eq!(unread("b  registry/os").as_deref(), Some("b  registry/os"));
    }

    #[test]
    fn only_changes_are_sent() {
        let none = DesiredState::default();
        let b = desired("b", "", "");
        let layered = desired("b", "registry/os@sha256:1", "");
        assert_eq!(
            changes(&none, &b),
            [Event::Desired(b.target.clone().unwrap())]
        );
        assert_eq!(changes(&b, &b), []);
        assert_eq!(
            changes(&b, &layered),
            [Event::Desired(layered.target.clone().unwrap())]
        );
        assert_eq!(
            changes(&b, &none),
            [],
            "a target is never withdrawn by leaving it out"
        );
        assert_eq!(changes(&b, &desired("b", "", "b")), [Event::Release]);
        let named = of(&[(annotation::NEXT_CONFIG.to_owned(), "c".to_owned())].into());
        let next = Event::Next(named.next.clone());
        assert_eq!(changes(&none, &named), [next]);
        assert_eq!(changes(&named, &none), [Event::Next(None)]);
        let other_image = desired("b", "registry/os@sha256:2", "");
        let moved = Event::Desired(other_image.target.clone().unwrap());
        assert_eq!(changes(&layered, &other_image), [moved]);
        let back = Event::Desired(b.target.clone().unwrap());
        assert_eq!(changes(&layered, &b), [back], "out of image mode");
    }
}
