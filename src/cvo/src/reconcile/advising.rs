//! The update service and the cluster's metrics are asked.

use std::net::IpAddr;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use chassis::report::Chain;
use cluster::wire::{self, escape};
use http::header::{ACCEPT, AUTHORIZATION};
use jiff::SignedDuration;
use operator::Next;
use release::update_graph::Offers;
use serde_json::Value;

use super::{VersionOperator, VersionWork};
use crate::advice::{Advice, NoAdvice, Question};
use crate::builder::ClusterProxy;
use crate::fetch::HttpFetcher;
use crate::risk::{self, QueryCache, QueryTurn};
use crate::status;

/// How long the service may take for its answer: less than after what a key counts as stuck.
const ANSWER: Duration = Duration::from_mins(5);

/// Largest answer: one of today has 370 kB.
const ANSWER_MAX_BYTES: usize = 32 << 20;

/// How long a query may take, and its largest answer.
const QUERY: Duration = Duration::from_mins(5);
const QUERY_MAX_BYTES: usize = 1 << 20;

/// Host of the cluster's metrics, by its Service.
const METRICS_HOST: &str = "thanos-querier.openshift-monitoring.svc.cluster.local";
const METRICS_PORT: u16 = 9091;

/// Path of that Service.
const METRICS_SERVICE: &str = "/api/v1/namespaces/openshift-monitoring/services/thanos-querier";

/// What is known of updates.
#[derive(Debug, Clone, Default)]
pub(super) struct Advised {
    pub(super) advice: Option<Advice>,
    pub(super) queries: QueryCache,
}

impl VersionOperator {
    pub(super) fn advised(&self) -> MutexGuard<'_, Advised> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.advised.lock().unwrap_or_else(PoisonError::into_inner)
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
                    let left = interval - now.duration_since(known.attempted);
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
        let fetcher = match HttpFetcher::new(&proxy, bundle.as_deref()) {
            Ok(fetcher) => fetcher,
            Err(error) => return Ok(Err(failed("InvalidRequest", &error))),
        };
        let headers = [(ACCEPT, "application/json".to_owned())];
        let answer = fetcher
            .get(&question.url(), &headers, ANSWER_MAX_BYTES, ANSWER)
            .await;
        Ok(match answer {
            Ok(answer) => question.read(answer.status, &answer.body),
            Err(error) => Err(failed("RemoteFailed", &error)),
        })
    }

    /// Evaluates one query of the risks, if it is time.
    pub(super) async fn evaluate(&self) -> Result<Next, wire::Error> {
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
        let answer = self.sample(&query).await;
        if let Err(why) = &answer {
            tracing::warn!(query, error = why, "cannot evaluate a risk");
        }
        self.advised().queries.store(&query, answer, (self.now)());
        self.waker.wake(vec![VersionWork::Status]);
        Ok(Next::After(Duration::from_secs(1)))
    }

    async fn sample(&self, query: &str) -> Result<bool, String> {
        let settings = &self.settings.advice;
        let read = |path: &std::path::Path| {
            let text = std::fs::read_to_string(path);
            text.map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let bundle = settings.metrics_ca.as_deref().map(read).transpose()?;
        let token = settings.metrics_token.as_deref().map(read).transpose()?;
        let said = |error: &dyn std::error::Error| Chain(error).to_string();
        let fetcher = HttpFetcher::new(&ClusterProxy::default(), bundle.as_deref());
        let mut fetcher = fetcher.map_err(|error| said(&error))?;
        let base = if let Some(base) = &settings.metrics {
            base.clone()
        } else {
            // The host's resolver does not know Services.
            let service: Value = self
                .access
                .get(METRICS_SERVICE)
                .await
                .map_err(|error| said(&error))?;
            let address = service.pointer("/spec/clusterIP").and_then(Value::as_str);
            let address: Option<IpAddr> = address.and_then(|address| address.parse().ok());
            let address = address.ok_or("Service thanos-querier has no clusterIP")?;
            let host = (METRICS_HOST, (address, METRICS_PORT).into());
            fetcher = HttpFetcher::at(host, bundle.as_deref()).map_err(|error| said(&error))?;
            format!("https://{METRICS_HOST}:{METRICS_PORT}")
        };
        let url = format!("{base}/api/v1/query?query={}", escape(query));
        let headers: Vec<_> = token
            .map(|token| (AUTHORIZATION, format!("Bearer {}", token.trim())))
            .into_iter()
            .collect();
        let answer = fetcher.get(&url, &headers, QUERY_MAX_BYTES, QUERY).await;
        let answer = answer.map_err(|error| said(&error))?;
        risk::read_sample(&answer.body).map_err(|why| {
            if answer.status.is_success() {
                why
            } else {
                format!("{}: {why}", answer.status)
            }
        })
    }
}
