//! Objects of a cluster, as far as the views read them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// An object as the API server has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct ClusterObject(pub(crate) Value);

/// A condition of an object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectCondition<'a> {
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    /// Since when it has this status.
    pub(crate) since: Option<Timestamp>,
}

impl ObjectCondition<'_> {
    pub(crate) fn is_true(&self) -> bool {
        self.status == "True"
    }
}

impl ClusterObject {
    /// The text at a JSON pointer; empty where there is none.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        text(&self.0, pointer)
    }

    /// The list at a JSON pointer; empty where there is none.
    pub(crate) fn list(&self, pointer: &str) -> &[Value] {
        self.0
            .pointer(pointer)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    pub(crate) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        let map = self
            .0
            .pointer("/metadata/annotations")
            .and_then(Value::as_object);
        let texts = map.into_iter().flatten();
        texts
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect()
    }

    pub(crate) fn annotation(&self, key: &str) -> &str {
        let annotations = self.0.pointer("/metadata/annotations");
        annotations
            .and_then(|all| all.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub(crate) fn condition(&self, kind: &str) -> Option<ObjectCondition<'_>> {
        condition(self.list("/status/conditions"), kind)
    }
}

/// The condition of a type in a list.
pub(crate) fn condition<'a>(conditions: &'a [Value], kind: &str) -> Option<ObjectCondition<'a>> {
    let found = conditions
        .iter()
        .find(|condition| text(condition, "/type") == kind)?;
    Some(ObjectCondition {
        status: text(found, "/status"),
        reason: text(found, "/reason"),
        message: text(found, "/message"),
        since: time(found, "/lastTransitionTime"),
    })
}

/// The text at a JSON pointer; empty where there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The time at a JSON pointer.
pub(crate) fn time(value: &Value, pointer: &str) -> Option<Timestamp> {
    text(value, pointer).parse().ok()
}
