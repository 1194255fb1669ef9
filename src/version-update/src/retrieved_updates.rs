//! The request to the update service, and the cached result (24 h). Values in, values out.

use api::config::{ClusterVersion, Release};
use jiff::{SignedDuration, Timestamp};
use release::Version;
use release::update_graph::{DEFAULT_SERVICE, Offer, Offers, UpdateGraph};

use crate::validation;

/// How long the last result stays while the service does not respond.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// Begins the message of a request that failed.
const PREFIX: &str = "Unable to retrieve available updates: ";

/// A request to the update service. Another one makes the cached result void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdatesRequest {
    /// Address of the service.
    pub service: String,
    pub channel: String,
    pub architecture: String,
    /// Version that runs.
    pub version: Version,
    /// UUID of the cluster.
    pub cluster_id: String,
    /// Whether the cluster is to change to images for several architectures.
    pub is_change_to_multi: bool,
}

/// Why updates were not retrieved: reason and message of the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoUpdates {
    pub reason: &'static str,
    pub message: String,
}

impl NoUpdates {
    fn new(reason: &'static str, message: &str) -> Self {
        let message = message.to_owned();
        Self { reason, message }
    }

    /// A request was sent, and failed in this way.
    pub fn of_response(reason: &'static str, why: &str) -> Self {
        Self::new(reason, &format!("{PREFIX}{why}"))
    }

    /// Whether the service is away: its last response still counts.
    fn keeps_updates(&self) -> bool {
        ["RemoteFailed", "ResponseFailed", "ResponseInvalid"].contains(&self.reason)
    }
}

/// The last request, and the cached result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrievedUpdates {
    /// The last request; none where the ClusterVersion allows none.
    pub request: Option<UpdatesRequest>,
    pub attempted: Timestamp,
    /// Why the last attempt yielded nothing.
    pub failure: Option<NoUpdates>,
    /// The last response, and when it came.
    pub found: Option<(Timestamp, Offers)>,
    /// Whether the service was away since the process started, so that what the process before
    /// received stays in the status.
    pub keeps_status: bool,
}

impl UpdatesRequest {
    /// The request for a cluster that runs `current`.
    ///
    /// # Errors
    /// What is missing for one. Source: `docs/reference/cvo.md`, "Retrieval reasons".
    pub fn of(
        object: &ClusterVersion,
        current: &Release,
        service: Option<&str>,
        architecture: &str,
    ) -> Result<Self, NoUpdates> {
        let spec = &object.spec;
        let service = match (service, spec.upstream.as_str()) {
            (Some(service), _) => service,
            (None, "") => DEFAULT_SERVICE,
            (None, upstream) => upstream,
        };
        if !validation::is_url(service) {
            let text = format!("failed to parse upstream URL: {service:?} is no URL");
            return Err(NoUpdates::new("InvalidURI", &text));
        }
        if let Err(detail) = validation::check_uuid(&spec.cluster_id) {
            let text = format!("invalid cluster ID {:?}: {detail}", spec.cluster_id);
            return Err(NoUpdates::new("InvalidID", &text));
        }
        if current.version.is_empty() {
            let text = "The cluster version does not have a semantic version assigned and cannot \
                        calculate valid upgrades.";
            return Err(NoUpdates::new("NoCurrentVersion", text));
        }
        if spec.channel.is_empty() {
            let text = "The update channel has not been configured.";
            return Err(NoUpdates::new("NoChannel", text));
        }
        let version = current.version.parse().map_err(|error| {
            let text = display::Chain(&error).to_string();
            NoUpdates::new("InvalidCurrentVersion", &text)
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

    /// Reads a response.
    ///
    /// # Errors
    /// Why it has no updates.
    pub fn read(&self, status: http::StatusCode, body: &[u8]) -> Result<Offers, NoUpdates> {
        if status != http::StatusCode::OK {
            let why = format!("unexpected HTTP status: {status}");
            return Err(NoUpdates::of_response("ResponseFailed", &why));
        }
        let graph = UpdateGraph::parse_for(body, &self.version).map_err(|error| {
            let why = display::Chain(&error).to_string();
            NoUpdates::of_response("ResponseInvalid", &why)
        })?;
        let Some(mut offers) = graph.offers(&self.version) else {
            let why = format!(
                "currently reconciling cluster version {} not found in the {:?} channel",
                self.version, self.channel
            );
            return Err(NoUpdates::of_response("VersionNotFound", &why));
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

impl RetrievedUpdates {
    /// The result after a request, where `before` is the one so far.
    #[must_use]
    pub fn next(
        before: Option<&Self>,
        request: Result<&UpdatesRequest, NoUpdates>,
        response: impl FnOnce() -> Result<Offers, NoUpdates>,
        now: Timestamp,
    ) -> Self {
        let request = match request {
            Ok(request) => request,
            Err(failure) => {
                return Self {
                    request: None,
                    attempted: now,
                    failure: Some(failure),
                    found: None,
                    keeps_status: false,
                };
            }
        };
        let (failure, found) = match response() {
            Ok(offers) => (None, Some((now, offers))),
            Err(failure) => {
                let is_same = |before: &&Self| {
                    let last = before.request.as_ref();
                    last == Some(request)
                };
                let kept = before
                    .filter(is_same)
                    .and_then(|before| before.found.clone());
                let kept = kept.filter(|(since, _)| {
                    failure.keeps_updates() && now.duration_since(*since) < KEPT
                });
                (Some(failure), kept)
            }
        };
        let has_begun = before
            .is_none_or(|before| before.keeps_status && before.request.as_ref() == Some(request));
        let is_away = failure.as_ref().is_some_and(NoUpdates::keeps_updates);
        Self {
            request: Some(request.clone()),
            attempted: now,
            keeps_status: has_begun && is_away && found.is_none(),
            failure,
            found,
        }
    }

    /// Whether a request is due.
    pub fn is_due(
        &self,
        request: &UpdatesRequest,
        interval: SignedDuration,
        now: Timestamp,
    ) -> bool {
        let is_same = self.request.as_ref() == Some(request);
        !is_same || now.duration_since(self.attempted) >= interval
    }

    /// Reason and message of `RetrievedUpdates=False`, with the age of what is kept; none if the
    /// last attempt succeeded.
    pub fn message(&self, now: Timestamp) -> Option<(&'static str, String)> {
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
