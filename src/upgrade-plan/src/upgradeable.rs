//! Whether ClusterVersion says that the cluster may be upgraded to another minor release.

use api::ConditionStatus;
use api::config::{ClusterConditionType, ClusterVersionStatus};
use jiff::Timestamp;
use release::Version;

/// What holds an upgrade to `desired`: `Upgradeable=False`, unless the minor release stays.
pub fn refusal(
    status: &ClusterVersionStatus,
    current: &Version,
    desired: &Version,
    upgrade_at: Timestamp,
) -> Option<String> {
    let condition = status.condition(&ClusterConditionType::Upgradeable)?;
    if condition.status != ConditionStatus::False || desired.minor() <= current.minor() {
        return None;
    }
    Some(format!(
        "cluster upgrade to version {desired} on {} has been cancelled: {}: {}",
        upgrade_at.strftime("%a %b %e %H:%M:%S UTC %Y"),
        condition.reason,
        condition.message
    ))
}

#[cfg(test)]
mod tests {
    use api::config::ClusterCondition;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::fixture::START;

    #[test]
    fn only_another_minor_release_is_held() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        let upgradeable = |status| ClusterVersionStatus {
            conditions: vec![ClusterCondition {
                r#type: ClusterConditionType::Upgradeable,
                status,
                last_transition_time: Time(START),
                reason: "AdminAckRequired".to_owned(),
                message: "ack first".to_owned(),
            }],
            ..ClusterVersionStatus::default()
        };
        let table = [
            (ConditionStatus::False, "4.16.3", "4.17.0", true),
            (ConditionStatus::False, "4.16.3", "5.0.0", true),
            (ConditionStatus::False, "4.16.3", "4.16.9", false),
            (ConditionStatus::True, "4.16.3", "4.17.0", false),
            (ConditionStatus::Unknown, "4.16.3", "4.17.0", false),
        ];
        for (status, current, desired, is_held) in table {
            let at = "2027-01-05T08:00:00Z".parse().unwrap();
            let found = refusal(
                &upgradeable(status),
                &version(current),
                &version(desired),
                at,
            );
            assert_eq!(found.is_some(), is_held, "{status} {desired}");
            if let Some(why) = found {
                let expected = format!(
                    "cluster upgrade to version {desired} on Tue Jan  5 08:00:00 UTC 2027 has been \
                     cancelled: AdminAckRequired: ack first"
                );
                assert_eq!(why, expected);
            }
        }
        let none = ClusterVersionStatus::default();
        assert_eq!(
            refusal(&none, &version("4.16.3"), &version("4.17.0"), START),
            None
        );
    }
}
