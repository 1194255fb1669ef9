//! Why nothing is built: an object, its field, and what is wrong there.

use std::fmt;

/// An input from which no image can be built.
///
/// Shape of its text: `MachineOSConfig worker: spec.containerFile[1].content: <why>`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {field}: {why}")]
pub struct BuildRefusal {
    /// Kind and name of the object.
    pub object: String,
    /// Path of the field.
    pub field: String,
    /// What is wrong with its value.
    pub why: String,
}

impl BuildRefusal {
    /// A refusal of a field of an object.
    pub fn new(object: &impl fmt::Display, field: &str, why: impl Into<String>) -> Self {
        Self {
            object: object.to_string(),
            field: field.to_owned(),
            why: why.into(),
        }
    }
}
