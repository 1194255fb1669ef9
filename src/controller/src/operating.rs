//! The release's images are taken over, and the ClusterOperator is written.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use api::ConditionStatus;
use api::config::{ClusterConditionType, ClusterOperator, ClusterOperatorStatus};
use api::machineconfiguration::{
    ControllerConfig, MachineConfigPool, OSImageStream, controller_config, os_image_stream,
};
use api::operator::machine_configuration;
use cluster::cache::WatchEvent;
use cluster::events::{EventSubject, Severity};
use cluster::wire::{self, found, unless_conflict};
use jiff::Timestamp;
use operator::Next;
use serde_json::json;

use crate::context::{Context, lock};
use crate::decide::release::images::{self, CONTROLLER, ReleaseImages};
use crate::decide::release::required::{self, Wanted};
use crate::decide::release::status::{self, OperatorInput, OperatorNotes};
use crate::decide::release::steps::{self, NextStep, ReleaseFacts, ReleaseProgress, ReleaseStep};
use crate::decide::release::streams::{self, StreamWrite};
use crate::decide::{boot_images, reporting};
use crate::store::release_maps::{COMPONENT_IMAGES, OS_IMAGE};
use crate::store::{SettingsMeta, Snapshot, daemons};

/// How soon a release that is not reached is looked at again though nothing changed: deadlines pass
/// without a change.
const AGAIN: Duration = Duration::from_secs(10);

/// Writes to the ControllerConfig that one look needs at most: its images, its status.
const WRITES: usize = 2;

/// Writes to OSImageStream that one look needs at most: two marks, and the status between them.
const STREAM_WRITES: usize = 3;

/// The OS image of a rendered configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReadImage {
    /// Unique id of the object that was read.
    uid: String,
    image: String,
}

/// OS images by the names of rendered configurations.
type OsImages = BTreeMap<String, ReadImage>;

/// What is remembered from one reconcile to the next. All of it can be lost.
#[derive(Debug)]
pub(crate) struct ReleaseState {
    /// OS images of rendered configurations, as far as they were read.
    os_images: Mutex<OsImages>,
    /// The step that is under way, and since when.
    clock: Mutex<Option<(ReleaseStep, Timestamp)>>,
    /// What the cluster's settings request in vain, and the version that was read.
    settings: Mutex<Option<(SettingsMeta, Option<String>)>>,
}

impl ReleaseState {
    pub(crate) const fn new() -> Self {
        Self {
            os_images: Mutex::new(OsImages::new()),
            clock: Mutex::new(None),
            settings: Mutex::new(None),
        }
    }
}

/// Takes the release over, and reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operating<'a> {
    pub(crate) context: &'a Context,
    pub(crate) state: &'a ReleaseState,
}

impl Operating<'_> {
    /// Takes the release's images over, and reports how far the cluster is.
    pub(crate) async fn reconcile(&self, snapshot: &Snapshot) -> Result<Next, wire::Error> {
        if !self.context.store.has_release() {
            return Ok(Next::Gone);
        }
        let os = self.context.store.os_image.get(OS_IMAGE);
        let version = self.context.store.version.clone();
        let components = self.context.store.component_images.get(COMPONENT_IMAGES);
        let [os, components] = [&os, &components].map(|map| map.as_ref().map(|map| &map.part));
        let images = ReleaseImages::read(os, components, version.as_str());
        if let Ok(images) = &images {
            self.write_streams(images).await?;
        }
        let streams = &self.context.store.generators.image_streams;
        let streams = streams.get(os_image_stream::NAME);
        let images = images.and_then(|images| streams::followed(images, streams.as_deref()));
        let pools: Vec<&MachineConfigPool> =
            snapshot.pools.values().map(|pool| &pool.object).collect();
        let progress = self.advance(snapshot, &pools, &images).await?;
        let now = self.context.now();
        {
            let mut clock = lock(&self.state.clock);
            *clock = steps::clock(*clock, &progress, now);
        }
        let notes = OperatorNotes {
            boot_images: self.read_boot_images().await?,
            os_image_stream: streams.as_deref().and_then(streams::unknown_default),
        };
        let image = images.as_ref().ok();
        let image = image.and_then(|images| images.components.get(CONTROLLER));
        let input = OperatorInput {
            version: version.as_str(),
            image: image.map(String::as_str),
            progress: &progress,
            pools: &pools,
            notes: &notes,
            now,
        };
        self.report_release(&input).await?;
        Ok(if progress == ReleaseProgress::Done {
            Next::Settled
        } else {
            Next::After(AGAIN)
        })
    }

    /// Writes the release's streams into OSImageStream. That comes before the ControllerConfig is
    /// of this release, so that no pool is rendered from an older stream.
    async fn write_streams(&self, images: &ReleaseImages) -> Result<(), wire::Error> {
        let cache = &self.context.store.generators.image_streams;
        for _ in 0..STREAM_WRITES {
            let object = cache.get(os_image_stream::NAME);
            let Some(write) = streams::next(object.as_deref(), images) else {
                return Ok(());
            };
            let objects = self.context.requests.objects::<OSImageStream>();
            let name = os_image_stream::NAME;
            match write {
                StreamWrite::Create(object) => {
                    let created = unless_conflict(objects.create(&object).await);
                    let Some(created) = found(created)?.flatten() else {
                        // The cluster has no such kind, or another one was faster: the watch tells.
                        return Ok(());
                    };
                    tracing::info!("made the OSImageStream of the release's streams");
                    cache.apply(WatchEvent::Applied(created));
                }
                StreamWrite::Mark(change) => cache.refresh(objects.patch(name, &change).await?),
                StreamWrite::Status(change) => {
                    let written = objects.status().patch(name, &change).await?;
                    tracing::info!(
                        streams = written.stream_names(),
                        "wrote the streams of OS images"
                    );
                    cache.refresh(written);
                }
            }
        }
        // Another writer puts it back: with the next look, so that the two do not race.
        Ok(())
    }

    /// Does what is next, until nothing is left to do.
    async fn advance(
        &self,
        snapshot: &Snapshot,
        pools: &[&MachineConfigPool],
        images: &Result<ReleaseImages, images::Error>,
    ) -> Result<ReleaseProgress, wire::Error> {
        let version = &self.context.store.version;
        let os_images = self.read_os_images(snapshot, pools, images).await?;
        let daemons = self.context.store.daemons.get(daemons::NAME);
        let streams = &self.context.store.generators.image_streams;
        let streams = streams.get(os_image_stream::NAME);
        let clock = *lock(&self.state.clock);
        let mut release_image = None;
        let mut writes = 0;
        loop {
            let config = self
                .context
                .store
                .controller_configs
                .get(controller_config::NAME);
            let facts = ReleaseFacts {
                version: version.as_str(),
                images,
                release_image: release_image.as_deref(),
                config: config.as_deref(),
                daemons: daemons.as_ref().map(|daemons| &daemons.part),
                pools,
                streams: streams.as_deref(),
                configs: &snapshot.configs,
                os_images: &os_images,
                clock,
                now: self.context.now(),
            };
            let written = match steps::next(&facts) {
                NextStep::Report(progress) => return Ok(progress),
                NextStep::Configure(change) if release_image.is_some() => {
                    tracing::info!(%version, "the ControllerConfig takes the release's images");
                    self.context
                        .requests
                        .objects::<ControllerConfig>()
                        .patch(controller_config::NAME, &change)
                        .await?
                }
                NextStep::Configure(_) => {
                    // The images name it; only then it is read.
                    let read = self
                        .context
                        .requests
                        .read_release_image(version.as_str())
                        .await?;
                    let config = config.as_ref();
                    let kept = config.map(|config| config.spec.release_image.clone());
                    release_image = Some(read.or(kept).unwrap_or_default());
                    continue;
                }
                NextStep::Complete(change) => {
                    self.context
                        .requests
                        .objects::<ControllerConfig>()
                        .status()
                        .patch(controller_config::NAME, &change)
                        .await?
                }
            };
            self.context.store.controller_configs.refresh(written);
            writes += 1;
            if writes > WRITES {
                // Another writer puts it back: with the next look, so that the two do not race.
                let why = "another writer changes the ControllerConfig".to_owned();
                let step = ReleaseStep::RenderConfig;
                return Ok(ReleaseProgress::Waiting { step, why });
            }
        }
    }

    /// What the cluster's settings request of boot images. They are read once a version.
    async fn read_boot_images(&self) -> Result<Option<String>, wire::Error> {
        let stored = self.context.store.settings.get(machine_configuration::NAME);
        let Some(stored) = stored else {
            return Ok(None);
        };
        let known = lock(&self.state.settings).clone();
        if let Some((_, note)) = known.filter(|(read, _)| read == stored.as_ref()) {
            return Ok(note);
        }
        let settings = self.context.requests.read_settings().await?;
        let note = settings.and_then(|settings| boot_images::unhandled(&settings.spec));
        *lock(&self.state.settings) = Some((stored.as_ref().clone(), note.clone()));
        Ok(note)
    }

    /// Writes the ClusterOperator, where the cluster has that kind.
    async fn report_release(&self, input: &OperatorInput<'_>) -> Result<(), wire::Error> {
        let stored = self.context.store.operators.get(status::NAME);
        let operator = match stored {
            Some(operator) => Some(operator.as_ref().clone()),
            None => self.context.requests.create_operator(status::NAME).await?,
        };
        let Some(operator) = operator else {
            tracing::debug!("the cluster has no ClusterOperators");
            return Ok(());
        };
        let before = operator.status.clone().unwrap_or_default();
        let after = status::status(&before, input);
        let Some(changes) = reporting::changes(operator.status.as_ref(), &after) else {
            self.context.store.operators.refresh(operator);
            return Ok(());
        };
        let operators = self.context.requests.objects::<ClusterOperator>().status();
        let version = operator.metadata.resource_version.as_deref();
        let change = json!({ "status": changes });
        let written = operators.patch_if(status::NAME, version, change).await?;
        self.record_release(&operator, &before, &after);
        self.context.store.operators.refresh(written);
        Ok(())
    }

    /// Records events about what changed for the cluster.
    fn record_release(
        &self,
        operator: &ClusterOperator,
        before: &ClusterOperatorStatus,
        after: &ClusterOperatorStatus,
    ) {
        let subject = EventSubject {
            api_version: "config.openshift.io/v1".to_owned(),
            kind: "ClusterOperator".to_owned(),
            name: status::NAME.to_owned(),
            uid: operator.metadata.uid.clone().unwrap_or_default(),
        };
        let now = self.context.now();
        let (was, is) = (before.version("operator"), after.version("operator"));
        if let Some(is) = is.filter(|is| was != Some(*is)) {
            let was = was.unwrap_or("none");
            let message = format!(
                "clusteroperator/{} version changed from {was} to {is}",
                status::NAME
            );
            let reason = "OperatorVersionChanged";
            tracing::info!(message_id = reason, message, "event");
            self.context
                .recorder
                .say(&subject, Severity::Normal, reason, &message, now);
        }
        let failure = |status: &ClusterOperatorStatus| {
            let degraded = status.condition(&ClusterConditionType::Degraded)?;
            (degraded.status == ConditionStatus::True)
                .then(|| (degraded.reason.clone(), degraded.message.clone()))
        };
        let (was, is) = (failure(before), failure(after));
        if let Some((reason, message)) = is
            && was.is_none_or(|(was, _)| was != reason)
        {
            let reason = format!("OperatorDegraded: {reason}");
            tracing::warn!(message_id = "OperatorDegraded", message, "event");
            self.context
                .recorder
                .say(&subject, Severity::Warning, &reason, &message, now);
        }
    }

    /// OS images of the rendered configurations that required pools name. Each is read once.
    async fn read_os_images(
        &self,
        snapshot: &Snapshot,
        pools: &[&MachineConfigPool],
        images: &Result<ReleaseImages, images::Error>,
    ) -> Result<BTreeMap<String, String>, wire::Error> {
        let uid = |config: &str| {
            snapshot
                .configs
                .get(config)
                .map(|config| config.uid.clone())
        };
        let mut cached = lock(&self.state.os_images).clone();
        cached.retain(|config, read| uid(config).as_ref() == Some(&read.uid));
        let mut os_images: BTreeMap<String, String> = cached
            .iter()
            .map(|(config, read)| (config.clone(), read.image.clone()))
            .collect();
        if let Ok(images) = images {
            let wanted = Wanted {
                version: self.context.store.version.as_str(),
                os_image: &images.os,
                streams: None,
                configs: &snapshot.configs,
                os_images: &os_images,
            };
            for config in required::unread(pools, &wanted) {
                // The step reports one that is gone meanwhile.
                if let (Some(uid), Some(image)) = (
                    uid(config),
                    self.context.requests.read_os_image(config).await?,
                ) {
                    let read = ReadImage { uid, image };
                    cached.insert(config.to_owned(), read);
                }
            }
        }
        os_images.extend(
            cached
                .iter()
                .map(|(config, read)| (config.clone(), read.image.clone())),
        );
        *lock(&self.state.os_images) = cached;
        Ok(os_images)
    }
}

#[cfg(test)]
mod tests;
