//! Pinned images: what the Node is to have pulled and pinned, beside its configuration and while it
//! works.
//!
//! The controller names the sets on the Node ([`annotation::DESIRED_PINS`]); nothing is requested
//! while that stays. `mcd-os pin` does the work in a unit of its own, and the Node then names what
//! it has, or why not. A kept request on the host says that pins may lie there, also for a Node
//! that was registered again.
//!
//! - [`decide`]: what to do next
//!
//! Source: `docs/reference/daemon.md`, "Pinned images".

pub mod decide;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{
    NodeStatus, NotPinned, NotPinnedReason, PinList, PinStamp, PinnedImageSet, annotation,
};
use chassis::backoff::{Backoff, spread};
use chassis::memory;
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use cluster::access::Access;
use cluster::{path, wire};
use host::files::{self, Content, Root};
use k8s_openapi::api::core::v1::Node as NodeObject;
use node::watch::ObservedNode;
use node::writer::{self, Change, NodeWriter};
use node_update::plan::{Attempt, Digest, Mode, OwnerIds};
use tokio::sync::watch;

use self::decide::{NodeFacts, PinTask, SetOfImages};
use super::agent::Agent;
use super::desired;
use super::events::{EventReporter, NodeEvent};
use super::helper::{self, Helper, Priority};
use crate::protocol::{PinRequest, Verb, VerbName};

/// The request of the last run; there as long as pins may lie on the host.
const REQUEST: &str = "/var/lib/slipway/pins.json";

/// How often a host is looked at again that has all: a person may have removed an image.
const SELDOM: Duration = Duration::from_hours(24);

/// First and longest wait before images are pulled again, or room is looked for.
const RETRY: (Duration, Duration) = (Duration::from_mins(1), Duration::from_mins(15));

/// Characters of a cause on the Node.
const CAUSE_CHARS: usize = 500;

/// Why pins could not be looked after. All of it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not give an object.
    #[error(transparent)]
    Read(#[from] wire::Error),
    /// The Node cannot be written.
    #[error(transparent)]
    Write(#[from] writer::Error),
    /// The request cannot be put on the host.
    #[error("cannot keep {REQUEST}")]
    Files(#[from] files::Error),
    /// The request cannot be printed.
    #[error("cannot print the request of pins")]
    Print(#[from] serde_json::Error),
    /// The helper left no report.
    #[error(transparent)]
    Helper(#[from] helper::Error),
}

/// Keeps the pinned images of one host.
#[derive(Debug)]
pub struct PinSync<'a> {
    /// Where the host's root is mounted.
    pub root: &'a Path,
    /// Name of the Node.
    pub node: &'a str,
    /// The kubelet's identity, which reads its own Node.
    pub kubelet: &'a Access,
    /// The pod's identity, which reads sets.
    pub account: &'a Access,
    pub writer: &'a NodeWriter,
    /// The Node as it is seen.
    pub seen: watch::Receiver<ObservedNode>,
    pub helper: &'a Helper,
    pub reporter: &'a EventReporter,
}

/// Keeps the pins until the shutdown.
pub async fn keep(mut sync: PinSync<'_>, mut shutdown: Shutdown) {
    let work = async {
        let mut retry = Backoff::new(RETRY.0, RETRY.1);
        let mut before = None;
        while sync.seen.wait_for(Option::is_some).await.is_ok() {
            let status = desired::latest_status(&sync.seen).unwrap_or_default();
            let asked = status.desired_pins.clone();
            let has_request = sync.request().is_some();
            let task = decide::next(&status, has_request);
            let is_other = before.replace(asked.clone()).is_some_and(|it| it != asked);
            // On the heap for as long as it takes: between two looks it needs no memory.
            let work = Box::pin(sync.take_up(&task, is_other));
            let mut seen = sync.seen.clone();
            let asks_other = |node: &ObservedNode| node.is_some() && asked_by(node) != asked;
            let is_done = tokio::select! {
                end = work => end,
                // What runs pulls what is asked for no more.
                _other = seen.wait_for(asks_other) => {
                    retry.reset();
                    continue;
                }
            };
            let delay = match is_done {
                Ok(true) => {
                    retry.reset();
                    spread(SELDOM)
                }
                Ok(false) => retry.next_delay(),
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "pinned images are not looked after yet");
                    retry.next_delay()
                }
            };
            if task != PinTask::Rest {
                sync.account.rest();
                sync.kubelet.rest();
                memory::trim_heap();
            }
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _other = sync.seen.wait_for(asks_other) => retry.reset(),
            }
        }
    };
    tokio::select! {
        () = shutdown.requested() => {}
        () = work => {}
    }
}

fn asked_by(node: &ObservedNode) -> Option<Reading<PinList>> {
    let node = node.as_ref()?;
    NodeStatus::read(&node.annotations).desired_pins
}

impl<'a> PinSync<'a> {
    /// That of the host of a daemon.
    pub fn of(agent: &'a Agent) -> Self {
        Self {
            root: &agent.root,
            node: &agent.node,
            kubelet: &agent.kubelet,
            account: &agent.account,
            writer: &agent.writer,
            seen: agent.seen.clone(),
            helper: &agent.helper,
            reporter: &agent.reporter,
        }
    }

    /// Does what is to be done. What was lacking of other sets says nothing of these.
    async fn take_up(&self, task: &PinTask, is_other: bool) -> Result<bool, Error> {
        let status = desired::latest_status(&self.seen).unwrap_or_default();
        if is_other && status.not_pinned.is_some() {
            let change = Change::default().remove(annotation::NOT_PINNED);
            self.writer.write(move |_| change.clone()).await?;
        }
        self.act(task).await
    }

    /// Does what is to be done; whether the host has what it is to have.
    async fn act(&self, task: &PinTask) -> Result<bool, Error> {
        match task {
            PinTask::Rest => Ok(true),
            PinTask::Refuse(cause) => {
                self.lacks(NotPinnedReason::Refused, cause).await?;
                Ok(false)
            }
            PinTask::Drop => self.drop_all().await,
            PinTask::Pin(list) => self.pin(list).await,
        }
    }

    /// Pulls and pins the images of these sets, and drops all other pins.
    async fn pin(&self, list: &PinList) -> Result<bool, Error> {
        let mut sets = BTreeMap::new();
        for name in list.0.keys() {
            let path = path::object::<PinnedImageSet>(name);
            if let Some(set) = self.account.find::<PinnedImageSet>(&path).await? {
                sets.insert(name.clone(), SetOfImages::of(set));
            }
        }
        // A set that changes meanwhile is announced again: what was read counts.
        let stamps = sets
            .iter()
            .map(|(name, set)| (name.clone(), set.stamp.clone()));
        let read = PinList(stamps.collect::<BTreeMap<String, PinStamp>>());
        let facts: NodeFacts = self
            .kubelet
            .get(&path::object::<NodeObject>(self.node))
            .await?;
        if let Some(not_pinned) = facts.not_now() {
            self.lacks(not_pinned.reason, &not_pinned.cause).await?;
            return Ok(false);
        }
        let request = PinRequest {
            sets: sets
                .into_iter()
                .map(|(name, set)| (name, set.images))
                .collect(),
            allocatable_bytes: facts.allocatable_bytes(),
            at_once: decide::at_once(self.is_control_plane()),
        };
        match self.run(&request).await? {
            None => {
                self.has(&read).await?;
                Ok(true)
            }
            Some(not_pinned) => {
                self.lacks(not_pinned.reason, &not_pinned.cause).await?;
                Ok(false)
            }
        }
    }

    /// Drops all pins, and then what says that there are some.
    async fn drop_all(&self) -> Result<bool, Error> {
        let request = PinRequest {
            at_once: decide::at_once(self.is_control_plane()),
            ..PinRequest::default()
        };
        if let Some(not_dropped) = self.run(&request).await? {
            self.lacks(not_dropped.reason, &not_dropped.cause).await?;
            return Ok(false);
        }
        let host = Root::open(self.root, None)?;
        host.remove(&host.locate(REQUEST)?)?;
        self.has(&PinList::default()).await?;
        Ok(true)
    }

    /// Runs the helper; why the host does not have what is asked for.
    async fn run(&self, request: &PinRequest) -> Result<Option<NotPinned>, Error> {
        self.helper.stop_left(&[VerbName::Pin]).await?;
        let bytes = serde_json::to_vec(request)?;
        self.put_request(&bytes)?;
        let attempt = Attempt(Digest::of(&bytes).as_str().to_owned());
        let verb = Verb::Pin {
            request: REQUEST.to_owned(),
        };
        let priority = Priority::Idle {
            bytes_per_second: None,
        };
        let report = self.helper.run(&verb, &attempt, priority).await?;
        Ok(decide::judge(report))
    }

    /// The request of the last run.
    fn request(&self) -> Option<Vec<u8>> {
        let read = || Root::open(self.root, None)?.read(REQUEST);
        read().unwrap_or_else(|error: files::Error| {
            tracing::warn!(error = %Chain(&error), "cannot read {REQUEST}");
            None
        })
    }

    fn put_request(&self, bytes: &[u8]) -> Result<(), files::Error> {
        let host = Root::open(self.root, None)?;
        let content = Content {
            bytes,
            mode: Mode(0o600),
            owner: OwnerIds::ROOT,
        };
        host.replace(&host.locate(REQUEST)?, content)
    }

    fn is_control_plane(&self) -> bool {
        let node = self.seen.borrow();
        node.as_ref().is_some_and(|node| node.is_control_plane)
    }

    /// Writes what the host has.
    async fn has(&self, list: &PinList) -> Result<(), writer::Error> {
        let change = if list.is_empty() {
            Change::default().remove(annotation::CURRENT_PINS)
        } else {
            Change::default().set(annotation::CURRENT_PINS, list.to_string())
        };
        let change = change.remove(annotation::NOT_PINNED);
        tracing::info!(sets = %list, "pinned images are in place");
        self.writer.write(move |_| change.clone()).await?;
        Ok(())
    }

    /// Writes why it does not, and says so once.
    async fn lacks(&self, reason: NotPinnedReason, cause: &str) -> Result<(), writer::Error> {
        let cause: String = cause.chars().take(CAUSE_CHARS).collect();
        let not_pinned = NotPinned { reason, cause };
        let status = desired::latest_status(&self.seen).unwrap_or_default();
        if status.not_pinned == Some(Reading::Known(not_pinned.clone())) {
            return Ok(());
        }
        tracing::warn!(reason = %not_pinned, "pinned images are not in place");
        let text = not_pinned.to_string();
        let change = Change::default().set(annotation::NOT_PINNED, text);
        self.writer.write(move |_| change.clone()).await?;
        self.reporter.report(&NodeEvent::not_pinned(&not_pinned));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
