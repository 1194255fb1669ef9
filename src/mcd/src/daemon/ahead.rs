//! Before the node's turn: what its Node names next, and what the Node shows of it.

use std::convert::Infallible;
use std::future::pending;
use std::num::NonZeroU64;
use std::time::Duration;

use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{NodeStatus, annotation};
use chassis::report::Chain;
use node::watch::ObservedNode;
use node::writer::Change;
use node_update::phase::{Ahead, Event, NextTarget};
use node_update::plan::Target;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::agent::{Agent, Called};
use super::desired::latest_status;
use super::driver::EventSink;
use super::helper::{Helper, Priority};
use super::planning::Stored;
use super::prepare;

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

/// What is shown of a node at rest. What stands there of the same target stays until the outcome of
/// another try is known.
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

impl Agent {
    /// Plans, fetches and rehearses; the plan stays stored, so that its image is held.
    pub(super) async fn prefetch(&self, from: &Target, to: &Target, events: &EventSink) -> Event {
        let stored = match self.make_plan(Called::Next, from, to, false, events).await {
            Ok(stored) => stored,
            Err(no_plan) => return not_fetched(no_plan.into()),
        };
        self.known.begin_ahead(&stored.attempt);
        let limit = latest_status(&self.seen).map_or(Ok(None), |status| limit(&status));
        let end = match limit {
            Ok(limit) => self.prepare_ahead(&stored, limit, events).await,
            Err(invalid) => Event::Rejected(vec![invalid]),
        };
        let event = if end == Event::Prepared {
            tracing::info!(config = to.config, "fetched before the node's turn");
            Event::Fetched
        } else {
            not_fetched(end)
        };
        self.rest();
        event
    }

    async fn prepare_ahead(
        &self,
        plan: &Stored,
        bytes_per_second: Option<NonZeroU64>,
        events: &EventSink,
    ) -> Event {
        let config = &plan.to.config;
        tracing::info!(config, bytes_per_second, "fetching before the node's turn");
        if let Err(error) = self.helper.limit_fetch(bytes_per_second) {
            return Event::Failed(Chain(&error).to_string());
        }
        let priority = Priority::Idle { bytes_per_second };
        let prepare = prepare::prepare(&self.helper, plan, priority, events);
        let follow = follow_limit(&self.helper, self.seen.clone());
        let end = tokio::select! {
            end = prepare => end,
            never = follow => match never {},
        };
        if let Err(error) = self.helper.limit_fetch(None) {
            tracing::warn!(error = %Chain(&error), "the limit of a fetch that is over stays");
        }
        end
    }
}

/// How many bytes a second the Node lets the node fetch before its turn.
fn limit(status: &NodeStatus) -> Result<Option<NonZeroU64>, String> {
    match &status.next_bytes_per_second {
        None => Ok(None),
        Some(Reading::Known(limit)) => Ok(Some(*limit)),
        Some(Reading::Unknown(text)) => Err(format!(
            "annotation {} of the Node: {text:?} is no number of bytes above 0",
            annotation::NEXT_BYTES_PER_SECOND
        )),
    }
}

/// Hands on what the Node says of the limit of a fetch under way. At the node's turn it says
/// nothing of it any more, and the rest is fetched without a limit.
async fn follow_limit(helper: &Helper, mut seen: watch::Receiver<ObservedNode>) -> Infallible {
    let mut set = None;
    loop {
        let status = latest_status(&seen);
        // An invalid one changes nothing.
        let now = status.and_then(|status| limit(&status).ok());
        if let Some(now) = now.filter(|now| set != Some(*now)) {
            match helper.limit_fetch(now) {
                Ok(()) => set = Some(now),
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "cannot change the limit of a fetch");
                }
            }
        }
        if seen.changed().await.is_err() {
            return pending().await;
        }
    }
}

fn not_fetched(event: Event) -> Event {
    let cause = if let Event::Rejected(reasons) = event {
        reasons.join("; ")
    } else if let Event::Failed(cause) = event {
        cause
    } else {
        format!("{event:?}")
    };
    tracing::warn!(reason = cause, "cannot fetch before the node's turn");
    Event::NotFetched(cause)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use node::view::Node;
    use serde_json::json;

    use super::super::helper::FETCH_LIMIT;
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
    fn a_limit_that_is_no_number_is_named_and_not_passed_over() {
        let read = |text: &str| {
            let key = annotation::NEXT_BYTES_PER_SECOND.to_owned();
            limit(&NodeStatus::read(&[(key, text.to_owned())].into()))
        };
        assert_eq!(read("20000000").unwrap(), NonZeroU64::new(20_000_000));
        assert_eq!(read(""), Ok(None));
        for bad in ["0", "20M", "-1"] {
            assert_eq!(
                read(bad).unwrap_err(),
                format!(
                    "annotation slipway.dev/next-bytes-per-second of the Node: {bad:?} is no \
                     number of bytes above 0"
                )
            );
        }
    }

    fn helper(root: &Path) -> Helper {
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        let program = root.join("usr/bin/true");
        fs::File::create(&program).unwrap();
        Helper::install(root, &program, &program).unwrap()
    }

    #[tokio::test]
    async fn a_fetch_under_way_follows_the_limit_of_the_node_and_has_none_at_its_turn() {
        let root = tempfile::tempdir().unwrap();
        let helper = helper(root.path());
        let node = |limit: Option<&str>| -> ObservedNode {
            let mut annotations = json!({});
            if let Some(limit) = limit {
                annotations[annotation::NEXT_BYTES_PER_SECOND] = json!(limit);
            }
            let metadata = json!({
                "name": "n", "uid": "u", "resourceVersion": "1", "annotations": annotations
            });
            let node: Node = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
            Some(Arc::new(node))
        };
        let file = root.path().join(FETCH_LIMIT.trim_start_matches('/'));
        let (seen_by, seen) = watch::channel(node(Some("1000000")));
        let follow = follow_limit(&helper, seen);
        let check = async {
            for (limit, expected) in [
                (Some("1000000"), Some("1000000")),
                (Some("2000000"), Some("2000000")),
                (Some("fast"), Some("2000000")),
                (None, None),
                (Some("3000000"), Some("3000000")),
            ] {
                seen_by.send_replace(node(limit));
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                assert_eq!(fs::read_to_string(&file).ok().as_deref(), expected);
            }
            seen_by.send_replace(None);
            tokio::task::yield_now().await;
            assert_eq!(fs::read_to_string(&file).unwrap(), "3000000");
        };
        tokio::select! {
            biased;
            never = follow => match never {},
            () = check => {}
        }
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
