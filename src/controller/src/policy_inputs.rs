//! The inputs of a rollout policy beside the nodes: results of its metrics queries, and pods that
//! may not be evicted.

use chassis::report::Chain;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster::access::Access;
use cluster::list::{Select, list};
use cluster::wire;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use pool::policy::{QueryAnswer, QueryAnswers, SeenDrains};
use web::prometheus::MetricsServer;

use crate::context::Context;
use crate::observed::Observed;

/// How long a count of pods counts.
const COUNTED_FOR: SignedDuration = SignedDuration::from_secs(30);

/// How long the server of metrics may take: the pool waits meanwhile.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);

/// The cached inputs of a pool's policy, and when they were read. All of it can be lost.
#[derive(Debug, Default)]
pub(crate) struct PolicyInputs {
    results: QueryAnswers,
    blocked_pods: Option<(Timestamp, BTreeMap<String, usize>)>,
}

/// Notes which nodes of the pool are being drained: since when is this program's observation.
pub(crate) fn note_drains(drains: &mut SeenDrains, observed: &mut Observed, now: Timestamp) {
    let view = &observed.pool.view;
    let members = observed.members.values().map(AsRef::as_ref);
    if let Some(target) = &view.target {
        drains.note(target, members, now);
    }
    observed.pool.view.facts.drains = drains.clone();
}

/// Refreshes the inputs of the pool's policy, where a node waits and the cached ones are too old.
/// A failure of the metrics server is a result; one of the API server is an error.
pub(crate) async fn refresh(
    context: &Context,
    server: &MetricsServer,
    cached: &mut PolicyInputs,
    observed: &mut Observed,
) -> Result<(), wire::Error> {
    let view = &observed.pool.view;
    let (Some(policy), Some(target)) = (&view.policy, &view.target) else {
        return Ok(());
    };
    let mut members = observed.members.values();
    let has_waiting = members.any(|node| !node.status.is_assigned_to(target));
    if !has_waiting || !view.is_rolling() {
        return Ok(());
    }
    let name = &view.name;
    for query in policy.analysis() {
        if query.is_due(&cached.results, context.now()) {
            let sample = server.sample(context.requests.access(), &query.query);
            let sample = tokio::time::timeout(QUERY_TIMEOUT, sample).await;
            let result = match sample {
                Ok(Ok(true)) => QueryAnswer::Passed,
                Ok(Ok(false)) => QueryAnswer::Failed,
                Ok(Err(error)) => QueryAnswer::Missing(Chain(&error).to_string()),
                Err(_) => QueryAnswer::Missing(format!(
                    "the server did not answer within {QUERY_TIMEOUT:?}"
                )),
            };
            match &result {
                QueryAnswer::Passed => {}
                QueryAnswer::Failed => {
                    tracing::info!(pool = name, query = query.name, "analysis is 0");
                }
                QueryAnswer::Missing(why) => tracing::warn!(
                    pool = name,
                    query = query.name,
                    error = why,
                    "analysis has no answer"
                ),
            }
            let result = (context.now(), result);
            cached.results.insert(query.query.clone(), result);
        }
    }
    let is_wanted = |query: &String| policy.analysis().iter().any(|it| it.query == *query);
    cached.results.retain(|query, _| is_wanted(query));
    if policy.needs_blocked_pods() {
        let now = context.now();
        let is_new = |(at, _): &(Timestamp, _)| now.duration_since(*at).abs() < COUNTED_FOR;
        if !cached.blocked_pods.as_ref().is_some_and(is_new) {
            let counted = count_blocked_pods(context.requests.access()).await?;
            cached.blocked_pods = Some((now, counted));
        }
    }
    let facts = &mut observed.pool.view.facts;
    facts.answers.clone_from(&cached.results);
    let counted = cached.blocked_pods.as_ref();
    facts.blocked_pods = counted
        .map(|(_, counts)| counts.clone())
        .unwrap_or_default();
    Ok(())
}

/// How many pods of each node no PodDisruptionBudget lets go now.
async fn count_blocked_pods(access: &Access) -> Result<BTreeMap<String, usize>, wire::Error> {
    let budgets = list::<PodDisruptionBudget, _>(access, Select::All, blocked).await?;
    let mut pods = BTreeSet::new();
    for blocked in budgets.into_iter().flatten() {
        let of = |pod: Pod| {
            let is_here = pod.metadata.namespace.as_deref() == Some(&blocked.namespace);
            let node = pod.spec.and_then(|spec| spec.node_name)?;
            let phase = pod.status.and_then(|status| status.phase);
            let has_ended = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
            let name = pod.metadata.name.unwrap_or_default();
            (is_here && !has_ended).then(|| (blocked.namespace.clone(), name, node))
        };
        let labels = Select::Labels(&blocked.labels);
        let found = list::<Pod, _>(access, labels, of).await?;
        pods.extend(found.into_iter().flatten());
    }
    let mut counts = BTreeMap::new();
    for (_, _, node) in pods {
        *counts.entry(node).or_default() += 1;
    }
    Ok(counts)
}

/// Pods that a PodDisruptionBudget keeps where they are.
struct BlockedPods {
    namespace: String,
    /// Their label selector; all pods of the namespace where it is empty.
    labels: String,
}

/// The pods that a budget lets none go of; none if it does.
fn blocked(budget: PodDisruptionBudget) -> Option<BlockedPods> {
    let status = budget.status?;
    let allows = status.disruptions_allowed.unwrap_or_default() > 0;
    if allows || status.expected_pods.unwrap_or_default() == 0 {
        return None;
    }
    let selector = budget.spec?.selector?;
    let equal = selector.match_labels.into_iter().flatten();
    let equal = equal.map(|(key, value)| format!("{key}={value}"));
    let other = selector.match_expressions.into_iter().flatten();
    let other = other.map(|other| {
        let (key, values) = (other.key, other.values.unwrap_or_default().join(","));
        match other.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key,
        }
    });
    let labels: Vec<String> = equal.chain(other).collect();
    Some(BlockedPods {
        namespace: budget.metadata.namespace.unwrap_or_default(),
        labels: labels.join(","),
    })
}
