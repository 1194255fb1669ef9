//! The value of a field, or why the policy cannot be followed.

use api::IntOrString;
use jiff::SignedDuration;

use super::Amount;

/// Why a policy cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct InvalidPolicy {
    /// Path of the field.
    pub field: String,
    /// What is wrong with its value.
    pub why: String,
}

impl Amount {
    pub(super) fn parse(amount: &IntOrString) -> Result<Self, String> {
        match amount {
            IntOrString::Int(number) => usize::try_from(*number)
                .map(Self::Nodes)
                .map_err(|_| format!("{number} is not a number of nodes")),
            IntOrString::String(text) => {
                let percent = text.strip_suffix('%').and_then(|text| text.parse().ok());
                let percent = percent.filter(|percent| *percent <= 100);
                percent.map(Self::Percent).ok_or_else(|| {
                    format!("{text:?} is neither a number nor a percentage from \"0%\" to \"100%\"")
                })
            }
        }
    }
}

/// A duration as Kubernetes writes it.
pub(super) fn duration(text: &str) -> Result<SignedDuration, String> {
    let parsed: Option<SignedDuration> = text.parse().ok();
    parsed
        .filter(|duration| !duration.is_negative())
        .ok_or_else(|| format!("{text:?} is no duration such as 30m or 1h30m"))
}
