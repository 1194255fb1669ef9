//! Before the node's turn: what its Node names next, and what the Node shows of it.

use std::time::Duration;

use api::machineconfiguration::{NodeStatus, annotation};
use node::writer::Change;
use node_update::phase::{Ahead, NextTarget};
use node_update::plan::Target;
use sha2::{Digest as _, Sha256};

/// The longest cause in an annotation, in characters: an outcome for people, beside those that
/// clients read.
const CAUSE_CHARS: usize = 500;

/// How the nodes of a pool spread their fetches.
#[derive(Debug, Clone)]
pub struct Spread {
    node: String,
    /// The time over which all nodes begin.
    window: Duration,
}

impl Spread {
    /// Over `window`, of the node of this name.
    pub fn new(node: &str, window: Duration) -> Self {
        Self {
            node: node.to_owned(),
            window,
        }
    }

    /// What the Node names next. A layered node keeps its image.
    pub fn next(&self, status: &NodeStatus) -> Option<NextTarget> {
        let to = Target {
            config: status.next_config.clone()?,
            image: status.desired_image.clone(),
        };
        let after = self.after(&to.config);
        Some(NextTarget { to, after })
    }

    /// When within the window this node begins: the same after a restart, and another for each
    /// configuration.
    fn after(&self, config: &str) -> Duration {
        let hash = Sha256::digest(format!("{}\n{config}", self.node));
        let number = hash
            .iter()
            .take(4)
            .fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        self.window.mul_f64(f64::from(number) / f64::from(u32::MAX))
    }
}

/// What is shown of a node at rest. What stands there of the same target stays until
/// another try ends.
pub(super) fn show(ahead: &Ahead, status: &NodeStatus, change: Change) -> Change {
    let outcome = |fetched: Option<&str>, failed: Option<&str>| {
        let write = |change: Change, key, value: Option<&str>| match value {
            Some(value) => change.set(key, value),
            None => change.remove(key),
        };
        let change = write(change, annotation::FETCHED, fetched);
        write(change, annotation::NOT_FETCHED, failed)
    };
    match ahead {
        Ahead::Nothing => outcome(None, None),
        Ahead::Fetched(to) => outcome(Some(&to.config), None),
        Ahead::Failed { to, cause } => {
            let cause: String = cause.chars().take(CAUSE_CHARS).collect();
            outcome(None, Some(&format!("{}: {cause}", to.config)))
        }
        Ahead::Waiting(NextTarget { to, .. }) | Ahead::Fetching(to) => {
            let is_of = |text: &&str| text.split(':').next() == Some(to.config.as_str());
            outcome(
                status.fetched.as_deref().filter(is_of),
                status.not_fetched.as_deref().filter(is_of),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(node: &str) -> Spread {
        Spread::new(node, Duration::from_secs(100))
    }

    #[test]
    fn nodes_begin_all_over_the_window_and_each_at_its_own_time() {
        let after = |n: u32| {
            of(&format!("worker-{n}"))
                .after("rendered-worker-1")
                .as_secs()
        };
        let mut quarters = [0; 4];
        for seconds in (0..400).map(after) {
            let quarter = usize::try_from(seconds / 25).unwrap().min(3);
            quarters[quarter] += 1;
        }
        assert!(
            quarters.iter().all(|count| (60..140).contains(count)),
            "{quarters:?}"
        );
        assert_eq!(after(1), after(1));
        let other = of("worker-1").after("rendered-worker-2");
        assert_ne!(of("worker-1").after("rendered-worker-1"), other);
    }

    #[test]
    fn the_annotation_names_the_target_and_a_layered_node_keeps_its_image() {
        let read = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()));
            of("a").next(&NodeStatus::read(&pairs.collect()))
        };
        assert_eq!(read(&[(annotation::NEXT_CONFIG, "")]), None);
        let layered = [
            (annotation::NEXT_CONFIG, "b"),
            (annotation::DESIRED_IMAGE, "registry/os"),
        ];
        let to = read(&layered).unwrap().to;
        assert_eq!(
            (to.config.as_str(), to.image.as_deref()),
            ("b", Some("registry/os"))
        );
    }

    #[test]
    fn an_outcome_stays_until_the_next_try_of_the_same_target_has_one() {
        let target = |config: &str| Target {
            config: config.to_owned(),
            image: None,
        };
        let failed = |config: &str, cause: &str| Ahead::Failed {
            to: target(config),
            cause: cause.to_owned(),
        };
        let long = format!("b: {}", "x".repeat(CAUSE_CHARS));
        // What the Node says, what the machine does, what the Node says then.
        for (before, ahead, after) in [
            ((None, None), Ahead::Fetched(target("b")), (Some("b"), None)),
            ((Some("b"), None), Ahead::Nothing, (None, None)),
            (
                (Some("b"), None),
                Ahead::Fetching(target("b")),
                (Some("b"), None),
            ),
            (
                (Some("b"), None),
                Ahead::Fetching(target("bc")),
                (None, None),
            ),
            (
                (None, Some("b: 503")),
                Ahead::Fetching(target("b")),
                (None, Some("b: 503")),
            ),
            (
                (None, Some("b: 503")),
                Ahead::Fetching(target("c")),
                (None, None),
            ),
            (
                (None, Some("b: 503")),
                Ahead::Fetched(target("b")),
                (Some("b"), None),
            ),
            (
                (Some("b"), None),
                failed("b", "no room"),
                (None, Some("b: no room")),
            ),
            (
                (None, None),
                failed("b", &"x".repeat(3000)),
                (None, Some(long.as_str())),
            ),
        ] {
            let status = NodeStatus {
                fetched: before.0.map(ToOwned::to_owned),
                not_fetched: before.1.map(ToOwned::to_owned),
                ..NodeStatus::default()
            };
            let change = show(&ahead, &status, Change::default()).annotations;
            let of = |key: &str| change.get(key).unwrap().as_deref();
            let shown = (of(annotation::FETCHED), of(annotation::NOT_FETCHED));
            assert_eq!(shown, after, "{before:?} {ahead:?}");
        }
    }
}
