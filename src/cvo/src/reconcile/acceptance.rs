//! The way of another release to the one that is applied: retrieved, verified, loaded, checked.
//! Whatever fails, the running release goes on being applied.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use api::config::{ClusterVersion, HistoryState, Release};
use chassis::report::Chain;
use cluster::{path, wire};
use k8s_openapi::api::core::v1::ConfigMap;
use operator::Next;
use release::capability::{CAPABILITY, implied_by_update};
use release::inclusion::Cluster;
use release::inventory::Entry;

use signatures::sigstore::demanding;
use tokio::time::Instant;

use super::releases::own_on_disk;
use super::{Loaded, VersionOperator};
use crate::node_registries::{NodeRegistries, NodeRegistriesError};
use crate::payload::{self, ReleaseFiles};
use crate::retrieval::RetrievalError;
use crate::verifier::{Verifier, VerifyError};
use version_update::acceptance::{Checkup, RetrievedRelease};
use version_update::builder::ClusterProxy;
use version_update::precondition::{self, Finding};
use version_update::release_state::{
    ReleaseEvent, ReleaseState, ReleaseTask, ReleaseWait, SpecRead,
};
use version_update::risk;
use version_update::stop;
use version_update::validation::{WantedRelease, validate};

/// How long verification may take, as a share of the time for all of the retrieval.
const VERIFICATION_SHARE: u32 = 2;

/// Why a release is not on disk as one that may be applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum RetrieveError {
    #[error("The update cannot be verified")]
    Verify(#[source] VerifyError),
    /// It cannot be brought to disk.
    #[error("Unable to download and prepare the update")]
    Retrieve(#[source] RetrievalError),
}

impl VersionOperator {
    /// Accepts the requested release, if it is another one than is applied.
    pub(super) async fn accept(&self) -> Result<Next, wire::Error> {
        let (Some(object), Some(running)) = (self.object(), self.loaded()) else {
            // The running release says whose signatures count. It wakes this key once it is read.
            return Ok(Next::Settled);
        };
        let wanted = validate(&object, &self.own()).1;
        if stop::holds_request(&object, &wanted, &running.on_disk.image) {
            tracing::info!("the cluster is stopped: no other release is retrieved");
            // The end of the stop is a change of the ClusterVersion.
            return Ok(Next::Settled);
        }
        let update = object.spec.desired_update.as_ref();
        let history = object.status.iter().flat_map(|status| &status.history);
        let spec = SpecRead {
            wanted,
            own: own_on_disk(&self.settings),
            is_forced: update.is_some_and(|update| update.force),
            generation: object.metadata.generation,
            has_completed: history
                .clone()
                .any(|entry| entry.state == HistoryState::Completed),
        };
        let task = self.tell(&object, ReleaseEvent::SpecRead(spec));
        let wait = tokio::select! {
            wait = self.carry_out(&object, &running, task) => wait?,
            // Another release, or none, is requested now.
            () = self.replaced(&object) => ReleaseWait::Nothing,
        };
        Ok(self.wait(wait))
    }

    /// Does what the state leads to, until it waits.
    async fn carry_out(
        &self,
        object: &ClusterVersion,
        running: &Loaded,
        mut task: ReleaseTask,
    ) -> Result<ReleaseWait, wire::Error> {
        loop {
            let state = self.releases().state.clone();
            if self.holds(&state) {
                // It stays where it is, and is taken up again by the change that ends the stop.
                return Ok(ReleaseWait::Change);
            }
            task = match (task, state) {
                (ReleaseTask::Wait(wait), _) => return Ok(wait),
                (ReleaseTask::Retrieve, ReleaseState::Retrieving(_, request)) => {
                    let Release { version, image, .. } = &request.release;
                    let is_forced = request.is_forced;
                    tracing::info!(version, image, is_forced, "retrieving a release");
                    let retrieved = self.retrieve(&request.release, running, is_forced).await?;
                    let event = match retrieved {
                        Ok(retrieved) => ReleaseEvent::Retrieved(retrieved),
                        Err(why) => ReleaseEvent::NotRetrieved(Chain(&why).to_string()),
                    };
                    self.tell(object, event)
                }
                (ReleaseTask::Check, ReleaseState::Checking(_, request, retrieved)) => {
                    self.examine(object, running, &request.release, &retrieved)
                        .await?
                }
                // What else there is belongs to the release that is applied.
                _ => return Ok(ReleaseWait::Change),
            };
        }
    }

    /// Whether the cluster was stopped while a release was on its way, so that it is not begun.
    pub(super) fn holds(&self, state: &ReleaseState) -> bool {
        let wanted = state.request().map(|it| it.release.clone());
        let wanted = wanted.map(WantedRelease::Other);
        let object = self.object();
        wanted.zip(object).is_some_and(|(wanted, object)| {
            stop::holds_request(&object, &wanted, &state.on_disk().image)
        })
    }

    /// Loads a release and tells what is found. If it is accepted, it is not loaded once more.
    async fn examine(
        &self,
        object: &ClusterVersion,
        running: &Loaded,
        wanted: &Release,
        retrieved: &RetrievedRelease,
    ) -> Result<ReleaseTask, wire::Error> {
        let (cluster, files) = match self.load(&retrieved.root, wanted).await? {
            Ok(loaded) => loaded,
            Err(why) => {
                let why = Chain(&why).to_string();
                return Ok(self.tell(object, ReleaseEvent::NotLoaded(why)));
            }
        };
        // As it is now: the retrieval took a while.
        let now = self.object();
        let now = now.as_deref().unwrap_or(object);
        let mut findings = precondition::check(now, &files.release, &files.rollback_sources);
        findings.extend(self.unsigned(&files).await?);
        let checkup = Checkup {
            found: files.release.clone(),
            findings,
            exposed: self.exposed(object, &wanted.image),
            implied: self.implied(running, &files),
        };
        let task = self.tell(object, ReleaseEvent::Checked(checkup));
        let mut releases = self.releases();
        if releases.state.request().is_none() {
            let on_disk = Arc::clone(releases.state.on_disk());
            if let Some(accepted) = &on_disk.accepted {
                tracing::info!(
                    version = files.release.version,
                    image = on_disk.image,
                    risks = accepted.accepted_risks,
                    "accepted a release"
                );
            }
            releases.keep(Loaded {
                on_disk,
                cluster,
                files,
                fault: None,
            });
        }
        Ok(task)
    }

    /// Accepted risks that a release is exposed to.
    fn exposed(&self, object: &ClusterVersion, image: &str) -> Option<String> {
        let report = self.engine.report().clone();
        let state = self.releases().state.clone();
        let upgradeable_risks = self.upgradeable_risks(object, (&report, &state));
        let own = self.own();
        let advised = self.advised_with(&upgradeable_risks, &state.release(&own).version);
        let (_, offers) = advised.updates.as_ref()?.found.as_ref()?;
        risk::acceptance(
            offers,
            image,
            &advised.queries,
            &risk::accepted(&object.spec),
        )
    }

    /// Verifies a release and has it on disk; else why not.
    pub(super) async fn retrieve(
        &self,
        wanted: &Release,
        running: &Loaded,
        is_forced: bool,
    ) -> Result<Result<RetrievedRelease, RetrieveError>, wire::Error> {
        let Release { version, image, .. } = wanted;
        let began = Instant::now();
        let limit = self.settings.retrieval.limit / VERIFICATION_SHARE;
        let verified = tokio::time::timeout(limit, self.verify(image, running)).await;
        let verified = match verified {
            Ok(verified) => verified?,
            Err(_) => Err(VerifyError::Await(limit)),
        };
        let is_verified = verified.is_ok();
        let risk = match verified {
            Ok(()) => None,
            Err(why) if is_forced => Some(format!(
                "Target release version={version:?} image={image:?} cannot be verified, but \
                 continuing anyway because the update was forced: {}",
                Chain(&why)
            )),
            Err(why) => return Ok(Err(RetrieveError::Verify(why))),
        };
        let kept = &running.on_disk.root;
        let root = self
            .settings
            .retrieval
            .retrieve(&self.access, version, image, kept, began)
            .await;
        Ok(root
            .map(|root| RetrievedRelease {
                root,
                is_verified,
                risk,
            })
            .map_err(RetrieveError::Retrieve))
    }

    async fn verify(
        &self,
        image: &str,
        running: &Loaded,
    ) -> Result<Result<(), VerifyError>, wire::Error> {
        let trust = match running.files.trust() {
            Ok(trust) => trust,
            Err(why) => return Ok(Err(VerifyError::Trust(why))),
        };
        let (proxy, bundle) = self.outbound().await?;
        let verifier = Verifier {
            access: &self.access,
            proxy: &proxy,
            bundle: bundle.as_deref(),
            trust: &trust,
            retrieval: &self.settings.retrieval,
            now: (self.now)(),
        };
        Ok(verifier.verify(image).await)
    }

    /// Images of a release that its own policies would keep nodes from pulling.
    pub(super) async fn unsigned(
        &self,
        files: &ReleaseFiles,
    ) -> Result<Option<Finding>, wire::Error> {
        let policies = match files.policies() {
            Ok(policies) => policies,
            Err(why) => {
                return Ok(Some(precondition::unreadable_policy(
                    &Chain(&why).to_string(),
                )));
            }
        };
        let is_about = |image: &str| !demanding(&policies, image).is_empty();
        if !files.images().any(|(_, image)| is_about(image)) {
            return Ok(None);
        }
        let (proxy, bundle) = self.outbound().await?;
        let trust = NodeRegistries::read(
            &self.access,
            &proxy,
            bundle.as_deref(),
            &self.settings.retrieval,
            (self.now)(),
        );
        let trust = match trust.await {
            Ok(trust) => trust,
            Err(NodeRegistriesError::ReadSettings(error)) => return Err(error),
            Err(why) => {
                return Ok(Some(precondition::unreadable_policy(
                    &Chain(&why).to_string(),
                )));
            }
        };
        let unsigned = trust.unsigned(files.images(), &policies).await;
        Ok(precondition::unsigned(&unsigned))
    }

    /// The cluster's proxy, and its authorities for servers outside.
    pub(super) async fn outbound(&self) -> Result<(ClusterProxy, Option<String>), wire::Error> {
        let proxy = self.engine.requests().setting("proxies").await?;
        let path = path::namespaced::<ConfigMap>("openshift-config-managed", "trusted-ca-bundle");
        let map: Option<ConfigMap> = self.access.find(&path).await?;
        let bundle = map.and_then(|map| map.data?.remove("ca-bundle.crt"));
        let proxy = proxy.map(|proxy| ClusterProxy::read(&proxy));
        Ok((proxy.unwrap_or_default(), bundle))
    }

    /// Loads a release for this cluster.
    pub(super) async fn load(
        &self,
        root: &Path,
        wanted: &Release,
    ) -> Result<Result<(Cluster, ReleaseFiles), payload::Error>, wire::Error> {
        // Gates are those of its version.
        let described = ReleaseFiles::describe(root, &wanted.image);
        let version = match described {
            Ok(release) => release.version,
            Err(error) => return Ok(Err(error)),
        };
        let cluster = self.cluster(&version).await?;
        // A manifest of a capability that this program does not know is not left out.
        let without = Cluster {
            capabilities: None,
            ..cluster.clone()
        };
        let files = ReleaseFiles::load(root, &wanted.image, &without);
        Ok(files.map(|files| (cluster, files)))
    }

    /// Capabilities that the next release turns on.
    pub(super) fn implied(&self, running: &Loaded, next: &ReleaseFiles) -> BTreeSet<String> {
        let enabled = {
            let report = self.engine.report();
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
