//! Conditions that keep their time of transition.

use api::ConditionStatus;
use api::machineconfiguration::machine_config_pool::{
    PoolCondition, PoolConditionReason, PoolConditionType,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What holds about one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub r#type: PoolConditionType,
    /// Whether it holds.
    pub holds: bool,
    /// Why, for programs.
    pub reason: PoolConditionReason,
    /// Why, for people.
    pub message: String,
}

impl Finding {
    /// It does not hold, and there is nothing to say.
    pub const fn no(r#type: PoolConditionType) -> Self {
        Self {
            r#type,
            holds: false,
            reason: PoolConditionReason::Unset,
            message: String::new(),
        }
    }

    /// It does not hold, and here is why.
    pub const fn not(r#type: PoolConditionType, message: String) -> Self {
        Self {
            r#type,
            holds: false,
            reason: PoolConditionReason::Unset,
            message,
        }
    }

    /// It holds.
    pub const fn yes(
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
}

/// Puts a finding into the list. The time of transition moves only when the status does; other types keep their places.
pub fn set(conditions: &mut Vec<PoolCondition>, finding: Finding, now: Timestamp) {
    let status = ConditionStatus::from(finding.holds);
    let present = conditions
        .iter_mut()
        .find(|condition| condition.r#type == finding.r#type);
    match present {
        Some(condition) => {
            if condition.status != status {
                condition.status = status;
                condition.last_transition_time = Some(Time(now));
            }
            condition.reason = finding.reason;
            condition.message = finding.message;
        }
        None => conditions.push(PoolCondition {
            r#type: finding.r#type,
            status,
            last_transition_time: Some(Time(now)),
            reason: finding.reason,
            message: finding.message,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        let at = |second| Timestamp::from_second(second).unwrap();
        let time = |conditions: &[PoolCondition]| {
            conditions[0]
                .last_transition_time
                .as_ref()
                .map(|time| time.0)
        };
        let degraded = |message: &str| {
            Finding::yes(
                PoolConditionType::Degraded,
                PoolConditionReason::Unset,
                message.to_owned(),
            )
        };
        set(&mut conditions, degraded("a"), at(1));
        set(&mut conditions, degraded("b"), at(2));
        assert_eq!(
            (time(&conditions), conditions[0].message.as_str()),
            (Some(at(1)), "b")
        );
        set(
            &mut conditions,
            Finding::no(PoolConditionType::Degraded),
            at(3),
        );
        assert_eq!((time(&conditions), conditions.len()), (Some(at(3)), 1));
    }

    #[test]
    fn conditions_of_others_stay() {
        let other = PoolCondition {
            r#type: PoolConditionType::from("BuildPending".to_owned()),
            status: ConditionStatus::True,
            last_transition_time: None,
            reason: PoolConditionReason::from("Theirs".to_owned()),
            message: "m".to_owned(),
        };
        let mut conditions = vec![other.clone()];
        set(
            &mut conditions,
            Finding::no(PoolConditionType::Updated),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(conditions[0], other);
    }
}
