//! The status of a ClusterVersion, made from what the engine has come to: values in, values out.

use std::collections::BTreeSet;

use api::ConditionStatus;
use api::condition;
use api::config::{
    CapabilitiesStatus, ClusterCondition, ClusterConditionType, ClusterVersion,
    ClusterVersionStatus, HistoryEntry, HistoryState, Release,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use release::graph::Ordering;
use release::inventory::Entry;
use release::pull_spec::is_same_image;

use crate::advice::Advice;
use crate::failure::{self, FailureVerdict, Summary};
use crate::history;
use crate::overrides::{self, Overridden};
use crate::report::Report;
use crate::risk::{self, KnownUpdates, QueryCache};
use crate::upgradeable::{self, UpgradeInputs, UpgradeRisk};
use crate::validation::{WantedRelease, validate};

/// Conditions of earlier releases of OpenShift's version operator.
const OBSOLETE: [&str; 1] = ["ImplicitlyEnabled"];

const INVALID: &str = "InvalidClusterVersion";

/// How the release is applied, by the history: the first one, another one, or the one that is
/// there.
pub fn ordering(status: &ClusterVersionStatus, own: &Release, attempt: u64) -> Ordering {
    let is_completed = |state: &HistoryState| *state == HistoryState::Completed;
    let mut entries = status.history.iter();
    if !entries.any(|entry| is_completed(&entry.state)) {
        return Ordering::Initializing;
    }
    match status.history.first() {
        Some(head) if is_completed(&head.state) && head.image == own.image => {
            Ordering::Reconciling { attempt }
        }
        _ => Ordering::Updating,
    }
}

/// What a status has of the release with this image, where its files cannot be read.
pub fn known_release(image: &str, status: Option<&ClusterVersionStatus>) -> Release {
    let bare = Release {
        image: image.to_owned(),
        ..Release::default()
    };
    let Some(status) = status else {
        return bare;
    };
    let desired = &status.desired;
    if desired.image == image && !desired.version.is_empty() {
        return desired.clone();
    }
    let mut history = status.history.iter();
    let entry = history.find(|entry| entry.image == image && !entry.version.is_empty());
    Release {
        version: entry.map_or_else(String::new, |entry| entry.version.clone()),
        ..bare
    }
}

/// What a status is made from.
#[derive(Debug, Clone, Copy)]
pub struct VersionFacts<'a> {
    /// What the engine has come to.
    pub report: &'a Report,
    /// The release that this program belongs to.
    pub own: &'a Release,
    /// What speaks against updates to another minor release, as of [`opposition`].
    pub opposition: &'a [UpgradeRisk],
    /// What the update service advises; none before it was asked.
    pub advice: Option<&'a Advice>,
    /// What is known of risks.
    pub queries: &'a QueryCache,
    /// The release's manifests; none before they were read.
    pub manifests: Option<&'a [Entry]>,
}

/// What speaks against updates to another minor release, while `report` is reported.
pub fn opposition(
    object: &ClusterVersion,
    report: &Report,
    own: &Release,
    inputs: &UpgradeInputs,
    now: Timestamp,
) -> Vec<UpgradeRisk> {
    let own = report.release(own);
    let status = object.status.as_ref();
    let mut history = status.map_or_else(Vec::new, |status| status.history.clone());
    record(&mut history, report, own, now);
    let mut spec = object.spec.clone();
    spec.overrides = overrides::in_force(object, now);
    let is_updating = !is_settled(&history, own);
    let deletions = &report.deletions;
    upgradeable::risks(inputs, &spec, &own.version, is_updating, deletions)
}

/// Takes over into the history how far a release is.
fn record(history: &mut Vec<HistoryEntry>, report: &Report, own: &Release, now: Timestamp) {
    let target = report.target.as_ref();
    history::merge(
        history,
        own,
        report.is_applied,
        target.is_some_and(|target| target.is_verified),
        target.map(|target| target.accepted_risks.as_str()),
        now,
    );
}

/// Whether a release was applied whole.
fn is_settled(history: &[HistoryEntry], own: &Release) -> bool {
    let head = history.first();
    head.is_some_and(|head| head.state == HistoryState::Completed && head.image == own.image)
}

/// The status that a ClusterVersion is to have.
///
/// Source: `docs/reference/cvo.md`, "Conditions" and "Waiting and failing".
pub fn next(
    object: &ClusterVersion,
    facts: &VersionFacts<'_>,
    now: Timestamp,
) -> ClusterVersionStatus {
    let VersionFacts { report, own, .. } = *facts;
    let mut status = object.status.clone().unwrap_or_default();
    let (faults, request) = validate(object, own);
    let own = report.release(own);
    status.desired = Release {
        channels: own.channels.clone(),
        ..own.clone()
    };
    record(&mut status.history, report, own, now);
    if let Some(accepted) = &report.accepted {
        status.observed_generation = accepted.generation;
        status.version_hash.clone_from(&accepted.version_hash);
        status.capabilities = CapabilitiesStatus {
            enabled_capabilities: accepted.capabilities.enabled.iter().cloned().collect(),
            known_capabilities: accepted.capabilities.known.iter().cloned().collect(),
        };
    }
    let mut conditions = Conditions {
        list: &mut status.conditions,
        now,
    };
    for name in OBSOLETE {
        conditions.remove(&ClusterConditionType::from(name.to_owned()));
    }
    accept(&mut conditions, report, own, &request);
    conditions.invalid(&faults);
    conditions.retrieved(facts.advice);
    if let Some(accepted) = &report.accepted {
        let implied: Vec<&str> = accepted
            .capabilities
            .implied
            .iter()
            .map(String::as_str)
            .collect();
        conditions.implied(&implied);
    }
    let shown = failure::aged(report.shown(), &report.pending, now);
    let shown = failure::summarize(&shown);
    let version = name_of(own);
    if report.is_applied {
        let text = format!("Done applying {version}");
        conditions.set(
            ClusterConditionType::Available,
            ConditionStatus::True,
            "",
            &text,
        );
    } else if conditions.find(&ClusterConditionType::Available).is_none() {
        conditions.set(
            ClusterConditionType::Available,
            ConditionStatus::False,
            "",
            "",
        );
    }
    let is_invalid = !faults.is_empty();
    let is_settled = is_settled(&status.history, own);
    let mut conditions = Conditions {
        list: &mut status.conditions,
        now,
    };
    if is_settled {
        conditions.reconciling(&version, report, shown.as_ref(), is_invalid);
    } else {
        let verdict = failure::judge(shown.as_ref(), &report.pending, now);
        conditions.updating(&version, report, &verdict, is_invalid);
    }
    let accepted = risk::accepted(&object.spec);
    let generation = object.metadata.generation.unwrap_or_default();
    let before = object.status.as_ref();
    let is_of_spec = before.is_some_and(|before| before.observed_generation == generation);
    offer(&mut status, facts, (&accepted, is_of_spec), now);
    let mut conditions = Conditions {
        list: &mut status.conditions,
        now,
    };
    oppose(&mut conditions, object, facts);
    status
}

/// What keeps objects from the release, and the cluster from another minor release.
fn oppose(conditions: &mut Conditions<'_>, object: &ClusterVersion, facts: &VersionFacts<'_>) {
    let now = conditions.now;
    let r#type = ClusterConditionType::from(overrides::CONDITION.to_owned());
    match overrides::condition(object, facts.manifests, now) {
        Overridden::No => conditions.remove(&r#type),
        // What the process before found stays.
        Overridden::NotKnown => {}
        Overridden::Found {
            status,
            reason,
            message,
        } => conditions.set(r#type, status, reason, &message),
    }
    match upgradeable::condition(facts.opposition) {
        None => conditions.remove(&ClusterConditionType::Upgradeable),
        Some((reason, message)) => {
            let r#type = ClusterConditionType::Upgradeable;
            conditions.set(r#type, ConditionStatus::False, &reason, &message);
        }
    }
}

/// Puts in which updates are offered. What the process before received stays until this one was
/// answered, or another question is asked.
fn offer(
    status: &mut ClusterVersionStatus,
    facts: &VersionFacts<'_>,
    (accepted, is_of_spec): (&BTreeSet<String>, bool),
    now: Timestamp,
) {
    let Some(advice) = facts.advice else {
        return;
    };
    if let Some((_, offers)) = &advice.found {
        let known = KnownUpdates {
            conditional: &status.conditional_updates,
            is_current: is_of_spec,
        };
        let (available, conditional) = risk::updates(offers, facts.queries, known, accepted, now);
        status.available_updates = Some(available);
        status.conditional_updates = conditional;
        let desired = &mut status.desired;
        if is_same_image(&offers.current.payload, &desired.image) {
            let known = risk::release_of(&desired.version, &offers.current);
            if !known.url.is_empty() {
                desired.url = known.url;
            }
            if !known.channels.is_empty() {
                desired.channels = known.channels;
            }
            if desired.architecture.is_empty() {
                desired.architecture = known.architecture;
            }
        }
    } else if !advice.keeps_status {
        status.available_updates = None;
        status.conditional_updates = Vec::new();
    }
}

/// Version of a release for people.
fn name_of(release: &Release) -> String {
    match (release.version.as_str(), release.image.as_str()) {
        ("", "") => "<unknown>".to_owned(),
        ("", image) => image.to_owned(),
        (version, _) => version.to_owned(),
    }
}

fn accept(
    conditions: &mut Conditions<'_>,
    report: &Report,
    own: &Release,
    request: &WantedRelease,
) {
    let named = |release: &Release| {
        let Release { version, image, .. } = release;
        format!("version={version:?} image={image:?}")
    };
    let r#type = ClusterConditionType::ReleaseAccepted;
    let other = match request {
        WantedRelease::Other(release) if release.image != own.image => Some(release),
        WantedRelease::Own | WantedRelease::Other(_) => None,
    };
    let step = report.step.as_ref();
    let step = step.filter(|step| other.is_some_and(|other| step.image == other.image));
    // Another release may be the way out of one that cannot be read.
    match (step, &report.unreadable) {
        (Some(step), _) => conditions.set(r#type, step.status, step.reason, &step.message),
        (None, Some(failure)) => {
            let why = &failure.message;
            let text = format!("Loading payload failed {} failure={why}", named(own));
            conditions.set(r#type, ConditionStatus::False, "LoadPayload", &text);
        }
        // It was not begun, and what was said of another one stays.
        (None, None) if other.is_some() => {}
        _ if report.accepted.is_some() => {
            let architecture = if own.architecture.is_empty() {
                architecture()
            } else {
                &own.architecture
            };
            let text = format!(
                "Payload loaded {} architecture={architecture:?}",
                named(own)
            );
            conditions.set(r#type, ConditionStatus::True, "PayloadLoaded", &text);
        }
        (None, None) => {}
    }
}

/// Architecture of this program, as releases name it.
pub(crate) const fn architecture() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "amd64"
    } else if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        std::env::consts::ARCH
    }
}

/// A list of conditions that is written at one time.
struct Conditions<'a> {
    list: &'a mut Vec<ClusterCondition>,
    now: Timestamp,
}

impl Conditions<'_> {
    fn find(&self, r#type: &ClusterConditionType) -> Option<&ClusterCondition> {
        condition::find(self.list, r#type)
    }

    fn remove(&mut self, r#type: &ClusterConditionType) {
        self.list.retain(|condition| condition.r#type != *r#type);
    }

    fn set(
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

    fn invalid(&mut self, faults: &[String]) {
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

    fn retrieved(&mut self, advice: Option<&Advice>) {
        let r#type = ClusterConditionType::RetrievedUpdates;
        match advice.map(|advice| advice.said(self.now)) {
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

    fn implied(&mut self, names: &[&str]) {
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
    fn reconciling(
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

    /// The release is on its way.
    fn updating(
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

#[cfg(test)]
mod tests;
