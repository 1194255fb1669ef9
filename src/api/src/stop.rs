//! The switch that stops: on a MachineConfigPool for its nodes, on ClusterVersion `version` for the
//! whole cluster.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::line::one_line;

/// Annotation of a MachineConfigPool and of ClusterVersion `version`; written by `slipway pool NAME
/// stop` and `slipway upgrade stop`: a [`StopRecord`] in JSON. While it is there, nothing new
/// begins; what has begun is finished.
pub const STOP: &str = "slipway.dev/stop";

/// Who set a switch, when and why.
///
/// Shape: JSON, `{"by": "alice", "since": "<RFC 3339>", "reason": "…"}`. Other fields are left to
/// later versions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StopRecord {
    /// Who set it: the user as the API server knows them, or as the kubeconfig names them.
    pub by: String,
    /// Since when.
    pub since: Timestamp,
    /// Why; empty if no reason was given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A switch that is set.
///
/// Shape: a value that cannot be read is set too. The person who wrote it wanted something stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StopSwitch {
    /// It says who set it.
    Set(StopRecord),
    /// It cannot be read.
    Unreadable {
        /// The value.
        text: String,
        /// What is wrong with it.
        fault: String,
    },
}

impl StopSwitch {
    /// Reads the annotations of an object; none where the switch is not set.
    pub fn read(annotations: Option<&BTreeMap<String, String>>) -> Option<Self> {
        let text = annotations?.get(STOP)?;
        Some(Self::parse(text))
    }

    /// Reads a value.
    pub fn parse(text: &str) -> Self {
        let fault = match serde_json::from_str::<StopRecord>(text) {
            Ok(record) if record.by.trim().is_empty() => "field `by` is empty".to_owned(),
            Ok(record) => return Self::Set(record),
            Err(error) => error.to_string(),
        };
        let text = text.to_owned();
        Self::Unreadable { text, fault }
    }
}

impl StopRecord {
    /// The value of the annotation.
    pub fn to_annotation(&self) -> String {
        // Texts and a time always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Who stopped it, since when and why, to follow "is stopped".
impl fmt::Display for StopSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(StopRecord { by, since, reason }) => {
                write!(f, "by {} since {since}", one_line(by))?;
                match one_line(reason).as_str() {
                    "" => f.write_str(", without a reason"),
                    reason => write!(f, ": {reason}"),
                }
            }
            Self::Unreadable { text, fault } => {
                let text = one_line(text);
                write!(f, "by annotation {STOP}, which cannot be read: ")?;
                write!(f, "{}: {text:?}", one_line(fault))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: &str = "2026-11-30T07:15:00Z";

    #[test]
    fn what_is_written_is_read_and_said() {
        for (reason, said) in [
            ("kernel bug", ": kernel bug"),
            ("two\nlines", ": two lines"),
            ("", ", without a reason"),
            (" ", ", without a reason"),
        ] {
            let record = StopRecord {
                by: "alice".to_owned(),
                since: SINCE.parse().unwrap(),
                reason: reason.to_owned(),
            };
            let annotations = BTreeMap::from([(STOP.to_owned(), record.to_annotation())]);
            let read = StopSwitch::read(Some(&annotations)).unwrap();
            assert_eq!(read, StopSwitch::Set(record));
            assert_eq!(read.to_string(), format!("by alice since {SINCE}{said}"));
        }
    }

    #[test]
    fn without_the_annotation_nothing_is_stopped() {
        let others = BTreeMap::from([("slipway.dev/prefetch".to_owned(), "true".to_owned())]);
        for annotations in [None, Some(&BTreeMap::new()), Some(&others)] {
            assert_eq!(StopSwitch::read(annotations), None);
        }
    }

    #[test]
    fn a_field_of_a_later_version_is_passed_over() {
        let text = format!(r#"{{"by":"a","since":"{SINCE}","until":"2026-12-01T00:00:00Z"}}"#);
        assert!(matches!(StopSwitch::parse(&text), StopSwitch::Set(_)));
    }

    #[test]
    fn a_value_that_cannot_be_read_stops_and_names_its_fault() {
        for (text, fault) in [
            ("", "EOF while parsing"),
            ("true", "invalid type: boolean"),
            ("because of\nthe kernel", "expected value"),
            ("[]", "invalid length 0"),
            ("{}", "missing field `by`"),
            (r#"{"by":"a"}"#, "missing field `since`"),
            (r#"{"by":7,"since":"2026-11-30T07:15:00Z"}"#, "integer `7`"),
            (r#"{"by":"a","since":"yesterday"}"#, "yesterday"),
            (
                r#"{"by":" ","since":"2026-11-30T07:15:00Z"}"#,
                "field `by` is empty",
            ),
            (
                r#"{"by":"a","since":"2026-11-30T07:15:00Z","reason":[]}"#,
                "expected a string",
            ),
        ] {
            let annotations = BTreeMap::from([(STOP.to_owned(), text.to_owned())]);
            let said = StopSwitch::read(Some(&annotations)).unwrap().to_string();
            assert!(
                said.starts_with("by annotation slipway.dev/stop, which cannot be read: "),
                "{said}"
            );
            assert!(said.contains(fault), "{text}: {said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
