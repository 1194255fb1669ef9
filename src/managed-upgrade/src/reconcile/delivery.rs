//! Announcements are sent as `CloudEvents`. A receiver that is away never holds an upgrade: what it
//! missed is sent until it is delivered.

use std::time::Duration;

use api::config::cluster_version;
use api::upgrade::{UpgradeConfig, UpgradeHistoryEntry};
use chassis::report::Chain;
use jiff::{SignedDuration, Timestamp};
use operator::Next;
use serde_json::json;

use super::planning::sooner;
use super::{Pass, UpgradeOperator};
use crate::monitoring::post_event;
use upgrade_plan::cloud_event::{EventOutbox, UNSENT, UnsentEvent};
use upgrade_plan::notice::NoticeState;
use upgrade_plan::series;

/// A delivery that failed is tried again after this time.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// So long all deliveries may take before an UpgradeConfig that is deleted goes.
const AT_THE_END: Duration = Duration::from_secs(20);

impl UpgradeOperator {
    /// Sends what is not delivered, oldest first.
    pub(super) async fn deliver(&self, pass: &mut Pass, next: Next) -> Next {
        let Some(url) = pass.config.cloud_events.clone() else {
            return next;
        };
        loop {
            let outbox = EventOutbox::of(&pass.upgrade);
            let Some(event) = outbox.first() else {
                return next;
            };
            let body = event.to_body(&pass.upgrade, &pass.version.spec.cluster_id);
            let labels = [("event", event.state.as_str())];
            if let Err(error) = post_event(&url, &body).await {
                let error = Chain(&error).to_string();
                self.metrics.set(series::NOTIFICATION_FAILED, &labels, 1.0);
                tracing::warn!(error, event = event.state, "cannot send a CloudEvent");
                return sooner(next, AGAIN);
            }
            self.metrics.set(series::NOTIFICATION_FAILED, &labels, 0.0);
            let rest = outbox.without_first().to_annotation();
            match self.requests.annotate(&json!({ UNSENT: rest })).await {
                Ok(written) => self.keep(&mut pass.upgrade, written),
                Err(error) => {
                    // It is sent again, with the same id.
                    let error = Chain(&error).to_string();
                    tracing::warn!(error, "cannot note that a CloudEvent was delivered");
                    return sooner(next, AGAIN);
                }
            }
        }
    }

    /// Sends what is not delivered of an UpgradeConfig that is being deleted, once: no record of it
    /// stays.
    pub(super) async fn deliver_last(
        &self,
        upgrade: &UpgradeConfig,
        withdrawn: &[&UpgradeHistoryEntry],
        now: Timestamp,
    ) {
        let config = self.config();
        let Some(url) = config.ok().and_then(|config| config.cloud_events) else {
            return;
        };
        let mut outbox = EventOutbox::of(upgrade);
        for entry in withdrawn {
            outbox = outbox.with(unsent(&entry.version, NoticeState::CleanedUp, "", now));
        }
        let version = self.caches.versions.get(cluster_version::NAME);
        let cluster = version.map(|version| version.spec.cluster_id.clone());
        let cluster = cluster.unwrap_or_default();
        let sending = async {
            while let Some(event) = outbox.first() {
                post_event(&url, &event.to_body(upgrade, &cluster)).await?;
                outbox = outbox.without_first();
            }
            Ok::<(), web::Error>(())
        };
        let error = match tokio::time::timeout(AT_THE_END, sending).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => Chain(&error).to_string(),
            Err(_) => "it takes too long".to_owned(),
        };
        tracing::warn!(error, "CloudEvents of a deleted UpgradeConfig are lost");
    }
}

/// An announcement that is to be sent.
pub(super) fn unsent(version: &str, state: NoticeState, why: &str, now: Timestamp) -> UnsentEvent {
    UnsentEvent {
        state: state.as_str().to_owned(),
        version: version.to_owned(),
        time: now,
        text: state.text(version, why),
    }
}
