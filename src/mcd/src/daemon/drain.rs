//! Cordoning this node and emptying it.

use std::iter::Peekable;
use std::sync::Arc;
use std::time::Duration;

use api::machineconfiguration::node_status::DrainRequest;
use api::machineconfiguration::{DRAIN_OVERDUE, DrainLease, NodeStatus, annotation};
use cluster::access::Access;
use jiff::Timestamp;
use node::drain::{Drain, PodName};
use node::view::Node;
use node::watch::ObservedNode;
use node::writer::{self, Change, NodeWriter};
use node_update::plan::Attempt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::drain_clock::DrainClock;

/// After this time a drain that makes no headway is worth an event: `docs/reference/controller.md`,
/// "Drain limits".
pub const SLOW: Duration = Duration::from_mins(10);

/// After this time the node counts as degraded; the drain goes on.
pub const OVERDUE: Duration = DRAIN_OVERDUE.unsigned_abs();

/// How long another program's lease of the drain holds after it was seen to be renewed.
const LEASE: Duration = Duration::from_secs(DrainLease::SECS);

/// What a drain tells on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainNotice {
    /// What holds it up, for people.
    Blocked(String),
    /// It takes longer than [`SLOW`].
    Slow,
    /// It takes longer than [`OVERDUE`].
    Overdue,
}

/// One drain of this node.
#[derive(Debug)]
pub struct NodeDrain<'a> {
    pub kubelet: &'a Access,
    pub writer: &'a NodeWriter,
    /// The Node as it is seen.
    pub seen: watch::Receiver<ObservedNode>,
    pub node: &'a str,
    pub own: Option<&'a PodName>,
    /// Attempt that the cordon is tied to.
    pub attempt: &'a Attempt,
    /// Configuration that is drained for.
    pub config: &'a str,
    pub now: fn() -> Timestamp,
    /// The clock of the limits.
    pub clock: DrainClock,
}

impl NodeDrain<'_> {
    /// Cordons and evicts, until every pod that has to leave is gone and the node is still
    /// cordoned.
    ///
    /// # Errors
    /// When the API server refuses the cordon for good.
    pub async fn run(&self, mut notify: impl FnMut(DrainNotice)) -> Result<(), writer::Error> {
        loop {
            let cordoned = self.cordon().await?;
            if self.evict(&cordoned, &mut notify).await {
                return Ok(());
            }
            tracing::warn!(
                node = self.node,
                "the node was uncordoned during the drain; cordoning it again"
            );
        }
    }

    async fn cordon(&self) -> Result<Arc<Node>, writer::Error> {
        let (attempt, config, now) = (self.attempt.clone(), self.config.to_owned(), self.now);
        self.writer
            .write(move |node| cordon(node, &attempt, &config, now()))
            .await
    }

    /// False when the node was uncordoned meanwhile: pods may have come since.
    async fn evict(&self, cordoned: &Node, notify: &mut impl FnMut(DrainNotice)) -> bool {
        let began = Instant::now();
        let passed = self.passed(cordoned);
        let clocks = [(SLOW, DrainNotice::Slow), (OVERDUE, DrainNotice::Overdue)];
        let mut clocks = clocks
            .map(|(after, word)| (began + after.saturating_sub(passed), word))
            .into_iter()
            .peekable();
        // A lease that was not renewed in time does not count any more.
        let mut expired = None;
        loop {
            if !self.await_lease(cordoned, &mut expired, notify).await {
                return false;
            }
            match self
                .evict_alone(cordoned, expired.as_deref(), &mut clocks, notify)
                .await
            {
                DrainEnd::Empty => return true,
                DrainEnd::Uncordoned => return false,
                DrainEnd::Leased => {}
            }
        }
    }

    /// Waits while another program drains this node. False when the node was uncordoned meanwhile.
    async fn await_lease(
        &self,
        cordoned: &Node,
        expired: &mut Option<String>,
        notify: &mut impl FnMut(DrainNotice),
    ) -> bool {
        let mut seen = self.seen.clone();
        let mut held: Option<(String, Instant)> = None;
        while let Some((text, lease)) = lease(&seen, expired.as_deref()) {
            let until = match held {
                Some((seen_lease, until)) if seen_lease == text => until,
                _ => {
                    notify(DrainNotice::Blocked(format!(
                        "{} drains this node since {}",
                        lease.holder, lease.since
                    )));
                    Instant::now() + LEASE
                }
            };
            held = Some((text.clone(), until));
            tokio::select! {
                changed = seen.changed() => {
                    if changed.is_err() {
                        // The process ends.
                        std::future::pending::<()>().await;
                    }
                    if is_uncordoned(&seen, cordoned) {
                        return false;
                    }
                }
                () = sleep_until(until) => {
                    tracing::warn!(node = self.node, holder = lease.holder, "the lease of the drain was not renewed");
                    *expired = Some(text);
                }
            }
        }
        true
    }

    async fn evict_alone(
        &self,
        cordoned: &Node,
        expired: Option<&str>,
        clocks: &mut Peekable<impl Iterator<Item = (Instant, DrainNotice)>>,
        notify: &mut impl FnMut(DrainNotice),
    ) -> DrainEnd {
        let (sender, mut progress) = tokio::sync::mpsc::unbounded_channel();
        let drain = Drain {
            access: self.kubelet,
            node: self.node,
            own: self.own,
            passed: self.passed(cordoned),
        };
        let evicting = drain.run(|text| {
            // The receiver lives as long as this function.
            if sender.send(text.to_string()).is_err() {
                tracing::debug!("no receiver for the progress of the drain");
            }
        });
        // Dropped, it evicts no more.
        let mut evicting = std::pin::pin!(evicting);
        let mut seen = self.seen.clone();
        loop {
            let next = clocks.peek().map(|(at, _)| *at);
            tokio::select! {
                biased;
                Some(blocked) = progress.recv() => notify(DrainNotice::Blocked(blocked)),
                () = &mut evicting => break,
                changed = seen.changed() => {
                    if changed.is_err() {
                        // The process ends.
                        std::future::pending::<()>().await;
                    }
                    if is_uncordoned(&seen, cordoned) {
                        return DrainEnd::Uncordoned;
                    }
                    if lease(&seen, expired).is_some() {
                        return DrainEnd::Leased;
                    }
                }
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    if let Some((_, word)) = clocks.next() {
                        notify(word);
                    }
                }
            }
        }
        if is_uncordoned(&seen, cordoned) {
            DrainEnd::Uncordoned
        } else {
            DrainEnd::Empty
        }
    }

    /// How long this drain goes on already: a restarted daemon goes on counting.
    fn passed(&self, cordoned: &Node) -> Duration {
        let since = cordoned.annotation(annotation::DRAIN_SINCE);
        since.map_or(Duration::ZERO, |since| self.clock.passed(since))
    }
}

/// What to write to cordon `node` for an attempt, and to leave an administrator's cordon as it is.
fn cordon(node: &Node, attempt: &Attempt, config: &str, now: Timestamp) -> Change {
    let status = NodeStatus::read(&node.annotations);
    let mut change = Change::default();
    if !node.unschedulable || status.cordoned_by.is_some() {
        change = change
            .unschedulable(true)
            .set(annotation::CORDONED_BY, attempt.0.as_str());
    }
    // A resumed drain keeps its clock. One whose node was uncordoned meanwhile begins again: pods
    // may have come since.
    if !node.unschedulable || !status.is_draining_for(config) {
        change = change.set(annotation::DRAIN_SINCE, now.to_string());
    }
    let request = DrainRequest::Drain(config.to_owned());
    change.set(annotation::DESIRED_DRAIN, request.to_string())
}

/// How a drain by this daemon alone ended.
enum DrainEnd {
    /// Every pod that has to leave is gone.
    Empty,
    /// The node was uncordoned meanwhile.
    Uncordoned,
    /// Another program has the lease of the drain.
    Leased,
}

/// The lease of the drain that another program has, with its text; `expired` is one that counts no
/// more.
fn lease(
    seen: &watch::Receiver<ObservedNode>,
    expired: Option<&str>,
) -> Option<(String, DrainLease)> {
    let seen = seen.borrow();
    let text = seen.as_ref()?.annotation(annotation::DRAIN_LEASE)?;
    let lease = DrainLease::parse(text)?;
    (expired != Some(text)).then(|| (text.to_owned(), lease))
}

/// Whether the node takes pods again since it was cordoned. What was seen before that says nothing,
/// and a Node that is gone takes none.
fn is_uncordoned(seen: &watch::Receiver<ObservedNode>, cordoned: &Node) -> bool {
    seen.borrow()
        .as_ref()
        .is_some_and(|node| !node.unschedulable && node.is_as_new_as(cordoned))
}

#[cfg(test)]
mod tests;
