//! States of an upgrade are announced, each once: to the fleet manager, in the log and as events.

use api::upgrade::{UpgradeConfig, upgrade_config};
use cluster::events::{EventSubject, Severity};
use jiff::Timestamp;
use serde_json::json;

use super::delivery::unsent;
use super::errors::NoticeError;
use super::{Pass, UpgradeOperator};
use upgrade_plan::cloud_event::{EventOutbox, UNSENT};
use upgrade_plan::notice::{ANNOTATION, Announced, NoticeState};
use upgrade_plan::series;

impl UpgradeOperator {
    /// Announces a state, once.
    pub(super) async fn announce(
        &self,
        pass: &mut Pass,
        state: NoticeState,
        why: &str,
    ) -> Result<(), NoticeError> {
        if pass.is_announced(state) {
            return Ok(());
        }
        let version = pass.entry.version.clone();
        let annotations = pass.upgrade.metadata.annotations.as_ref();
        let announced = annotations.and_then(|all| all.get(ANNOTATION));
        let announced = Announced::parse(announced.map(String::as_str).unwrap_or_default());
        let name = state.as_str();
        let text = state.text(&version, why);
        if let Err(source) = self.tell_fleet(pass, state, &text).await {
            self.metrics
                .set(series::NOTIFICATION_FAILED, &[("event", name)], 1.0);
            return Err(NoticeError::Fleet { state, source });
        }
        self.say(&pass.upgrade, &version, state, why, pass.now);
        let announced = announced.with(&version, state).to_annotation();
        let annotations = if pass.config.cloud_events.is_some() {
            // With the same write: it is announced once, and sent until it is delivered.
            let outbox = EventOutbox::of(&pass.upgrade);
            let outbox = outbox.with(unsent(&version, state, why, pass.now));
            json!({ ANNOTATION: announced, UNSENT: outbox.to_annotation() })
        } else {
            json!({ ANNOTATION: announced })
        };
        match self.requests.annotate(&annotations).await {
            Ok(written) => {
                self.keep(&mut pass.upgrade, written);
                self.metrics
                    .set(series::NOTIFICATION_FAILED, &[("event", name)], 0.0);
                let labels = [("event", name), ("version", version.as_str())];
                self.metrics.set(series::NOTIFICATION, &labels, 1.0);
                Ok(())
            }
            Err(source) => {
                self.metrics
                    .set(series::NOTIFICATION_FAILED, &[("event", name)], 1.0);
                Err(NoticeError::Annotate { state, source })
            }
        }
    }

    /// Writes a state to the log and as an event.
    pub(super) fn say(
        &self,
        upgrade: &UpgradeConfig,
        version: &str,
        state: NoticeState,
        why: &str,
        now: Timestamp,
    ) {
        let name = state.as_str();
        let text = state.text(version, why);
        tracing::info!(version, "Upgrade-State: {name} Description: {text}");
        let severity = if state.is_warning() {
            Severity::Warning
        } else {
            Severity::Normal
        };
        self.record(upgrade, severity, name, &text, now);
    }

    /// Writes an event about the UpgradeConfig.
    pub(super) fn record(
        &self,
        upgrade: &UpgradeConfig,
        severity: Severity,
        reason: &'static str,
        text: &str,
        now: Timestamp,
    ) {
        let subject = EventSubject {
            api_version: "upgrade.managed.openshift.io/v1alpha1".to_owned(),
            kind: "UpgradeConfig".to_owned(),
            name: upgrade_config::NAME.to_owned(),
            uid: upgrade.metadata.uid.clone().unwrap_or_default(),
        };
        self.recorder.say(&subject, severity, reason, text, now);
    }
}
