use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::machineconfiguration::machine_config_node::NodeConditionType;
use crate::machineconfiguration::machine_config_pool::{
    PoolCondition, PoolConditionReason, PoolConditionType,
};

const fn at(second: i64) -> Time {
    Time(Timestamp::constant(second, 0))
}

/// One form of a condition, written with a status, a message and a time.
trait Form: Listed + Clone + PartialEq + fmt::Debug {
    const TYPES: [&'static str; 2];

    fn new(r#type: &str, status: ConditionStatus, message: &str, time: Time) -> Self;
}

impl Form for PoolCondition {
    const TYPES: [&'static str; 2] = ["Updated", "BuildPending"];

    fn new(r#type: &str, status: ConditionStatus, message: &str, time: Time) -> Self {
        Self {
            r#type: PoolConditionType::from(r#type.to_owned()),
            status,
            last_transition_time: Some(time),
            reason: PoolConditionReason::from(format!("Reason{message}")),
            message: message.to_owned(),
        }
    }
}

impl Form for Condition<NodeConditionType> {
    const TYPES: [&'static str; 2] = ["Drained", "Foreign"];

    fn new(r#type: &str, status: ConditionStatus, message: &str, time: Time) -> Self {
        Self {
            r#type: NodeConditionType::from(r#type.to_owned()),
            status,
            last_transition_time: time,
            reason: format!("Reason{message}"),
            message: message.to_owned(),
            observed_generation: None,
        }
    }
}

/// Status before and after, and whose time of transition stays.
const TRANSITIONS: &[(ConditionStatus, ConditionStatus, i64)] = &[
    (ConditionStatus::True, ConditionStatus::True, 1),
    (ConditionStatus::True, ConditionStatus::False, 2),
    (ConditionStatus::False, ConditionStatus::True, 2),
    (ConditionStatus::False, ConditionStatus::Unknown, 2),
    (ConditionStatus::Unknown, ConditionStatus::Unknown, 1),
];

fn check_transitions<C: Form>() {
    let [own, foreign] = C::TYPES;
    let other = C::new(foreign, ConditionStatus::True, "theirs", at(0));
    for (before, after, since) in TRANSITIONS {
        let mut list = vec![C::new(own, *before, "a", at(1)), other.clone()];
        set(&mut list, C::new(own, *after, "b", at(2)));
        let expected = C::new(own, *after, "b", at(*since));
        assert_eq!(list, [expected, other.clone()], "{before} to {after}");
    }
}

fn check_first<C: Form>() {
    let [own, foreign] = C::TYPES;
    let other = C::new(foreign, ConditionStatus::Unknown, "theirs", at(0));
    let first = C::new(own, ConditionStatus::False, "", at(1));
    let mut list = vec![other.clone()];
    set(&mut list, first.clone());
    assert_eq!(list, [other, first.clone()]);
    assert_eq!(find(&list, first.r#type()), Some(&first));
    assert_eq!(find(&list[..1], first.r#type()), None);
}

#[test]
fn transition_time_moves_only_with_the_status() {
    check_transitions::<PoolCondition>();
    check_transitions::<Condition<NodeConditionType>>();
}

#[test]
fn new_type_is_added_last() {
    check_first::<PoolCondition>();
    check_first::<Condition<NodeConditionType>>();
}

/// Upstream's pools may have a condition without a time; the same status does not invent one.
#[test]
fn missing_transition_time_stays_missing_until_the_status_changes() {
    let condition = |status, time| PoolCondition {
        last_transition_time: time,
        ..PoolCondition::new("Updated", status, "", at(0))
    };
    let mut list = vec![condition(ConditionStatus::True, None)];
    set(&mut list, condition(ConditionStatus::True, Some(at(1))));
    assert_eq!(list, [condition(ConditionStatus::True, None)]);
    set(&mut list, condition(ConditionStatus::False, Some(at(2))));
    assert_eq!(list, [condition(ConditionStatus::False, Some(at(2)))]);
}
