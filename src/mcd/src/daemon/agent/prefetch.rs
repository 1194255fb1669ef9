//! Fetching before the node's turn, within the limit that its Node names.

use std::convert::Infallible;
use std::future::pending;
use std::num::NonZeroU64;

use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{NodeStatus, annotation};
use chassis::report::Chain;
use node::watch::ObservedNode;
use node_update::phase::Event;
use node_update::plan::Target;
use tokio::sync::watch;

use super::{Agent, Called};
use crate::daemon::desired::latest_status;
use crate::daemon::driver::EventSink;
use crate::daemon::helper::{Helper, Priority};
use crate::daemon::planning::Stored;
use crate::daemon::prepare;

impl Agent {
    /// Plans, fetches and rehearses; the plan stays stored, so that its image is held.
    pub(super) async fn prefetch(&self, from: &Target, to: &Target, events: &EventSink) -> Event {
        let stored = match self.make_plan(Called::Next, from, to, false, events).await {
            Ok(stored) => stored,
            Err(no_plan) => return not_fetched(no_plan.into()),
        };
        self.state.begin_ahead(&stored.attempt);
        let limit = latest_status(&self.seen).map_or(Ok(None), |status| limit(&status));
        let end = match limit {
            Ok(limit) => self.prepare_ahead(&stored, limit, events).await,
            Err(invalid) => Event::Rejected(vec![invalid.to_string()]),
        };
        let event = if end == Event::Prepared {
            tracing::info!(config = %to, "fetched before the node's turn");
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
        tracing::info!(config = %plan.to, bytes_per_second, "fetching before the node's turn");
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

/// The Node's limit of a fetch is none.
#[derive(Debug, thiserror::Error)]
#[error(
    "annotation {} of the Node: {text:?} is no number of bytes above 0",
    annotation::NEXT_BYTES_PER_SECOND
)]
struct InvalidRate {
    text: String,
}

/// How many bytes a second the Node lets the node fetch before its turn.
fn limit(status: &NodeStatus) -> Result<Option<NonZeroU64>, InvalidRate> {
    match &status.next_bytes_per_second {
        None => Ok(None),
        Some(Reading::Known(limit)) => Ok(Some(*limit)),
        Some(Reading::Unknown(text)) => Err(InvalidRate { text: text.clone() }),
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

    use super::*;
    use crate::daemon::helper::FETCH_LIMIT;

    #[test]
    fn a_limit_that_is_no_number_is_named_and_not_passed_over() {
        let read = |text: &str| {
            let key = annotation::NEXT_BYTES_PER_SECOND.to_owned();
            limit(&NodeStatus::read(&[(key, text.to_owned())].into()))
        };
        assert_eq!(read("20000000").unwrap(), NonZeroU64::new(20_000_000));
        assert_eq!(read("").unwrap(), None);
        for bad in ["0", "20M", "-1"] {
            assert_eq!(
                read(bad).unwrap_err().to_string(),
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
}
