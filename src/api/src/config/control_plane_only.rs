//! An update of the control plane alone over two minor releases, as it stands on the
//! ClusterVersion: what it goes to, and which pools it paused.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Annotation of the ClusterVersion with a [`ControlPlaneOnlyRecord`] in JSON. It is there from
/// before the first pool is paused until the last one is rolled.
pub const CONTROL_PLANE_ONLY: &str = "slipway.dev/control-plane-only";

/// The form that is read and written.
const FORM: u32 = 1;

/// An update of the control plane alone.
///
/// Shape: JSON, such as `{"form": 1, "from": "4.16.30", "through": "4.17.20", "to": "4.18.9",
/// "pools": ["worker"], "by": "admin", "since": "2026-01-02T03:04:05Z"}`. It is intent: how far the
/// update is, is read from the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneOnlyRecord {
    /// Form of this document.
    form: u32,
    /// Version that ran at the start.
    pub from: String,
    /// Version of the minor release between.
    pub through: String,
    /// Version that it goes to.
    pub to: String,
    /// Pools that it pauses.
    pub pools: BTreeSet<String>,
    /// User who requested it; empty where the API server did not name one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// When that was.
    pub since: Timestamp,
}

/// Why an annotation is no record.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneOnlyError {
    /// It is not JSON, or a field is missing or of another type.
    #[error("annotation {CONTROL_PLANE_ONLY}: cannot read it")]
    Syntax(#[source] serde_json::Error),
    /// A later program wrote it.
    #[error("annotation {CONTROL_PLANE_ONLY}: form {0} is not {FORM}")]
    Form(u32),
    /// A field that must have a value is empty.
    #[error("annotation {CONTROL_PLANE_ONLY}: {0} is empty")]
    Empty(&'static str),
}

impl ControlPlaneOnlyRecord {
    /// An update over these three versions, requested at this time.
    pub fn new(
        [from, through, to]: [String; 3],
        pools: BTreeSet<String>,
        by: String,
        since: Timestamp,
    ) -> Self {
        Self {
            form: FORM,
            from,
            through,
            to,
            pools,
            by,
            since,
        }
    }

    /// Reads the value of the annotation. That no version is one is found by who compares them.
    ///
    /// # Errors
    /// [`ControlPlaneOnlyError`], which names the annotation.
    pub fn parse(text: &str) -> Result<Self, ControlPlaneOnlyError> {
        let record: Self = serde_json::from_str(text).map_err(ControlPlaneOnlyError::Syntax)?;
        if record.form != FORM {
            return Err(ControlPlaneOnlyError::Form(record.form));
        }
        let fields = [
            ("from", &record.from),
            ("through", &record.through),
            ("to", &record.to),
        ];
        if let Some((field, _)) = fields.iter().find(|(_, value)| value.is_empty()) {
            return Err(ControlPlaneOnlyError::Empty(field));
        }
        Ok(record)
    }

    /// The value of the annotation.
    pub fn to_annotation(&self) -> String {
        // Texts and numbers always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    fn record() -> ControlPlaneOnlyRecord {
        ControlPlaneOnlyRecord::new(
            ["4.16.30", "4.17.20", "4.18.9"].map(str::to_owned),
            ["worker".to_owned()].into(),
            "admin".to_owned(),
            "2026-01-02T03:04:05Z".parse().unwrap(),
        )
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let text = record().to_annotation();
        assert_eq!(
            text,
            r#"{"form":1,"from":"4.16.30","through":"4.17.20","to":"4.18.9","pools":["worker"],"by":"admin","since":"2026-01-02T03:04:05Z"}"#
        );
        assert_eq!(ControlPlaneOnlyRecord::parse(&text).unwrap(), record());
        // The API server did not name the user.
        let text = text.replace(r#""by":"admin","#, "");
        assert_eq!(ControlPlaneOnlyRecord::parse(&text).unwrap().by, "");
    }

    #[test]
    fn what_is_no_record_is_named() {
        let text = record().to_annotation();
        for (from, to, expected) in [
            (text.as_str(), "", "EOF while parsing"),
            ("}", "", "EOF while parsing"),
            (r#""form":1,"#, "", "missing field `form`"),
            (r#""form":1"#, r#""form":2"#, "form 2 is not 1"),
            (r#""form":1"#, r#""form":"1""#, "invalid type"),
            (
                r#""pools":["worker"]"#,
                r#""pools":"worker""#,
                "invalid type",
            ),
            (r#""pools":["worker"],"#, "", "missing field `pools`"),
            ("4.17.20", "", "through is empty"),
            ("4.18.9", "", "to is empty"),
            ("4.16.30", "", "from is empty"),
            ("2026-01-02T03:04:05Z", "yesterday", "failed to parse"),
        ] {
            let error = ControlPlaneOnlyRecord::parse(&text.replacen(from, to, 1)).unwrap_err();
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            let message = format!("{error}: {cause}");
            assert!(message.contains(expected), "{message}");
            assert!(
                message.starts_with("annotation slipway.dev/control-plane-only: "),
                "{message}"
            );
        }
    }
}
