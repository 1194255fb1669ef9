//! What failures do to conditions while a release is applied.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Effect, FAIL_AFTER, Summary, joined, several};

/// After so long a waiting operator counts as slow; `machine-config` updates nodes.
const SLOW_AFTER: SignedDuration = SignedDuration::from_mins(30);
const MACHINE_CONFIG: &str = "machine-config";
const MACHINE_CONFIG_SLOW_AFTER: SignedDuration = SignedDuration::from_mins(90);

/// Reason of `Failing` while operators are slow.
const SLOW: &str = "SlowClusterOperator";

/// What failures do to `Failing` and to the text of `Progressing`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailureVerdict {
    /// `Failing`, if anything is: reason and message.
    pub failing: Option<(String, String)>,
    /// `Failing` is unknown, because operators are slow: reason and message.
    pub slow: Option<(String, String)>,
    /// What is waited for, and its reason; else empty.
    pub waiting: Option<(String, String)>,
    /// What `Progressing` says of the failure.
    pub summary: String,
}

/// Judges failures while a release is applied for the first time, or a new one.
///
/// `pending` says since when each operator is waited for. Source: `docs/reference/cvo.md`,
/// "Waiting and failing".
pub fn judge(
    summary: Option<&Summary>,
    pending: &BTreeMap<String, Timestamp>,
    now: Timestamp,
) -> FailureVerdict {
    let Some(summary) = summary else {
        return FailureVerdict::default();
    };
    let fails = |reason: &str, message: &str, text: &str| FailureVerdict {
        failing: Some((reason.to_owned(), message.to_owned())),
        summary: text.to_owned(),
        ..FailureVerdict::default()
    };
    let age = |name: &String| {
        let since = pending.get(name).copied();
        // An operator without a clock counts as late, not as slow.
        since.map(|since| now.duration_since(since))
    };
    match summary.effect {
        Some(Effect::None) => wait(summary, pending, age),
        Some(Effect::FailAfterInterval) => {
            let late: BTreeSet<String> = summary
                .operators
                .iter()
                .filter(|name| age(name).is_none_or(|age| age > FAIL_AFTER))
                .cloned()
                .collect();
            if late.is_empty() {
                let names = joined(&summary.operators);
                let causes = causes(&summary.operators, summary, pending);
                let text = format!("waiting up to 40 minutes on {names}{causes}");
                return FailureVerdict {
                    waiting: Some((summary.reason.clone(), text)),
                    ..FailureVerdict::default()
                };
            }
            let late = joined(&late);
            let text = format!("wait has exceeded 40 minutes for these operators: {late}");
            fails(&summary.reason, &summary.message, &text)
        }
        Some(Effect::Report) => fails(&summary.reason, &summary.message, &summary.message),
        Some(Effect::Fail) => fails(&summary.reason, &summary.message, &summary.summary),
        None => {
            let hard: Vec<Summary> = summary
                .members
                .iter()
                .filter(|member| member.effect != Some(Effect::None))
                .cloned()
                .collect();
            match hard.as_slice() {
                [] => wait(summary, pending, age),
                [one] => judge(Some(one), pending, now),
                _ => {
                    let hard = several(hard);
                    fails(&hard.reason, &hard.message, &hard.summary)
                }
            }
        }
    }
}

/// The messages of operators that are waited for, since when, and by which manifest; empty if
/// there are none. Hours on "waiting on machine-config" without a cause helped no reader. Source:
/// `docs/reference/cvo.md`, "What Slipway is to do better".
fn causes(
    names: &BTreeSet<String>,
    summary: &Summary,
    pending: &BTreeMap<String, Timestamp>,
) -> String {
    let causes: Vec<String> = names
        .iter()
        .filter_map(|name| {
            let detail = summary.details.get(name)?;
            let mut text = detail.manifest.clone();
            if let Some(since) = pending.get(name) {
                text = format!("{text} since {}", since.strftime("%Y-%m-%dT%H:%M:%SZ"));
            }
            if !detail.message.is_empty() {
                text = format!("{text}: {}", detail.message);
            }
            Some(text)
        })
        .collect();
    if causes.is_empty() {
        String::new()
    } else {
        format!(" ({})", causes.join("; "))
    }
}

fn wait(
    summary: &Summary,
    pending: &BTreeMap<String, Timestamp>,
    age: impl Fn(&String) -> Option<SignedDuration>,
) -> FailureVerdict {
    let is_slow = |name: &&String| {
        let limit = if *name == MACHINE_CONFIG {
            MACHINE_CONFIG_SLOW_AFTER
        } else {
            SLOW_AFTER
        };
        age(name).is_some_and(|age| age > limit)
    };
    let slow: BTreeSet<String> = summary.operators.iter().filter(is_slow).cloned().collect();
    if slow.is_empty() {
        let text = if summary.operators.is_empty() {
            format!("waiting: {}", summary.message)
        } else {
            let names = &summary.operators;
            let causes = causes(names, summary, pending);
            format!("waiting on {}{causes}", joined(names))
        };
        return FailureVerdict {
            waiting: Some((summary.reason.clone(), text)),
            ..FailureVerdict::default()
        };
    }
    let causes = causes(&slow, summary, pending);
    let (mut others, mut parts) = (slow, Vec::new());
    let is_nodes = others.remove(MACHINE_CONFIG);
    if !others.is_empty() {
        parts.push(format!("{} over 30 minutes", joined(&others)));
    }
    if is_nodes {
        parts.push(format!("{MACHINE_CONFIG} over 90 minutes"));
    }
    let text = format!(
        "waiting on {} which is longer than expected{causes}",
        parts.join(" and ")
    );
    FailureVerdict {
        slow: Some((SLOW.to_owned(), text.clone())),
        // What is waited for is the same as before.
        waiting: Some((summary.reason.clone(), text)),
        ..FailureVerdict::default()
    }
}
