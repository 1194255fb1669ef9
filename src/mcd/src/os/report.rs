//! What a verb leaves for its caller: a report and an exit code.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use chassis::report::Chain;
use host::execute::End;
use host::files::{Content, Root};
use node_update::plan::Mode;
use serde::Serialize;

/// How a verb ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// All is done.
    Done,
    /// Something broke; another try may do better.
    Failed,
    /// Nothing was changed, and another try would end the same.
    Refused,
    /// A reboot completes it.
    NeedsReboot,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Done => 0,
            Outcome::Failed => 1,
            Outcome::Refused => 3,
            Outcome::NeedsReboot => 4,
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::NeedsReboot => "needs reboot",
        })
    }
}

/// What became of a verb. Shape: `{"outcome", "reasons", …}`, where the rest is the verb's own.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    pub(crate) reasons: Vec<String>,
    #[serde(flatten)]
    details: serde_json::Map<String, serde_json::Value>,
}

impl Report {
    pub(crate) fn done() -> Self {
        Self::new(Outcome::Done, Vec::new())
    }

    pub(crate) fn refused(reasons: Vec<String>) -> Self {
        Self::new(Outcome::Refused, reasons)
    }

    /// Broken, or refused where the cause says that nothing but another image or plan helps.
    pub(crate) fn of_failure(failure: &anyhow::Error) -> Self {
        let is_final = failure
            .chain()
            .filter_map(ostree_error)
            .any(host::ostree::Error::is_final);
        let outcome = if is_final {
            Outcome::Refused
        } else {
            Outcome::Failed
        };
        Self::new(outcome, vec![Chain(&**failure).to_string()])
    }

    pub(crate) fn failed(reasons: Vec<String>) -> Self {
        Self::new(Outcome::Failed, reasons)
    }

    /// Adds what the verb has to tell.
    pub(crate) fn with(mut self, details: &impl Serialize) -> anyhow::Result<Self> {
        let details = serde_json::to_value(details).context("cannot write the report")?;
        if let serde_json::Value::Object(details) = details {
            self.details.extend(details);
        }
        Ok(self)
    }

    /// Writes it whole or not at all.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut bytes = serde_json::to_vec(self).context("cannot write the report")?;
        bytes.push(b'\n');
        let path = path.to_str().context("the report's path is not UTF-8")?;
        let root = Root::open(Path::new("/"), None)?;
        let content = Content {
            bytes: &bytes,
            mode: Mode(0o600),
            uid: 0,
            gid: 0,
        };
        Ok(root.replace(&root.locate(path)?, content)?)
    }

    fn new(outcome: Outcome, reasons: Vec<String>) -> Self {
        Self {
            outcome,
            reasons,
            details: serde_json::Map::new(),
        }
    }
}

impl From<End> for Report {
    fn from(end: End) -> Self {
        match end {
            End::Done => Self::done(),
            End::NeedsReboot => Self::new(Outcome::NeedsReboot, Vec::new()),
            End::Refused(reasons) => Self::refused(reasons),
        }
    }
}

/// What libostree's part of the host says in this link of a chain; a transparent wrapper hides its inner error from the chain itself.
fn ostree_error<'a>(
    cause: &'a (dyn std::error::Error + 'static),
) -> Option<&'a host::ostree::Error> {
    if let Some(host::execute::Error::Sysroot(inner)) = cause.downcast_ref() {
        return inner.downcast_ref();
    }
    cause.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_one_object_with_the_verbs_own_fields() {
        let report = Report::done().with(&serde_json::json!({"image": "os", "fetched_bytes": 3}));
        let text = serde_json::to_string(&report.unwrap()).unwrap();
        assert_eq!(
            text,
            r#"{"outcome":"done","reasons":[],"image":"os","fetched_bytes":3}"#
        );
    }

    #[test]
    fn a_final_cause_is_a_refusal_wherever_it_is_in_the_chain() {
        let cause = host::ostree::Error::NotFetched {
            image: "os".to_owned(),
        };
        let failure = anyhow::Error::new(host::execute::Error::from(cause)).context("cannot apply");
        let report = Report::of_failure(&failure);
        assert_eq!(report.outcome, Outcome::Refused);
        assert_eq!(
            report.reasons,
            ["cannot apply: os is not on this host: it has not been fetched"]
        );
    }
}
