//! The way of another release to the one that is applied: retrieved, verified, loaded, checked.
//! Whatever fails, the running release goes on being applied.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::ConditionStatus;
use api::config::{ClusterVersion, HistoryState, Release};
use chassis::backoff::Backoff;
use chassis::report::Chain;
use cluster::{path, wire};
use k8s_openapi::api::core::v1::ConfigMap;
use operator::Next;
use release::capability::{CAPABILITY, implied_by_update};
use release::inclusion::Cluster;
use release::inventory::Entry;

use tokio::time::Instant;

use super::{Loaded, Target, VersionOperator, VersionWork};
use crate::events::VersionEvent;
use crate::payload::ReleaseFiles;
use crate::verifier::Verifier;
use version_update::builder::ClusterProxy;
use version_update::precondition;
use version_update::report::{AcceptanceStep, TargetRelease};
use version_update::risk;
use version_update::validation::{WantedRelease, validate};

/// How long verification may take, as a share of the time for all of the retrieval.
const VERIFICATION_SHARE: u32 = 2;

/// When a release is tried again that was refused.
///
/// What keeps it back is outside as a rule, such as a registry, and its end is not seen here. So
/// the longest delay is a quarter of the interval, a minute at most.
#[derive(Debug)]
pub(super) struct RequestPace {
    /// What was tried last: the generation of the ClusterVersion, and the image.
    tried: Option<(Option<i64>, String)>,
    backoff: Backoff,
}

impl RequestPace {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            tried: None,
            backoff: Backoff::new(interval / 16, interval / 4),
        }
    }

    /// Counts a refusal. Another request starts with the shortest delay.
    fn next_delay(&mut self, object: &ClusterVersion, image: &str) -> Duration {
        let tried = Some((object.metadata.generation, image.to_owned()));
        if self.tried != tried {
            self.tried = tried;
            self.backoff.reset();
        }
        self.backoff.next_delay()
    }
}

/// Holds the own release back after a start, until another one was tried whose application had
/// begun.
#[derive(Debug, Default)]
pub(super) struct FirstTry {
    has_tried: AtomicBool,
    is_held: AtomicBool,
}

impl FirstTry {
    /// Whether the own release has to wait; `has_begun` says that another one's application had.
    pub(super) fn holds(&self, has_begun: bool) -> bool {
        // Noted first: a try that ends in between must see it.
        self.is_held.store(has_begun, Ordering::SeqCst);
        let holds = has_begun && !self.has_tried.load(Ordering::SeqCst);
        if !holds {
            self.is_held.store(false, Ordering::SeqCst);
        }
        holds
    }

    /// Notes that a request was tried. True if the own release waited for that.
    fn tried(&self) -> bool {
        self.has_tried.store(true, Ordering::SeqCst);
        self.is_held.swap(false, Ordering::SeqCst)
    }
}

/// Why a release was not accepted: the step, and what is said of it.
struct Refusal {
    step: &'static str,
    message: String,
}

/// A release whose image is on disk.
pub(super) struct Retrieved {
    pub(super) root: PathBuf,
    is_verified: bool,
    /// What was overridden.
    risk: Option<String>,
}

impl VersionOperator {
    /// Accepts the release that is asked for, if it is another one than is applied.
    pub(super) async fn accept(&self) -> Result<Next, wire::Error> {
        let (Some(object), Some(running)) = (self.object(), self.loaded()) else {
            // The running release says whose signatures count. It wakes this key once it is read.
            return Ok(Next::Settled);
        };
        let own = self.own();
        let wanted = match validate(&object, &own).1 {
            WantedRelease::Own => own.clone(),
            WantedRelease::Other(release) => release,
        };
        if wanted.image == running.target.image {
            self.shared.lock().step = None;
            return Ok(self.tried(Next::Settled));
        }
        let status = object.status.clone().unwrap_or_default();
        let mut history = status.history.iter();
        if !history.any(|entry| entry.state == HistoryState::Completed) {
            tracing::info!("the first release is applied before another one is accepted");
            return Ok(self.tried(Next::After(self.settings.interval)));
        }
        if wanted.image == own.image {
            self.switch(Target::local(&self.settings), None);
            return Ok(self.tried(Next::Settled));
        }
        let accepted = tokio::select! {
            accepted = self.try_accept(&object, &wanted, &running) => accepted?,
            // Another release, or none, is asked for now.
            () = self.replaced(&object) => return Ok(Next::After(Duration::ZERO)),
        };
        match accepted {
            Ok(()) => Ok(self.tried(Next::Settled)),
            Err(Refusal { step, message }) => {
                self.say(&object, &VersionEvent::refused(step, &message));
                self.step(&wanted, step, ConditionStatus::False, message);
                let delay = self.request_pace().next_delay(&object, &wanted.image);
                Ok(self.tried(Next::After(delay)))
            }
        }
    }

    /// Notes that a request was tried since the start, for the release that waits for that.
    fn tried(&self, next: Next) -> Next {
        // A pass that has failed keeps its delay.
        if self.first_try.tried() {
            self.waker.wake(vec![VersionWork::Release]);
        }
        self.waker.wake(vec![VersionWork::Status]);
        next
    }

    fn say(&self, object: &ClusterVersion, event: &VersionEvent) {
        event.say(&self.recorder, object, (self.now)());
    }

    fn step(&self, wanted: &Release, reason: &'static str, status: ConditionStatus, text: String) {
        self.shared.lock().step = Some(AcceptanceStep {
            image: wanted.image.clone(),
            reason,
            status,
            message: text,
        });
    }

    async fn try_accept(
        &self,
        object: &ClusterVersion,
        wanted: &Release,
        running: &Loaded,
    ) -> Result<Result<(), Refusal>, wire::Error> {
        let Release { version, image, .. } = wanted;
        let named = format!("version={version:?} image={image:?}");
        let update = object.spec.desired_update.as_ref();
        let is_forced = update.is_some_and(|update| update.force);
        let begun = format!("Retrieving and verifying payload {named}");
        tracing::info!(version, image, is_forced, "retrieving a release");
        self.say(object, &VersionEvent::Retrieving(begun.clone()));
        self.step(wanted, "RetrievePayload", ConditionStatus::Unknown, begun);
        let retrieved = match self.retrieve(wanted, running, is_forced).await? {
            Ok(retrieved) => retrieved,
            Err(why) => {
                return Ok(Err(Refusal {
                    step: "RetrievePayload",
                    message: format!("Retrieving payload failed {named} failure={why}"),
                }));
            }
        };
        if let Some(risk) = &retrieved.risk {
            self.say(object, &VersionEvent::Unverified(risk.clone()));
        }
        self.say(
            object,
            &VersionEvent::Loading(format!("Loading payload {named}")),
        );
        let files = match self.load(&retrieved, wanted).await? {
            Ok(loaded) => loaded,
            Err(why) => {
                return Ok(Err(Refusal {
                    step: "LoadPayload",
                    message: format!("Loading payload failed {named} failure={why}"),
                }));
            }
        };
        let found = &files.1.release;
        if !version.is_empty() && found.version != *version {
            return Ok(Err(Refusal {
                step: "VerifyPayloadVersion",
                message: format!(
                    "Verifying payload failed {named} failure=release image version {} does not \
                     match the expected upstream version {version}",
                    found.version
                ),
            }));
        }
        // As it is now: the retrieval took a while.
        let now = self.object();
        let findings = {
            let sources = &files.1.rollback_sources;
            precondition::check(now.as_deref().unwrap_or(object), found, sources)
        };
        let text = precondition::summary(&findings, is_forced);
        if !is_forced && findings.iter().any(|finding| finding.is_blocking) {
            let why = text.unwrap_or_default();
            return Ok(Err(Refusal {
                step: "PreconditionChecks",
                message: format!("Preconditions failed for payload loaded {named}: {why}"),
            }));
        }
        let passed = format!("Preconditions passed for payload loaded {named}");
        let checked = text.clone();
        let checked = checked.map_or(VersionEvent::Passed(passed), VersionEvent::Warned);
        self.say(object, &checked);
        let risks: Vec<String> = retrieved.risk.into_iter().chain(text).collect();
        let target = TargetRelease {
            release: found.clone(),
            is_verified: retrieved.is_verified,
            accepted_risks: self.with_accepted(object, image, &risks.join("\n")),
        };
        tracing::info!(
            version = found.version,
            image,
            risks = target.accepted_risks,
            "accepted a release"
        );
        let loaded = VersionEvent::Accepted(format!("Payload loaded {named}"));
        self.say(object, &loaded);
        let implied = self.implied(running, &files.1);
        let target_files = Target {
            root: retrieved.root,
            image: image.clone(),
            is_local: false,
            implied,
        };
        self.switch(target_files, Some(target));
        Ok(Ok(()))
    }

    /// What is recorded of a release: what was overridden, and risks that were accepted.
    fn with_accepted(&self, object: &ClusterVersion, image: &str, overridden: &str) -> String {
        let report = self.shared.lock().clone();
        let opposition = self.opposition(object, &report);
        let current = report.release(&self.own()).version.clone();
        let advised = self.advised_with(&opposition, &current);
        let found = advised.advice.as_ref();
        let found = found.and_then(|advice| advice.found.as_ref());
        let accepted = risk::accepted(&object.spec);
        let exposed = found
            .and_then(|(_, offers)| risk::acceptance(offers, image, &advised.queries, &accepted));
        match (overridden, exposed) {
            (_, None) => overridden.to_owned(),
            ("", Some(exposed)) => format!("The target release {image} is {exposed}"),
            (_, Some(exposed)) => format!("{overridden}; It is {exposed}"),
        }
    }

    /// Applies another release from now on.
    fn switch(&self, target: Target, release: Option<TargetRelease>) {
        self.shared.lock().retarget(release);
        *self.target() = Arc::new(target);
        *self
            .loaded
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = None;
        self.pace().attempt = 0;
        self.waker
            .wake(vec![VersionWork::Release, VersionWork::Status]);
    }

    /// Verifies a release and has it on disk; else why not.
    pub(super) async fn retrieve(
        &self,
        wanted: &Release,
        running: &Loaded,
        is_forced: bool,
    ) -> Result<Result<Retrieved, String>, wire::Error> {
        let Release { version, image, .. } = wanted;
        let began = Instant::now();
        let limit = self.settings.retrieval.limit / VERIFICATION_SHARE;
        let verified = tokio::time::timeout(limit, self.verify(image, running)).await;
        let verified = match verified {
            Ok(verified) => verified?,
            Err(_) => Err(format!("it was not verified within {} s", limit.as_secs())),
        };
        let risk = match &verified {
            Ok(()) => None,
            Err(why) if is_forced => Some(format!(
                "Target release version={version:?} image={image:?} cannot be verified, but \
                 continuing anyway because the update was forced: {why}"
            )),
            Err(why) => return Ok(Err(format!("The update cannot be verified: {why}"))),
        };
        let kept = &running.target.root;
        let root = self
            .settings
            .retrieval
            .retrieve(&self.access, version, image, kept, began)
            .await;
        Ok(root
            .map(|root| Retrieved {
                root,
                is_verified: verified.is_ok(),
                risk,
            })
            .map_err(|why| format!("Unable to download and prepare the update: {why}")))
    }

    async fn verify(
        &self,
        image: &str,
        running: &Loaded,
    ) -> Result<Result<(), String>, wire::Error> {
        let trust = match running.files.trust() {
            Ok(trust) => trust,
            Err(why) => return Ok(Err(why)),
        };
        let (proxy, bundle) = self.outbound().await?;
        let verifier = Verifier {
            access: &self.access,
            proxy: &proxy,
            bundle: bundle.as_deref(),
            trust: &trust,
            now: (self.now)(),
        };
        Ok(verifier.verify(image).await)
    }

    /// The cluster's proxy, and its authorities for servers outside.
    pub(super) async fn outbound(&self) -> Result<(ClusterProxy, Option<String>), wire::Error> {
        let proxy = self.engine.hands().setting("proxies").await?;
        let path = path::namespaced::<ConfigMap>("openshift-config-managed", "trusted-ca-bundle");
        let map: Option<ConfigMap> = self.access.find(&path).await?;
        let bundle = map.and_then(|map| map.data?.remove("ca-bundle.crt"));
        let proxy = proxy.map(|proxy| ClusterProxy::read(&proxy));
        Ok((proxy.unwrap_or_default(), bundle))
    }

    /// Loads a release for this cluster, once to learn its version, by which feature gates are.
    pub(super) async fn load(
        &self,
        retrieved: &Retrieved,
        wanted: &Release,
    ) -> Result<Result<(Cluster, ReleaseFiles), String>, wire::Error> {
        let load = |cluster: &Cluster| {
            // A manifest of a capability that this program does not know is not left out.
            let cluster = Cluster {
                capabilities: None,
                ..cluster.clone()
            };
            ReleaseFiles::load(&retrieved.root, &wanted.image, &cluster)
                .map_err(|error| Chain(&error).to_string())
        };
        let cluster = self.cluster(None).await?;
        let files = match load(&cluster) {
            Ok(files) => files,
            Err(why) => return Ok(Err(why)),
        };
        let gated = self.cluster(Some(&files.release.version)).await?;
        if gated.gates == cluster.gates {
            return Ok(Ok((cluster, files)));
        }
        Ok(load(&gated).map(|files| (gated, files)))
    }

    /// Capabilities that the next release turns on.
    pub(super) fn implied(&self, running: &Loaded, next: &ReleaseFiles) -> BTreeSet<String> {
        let enabled = {
            let report = self.shared.lock();
            let accepted = report.accepted.as_ref();
            accepted.map(|accepted| accepted.capabilities.enabled.clone())
        };
        let enabled = enabled.unwrap_or_default();
        let names = |entry: &Entry| -> BTreeSet<String> {
            let list = entry.annotations.get(CAPABILITY);
            let names = list.into_iter().flat_map(|list| list.split('+'));
            names.map(str::to_owned).collect()
        };
        let is_on = |entry: &&Entry| names(entry).is_subset(&enabled);
        let applied = running.files.inventory.entries.iter().filter(is_on);
        let applied = applied.map(|entry| (&entry.id, names(entry)));
        let next = next.inventory.entries.iter();
        let next = next.map(|entry| (&entry.id, names(entry)));
        implied_by_update(applied, next, &enabled)
    }
}

#[cfg(test)]
mod tests {
    use api::config::ClusterVersionSpec;

    use super::*;

    #[test]
    fn only_a_release_that_waits_goes_on_when_another_one_was_tried() {
        let first = FirstTry::default();
        assert!(!first.holds(false));
        assert!(!first.tried());
        assert!(!first.holds(true));
        let first = FirstTry::default();
        assert!(first.holds(true));
        assert!(first.tried());
        assert!(!first.tried() && !first.holds(true));
    }

    /// A refused release is tried again soon. Row 12 of `docs/reference/known-weaknesses.md`,
    /// "Version operator".
    #[test]
    fn refused_release_is_tried_again_within_a_quarter_of_the_interval() {
        let mut pace = RequestPace::new(Duration::from_mins(4));
        let object = |generation| {
            let mut object = ClusterVersion::new("version", ClusterVersionSpec::default());
            object.metadata.generation = Some(generation);
            object
        };
        let mut after = |generation, image: &str| {
            let delay = pace.next_delay(&object(generation), image);
            delay.as_secs_f64()
        };
        for longest in [15.0, 30.0, 60.0, 60.0, 60.0] {
            let delay = after(1, "a");
            assert!(delay >= longest / 2.0 && delay <= longest, "{delay}");
        }
        // Another request does not wait for what became of the one before.
        assert!(after(2, "a") <= 15.0);
        assert!(after(2, "a") >= 15.0);
        assert!(after(2, "b") <= 15.0);
    }
}
