//! Makes the reports of verbs, and writes them.

use std::path::Path;

use anyhow::Context as _;
use chassis::report::Chain;
use host::execute::End;
use host::files::{Content, Root};
use node_update::plan::{Mode, OwnerIds};

use crate::protocol::{HelperOutcome, HelperReport};

impl HelperReport {
    pub(crate) fn done() -> Self {
        Self::new(HelperOutcome::Done, Vec::new())
    }

    pub(crate) fn refused(reasons: Vec<String>) -> Self {
        Self::new(HelperOutcome::Rejected, reasons)
    }

    /// Broken, or refused where the cause says that nothing but another image or plan helps.
    pub(crate) fn of_failure(failure: &anyhow::Error) -> Self {
        let is_final = failure
            .chain()
            .filter_map(ostree_error)
            .any(host::ostree::Error::is_final);
        let outcome = if is_final {
            HelperOutcome::Rejected
        } else {
            HelperOutcome::Failed
        };
        Self::new(outcome, vec![Chain(&**failure).to_string()])
    }

    pub(crate) fn failed(reasons: Vec<String>) -> Self {
        Self::new(HelperOutcome::Failed, reasons)
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
            owner: OwnerIds::ROOT,
        };
        Ok(root.replace(&root.locate(path)?, content)?)
    }
}

impl From<End> for HelperReport {
    fn from(end: End) -> Self {
        match end {
            End::Done => Self::done(),
            End::NeedsReboot => Self::new(HelperOutcome::NeedsReboot, Vec::new()),
            End::Rejected(reasons) => Self::refused(reasons),
        }
    }
}

/// What libostree's part of the host says in this link of a chain; a transparent wrapper hides its
/// inner error from the chain itself.
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
    fn a_final_cause_is_a_refusal_wherever_it_is_in_the_chain() {
        let cause = host::ostree::Error::NotFetched {
            image: "os".to_owned(),
        };
        let failure = anyhow::Error::new(host::execute::Error::from(cause)).context("cannot apply");
        let report = HelperReport::of_failure(&failure);
        assert_eq!(report.outcome, HelperOutcome::Rejected);
        assert_eq!(
            report.reasons,
            ["cannot apply: os is not on this host: it has not been fetched"]
        );
    }
}
