//! The plan of an upgrade: its steps, when it may start, what its gates say, and when it ends.
//!
//! The managed upgrade operator keeps it in a ConfigMap of its namespace, because only that program
//! can ask its gates. Clients read it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Name of the ConfigMap, in [`super::NAMESPACE`].
pub const NAME: &str = "managed-upgrade-plan";

/// Key of the plan in it.
pub const KEY: &str = "plan.json";

/// Seconds after which a plan that waits is renewed at the latest.
pub const RENEWED_SECS: i64 = 600;

/// The plan of one UpgradeConfig.
///
/// Shape: JSON in [`KEY`], times in RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradePlan {
    /// `metadata.uid` of the UpgradeConfig.
    pub uid: String,
    /// When its gates were asked, or its steps read.
    pub evaluated: Timestamp,
    /// Version that it leads to.
    pub version: String,
    /// Phase of that version.
    pub phase: String,
    /// Why it is not followed; empty if it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refused: String,
    /// When it may start, or did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<PlanWindow>,
    /// Its steps, in their order.
    pub steps: Vec<PlanStep>,
    /// When it ends, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<PlanForecast>,
}

/// When an upgrade may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanWindow {
    /// When it opens.
    pub opens: Timestamp,
    /// After this time the upgrade is not started, or given up if the cluster was not changed; none
    /// for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closes: Option<Timestamp>,
    /// Name of the recurring window; empty where only the date counts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep {
    /// Its name in a custom list.
    pub name: String,
    /// Type of its condition.
    pub condition: String,
    /// `Gate`, `Action` or `Wait`.
    pub kind: String,
    /// What must hold for it to be done.
    pub waits_for: String,
    /// How far it is.
    pub state: PlanState,
    /// What it says, where it is not done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Names of hooks, each after its time: `before backup`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<String>,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanState {
    /// Its turn has not come, and nothing is known to hold it.
    Pending,
    /// Its turn has not come. Asked now, it would let the upgrade pass.
    Passes,
    /// Asked now, it holds the upgrade.
    Holds,
    /// It runs.
    Running,
    /// It is done.
    Done,
}

/// When an upgrade ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanForecast {
    /// As earlier updates of the cluster went; none where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Timestamp>,
    /// By the limits of its steps.
    pub latest: Timestamp,
    /// What both are made of, for people.
    pub basis: String,
}

impl UpgradePlan {
    /// Reads the ConfigMap's key.
    ///
    /// # Errors
    /// It is no plan; the message has line and field.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The text of the ConfigMap's key.
    pub fn print(&self) -> String {
        // Serializing a structure of texts, numbers and times to a string has nothing to fail at.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether both say the same but for the time: an end that is late moves with the clock.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let basis = |plan: &Self| {
            plan.forecast
                .as_ref()
                .map(|forecast| forecast.basis.clone())
        };
        let other = Self {
            evaluated: self.evaluated,
            forecast: self
                .forecast
                .clone()
                .filter(|_| basis(self) == basis(other)),
            ..other.clone()
        };
        *self == other
    }
}
