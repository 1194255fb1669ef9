//! Announcements as `CloudEvents`: those that are not delivered yet, and what is sent.

use api::upgrade::UpgradeConfig;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Annotation of an UpgradeConfig: announcements that are not delivered yet, as JSON.
pub const UNSENT: &str = "slipway.dev/unsent-cloud-events";

/// Content type of one event in structured mode.
pub const CONTENT_TYPE: &str = "application/cloudevents+json; charset=UTF-8";

/// An announcement that is not delivered yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsentEvent {
    pub state: String,
    /// Version that the upgrade leads to.
    pub version: String,
    pub time: Timestamp,
    pub text: String,
}

/// Announcements that are not delivered yet, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventOutbox(Vec<UnsentEvent>);

impl EventOutbox {
    /// Those of an UpgradeConfig. A text that is no list of them counts as none: each state was
    /// written to the log and as an event of Kubernetes, too.
    pub fn of(upgrade: &UpgradeConfig) -> Self {
        let annotations = upgrade.metadata.annotations.as_ref();
        let text = annotations.and_then(|all| all.get(UNSENT));
        let parsed = text.and_then(|text| serde_json::from_str(text).ok());
        Self(parsed.unwrap_or_default())
    }

    /// The one to send next.
    pub fn first(&self) -> Option<&UnsentEvent> {
        self.0.first()
    }

    /// The same with this one at the end.
    #[must_use]
    pub fn with(mut self, event: UnsentEvent) -> Self {
        self.0.push(event);
        self
    }

    /// The same without the first.
    #[must_use]
    pub fn without_first(&self) -> Self {
        Self(self.0.iter().skip(1).cloned().collect())
    }

    /// The annotation; null, which removes it, if there are none.
    pub fn to_annotation(&self) -> Value {
        if self.0.is_empty() {
            return Value::Null;
        }
        json!(serde_json::to_string(&self.0).unwrap_or_default())
    }
}

impl UnsentEvent {
    /// The body in structured mode. Its id is the same however often it is sent, so that a receiver
    /// knows a second delivery.
    ///
    /// Source: `CloudEvents` 1.0.2, JSON event format.
    pub fn to_body(&self, upgrade: &UpgradeConfig, cluster_id: &str) -> Value {
        let uid = upgrade.metadata.uid.as_deref().unwrap_or_default();
        json!({
            "specversion": "1.0",
            "id": format!("{uid}/{}/{}", self.version, self.state),
            "source": format!("/clusters/{cluster_id}/managed-upgrade"),
            "type": format!("dev.slipway.upgrade.{}", self.state),
            "subject": self.version,
            "time": self.time.to_string(),
            "datacontenttype": "application/json",
            "data": {
                "version": self.version,
                "state": self.state,
                "text": self.text,
                "upgradeAt": upgrade.spec.upgrade_at,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{START, spec};

    fn event(state: &str) -> UnsentEvent {
        UnsentEvent {
            state: state.to_owned(),
            version: "4.16.4".to_owned(),
            time: START,
            text: "t".to_owned(),
        }
    }

    fn upgrade(annotation: Value) -> UpgradeConfig {
        let mut upgrade = UpgradeConfig::new("a", spec());
        upgrade.metadata.uid = Some("u".to_owned());
        if let Value::String(text) = annotation {
            upgrade.metadata.annotations = Some([(UNSENT.to_owned(), text)].into());
        }
        upgrade
    }

    #[test]
    fn unsent_events_keep_their_order_until_each_is_sent() {
        let both = EventOutbox::default().with(event("A")).with(event("B"));
        let read = EventOutbox::of(&upgrade(both.to_annotation()));
        assert_eq!(read, both);
        assert_eq!(read.first(), Some(&event("A")));
        let last = read.without_first();
        assert_eq!(last.first(), Some(&event("B")));
        assert_eq!(last.without_first().to_annotation(), Value::Null);
        let broken = EventOutbox::of(&upgrade(json!("[")));
        assert_eq!(broken, EventOutbox::default());
    }

    #[test]
    fn body_is_a_structured_event_with_a_stable_id() {
        let body = event("StateStarted").to_body(&upgrade(Value::Null), "c");
        let expected = json!({
            "specversion": "1.0",
            "id": "u/4.16.4/StateStarted",
            "source": "/clusters/c/managed-upgrade",
            "type": "dev.slipway.upgrade.StateStarted",
            "subject": "4.16.4",
            "time": "2027-01-15T08:00:00Z",
            "datacontenttype": "application/json",
            "data": {
                "version": "4.16.4", "state": "StateStarted", "text": "t",
                "upgradeAt": "2027-01-15T08:00:00Z",
            },
        });
        assert_eq!(body, expected);
    }
}
