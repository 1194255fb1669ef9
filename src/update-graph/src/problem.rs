//! What of a source was left out, and why.

use std::fmt;

use serde::Serialize;

/// A part of a source that cannot be used as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SourceProblem {
    /// The file, image or release, such as `blocked-edges/4.14.1-Risk.yaml`.
    pub object: String,
    /// Path of the field; empty for the whole.
    pub field: String,
    /// What is wrong, and what became of it.
    pub reason: String,
    /// Whether only a rule of style is broken, and all of it counts: no reason to refuse a source.
    #[serde(rename = "remark", skip_serializing_if = "is_false")]
    pub is_remark: bool,
}

impl SourceProblem {
    /// A problem of this object and field.
    pub fn new(
        object: impl Into<String>,
        field: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            object: object.into(),
            field: field.into(),
            reason: reason.into(),
            is_remark: false,
        }
    }

    /// The same as a remark.
    pub(crate) fn into_remark(mut self) -> Self {
        self.is_remark = true;
        self
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl fmt::Display for SourceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.object)?;
        if !self.field.is_empty() {
            write!(f, "field {}: ", self.field)?;
        }
        f.write_str(&self.reason)
    }
}

/// The first of a list, and how many more there are.
pub(crate) fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

/// An error with its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        next = cause.source();
    }
    text
}
