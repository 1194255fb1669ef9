//! Reading the host: where it is, what is under way on it, what failed on it.

use host::files::{Found, Root};
use host::journal::{self, Journal, JournalStage, JournalStore};
use host::record::{self, Record};
use node_update::phase;
use node_update::plan::{Route, Target};
use node_update::well_known::FORCE_FILE;

use super::planning::Stored;
use crate::by_hand;

/// Why the host cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file on the host.
    #[error(transparent)]
    Files(#[from] host::files::Error),
    /// The journal or one of its companions.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The record of the booted deployment.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// A file that every Linux has.
    #[error("{0} is not there")]
    Missing(&'static str),
}

/// The attempt under way. One whose end is stored and whose journal only was not removed any more
/// is over.
///
/// # Errors
/// [`Error::Journal`].
pub fn open_journal(root: &Root) -> Result<Option<Journal>, Error> {
    let store = JournalStore::new(root);
    let Some(journal) = store.journal()? else {
        return Ok(None);
    };
    let over = store
        .last()?
        .is_some_and(|last| last.attempt == journal.plan.attempt);
    Ok((!over).then_some(journal))
}

/// Whether the host is on its way into a deployment that is made already: what is written into this
/// one's `/etc` stays behind.
///
/// # Errors
/// All of [`Error`] but [`Error::Record`].
pub fn is_leaving(root: &Root) -> Result<bool, Error> {
    let Some(journal) = open_journal(root)? else {
        return Ok(false);
    };
    Ok(match journal.stage {
        JournalStage::Applying | JournalStage::Switching => true,
        JournalStage::Switched => journal.boot_id == journal::boot_id(root)?,
        JournalStage::Booted | JournalStage::Failed { .. } | JournalStage::RollingBack { .. } => {
            false
        }
    })
}

#[derive(Debug, Clone)]
pub struct Host {
    /// What the state machine decides from.
    pub observation: phase::Observation,
    /// The plan of the open journal.
    pub under_way: Option<Stored>,
}

/// Reads the host; `None` if it has no record.
///
/// # Errors
/// All of [`Error`].
pub fn host(root: &Root) -> Result<Option<Host>, Error> {
    let Some(at) = record::read(root)?.map(Record::into_target) else {
        return Ok(None);
    };
    let journal = open_journal(root)?;
    let held = JournalStore::new(root).held()?;
    let under_way = journal.as_ref().map(|journal| Stored::of(&journal.plan));
    Ok(Some(Host {
        under_way: under_way.transpose()?,
        observation: phase::Observation {
            boot_id: journal::boot_id(root)?,
            journal: journal.map(|journal| phase::OpenJournal {
                stage: stage(&journal, &at),
                by_hand: by_hand::is_by_hand(&journal.plan.attempt),
                stays: journal.stay,
                to: journal.plan.to,
            }),
            at,
            held: held.map(|held| (held.target, held.cause)),
            is_forced: is_forced(root)?,
        },
    }))
}

/// Whether an administrator forces the next update by the force file.
///
/// # Errors
/// [`Error::Files`].
pub fn is_forced(root: &Root) -> Result<bool, Error> {
    Ok(root.inspect(FORCE_FILE)? != Found::Nothing)
}

/// Consumes the force file: it forces one update.
///
/// # Errors
/// [`Error::Files`].
pub fn consume_force(root: &Root) -> Result<(), Error> {
    Ok(root.remove(&root.locate(FORCE_FILE)?)?)
}

/// What a journal's stage means on a host whose record names `at`.
fn stage(journal: &Journal, at: &Target) -> phase::Stage {
    // A record lies in its deployment, so it tells which one is booted.
    let is_target_booted = journal.plan.route == Route::Reboot && *at == journal.plan.to;
    match &journal.stage {
        JournalStage::Applying | JournalStage::Switching => phase::Stage::Applying,
        JournalStage::Switched => phase::Stage::Switched {
            boot_id: journal.boot_id.clone(),
        },
        JournalStage::Booted => phase::Stage::Booted,
        JournalStage::Failed { cause } => phase::Stage::Stays {
            cause: cause.clone(),
        },
        JournalStage::RollingBack { cause } if is_target_booted => phase::Stage::RollingBack {
            cause: cause.clone(),
        },
        JournalStage::RollingBack { cause } => phase::Stage::Undoing {
            cause: cause.clone(),
        },
    }
}

/// When the host's first process began, in seconds since the host's kernel booted; with `uptime` it
/// tells when this system came up. A host that is a container of its own has an older kernel than
/// systemd.
///
/// Source: proc(5), field 22 of `/proc/<pid>/stat`, in clock ticks of 1/100 s on every Linux.
///
/// # Errors
/// [`Error::Files`], [`Error::Missing`].
pub fn seconds_up(root: &Root) -> Result<f64, Error> {
    const STAT: &str = "/proc/1/stat";
    const UPTIME: &str = "/proc/uptime";
    let stat = root.read(STAT)?.ok_or(Error::Missing(STAT))?;
    let uptime = root.read(UPTIME)?.ok_or(Error::Missing(UPTIME))?;
    let began = started_ticks(&String::from_utf8_lossy(&stat)).ok_or(Error::Missing(STAT))?;
    let uptime: f64 = String::from_utf8_lossy(&uptime)
        .split_whitespace()
        .next()
        .and_then(|seconds| seconds.parse().ok())
        .ok_or(Error::Missing(UPTIME))?;
    Ok((uptime - began / 100.0).max(0.0))
}

/// Field 22. The name, field 2, is in parentheses and may hold anything.
fn started_ticks(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use node_update::plan::{Mode, OwnerIds};

    use super::*;

    struct Host {
        directory: tempfile::TempDir,
    }

    impl Host {
        fn new() -> Self {
            let host = Self {
                directory: tempfile::tempdir().unwrap(),
            };
            host.put(journal::BOOT_ID, "boot-1\n");
            host
        }

        fn root(&self) -> Root {
            Root::open(self.directory.path(), None).unwrap()
        }

        fn put(&self, path: &str, text: &str) {
            let root = self.root();
            let content = host::files::Content {
                bytes: text.as_bytes(),
                mode: Mode(0o600),
                owner: OwnerIds {
                    uid: nix::unistd::getuid().as_raw(),
                    gid: nix::unistd::getgid().as_raw(),
                },
            };
            root.replace(&root.locate(path).unwrap(), content).unwrap();
        }
    }

    #[test]
    fn a_host_without_a_record_says_so() {
        assert!(super::host(&Host::new().root()).unwrap().is_none());
    }

    #[test]
    fn the_record_of_upstream_is_read() {
        let host = Host::new();
        host.put(record::CONFIG, r#"{"metadata": {"name": "rendered-worker-1", "creationTimestamp": null}, "spec": {"config": {}}}"#);
        host.put(record::IMAGE, "\n");
        let seen = super::host(&host.root()).unwrap().unwrap().observation;
        assert_eq!(seen.at.config, "rendered-worker-1");
        assert_eq!(seen.at.image, None);
        assert_eq!(seen.boot_id, "boot-1");
        host.put(record::IMAGE, "registry/os@sha256:1");
        let seen = super::host(&host.root()).unwrap().unwrap().observation;
        assert_eq!(seen.at.image.as_deref(), Some("registry/os@sha256:1"));
    }

    #[test]
    fn broken_record_is_an_error_that_names_it() {
        let host = Host::new();
        host.put(record::CONFIG, "{}");
        let error = super::host(&host.root()).unwrap_err();
        assert!(error.to_string().contains(record::CONFIG), "{error}");
    }

    #[test]
    fn the_first_process_has_its_own_age() {
        let stat = "1 (a) b) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4200 170000 3000";
        assert_eq!(started_ticks(stat), Some(4200.0));
    }
}
