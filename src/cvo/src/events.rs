//! Events of the ClusterVersion: the steps to another release.

use api::config::{ClusterVersion, cluster_version};
use cluster::events::{EventSubject, Recorder, Severity};
use jiff::Timestamp;
use version_update::acceptance::VersionEvent;

/// Severity, reason and message.
fn parts(event: &VersionEvent) -> (Severity, &'static str, &str) {
    use Severity::{Normal, Warning};
    match event {
        VersionEvent::Retrieving(text) => (Normal, "RetrievePayload", text),
        VersionEvent::RetrievalFailed(text) => (Warning, "RetrievePayloadFailed", text),
        VersionEvent::Unverified(text) => (Warning, "RetrievePayload", text),
        VersionEvent::Loading(text) => (Normal, "LoadPayload", text),
        VersionEvent::LoadFailed(text) => (Warning, "LoadPayloadFailed", text),
        VersionEvent::VersionFailed(text) => (Warning, "VerifyPayloadVersionFailed", text),
        VersionEvent::Blocked(text) => (Warning, "PreconditionBlock", text),
        VersionEvent::Warned(text) => (Warning, "PreconditionWarn", text),
        VersionEvent::Passed(text) => (Normal, "PreconditionsPassed", text),
        VersionEvent::Accepted(text) => (Normal, "PayloadLoaded", text),
    }
}

/// Says it of the ClusterVersion.
pub fn say(event: &VersionEvent, recorder: &Recorder, object: &ClusterVersion, now: Timestamp) {
    let subject = EventSubject {
        api_version: "config.openshift.io/v1".to_owned(),
        kind: "ClusterVersion".to_owned(),
        name: cluster_version::NAME.to_owned(),
        uid: object.metadata.uid.clone().unwrap_or_default(),
    };
    let (severity, reason, message) = parts(event);
    tracing::info!(message_id = reason, message, "event");
    recorder.say(&subject, severity, reason, message, now);
}
