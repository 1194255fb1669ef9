//! What is announced of an upgrade, each state once.

use std::collections::BTreeSet;

/// Annotation of an UpgradeConfig: what was announced, as `<version>/<state>` with commas.
pub const ANNOTATION: &str = "slipway.dev/announced";

/// A state of an upgrade that is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeState {
    Started,
    /// It waits longer than usual before the cluster is changed.
    Delayed,
    /// A pod is deleted in spite of its budget, so that a drain ends: announced as
    /// [`Self::Delayed`].
    DrainForced,
    /// No machines were added, because there is no pool for them.
    ScaleSkipped,
    /// No machines were added in time.
    Skipped,
    Completed,
    /// It was given up before the cluster was changed.
    Failed,
    ControlPlaneStarted,
    /// The control plane is done.
    ControlPlaneFinished,
    WorkersFinished,
    /// Something is to be repaired before the start.
    PreHealthCheck,
    /// Something may delay it.
    HealthCheck,
    /// Its UpgradeConfig was deleted, and what was added is removed.
    CleanedUp,
}

impl NoticeState {
    /// Its name: reason of the event, and label of the metric.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "StateStarted",
            Self::Delayed | Self::DrainForced => "StateDelayed",
            Self::ScaleSkipped => "StateScaleSkipped",
            Self::Skipped => "StateSkipped",
            Self::Completed => "StateCompleted",
            Self::Failed => "StateFailed",
            Self::ControlPlaneStarted => "StateControlPlaneStartedSL",
            Self::ControlPlaneFinished => "StateControlPlaneFinishedSL",
            Self::WorkersFinished => "StateWorkerPlaneFinishedSL",
            Self::PreHealthCheck => "StatePreHealthCheckSL",
            Self::HealthCheck => "StateHealthCheckSL",
            Self::CleanedUp => "StateCleanedUp",
        }
    }

    /// Whether a person may have to act.
    pub const fn is_warning(self) -> bool {
        matches!(
            self,
            Self::Delayed
                | Self::DrainForced
                | Self::ScaleSkipped
                | Self::Skipped
                | Self::Failed
                | Self::PreHealthCheck
                | Self::HealthCheck
        )
    }

    /// Summary of the service log that is written of it; none for a state of a policy.
    pub const fn summary(self) -> Option<&'static str> {
        match self {
            Self::ControlPlaneStarted => {
                Some("Cluster is starting with control and worker plane upgrade")
            }
            Self::ControlPlaneFinished => Some("Cluster has finished control plane upgrade"),
            Self::WorkersFinished => Some("Cluster has finished with worker plane upgrade"),
            Self::PreHealthCheck => Some("Cluster has encountered pre-upgrade healthcheck failure"),
            Self::HealthCheck => Some("Cluster has encountered healthcheck failure during upgrade"),
            Self::Started
            | Self::Delayed
            | Self::DrainForced
            | Self::ScaleSkipped
            | Self::Skipped
            | Self::Completed
            | Self::Failed
            | Self::CleanedUp => None,
        }
    }

    /// Where a person reads more of a service log; empty for nowhere.
    pub const fn reference(self) -> &'static str {
        if matches!(self, Self::PreHealthCheck | Self::HealthCheck) {
            "https://access.redhat.com/solutions/7081505"
        } else {
            ""
        }
    }

    /// What is said. `why` is the cause where the state has one.
    pub fn text(self, version: &str, why: &str) -> String {
        match self {
            Self::Started => format!("The cluster is being upgraded to version {version}"),
            Self::Delayed => {
                format!("The upgrade to version {version} is delayed and will retry: {why}")
            }
            Self::DrainForced => format!("The upgrade to version {version} is delayed: {why}"),
            Self::ScaleSkipped => {
                format!("The upgrade to version {version} goes on without extra machines: {why}")
            }
            Self::Skipped => format!(
                "The upgrade to version {version} goes on without extra machines, which were not \
                 ready in time, for example by a quota or the network: {why}"
            ),
            Self::Completed => format!("The cluster was upgraded to version {version}"),
            Self::Failed => {
                format!("The upgrade to version {version} was cancelled: {why}")
            }
            Self::ControlPlaneStarted | Self::ControlPlaneFinished | Self::WorkersFinished => {
                self.summary().unwrap_or_default().to_owned()
            }
            Self::PreHealthCheck | Self::HealthCheck => {
                format!("{}: {why}", self.summary().unwrap_or_default())
            }
            Self::CleanedUp => format!(
                "The UpgradeConfig of version {version} was deleted; extra machines and silences \
                 are removed, and the version operator goes on with what it has begun"
            ),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Announced(BTreeSet<String>);

impl Announced {
    pub fn parse(text: &str) -> Self {
        let items = text.split(',').filter(|item| !item.is_empty());
        Self(items.map(ToOwned::to_owned).collect())
    }

    /// Whether it has this state.
    pub fn has(&self, version: &str, state: NoticeState) -> bool {
        self.0.contains(&key(version, state))
    }

    /// The same with this state too. States of other versions are forgotten.
    #[must_use]
    pub fn with(&self, version: &str, state: NoticeState) -> Self {
        let of_version = format!("{version}/");
        let kept = self.0.iter().filter(|item| item.starts_with(&of_version));
        Self(kept.cloned().chain([key(version, state)]).collect())
    }

    pub fn to_annotation(&self) -> String {
        let items: Vec<&str> = self.0.iter().map(String::as_str).collect();
        items.join(",")
    }
}

fn key(version: &str, state: NoticeState) -> String {
    format!("{version}/{}", state.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_states_of_one_version_are_kept() {
        let none = Announced::parse("");
        assert!(!none.has("4.16.4", NoticeState::Started));
        let one = none.with("4.16.4", NoticeState::Started);
        let two = one.with("4.16.4", NoticeState::Delayed);
        assert_eq!(
            two.to_annotation(),
            "4.16.4/StateDelayed,4.16.4/StateStarted"
        );
        assert_eq!(Announced::parse(&two.to_annotation()), two);
        assert!(two.has("4.16.4", NoticeState::Started));
        let next = two.with("4.16.5", NoticeState::Started);
        assert_eq!(next.to_annotation(), "4.16.5/StateStarted");
    }
}
