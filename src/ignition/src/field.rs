//! Where in a configuration something is, and a message about it.

use std::fmt;

/// Something lost or advised against; the configuration is followed all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// JSON path, such as `storage.files[3].mode`.
    pub field: String,
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.text)
    }
}

/// Something that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// JSON path, such as `storage.files[3].mode`.
    pub field: String,
    /// Why, with the value where it is no secret.
    pub why: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
    }
}

/// All problems on one line.
pub(super) fn list(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("; ")
}
