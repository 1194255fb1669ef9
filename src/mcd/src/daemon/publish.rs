//! What the Node shows: annotations as a function of the state machine, written by one task.

use api::machineconfiguration::node_status::{DrainRequest, FailedIn};
use api::machineconfiguration::{NodeState, NodeStatus, PhaseName, annotation};
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use jiff::Timestamp;
use node::view::Node;
use node::watch::ObservedNode;
use node::writer::{Change, NodeWriter};
use node_update::phase::{Ahead, Event, Fetch, Fetching, Machine, Phase};
use node_update::plan::Target;
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep_until, timeout};

use super::ahead;

/// How long a phase on the way lasts before it is worth a request: one that passes sooner is not
/// written.
pub const MOMENT: Duration = Duration::from_secs(2);

/// How long a change that the API server refused waits before it is tried again, if no other comes
/// first.
const REFUSED_RETRY: Duration = Duration::from_mins(1);

/// How often at most an edit by another writer is answered: two writers that disagree must not
/// flood the API server.
const EDIT_PACE: Duration = Duration::from_secs(10);

/// Everything that is shown of the machine at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    phase: PhaseName,
    since: Timestamp,
    state: Option<NodeState>,
    reason: String,
    failed_in: Option<FailedIn>,
    waits_for: String,
    in_force: Option<Target>,
    /// The configuration that a phase after the drain leads to.
    drained_for: Option<String>,
    /// What a node at rest fetches before its turn.
    ahead: Option<Ahead>,
    /// What is shown once the node is in service, where it comes to rest then.
    rest: Option<Box<Self>>,
}

impl Shown {
    /// What `machine` shows, in its phase since `since`.
    pub fn of(machine: &Machine, since: Timestamp) -> Self {
        Self {
            phase: machine.phase().name(),
            since,
            state: machine.state(),
            reason: machine.phase().reason(),
            failed_in: machine.failed_in(),
            waits_for: machine.phase().waits_for(),
            in_force: machine.current().cloned(),
            drained_for: match machine.phase() {
                Phase::Applying(it) => Some(it.to.config.clone()),
                Phase::Rebooting(it) => Some(it.to.config.clone()),
                Phase::Starting(_)
                | Phase::Idle(_)
                | Phase::Fetching(_)
                | Phase::Draining(_)
                | Phase::Verifying(_)
                | Phase::Finishing(_)
                | Phase::RollingBack(_)
                | Phase::Held(_)
                | Phase::Degraded(_)
                | Phase::Unreconcilable(_) => None,
            },
            ahead: if let Phase::Idle(it) = machine.phase() {
                Some(it.ahead.clone())
            } else {
                None
            },
            rest: rest(machine).map(|rest| Box::new(Self::of(&rest, since))),
        }
    }

    /// The state, and what is verified to be in force.
    pub fn claims(&self) -> (Option<NodeState>, Option<&Target>) {
        (self.state, self.in_force.as_ref())
    }

    pub const fn phase(&self) -> PhaseName {
        self.phase
    }

    /// Whether this is only a step on the way, which the next one may follow at once: nothing went
    /// wrong, and nothing waits for it to be written.
    fn is_passing(&self) -> bool {
        let is_a_step = matches!(
            self.phase,
            PhaseName::Fetching | PhaseName::Applying | PhaseName::Verifying | PhaseName::Finishing
        );
        let is_well = !self.state.is_some_and(NodeState::is_failed);
        is_a_step && is_well && self.reason.is_empty()
    }

    /// What changes on `node` to show this.
    ///
    /// Source: `docs/reference/daemon.md`, "Node annotations" for the keys of OpenShift's MCO.
    pub fn change(&self, node: &Node) -> Change {
        let status = NodeStatus::read(&node.annotations);
        let mut change = Change::default();
        if self.phase == PhaseName::Starting {
            // The host was not read yet: what stands there stays.
            return change;
        }
        if self.phase == PhaseName::Rebooting {
            change = change.set(annotation::POST_CONFIG_ACTION, annotation::REBOOTING);
        } else if status.is_rebooting {
            change = change.set(annotation::POST_CONFIG_ACTION, "");
        }
        match self.state {
            Some(state) => {
                change = change
                    .set(annotation::STATE, state.as_str())
                    .set(annotation::REASON, self.reason.as_str());
                change = match &self.failed_in {
                    Some(failed_in) => change.set(annotation::FAILED_IN, failed_in.to_string()),
                    None => change.remove(annotation::FAILED_IN),
                };
            }
            // A daemon that has just started only checks its host. A node at rest is left as it
            // stands; one that a reboot has brought back is shown being checked.
            None if status.is_past_drain() => {
                if !self.reason.is_empty() {
                    change = change.set(annotation::REASON, self.reason.as_str());
                }
            }
            None => return change,
        }
        change = change.set(annotation::PHASE, self.phase.as_str());
        change = if self.waits_for.is_empty() {
            change.remove(annotation::WAITS_FOR)
        } else {
            change.set(annotation::WAITS_FOR, self.waits_for.as_str())
        };
        // A restarted daemon in the same phase does not start its clock again.
        if status.phase() != Some(self.phase) || status.since.is_none() {
            let since = self.since.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
            change = change.set(annotation::SINCE, since);
        }
        change = self.show_target(node, &status, change);
        if let Some(config) = &self.drained_for
            && status.is_to_drain_for(config)
        {
            let drained = DrainRequest::Drain(config.clone());
            change = change.set(annotation::LAST_APPLIED_DRAIN, drained.to_string());
        }
        if let Some(ahead) = &self.ahead {
            change = ahead::show(ahead, &status, change);
        }
        if self.phase != PhaseName::Held {
            change = change.remove(annotation::RETRY);
        }
        change
    }

    fn show_target(&self, node: &Node, status: &NodeStatus, mut change: Change) -> Change {
        let Some(target) = &self.in_force else {
            return change;
        };
        change = change.set(annotation::CURRENT_CONFIG, target.config.as_str());
        change = match &target.image {
            Some(image) => change.set(annotation::CURRENT_IMAGE, image.as_str()),
            None => change.remove(annotation::CURRENT_IMAGE),
        };
        if status.desired_config.is_none() {
            // Registered again: it was assigned nothing else, and a Node that names nothing counts
            // as on its way.
            change = change.set(annotation::DESIRED_CONFIG, target.config.as_str());
            if let Some(image) = &target.image {
                change = change.set(annotation::DESIRED_IMAGE, image.as_str());
            }
        }
        if self.state == Some(NodeState::Done) {
            if node.annotation(annotation::DESIRED_IMAGE) == Some("") {
                change = change.remove(annotation::DESIRED_IMAGE);
            }
            let staged = annotation::OSTREE_FINALIZE_STAGED_FAILURE;
            if node
                .annotation(staged)
                .is_some_and(|failure| !failure.is_empty())
            {
                change = change.set(staged, "");
            }
        }
        change
    }
}

/// The machine once the node is in service, where it comes to rest then.
fn rest(machine: &Machine) -> Option<Machine> {
    if !matches!(machine.phase(), Phase::Finishing(_)) {
        return None;
    }
    let mut next = machine.clone();
    next.step(Event::InService).ok()?;
    matches!(next.phase(), Phase::Idle(_)).then_some(next)
}

/// What was shown, and what is shown now.
#[derive(Debug)]
pub struct PhaseChange {
    /// Before; nothing at the start.
    pub before: Option<Shown>,
    pub after: Shown,
}

/// Hands what is to be shown to the task that writes it.
#[derive(Debug)]
pub struct Publisher {
    shown: watch::Sender<(u64, Option<Shown>)>,
    settled: watch::Receiver<u64>,
}

impl Publisher {
    /// Makes the publisher of a node and the task that writes, which ends with the shutdown.
    pub fn new(
        writer: NodeWriter,
        seen: watch::Receiver<ObservedNode>,
        shutdown: Shutdown,
    ) -> (Self, impl Future<Output = ()> + use<>) {
        let (shown, receiver) = watch::channel((0, None));
        let (done, settled) = watch::channel(0);
        (
            Self { shown, settled },
            write_all(writer, receiver, seen, done, shutdown),
        )
    }

    /// Shows the machine from now on. Returns what was shown before, if it was something else.
    pub fn show(&self, machine: &Machine, now: Timestamp) -> Option<PhaseChange> {
        if is_on_its_way_round(machine) {
            return None;
        }
        let before = self.shown.borrow().1.clone();
        let since = before
            .as_ref()
            .filter(|before| before.phase == machine.phase().name())
            .map_or(now, |before| before.since);
        let after = Shown::of(machine, since);
        if before.as_ref() == Some(&after) {
            return None;
        }
        self.shown.send_modify(|(number, shown)| {
            *number += 1;
            *shown = Some(after.clone());
        });
        Some(PhaseChange { before, after })
    }

    /// What is shown once the node is in service, which it is from `now` on; nothing where it does
    /// not come to rest then.
    pub fn rest(&self, now: Timestamp) -> Option<Shown> {
        let rest = self.shown.borrow().1.as_ref()?.rest.clone()?;
        Some(Shown {
            since: now,
            ..*rest
        })
    }

    /// Waits until what is shown now is on the Node, at most for `limit`. False when it is not.
    pub async fn settle(&self, limit: Duration) -> bool {
        let number = self.shown.borrow().0;
        let mut settled = self.settled.clone();
        let wait = settled.wait_for(|settled| *settled >= number);
        matches!(timeout(limit, wait).await, Ok(Ok(_)))
    }
}

/// Whether the machine retries what failed before. Until that leads further, what is shown stays: a
/// failure that is tried again each minute must not flap.
fn is_on_its_way_round(machine: &Machine) -> bool {
    let has_failed = matches!(
        machine.state(),
        Some(NodeState::Degraded | NodeState::Unreconcilable)
    );
    has_failed
        && matches!(
            machine.phase(),
            Phase::Verifying(_)
                | Phase::Fetching(Fetching {
                    step: Fetch::Returning | Fetch::Joining | Fetch::Planning,
                    ..
                })
        )
}

async fn write_all(
    writer: NodeWriter,
    mut shown: watch::Receiver<(u64, Option<Shown>)>,
    mut seen: watch::Receiver<ObservedNode>,
    settled: watch::Sender<u64>,
    mut shutdown: Shutdown,
) {
    // Since when there is something that is not written.
    let mut unwritten = None;
    loop {
        let (number, now) = shown.borrow_and_update().clone();
        let since = *unwritten.get_or_insert_with(Instant::now);
        let written = async {
            if now.as_ref().is_some_and(Shown::is_passing) {
                sleep_until(since + MOMENT).await;
            }
            write(&writer, now).await;
        };
        tokio::select! {
            biased;
            () = shutdown.requested() => return,
            // A newer state takes the place of one that is not written yet.
            changed = shown.changed() => if changed.is_err() { return } else { continue },
            () = written => settled.send_replace(number),
        };
        unwritten = None;
        // The Node may be recreated, or edited: what is shown is put back then. Where it stands,
        // nothing is sent.
        let edited = async {
            tokio::time::sleep(EDIT_PACE).await;
            seen.changed().await
        };
        tokio::select! {
            () = shutdown.requested() => return,
            changed = shown.changed() => if changed.is_err() { return },
            changed = edited => if changed.is_err() { return },
        }
    }
}

/// Writes until the API server has taken it.
async fn write(writer: &NodeWriter, shown: Option<Shown>) {
    let Some(shown) = shown else { return };
    loop {
        let shown = shown.clone();
        match writer.write(move |node| shown.change(node)).await {
            Ok(_) => return,
            Err(error) => tracing::error!(error = %Chain(&error), "cannot publish"),
        }
        tokio::time::sleep(REFUSED_RETRY).await;
    }
}

#[cfg(test)]
mod tests;
