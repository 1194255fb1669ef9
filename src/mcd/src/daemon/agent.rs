//! The real executor: each command of the state machine, carried out on this node.

mod adopting;
pub(super) mod error;
mod prefetch;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::machineconfiguration::{PhaseName, annotation};
use chassis::report::Chain;
use cluster::access::Access;
use host::files::Root;
use host::journal::JournalStore;
use jiff::{SignedDuration, Timestamp};
use node::drain::PodName;
use node::watch::ObservedNode;
use node::writer::NodeWriter;
use node_update::phase::{Command, Event, Machine};
use node_update::plan::{Attempt, Route, Target};
use node_update::well_known::FORCE_FILE;
use tokio::sync::watch;
use tokio::time::sleep;

use self::error::{Error, Refusal};
use super::drain::{DrainNotice, NodeDrain};
use super::drain_clock::DrainClock;
use super::drift_target::{self, DriftTarget};
use super::driver::{EventSink, Executor};
use super::events::{EventReporter, NodeEvent, arrives, log_phase, of_phase};
use super::helper::{Helper, Priority};
use super::metrics::DaemonMetrics;
use super::node_object::Reported;
use super::planning::{self, Planner};
use super::publish::{Publisher, Shown};
use super::{apply, desired, observe, prepare, return_to_service, verify};
use crate::protocol::{HelperOutcome, Verb, VerifyDetails};

/// Everything one node's daemon acts with.
#[derive(Debug)]
pub struct Agent {
    pub node: String,
    /// Where the host's root is mounted.
    pub root: PathBuf,
    /// The kubelet's identity: the Node, its pods, their evictions.
    pub kubelet: Arc<Access>,
    /// The pod's own identity: configurations.
    pub account: Arc<Access>,
    /// Identity and server that configurations are read by.
    pub configs: Arc<Access>,
    pub writer: NodeWriter,
    /// The Node as it is seen.
    pub seen: watch::Receiver<ObservedNode>,
    /// Shows the machine.
    pub publisher: Publisher,
    pub reported: watch::Receiver<Reported>,
    /// Says what people search for.
    pub reporter: EventReporter,
    /// Runs `mcd-os`.
    pub helper: Helper,
    pub own: Option<PodName>,
    pub metrics: Arc<DaemonMetrics>,
    /// What the drift monitor watches against.
    pub watched: watch::Sender<DriftTarget>,
    pub now: fn() -> Timestamp,
    /// State that outlives a command.
    pub state: ExecutorState,
}

/// State that outlives a command; read from the host again at each observation.
#[derive(Debug, Default)]
pub struct ExecutorState {
    facts: Mutex<Facts>,
    /// Held by the one task that adopts the host.
    adopting: tokio::sync::Mutex<()>,
    names: AtomicU64,
}

#[derive(Debug, Default, Clone)]
struct Facts {
    /// What the host's record names.
    at: Option<Target>,
    boot_id: String,
    /// Whether this process has verified the host in what its record named then.
    is_verified: bool,
    /// Whether the guard is on the host.
    is_guarded: bool,
    /// Whether a repository beside etcd is set for that.
    is_repository_set: bool,
    /// The stored plan: made in this process, or found in the journal.
    plan: Option<planning::Stored>,
    /// The last attempt that began before the node's turn.
    ahead: Option<Attempt>,
}

/// By which annotation a target is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Called {
    /// `desiredConfig`: the node's turn.
    Desired,
    /// Before its turn.
    Next,
}

impl ExecutorState {
    /// An attempt that is no update yet.
    fn begin_ahead(&self, attempt: &Attempt) {
        self.facts().ahead = Some(attempt.clone());
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        // Nothing panics while it is held; a poisoned lock still holds a whole value.
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Executor for Agent {
    async fn run(&self, command: Command, events: EventSink) -> Option<Event> {
        let event = match command {
            Command::Observe => self.observe().await,
            Command::Plan { from, to } => self.plan(&from, &to, &events).await,
            Command::Prepare => self.prepare(&events).await,
            Command::Prefetch { from, to } => self.prefetch(&from, &to, &events).await,
            Command::Drain => self.drain(&events).await,
            Command::Apply => self.apply().await,
            Command::Reboot => {
                let mut reported = self.reported.clone();
                let words = async {
                    let is_shown = |it: &Reported| *it == Some(PhaseName::Rebooting);
                    // Without its writer the daemon ends anyway.
                    let ((), _) = tokio::join!(self.reporter.flush(), reported.wait_for(is_shown));
                };
                let event = apply::reboot(&self.helper, &self.publisher, words).await;
                self.metrics.count_failed_reboot();
                event
            }
            // The helper reads from the journal whether the target has booted.
            Command::Revert | Command::RollBack => match self.stored() {
                Some(plan) => apply::revert(&self.helper, &plan.attempt).await,
                // Nothing was begun in this boot or before it.
                None => Event::Reverted,
            },
            Command::Verify { to } => self.verify(&to, &events).await,
            Command::ReturnToService => {
                let shown = || self.publisher.rest((self.now)());
                match self.return_to_service(shown).await {
                    Ok(()) => Event::InService,
                    Err(error) => failed(&error),
                }
            }
            Command::Uncordon => match self.return_to_service(|| None).await {
                Ok(()) => return None,
                Err(error) => Event::StillCordoned(Chain(&error).to_string()),
            },
            Command::Forget => {
                let forget = || JournalStore::new(&Root::open(&self.root, None)?).clear_held();
                if let Err(error) = forget() {
                    tracing::warn!(error = %Chain(&error), "cannot forget the held target");
                }
                return None;
            }
            // The loop keeps these two to itself.
            Command::Cancel | Command::RetryAfter(_) => return None,
        };
        Some(event)
    }

    async fn cancel(&self) {
        let attempts = {
            let facts = self.state.facts();
            let plan = facts.plan.as_ref().map(|plan| plan.attempt.clone());
            plan.into_iter().chain(facts.ahead.clone())
        };
        for attempt in attempts {
            for verb in prepare::VERBS {
                if let Err(error) = self.helper.stop(verb, &attempt).await {
                    tracing::warn!(error = %Chain(&error), "cannot stop what was given up");
                }
            }
        }
    }

    fn show(&self, machine: &Machine) {
        let Some(change) = self.publisher.show(machine, (self.now)()) else {
            return;
        };
        self.metrics.show(&change.after);
        let before = change.before.as_ref().map(Shown::phase);
        if before != Some(change.after.phase()) {
            if change.after.phase() != PhaseName::Draining {
                self.metrics.set_drain_overdue(false);
            }
            let status = desired::latest_status(&self.seen);
            log_phase(before, machine.phase(), status.as_ref());
            let arrives = arrives(machine.phase(), status.as_ref());
            if arrives {
                self.watched.send_modify(|watched| watched.arrivals += 1);
            }
            drift_target::follow_phase(&self.watched, machine.phase());
            if let Some(word) = of_phase(&self.node, machine.phase(), arrives) {
                self.reporter.report(&word);
            }
            if matches!(change.after.phase(), PhaseName::Idle | PhaseName::Held) {
                self.rest();
            }
        }
    }
}

impl Agent {
    fn stored(&self) -> Option<planning::Stored> {
        self.state.facts().plan.clone()
    }

    /// A name that no attempt on this host had before: the time, and a number within this process.
    fn name_attempt(&self) -> Attempt {
        let number = self.state.names.fetch_add(1, Ordering::Relaxed);
        Attempt(format!("{:x}-{number:x}", (self.now)().as_millisecond()))
    }

    async fn observe(&self) -> Event {
        if let Err(error) = self.adopt().await {
            return failed(&error);
        }
        match self.settled_host().await {
            Ok(Some(host)) => {
                if host.under_way.is_none() {
                    self.say_which_counts(&host.observation.at);
                }
                let mut facts = self.state.facts();
                facts.at = Some(host.observation.at.clone());
                facts.boot_id.clone_from(&host.observation.boot_id);
                facts.plan = host.under_way;
                Event::Observed(host.observation)
            }
            Ok(None) => failed(&Refusal::NoRecord.into()),
            Err(error) => failed(&error),
        }
    }

    /// Reads the host; `None` if it has no record. A unit that the daemon before started is waited
    /// for until its attempt is stored, or it ends without one.
    async fn settled_host(&self) -> Result<Option<observe::Host>, Error> {
        let mut waited_for = None;
        loop {
            // First the unit, then the journal: what ends in between has stored what it left.
            let unit = self.helper.running(&apply::VERBS).await?;
            let read = Root::open(&self.root, None).map_err(observe::Error::from);
            let host = read.and_then(|root| observe::host(&root))?;
            let is_stored = host.as_ref().is_none_or(|host| host.under_way.is_some());
            if unit.is_none() || is_stored {
                return Ok(host);
            }
            if waited_for != unit {
                tracing::info!(unit, "waiting for what the daemon before began");
                waited_for = unit;
            }
            sleep(apply::PACE).await;
        }
    }

    /// Names both where host and Node differ in what is in force.
    fn say_which_counts(&self, on_disk: &Target) {
        let shown = desired::latest_status(&self.seen).and_then(|status| status.current());
        let Some(shown) = shown else { return };
        let (config, image) = (&on_disk.config, &on_disk.image);
        // Clients of OpenShift's MCO look for these words.
        if shown.config != *config {
            let shown = shown.config;
            tracing::warn!(
                "Disk currentConfig {config:?} overrides node's currentConfig annotation {shown:?}"
            );
        }
        if shown.image != *image {
            let (image, shown) = (image.as_deref(), shown.image.as_deref());
            tracing::warn!(
                "Disk currentImage {:?} overrides node's currentImage annotation {:?}",
                image.unwrap_or_default(),
                shown.unwrap_or_default()
            );
        }
    }

    async fn plan(&self, from: &Target, to: &Target, events: &EventSink) -> Event {
        let may_begin = async {
            // A record that went since the start is taken from the Node, as at the start.
            self.adopt().await?;
            self.keep_to_pool(to).await?;
            self.keep_join_kubeconfig()?;
            self.is_forced()
        };
        let is_forced = match may_begin.await {
            Ok(is_forced) => is_forced,
            Err(error) => return failed(&error),
        };
        // Neither changes the host.
        let (checked, made) = tokio::join!(
            self.check_origin(from, is_forced),
            self.make_plan(Called::Desired, from, to, is_forced, events)
        );
        if let Err(error) = checked {
            return failed(&error);
        }
        tracing::info!("Starting update from {from} to {to}");
        match made {
            Ok(stored) => {
                let outline = stored.outline.clone();
                // Clients of OpenShift's MCO look for these words. It calculates a drain for a
                // reboot also where the cluster's only node is not drained.
                let drain = outline.drain || outline.route == Route::Reboot;
                tracing::info!(
                    "Drain calculated for node disruption: {drain} for config {}",
                    to.config
                );
                if !stored.without_effect.is_empty() {
                    let event =
                        NodeEvent::changes_without_effect(&to.config, &stored.without_effect);
                    self.reporter.report(&event);
                }
                if let Some(image) = &outline.image {
                    self.reporter.report(&NodeEvent::os_update_started(image));
                }
                self.state.facts().plan = Some(stored);
                Event::Planned(outline)
            }
            Err(no_plan) => no_plan.into(),
        }
    }

    async fn make_plan(
        &self,
        called: Called,
        from: &Target,
        to: &Target,
        is_forced: bool,
        events: &EventSink,
    ) -> Result<planning::Stored, planning::NoPlan> {
        let attempt = self.name_attempt();
        let single_replica =
            desired::latest_status(&self.seen).is_some_and(|status| status.is_single_replica());
        let facts = planning::facts(&self.helper, &self.root, &attempt, single_replica);
        let planner = Planner {
            root: &self.root,
            account: &self.account,
            configs: &self.configs,
            key: match called {
                Called::Desired => annotation::DESIRED_CONFIG,
                Called::Next => annotation::NEXT_CONFIG,
            },
            is_forced,
        };
        // Two parsed configurations are large.
        Box::pin(planner.plan(&attempt, (from, to), facts, events)).await
    }

    /// Whether an administrator forces the update.
    fn is_forced(&self) -> Result<bool, Error> {
        let root = Root::open(&self.root, None).map_err(observe::Error::from)?;
        Ok(observe::is_forced(&root)?)
    }

    /// Checks files and units of the host before it is changed, unless an administrator forces the
    /// update. A difference is reported as an event, too.
    async fn check_origin(&self, from: &Target, is_forced: bool) -> Result<(), Error> {
        if is_forced {
            // Clients of OpenShift's MCO look for these words.
            tracing::info!("Skipping on-disk validation; {FORCE_FILE} present");
            return Ok(());
        }
        if let Some(drift) = self.find_drift().await? {
            let from = from.clone();
            let refusal = Refusal::Drifted { from, drift };
            self.reporter
                .report(&NodeEvent::preflight_failed(&refusal.to_string()));
            return Err(refusal.into());
        }
        Ok(())
    }

    /// What of the files and units of the host's configuration was changed by hand.
    pub(super) async fn find_drift(&self) -> Result<Option<String>, Error> {
        let verb = Verb::Verify { drift: true };
        let name = self.name_attempt();
        let report = self.helper.run(&verb, &name, Priority::Normal).await?;
        match report.outcome {
            HelperOutcome::Done => Ok(None),
            // Only a check that came to its end has details.
            HelperOutcome::Failed if report.clone().details::<VerifyDetails>().is_ok() => {
                Ok(Some(report.because()))
            }
            HelperOutcome::Failed | HelperOutcome::Rejected | HelperOutcome::NeedsReboot => {
                Err(Error::NotDone(report))
            }
        }
    }

    async fn prepare(&self, events: &EventSink) -> Event {
        let Some(plan) = self.stored() else {
            return no_plan();
        };
        prepare::prepare(&self.helper, &plan, Priority::Low, events).await
    }

    async fn drain(&self, events: &EventSink) -> Event {
        let Some(plan) = self.stored() else {
            return no_plan();
        };
        // On the way back, too, a plan without a drain has none: pods of a cluster's only node have
        // nowhere to go.
        if !plan.outline.drain {
            return Event::Drained;
        }
        let draining = NodeDrain {
            kubelet: &self.kubelet,
            writer: &self.writer,
            seen: self.seen.clone(),
            node: &self.node,
            own: self.own.as_ref(),
            attempt: &plan.attempt,
            config: &plan.to.config,
            now: self.now,
            clock: DrainClock::of(&self.root),
        };
        let mut blocked = "pods have not left yet".to_owned();
        let mut is_overdue = false;
        let result = draining
            .run(|notice| {
                match notice {
                    DrainNotice::Blocked(text) => blocked = text,
                    DrainNotice::Slow => {
                        self.reporter
                            .report(&NodeEvent::drain_threshold_exceeded(&blocked));
                        return;
                    }
                    DrainNotice::Overdue => {
                        is_overdue = true;
                        self.metrics.set_drain_overdue(true);
                        self.reporter
                            .report(&NodeEvent::failed_to_drain(&self.overdue(&blocked)));
                        self.reporter.report(&NodeEvent::drain_failed(&self.node));
                    }
                }
                events.send(if is_overdue {
                    Event::Overdue(self.overdue(&blocked))
                } else {
                    Event::Blocked(blocked.clone())
                });
            })
            .await;
        match result {
            Ok(()) => {
                tracing::info!("drain complete");
                Event::Drained
            }
            Err(error) => Event::Failed(Chain(&error).to_string()),
        }
    }

    /// Clients of OpenShift's MCO look for these words.
    fn say_no_drain(&self, route: Route) {
        match route {
            // Any other node is drained before a reboot.
            Route::Reboot => self.reporter.report(&NodeEvent::drain_skipped()),
            Route::Live => tracing::info!("Changes do not require drain, skipping."),
        }
    }

    fn overdue(&self, blocked: &str) -> String {
        format!(
            "failed to drain node: {} after 1 hour: {blocked}",
            self.node
        )
    }

    async fn apply(&self) -> Event {
        let Some(plan) = self.stored() else {
            return no_plan();
        };
        if !plan.outline.drain {
            self.say_no_drain(plan.outline.route);
        }
        // Clients of OpenShift's MCO look for these words.
        for word in &plan.post_config_actions {
            let config = &plan.to.config;
            tracing::info!("Performing post config change action: {word} for config {config}");
        }
        let boot_id = self.state.facts().boot_id.clone();
        // Not knowing the node, what can be undone by a person is better than what cannot.
        let stays = desired::latest(&self.seen).is_none_or(|node| node.is_control_plane);
        let event = apply::apply(
            &self.helper,
            &plan.attempt,
            &plan.directory,
            &boot_id,
            stays,
            |text, details| {
                if details.is_drifted {
                    self.reporter.report(&NodeEvent::preflight_failed(text));
                }
                if let Some(service) = &details.failed_service {
                    self.reporter
                        .report(&NodeEvent::service_failed(service, text));
                }
            },
        )
        .await;
        if event == Event::Applied {
            for event in NodeEvent::applied_live(&plan.services) {
                self.reporter.report(&event);
            }
            // Clients of OpenShift's MCO look for these words.
            tracing::info!(
                "Node has Desired Config {}, skipping reboot",
                plan.to.config
            );
        }
        if matches!(event, Event::Switched { .. }) {
            let consume = || observe::consume_force(&Root::open(&self.root, None)?);
            if let Err(error) = consume() {
                // It lies where the reboot removes it.
                tracing::warn!(error = %Chain(&error), "cannot remove {FORCE_FILE}");
            }
        }
        event
    }

    async fn verify(&self, to: &Target, events: &EventSink) -> Event {
        let root = match Root::open(&self.root, None) {
            Ok(root) => root,
            Err(error) => return Event::Failed(Chain(&error).to_string()),
        };
        let attempt = self.name_attempt();
        let (is_new, was_verified) = {
            let facts = self.state.facts();
            (facts.at.as_ref() != Some(to), facts.is_verified)
        };
        let event = verify::verify(&self.helper, &root, (to, is_new), &attempt, |event| {
            events.send(event);
        })
        .await;
        if event == Event::Verified {
            let mut facts = self.state.facts();
            facts.at = Some(to.clone());
            facts.is_verified = true;
        } else if let Event::Failed(text) = &event {
            // What differs may be restored.
            drift_target::watch_against(&self.watched, &to.config);
            self.reporter.report(&if was_verified {
                NodeEvent::preflight_failed(text)
            } else {
                NodeEvent::validation_failed(text)
            });
        }
        event
    }

    /// Returns the node to service, and shows what `shown` has with it; an error is reported as an
    /// event, too.
    async fn return_to_service(&self, shown: impl FnOnce() -> Option<Shown>) -> Result<(), Error> {
        let at = self.state.facts().at.clone();
        let config = at.map(|at| at.config).unwrap_or_default();
        let root = Root::open(&self.root, None);
        // A host that cannot tell since when it is up takes any word of the kubelet.
        let up_since = root
            .ok()
            .and_then(|root| observe::seconds_up(&root).ok())
            .and_then(|seconds| SignedDuration::try_from_secs_f64(seconds).ok())
            .and_then(|up| (self.now)().checked_sub(up).ok())
            .unwrap_or(Timestamp::UNIX_EPOCH);
        let given = return_to_service::return_to_service(
            &self.writer,
            &self.seen,
            &self.node,
            &config,
            up_since,
            shown,
        )
        .await;
        given.map_err(|error| {
            let text = Chain(&error).to_string();
            self.reporter.report(&NodeEvent::failed_to_uncordon(&text));
            error.into()
        })
    }

    /// An idle daemon keeps no connection but its watch, and no memory that it does not use.
    fn rest(&self) {
        self.account.rest();
        self.configs.rest();
        chassis::memory::trim_heap();
    }
}

fn failed(error: &Error) -> Event {
    Event::Failed(Chain(error).to_string())
}

fn no_plan() -> Event {
    Event::Failed("the plan is not stored any more".to_owned())
}
