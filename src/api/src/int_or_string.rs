//! A number or a text, as `maxUnavailable` is written.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A JSON integer or string.
///
/// Shape: wider than the Kubernetes type of that name (32 bits), because the schema sets no bounds:
/// a number too large for it must not make the object, and with it the whole list, unreadable.
/// Source: `x-kubernetes-int-or-string`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    /// A text, such as `10%`.
    String(String),
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::String(text) => write!(f, "{text:?}"),
        }
    }
}

impl From<i64> for IntOrString {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl JsonSchema for IntOrString {
    fn schema_name() -> Cow<'static, str> {
        "IntOrString".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }
}

#[cfg(test)]
mod tests {
    use super::IntOrString;

    #[test]
    fn numbers_and_texts_come_back_as_written() {
        for json in ["0", "-1", "5000000000", "\"10%\"", "\"abc\"", "\"\""] {
            let value: IntOrString = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
        }
    }
}
