//! Pods leave a node: through evictions, with their own grace periods, for as long as it takes.

use std::collections::BTreeMap;
use std::time::Duration;

use chassis::backoff::{self, Backoff};
use chassis::report::Chain;
use futures::{Stream, StreamExt as _};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until, timeout_at};

use cluster::access::Access;
use cluster::path;
use cluster::wire::{self, ObjectEvent, escape};

mod evict;
mod filter;
mod pace;
mod progress;
#[cfg(test)]
mod tests;

pub use evict::{EvictionResponse, try_eviction};
pub use filter::{Pod, PodController, PodName, Skip, Verdict, judge};
pub use progress::{Blocked, Progress};

use pace::{Stillness, pause};
use progress::ProgressReporter;

/// Path of the pods of a node, with its query.
pub fn pods_of(node: &str) -> String {
    let pods = path::untyped("v1", None, "pods");
    format!("{pods}?fieldSelector=spec.nodeName%3D{}", escape(node))
}

/// First and longest wait after a response without a decision on the pod: no connection, an
/// internal error.
const TROUBLE_RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Pods of one controller that are evicted although they came after the first list. The scheduler
/// may have put some on the node before it knew of the cordon. More than these come because the
/// others were evicted: a controller that names the node itself makes pods there without end.
const LATE_PODS: u32 = 3;

/// How long one watch of the node's pods lasts; then they are listed again.
const WATCH_LENGTH: Duration = Duration::from_mins(5);

/// A drain of one node.
#[derive(Debug, Clone, Copy)]
pub struct Drain<'a> {
    /// Identity that may list the node's pods and evict them: the kubelet's.
    pub access: &'a Access,
    pub node: &'a str,
    /// The pod that drains, which stays.
    pub own: Option<&'a PodName>,
    /// How long the drain has gone on in a process that has ended.
    pub passed: Duration,
}

#[derive(Debug, Deserialize)]
struct List {
    metadata: ListMetadata,
    #[serde(default)]
    items: Vec<Pod>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
}

/// A pod that has to leave, and how far it is.
#[derive(Debug)]
struct Leaver {
    name: PodName,
    /// First attempt that did not succeed.
    refused_since: Option<Instant>,
    stage: Stage,
}

#[derive(Debug)]
struct Refusal {
    budget: Option<String>,
    message: String,
    /// When the eviction may be requested again, at the earliest.
    not_before: Instant,
}

#[derive(Debug)]
enum Stage {
    /// To be evicted, again perhaps, from this time on.
    Due(Instant, Option<Refusal>),
    /// Deleted; its grace period runs.
    Terminating,
}

/// Pods that have to leave, by uid: a pod of the same name that comes back is another pod.
#[derive(Debug)]
struct Leavers {
    pods: BTreeMap<String, Leaver>,
    /// Whether the pods were listed once: who comes after that comes to a cordoned node.
    are_listed: bool,
    /// How many of each controller came later.
    late: BTreeMap<String, u32>,
    still: Stillness,
}

impl Drain<'_> {
    /// Evicts what has to leave and returns when it is gone. The node must be cordoned before.
    ///
    /// Never gives up: the eviction of a pod that a budget protects is tried again, soon while pods
    /// leave and seldom when none does; an API server out of reach is waited for. `report` is
    /// called whenever what holds up the drain is another pod or another budget. Dropping the
    /// future cancels the drain; pods that were evicted still terminate.
    pub async fn run(&self, mut report: impl FnMut(&Progress)) {
        let mut retry = Backoff::new(TROUBLE_RETRY.0, TROUBLE_RETRY.1);
        let mut leavers = Leavers {
            pods: BTreeMap::new(),
            are_listed: false,
            late: BTreeMap::new(),
            still: Stillness::new(self.passed),
        };
        let mut reporter = ProgressReporter::new();
        loop {
            let error = match self
                .round(&mut leavers, &mut retry, &mut reporter, &mut report)
                .await
            {
                Ok(true) => return,
                Ok(false) => continue,
                Err(error) => error,
            };
            let error = Chain(&error).to_string();
            tracing::warn!(node = self.node, error, "drain waits for the API server");
            let trouble = Progress {
                trouble: Some(error),
                ..Progress::default()
            };
            reporter.report(trouble, &mut report);
            tokio::time::sleep(retry.next_delay()).await;
        }
    }

    /// Lists the pods and follows them for the length of one watch. True when all are gone.
    async fn round(
        &self,
        leavers: &mut Leavers,
        retry: &mut Backoff,
        reporter: &mut ProgressReporter,
        report: &mut impl FnMut(&Progress),
    ) -> Result<bool, wire::Error> {
        let path = pods_of(self.node);
        let list: List = self.access.get(&path).await?;
        self.adopt(leavers, &list.items);
        if leavers.pods.is_empty() {
            return Ok(true);
        }
        let path = format!(
            "{path}&watch=true&resourceVersion={}&timeoutSeconds={}",
            list.metadata.resource_version,
            backoff::spread(WATCH_LENGTH).as_secs()
        );
        drop(list);
        let mut events = std::pin::pin!(self.access.watch::<Pod>(&path).await?);
        let end = Instant::now() + WATCH_LENGTH;
        loop {
            self.evict_due(leavers, retry).await;
            if leavers.pods.is_empty() {
                return Ok(true);
            }
            let progress = progress(leavers);
            let due = leavers.pods.values().filter_map(Leaver::due);
            let wake = due
                .chain(reporter.due(&progress).filter(|due| *due > Instant::now()))
                .min();
            reporter.report(progress, report);
            tokio::select! {
                event = next(&mut events, end) => match event? {
                    Some(event) => self.take_in(leavers, event),
                    None => return Ok(false),
                },
                () = sleep_until(wake.unwrap_or(end)) => {}
            }
        }
    }

    /// Takes over what a list says: new pods are judged, those not in it are gone.
    fn adopt(&self, leavers: &mut Leavers, pods: &[Pod]) {
        let before = leavers.pods.len();
        leavers
            .pods
            .retain(|uid, _| pods.iter().any(|pod| pod.uid == *uid));
        if leavers.pods.len() < before {
            leavers.moved();
        }
        for pod in pods {
            self.take_pod(leavers, pod);
        }
        leavers.are_listed = true;
    }

    fn take_in(&self, leavers: &mut Leavers, event: ObjectEvent<Pod>) {
        match event {
            ObjectEvent::Applied(pod) => self.take_pod(leavers, &pod),
            ObjectEvent::Deleted(pod) => {
                if let Some(leaver) = leavers.pods.remove(&pod.uid) {
                    tracing::info!(pod = %leaver.name, "pod has left");
                    leavers.moved();
                }
            }
            ObjectEvent::Bookmark(_) => {}
        }
    }

    fn take_pod(&self, leavers: &mut Leavers, pod: &Pod) {
        let stage = match judge(pod, self.own) {
            Verdict::Evict => Stage::Due(Instant::now(), None),
            Verdict::Wait => Stage::Terminating,
            Verdict::Skip(reason) => {
                tracing::debug!(pod = %pod.name, ?reason, "pod stays");
                leavers.pods.remove(&pod.uid);
                return;
            }
        };
        let is_late = leavers.are_listed && !leavers.pods.contains_key(&pod.uid);
        if is_late && matches!(stage, Stage::Due(..)) && !leavers.may_come_late(pod) {
            tracing::info!(pod = %pod.name, reason = ?Skip::CameBack, "pod stays");
            return;
        }
        match leavers.pods.get_mut(&pod.uid) {
            // The watch is only late for a pod that was already evicted.
            Some(leaver) if matches!(stage, Stage::Terminating) => leaver.stage = stage,
            Some(_) => {}
            None => {
                let leaver = Leaver {
                    name: pod.name.clone(),
                    refused_since: None,
                    stage,
                };
                leavers.pods.insert(pod.uid.clone(), leaver);
            }
        }
    }

    /// One eviction for each pod that is due, one after the other: a node needs no more connections
    /// than one.
    async fn evict_due(&self, leavers: &mut Leavers, retry: &mut Backoff) {
        let now = Instant::now();
        let due: Vec<_> = leavers
            .pods
            .iter()
            .filter(|(_, leaver)| leaver.due().is_some_and(|due| due <= now))
            .map(|(uid, leaver)| (uid.clone(), leaver.name.clone()))
            .collect();
        for (uid, name) in due {
            let response = evict::evict(self.access, &name, &uid).await;
            match &response {
                EvictionResponse::Accepted => tracing::info!(pod = %name, "evicting pod"),
                EvictionResponse::Gone => tracing::info!(pod = %name, "pod has left"),
                EvictionResponse::Blocked { message, .. } => {
                    tracing::info!(pod = %name, reason = %message, "pod may not be evicted yet");
                }
                EvictionResponse::Trouble(message) => {
                    tracing::warn!(pod = %name, error = %message, "cannot evict pod yet");
                }
            }
            let stage = match response {
                EvictionResponse::Gone => {
                    retry.reset();
                    leavers.pods.remove(&uid);
                    leavers.moved();
                    continue;
                }
                EvictionResponse::Accepted => {
                    retry.reset();
                    leavers.moved();
                    Stage::Terminating
                }
                EvictionResponse::Blocked {
                    budget,
                    message,
                    retry_after,
                } => {
                    retry.reset();
                    let not_before = Instant::now() + retry_after.unwrap_or_default();
                    let refusal = Refusal {
                        budget,
                        message,
                        not_before,
                    };
                    Stage::Due(leavers.next_attempt(&refusal), Some(refusal))
                }
                EvictionResponse::Trouble(message) => {
                    let not_before = Instant::now() + retry.next_delay();
                    let refusal = Refusal {
                        budget: None,
                        message,
                        not_before,
                    };
                    Stage::Due(not_before, Some(refusal))
                }
            };
            if let Some(leaver) = leavers.pods.get_mut(&uid) {
                leaver.refused_since.get_or_insert(now);
                leaver.stage = stage;
            }
        }
    }
}

impl Leavers {
    /// Whether a pod that came after the first list is evicted, too.
    fn may_come_late(&mut self, pod: &Pod) -> bool {
        if pod.tolerates_cordon {
            return false;
        }
        let namespace = &pod.name.namespace;
        // Pods without a controller have names of their own: a namespace has those.
        let maker = match &pod.controller {
            Some(PodController { kind, name, .. }) => format!("{namespace}/{kind}/{name}"),
            None => namespace.clone(),
        };
        let count = self.late.entry(maker).or_default();
        let may_come = *count < LATE_PODS;
        *count = count.saturating_add(1);
        may_come
    }

    /// The drain moved: what a budget refused is tried again soon.
    fn moved(&mut self) {
        self.still.end();
        let soon = Instant::now() + backoff::spread(pause(Duration::ZERO));
        for leaver in self.pods.values_mut() {
            if let Stage::Due(at, Some(refusal)) = &mut leaver.stage {
                *at = soon.max(refusal.not_before).min(*at);
            }
        }
    }

    /// When a refused eviction is tried again, as things are. Nodes that wait for the same budget
    /// do not ask all at once.
    fn next_attempt(&self, refusal: &Refusal) -> Instant {
        let wait = backoff::spread(pause(self.still.duration()));
        (Instant::now() + wait).max(refusal.not_before)
    }
}

impl Leaver {
    const fn due(&self) -> Option<Instant> {
        match self.stage {
            Stage::Due(at, _) => Some(at),
            Stage::Terminating => None,
        }
    }
}

fn progress(leavers: &Leavers) -> Progress {
    let mut progress = Progress::default();
    for leaver in leavers.pods.values() {
        match &leaver.stage {
            Stage::Terminating => progress.terminating.push(leaver.name.clone()),
            Stage::Due(at, refusal) => {
                if let Some(Refusal {
                    budget, message, ..
                }) = refusal
                {
                    progress.blocked.push(Blocked {
                        pod: leaver.name.clone(),
                        budget: budget.clone(),
                        since: leaver.refused_since.unwrap_or(*at),
                        message: message.clone(),
                    });
                }
            }
        }
    }
    progress
}

/// The next event, or nothing when the watch ends or is over time.
async fn next<S>(events: &mut S, end: Instant) -> Result<Option<ObjectEvent<Pod>>, wire::Error>
where
    S: Stream<Item = Result<ObjectEvent<Pod>, wire::Error>> + Unpin,
{
    timeout_at(end, events.next())
        .await
        .map_or(Ok(None), Option::transpose)
}
