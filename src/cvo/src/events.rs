//! What is said in events of the ClusterVersion: the steps to another release.

use api::config::{ClusterVersion, cluster_version};
use cluster::events::{EventSubject, Recorder, Severity};
use jiff::Timestamp;

/// Something that happened on the way to another release.
///
/// Source of reasons: OpenShift's version operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionEvent {
    /// A release is retrieved and verified.
    Retrieving(String),
    /// It cannot be.
    RetrievalFailed(String),
    /// It is taken though its signature is not verified.
    Unverified(String),
    /// Its files are read.
    Loading(String),
    /// They cannot be, or are wrong.
    LoadFailed(String),
    /// It is another version than was asked for.
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

impl VersionEvent {
    /// Severity, reason and message.
    fn said(&self) -> (Severity, &'static str, &str) {
        use Severity::{Normal, Warning};
        match self {
            Self::Retrieving(text) => (Normal, "RetrievePayload", text),
            Self::RetrievalFailed(text) => (Warning, "RetrievePayloadFailed", text),
            Self::Unverified(text) => (Warning, "RetrievePayload", text),
            Self::Loading(text) => (Normal, "LoadPayload", text),
            Self::LoadFailed(text) => (Warning, "LoadPayloadFailed", text),
            Self::VersionFailed(text) => (Warning, "VerifyPayloadVersionFailed", text),
            Self::Blocked(text) => (Warning, "PreconditionBlock", text),
            Self::Warned(text) => (Warning, "PreconditionWarn", text),
            Self::Passed(text) => (Normal, "PreconditionsPassed", text),
            Self::Accepted(text) => (Normal, "PayloadLoaded", text),
        }
    }

    /// The event of a step that failed, by its reason in `ReleaseAccepted`.
    pub fn refused(step: &str, message: &str) -> Self {
        let text = message.to_owned();
        match step {
            "RetrievePayload" => Self::RetrievalFailed(text),
            "VerifyPayloadVersion" => Self::VersionFailed(text),
            "PreconditionChecks" => Self::Blocked(text),
            _ => Self::LoadFailed(text),
        }
    }

    /// Says it of the ClusterVersion.
    pub fn say(&self, recorder: &Recorder, object: &ClusterVersion, now: Timestamp) {
        let subject = EventSubject {
            api_version: "config.openshift.io/v1".to_owned(),
            kind: "ClusterVersion".to_owned(),
            name: cluster_version::NAME.to_owned(),
            uid: object.metadata.uid.clone().unwrap_or_default(),
        };
        let (severity, reason, message) = self.said();
        tracing::info!(message_id = reason, message, "event");
        recorder.say(&subject, severity, reason, message, now);
    }
}
