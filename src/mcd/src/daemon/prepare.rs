//! Fetching and rehearsing, while the node works.

use std::time::Duration;

use chassis::backoff::Backoff;
use chassis::report::Chain;
use node_update::phase::Event;
use tokio::time::Instant;

use super::driver::EventSink;
use super::helper::{self, FETCH_LIMIT, Helper, Priority};
use super::planning::Stored;
use crate::protocol::{HelperOutcome, HelperReport, Verb, VerbName};

/// How long a verb that fails is tried again before the node counts as degraded: a registry or a
/// DNS server may be away for a while (`docs/reference/daemon.md`, "Retries").
const PATIENCE: Duration = Duration::from_mins(10);

/// First and longest wait between two tries.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Verbs that [`prepare`] may have left running when it was given up.
pub const VERBS: [VerbName; 2] = [VerbName::Fetch, VerbName::Rehearse];

/// Fetches the image of a stored plan, where it has one, and rehearses it. Answers `Prepared`,
/// `Rejected` or `Failed`, and says `StillTrying` in between.
pub async fn prepare(
    helper: &Helper,
    plan: &Stored,
    priority: Priority,
    events: &EventSink,
) -> Event {
    let object = object(plan);
    let is_limited = matches!(
        priority,
        Priority::Idle {
            bytes_per_second: Some(_)
        }
    );
    let fetch = plan.outline.image.clone().map(|image| Verb::Fetch {
        image,
        plan: Some(plan.directory.clone()),
        limit_file: is_limited.then(|| FETCH_LIMIT.to_owned()),
    });
    let rehearse = Verb::Rehearse {
        plan: plan.directory.clone(),
    };
    for verb in fetch.into_iter().chain([rehearse]) {
        let run = || helper.run(&verb, &plan.attempt, priority);
        if let Some(end) = persist(run, &object, events).await {
            return end;
        }
    }
    Event::Prepared
}

/// What the helper's words are about. It knows paths and images, and no configuration.
fn object(plan: &Stored) -> String {
    let config = &plan.to.config;
    let field = if plan.to.image.is_some() {
        // The layered image is the Node's.
        ", desiredImage"
    } else if plan.outline.image.is_some() {
        ", spec.osImageURL"
    } else {
        ""
    };
    format!("MachineConfig {config}{field}")
}

/// Runs until it is done, which answers nothing, or refused, or has failed for too long.
async fn persist<F>(mut run: impl FnMut() -> F, object: &str, events: &EventSink) -> Option<Event>
where
    F: Future<Output = Result<HelperReport, helper::Error>>,
{
    let began = Instant::now();
    let mut retry = Backoff::new(RETRY.0, RETRY.1);
    loop {
        let error = match run().await {
            Ok(report) => match report.outcome {
                HelperOutcome::Done | HelperOutcome::NeedsReboot => return None,
                HelperOutcome::Rejected => {
                    let reasons = report.reasons.iter();
                    let reasons = reasons.map(|reason| format!("{object}: {reason}"));
                    return Some(Event::Rejected(reasons.collect()));
                }
                HelperOutcome::Failed => report.because(),
            },
            Err(error) => Chain(&error).to_string(),
        };
        let error = format!("{object}: {error}");
        if began.elapsed() > PATIENCE {
            return Some(Event::Failed(error));
        }
        tracing::warn!(error, "cannot prepare the update yet");
        events.send(Event::StillTrying(error));
        tokio::time::sleep(retry.next_delay()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use node_update::phase::Outline;
    use node_update::plan::{Attempt, Route, Target};

    use super::*;

    fn report(outcome: HelperOutcome, reason: &str) -> HelperReport {
        HelperReport::new(outcome, vec![reason.to_owned()])
    }

    async fn end(mut reports: VecDeque<HelperReport>) -> (Option<Event>, usize) {
        let (events, mut received) = EventSink::channel();
        let last = reports.back().cloned().unwrap();
        let end = persist(
            || {
                let report = reports.pop_front().unwrap_or_else(|| last.clone());
                async { Ok(report) }
            },
            "MachineConfig new",
            &events,
        )
        .await;
        drop(events);
        let mut count = 0;
        while received.recv().await.is_some() {
            count += 1;
        }
        (end, count)
    }

    #[test]
    fn the_words_are_about_a_field_of_a_configuration() {
        let plan = |image: Option<&str>, layered: Option<&str>| Stored {
            attempt: Attempt("a".to_owned()),
            to: Target {
                config: "rendered-worker-2".to_owned(),
                image: layered.map(ToOwned::to_owned),
            },
            outline: Outline {
                route: Route::Reboot,
                drain: true,
                image: image.map(ToOwned::to_owned),
            },
            directory: String::new(),
            without_effect: Vec::new(),
            post_config_actions: Vec::new(),
            services: Vec::new(),
        };
        let of = |image, layered| object(&plan(image, layered));
        let config = "MachineConfig rendered-worker-2";
        assert_eq!(of(None, None), config);
        assert_eq!(of(Some("os"), None), format!("{config}, spec.osImageURL"));
        assert_eq!(
            of(Some("os"), Some("os")),
            format!("{config}, desiredImage")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_registry_that_comes_back_is_waited_for() {
        let away = report(HelperOutcome::Failed, "cannot reach the registry");
        let reports = [away.clone(), away, report(HelperOutcome::Done, "")];
        assert_eq!(end(reports.into()).await, (None, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_registry_that_stays_away_fails_after_more_than_five_minutes() {
        let began = Instant::now();
        let (end, count) = end([report(
            HelperOutcome::Failed,
            "manifest: connection refused",
        )]
        .into())
        .await;
        assert_eq!(
            end,
            Some(Event::Failed(
                "MachineConfig new: manifest: connection refused".to_owned()
            ))
        );
        assert!(began.elapsed() > Duration::from_mins(5) && count > 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_final_answer_is_reported_at_once() {
        let began = Instant::now();
        let reports = [report(HelperOutcome::Rejected, "manifest unknown")];
        let refused = Event::Rejected(vec!["MachineConfig new: manifest unknown".to_owned()]);
        assert_eq!(end(reports.into()).await, (Some(refused), 0));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
