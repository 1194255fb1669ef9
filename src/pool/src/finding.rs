//! What holds about a pool, before it has a time.

use api::ConditionStatus;
use api::machineconfiguration::machine_config_pool::{
    PoolCondition, PoolConditionReason, PoolConditionType,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What holds about one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    r#type: PoolConditionType,
    holds: bool,
    reason: PoolConditionReason,
    message: String,
}

impl Finding {
    /// It does not hold, and there is nothing to say.
    pub(crate) const fn no(r#type: PoolConditionType) -> Self {
        Self {
            r#type,
            holds: false,
            reason: PoolConditionReason::Unset,
            message: String::new(),
        }
    }

    /// It does not hold, and here is why.
    pub(crate) const fn not(r#type: PoolConditionType, message: String) -> Self {
        Self {
            r#type,
            holds: false,
            reason: PoolConditionReason::Unset,
            message,
        }
    }

    /// It does not hold any more, for this reason.
    pub(crate) const fn cleared(
        r#type: PoolConditionType,
        reason: PoolConditionReason,
        message: String,
    ) -> Self {
        Self {
            r#type,
            holds: false,
            reason,
            message,
        }
    }

    pub(crate) const fn yes(
        r#type: PoolConditionType,
        reason: PoolConditionReason,
        message: String,
    ) -> Self {
        Self {
            r#type,
            holds: true,
            reason,
            message,
        }
    }

    pub(crate) const fn holds(&self) -> bool {
        self.holds
    }

    pub(crate) const fn r#type(&self) -> &PoolConditionType {
        &self.r#type
    }

    /// The condition that says so, as found at `now`.
    pub(crate) fn at(self, now: Timestamp) -> PoolCondition {
        PoolCondition {
            r#type: self.r#type,
            status: ConditionStatus::from(self.holds),
            last_transition_time: Some(Time(now)),
            reason: self.reason,
            message: self.message,
        }
    }
}
