//! Which pods a drain of a node would evict, and the response of the API server to its eviction.

use cluster::access::Access;
use cluster::wire;
use futures::{StreamExt as _, stream};
use node::drain::{EvictionResponse, Pod, Verdict, judge, pods_of, try_eviction};
use serde::Deserialize;

use crate::decide::pools::node_view::{EvictionTrial, TrialOutcome};

/// Evictions that are tried at once.
const CONCURRENCY: usize = 8;

#[derive(Deserialize)]
struct Pods {
    #[serde(default)]
    items: Vec<Pod>,
}

/// Tries the eviction of each pod that a drain of the node evicts, without effect; blocked ones
/// first.
///
/// # Errors
/// The pods cannot be listed.
pub(super) async fn try_drain(
    access: &Access,
    node: &str,
) -> Result<Vec<EvictionTrial>, wire::Error> {
    let pods: Pods = access.get(&pods_of(node)).await?;
    let trials = pods.items.into_iter().map(|pod| async move {
        let response = match judge(&pod, None) {
            Verdict::Skip(_) => return None,
            Verdict::Wait => None,
            Verdict::Evict => Some(try_eviction(access, &pod).await),
        };
        EvictionTrial::new(&pod, response)
    });
    let trials = stream::iter(trials).buffer_unordered(CONCURRENCY);
    let mut trials: Vec<EvictionTrial> = trials.filter_map(std::future::ready).collect().await;
    trials.sort_by(|one, other| (one.outcome, &one.pod).cmp(&(other.outcome, &other.pod)));
    Ok(trials)
}

impl EvictionTrial {
    /// The trial of a pod; none where the pod is gone. Without a response it terminates already.
    fn new(pod: &Pod, response: Option<EvictionResponse>) -> Option<Self> {
        let (outcome, budget, message) = match response {
            None => (TrialOutcome::Terminating, None, String::new()),
            Some(EvictionResponse::Gone) => return None,
            Some(EvictionResponse::Accepted) => (TrialOutcome::Evictable, None, String::new()),
            Some(EvictionResponse::Blocked {
                budget, message, ..
            }) => (TrialOutcome::Blocked, budget, message),
            Some(EvictionResponse::Trouble(message)) => (TrialOutcome::Unknown, None, message),
        };
        Some(Self {
            pod: pod.name.to_string(),
            outcome,
            budget,
            message,
        })
    }
}
