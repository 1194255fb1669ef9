//! The status of a ClusterVersion, made from what the engine has come to: values in, values out.
//!
//! - `conditions`: its conditions

mod conditions;

use std::collections::BTreeSet;

use api::ConditionStatus;
use api::config::{
    CapabilitiesStatus, ClusterConditionType, ClusterVersion, ClusterVersionStatus, HistoryEntry,
    HistoryState, Release,
};
use jiff::Timestamp;
use release::graph::Ordering;
use release::inventory::Entry;
use release::pull_spec::is_same_image;

use self::conditions::Conditions;
use crate::failure;
use crate::history;
use crate::overrides::{self, Overridden};
use crate::release_state::ReleaseState;
use crate::report::Report;
use crate::retrieved_updates::RetrievedUpdates;
use crate::risk::{self, KnownUpdates, QueryCache};
use crate::stop;
use crate::upgradeable::{self, UpgradeInputs, UpgradeRisk};
use crate::validation::{WantedRelease, validate};

/// Conditions of earlier releases of OpenShift's version operator.
const OBSOLETE: [&str; 1] = ["ImplicitlyEnabled"];

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
    /// Which release is applied, and which one is requested.
    pub state: &'a ReleaseState,
    /// The release that this program belongs to.
    pub own: &'a Release,
    /// What speaks against updates to another minor release, as of [`upgradeable_risks`].
    pub upgradeable_risks: &'a [UpgradeRisk],
    /// What the update service advises; none before the first request.
    pub updates: Option<&'a RetrievedUpdates>,
    /// Results of queries about risks.
    pub queries: &'a QueryCache,
    /// The release's manifests; none before they were read.
    pub manifests: Option<&'a [Entry]>,
}

impl VersionFacts<'_> {
    /// Whether this process has no response of the update service yet, and the updates that the one
    /// before received stay.
    fn is_open(&self) -> bool {
        let is_open = |updates: &RetrievedUpdates| updates.found.is_none() && updates.keeps_status;
        self.updates.is_none_or(is_open)
    }
}

/// What speaks against updates to another minor release, while `report` is reported in `state`.
pub fn upgradeable_risks(
    object: &ClusterVersion,
    (report, state): (&Report, &ReleaseState),
    own: &Release,
    inputs: &UpgradeInputs,
    now: Timestamp,
) -> Vec<UpgradeRisk> {
    let own = state.release(own);
    let status = object.status.as_ref();
    let mut history = status.map_or_else(Vec::new, |status| status.history.clone());
    record(&mut history, (report, state), own, now);
    let mut spec = object.spec.clone();
    spec.overrides = overrides::in_force(object, now);
    let is_updating = !is_settled(&history, own);
    let deletions = &report.deletions;
    upgradeable::risks(inputs, &spec, &own.version, is_updating, deletions)
}

/// Takes over into the history how far a release is.
fn record(
    history: &mut Vec<HistoryEntry>,
    (report, state): (&Report, &ReleaseState),
    own: &Release,
    now: Timestamp,
) {
    let target = state.accepted();
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
    let VersionFacts {
        report, state, own, ..
    } = *facts;
    let mut status = object.status.clone().unwrap_or_default();
    let (faults, request) = validate(object, own);
    let own = state.release(own);
    let desired = std::mem::replace(&mut status.desired, own.clone());
    if facts.is_open() && (&desired.image, &desired.version) == (&own.image, &own.version) {
        describe(&mut status.desired, desired);
    }
    record(&mut status.history, (report, state), own, now);
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
    accept(&mut conditions, (report, state), own, &request);
    conditions.invalid(&faults);
    conditions.retrieved(facts.updates);
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
    conditions.stopped(stop::switch(object).as_ref());
    let accepted = risk::accepted(&object.spec);
    let generation = object.metadata.generation.unwrap_or_default();
    let before = object.status.as_ref();
    let is_of_spec = before.is_some_and(|before| before.observed_generation == generation);
    offer(&mut status, facts, (&accepted, is_of_spec), now);
    let mut conditions = Conditions {
        list: &mut status.conditions,
        now,
    };
    set_upgradeable(&mut conditions, object, facts);
    status
}

/// Whether nothing but the text of `Progressing` differs, as it does with each manifest.
pub fn differ_in_counts_only(one: &ClusterVersionStatus, other: &ClusterVersionStatus) -> bool {
    let without = |status: &ClusterVersionStatus| {
        let mut status = status.clone();
        for condition in &mut status.conditions {
            if condition.r#type == ClusterConditionType::Progressing {
                condition.message.clear();
            }
        }
        status
    };
    without(one) == without(other)
}

/// What keeps objects from the release, and the cluster from another minor release.
fn set_upgradeable(
    conditions: &mut Conditions<'_>,
    object: &ClusterVersion,
    facts: &VersionFacts<'_>,
) {
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
    match upgradeable::condition(facts.upgradeable_risks) {
        None => conditions.remove(&ClusterConditionType::Upgradeable),
        Some((reason, message)) => {
            let r#type = ClusterConditionType::Upgradeable;
            conditions.set(r#type, ConditionStatus::False, &reason, &message);
        }
    }
}

/// Puts in which updates are offered. What the process before received stays until this one has a
/// response, or sends another request.
fn offer(
    status: &mut ClusterVersionStatus,
    facts: &VersionFacts<'_>,
    (accepted, is_of_spec): (&BTreeSet<String>, bool),
    now: Timestamp,
) {
    let Some(updates) = facts.updates else {
        return;
    };
    if let Some((_, offers)) = &updates.found {
        let stored = KnownUpdates {
            conditional: &status.conditional_updates,
            is_current: is_of_spec,
        };
        let (available, conditional) = risk::updates(offers, facts.queries, stored, accepted, now);
        status.available_updates = Some(available);
        status.conditional_updates = conditional;
        let desired = &mut status.desired;
        if is_same_image(&offers.current.payload, &desired.image) {
            let offered = risk::release_of(&desired.version, &offers.current);
            describe(desired, offered);
        }
    } else if !updates.keeps_status {
        status.available_updates = None;
        status.conditional_updates = Vec::new();
    }
}

/// Takes over what the update service has of a release.
fn describe(release: &mut Release, offered: Release) {
    if !offered.url.is_empty() {
        release.url = offered.url;
    }
    if !offered.channels.is_empty() {
        release.channels = offered.channels;
    }
    if release.architecture.is_empty() {
        release.architecture = offered.architecture;
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
    (report, state): (&Report, &ReleaseState),
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
    let step = state.step();
    let step = step.filter(|step| other.is_some_and(|other| step.image == other.image));
    // Another release may be the way out of one that cannot be read.
    match (step, &report.unreadable) {
        (Some(step), _) => conditions.set(r#type, step.status, step.reason, &step.message),
        (None, Some(failure)) => {
            let why = &failure.message;
            let text = format!("Loading payload failed {} failure={why}", named(own));
            conditions.set(r#type, ConditionStatus::False, "LoadPayload", &text);
        }
        // It was not begun, and the message about another one stays.
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

/// Architecture of this program, as releases name it; empty where there is none for it.
pub const fn architecture() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "amd64"
    } else if cfg!(target_arch = "aarch64") {
        "arm64"
    } else if cfg!(target_arch = "s390x") {
        "s390x"
    } else if cfg!(all(target_arch = "powerpc64", target_endian = "little")) {
        "ppc64le"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests;
