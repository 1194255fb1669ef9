//! What holds up a drain, reported when it changes and not too often.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::PodName;

/// Between two reports: each may become a write to the Node.
const PACE: Duration = Duration::from_secs(10);

/// Pods that only use their grace period are worth a report after this time; most are gone before.
const GRACE: Duration = Duration::from_secs(30);

/// Pods named in a text; the rest is counted.
const NAMED: usize = 3;

/// A pod that may not leave yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    pub pod: PodName,
    /// The PodDisruptionBudget that protects it, where the API server named one.
    pub budget: Option<String>,
    /// When it was refused first.
    pub since: Instant,
    pub message: String,
}

/// What holds up a drain. Printed as one sentence for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Pods that may not leave yet.
    pub blocked: Vec<Blocked>,
    /// Pods that were evicted and have not terminated.
    pub terminating: Vec<PodName>,
    /// The API server is out of reach.
    pub trouble: Option<String>,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(trouble) = &self.trouble {
            return f.write_str(trouble);
        }
        if self.blocked.is_empty() {
            let names = self
                .terminating
                .iter()
                .map(|pod| format!("pod {pod} is terminating"));
            return list(f, names);
        }
        let sentences = self.blocked.iter().map(|blocked| match &blocked.budget {
            Some(budget) => format!(
                "pod {} is protected by PodDisruptionBudget {}/{budget}: {}",
                blocked.pod, blocked.pod.namespace, blocked.message
            ),
            None => format!("pod {} cannot be evicted: {}", blocked.pod, blocked.message),
        });
        list(f, sentences)
    }
}

fn list(
    f: &mut fmt::Formatter<'_>,
    mut sentences: impl ExactSizeIterator<Item = String>,
) -> fmt::Result {
    let more = sentences.len().saturating_sub(NAMED);
    for (position, sentence) in sentences.by_ref().take(NAMED).enumerate() {
        let separator = if position == 0 { "" } else { "; " };
        write!(f, "{separator}{sentence}")?;
    }
    if more > 0 {
        write!(f, "; and {more} more")?;
    }
    Ok(())
}

/// Decides when a [`Progress`] is worth a report.
#[derive(Debug)]
pub(super) struct ProgressReporter {
    began: Instant,
    reported: Option<(Instant, Progress)>,
}

impl ProgressReporter {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            reported: None,
        }
    }

    /// Calls `report` if the causes are others than those reported last and their time has come.
    pub(super) fn report(&mut self, progress: Progress, report: &mut impl FnMut(&Progress)) {
        let same = self
            .reported
            .as_ref()
            .is_some_and(|(_, reported)| reported.has_causes_of(&progress));
        if same || self.due(&progress).is_none_or(|due| due > Instant::now()) {
            return;
        }
        report(&progress);
        self.reported = Some((Instant::now(), progress));
    }

    /// When a change to `progress` may be reported; never for nothing.
    pub(super) fn due(&self, progress: &Progress) -> Option<Instant> {
        if let Some((at, _)) = &self.reported {
            return Some(*at + PACE);
        }
        if progress.trouble.is_some() || !progress.blocked.is_empty() {
            return Some(self.began);
        }
        (!progress.terminating.is_empty()).then(|| self.began + GRACE)
    }
}

impl Progress {
    /// Whether the same pods wait for the same budgets. The words of the API server count pods and
    /// change all the time.
    fn has_causes_of(&self, other: &Self) -> bool {
        let causes = |progress: &Self| -> Vec<(PodName, Option<String>)> {
            let blocked = progress.blocked.iter();
            blocked
                .map(|blocked| (blocked.pod.clone(), blocked.budget.clone()))
                .collect()
        };
        let leavers = |progress: &Self| {
            if progress.blocked.is_empty() {
                progress.terminating.clone()
            } else {
                Vec::new()
            }
        };
        self.trouble == other.trouble
            && causes(self) == causes(other)
            && leavers(self) == leavers(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(name: &str, budget: Option<&str>, message: &str) -> Blocked {
        Blocked {
            pod: pod(name),
            budget: budget.map(ToOwned::to_owned),
            since: Instant::now(),
            message: message.to_owned(),
        }
    }

    fn pod(name: &str) -> PodName {
        PodName {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        }
    }

    fn of(blocked: Vec<Blocked>) -> Progress {
        Progress {
            blocked,
            ..Progress::default()
        }
    }

    #[test]
    fn pod_and_budget_are_named() {
        let progress = of(vec![
            blocked("web-1", Some("web"), "needs 5 and has 5"),
            blocked("db-0", None, "try later"),
        ]);
        assert_eq!(
            progress.to_string(),
            "pod shop/web-1 is protected by PodDisruptionBudget shop/web: needs 5 and has 5; \
             pod shop/db-0 cannot be evicted: try later"
        );
    }

    #[test]
    fn many_pods_are_counted() {
        let progress = of((0..5)
            .map(|n| blocked(&format!("p{n}"), None, "no"))
            .collect());
        assert!(
            progress
                .to_string()
                .ends_with("pod shop/p2 cannot be evicted: no; and 2 more")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn causes_are_reported_once_and_changes_at_intervals() {
        let mut reported = Vec::new();
        let mut collect = |progress: &Progress| reported.push(progress.to_string());
        let mut pace = ProgressReporter::new();
        pace.report(of(vec![blocked("a", Some("x"), "has 4")]), &mut collect);
        pace.report(of(vec![blocked("a", Some("x"), "has 5")]), &mut collect);
        pace.report(of(vec![blocked("b", Some("x"), "has 5")]), &mut collect);
        tokio::time::advance(PACE).await;
        pace.report(of(vec![blocked("b", Some("x"), "has 5")]), &mut collect);
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert!(reported[1].starts_with("pod shop/b"), "{reported:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_grace_period_is_reported_only_when_it_is_long() {
        let mut reported = 0;
        let mut collect = |_: &Progress| reported += 1;
        let mut pace = ProgressReporter::new();
        let terminating = || Progress {
            terminating: vec![pod("a")],
            ..Progress::default()
        };
        pace.report(terminating(), &mut collect);
        tokio::time::advance(GRACE).await;
        pace.report(terminating(), &mut collect);
        assert_eq!(reported, 1);
    }
}
