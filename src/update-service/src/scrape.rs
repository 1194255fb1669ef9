//! The loop that makes answers anew, and what is in service meanwhile.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use chassis::health::{Probes, Watchdog};
use chassis::memory::trim_heap;
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use jiff::Timestamp;
use update_graph::GraphData;

use crate::answers::Answers;
use crate::data::DataSource;
use crate::metrics::ServiceMetrics;
use crate::releases::ReleaseSource;

/// A loop that stands still for so many of its own limits is stuck.
const STUCK: u32 = 3;

/// What is in service. A scrape that fails changes only the error.
#[derive(Debug)]
pub struct InService {
    answers: RwLock<Option<Arc<Answers>>>,
    /// Why the scrape that ended last failed.
    error: RwLock<Option<String>>,
    unready_after: Option<Duration>,
    watchdog: Watchdog,
    clock: fn() -> Timestamp,
}

impl InService {
    /// Nothing yet.
    pub fn new(
        unready_after: Option<Duration>,
        longest: Duration,
        clock: fn() -> Timestamp,
    ) -> Self {
        Self {
            answers: RwLock::default(),
            error: RwLock::default(),
            unready_after,
            watchdog: Watchdog::new(longest * STUCK),
            clock,
        }
    }

    /// The answers, if a scrape has succeeded.
    pub fn answers(&self) -> Option<Arc<Answers>> {
        self.answers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Why there is none, or none newer.
    pub fn error(&self) -> Option<String> {
        self.error
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Seconds since the answers were made.
    pub fn age(&self, answers: &Answers) -> i64 {
        ((self.clock)().as_second() - answers.made.as_second()).max(0)
    }

    pub(crate) fn replace(&self, answers: Arc<Answers>) {
        *self.answers.write().unwrap_or_else(PoisonError::into_inner) = Some(answers);
        *self.error.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn fail(&self, error: String) {
        *self.error.write().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

impl Probes for InService {
    fn healthy(&self) -> Result<(), String> {
        let stuck = |since: Duration| format!("the scrape stands still for {} s", since.as_secs());
        self.watchdog.check().map_err(stuck)
    }

    fn ready(&self) -> Result<(), String> {
        let why = || {
            self.error()
                .unwrap_or_else(|| "the first scrape is under way".to_owned())
        };
        let Some(answers) = self.answers() else {
            return Err(format!("no graph has been built yet: {}", why()));
        };
        let age = self.age(&answers);
        match self.unready_after {
            Some(limit) if i64::try_from(limit.as_secs()).is_ok_and(|limit| age > limit) => {
                Err(format!("the graph is {age} s old: {}", why()))
            }
            _ => Ok(()),
        }
    }
}

/// The two sources, and how often they are read.
#[derive(Debug)]
pub struct Scraper {
    /// Releases.
    pub releases: ReleaseSource,
    /// Graph data.
    pub data: DataSource,
    /// Whether a problem in the graph data fails a scrape.
    pub is_strict: bool,
    /// Time from the end of a scrape to the next.
    pub interval: Duration,
    /// How long one may take.
    pub timeout: Duration,
}

impl Scraper {
    /// Scrapes until the shutdown.
    pub async fn run(
        mut self,
        service: Arc<InService>,
        metrics: Arc<ServiceMetrics>,
        mut shutdown: Shutdown,
    ) {
        loop {
            service.watchdog.beat();
            let began = Instant::now();
            let timeout = self.timeout;
            let made = tokio::select! {
                () = shutdown.requested() => return,
                made = tokio::time::timeout(timeout, self.scrape(service.clock)) => made,
            };
            let made = made.unwrap_or_else(|_| bail_late(timeout));
            let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            match made {
                Ok(answers) => {
                    let (releases, problems) = (answers.releases.0, answers.problem_count);
                    tracing::info!(releases, problems, elapsed_ms, "serving a new graph");
                    metrics.count_scrape(elapsed_ms, Some(&answers));
                    service.replace(Arc::new(answers));
                }
                Err(error) => {
                    let error = Chain(error.as_ref()).to_string();
                    tracing::warn!(%error, elapsed_ms, "the graph before stays in service");
                    metrics.count_scrape(elapsed_ms, None);
                    service.fail(error);
                }
            }
            trim_heap();
            service.watchdog.beat();
            tokio::select! {
                () = shutdown.requested() => return,
                () = tokio::time::sleep(self.interval) => {}
            }
        }
    }

    async fn scrape(&mut self, clock: fn() -> Timestamp) -> anyhow::Result<Answers> {
        let files = self.data.files().await.context("graph data")?;
        let scraped = self.releases.scrape().await.context("releases")?;
        let is_strict = self.is_strict;
        let made = tokio::task::spawn_blocking(move || {
            let (data, mut problems) = GraphData::parse(&files).context("graph data")?;
            let mut errors = problems.iter().filter(|problem| !problem.is_remark);
            if is_strict && let Some(first) = errors.next() {
                bail!(
                    "graph data has {} problems, and graphData.strict is set: {first}",
                    errors.count() + 1
                );
            }
            if scraped.releases.is_empty() {
                let first = scraped.problems.first().map(ToString::to_string);
                bail!("releases: there is none: {}", first.unwrap_or_default());
            }
            problems.extend(scraped.problems);
            Answers::new(&scraped.releases, &data, &files, problems, clock()).context("answers")
        });
        made.await?
    }
}

fn bail_late(timeout: Duration) -> anyhow::Result<Answers> {
    bail!("a scrape took longer than {} s", timeout.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::tests::answers;

    #[test]
    fn readiness_names_age_and_error() {
        let hour = Some(Duration::from_hours(1));
        let at = || Timestamp::from_second(4000).unwrap();
        let service = InService::new(hour, Duration::from_secs(1), at);
        assert!(
            service
                .ready()
                .unwrap_err()
                .contains("the first scrape is under way")
        );
        service.fail("no registry".to_owned());
        assert_eq!(
            service.ready().unwrap_err(),
            "no graph has been built yet: no registry"
        );
        service.replace(Arc::new(answers()));
        assert!(
            service
                .ready()
                .unwrap_err()
                .starts_with("the graph is 4000 s old")
        );
        service.fail("no registry".to_owned());
        assert_eq!(
            service.ready().unwrap_err(),
            "the graph is 4000 s old: no registry"
        );
        assert!(service.answers().is_some());
    }
}
