//! Running `mcd-os` on the host: each verb in a transient unit, so that it outlives this pod.
//!
//! - `programs`: how it gets there

mod programs;

use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chassis::report::Chain;
use host::files::{self, Content, Found, Root};
use host::process::proxy_environment;
use host::systemd::{self, Job, SystemdClient, Variant};
use node_update::plan::{Attempt, Mode, OwnerIds};
use node_update::well_known::PROXY_ENVIRONMENT;
use tokio::time::{Instant, sleep};

use crate::program;
use crate::protocol::{HelperReport, Verb, VerbName};

/// Where the helper leaves its reports; gone with the boot.
const REPORTS: &str = "/run/slipway";

/// Proxy settings for the helper; only root reads it. Gone with the boot.
const PROXY_FILE: &str = "/run/slipway/proxy.env";

/// How often a report is looked for, and until when: often at first, as most verbs take a tenth of
/// a second and a live change waits for several.
const QUICK: [(Duration, Duration); 2] = [
    (Duration::from_millis(5), Duration::from_millis(500)),
    (Duration::from_millis(20), Duration::from_secs(2)),
];

/// How often it is looked for after that.
const PACE: Duration = Duration::from_millis(250);

/// How often systemd is queried whether the unit still runs: one that was killed leaves no report.
const UNIT_PACE: Duration = Duration::from_secs(2);

/// Why the helper could not be run, or left no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program cannot be read in this image.
    #[error("cannot read the program {path}")]
    Binary {
        /// Its path in the image.
        path: PathBuf,
        source: io::Error,
    },
    /// A file on the host.
    #[error("cannot put a program on the host")]
    Host(#[from] files::Error),
    /// systemd refuses the unit.
    #[error("cannot run {unit}")]
    Unit {
        unit: String,
        source: systemd::Error,
    },
    /// The unit ended without a report: killed, or not even started.
    #[error("{unit} ended without a report: {result}")]
    NoReport {
        unit: String,
        /// systemd's `Result`.
        result: String,
    },
    /// The report is not one.
    #[error("cannot understand the report of {unit}")]
    Report {
        unit: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// How long a fetch or a rehearsal may take. A registry that says nothing any more ends here, and
/// is read again. Whole layers of a native image are kept; one with a repository inside starts
/// over.
const LOW_LIMIT: Duration = Duration::from_hours(1);

/// Where a fetch before the node's turn reads how fast it may be; gone with the boot.
pub const FETCH_LIMIT: &str = "/run/slipway/fetch-limit";

/// Bytes for which a fetch has the time that they take at its rate, beside [`LOW_LIMIT`]: more than
/// a compressed OS image has.
const LARGEST_IMAGE: u64 = 16 << 30;

/// How urgent a verb is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// The node is out of service, or it takes no time.
    Normal,
    Low,
    /// The same, and nothing waits for it.
    Idle {
        /// Most bytes a second that a fetch takes, by the file [`FETCH_LIMIT`].
        bytes_per_second: Option<NonZeroU64>,
    },
}

impl Priority {
    /// How long a verb may take.
    fn deadline(self) -> Option<Duration> {
        match self {
            Self::Normal => None,
            Self::Low
            | Self::Idle {
                bytes_per_second: None,
            } => Some(LOW_LIMIT),
            Self::Idle {
                bytes_per_second: Some(rate),
            } => Some(LOW_LIMIT + Duration::from_secs(LARGEST_IMAGE / rate)),
        }
    }
}

/// `mcd-os` on one host.
#[derive(Debug)]
pub struct Helper {
    /// Where the host's root is mounted.
    root: PathBuf,
    /// Path of the helper on the host.
    binary: String,
}

impl Helper {
    /// Puts the helper of this image on the host, named by its digest. One that is there already
    /// stays untouched, and running ones of other versions go on. Beside it is the daemon's program
    /// `own`, for administrators. Programs of other versions that the units of the guard do not run
    /// are removed.
    ///
    /// # Errors
    /// [`Error::Binary`], [`Error::Host`].
    pub fn install(root: &Path, image: &Path, own: &Path) -> Result<Self, Error> {
        let binary = programs::install(root, image, own)?;
        Ok(Self {
            root: root.to_owned(),
            binary,
        })
    }

    /// Puts the helper of this image on the host, and nothing else.
    ///
    /// # Errors
    /// [`Error::Binary`], [`Error::Host`].
    pub fn place(root: &Path, image: &Path) -> Result<Self, Error> {
        let binary = programs::place_helper(root, image)?;
        Ok(Self {
            root: root.to_owned(),
            binary,
        })
    }

    /// Runs a verb to its end and reads its report. One that runs already, as this pod was
    /// restarted, is waited for.
    ///
    /// Shape: the unit is `slipway-<verb>-<attempt>.service`; dropping the future leaves it
    /// running, see [`Self::stop`].
    ///
    /// # Errors
    /// [`Error::Unit`], [`Error::NoReport`], [`Error::Report`].
    pub async fn run(
        &self,
        verb: &Verb,
        attempt: &Attempt,
        priority: Priority,
    ) -> Result<HelperReport, Error> {
        let name = verb.name();
        let unit = unit_name(name, attempt);
        let report = format!("{REPORTS}/{name}-{}.json", attempt.0);
        let failed = |source| Error::Unit {
            unit: unit.clone(),
            source,
        };
        let systemd = self.systemd().await.map_err(failed)?;
        if is_running(&systemd, &unit).await.map_err(failed)? {
            tracing::info!(unit, "waiting for the unit that runs already");
        } else {
            let host = Root::open(&self.root, None)?;
            host.remove(&host.locate(&report)?)?;
            systemd.reset_failed(&unit).await.map_err(failed)?;
            let words = verb.to_arguments();
            let mut command = vec![self.binary.as_str(), "--report", &report];
            command.extend(words.iter().map(String::as_str));
            let proxy = proxy_file(&self.root, &proxy_environment())?;
            let properties = properties(&unit, &command, priority, proxy);
            systemd
                .start_transient(&unit, &properties)
                .await
                .map_err(failed)?;
            tracing::info!(unit, "started");
        }
        let deadline = priority.deadline();
        self.await_report(&systemd, &unit, &report, deadline).await
    }

    /// Says how many bytes a second a fetch before the node's turn may take, also to one that is
    /// under way.
    ///
    /// # Errors
    /// [`Error::Host`].
    pub fn limit_fetch(&self, bytes_per_second: Option<NonZeroU64>) -> Result<(), Error> {
        let host = Root::open(&self.root, None)?;
        let at = host.locate(FETCH_LIMIT)?;
        let Some(limit) = bytes_per_second else {
            return Ok(host.remove(&at)?);
        };
        let text = limit.to_string();
        let content = Content {
            bytes: text.as_bytes(),
            mode: Mode(0o600),
            owner: OwnerIds::ROOT,
        };
        Ok(host.replace(&at, content)?)
    }

    /// Stops the unit of a verb, if it runs.
    ///
    /// # Errors
    /// [`Error::Unit`].
    pub async fn stop(&self, verb: VerbName, attempt: &Attempt) -> Result<(), Error> {
        let unit = unit_name(verb, attempt);
        let stop = async {
            let systemd = self.systemd().await?;
            if is_running(&systemd, &unit).await? {
                tracing::info!(unit, "stopping");
                systemd.run(Job::Stop, &unit).await?;
            }
            Ok(())
        };
        stop.await.map_err(|source| Error::Unit {
            unit: unit.clone(),
            source,
        })
    }

    /// Stops the helper that a previous daemon left running with one of these verbs: no caller
    /// waits for it any more, and it locks the host.
    ///
    /// # Errors
    /// [`Error::Unit`].
    pub async fn stop_left(&self, verbs: &[VerbName]) -> Result<(), Error> {
        let patterns = patterns(verbs);
        let stop = async {
            let systemd = self.systemd().await?;
            for unit in systemd.running(&patterns).await? {
                tracing::info!(unit, "stopping what the daemon before left running");
                systemd.run(Job::Stop, &unit).await?;
            }
            Ok(())
        };
        stop.await.map_err(|source| Error::Unit {
            unit: patterns.join(" "),
            source,
        })
    }

    /// A unit that runs one of these verbs, whichever daemon started it.
    ///
    /// # Errors
    /// [`Error::Unit`].
    pub async fn running(&self, verbs: &[VerbName]) -> Result<Option<String>, Error> {
        let patterns = patterns(verbs);
        let running = async { self.systemd().await?.running(&patterns).await };
        let running = running.await.map_err(|source| Error::Unit {
            unit: patterns.join(" "),
            source,
        })?;
        Ok(running.into_iter().next())
    }

    /// A connection to the host's systemd. It is opened for each use: an idle daemon holds none.
    ///
    /// # Errors
    /// [`systemd::Error::Connect`].
    pub async fn systemd(&self) -> Result<SystemdClient, systemd::Error> {
        SystemdClient::connect(Some(&self.root.join("run/dbus/system_bus_socket"))).await
    }

    async fn await_report(
        &self,
        systemd: &SystemdClient,
        unit: &str,
        report: &str,
        deadline: Option<Duration>,
    ) -> Result<HelperReport, Error> {
        let began = Instant::now();
        let mut checked = began;
        loop {
            if let Some(report) = self.take_report(unit, report)? {
                return Ok(report);
            }
            if checked.elapsed() > UNIT_PACE {
                checked = Instant::now();
                let running = is_running(systemd, unit).await;
                if let Ok(false) = running {
                    // It may have ended between the two looks.
                    return match self.take_report(unit, report)? {
                        Some(report) => Ok(report),
                        None => Err(Error::NoReport {
                            unit: unit.to_owned(),
                            result: match deadline.filter(|it| began.elapsed() >= *it) {
                                Some(deadline) => {
                                    format!("not through after {} min", deadline.as_secs() / 60)
                                }
                                None => result(systemd, unit).await,
                            },
                        }),
                    };
                }
                if let Err(error) = running {
                    // The bus may be restarting; the report still comes.
                    tracing::debug!(unit, error = %Chain(&error), "cannot ask for the unit");
                }
            }
            sleep(pace(began.elapsed())).await;
        }
    }

    /// Reads the report and removes it: `/run` is memory, and names are not used twice.
    fn take_report(&self, unit: &str, report: &str) -> Result<Option<HelperReport>, Error> {
        let host = Root::open(&self.root, None)?;
        match host.inspect(report)? {
            Found::File { bytes, .. } => {
                let read = serde_json::from_slice(&bytes).map_err(|source| Error::Report {
                    unit: unit.to_owned(),
                    source,
                })?;
                host.remove(&host.locate(report)?)?;
                Ok(Some(read))
            }
            Found::Nothing | Found::Link(_) | Found::Directory { .. } | Found::Other => Ok(None),
        }
    }
}

/// How long is waited between two looks for a report, `elapsed` after its unit was started.
fn pace(elapsed: Duration) -> Duration {
    let quick = QUICK.into_iter().find(|(_, until)| elapsed < *until);
    quick.map_or(PACE, |(pace, _)| pace)
}

fn unit_name(verb: VerbName, attempt: &Attempt) -> String {
    format!("slipway-{verb}-{}.service", attempt.0)
}

/// Shell patterns of the units that run one of these verbs.
fn patterns(verbs: &[VerbName]) -> Vec<String> {
    let any = Attempt("*".to_owned());
    verbs.iter().map(|verb| unit_name(*verb, &any)).collect()
}

fn properties<'a>(
    unit: &'a str,
    command: &[&'a str],
    priority: Priority,
    proxy: ProxyFile,
) -> Vec<systemd::Property<'a>> {
    let path = command.first().copied().unwrap_or_default();
    let exec = vec![(path, command.to_vec(), false)];
    let mut properties = vec![
        ("Description", Variant::from(unit)),
        // The start job lasts as long as the process: systemd waits for it when it shuts down in
        // order.
        ("Type", Variant::from("oneshot")),
        ("ExecStart", Variant::from(exec)),
        // Forgotten at its end, also after a failure: the report says all.
        ("CollectMode", Variant::from("inactive-or-failed")),
        ("SyslogIdentifier", Variant::from(program::NAME)),
        // A file, because every user of the host can read the properties of a unit.
        ("EnvironmentFiles", Variant::from(vec![proxy])),
    ];
    // Nice, class and priority of I/O; skopeo inherits them. Best effort, lowest: the node's own
    // work comes first. Idle: the disk is left to all others.
    let scheduling = match priority {
        Priority::Normal => None,
        Priority::Low => Some((10_i32, 2_i32, 7_i32)),
        Priority::Idle { .. } => Some((19, 3, 7)),
    };
    if let Some(deadline) = priority.deadline() {
        let micros = u64::try_from(deadline.as_micros()).unwrap_or(u64::MAX);
        properties.push(("TimeoutStartUSec", Variant::from(micros)));
    }
    if let Some((nice, class, level)) = scheduling {
        properties.push(("Nice", Variant::from(nice)));
        properties.push(("IOSchedulingClass", Variant::from(class)));
        properties.push(("IOSchedulingPriority", Variant::from(level)));
    }
    properties
}

/// An environment file of a unit, and whether it may be missing.
type ProxyFile = (&'static str, bool);

/// The file with the proxy settings for the helper: the daemon's own, which are the cluster's; else
/// those of the host. Of both, systemd would take the host's, which may be older.
fn proxy_file(root: &Path, settings: &[(String, String)]) -> Result<ProxyFile, Error> {
    if !names_a_proxy(settings) {
        return Ok((PROXY_ENVIRONMENT, true));
    }
    let host = Root::open(root, None)?;
    let line = |(name, value): &(String, String)| format!("{name}=\"{}\"\n", escaped(value));
    let text = settings.iter().map(line).collect::<Vec<_>>().concat();
    let content = Content {
        bytes: text.as_bytes(),
        mode: Mode(0o600),
        owner: OwnerIds::ROOT,
    };
    host.replace(&host.locate(PROXY_FILE)?, content)?;
    Ok((PROXY_FILE, false))
}

/// A value as it stands between double quotes in an environment file.
///
/// Source: systemd.exec(5), `EnvironmentFile=`.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '"' | '\\' | '`' | '$') {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// Whether settings lead to a proxy: not where they are empty, or only say what needs none.
fn names_a_proxy(settings: &[(String, String)]) -> bool {
    settings
        .iter()
        .any(|(name, value)| !value.is_empty() && !name.eq_ignore_ascii_case("no_proxy"))
}

async fn is_running(systemd: &SystemdClient, unit: &str) -> Result<bool, systemd::Error> {
    let state = systemd.unit_property(unit, "ActiveState").await?;
    Ok(systemd::RUNNING.contains(&state.as_str()))
}

async fn result(systemd: &SystemdClient, unit: &str) -> String {
    let read = systemd.property::<String>(unit, "org.freedesktop.systemd1.Service", "Result");
    // A unit that is collected already has no result any more: systemd says what it says of any
    // that did not run.
    read.await
        .ok()
        .filter(|result| result != "success")
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_lead_to_a_proxy_where_they_name_one() {
        let settings = |pairs: &[(&str, &str)]| {
            let owned = pairs
                .iter()
                .map(|&(name, value)| (name.into(), value.into()));
            owned.collect::<Vec<(String, String)>>()
        };
        assert!(!names_a_proxy(&[]));
        assert!(!names_a_proxy(&settings(&[
            ("NO_PROXY", ".svc"),
            ("HTTP_PROXY", "")
        ])));
        assert!(names_a_proxy(&settings(&[
            ("NO_PROXY", ".svc"),
            ("https_proxy", "http://proxy:3128")
        ])));
    }

    #[test]
    fn a_limited_fetch_has_the_time_that_its_rate_needs() {
        let idle = |rate| Priority::Idle {
            bytes_per_second: NonZeroU64::new(rate),
        };
        let hour = Duration::from_hours(1);
        assert_eq!(Priority::Normal.deadline(), None);
        assert_eq!(Priority::Low.deadline(), Some(hour));
        assert_eq!(idle(0).deadline(), Some(hour));
        let day = Duration::from_secs((16 << 30) / (200 << 10));
        assert_eq!(idle(200 << 10).deadline(), Some(hour + day));
        let file = (PROXY_ENVIRONMENT, true);
        let properties = properties("x.service", &["/x"], idle(200 << 10), file);
        let timeout = properties
            .iter()
            .find(|(name, _)| *name == "TimeoutStartUSec");
        let micros = u64::try_from((hour + day).as_micros()).unwrap();
        assert_eq!(timeout.unwrap().1, Variant::from(micros));
    }

    #[test]
    fn a_proxy_password_is_only_in_a_file_of_root() {
        let host = tempfile::tempdir().unwrap();
        let proxy = |value: &str| [("HTTPS_PROXY".to_owned(), value.to_owned())];
        let settings = proxy("http://me:a\"b$c\\d`@proxy:3128");
        let file = proxy_file(host.path(), &settings).unwrap();
        assert_eq!(file, (PROXY_FILE, false));
        let root = Root::open(host.path(), None).unwrap();
        let Found::File { bytes, mode, .. } = root.inspect(PROXY_FILE).unwrap() else {
            panic!("no file");
        };
        assert_eq!(mode, Mode(0o600));
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "HTTPS_PROXY=\"http://me:a\\\"b\\$c\\\\d\\`@proxy:3128\"\n"
        );
        let properties = properties("x.service", &["/x"], Priority::Normal, file);
        assert!(properties.iter().all(|(name, _)| *name != "Environment"));
        assert!(!format!("{properties:?}").contains("me:a"));
        let none = proxy_file(host.path(), &proxy("")).unwrap();
        assert_eq!(none, (PROXY_ENVIRONMENT, true));
    }
}
