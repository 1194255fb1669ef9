//! Whether another release is accepted in place of the applied one, and the messages about it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use api::ConditionStatus;
use api::config::Release;

use crate::precondition::{self, Finding};

const RETRIEVE: &str = "RetrievePayload";
const LOAD: &str = "LoadPayload";
const VERIFY_VERSION: &str = "VerifyPayloadVersion";
const PRECONDITIONS: &str = "PreconditionChecks";

/// A step on the way to another release, as `ReleaseAccepted` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptanceStep {
    /// Pull spec of the release.
    pub image: String,
    pub reason: &'static str,
    /// False if it failed, unknown while it is under way.
    pub status: ConditionStatus,
    /// What is done, or why it failed.
    pub message: String,
}

/// A release that was accepted in place of the own one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetRelease {
    pub release: Release,
    /// Whether its signature was verified.
    pub is_verified: bool,
    pub accepted_risks: String,
}

/// Something that happened on the way to another release, for an event of the ClusterVersion.
///
/// Source of reasons: OpenShift's version operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionEvent {
    /// A release is retrieved and verified.
    Retrieving(String),
    RetrievalFailed(String),
    /// It is taken though its signature is not verified.
    Unverified(String),
    Loading(String),
    /// They cannot be, or are wrong.
    LoadFailed(String),
    /// Its version differs from the requested one.
    VersionFailed(String),
    /// Preconditions speak against it.
    Blocked(String),
    /// They warn of it, and it is taken.
    Warned(String),
    /// None speaks against it.
    Passed(String),
    /// It is applied from now on.
    Accepted(String),
}

/// A release that is requested in place of the applied one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedRelease {
    /// The requested release: its image, and its version unless only the image was named.
    pub release: Release,
    /// Whether signatures and blocking preconditions are overridden.
    pub is_forced: bool,
    /// Generation of the ClusterVersion that asks for it.
    pub generation: Option<i64>,
    /// How far it came last; none before it was tried.
    pub step: Option<AcceptanceStep>,
    /// How often this request was refused.
    pub refusals: u32,
}

/// A release whose image is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrievedRelease {
    pub root: PathBuf,
    /// Whether its signature was verified.
    pub is_verified: bool,
    pub risk: Option<String>,
}

/// What a release is found to be once it is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkup {
    /// By its own files.
    pub found: Release,
    /// Preconditions that speak against it.
    pub findings: Vec<Finding>,
    /// The accepted risks that it is exposed to, in a sentence's end.
    pub exposed: Option<String>,
    /// Capabilities that the update to it turns on.
    pub implied: BTreeSet<String>,
}

/// Why a release is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    step: &'static str,
    message: String,
}

impl VersionEvent {
    /// The event of a step that failed.
    fn refused(refusal: &Refusal) -> Self {
        let text = refusal.message.clone();
        match refusal.step {
            RETRIEVE => Self::RetrievalFailed(text),
            VERIFY_VERSION => Self::VersionFailed(text),
            PRECONDITIONS => Self::Blocked(text),
            _ => Self::LoadFailed(text),
        }
    }
}

impl RequestedRelease {
    fn named(&self) -> String {
        let Release { version, image, .. } = &self.release;
        format!("version={version:?} image={image:?}")
    }

    fn at(self, reason: &'static str, status: ConditionStatus, message: String) -> Self {
        let step = AcceptanceStep {
            image: self.release.image.clone(),
            reason,
            status,
            message,
        };
        Self {
            step: Some(step),
            ..self
        }
    }

    pub(crate) fn tried(self) -> (Self, VersionEvent) {
        let text = format!("Retrieving and verifying payload {}", self.named());
        let event = VersionEvent::Retrieving(text.clone());
        (self.at(RETRIEVE, ConditionStatus::Unknown, text), event)
    }

    /// The event of its loading.
    pub(crate) fn loading(&self) -> VersionEvent {
        VersionEvent::Loading(format!("Loading payload {}", self.named()))
    }

    pub(crate) fn not_retrieved(&self, why: &str) -> Refusal {
        Refusal {
            step: RETRIEVE,
            message: format!("Retrieving payload failed {} failure={why}", self.named()),
        }
    }

    pub(crate) fn not_loaded(&self, why: &str) -> Refusal {
        Refusal {
            step: LOAD,
            message: format!("Loading payload failed {} failure={why}", self.named()),
        }
    }

    pub(crate) fn refused(self, refusal: Refusal) -> (Self, VersionEvent) {
        let event = VersionEvent::refused(&refusal);
        let this = Self {
            refusals: self.refusals.saturating_add(1),
            ..self
        };
        let Refusal { step, message } = refusal;
        (this.at(step, ConditionStatus::False, message), event)
    }

    /// Whether it is accepted: how, and the events of that.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn judge(
        &self,
        retrieved: &RetrievedRelease,
        checkup: &Checkup,
    ) -> Result<(TargetRelease, [VersionEvent; 2]), Refusal> {
        let Release { version, image, .. } = &self.release;
        let named = self.named();
        let found = &checkup.found;
        if !version.is_empty() && found.version != *version {
            return Err(Refusal {
                step: VERIFY_VERSION,
                message: format!(
                    "Verifying payload failed {named} failure=release image version {} does not \
                     match the expected upstream version {version}",
                    found.version
                ),
            });
        }
        let findings = &checkup.findings;
        let text = precondition::summary(findings, self.is_forced);
        if !self.is_forced && findings.iter().any(|finding| finding.is_blocking) {
            let why = text.unwrap_or_default();
            return Err(Refusal {
                step: PRECONDITIONS,
                message: format!("Preconditions failed for payload loaded {named}: {why}"),
            });
        }
        let checked = text.clone().map_or_else(
            || VersionEvent::Passed(format!("Preconditions passed for payload loaded {named}")),
            VersionEvent::Warned,
        );
        let overridden: Vec<String> = retrieved.risk.clone().into_iter().chain(text).collect();
        let overridden = overridden.join("\n");
        let accepted_risks = match (overridden.as_str(), &checkup.exposed) {
            (_, None) => overridden,
            ("", Some(exposed)) => format!("The target release {image} is {exposed}"),
            (_, Some(exposed)) => format!("{overridden}; It is {exposed}"),
        };
        let target = TargetRelease {
            release: found.clone(),
            is_verified: retrieved.is_verified,
            accepted_risks,
        };
        let accepted = VersionEvent::Accepted(format!("Payload loaded {named}"));
        Ok((target, [checked, accepted]))
    }
}
