//! Events: what operators search for, recorded once each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chassis::report::Chain;
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::access::Access;
use crate::path;
use crate::wire::RequestBody;

/// How many events may wait to be sent; more are dropped, as they matter less than what they
/// report.
const QUEUE: usize = 25;

/// Attempts to send one event, and the wait between them.
const ATTEMPTS: u32 = 3;
const RETRY: Duration = Duration::from_secs(2);

/// The longest message the API takes is 1024 bytes; longer ones are cut.
const MESSAGE_CHARS: usize = 1000;

/// How an event is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// What was to happen.
    Normal,
    /// A person may have to look.
    Warning,
}

/// The object that events are about.
#[derive(Debug, Clone)]
pub struct EventSubject {
    /// Group and version, `v1` for the core.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Its uid; where unknown, the name: `kubectl describe` looks for both.
    pub uid: String,
}

/// Who speaks.
#[derive(Debug, Clone)]
pub struct Speaker {
    /// Component, for example `machineconfigdaemon`.
    pub component: String,
    /// Host, where it matters which; else empty.
    pub host: String,
    /// Namespace that the events are kept in.
    pub namespace: String,
}

/// Hands events to the task that sends them, so that no caller waits for one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Recorder {
    speaker: Arc<Speaker>,
    queue: mpsc::Sender<Message>,
    /// How many events were recorded. Several may be of one object at one time, and each needs a
    /// name.
    recorded: Arc<AtomicU32>,
}

#[derive(Debug)]
enum Message {
    Event(Value),
    Flush(oneshot::Sender<()>),
}

impl Recorder {
    /// Makes a recorder and the task that sends, to be spawned. The task ends when the last
    /// recorder is gone.
    pub fn new(
        access: Arc<Access>,
        speaker: Speaker,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (queue, messages) = mpsc::channel(QUEUE);
        let path = path::namespace::<Event>(&speaker.namespace);
        let recorder = Self {
            speaker: Arc::new(speaker),
            queue,
            recorded: Arc::default(),
        };
        (recorder, send_all(access, path, messages))
    }

    /// Says something about `subject`.
    ///
    /// Shape: `reason` is one word in camel case that operators search for; `message` is for people
    /// and cut to a kilobyte.
    pub fn say(
        &self,
        subject: &EventSubject,
        severity: Severity,
        reason: &str,
        message: &str,
        at: Timestamp,
    ) {
        let event = self.event(subject, severity, reason, message, at);
        if self.queue.try_send(Message::Event(event)).is_err() {
            tracing::warn!(reason, message, "event dropped: too many wait to be sent");
        }
    }

    /// Waits until the events so far are sent or given up.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        // An error means that the sending task has ended: there is nothing to wait for.
        if self.queue.send(Message::Flush(done)).await.is_ok() && flushed.await.is_err() {
            tracing::debug!("events task ended");
        }
    }

    /// Source: `Event` of the core group, as client-go's recorder fills it.
    /// `involvedObject.namespace` must be the event's own, also for cluster-scoped objects, unless
    /// that is `default`.
    fn event(
        &self,
        subject: &EventSubject,
        severity: Severity,
        reason: &str,
        message: &str,
        at: Timestamp,
    ) -> Value {
        let Speaker {
            component,
            host,
            namespace,
        } = self.speaker.as_ref();
        let moment = at.as_nanosecond() + i128::from(self.recorded.fetch_add(1, Ordering::Relaxed));
        let message: String = message.chars().take(MESSAGE_CHARS).collect();
        // Kubernetes keeps these two to the second.
        let time = Time(at);
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{}.{moment:x}", subject.name), "namespace": namespace},
            "involvedObject": {
                "apiVersion": subject.api_version,
                "kind": subject.kind,
                "name": subject.name,
                "namespace": namespace,
                "uid": subject.uid,
            },
            "type": match severity {
                Severity::Normal => "Normal",
                Severity::Warning => "Warning",
            },
            "reason": reason,
            "message": message,
            "source": {"component": component, "host": host},
            "reportingComponent": component,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        })
    }
}

async fn send_all(access: Arc<Access>, path: String, mut messages: mpsc::Receiver<Message>) {
    while let Some(message) = messages.recv().await {
        match message {
            Message::Event(event) => send(&access, &path, &event).await,
            // The caller may have stopped waiting.
            Message::Flush(done) => drop(done.send(())),
        }
    }
}

async fn send(access: &Access, path: &str, event: &Value) {
    for attempt in 1..=ATTEMPTS {
        let result = access
            .send::<IgnoredAny>(Method::POST, path, RequestBody::Object(event))
            .await;
        match result {
            Ok(_) => return,
            Err(error) if error.is_transient() && attempt < ATTEMPTS => {
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => {
                // An event is a courtesy: the annotations and the log hold the same.
                let reason = event
                    .get("reason")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                tracing::warn!(reason, error = %Chain(&error), "cannot send event");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};

    use super::*;

    fn subject() -> EventSubject {
        EventSubject {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: "n".to_owned(),
            uid: "u".to_owned(),
        }
    }

    fn expected(reply: Reply) -> Call {
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": "n.187a1ba9e0911d00", "namespace": "mco"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "n", "namespace": "mco", "uid": "u"},
            "type": "Warning", "reason": "FailedToDrain", "message": "no",
            "source": {"component": "machineconfigdaemon", "host": "n"},
            "reportingComponent": "machineconfigdaemon",
            "firstTimestamp": "2025-11-21T19:17:00Z", "lastTimestamp": "2025-11-21T19:17:00Z", "count": 1,
        });
        Call::post("/api/v1/namespaces/mco/events", event, reply)
    }

    fn speaker() -> Speaker {
        Speaker {
            component: "machineconfigdaemon".to_owned(),
            host: "n".to_owned(),
            namespace: "mco".to_owned(),
        }
    }

    async fn say(replies: Vec<Reply>) {
        let (script, client) = Script::start(replies.into_iter().map(expected).collect());
        let (recorder, sending) = Recorder::new(Arc::new(Access::of_client(client)), speaker());
        tokio::spawn(sending);
        let at = "2025-11-21T19:17:00.5Z".parse().unwrap();
        recorder.say(&subject(), Severity::Warning, "FailedToDrain", "no", at);
        script.drive(recorder.flush()).await;
    }

    #[tokio::test]
    async fn what_is_said_at_one_time_has_names_of_its_own() {
        let (_script, client) = Script::start(vec![]);
        let (recorder, _sending) = Recorder::new(Arc::new(Access::of_client(client)), speaker());
        let name = |message| {
            let at = "2025-11-21T19:17:00.5Z".parse().unwrap();
            let event = recorder.event(&subject(), Severity::Normal, "R", message, at);
            event["metadata"]["name"].clone()
        };
        assert_ne!(name("one"), name("other"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_one_request() {
        say(vec![Reply::created()]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_tried_again_and_a_refusal_is_not() {
        say(vec![Reply::Broken, Reply::failure(403, "Forbidden", "no")]).await;
    }
}
