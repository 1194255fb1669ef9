//! The loop that rebuilds the responses, and what is in service meanwhile.

use std::error::Error;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use chassis::health::{ProbeFailure, Probes, Watchdog};
use chassis::memory::trim_heap;
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use jiff::Timestamp;
use update_graph::GraphData;
use update_graph::graph_data::SourceFiles;

use crate::data::DataSource;
use crate::metrics::ServiceMetrics;
use crate::releases::{ReleaseSource, ScrapedReleases};
use crate::responses::GraphResponses;

/// A loop that stands still for so many of its own limits is stuck.
const STUCK: u32 = 3;

/// Why a scrape failed, with its causes; shared by probes and pages.
pub(crate) type ScrapeError = Arc<dyn Error + Send + Sync>;

/// Why there is no graph before a scrape has ended.
#[derive(Debug, thiserror::Error)]
#[error("the first scrape is under way")]
struct FirstScrape;

/// What is in service. A scrape that fails changes only the error.
#[derive(Debug)]
pub struct InService {
    /// With the time at which a scrape last found them to be right.
    responses: RwLock<Option<(Arc<GraphResponses>, Timestamp)>>,
    /// Why the scrape that ended last failed.
    error: RwLock<Option<ScrapeError>>,
    unready_after: Option<Duration>,
    watchdog: Watchdog,
    clock: fn() -> Timestamp,
}

impl InService {
    pub fn new(
        unready_after: Option<Duration>,
        longest: Duration,
        clock: fn() -> Timestamp,
    ) -> Self {
        Self {
            responses: RwLock::default(),
            error: RwLock::default(),
            unready_after,
            watchdog: Watchdog::new(longest * STUCK),
            clock,
        }
    }

    /// The responses, if a scrape has succeeded.
    pub fn responses(&self) -> Option<Arc<GraphResponses>> {
        let responses = self
            .responses
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        responses
            .as_ref()
            .map(|(responses, _)| Arc::clone(responses))
    }

    /// Why there is none, or none newer.
    pub(crate) fn cause(&self) -> ScrapeError {
        let error = self.error.read().unwrap_or_else(PoisonError::into_inner);
        error.clone().unwrap_or_else(|| Arc::new(FirstScrape))
    }

    /// Seconds since a scrape found the responses to be current; 0 where there are none.
    pub fn age(&self) -> i64 {
        let responses = self
            .responses
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let found = responses.as_ref().map(|(_, found)| found.as_second());
        found.map_or(0, |found| ((self.clock)().as_second() - found).max(0))
    }

    pub(crate) fn replace(&self, responses: Arc<GraphResponses>, found: Timestamp) {
        *self
            .responses
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some((responses, found));
        *self.error.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn fail(&self, error: anyhow::Error) {
        let error = Box::<dyn Error + Send + Sync>::from(error);
        *self.error.write().unwrap_or_else(PoisonError::into_inner) = Some(error.into());
    }
}

impl Probes for InService {
    fn healthy(&self) -> Result<(), ProbeFailure> {
        let what = "the scrape";
        let stalled = |since| ProbeFailure::Stalled { what, since };
        self.watchdog.check().map_err(stalled)
    }

    fn ready(&self) -> Result<(), ProbeFailure> {
        let what = "graph";
        if self.responses().is_none() {
            let cause = self.cause();
            return Err(ProbeFailure::NotBuilt { what, cause });
        }
        let age_secs = self.age();
        match self.unready_after {
            Some(limit) if i64::try_from(limit.as_secs()).is_ok_and(|limit| age_secs > limit) => {
                Err(ProbeFailure::Outdated {
                    what,
                    age_secs,
                    cause: self.cause(),
                })
            }
            _ => Ok(()),
        }
    }
}

/// The two sources, and how often they are read.
#[derive(Debug)]
pub struct Scraper {
    pub releases: ReleaseSource,
    pub data: DataSource,
    /// Whether a problem in the graph data fails a scrape.
    pub is_strict: bool,
    /// Time from the end of a scrape to the next.
    pub interval: Duration,
    /// How long one may take.
    pub timeout: Duration,
    /// What the last build was made of, and what it made.
    pub built: Option<BuiltGraphs>,
}

/// A build, by its sources.
#[derive(Debug)]
pub struct BuiltGraphs {
    files: Arc<SourceFiles>,
    scraped: ScrapedReleases,
    responses: Arc<GraphResponses>,
}

/// The responses of a scrape.
enum Scraped {
    /// The sources are those of the build before.
    Unchanged(Arc<GraphResponses>),
    New(BuiltGraphs),
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
                Ok(scraped) => {
                    let responses = match scraped {
                        Scraped::Unchanged(responses) => {
                            tracing::debug!(elapsed_ms, "the sources are unchanged");
                            responses
                        }
                        Scraped::New(built) => {
                            let responses = Arc::clone(&built.responses);
                            let (releases, problems) =
                                (responses.releases.0, responses.problem_count);
                            let rebuilt = responses.rebuilt;
                            tracing::info!(
                                releases,
                                problems,
                                rebuilt,
                                elapsed_ms,
                                "serving a new graph"
                            );
                            metrics.count_rebuilt(rebuilt);
                            self.built = Some(built);
                            responses
                        }
                    };
                    let found = (service.clock)();
                    metrics.count_scrape(elapsed_ms, Some((&responses, found)));
                    service.replace(responses, found);
                }
                Err(error) => {
                    let shown = Chain(error.as_ref());
                    tracing::warn!(error = %shown, elapsed_ms, "the graph before stays in service");
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

    async fn scrape(&mut self, clock: fn() -> Timestamp) -> anyhow::Result<Scraped> {
        let files = self.data.files(clock()).await.context("graph data")?;
        let scraped = self.releases.scrape().await.context("releases")?;
        if let Some(built) = &self.built
            && built.files == files
            && built.scraped == scraped
        {
            return Ok(Scraped::Unchanged(Arc::clone(&built.responses)));
        }
        let is_strict = self.is_strict;
        let before = self
            .built
            .as_ref()
            .map(|built| Arc::clone(&built.responses));
        let work = move || build(files, scraped, is_strict, clock(), before.as_deref());
        let built = tokio::task::spawn_blocking(work).await??;
        Ok(Scraped::New(built))
    }
}

fn build(
    files: Arc<SourceFiles>,
    scraped: ScrapedReleases,
    is_strict: bool,
    made: Timestamp,
    before: Option<&GraphResponses>,
) -> anyhow::Result<BuiltGraphs> {
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
    problems.extend(scraped.problems.iter().cloned());
    let responses = GraphResponses::new(&scraped.releases, &data, &files, problems, made, before);
    Ok(BuiltGraphs {
        responses: Arc::new(responses.context("answers")?),
        files,
        scraped,
    })
}

fn bail_late(timeout: Duration) -> anyhow::Result<Scraped> {
    bail!("a scrape took longer than {} s", timeout.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::releases::KnownRelease;
    use crate::releases::tests::{place, push};
    use crate::responses::tests::responses;

    #[test]
    fn readiness_names_age_and_error() {
        let hour = Some(Duration::from_hours(1));
        let at = || Timestamp::from_second(4000).unwrap();
        let service = InService::new(hour, Duration::from_secs(1), at);
        let ready = || Chain(&service.ready().unwrap_err()).to_string();
        assert_eq!(
            ready(),
            "no graph has been built yet: the first scrape is under way"
        );
        service.fail(anyhow::anyhow!("no registry"));
        assert_eq!(ready(), "no graph has been built yet: no registry");
        service.replace(Arc::new(responses()), Timestamp::UNIX_EPOCH);
        assert_eq!(
            ready(),
            "the graph is 4000 s old: the first scrape is under way"
        );
        service.fail(anyhow::anyhow!("no registry"));
        assert_eq!(ready(), "the graph is 4000 s old: no registry");
        assert!(service.responses().is_some());
    }

    fn built_of(strict: bool, edge: &str) -> anyhow::Result<BuiltGraphs> {
        let files: SourceFiles = [
            ("version", "1.1.0"),
            ("raw/metadata.json", "{}"),
            ("channels/a.yaml", "name: fast-1\nversions: [1.0.0]\n"),
            ("blocked-edges/1.0.0-A.yaml", edge),
        ]
        .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()))
        .into();
        let metadata = release::Metadata::new("1.0.0".parse()?);
        let digest = release::ImageDigest::of(b"");
        let (architecture, repository) = ("amd64".to_owned(), "registry.example/a".into());
        let file = metadata.print().into();
        let release = KnownRelease::new(architecture, &repository, digest, file);
        let scraped = ScrapedReleases {
            releases: vec![Arc::new(release?)],
            problems: Vec::new(),
        };
        build(
            Arc::new(files),
            scraped,
            strict,
            Timestamp::UNIX_EPOCH,
            None,
        )
    }

    #[test]
    fn a_strict_reading_fails_by_problems_and_not_by_remarks() {
        let edge = |name: &str, to: &str| {
            format!(
                "to: {to}\nfrom: .*\nurl: https://a\nname: {name}\nmessage: m\n\
                 matchingRules: [{{type: Always}}]\n"
            )
        };
        assert!(built_of(true, &edge("A", "1.0.0")).is_ok());
        // A name of a risk that is unusual, and a file's name that does not fit.
        let remarks = built_of(true, &edge("a", "1.0.1")).unwrap();
        let listed = remarks.responses.problems.unpack().unwrap();
        let listed = String::from_utf8(listed).unwrap();
        assert!(listed.contains("\"remark\":true"), "{listed}");
        let error = built_of(true, "to: 1.0.0\nfrom: (\n").unwrap_err();
        let expected = "graph data has 1 problems, and graphData.strict is set: blocked-edges/";
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(built_of(false, "to: 1.0.0\nfrom: (\n").is_ok());
    }

    #[tokio::test]
    async fn unchanged_sources_are_not_built_again_and_count_as_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let write = |name: &str, text: &str| {
            let path = path.join("data").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut file = std::fs::File::create(path).unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        };
        write("version", "1.1.0");
        write("raw/metadata.json", "{}");
        write("channels/a.yaml", "name: fast-1\nversions: [1.0.0]\n");
        let stores = images::Stores::new(images::Credentials::default(), false);
        let metadata = release::Metadata::new("1.0.0".parse().unwrap()).print();
        let metadata = String::from_utf8(metadata).unwrap();
        let releases = path.join("releases");
        push(
            &stores,
            &place(&releases, "1.0.0"),
            &[("release-manifests/release-metadata", metadata.as_str())],
            &[(release::RELEASE_LABEL, "1.0.0")],
        )
        .await;
        let settings = crate::settings::ServiceSettings::parse(&format!(
            "releases: {{repository: registry.example/a, directory: {}}}\n\
             graphData: {{directory: {}}}\n",
            releases.display(),
            path.join("data").display()
        ))
        .unwrap();
        let mut scraper = Scraper {
            releases: ReleaseSource::new(settings.releases).unwrap(),
            data: DataSource::new(settings.graph_data.place, stores),
            is_strict: false,
            interval: settings.interval,
            timeout: settings.timeout,
            built: None,
        };
        let early = || Timestamp::from_second(1000).unwrap();
        let Ok(Scraped::New(built)) = scraper.scrape(early).await else {
            unreachable!("the first scrape builds");
        };
        let responses = Arc::clone(&built.responses);
        scraper.built = Some(built);
        let late = || Timestamp::from_second(4000).unwrap();
        let Ok(Scraped::Unchanged(same)) = scraper.scrape(late).await else {
            unreachable!("nothing has changed");
        };
        assert!(Arc::ptr_eq(&same, &responses));
        // The content is of the first scrape, its age of the second.
        let service = InService::new(None, Duration::from_secs(1), late);
        service.replace(responses, late());
        assert_eq!((same.made, service.age()), (early(), 0));
        write("channels/a.yaml", "name: fast-2\nversions: [1.0.0]\n");
        let changed = scraper.scrape(late).await;
        assert!(matches!(changed, Ok(Scraped::New(_))));
    }
}
