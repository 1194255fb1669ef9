//! What the engine has come to, for the status of the ClusterVersion.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::config::Release;
use jiff::Timestamp;
use release::capability::Capabilities;
use release::graph::Ordering;
use release::inventory::Entry;
use release::progress::{PassProgress, TaskProgress, TaskState};

use crate::failure::{Failure, FailureSubject};
use crate::progress::Checkpoint;

/// Component of manifests whose files name no place.
const NO_PLACE: &str = "other";

/// How far the release is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The release that is applied; none before it was read.
    pub accepted: Option<Accepted>,
    /// Why the release's files cannot be read, or some of them.
    pub unreadable: Option<Failure>,
    /// Whether all of it was applied once since the process started.
    pub is_applied: bool,
    /// What fails and what is waited for, by number of the manifest.
    pub failures: BTreeMap<usize, Failure>,
    /// What failed in the pass before, until this one gets further.
    earlier: BTreeMap<usize, Failure>,
    /// How many manifests the pass before had done.
    earlier_done: usize,
    /// How many manifests this pass has done.
    done: usize,
    /// How many the process before had done, until this one gets there.
    resumed_at: usize,
    /// What the status has of them.
    pub checkpoint: Checkpoint,
    /// Since when each operator is waited for.
    pub pending: BTreeMap<String, Timestamp>,
    /// Objects whose removal was requested and is not verified.
    pub deletions: BTreeSet<String>,
    /// The pass under way, manifest by manifest; none before the first one.
    pass: Option<Pass>,
}

#[derive(Debug, Clone, PartialEq)]
struct Pass {
    release: Release,
    ordering: Ordering,
    /// Manifests without their states.
    tasks: Arc<Vec<TaskProgress>>,
    started: BTreeSet<usize>,
    done: BTreeSet<usize>,
}

/// A release that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// Hash of its manifests.
    pub version_hash: String,
    pub capabilities: Capabilities,
    /// Generation of the ClusterVersion that it is applied for.
    pub generation: i64,
}

impl Report {
    /// Another release is applied from now on.
    pub fn restart(&mut self) {
        *self = Self {
            checkpoint: self.checkpoint.clone(),
            deletions: std::mem::take(&mut self.deletions),
            ..Self::default()
        };
    }

    /// Goes on from what the process before had done.
    pub fn resume(&mut self, checkpoint: Checkpoint) {
        self.resumed_at = checkpoint.done;
        self.checkpoint = checkpoint;
    }

    /// Whether this process is still on its way to where the one before was.
    pub fn is_resuming(&self) -> bool {
        self.done < self.resumed_at
    }

    /// A pass begins: failures of the one before stay until it gets further.
    pub fn begin(&mut self, accepted: Accepted, total: usize) {
        if self.checkpoint.version_hash != accepted.version_hash {
            // The process before applied another release.
            self.resumed_at = 0;
        }
        self.checkpoint = self.checkpoint.advance(&accepted.version_hash, 0, total);
        self.accepted = Some(accepted);
        self.unreadable = None;
        let failures = std::mem::take(&mut self.failures);
        if !failures.is_empty() {
            self.earlier = failures;
            self.earlier_done = self.done;
        }
        self.done = 0;
    }

    /// The pass that begins applies `entries` of a release.
    pub fn follow(&mut self, release: &Release, ordering: Ordering, entries: &[&Entry]) {
        let task = |entry: &&Entry| {
            let place = entry.place();
            TaskProgress {
                run_level: place.map_or("", |place| place.run_level).to_owned(),
                component: place.map_or(NO_PLACE, |place| place.component).to_owned(),
                object: entry.to_string(),
                state: TaskState::Pending,
            }
        };
        self.pass = Some(Pass {
            release: release.clone(),
            ordering,
            tasks: Arc::new(entries.iter().map(task).collect()),
            started: BTreeSet::new(),
            done: BTreeSet::new(),
        });
    }

    /// A manifest's turn has come.
    pub fn started(&mut self, number: usize) {
        if let Some(pass) = &mut self.pass {
            pass.started.insert(number);
        }
    }

    /// Whether a release that was applied is only kept as it is.
    pub fn is_kept(&self) -> bool {
        let ordering = self.pass.as_ref().map(|pass| pass.ordering);
        matches!(ordering, Some(Ordering::Reconciling { .. }))
    }

    /// What the pass under way has come to; none before the first one, and while a release that was
    /// applied before is not checked yet.
    pub fn progress(&self) -> Option<PassProgress> {
        let pass = self.pass.as_ref()?;
        if self.is_kept() && !self.is_applied {
            return None;
        }
        let with_state = |(number, task): (usize, &TaskProgress)| TaskProgress {
            state: self.state(pass, number),
            ..task.clone()
        };
        Some(PassProgress {
            version: pass.release.version.clone(),
            image: pass.release.image.clone(),
            tasks: pass.tasks.iter().enumerate().map(with_state).collect(),
            is_typical: pass.ordering == Ordering::Updating,
            is_complete: self.is_applied,
        })
    }

    fn state(&self, pass: &Pass, number: usize) -> TaskState {
        if let Some(failure) = self.failures.get(&number) {
            let name = match &failure.subject {
                FailureSubject::Operator(name) | FailureSubject::Workload(name) => Some(name),
                FailureSubject::Other => None,
            };
            let message = failure
                .detail
                .as_ref()
                .map(|detail| detail.message.as_str());
            let message = message.filter(|message| !message.is_empty());
            return TaskState::Waits {
                reason: failure.reason.clone(),
                message: message.unwrap_or(&failure.message).to_owned(),
                since: name.and_then(|name| self.pending.get(name).copied()),
            };
        }
        if pass.done.contains(&number) {
            TaskState::Done
        } else if pass.started.contains(&number) {
            TaskState::Started
        } else {
            TaskState::Pending
        }
    }

    pub fn done(&mut self, number: usize) {
        if let Some(pass) = &mut self.pass {
            pass.done.insert(number);
        }
        self.failures.remove(&number);
        self.done += 1;
        if self.done > self.earlier_done {
            self.earlier.clear();
        }
        if !self.is_resuming() {
            // The next pass begins at the first manifest too, and resumes nothing.
            self.resumed_at = 0;
        }
        let Checkpoint {
            version_hash,
            total,
            ..
        } = &self.checkpoint;
        self.checkpoint = self.checkpoint.advance(version_hash, self.done, *total);
    }

    /// All manifests are done. The release is applied, unless some of it cannot be read.
    pub fn complete(&mut self, reported: BTreeMap<usize, Failure>) {
        self.is_applied = self.unreadable.is_none();
        self.earlier.clear();
        self.earlier_done = 0;
        self.failures = reported;
    }

    /// What fails and what is waited for, in the order of the release.
    pub fn shown(&self) -> Vec<Failure> {
        let shown = if self.failures.is_empty() {
            &self.earlier
        } else {
            &self.failures
        };
        self.unreadable
            .iter()
            .chain(shown.values())
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Effect;

    /// A restart goes on from where the process before was, and says so. Row 1 of
    /// `docs/reference/known-weaknesses.md`, "Version operator".
    #[test]
    fn restart_resumes_until_it_is_where_the_process_before_was() {
        let accepted = |hash: &str| Accepted {
            version_hash: hash.to_owned(),
            capabilities: Capabilities::default(),
            generation: 1,
        };
        let before = Checkpoint::default().advance("h", 2, 3);
        let mut report = Report::default();
        report.resume(before.clone());
        report.begin(accepted("h"), 3);
        assert!(report.is_resuming());
        assert_eq!(report.checkpoint.done, 2);
        report.done(0);
        assert!(report.is_resuming());
        report.done(1);
        assert!(!report.is_resuming());
        // The next pass of this process resumes nothing.
        report.begin(accepted("h"), 3);
        assert!(!report.is_resuming());
        // Nor does a release that the process before did not apply.
        let mut report = Report::default();
        report.resume(before);
        report.begin(accepted("other"), 3);
        assert!(!report.is_resuming());
        assert_eq!(report.checkpoint.done, 0);
    }

    #[test]
    fn release_that_is_read_in_part_is_never_applied() {
        let accepted = Accepted {
            version_hash: "h".to_owned(),
            capabilities: Capabilities::default(),
            generation: 1,
        };
        let mut report = Report::default();
        report.begin(accepted, 1);
        report.unreadable = Some(Failure::integrity("0000_50_a.yaml: line 3".to_owned()));
        report.done(0);
        report.complete(BTreeMap::new());
        assert!(!report.is_applied);
        assert_eq!(report.shown()[0].message, "0000_50_a.yaml: line 3");
    }

    #[test]
    fn failure_stays_until_a_later_pass_gets_further() {
        let accepted = Accepted {
            version_hash: "h".to_owned(),
            capabilities: Capabilities::default(),
            generation: 1,
        };
        let failure = Failure::operator("a", "NotAvailable", Effect::Fail);
        let mut report = Report::default();
        report.begin(accepted.clone(), 3);
        report.done(0);
        report.failures.insert(1, failure.clone());
        report.begin(accepted, 3);
        assert_eq!(report.shown(), std::slice::from_ref(&failure));
        report.done(0);
        assert_eq!(report.shown(), [failure]);
        assert_eq!(report.checkpoint.done, 1);
        report.done(1);
        assert_eq!(report.shown(), []);
        report.done(2);
        report.complete(BTreeMap::new());
        assert!(report.is_applied && report.checkpoint.percent() == 100);
    }
}
