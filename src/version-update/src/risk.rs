//! Which risks apply to the cluster, and which updates are recommended by that: values in, values
//! out.

use std::collections::{BTreeMap, BTreeSet};

use api::ConditionStatus;
use api::condition::{self, Condition};
use api::config::{
    ClusterVersionSpec, ConditionalUpdate, ConditionalUpdateRisk, MatchingRule, PromQl,
    RecommendationType, Release,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use release::pull_spec::is_same_image;
use release::update_graph::{Offer, Offers, RiskRule, UpdateNode, UpdateRisk};

/// Between two queries, and between two of the same one.
const PAUSE: SignedDuration = SignedDuration::from_secs(1);
const REPEAT: SignedDuration = SignedDuration::from_hours(1);

/// Between two of the same one, if the first failed.
const RETRY: SignedDuration = SignedDuration::from_mins(1);

/// A result that no query needs any more is dropped after this time.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// Limits of the definition.
const MAX_UPDATES: usize = 500;

/// Reason of an update whose risks do not apply or are accepted.
const ACCEPTED: &str = "AllExposedRisksAccepted";

const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";
const ARCHITECTURE: &str = "release.openshift.io/architecture";

/// Whether a risk applies to the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exposure {
    Exposed,
    Clear,
    /// It cannot be evaluated, and why.
    Unknown(String),
    /// A query was not sent yet: it is soon.
    Pending,
}

/// Results of the cluster's metrics, by query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryCache {
    results: BTreeMap<String, (Timestamp, Result<bool, String>)>,
    last: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryTurn {
    /// This query, now.
    Ask(String),
    /// Something, after this time.
    Wait(SignedDuration),
    /// Nothing: no query is wanted.
    Nothing,
}

impl QueryCache {
    /// Which of the wanted queries is sent next: one without a result first, in the order given,
    /// and then the one with the oldest result.
    ///
    /// Source: `docs/reference/cvo.md`, "Risks".
    pub fn turn(&self, wanted: &[String], now: Timestamp) -> QueryTurn {
        let due = |query: &String| match self.results.get(query) {
            None => Timestamp::UNIX_EPOCH,
            Some((at, Ok(_))) => *at + REPEAT,
            Some((at, Err(_))) => *at + RETRY,
        };
        let Some(query) = wanted.iter().min_by_key(|query| due(query)) else {
            return QueryTurn::Nothing;
        };
        let pause = self.last.map_or(Timestamp::UNIX_EPOCH, |last| last + PAUSE);
        let at = due(query).max(pause);
        if at <= now {
            QueryTurn::Ask(query.clone())
        } else {
            QueryTurn::Wait(at.duration_since(now))
        }
    }

    /// Stores a result, and drops old ones.
    pub fn store(&mut self, query: &str, result: Result<bool, String>, now: Timestamp) {
        self.last = Some(now);
        self.results.insert(query.to_owned(), (now, result));
        self.results
            .retain(|_, (at, _)| now.duration_since(*at) < KEPT);
    }

    /// Whether a risk applies: the first rule that can be evaluated decides.
    pub fn exposure(&self, risk: &UpdateRisk) -> Exposure {
        let mut faults = Vec::new();
        for rule in &risk.rules {
            match rule {
                RiskRule::Always => return Exposure::Exposed,
                RiskRule::PromQl(query) => match self.results.get(query) {
                    Some((_, Ok(true))) => return Exposure::Exposed,
                    Some((_, Ok(false))) => return Exposure::Clear,
                    Some((_, Err(why))) => faults.push(why.clone()),
                    // A later rule must not decide before this one has a result.
                    None => return Exposure::Pending,
                },
                RiskRule::Unknown { why, .. } => faults.push(why.clone()),
            }
        }
        Exposure::Unknown(faults.join("; "))
    }
}

/// Queries that decide about offers: those of the newest release first, then by name of the risk.
pub fn queries(offers: &Offers) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut queries = Vec::new();
    for offer in &offers.offers {
        let mut risks: Vec<&UpdateRisk> = offer.risks.iter().collect();
        risks.sort_by(|one, other| one.name.cmp(&other.name));
        for rule in risks.iter().flat_map(|risk| &risk.rules) {
            if let RiskRule::PromQl(query) = rule
                && seen.insert(query)
            {
                queries.push(query.clone());
            }
        }
    }
    queries
}

/// What a status has of updates.
#[derive(Debug, Clone, Copy)]
pub struct KnownUpdates<'a> {
    pub conditional: &'a [ConditionalUpdate],
    /// Whether it was made for the spec as it is now, by which risks are accepted.
    pub is_current: bool,
}

/// The lists of the status: releases that are recommended, and those with risks. Newest first.
///
/// While a query was not sent yet, as after a start, what the status has of an update with the
/// same risks stays.
pub fn updates(
    offers: &Offers,
    cache: &QueryCache,
    before: KnownUpdates<'_>,
    accepted: &BTreeSet<String>,
    now: Timestamp,
) -> (Vec<Release>, Vec<ConditionalUpdate>) {
    let (mut available, mut conditional) = (Vec::new(), Vec::new());
    for offer in offers.offers.iter().take(MAX_UPDATES) {
        let release = release_of(&offer.version.to_string(), &offer.node);
        if offer.risks.is_empty() {
            available.push(release);
            continue;
        }
        let (mut recommended, is_pending) = recommend(offer, cache, accepted, now);
        let risks: Vec<_> = offer.risks.iter().map(risk_of).collect();
        let mut listed = before.conditional.iter();
        let listed = listed.find(|update| {
            update.release.version == release.version
                && (update.release.image == release.image
                    || is_same_image(&update.release.image, &release.image))
        });
        let condition =
            listed.and_then(|update| condition::find(&update.conditions, &recommended.r#type));
        if let (Some(listed), Some(condition)) = (listed, condition) {
            // The status does not have which risks were accepted before.
            let stands = condition.reason != ACCEPTED && listed.risks == risks;
            if is_pending && before.is_current && stands {
                recommended = condition.clone();
            } else if condition.status == recommended.status {
                recommended.last_transition_time = condition.last_transition_time.clone();
            }
        }
        if recommended.status == ConditionStatus::True {
            available.push(release.clone());
        }
        conditional.push(ConditionalUpdate {
            release,
            risks,
            conditions: vec![recommended],
        });
    }
    (available, conditional)
}

/// A release as the status has it.
pub fn release_of(version: &str, node: &UpdateNode) -> Release {
    let text = |key: &str| node.metadata.get(key).map_or("", String::as_str);
    let channels = text(CHANNELS).split(',').map(str::trim);
    let channels: BTreeSet<&str> = channels.filter(|channel| !channel.is_empty()).collect();
    Release {
        architecture: match text(ARCHITECTURE) {
            "multi" => "Multi".to_owned(),
            _ => String::new(),
        },
        version: version.to_owned(),
        image: node.payload.clone(),
        url: text("url").to_owned(),
        channels: channels.into_iter().map(str::to_owned).collect(),
    }
}

fn risk_of(risk: &UpdateRisk) -> ConditionalUpdateRisk {
    let rule = |rule: &RiskRule| match rule {
        RiskRule::Always => Some(("Always", None)),
        RiskRule::PromQl(query) => Some(("PromQL", Some(query.clone()))),
        RiskRule::Unknown { .. } => None,
    };
    let rules = risk.rules.iter().filter_map(rule);
    ConditionalUpdateRisk {
        url: risk.url.clone(),
        name: risk.name.clone(),
        message: risk.message.clone(),
        matching_rules: rules
            .map(|(r#type, promql)| MatchingRule {
                r#type: r#type.to_owned(),
                promql: promql.map(|promql| PromQl { promql }),
            })
            .collect(),
    }
}

/// Whether a risk of the cluster's own may have this name.
///
/// Source: `docs/reference/cvo.md`, "Risks": `^[A-Z][A-Za-z0-9.-]*$`.
pub(crate) fn is_name(name: &str) -> bool {
    let is_part = |one: char| one.is_ascii_alphanumeric() || ['.', '-'].contains(&one);
    name.starts_with(|first: char| first.is_ascii_uppercase()) && name.chars().all(is_part)
}

/// Whether a name may be a condition's reason: `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`.
pub(crate) fn is_reason(name: &str) -> bool {
    let is_word = |one: u8| one.is_ascii_alphanumeric() || one == b'_';
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().copied().is_some_and(is_word)
        && bytes.iter().all(|one| is_word(*one) || b",:".contains(one))
}

/// The risks that an administrator accepts.
pub fn accepted(spec: &ClusterVersionSpec) -> BTreeSet<String> {
    let update = spec.desired_update.iter();
    let accepted = update.flat_map(|update| &update.accept_risks);
    accepted.map(|risk| risk.name.clone()).collect()
}

/// What is recorded of a release whose risks were accepted: those that apply to the cluster.
pub fn acceptance(
    offers: &Offers,
    image: &str,
    cache: &QueryCache,
    accepted: &BTreeSet<String>,
) -> Option<String> {
    let mut offers = offers.offers.iter();
    let offer = offers.find(|offer| is_same_image(&offer.node.payload, image))?;
    let applies = |risk: &&UpdateRisk| {
        accepted.contains(&risk.name) && cache.exposure(risk) != Exposure::Clear
    };
    let names: BTreeSet<&str> = offer
        .risks
        .iter()
        .filter(applies)
        .map(|risk| risk.name.as_str())
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty()).then(|| {
        format!(
            "exposed to the risks [{}] which were all explicitly accepted by the cluster \
             administrator.",
            names.join(",")
        )
    })
}

/// Whether an update is recommended, and whether that is still open because a query was not sent
/// yet.
fn recommend(
    offer: &Offer,
    cache: &QueryCache,
    accepted: &BTreeSet<String>,
    now: Timestamp,
) -> (Condition<RecommendationType>, bool) {
    let mut is_pending = false;
    let mut reasons = Vec::new();
    let mut texts = Vec::new();
    let mut status = ConditionStatus::True;
    let mut is_accepted = false;
    for risk in &offer.risks {
        let UpdateRisk {
            url, name, message, ..
        } = risk;
        let why = match cache.exposure(risk) {
            Exposure::Clear => continue,
            Exposure::Exposed | Exposure::Unknown(_) | Exposure::Pending
                if accepted.contains(name) =>
            {
                is_accepted = true;
                continue;
            }
            Exposure::Exposed => {
                status = ConditionStatus::False;
                let reason = if is_reason(name) {
                    name
                } else {
                    "ExposedToRisks"
                };
                reasons.push(reason.to_owned());
                texts.push(format!("{message} {url}"));
                continue;
            }
            Exposure::Unknown(why) => why,
            Exposure::Pending => {
                is_pending = true;
                "evaluation is throttled".to_owned()
            }
        };
        if status == ConditionStatus::True {
            status = ConditionStatus::Unknown;
        }
        reasons.push("EvaluationFailed".to_owned());
        texts.push(format!(
            "Could not evaluate exposure to update risk {name} ({why})\n  {name} description: \
             {message}\n  {name} URL: {url}"
        ));
    }
    if status == ConditionStatus::False {
        // A risk that applies weighs more than one that cannot be evaluated.
        let has_strong = reasons.iter().any(|reason| reason != "EvaluationFailed");
        let weak_only = reasons
            .iter()
            .all(|reason| ["EvaluationFailed", "ExposedToRisks"].contains(&reason.as_str()));
        if has_strong && weak_only {
            reasons.retain(|reason| reason == "ExposedToRisks");
        }
    }
    let distinct: BTreeSet<&String> = reasons.iter().collect();
    let (reason, message) = match (distinct.len(), distinct.first()) {
        (1, Some(reason)) => ((*reason).clone(), texts.join("\n\n")),
        (0, _) | (_, None) if is_accepted => (
            ACCEPTED.to_owned(),
            "The update is recommended, because either risk does not apply to this cluster or \
             it is accepted by cluster admins."
                .to_owned(),
        ),
        (0, _) | (_, None) => (
            "NotExposedToRisks".to_owned(),
            "The update is recommended, because none of the conditional update risks apply to \
             this cluster."
                .to_owned(),
        ),
        _ => ("MultipleReasons".to_owned(), texts.join("\n\n")),
    };
    let condition = Condition {
        r#type: RecommendationType::Recommended,
        status,
        last_transition_time: Time(now),
        reason,
        message,
        observed_generation: None,
    };
    (condition, is_pending && status != ConditionStatus::False)
}

#[cfg(test)]
mod tests;
