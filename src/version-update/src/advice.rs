//! What the update service advises: which question it is asked, and what of its answers stays.
//! Values in, values out.

use api::config::{ClusterVersion, Release};
use jiff::{SignedDuration, Timestamp};
use release::Version;
use release::update_graph::{DEFAULT_SERVICE, Offer, Offers, UpdateGraph};

use crate::validation;

/// How long advice stays while the service does not answer.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// Begins what is said of an answer that cannot be had.
const PREFIX: &str = "Unable to retrieve available updates: ";

/// A question to the update service. Another one makes the advice void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Address of the service.
    pub service: String,
    /// Channel.
    pub channel: String,
    /// Architecture.
    pub architecture: String,
    /// Version that runs.
    pub version: Version,
    /// UUID of the cluster.
    pub cluster_id: String,
    /// Whether the cluster is to change to images for several architectures.
    pub is_change_to_multi: bool,
}

/// Why there is no advice: reason and message of `RetrievedUpdates`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAdvice {
    /// For programs.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl NoAdvice {
    fn new(reason: &'static str, message: &str) -> Self {
        let message = message.to_owned();
        Self { reason, message }
    }

    /// The service was asked, and this came of it.
    pub fn of_answer(reason: &'static str, why: &str) -> Self {
        Self::new(reason, &format!("{PREFIX}{why}"))
    }

    /// Whether the service is away: what it said before still counts.
    fn keeps_advice(&self) -> bool {
        ["RemoteFailed", "ResponseFailed", "ResponseInvalid"].contains(&self.reason)
    }
}

/// What was asked last, and what is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// What was asked; none where nothing can be asked.
    pub question: Option<Question>,
    /// When.
    pub attempted: Timestamp,
    /// Why the last attempt yielded nothing.
    pub failure: Option<NoAdvice>,
    /// The last answer, and when it came.
    pub found: Option<(Timestamp, Offers)>,
    /// Whether the service was away since the process started, so that what the process before
    /// received stays in the status.
    pub keeps_status: bool,
}

impl Question {
    /// The question for a cluster that runs `current`.
    ///
    /// # Errors
    /// What is missing for one. Source: `docs/reference/cvo.md`, "Retrieval reasons".
    pub fn of(
        object: &ClusterVersion,
        current: &Release,
        service: Option<&str>,
        architecture: &str,
    ) -> Result<Self, NoAdvice> {
        let spec = &object.spec;
        let service = match (service, spec.upstream.as_str()) {
            (Some(service), _) => service,
            (None, "") => DEFAULT_SERVICE,
            (None, upstream) => upstream,
        };
        if !validation::is_url(service) {
            let text = format!("failed to parse upstream URL: {service:?} is no URL");
            return Err(NoAdvice::new("InvalidURI", &text));
        }
        if let Err(detail) = validation::check_uuid(&spec.cluster_id) {
            let text = format!("invalid cluster ID {:?}: {detail}", spec.cluster_id);
            return Err(NoAdvice::new("InvalidID", &text));
        }
        if current.version.is_empty() {
            let text = "The cluster version does not have a semantic version assigned and cannot \
                        calculate valid upgrades.";
            return Err(NoAdvice::new("NoCurrentVersion", text));
        }
        if spec.channel.is_empty() {
            let text = "The update channel has not been configured.";
            return Err(NoAdvice::new("NoChannel", text));
        }
        let version = current.version.parse().map_err(|error| {
            let text = display::Chain(&error).to_string();
            NoAdvice::new("InvalidCurrentVersion", &text)
        })?;
        let desired = spec.desired_update.as_ref();
        let is_multi = current.architecture == "Multi";
        let wants_multi = desired.is_some_and(|update| update.architecture == "Multi");
        let architecture = if is_multi || wants_multi {
            "multi"
        } else {
            architecture
        };
        Ok(Self {
            service: service.to_owned(),
            channel: spec.channel.clone(),
            architecture: architecture.to_owned(),
            version,
            cluster_id: spec.cluster_id.clone(),
            is_change_to_multi: wants_multi && !is_multi,
        })
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// Why it is none.
    pub fn read(&self, status: http::StatusCode, body: &[u8]) -> Result<Offers, NoAdvice> {
        if status != http::StatusCode::OK {
            let why = format!("unexpected HTTP status: {status}");
            return Err(NoAdvice::of_answer("ResponseFailed", &why));
        }
        let graph = UpdateGraph::parse_for(body, &self.version).map_err(|error| {
            let why = display::Chain(&error).to_string();
            NoAdvice::of_answer("ResponseInvalid", &why)
        })?;
        let Some(mut offers) = graph.offers(&self.version) else {
            let why = format!(
                "currently reconciling cluster version {} not found in the {:?} channel",
                self.version, self.channel
            );
            return Err(NoAdvice::of_answer("VersionNotFound", &why));
        };
        if self.is_change_to_multi {
            offers.offers = vec![Offer {
                version: self.version.clone(),
                node: offers.current.clone(),
                risks: Vec::new(),
            }];
        }
        Ok(offers)
    }
}

impl Advice {
    /// Takes over what came of a question.
    #[must_use]
    pub fn learn(
        before: Option<&Self>,
        question: Result<&Question, NoAdvice>,
        answer: impl FnOnce() -> Result<Offers, NoAdvice>,
        now: Timestamp,
    ) -> Self {
        let question = match question {
            Ok(question) => question,
            Err(failure) => {
                return Self {
                    question: None,
                    attempted: now,
                    failure: Some(failure),
                    found: None,
                    keeps_status: false,
                };
            }
        };
        let (failure, found) = match answer() {
            Ok(offers) => (None, Some((now, offers))),
            Err(failure) => {
                let is_same = |before: &&Self| {
                    let known = before.question.as_ref();
                    known == Some(question)
                };
                let kept = before
                    .filter(is_same)
                    .and_then(|before| before.found.clone());
                let kept = kept.filter(|(since, _)| {
                    failure.keeps_advice() && now.duration_since(*since) < KEPT
                });
                (Some(failure), kept)
            }
        };
        let has_begun = before
            .is_none_or(|before| before.keeps_status && before.question.as_ref() == Some(question));
        let is_away = failure.as_ref().is_some_and(NoAdvice::keeps_advice);
        Self {
            question: Some(question.clone()),
            attempted: now,
            keeps_status: has_begun && is_away && found.is_none(),
            failure,
            found,
        }
    }

    /// Whether the service is to be asked.
    pub fn is_due(&self, question: &Question, interval: SignedDuration, now: Timestamp) -> bool {
        let is_same = self.question.as_ref() == Some(question);
        !is_same || now.duration_since(self.attempted) >= interval
    }

    /// Reason and message of `RetrievedUpdates=False`, with the age of what is kept; none if the
    /// last attempt succeeded.
    pub fn said(&self, now: Timestamp) -> Option<(&'static str, String)> {
        let failure = self.failure.as_ref()?;
        let mut message = failure.message.clone();
        if let Some((since, _)) = &self.found {
            // Whole hours: each other text is a write.
            let age = match now.duration_since(*since).as_hours() {
                0 => "less than 1 h".to_owned(),
                hours => format!("{hours} h"),
            };
            let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
            message = format!("{message}; the advice of {since} stays, which is {age} old");
        }
        Some((failure.reason, message))
    }
}

#[cfg(test)]
mod tests;
