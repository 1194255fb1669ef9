//! Server-side apply of any object, under a field manager.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use kube::core::Status;
use serde::Deserialize;
use serde_json::Value;

use crate::access::Access;
use crate::discovery::{self, Discovery, ServedKind};
use crate::list::{ObjectHead, Whole};
use crate::wire::{self, PlainObject, RequestBody, escape};

/// What happens to fields of the object that another manager owns with another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// They stay: nothing is written, and [`Error::Conflicts`] names them.
    Respect,
    /// They are set, and owned by us from then on.
    Take,
}

/// What an apply did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The object did not exist.
    Created,
    /// It has another version now.
    Changed,
    /// It has the version that it had before.
    Unchanged,
}

/// An object after an apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// What was done. A write of another client during the apply counts as a change.
    pub change: ApplyOutcome,
    /// The object as the API server has it.
    pub object: Value,
}

/// A field that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldConflict {
    /// Path of the field, such as `.spec.replicas`.
    pub field: String,
    /// Name of its field manager; empty where the API server names none.
    pub owner: String,
}

impl fmt::Display for FieldConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is owned by {:?}", self.field, self.owner)
    }
}

/// Why an object was not applied.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field is missing without which an object has no path.
    #[error("cannot apply {object}: it has no {field}")]
    Incomplete {
        /// Kind, namespace and name, as far as there are any.
        object: String,
        /// JSON path of the field.
        field: &'static str,
    },
    /// Its kind has no path.
    #[error("cannot apply {object}")]
    Discover {
        /// Kind, namespace and name.
        object: String,
        /// Why not.
        source: discovery::Error,
    },
    /// Other managers own fields of it.
    #[error("cannot apply {object}: {}", list(conflicts))]
    Conflicts {
        /// Kind, namespace and name.
        object: String,
        /// Each field and its owner; never empty.
        conflicts: Vec<FieldConflict>,
    },
    /// A request failed.
    #[error("cannot apply {object}")]
    Request {
        /// Kind, namespace and name.
        object: String,
        /// What came of it.
        source: wire::Error,
    },
}

impl Error {
    /// Whether the same apply may succeed later without a change of the object or of its owners. A
    /// kind that is not served yet is one: its definition may be on its way.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Discover { source, .. } => match source {
                discovery::Error::NotServed { .. } => true,
                discovery::Error::Read { source, .. } => source.is_transient(),
            },
            Self::Request { source, .. } => source.is_transient(),
            Self::Incomplete { .. } | Self::Conflicts { .. } => false,
        }
    }
}

/// Applies objects as one field manager.
#[derive(Debug)]
pub struct Applier {
    access: Arc<Access>,
    manager: String,
    is_strict: bool,
    /// Namespace of objects that name none.
    namespace: Option<String>,
    discovery: Discovery,
}

impl Applier {
    /// Applies as `manager`: the fields of the applied objects are its own.
    pub fn new(access: Arc<Access>, manager: &str) -> Self {
        Self {
            access,
            manager: manager.to_owned(),
            is_strict: false,
            namespace: None,
            discovery: Discovery::default(),
        }
    }

    /// Has objects refused that have a field which their kind has not. Without it the API server
    /// drops such a field.
    #[must_use]
    pub const fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// Applies objects that name no namespace, and whose kind has namespaces, in this one.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Makes the object's fields those of `object`, and removes the fields that this manager
    /// applied before and that are not in it any more.
    ///
    /// Sends two requests: the version before, and the patch.
    /// Shape: `object` has `apiVersion`, `kind`, `metadata.name`, and `metadata.namespace` where
    /// its kind has namespaces. A `metadata.resourceVersion` is a condition.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn apply(&self, object: &Value, ownership: Ownership) -> Result<Applied, Error> {
        let Place {
            what,
            api_version,
            path,
        } = self.place(object).await?;
        let sent = async {
            let before = self.version(&path).await?;
            let response = self.patch(&path, object, ownership).await?;
            Ok((before, response))
        };
        let (before, response): (_, Value) = sent.await.map_err(|source: wire::Error| {
            if source.is_not_found() {
                // Its kind is gone, or served under another path.
                self.discovery.forget(&api_version);
            }
            read(what, source)
        })?;
        let after = response.pointer("/metadata/resourceVersion");
        let change = match before {
            None => ApplyOutcome::Created,
            Some(before) if after.and_then(Value::as_str) == Some(&before) => {
                ApplyOutcome::Unchanged
            }
            Some(_) => ApplyOutcome::Changed,
        };
        Ok(Applied {
            change,
            object: response,
        })
    }

    /// Has the API server check such an apply and store nothing: says what it would do.
    ///
    /// Sends two requests: the object before, and the patch. Shape: as for [`Self::apply`].
    ///
    /// # Errors
    /// All of [`Error`]; what is refused now would be refused then.
    pub async fn rehearse(
        &self,
        object: &Value,
        ownership: Ownership,
    ) -> Result<ApplyOutcome, Error> {
        let place = self.place(object).await?;
        let sent = async {
            let before = self.access.find::<PlainObject>(&place.path).await?;
            let address = self.address(&place.path, ownership) + "&dryRun=All";
            let body = RequestBody::Apply(object);
            let response = self
                .access
                .send::<PlainObject>(Method::PATCH, &address, body);
            Ok((before, response.await?))
        };
        let (before, after) = sent.await.map_err(|source: wire::Error| {
            self.refused(place.what.clone(), Some(&place.api_version), source)
        })?;
        let before = before.map(|PlainObject(before)| content(before));
        Ok(match before {
            None => ApplyOutcome::Created,
            Some(before) if before == content(after.0) => ApplyOutcome::Unchanged,
            Some(_) => ApplyOutcome::Changed,
        })
    }

    /// What an object is called, and where it is.
    async fn place(&self, object: &Value) -> Result<Place, Error> {
        let what = describe(object);
        let text = |pointer: &'static str, field: &'static str| {
            let value = object.pointer(pointer).and_then(Value::as_str);
            let value = value.filter(|value| !value.is_empty());
            value.ok_or_else(|| Error::Incomplete {
                object: what.clone(),
                field,
            })
        };
        let api_version = text("/apiVersion", "apiVersion")?;
        let kind = text("/kind", "kind")?;
        let name = text("/metadata/name", "metadata.name")?;
        let served = self.discovery.find(&self.access, api_version, kind).await;
        let served = served.map_err(|source| Error::Discover {
            object: what.clone(),
            source,
        })?;
        let namespace = match (
            text("/metadata/namespace", "metadata.namespace"),
            &self.namespace,
        ) {
            (Ok(namespace), _) => namespace,
            (Err(_), Some(namespace)) => namespace,
            (Err(_), None) if !served.is_namespaced => "",
            (Err(error), None) => return Err(error),
        };
        let path = served.path(namespace, name);
        Ok(Place {
            api_version: api_version.to_owned(),
            path,
            what,
        })
    }

    /// Finds the path of a kind, by what the API server serves.
    ///
    /// # Errors
    /// [`Error::Discover`].
    pub async fn find(&self, api_version: &str, kind: &str) -> Result<ServedKind, Error> {
        let served = self.discovery.find(&self.access, api_version, kind).await;
        served.map_err(|source| Error::Discover {
            object: format!("{kind} of {api_version}"),
            source,
        })
    }

    /// Does the same at a given path, with one request: the caller knows the version before.
    ///
    /// # Errors
    /// [`Error::Conflicts`] and [`Error::Request`].
    pub async fn apply_at(
        &self,
        path: &str,
        object: &Value,
        ownership: Ownership,
    ) -> Result<Value, Error> {
        let response = self.patch(path, object, ownership).await;
        response.map_err(|source| {
            let api_version = object.get("apiVersion").and_then(Value::as_str);
            self.refused(describe(object), api_version, source)
        })
    }

    /// Does the same, and reads of the response only the metadata. The object is given up before it
    /// is sent: of many at once, each is held as a text, which takes a quarter of the memory.
    ///
    /// # Errors
    /// [`Error::Conflicts`] and [`Error::Request`].
    pub async fn apply_for_head(
        &self,
        path: &str,
        object: Value,
        ownership: Ownership,
    ) -> Result<ObjectHead, Error> {
        let what = describe(&object);
        let api_version = object.get("apiVersion").and_then(Value::as_str);
        let api_version = api_version.map(str::to_owned);
        let text = Bytes::from(object.to_string());
        drop(object);
        let path = self.address(path, ownership);
        let body = RequestBody::ApplyForHead(&text);
        match self.access.send::<Whole>(Method::PATCH, &path, body).await {
            Ok(response) => Ok(response.metadata),
            Err(source) => Err(self.refused(what, api_version.as_deref(), source)),
        }
    }

    /// What a refusal means for `object`. If it says that there is no such path, its kind is
    /// discovered again.
    fn refused(&self, object: String, api_version: Option<&str>, source: wire::Error) -> Error {
        if source.is_not_found()
            && let Some(api_version) = api_version
        {
            self.discovery.forget(api_version);
        }
        read(object, source)
    }

    /// The object's version; nothing where there is no object.
    async fn version(&self, path: &str) -> Result<Option<String>, wire::Error> {
        let head = self
            .access
            .send::<Head>(Method::GET, path, RequestBody::Metadata)
            .await;
        Ok(wire::found(head)?.map(|head| head.metadata.resource_version))
    }

    async fn patch(
        &self,
        path: &str,
        object: &Value,
        ownership: Ownership,
    ) -> Result<Value, wire::Error> {
        let path = self.address(path, ownership);
        let body = RequestBody::Apply(object);
        let response = self.access.send::<PlainObject>(Method::PATCH, &path, body);
        response.await.map(|PlainObject(object)| object)
    }

    /// Path and query of an apply.
    fn address(&self, path: &str, ownership: Ownership) -> String {
        let manager = escape(&self.manager);
        let force = match ownership {
            Ownership::Take => "&force=true",
            Ownership::Respect => "",
        };
        // By default the API server parses the object a second time, to warn of fields that it
        // drops. Nothing reads these warnings.
        let validation = if self.is_strict { "Strict" } else { "Ignore" };
        format!("{path}?fieldManager={manager}{force}&fieldValidation={validation}")
    }
}

/// An object's name for people, and where it is.
struct Place {
    what: String,
    api_version: String,
    path: String,
}

/// An object without what the API server keeps of its writes.
fn content(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
    }
    object
}

#[derive(Debug, Deserialize)]
struct Head {
    metadata: HeadMetadata,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMetadata {
    resource_version: String,
}

/// Kind, namespace and name for people, as far as there are any.
fn describe(object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").unwrap_or("an object without a kind");
    let name = text("/metadata/name").unwrap_or_default();
    match text("/metadata/namespace") {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}").trim_end().to_owned(),
    }
}

/// What a refusal means.
fn read(object: String, source: wire::Error) -> Error {
    if let wire::Error::Refused { status, .. } = &source {
        let conflicts = conflicts(status);
        if !conflicts.is_empty() {
            return Error::Conflicts { object, conflicts };
        }
    }
    Error::Request { object, source }
}

/// The fields that other managers own.
///
/// Source: causes of type `FieldManagerConflict`, whose message is `conflict with "<manager>" using
/// <version>`.
fn conflicts(status: &Status) -> Vec<FieldConflict> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| FieldConflict {
            field: cause.field.clone(),
            owner: cause
                .message
                .split('"')
                .nth(1)
                .unwrap_or_default()
                .to_owned(),
        })
        .collect()
}

fn list(conflicts: &[FieldConflict]) -> String {
    let each: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
    each.join(", ")
}

#[cfg(test)]
mod tests;
