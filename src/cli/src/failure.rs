//! The lines that report errors.

use std::fmt;

use chassis::report::Chain;

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All is well: exit code 0.
    Done,
    /// A person should read what was printed: exit code 5.
    NeedsAttention,
}

/// Options or arguments that contradict each other: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

impl Usage {
    /// Takes the text of an error, with its causes.
    pub(crate) fn of(error: impl std::error::Error) -> Self {
        Self(Chain(&error).to_string())
    }
}

/// Several errors, each reported on a line of its own.
#[derive(Debug)]
pub struct Several(Vec<anyhow::Error>);

impl Several {
    /// Takes errors with their context.
    pub(crate) fn new(errors: impl IntoIterator<Item = impl Into<anyhow::Error>>) -> Self {
        Self(errors.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Several {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} errors", self.0.len())
    }
}

impl std::error::Error for Several {}

/// A line for each error, with its causes.
pub fn lines(error: &anyhow::Error) -> Vec<String> {
    let line = |error: &anyhow::Error| Chain(error.as_ref()).to_string();
    match error.downcast_ref::<Several>() {
        Some(Several(errors)) => errors.iter().map(line).collect(),
        None => vec![line(error)],
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn each_error_has_a_line() {
        let one = || anyhow!("cause").context("what failed");
        assert_eq!(lines(&one()), ["what failed: cause"]);
        let several = Several::new([one(), anyhow!("other")]);
        assert_eq!(lines(&several.into()), ["what failed: cause", "other"]);
    }
}
