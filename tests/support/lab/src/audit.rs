//! The observer's view of a run: the API server's audit log, read as typed events.
//!
//! - [`nodes`]: schedulability, readiness and annotations of nodes over time
//! - [`pods`]: evictions, and how many pods of a set were ready over time
//! - [`requests`]: what each user asked of the API server
//!
//! Everything but [`load`] is pure. Order among objects is that of their resource versions, which
//! etcd gives out one by one; times are only read where a response carries no object.

pub mod nodes;
pub mod pods;
pub mod requests;

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One request, or a stage of a long one.
///
/// Shape: the fields the observer needs. Units: times to the microsecond.
/// Source: `audit.k8s.io/v1` `Event`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The same for all stages of one request.
    #[serde(rename = "auditID")]
    pub audit_id: String,
    /// How far the request was.
    pub stage: Stage,
    /// The request.
    pub verb: Verb,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// The user of the request.
    pub user: User,
    /// Which program, as it says itself; empty if it does not.
    #[serde(default)]
    pub user_agent: String,
    /// From where: the client's address; behind proxies theirs, too.
    #[serde(default, rename = "sourceIPs")]
    pub sources: Vec<IpAddr>,
    /// Of what; none for paths that are no resource.
    #[serde(rename = "objectRef", skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// How it was answered; none before [`Stage::ResponseComplete`].
    #[serde(rename = "responseStatus", skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// When the request came.
    #[serde(rename = "requestReceivedTimestamp")]
    pub received: Timestamp,
    /// When this stage was reached. What is written was written between the two.
    #[serde(rename = "stageTimestamp")]
    pub at: Timestamp,
    /// Body of the request, where the policy keeps it.
    #[serde(rename = "requestObject", skip_serializing_if = "Option::is_none")]
    pub request: Option<Value>,
    /// Body of the response, where the policy keeps it: for a write, the object as stored.
    #[serde(rename = "responseObject", skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
}

/// How far a request was when the event was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Stage {
    /// Not answered yet. The lab's policy leaves it out.
    RequestReceived,
    /// Answered in part: a watch.
    ResponseStarted,
    /// Answered in full.
    ResponseComplete,
    /// The API server panicked.
    Panic,
}

/// The request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Read one.
    Get,
    /// Read many.
    List,
    /// Read changes.
    Watch,
    /// Make one.
    Create,
    /// Replace one.
    Update,
    /// Change one.
    Patch,
    /// Delete one.
    Delete,
    /// Delete many.
    DeleteCollection,
    /// Another, such as `post` to a path that is no resource.
    #[serde(untagged)]
    Other(String),
}

/// The user of the request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct User {
    /// Such as `system:node:worker-0`; empty before authentication.
    #[serde(default)]
    pub username: String,
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Plural, such as `nodes`.
    #[serde(default)]
    pub resource: String,
    /// Empty for the core group.
    #[serde(default)]
    pub api_group: String,
    /// Empty for what belongs to the cluster.
    #[serde(default)]
    pub namespace: String,
    /// Empty for lists, and for what the API server names.
    #[serde(default)]
    pub name: String,
    /// Such as `status`; empty for the object itself.
    #[serde(default)]
    pub subresource: String,
}

/// How a request was answered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Status {
    /// HTTP status code.
    #[serde(default)]
    pub code: u16,
    /// For people; empty on success.
    #[serde(default)]
    pub message: String,
}

impl Event {
    /// Whether the request was carried out, and completely answered.
    pub fn succeeded(&self) -> bool {
        self.stage == Stage::ResponseComplete
            && self
                .status
                .as_ref()
                .is_some_and(|status| (200..300).contains(&status.code))
    }

    /// Whether it is about this resource, or a subresource of it.
    pub fn concerns(&self, api_group: &str, resource: &str) -> bool {
        self.object
            .as_ref()
            .is_some_and(|object| object.api_group == api_group && object.resource == resource)
    }

    /// The object as a successful write left it, if the response is one of this kind.
    fn written(&self, kind: &str) -> Option<&Value> {
        let writes = match &self.verb {
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => true,
            Verb::Get | Verb::List | Verb::Watch | Verb::DeleteCollection | Verb::Other(_) => false,
        };
        let dry_run = self.uri.contains("dryRun=");
        self.response.as_ref().filter(|object| {
            writes && !dry_run && self.succeeded() && text(at(object, "/kind")) == kind
        })
    }
}

/// Place of a write in the order of all writes: `metadata.resourceVersion`, which in one etcd is
/// one count for all objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

impl Version {
    fn of(object: &Value) -> Option<Self> {
        text(at(object, "/metadata/resourceVersion"))
            .parse()
            .ok()
            .map(Self)
    }
}

/// Reads events from text of one JSON object a line, in the order written.
///
/// A last line without its end is left out: the API server is writing it.
///
/// # Errors
/// A line that is no event; with its number.
pub fn parse(text: &str) -> Result<Vec<Event>> {
    text.split_inclusive('\n')
        .enumerate()
        .filter(|(_, line)| line.ends_with('\n'))
        .map(|(index, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("line {} is no audit event", index + 1))
        })
        .collect()
}

/// Reads an audit log that may still be written to.
///
/// # Errors
/// Those of [`parse`], and the file cannot be read.
pub fn load(path: &Path) -> Result<Vec<Event>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("in {}", path.display()))
}

/// What is at a JSON pointer; null if there is nothing.
fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

/// Text of a JSON string, or empty.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether a condition of an object's status is `True`.
fn is_condition_true(object: &Value, name: &str) -> bool {
    let conditions = at(object, "/status/conditions").as_array();
    conditions.into_iter().flatten().any(|condition| {
        text(at(condition, "/type")) == name && text(at(condition, "/status")) == "True"
    })
}

#[cfg(test)]
mod tests;
