//! The change that stops a pool or the cluster, or puts a node on hold; and the one that ends it.

use api::machineconfiguration::{NodeHold, annotation};
use api::stop::{STOP, StopRecord, StopSwitch};
use serde_json::{Value, json};

/// What a person wants of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StopWish {
    Stop(StopRecord),
    Go,
}

/// What a person wants of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HoldWish {
    /// On hold, for this reason.
    Hold(String),
    Release,
}

/// The change, if there is one to make, and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StopDecision {
    /// A merge patch of the object.
    pub(crate) patch: Option<Value>,
    pub(crate) message: String,
}

/// Decides about the switch of `what`, which is `present` now. One that a person has set stays as
/// they set it; one that cannot be read is replaced.
pub(crate) fn switch(what: &str, present: Option<&StopSwitch>, wish: StopWish) -> StopDecision {
    let (value, message) = match (wish, present) {
        (StopWish::Stop(_), Some(set @ StopSwitch::Set(_))) => {
            let message = format!("{what} is stopped already, {set}\n");
            return StopDecision {
                patch: None,
                message,
            };
        }
        (StopWish::Stop(record), Some(StopSwitch::Unreadable { .. }) | None) => {
            let value = record.to_annotation();
            let set = StopSwitch::Set(record);
            (json!(value), format!("{what} is stopped {set}\n"))
        }
        (StopWish::Go, Some(set)) => {
            let message = format!("{what} goes on; it was stopped {set}\n");
            (Value::Null, message)
        }
        (StopWish::Go, None) => {
            return StopDecision {
                patch: None,
                message: format!("{what} is not stopped\n"),
            };
        }
    };
    StopDecision {
        patch: Some(json!({ "metadata": { "annotations": { STOP: value } } })),
        message,
    }
}

/// The warning for a person who lets a pool go on, while the cluster's switch is set.
pub(crate) fn cluster_holds(cluster: &StopSwitch) -> String {
    format!("the cluster is stopped {cluster}: no pool goes on before `slipway upgrade go`")
}

/// Decides about a node, whose hold is `present` now. Another reason takes the place of the one
/// that it has.
pub(crate) fn hold(node: &str, present: Option<&NodeHold>, wish: HoldWish) -> StopDecision {
    let wanted = match wish {
        HoldWish::Hold(reason) => Some(NodeHold(reason)),
        HoldWish::Release => None,
    };
    let is_same = present == wanted.as_ref();
    let message = match (&wanted, present) {
        (Some(hold), _) => format!("Node {node} is {hold}\n"),
        (None, Some(hold)) => format!("Node {node} is released; it was {hold}\n"),
        (None, None) => format!("Node {node} is not on hold\n"),
    };
    let value = wanted.map(|NodeHold(reason)| reason);
    let patch = json!({ "metadata": { "annotations": { annotation::HOLD: value } } });
    StopDecision {
        patch: (!is_same).then_some(patch),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(by: &str, reason: &str) -> StopRecord {
        StopRecord {
            by: by.to_owned(),
            since: "2026-11-30T07:15:00Z".parse().unwrap(),
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn the_first_who_stops_stays_named_and_a_value_that_says_no_one_is_replaced() {
        const WHAT: &str = "MachineConfigPool worker";
        let by_alice = StopSwitch::Set(record("alice", "kernel bug"));
        let unread = StopSwitch::parse("because");
        let by_bob = record("bob", "");
        let patch = |value: Value| {
            Some(json!({ "metadata": { "annotations": { "slipway.dev/stop": value } } }))
        };
        let stop = || StopWish::Stop(by_bob.clone());
        let bobs = || patch(json!(r#"{"by":"bob","since":"2026-11-30T07:15:00Z"}"#));
        let is_bobs = "is stopped by bob since 2026-11-30T07:15:00Z, without a reason";
        for (present, wish, expected, said) in [
            (None, stop(), bobs(), is_bobs),
            (Some(&unread), stop(), bobs(), is_bobs),
            (
                Some(&by_alice),
                stop(),
                None,
                "is stopped already, by alice since 2026-11-30T07:15:00Z: kernel bug",
            ),
            (None, StopWish::Go, None, "is not stopped"),
            (
                Some(&by_alice),
                StopWish::Go,
                patch(Value::Null),
                "goes on; it was stopped by alice since 2026-11-30T07:15:00Z: kernel bug",
            ),
            (
                Some(&unread),
                StopWish::Go,
                patch(Value::Null),
                "goes on; it was stopped by annotation slipway.dev/stop, which cannot be read: \
                 expected value at line 1 column 1: \"because\"",
            ),
        ] {
            let decision = switch(WHAT, present, wish);
            assert_eq!(decision.patch, expected, "{said}");
            assert_eq!(decision.message, format!("{WHAT} {said}\n"));
        }
    }

    #[test]
    fn a_node_is_put_on_hold_and_released() {
        let disk = NodeHold("disk".to_owned());
        let patch = |value: Value| {
            Some(json!({ "metadata": { "annotations": { "slipway.dev/hold": value } } }))
        };
        let wish = |reason: &str| HoldWish::Hold(reason.to_owned());
        for (present, wish, expected, said) in [
            (None, wish("disk"), patch(json!("disk")), "on hold: disk"),
            (
                None,
                wish(""),
                patch(json!("")),
                "on hold, without a reason",
            ),
            (Some(&disk), wish("disk"), None, "on hold: disk"),
            (
                Some(&disk),
                wish("fan"),
                patch(json!("fan")),
                "on hold: fan",
            ),
            (None, HoldWish::Release, None, "not on hold"),
            (
                Some(&disk),
                HoldWish::Release,
                patch(Value::Null),
                "released; it was on hold: disk",
            ),
        ] {
            let decision = hold("w1", present, wish);
            assert_eq!(decision.patch, expected, "{said}");
            assert_eq!(decision.message, format!("Node w1 is {said}\n"));
        }
    }
}
