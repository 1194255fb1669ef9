//! What a rollout policy asks for beside the nodes: answers of the cluster's metrics, and pods that
//! may not be evicted.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::wire;
use jiff::{SignedDuration, Timestamp};
use pool::policy::{QueryAnswers, SeenDrains};
use web::prometheus::MetricsServer;

use crate::context::Context;
use crate::observed::Observed;

/// How long a count of pods counts.
const COUNTED_FOR: SignedDuration = SignedDuration::from_secs(30);

/// How long the server of metrics may take: the pool waits meanwhile.
const ANSWER: Duration = Duration::from_secs(20);

/// What was asked for a pool, and when. All of it can be lost.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    answers: QueryAnswers,
    blocked_pods: Option<(Timestamp, BTreeMap<String, usize>)>,
}

/// Notes which nodes of the pool are being drained: since when is this program's observation.
pub(crate) fn note_drains(drains: &mut SeenDrains, observed: &mut Observed, now: Timestamp) {
    let view = &observed.pool.view;
    let members = observed.members.values().map(AsRef::as_ref);
    drains.note(view.target.as_deref().unwrap_or_default(), members, now);
    observed.pool.view.facts.drains = drains.clone();
}

/// Asks what the pool's policy decides by, where a node waits and the last answer is too old. A
/// server of metrics that does not answer is an answer; the API server must.
pub(crate) async fn ask(
    context: &Context,
    server: &MetricsServer,
    asked: &mut Asked,
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
        if query.is_due(&asked.answers, context.now()) {
            let answer = server.sample(context.requests.access(), &query.query);
            let answer = tokio::time::timeout(ANSWER, answer).await;
            let answer = answer
                .unwrap_or_else(|_| Err(format!("the server did not answer within {ANSWER:?}")));
            match &answer {
                Ok(true) => {}
                Ok(false) => tracing::info!(pool = name, query = query.name, "analysis is 0"),
                Err(why) => tracing::warn!(
                    pool = name,
                    query = query.name,
                    error = why,
                    "analysis has no answer"
                ),
            }
            let answered = (context.now(), answer);
            asked.answers.insert(query.query.clone(), answered);
        }
    }
    let is_wanted = |query: &String| policy.analysis().iter().any(|it| it.query == *query);
    asked.answers.retain(|query, _| is_wanted(query));
    if policy.needs_blocked_pods() {
        let now = context.now();
        let is_new = |(at, _): &(Timestamp, _)| now.duration_since(*at).abs() < COUNTED_FOR;
        if !asked.blocked_pods.as_ref().is_some_and(is_new) {
            asked.blocked_pods = Some((now, context.requests.count_blocked_pods().await?));
        }
    }
    let facts = &mut observed.pool.view.facts;
    facts.answers.clone_from(&asked.answers);
    let counted = asked.blocked_pods.as_ref();
    facts.blocked_pods = counted
        .map(|(_, counts)| counts.clone())
        .unwrap_or_default();
    Ok(())
}
