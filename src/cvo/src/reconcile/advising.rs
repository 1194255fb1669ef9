//! The update service and the cluster's metrics are asked.

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
use version_update::advice::{Advice, NoAdvice, Question};
use version_update::advised::Advised;
use version_update::alert;
use version_update::risk::{self, QueryTurn};
use version_update::status;
use version_update::upgradeable::UpgradeRisk;

impl VersionOperator {
    pub(super) fn advised(&self) -> MutexGuard<'_, Advised> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.advised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of updates, with risks that the cluster itself knows, where they count.
    pub(super) fn advised_with(&self, opposition: &[UpgradeRisk], current: &str) -> Advised {
        let loaded = self.loaded();
        let counts = loaded.is_some_and(|loaded| loaded.cluster.gates.contains(alert::GATE));
        let advised = self.advised().clone();
        if counts {
            advised.with_own_risks(opposition, current)
        } else {
            advised
        }
    }

    /// Asks the update service, if it is time.
    pub(super) async fn advise(&self) -> Result<Next, wire::Error> {
        let (Some(object), Some(running)) = (self.object(), self.loaded()) else {
            // The running release wakes this key once it is read.
            return Ok(Next::Settled);
        };
        let current = &running.files.release;
        let settings = &self.settings;
        let service = settings.advice.service.as_deref();
        let question = Question::of(&object, current, service, status::architecture());
        let interval = SignedDuration::try_from(settings.interval).unwrap_or(SignedDuration::MAX);
        let now = (self.now)();
        let before = self.advised().advice.clone();
        let answer = match &question {
            Err(why) => Err(why.clone()),
            Ok(asked) => {
                if let Some(known) = &before
                    && !known.is_due(asked, interval, now)
                {
                    let passed = now.duration_since(known.attempted);
                    let left = interval.saturating_sub(passed);
                    let left = Duration::try_from(left).unwrap_or_default();
                    return Ok(Next::After(left.max(Duration::from_secs(1))));
                }
                self.ask(asked).await?
            }
        };
        if let Err(why) = &answer {
            tracing::info!(reason = why.reason, "no updates: {}", why.message);
        }
        for (version, why) in answer.iter().flat_map(|offers| &offers.dropped) {
            tracing::info!(%version, "not offered: {why}");
        }
        let asked = question.as_ref().map_err(Clone::clone);
        let advice = Advice::learn(before.as_ref(), asked, || answer, (self.now)());
        self.advised().advice = Some(advice);
        self.waker
            .wake(vec![VersionWork::Risks, VersionWork::Status]);
        Ok(Next::After(settings.interval))
    }

    async fn ask(&self, question: &Question) -> Result<Result<Offers, NoAdvice>, wire::Error> {
        let (proxy, bundle) = self.outbound().await?;
        let failed = |reason, error: &dyn std::error::Error| {
            NoAdvice::of_answer(reason, &Chain(error).to_string())
        };
        let version = question.version.to_string();
        let request = GraphRequest {
            service: &question.service,
            architecture: &question.architecture,
            channel: &question.channel,
            cluster: Some((&question.cluster_id, &version)),
        };
        let prepared = outbound::client(&proxy, bundle.as_deref());
        let prepared = prepared.and_then(|client| Ok((client, request.url()?)));
        let (client, url) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(failed("InvalidRequest", &error))),
        };
        Ok(match update_service::graph(&client, &url).await {
            Ok(response) => question.read(response.status, &response.body),
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
        let answer = server.read(&self.access, "/api/v1/alerts").await;
        let page = format!("{}/alerts", server.base());
        let risks = answer.and_then(|answer| alert::risks(&answer.body, &page));
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
            let advice = advised.advice.as_ref();
            let found = advice.and_then(|advice| advice.found.as_ref());
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
        let answer = server.sample(&self.access, &query).await;
        if let Err(why) = &answer {
            tracing::warn!(query, error = why, "cannot evaluate a risk");
        }
        self.advised().queries.store(&query, answer, (self.now)());
        self.waker.wake(vec![VersionWork::Status]);
        Ok(Next::After(Duration::from_secs(1)))
    }
}
