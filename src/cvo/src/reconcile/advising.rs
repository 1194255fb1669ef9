//! Requests to the update service and to the cluster's metrics.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use chassis::report::Chain;
use cluster::wire;
use jiff::SignedDuration;
use operator::Next;
use release::update_graph::Offers;
use web::update_service::{self, GraphRequest};

use super::{VersionOperator, VersionWork};
use crate::outbound;
use version_update::advised::Advised;
use version_update::alert;
use version_update::retrieved_updates::{NoUpdates, RetrievedUpdates, UpdatesRequest};
use version_update::risk::{self, QueryTurn};
use version_update::status;
use version_update::upgradeable::UpgradeRisk;

impl VersionOperator {
    pub(super) fn advised(&self) -> MutexGuard<'_, Advised> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.advised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates and their risks, with those that the cluster itself has, where they count.
    pub(super) fn advised_with(&self, upgradeable_risks: &[UpgradeRisk], current: &str) -> Advised {
        let loaded = self.loaded();
        let counts = loaded.is_some_and(|loaded| loaded.cluster.gates.contains(alert::GATE));
        let advised = self.advised().clone();
        if counts {
            advised.with_own_risks(upgradeable_risks, current)
        } else {
            advised
        }
    }

    /// Sends the request to the update service, if it is time.
    pub(super) async fn retrieve_updates(&self) -> Result<Next, wire::Error> {
        let (Some(object), Some(running)) = (self.object(), self.loaded()) else {
            // The running release wakes this key once it is read.
            return Ok(Next::Settled);
        };
        let current = &running.files.release;
        let settings = &self.settings;
        let service = settings.advice.service.as_deref();
        let request = UpdatesRequest::of(&object, current, service, status::architecture());
        let interval = SignedDuration::try_from(settings.interval).unwrap_or(SignedDuration::MAX);
        let now = (self.now)();
        let before = self.advised().updates.clone();
        let offers = match &request {
            Err(why) => Err(why.clone()),
            Ok(request) => {
                if let Some(last) = &before
                    && !last.is_due(request, interval, now)
                {
                    let passed = now.duration_since(last.attempted);
                    let left = interval.saturating_sub(passed);
                    let left = Duration::try_from(left).unwrap_or_default();
                    return Ok(Next::After(left.max(Duration::from_secs(1))));
                }
                self.ask(request).await?
            }
        };
        if let Err(why) = &offers {
            tracing::info!(reason = why.reason, "no updates: {}", why.message);
        }
        for (version, why) in offers.iter().flat_map(|offers| &offers.dropped) {
            tracing::info!(%version, "not offered: {why}");
        }
        let request = request.as_ref().map_err(Clone::clone);
        let updates = RetrievedUpdates::next(before.as_ref(), request, || offers, (self.now)());
        self.advised().updates = Some(updates);
        self.waker
            .wake(vec![VersionWork::Risks, VersionWork::Status]);
        Ok(Next::After(settings.interval))
    }

    async fn ask(&self, wanted: &UpdatesRequest) -> Result<Result<Offers, NoUpdates>, wire::Error> {
        let (proxy, bundle) = self.outbound().await?;
        let failed = |reason, error: &dyn std::error::Error| {
            NoUpdates::of_response(reason, &Chain(error).to_string())
        };
        let version = wanted.version.to_string();
        let request = GraphRequest {
            service: &wanted.service,
            architecture: &wanted.architecture,
            channel: &wanted.channel,
            cluster: Some((&wanted.cluster_id, &version)),
        };
        let prepared = outbound::client(&proxy, bundle.as_deref());
        let prepared = prepared.and_then(|client| Ok((client, request.url()?)));
        let (client, url) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(failed("InvalidRequest", &error))),
        };
        Ok(match update_service::graph(&client, &url).await {
            Ok(response) => wanted.read(response.status, &response.body),
            Err(error) => Err(failed("RemoteFailed", &error)),
        })
    }

    /// Reads alerts, where they are risks and it is time. When it is again.
    async fn read_alerts(&self) -> Option<Duration> {
        let loaded = self.loaded()?;
        if !loaded.cluster.gates.contains(alert::GATE) {
            self.advised().alerts = None;
            return None;
        }
        let interval = self.settings.interval;
        let now = (self.now)();
        let read = self.advised().alerts.as_ref().map(|(at, _)| *at);
        let age = read.map(|at| Duration::try_from(now.duration_since(at)).unwrap_or_default());
        if let Some(left) = age.and_then(|age| interval.checked_sub(age)) {
            return Some(left.max(Duration::from_secs(1)));
        }
        let server = &self.settings.advice.metrics;
        let response = server.read(&self.access, "/api/v1/alerts").await;
        let page = format!("{}/alerts", server.base());
        let risks = response.map_err(|error| Chain(&error).to_string());
        let risks = risks.and_then(|response| {
            let risks = alert::risks(&response.body, &page);
            risks.map_err(|error| Chain(&error).to_string())
        });
        let risks = risks.unwrap_or_else(|why| {
            tracing::warn!(error = why, "cannot read alerts");
            vec![alert::unknown(&why, &page)]
        });
        self.advised().alerts = Some(((self.now)(), risks));
        self.waker.wake(vec![VersionWork::Status]);
        Some(interval)
    }

    /// Reads alerts and evaluates one query of the risks, if it is time.
    pub(super) async fn evaluate(&self) -> Result<Next, wire::Error> {
        let alerts = self.read_alerts().await;
        Ok(match (self.evaluate_query().await?, alerts) {
            (Next::Settled, Some(again)) => Next::After(again),
            (Next::After(query), Some(again)) => Next::After(query.min(again)),
            (next, _) => next,
        })
    }

    /// Evaluates one query, if it is time.
    async fn evaluate_query(&self) -> Result<Next, wire::Error> {
        let turn = {
            let advised = self.advised();
            let updates = advised.updates.as_ref();
            let found = updates.and_then(|updates| updates.found.as_ref());
            let wanted = found.map_or_else(Vec::new, |(_, offers)| risk::queries(offers));
            advised.queries.turn(&wanted, (self.now)())
        };
        let query = match turn {
            QueryTurn::Nothing => return Ok(Next::Settled),
            QueryTurn::Wait(wait) => {
                let wait = Duration::try_from(wait).unwrap_or_default();
                return Ok(Next::After(wait));
            }
            QueryTurn::Ask(query) => query,
        };
        let server = &self.settings.advice.metrics;
        let result = server.sample(&self.access, &query).await;
        let result = result.map_err(|error| Chain(&error).to_string());
        if let Err(why) = &result {
            tracing::warn!(query, error = why, "cannot evaluate a risk");
        }
        self.advised().queries.store(&query, result, (self.now)());
        self.waker.wake(vec![VersionWork::Status]);
        Ok(Next::After(Duration::from_secs(1)))
    }
}
