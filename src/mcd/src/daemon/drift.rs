//! The drift monitor: finds within a second what is changed by hand on a node at rest.
//!
//! It watches managed files, units and links of enabled units. After a change of one of them
//! `mcd-os` checks the host; what differs is an event, a metric and an input of the state machine.
//! While nothing changes it does nothing.
//!
//! Source: `docs/reference/daemon.md`, "Manual changes".

use std::path::Path;
use std::time::Duration;

use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use host::files::Root;
use host::record;
use host::watch::PathWatch;
use node_update::phase::Event;
use node_update::plan::Expectation;
use node_update::verify::files_and_units;
use node_update::well_known::UNITS;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::agent::{self, Agent};
use super::drift_target::DriftTarget;
use super::events::NodeEvent;
use super::observe;

/// How long after a change the host is checked: an editor writes a file in several steps. The pause
/// is doubled for each further check within [`QUIET`], up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// After this time without a check the next one follows its change soon again.
const QUIET: Duration = Duration::from_secs(30);

/// How long a host that cannot be watched or checked is left before the next try.
const BROKEN: Duration = Duration::from_mins(1);

/// The monitor of one host.
#[derive(Debug)]
pub struct DriftMonitor<'a> {
    agent: &'a Agent,
    watched: watch::Receiver<DriftTarget>,
    inputs: mpsc::Sender<Event>,
}

impl<'a> DriftMonitor<'a> {
    /// A monitor that runs while `watched` names a configuration, and sends what it finds to
    /// `inputs`.
    pub const fn new(
        agent: &'a Agent,
        watched: watch::Receiver<DriftTarget>,
        inputs: mpsc::Sender<Event>,
    ) -> Self {
        Self {
            agent,
            watched,
            inputs,
        }
    }

    /// Runs until the shutdown.
    pub async fn keep(mut self, mut shutdown: Shutdown) {
        tokio::select! {
            () = shutdown.requested() => {}
            () = self.run() => {}
        }
    }

    async fn run(&mut self) {
        let mut reported = 0;
        loop {
            let (config, arrivals) = match self
                .watched
                .wait_for(|watched| watched.config.is_some())
                .await
            {
                Ok(watched) => (watched.config.clone().unwrap_or_default(), watched.arrivals),
                // The process ends.
                Err(_) => return,
            };
            // Clients of OpenShift's MCO look for these words. A daemon that only starts again is
            // no news of the node.
            tracing::info!(config, "Config Drift Monitor started");
            if std::mem::replace(&mut reported, arrivals) != arrivals {
                self.agent
                    .reporter
                    .report(&NodeEvent::drift_monitor_started(&config));
            }
            self.watch(&config).await;
            tracing::info!("Config Drift Monitor has shut down");
            self.agent
                .reporter
                .report(&NodeEvent::drift_monitor_stopped());
        }
    }

    /// Checks the host now and after each change, until another configuration counts.
    async fn watch(&mut self, config: &str) {
        let mut is_drifted = false;
        let mut pause = PAUSE;
        loop {
            self.watched.mark_unchanged();
            let began = Instant::now();
            let Look {
                armed,
                is_record_broken,
                checked,
            } = look(
                &self.agent.root,
                async || self.agent.mend_record().await,
                async || self.agent.find_drift().await,
            )
            .await;
            // What was read of the configuration is not kept.
            chassis::memory::trim_heap();
            if self.is_over(config) {
                // What was seen may be of an update under way.
                return;
            }
            let is_unchecked = checked.is_err();
            match checked {
                Ok(drift) => is_drifted = self.tell(drift, is_drifted).await,
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "cannot check the host for manual changes");
                }
            }
            let changed = async {
                match &armed {
                    // What it is mended from, or checked by, may come back without a change on the
                    // host.
                    Ok(armed) if is_record_broken || is_unchecked => {
                        tokio::select! {
                            _changed = armed.changed() => {}
                            () = sleep(BROKEN) => {}
                        }
                    }
                    Ok(armed) => {
                        if let Err(error) = armed.changed().await {
                            tracing::warn!(error = %Chain(&error), "the watch of the host ended");
                            sleep(BROKEN).await;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(error = %Chain(error), "cannot watch the host's files");
                        sleep(BROKEN).await;
                    }
                }
            };
            tokio::select! {
                biased;
                still = self.watched.changed() => if still.is_err() || self.is_over(config) {
                    return;
                },
                () = changed => {
                    pause = if began.elapsed() > QUIET {
                        PAUSE
                    } else {
                        pause.saturating_mul(2).min(LONGEST_PAUSE)
                    };
                    tokio::select! {
                        biased;
                        still = self.watched.changed() => if still.is_err() || self.is_over(config) {
                            return;
                        },
                        () = sleep_until(Instant::now() + pause) => {}
                    }
                }
            }
        }
    }

    fn is_over(&self, config: &str) -> bool {
        self.watched.borrow().config.as_deref() != Some(config)
    }

    /// Tells what a check found; whether that is a difference.
    async fn tell(&self, drift: Option<String>, was_drifted: bool) -> bool {
        let agent = self.agent;
        agent.metrics.set_drifted(drift.is_some());
        let event = match drift {
            Some(text) => {
                agent.reporter.report(&NodeEvent::drift_detected(&text));
                Event::Drifted(text)
            }
            None if was_drifted => {
                tracing::info!("the host is what its configuration says again");
                Event::Restored
            }
            None => return false,
        };
        let is_drifted = matches!(event, Event::Drifted(_));
        if self.inputs.send(event).await.is_err() {
            tracing::debug!("the loop ended before the monitor");
        }
        is_drifted
    }
}

/// What was found of a host, and the watch for what changes after it.
struct Look {
    armed: Result<PathWatch, Error>,
    /// The record could not be mended: nothing else of the host can be judged without it.
    is_record_broken: bool,
    checked: Result<Option<String>, agent::error::Error>,
}

/// Mends the record and checks the host, under a watch that begins before either reads: a change in
/// between is seen by one of the two. A record that is mended is itself a change, after which all
/// that it names is watched.
async fn look(
    root: &Path,
    mend: impl AsyncFnOnce() -> Option<String>,
    check: impl AsyncFnOnce() -> Result<Option<String>, agent::error::Error>,
) -> Look {
    let armed = arm(root);
    let broken = mend().await;
    let is_record_broken = broken.is_some();
    let checked = match broken {
        Some(text) => Ok(Some(text)),
        None => check().await,
    };
    Look {
        armed,
        is_record_broken,
        checked,
    }
}

/// Watches the host's record, and what it names. A broken one names nothing.
fn arm(root: &Path) -> Result<PathWatch, Error> {
    let root = Root::open(root, None).map_err(observe::Error::from)?;
    let record = record::read(&root).ok().flatten();
    let config = record.and_then(|record| record.machine_config().ok());
    let expected = config.as_ref().map(files_and_units).unwrap_or_default();
    let paths = paths(&expected, &directories_of_links(&root)?);
    Ok(PathWatch::begin(&root, paths.iter().map(String::as_str))?)
}

/// Why the host cannot be watched.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Host(#[from] observe::Error),
    #[error(transparent)]
    Watch(#[from] host::watch::Error),
}

/// The directories that hold links of enabled units.
fn directories_of_links(root: &Root) -> Result<Vec<String>, observe::Error> {
    let mut names = root.list(&root.locate(UNITS)?)?;
    let suffix = |name: &str| name.rsplit_once('.').map(|(_, suffix)| suffix.to_owned());
    names.retain(|name| matches!(suffix(name).as_deref(), Some("wants" | "requires")));
    Ok(names)
}

/// The paths that decide whether expectations hold.
fn paths(expected: &[Expectation], directories: &[String]) -> Vec<String> {
    let mut paths = vec![record::CONFIG.to_owned(), record::IMAGE.to_owned()];
    for expectation in expected {
        match expectation {
            Expectation::File { path, .. } => paths.push(path.clone()),
            Expectation::Masked { unit } => paths.push(format!("{UNITS}/{unit}")),
            Expectation::Enabled { unit, .. } => {
                paths.push(format!("{UNITS}/{unit}"));
                let links = directories
                    .iter()
                    .map(|directory| format!("{UNITS}/{directory}/{unit}"));
                paths.extend(links);
            }
            Expectation::Record { .. }
            | Expectation::KernelArgument { .. }
            | Expectation::Runs { .. }
            | Expectation::Started { .. }
            | Expectation::Active { .. } => {}
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_record_that_goes_while_it_is_read_is_a_change() {
        let host = tempfile::tempdir().unwrap();
        let record = host.path().join(record::CONFIG.trim_start_matches('/'));
        std::fs::create_dir_all(record.parent().unwrap()).unwrap();
        std::fs::File::create(&record).unwrap();
        let found = look(
            host.path(),
            async || {
                std::fs::remove_file(&record).unwrap();
                None
            },
            async || Err(agent::error::Refusal::NoRecord.into()),
        )
        .await;
        assert!(!found.is_record_broken);
        assert!(found.checked.is_err());
        let changed = async { found.armed.unwrap().changed().await };
        tokio::time::timeout(BROKEN, changed)
            .await
            .unwrap()
            .unwrap();
    }
}
