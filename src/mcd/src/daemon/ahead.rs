//! Before the node's turn: what its Node names next, and what the Node shows of it.

use std::time::Duration;

use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{NodeStatus, annotation};
use node::writer::Change;
use node_update::phase::{Ahead, NextTarget};
use node_update::plan::Target;
use sha2::{Digest as _, Sha256};

/// The longest cause in an annotation, in characters: an outcome for people, beside those that
/// clients read.
const CAUSE_CHARS: usize = 500;

/// What is between the target of a failed fetch and its cause.
const SEPARATOR: &str = ": ";

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

    /// What the Node names next: a configuration, and in image mode its image. A text that names no
    /// target counts as none.
    pub fn next(&self, status: &NodeStatus) -> Option<NextTarget> {
        let to = status.next.as_ref().and_then(Reading::known)?.clone();
        let after = self.after(&to);
        Some(NextTarget { to, after })
    }

    /// When within the window this node begins: the same after a restart, and another for each
    /// target.
    fn after(&self, target: &Target) -> Duration {
        let hash = Sha256::digest(format!("{}\n{target}", self.node));
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
        Ahead::Fetched(to) => outcome(Some(&to.to_string()), None),
        Ahead::Failed { to, cause } => {
            let cause: String = cause.chars().take(CAUSE_CHARS).collect();
            outcome(None, Some(&format!("{to}{SEPARATOR}{cause}")))
        }
        Ahead::Waiting(NextTarget { to, .. }) | Ahead::Fetching(to) => {
            let target = to.to_string();
            let fetched = status.fetched.as_ref().and_then(Reading::known);
            let is_of = |text: &&str| failed_target(text) == Some(target.as_str());
            outcome(
                fetched.filter(|of| *of == to).map(|_| target.as_str()),
                status.not_fetched.as_deref().filter(is_of),
            )
        }
    }
}

/// The target of a failed fetch: what is before its cause. An image has a colon, too, but no blank
/// after it.
fn failed_target(text: &str) -> Option<&str> {
    let (target, _) = text.split_once(SEPARATOR)?;
    Some(target)
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
                .after(&Target::of_config("rendered-worker-1"))
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
        let of_target = |text| of("worker-1").after(&Target::parse(text).unwrap());
        let of_first = of_target("rendered-worker-1");
        assert_ne!(of_first, of_target("rendered-worker-2"));
        assert_ne!(of_first, of_target("rendered-worker-1 registry/os"));
    }

    #[test]
    fn the_annotation_names_the_target_whatever_is_assigned_now() {
        let read = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()));
            of("a").next(&NodeStatus::read(&pairs.collect()))
        };
        let assigned = (annotation::DESIRED_IMAGE, "registry/os:1");
        for (text, expected) in [
            ("b", Target::parse("b")),
            ("b registry/os:2", Target::parse("b registry/os:2")),
            // No target, so that nothing is fetched by half.
            ("", None),
            ("b registry/os:2 more", None),
            (" registry/os:2", None),
        ] {
            let next = read(&[(annotation::NEXT_CONFIG, text), assigned]);
            assert_eq!(next.map(|next| next.to), expected, "{text:?}");
        }
    }

    #[test]
    fn an_outcome_stays_until_the_next_try_of_the_same_target_has_one() {
        let target = |text: &str| Target::parse(text).unwrap();
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
            // Another image is another target.
            (
                (Some("b r:1/os"), Some("b r:1/os: no: 503")),
                Ahead::Fetching(target("b r:1/os")),
                (Some("b r:1/os"), Some("b r:1/os: no: 503")),
            ),
            (
                (Some("b r:1/os"), Some("b r:1/os: no: 503")),
                Ahead::Fetching(target("b r:1/os2")),
                (None, None),
            ),
            (
                (Some("b"), Some("b: 503")),
                Ahead::Fetching(target("b r:1/os")),
                (None, None),
            ),
            (
                (None, None),
                Ahead::Fetched(target("b r:1/os")),
                (Some("b r:1/os"), None),
            ),
            (
                (None, None),
                failed("b r:1/os", "no room"),
                (None, Some("b r:1/os: no room")),
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
                fetched: before.0.map(|text| Reading::Known(target(text))),
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
