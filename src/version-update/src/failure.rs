//! Why a release is not applied: one record a cause, and how several share one sentence.
//!
//! - `verdict`: what failures do to conditions

mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

pub use self::verdict::{FailureVerdict, judge};

/// What a failure does to the conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// It is reported once the pass has succeeded.
    Report,
    /// Nothing: it is waited for.
    None,
    /// It is a failure after 40 minutes.
    FailAfterInterval,
    Fail,
}

/// What a failure is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureSubject {
    Operator(String),
    /// A workload that rolls out, by kind and name.
    Workload(String),
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub reason: String,
    pub message: String,
    /// Short form for `Progressing`.
    pub summary: String,
    pub effect: Effect,
    pub subject: FailureSubject,
    /// What the operator itself says, and the manifest that waits for it.
    pub detail: Option<Box<WaitDetail>>,
}

/// Why an operator is waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitDetail {
    /// The manifest, as people read it.
    pub manifest: String,
    /// The operator's own message; empty for none.
    pub message: String,
}

/// Longest message of an operator that is repeated.
const MESSAGE_MAX: usize = 200;

/// After so long a failing operator counts as a failure.
const FAIL_AFTER: SignedDuration = SignedDuration::from_mins(40);

const MULTIPLE: &str = "MultipleErrors";

/// A rule of ClusterOperators: reason without its first word, and its verb phrases for one
/// and for many.
struct Rule {
    suffix: &'static str,
    one: &'static str,
    many: &'static str,
}

const RULES: [Rule; 4] = [
    Rule {
        suffix: "NoVersions",
        one: "does not declare expected versions",
        many: "do not declare expected versions",
    },
    Rule {
        suffix: "NotAvailable",
        one: "is not available",
        many: "are not available",
    },
    Rule {
        suffix: "Degraded",
        one: "is degraded",
        many: "are degraded",
    },
    Rule {
        suffix: "Updating",
        one: "is updating versions",
        many: "are updating versions",
    },
];

impl Failure {
    /// An operator that is not as it must be, for a rule's suffix.
    pub fn operator(name: &str, suffix: &str, effect: Effect) -> Self {
        let phrase = RULES.iter().find(|rule| rule.suffix == suffix);
        let phrase = phrase.map_or("", |rule| rule.one);
        Self {
            reason: format!("ClusterOperator{suffix}"),
            message: format!("Cluster operator {name} {phrase}"),
            summary: format!("the cluster operator {name} {phrase}"),
            effect,
            subject: FailureSubject::Operator(name.to_owned()),
            detail: None,
        }
    }

    /// A workload that does not get rolled out by itself, by kind and name (`namespace/name`), and
    /// why.
    pub fn workload(reason: &str, (kind, name): (&str, &str), why: &str) -> Self {
        let phrase = match reason {
            "WorkloadNotProgressing" => "cannot roll out",
            _ => "has not yet successfully rolled out",
        };
        Self {
            reason: reason.to_owned(),
            message: format!("{kind} {name} {why}"),
            summary: format!("the workload {name} {phrase}"),
            effect: Effect::Fail,
            subject: FailureSubject::Other,
            detail: None,
        }
    }

    /// A rollout that is waited for: `task` as people read it, the workload (`namespace/name`), and
    /// why.
    pub fn rollout(task: &str, name: &str, why: &str) -> Self {
        Self {
            reason: "WorkloadUpdating".to_owned(),
            message: format!("{task} {why}"),
            summary: format!("the workload {name} has not yet successfully rolled out"),
            effect: Effect::None,
            subject: FailureSubject::Other,
            detail: None,
        }
    }

    /// A manifest that says something impossible.
    pub fn integrity(message: String) -> Self {
        Self {
            reason: "UpdatePayloadIntegrity".to_owned(),
            message,
            summary: "the contents of the update are invalid".to_owned(),
            effect: Effect::Fail,
            subject: FailureSubject::Other,
            detail: None,
        }
    }

    /// A manifest that was not applied, or an object that is not as it must be: `task` as people
    /// read it.
    pub fn update(task: &str, cause: &str) -> Self {
        Self {
            reason: "UpdatePayloadFailed".to_owned(),
            message: format!("Could not update {task}: {cause}"),
            summary: "the update could not be applied".to_owned(),
            effect: Effect::Fail,
            subject: FailureSubject::Other,
            detail: None,
        }
    }

    /// The same, with the file of its manifest behind what clients know.
    #[must_use]
    pub fn of_file(self, file: &str) -> Self {
        Self {
            message: format!("{}; file {file}", self.message),
            ..self
        }
    }

    /// The same, with what an operator says of itself.
    #[must_use]
    pub fn with_detail(self, manifest: &str, message: &str) -> Self {
        let message = message.chars().take(MESSAGE_MAX).collect();
        let detail = WaitDetail {
            manifest: manifest.to_owned(),
            message,
        };
        Self {
            detail: Some(Box::new(detail)),
            ..self
        }
    }

    /// A rollout that has taken too long, in the place of one that is waited for. It goes on being
    /// waited for.
    fn overdue(&self, pending: &BTreeMap<String, Timestamp>, now: Timestamp) -> Option<Self> {
        let FailureSubject::Workload(name) = &self.subject else {
            return None;
        };
        let since = pending.get(name)?;
        let is_late = self.effect == Effect::None && now.duration_since(*since) > FAIL_AFTER;
        is_late.then(|| Self {
            reason: "WorkloadNotProgressing".to_owned(),
            message: format!("{} for more than 40 minutes", self.message),
            effect: Effect::Fail,
            ..self.clone()
        })
    }

    fn operator_name(&self) -> Option<&str> {
        match &self.subject {
            FailureSubject::Operator(name) => Some(name),
            FailureSubject::Workload(_) | FailureSubject::Other => None,
        }
    }
}

/// Failures of one pass as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub reason: String,
    pub message: String,
    /// Short form for `Progressing`.
    pub summary: String,
    /// What it does; none for several of different kinds.
    pub effect: Option<Effect>,
    /// The operators that it is about.
    pub operators: BTreeSet<String>,
    /// What they say, by name.
    pub details: BTreeMap<String, WaitDetail>,
    /// What it consists of, if several.
    pub members: Vec<Self>,
}

/// Failures as they stand after a while: a rollout is waited for, but not for ever.
pub fn aged(
    failures: Vec<Failure>,
    pending: &BTreeMap<String, Timestamp>,
    now: Timestamp,
) -> Vec<Failure> {
    let aged = failures.into_iter().map(|failure| {
        let overdue = failure.overdue(pending, now);
        overdue.unwrap_or(failure)
    });
    aged.collect()
}

/// Makes one of several: operators with one reason are one, others stay.
///
/// Shape: `failures` in the order of the graph; none yields none. Source:
/// `docs/reference/cvo.md`, "Waiting and failing".
pub fn summarize(failures: &[Failure]) -> Option<Summary> {
    let mut members: Vec<Summary> = Vec::new();
    let mut by_reason: BTreeMap<&str, Vec<&Failure>> = BTreeMap::new();
    for failure in failures {
        if failure.operator_name().is_some() {
            by_reason.entry(&failure.reason).or_default().push(failure);
        } else {
            members.push(single(failure));
        }
    }
    members.extend(by_reason.into_values().filter_map(|group| merge(&group)));
    match members.as_slice() {
        [] => None,
        [_] => members.pop(),
        _ => Some(several(members)),
    }
}

fn single(failure: &Failure) -> Summary {
    Summary {
        reason: failure.reason.clone(),
        message: failure.message.clone(),
        summary: failure.summary.clone(),
        effect: Some(failure.effect),
        operators: failure
            .operator_name()
            .map(str::to_owned)
            .into_iter()
            .collect(),
        details: details(&[failure]),
        members: Vec::new(),
    }
}

fn details(failures: &[&Failure]) -> BTreeMap<String, WaitDetail> {
    let details = failures.iter().filter_map(|failure| {
        let name = failure.operator_name()?;
        Some((name.to_owned(), failure.detail.as_deref()?.clone()))
    });
    details.collect()
}

/// Operators with one reason.
fn merge(group: &[&Failure]) -> Option<Summary> {
    let first = single(group.first()?);
    let names: BTreeSet<String> = group
        .iter()
        .filter_map(|failure| failure.operator_name())
        .map(str::to_owned)
        .collect();
    if names.len() < 2 {
        return Some(first);
    }
    let suffix = first.reason.strip_prefix("ClusterOperator")?;
    let phrase = RULES.iter().find(|rule| rule.suffix == suffix);
    let phrase = phrase.map_or("", |rule| rule.many);
    let summary = if suffix == "NotAvailable" {
        "some cluster operators are not available".to_owned()
    } else {
        format!("the cluster operators {} {phrase}", joined(&names))
    };
    Some(Summary {
        reason: format!("ClusterOperators{suffix}"),
        message: format!("Cluster operators {} {phrase}", joined(&names)),
        summary,
        effect: group.iter().map(|failure| failure.effect).max(),
        operators: names,
        details: details(group),
        members: Vec::new(),
    })
}

/// Members of different kinds. The summary names what they are about: "an unknown error has
/// occurred: `MultipleErrors`" helped no reader. Source: `docs/reference/cvo.md`, "What Slipway is
/// to do better".
fn several(members: Vec<Summary>) -> Summary {
    let messages: BTreeSet<&str> = members.iter().map(|one| one.message.as_str()).collect();
    let lines: Vec<&str> = messages.into_iter().collect();
    let summaries: BTreeSet<&str> = members.iter().map(|one| one.summary.as_str()).collect();
    let summaries: Vec<&str> = summaries.into_iter().collect();
    Summary {
        reason: MULTIPLE.to_owned(),
        message: format!(
            "Multiple errors are preventing progress:\n* {}",
            lines.join("\n* ")
        ),
        summary: summaries.join(", "),
        effect: None,
        operators: members
            .iter()
            .flat_map(|one| one.operators.clone())
            .collect(),
        details: members.iter().flat_map(|one| one.details.clone()).collect(),
        members,
    }
}

fn joined(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
