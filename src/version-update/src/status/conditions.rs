//! The conditions of a ClusterVersion, one after the other.

use api::ConditionStatus;
use api::condition;
use api::config::{ClusterCondition, ClusterConditionType};
use api::stop::StopSwitch;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::failure::{FailureVerdict, Summary};
use crate::report::Report;
use crate::retrieved_updates::RetrievedUpdates;
use crate::stop;

const INVALID: &str = "InvalidClusterVersion";

/// What comes between what is said of the release, and who stopped the cluster.
const STOPPED: &str = "; the cluster is stopped ";

/// A list of conditions that is written at one time.
pub(super) struct Conditions<'a> {
    pub(super) list: &'a mut Vec<ClusterCondition>,
    pub(super) now: Timestamp,
}

impl Conditions<'_> {
    pub(super) fn find(&self, r#type: &ClusterConditionType) -> Option<&ClusterCondition> {
        condition::find(self.list, r#type)
    }

    pub(super) fn remove(&mut self, r#type: &ClusterConditionType) {
        self.list.retain(|condition| condition.r#type != *r#type);
    }

    pub(super) fn set(
        &mut self,
        r#type: ClusterConditionType,
        status: ConditionStatus,
        reason: &str,
        message: &str,
    ) {
        let condition = ClusterCondition {
            r#type,
            status,
            last_transition_time: Time(self.now),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        condition::set(self.list, condition);
    }

    pub(super) fn invalid(&mut self, faults: &[String]) {
        let text = match faults {
            [] => return self.remove(&ClusterConditionType::Invalid),
            [one] => format!("The cluster version is invalid: {one}"),
            _ => format!(
                "The cluster version is invalid:\n* {}\n",
                faults.join("\n* ")
            ),
        };
        self.set(
            ClusterConditionType::Invalid,
            ConditionStatus::True,
            INVALID,
            &text,
        );
    }

    pub(super) fn retrieved(&mut self, updates: Option<&RetrievedUpdates>) {
        let r#type = ClusterConditionType::RetrievedUpdates;
        match updates.map(|updates| updates.message(self.now)) {
            Some(None) => self.set(r#type, ConditionStatus::True, "", ""),
            Some(Some((reason, message))) => {
                self.set(r#type, ConditionStatus::False, reason, &message);
            }
            None if self.find(&r#type).is_none() => {
                self.set(r#type, ConditionStatus::False, "", "");
            }
            None => {}
        }
    }

    pub(super) fn implied(&mut self, names: &[&str]) {
        let r#type = ClusterConditionType::ImplicitlyEnabledCapabilities;
        if names.is_empty() {
            let text = "Capabilities match configured spec";
            self.set(r#type, ConditionStatus::False, "AsExpected", text);
        } else {
            let names = names.join(", ");
            let text = format!("The following capabilities could not be disabled: {names}");
            self.set(
                r#type,
                ConditionStatus::True,
                "CapabilitiesImplicitlyEnabled",
                &text,
            );
        }
    }

    /// The release is there: each failure counts at once.
    pub(super) fn reconciling(
        &mut self,
        version: &str,
        report: &Report,
        shown: Option<&Summary>,
        is_invalid: bool,
    ) {
        let (failing, progressing) = (
            ClusterConditionType::Failing,
            ClusterConditionType::Progressing,
        );
        let Some(shown) = shown else {
            let failed = self.find(&failing);
            let has_failed = failed.is_some_and(|one| one.status != ConditionStatus::False);
            if has_failed && !report.is_applied {
                // What the process before found stays until a pass has shown that it is gone.
                return;
            }
            self.set(failing, ConditionStatus::False, "", "");
            let (reason, text) = if is_invalid {
                let text = format!("Stopped at {version}: the cluster version is invalid");
                (INVALID, text)
            } else {
                ("", format!("Cluster version is {version}"))
            };
            self.set(progressing, ConditionStatus::False, reason, &text);
            return;
        };
        self.set(
            failing,
            ConditionStatus::True,
            &shown.reason,
            &shown.message,
        );
        let text = format!("Error while reconciling {version}: {}", shown.summary);
        self.set(progressing, ConditionStatus::False, &shown.reason, &text);
    }

    /// Who stopped the cluster, after what is said of the release; a failure keeps its reason. The
    /// message may be one that was written while it was, or was not.
    pub(super) fn stopped(&mut self, switch: Option<&StopSwitch>) {
        let progressing = ClusterConditionType::Progressing;
        let Some(condition) = self.find(&progressing).cloned() else {
            return;
        };
        let said = condition.message.split_once(STOPPED);
        let message = said.map_or(condition.message.as_str(), |(message, _)| message);
        let reason = Some(condition.reason.as_str()).filter(|reason| *reason != stop::REASON);
        let reason = reason.unwrap_or_default();
        let (reason, message) = match (switch, reason) {
            (None, _) => (reason, message.to_owned()),
            (Some(switch), "") => (stop::REASON, format!("{message}{STOPPED}{switch}")),
            (Some(switch), _) => (reason, format!("{message}{STOPPED}{switch}")),
        };
        self.set(progressing, condition.status, reason, &message);
    }

    /// The release is on its way.
    pub(super) fn updating(
        &mut self,
        version: &str,
        report: &Report,
        verdict: &FailureVerdict,
        is_invalid: bool,
    ) {
        let progressing = ClusterConditionType::Progressing;
        let set_failing = |conditions: &mut Self, status, reason: &str, message: &str| {
            conditions.set(ClusterConditionType::Failing, status, reason, message);
        };
        if let Some((reason, message)) = &verdict.failing {
            set_failing(self, ConditionStatus::True, reason, message);
            let text = format!("Unable to apply {version}: {}", verdict.summary);
            self.set(progressing, ConditionStatus::True, reason, &text);
            return;
        }
        match &verdict.slow {
            Some((reason, text)) => set_failing(self, ConditionStatus::Unknown, reason, text),
            None => set_failing(self, ConditionStatus::False, "", ""),
        }
        if is_invalid {
            let text = format!("Reconciling {version}: the cluster version is invalid");
            self.set(progressing, ConditionStatus::True, INVALID, &text);
            return;
        }
        let checkpoint = &report.checkpoint;
        let mut text = format!("Working towards {version}");
        if checkpoint.done > 0 {
            text = format!(
                "{text}: {} of {} done ({}% complete)",
                checkpoint.done,
                checkpoint.total,
                checkpoint.percent()
            );
            if report.is_resuming() {
                text = format!("{text}, resuming after a restart");
            }
        }
        let mut why = "";
        if let Some((reason, waiting)) = &verdict.waiting {
            let separator = if checkpoint.done > 0 { "," } else { ":" };
            text = format!("{text}{separator} {waiting}");
            why = reason;
        }
        self.set(progressing, ConditionStatus::True, why, &text);
    }
}
