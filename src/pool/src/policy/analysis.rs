//! Analysis between the steps of a rollout: queries of the cluster's metrics, and their results.

use std::collections::BTreeMap;

use api::rollout::AnalysisSpec;
use jiff::{SignedDuration, Timestamp};

use super::{InvalidPolicy, PolicyFault};

/// A result that is older says nothing of the nodes that were updated since.
const FRESH: SignedDuration = SignedDuration::from_secs(60);

/// When a query that did not pass is sent again.
pub(super) const REPEAT: SignedDuration = SignedDuration::from_secs(30);

/// A query that must pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    pub name: String,
    pub query: String,
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryAnswer {
    /// 1: nodes may follow.
    Passed,
    /// 0: they may not yet.
    Failed,
    /// Nothing; why, for people.
    Missing(String),
}

/// The last result of each query, and when it came.
pub type QueryAnswers = BTreeMap<String, (Timestamp, QueryAnswer)>;

impl Analysis {
    /// Reads the queries of a policy. `has_steps` is whether any node follows others.
    pub(super) fn parse_all(
        written: &[AnalysisSpec],
        has_steps: bool,
    ) -> Result<Vec<Self>, InvalidPolicy> {
        let invalid = |field, fault| InvalidPolicy { field, fault };
        if !written.is_empty() && !has_steps {
            return Err(invalid("spec.analysis".to_owned(), PolicyFault::NoSteps));
        }
        let mut all: Vec<Self> = Vec::new();
        for (query, place) in written.iter().zip(0_usize..) {
            let field = |key: &str| format!("spec.analysis[{place}].{key}");
            if query.name.is_empty() || all.iter().any(|other| other.name == query.name) {
                return Err(invalid(
                    field("name"),
                    PolicyFault::Name(query.name.clone()),
                ));
            }
            if query.query.trim().is_empty() {
                return Err(invalid(field("query"), PolicyFault::Empty));
            }
            all.push(Self {
                name: query.name.clone(),
                query: query.query.clone(),
            });
        }
        Ok(all)
    }

    /// Why it has not passed at `now`; none if it has.
    pub(super) fn fault(&self, results: &QueryAnswers, now: Timestamp) -> Option<String> {
        let fresh = results.get(&self.query);
        let fresh = fresh.filter(|(at, _)| now.duration_since(*at) <= FRESH);
        match fresh {
            Some((_, QueryAnswer::Passed)) => None,
            Some((_, QueryAnswer::Failed)) => Some("it answers 0".to_owned()),
            Some((_, QueryAnswer::Missing(why))) => Some(format!("it has no answer: {why}")),
            None => Some("it was not asked yet".to_owned()),
        }
    }

    /// Whether it is to be sent at `now`.
    pub fn is_due(&self, results: &QueryAnswers, now: Timestamp) -> bool {
        let last = results.get(&self.query);
        last.is_none_or(|(at, _)| now.duration_since(*at).abs() >= REPEAT)
    }
}
