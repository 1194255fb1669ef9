//! OS images are built for pools: one step after the other, each carried out and read back.
//!
//! - `objects`: the objects of a build are made, read and removed
//! - `registries`: what registries have, and what is removed from them
//! - `events`: what is reported of builds

mod events;
mod objects;
mod registries;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use api::machineconfiguration::{
    MachineConfig, MachineOSBuild, MachineOSConfig, annotation, controller_config,
};
use cluster::cache::WatchEvent;
use cluster::wire;
use image_build::BuildRefusal;
use image_build::inputs::{ImageInputs, InputSources};
use image_build::observed::{BuildObserved, PlannedBuild, RequestedFacts, WantedBuild};
use image_build::settings::BuildSettings;
use image_build::step::{BuildAction, BuildQuery, BuildStep, step};
use jiff::Timestamp;
use operator::Next;
use serde_json::json;

use self::registries::{MISSED, SeenImages};
use crate::context::{Context, lock};
use crate::decide::building;
use crate::store::Snapshot;

/// Steps of one reconcile at most: a rebuild of several builds has about ten.
const STEPS: usize = 40;

/// How soon work that another writer keeps changing is done again.
const AGAIN: Duration = Duration::from_secs(5);

/// What inputs were read from: they are read again once one of these changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InputKey {
    config: (Option<String>, Option<i64>),
    rendered: String,
    cluster: Option<String>,
    architecture: image_build::architecture::ImageArchitecture,
}

/// What is remembered from one reconcile to the next. All of it can be lost.
#[derive(Debug, Default)]
pub(crate) struct BuildingState {
    /// Inputs by the name of their MachineOSConfig.
    inputs: BTreeMap<String, (InputKey, Result<ImageInputs, BuildRefusal>)>,
    /// Unique ids of builds whose objects were removed.
    cleaned: BTreeSet<String>,
    images: SeenImages,
    /// What was in the way of each MachineOSConfig's build when it was last logged.
    obstacles: BTreeMap<String, String>,
}

impl BuildingState {
    pub(crate) const fn new() -> Self {
        Self {
            inputs: BTreeMap::new(),
            cleaned: BTreeSet::new(),
            images: SeenImages::new(),
            obstacles: BTreeMap::new(),
        }
    }
}

/// How images are built, as the options say.
#[derive(Debug, Clone, Default)]
pub(crate) struct BuildOptions {
    /// Image of the builder, where the release names none.
    pub(crate) builder: Option<String>,
    /// Whether registries without TLS are taken: in tests.
    pub(crate) is_insecure: bool,
}

/// Builds the image of a MachineOSConfig.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Building<'a> {
    pub(crate) context: &'a Context,
    pub(crate) state: &'a Mutex<BuildingState>,
    pub(crate) options: &'a BuildOptions,
    /// Name of the MachineOSConfig.
    pub(crate) name: &'a str,
}

impl Building<'_> {
    /// Does what is next, until it has to wait.
    pub(crate) async fn reconcile(&self) -> Result<Next, wire::Error> {
        for _ in 0..STEPS {
            let snapshot = self.context.store.snapshot();
            let config = snapshot.os_configs.get(self.name).cloned();
            let builds = building::builds_of(&snapshot, self.name);
            if config.is_none() && builds.is_empty() {
                self.forget();
                return Ok(Next::Gone);
            }
            let wanted = match &config {
                Some(config) => self.wanted(&snapshot, config).await?,
                None => WantedBuild::NotYet,
            };
            match self.choose(&snapshot, config.as_deref(), &wanted).await? {
                BuildStep::Act(action) => {
                    if !self.act(&snapshot, &wanted, action).await? {
                        return Ok(Next::Retry);
                    }
                }
                BuildStep::Settled => {
                    self.log_obstacle(None);
                    return Ok(Next::Settled);
                }
                BuildStep::Wait { after, why } => {
                    self.log_obstacle(why);
                    let image = config.as_ref().and_then(|config| config.status.as_ref());
                    let image = image.and_then(|it| it.current_image_pull_spec.as_deref());
                    let is_missed =
                        image.is_some_and(|it| building::is_missed(&snapshot, self.name, it));
                    let after = if is_missed { after.min(MISSED) } else { after };
                    return Ok(Next::After(after));
                }
                // It is resolved where the step is chosen.
                BuildStep::Query(_) => return Ok(Next::Retry),
            }
        }
        Ok(Next::After(AGAIN))
    }

    /// The next step, with all that had to be known for it.
    async fn choose(
        &self,
        snapshot: &Snapshot,
        config: Option<&MachineOSConfig>,
        wanted: &WantedBuild,
    ) -> Result<BuildStep, wire::Error> {
        let builds = building::builds_of(snapshot, self.name);
        let builds: Vec<&MachineOSBuild> = builds.iter().map(AsRef::as_ref).collect();
        let members = building::members(snapshot, self.name);
        let images_of_members: Vec<Option<&str>> = members
            .iter()
            .map(|node| node.status.current_image.as_deref())
            .collect();
        let in_use = building::images_in_use(snapshot, self.name);
        let images_in_use: BTreeSet<&str> = in_use.iter().map(String::as_str).collect();
        let cleaned = lock(self.state).cleaned.clone();
        let mut facts = RequestedFacts::default();
        for _ in 0..STEPS {
            let chosen = step(&BuildObserved {
                config,
                wanted,
                builds: &builds,
                images_of_members: &images_of_members,
                images_in_use: &images_in_use,
                cleaned: &cleaned,
                facts: &facts,
                now: self.context.now(),
            });
            let BuildStep::Query(query) = chosen else {
                return Ok(building::unless_stopped(chosen, snapshot, self.name));
            };
            self.find_out(snapshot, wanted, query, &mut facts).await?;
        }
        Ok(BuildStep::Wait {
            after: AGAIN,
            why: None,
        })
    }

    async fn find_out(
        &self,
        snapshot: &Snapshot,
        wanted: &WantedBuild,
        query: BuildQuery,
        facts: &mut RequestedFacts,
    ) -> Result<(), wire::Error> {
        match query {
            BuildQuery::Job => {
                if let WantedBuild::Image(plan) = wanted {
                    facts.job = Some(self.read_job(&plan.name).await?);
                }
            }
            BuildQuery::Logins => {
                if let WantedBuild::Image(plan) = wanted {
                    facts.logins = Some(self.read_logins(plan).await?.map(drop));
                }
            }
            BuildQuery::Image { image } => {
                let reply = self.look_up(snapshot, wanted, &image, true).await?;
                facts.images.insert(image, reply);
            }
            BuildQuery::Tag { spec } => {
                let reply = self.look_up(snapshot, wanted, &spec, false).await?;
                facts.tags.insert(spec, reply);
            }
            BuildQuery::Removal { image, push_secret } => {
                let removal = self.remove_image(snapshot, &image, &push_secret).await?;
                facts.removals.insert(image, removal);
            }
        }
        Ok(())
    }

    /// What is wanted of a MachineOSConfig.
    async fn wanted(
        &self,
        snapshot: &Snapshot,
        config: &MachineOSConfig,
    ) -> Result<WantedBuild, wire::Error> {
        let rendered = snapshot.pools.get(self.name);
        let rendered = rendered.and_then(|pool| pool.object.spec.configuration.name());
        let cluster = snapshot.controller_config();
        let Some(rendered) = rendered else {
            return Ok(WantedBuild::NotYet);
        };
        let members = building::members(snapshot, self.name);
        let architecture = match building::architecture(snapshot, self.name, &members) {
            Ok(architecture) => architecture,
            Err(refusal) => return Ok(WantedBuild::Refused(refusal)),
        };
        let key = InputKey {
            config: (config.metadata.uid.clone(), config.metadata.generation),
            rendered: rendered.to_owned(),
            cluster: cluster.and_then(|it| it.metadata.resource_version.clone()),
            architecture,
        };
        let cached = {
            let state = lock(self.state);
            let cached = state.inputs.get(self.name);
            let cached = cached.filter(|(cached, _)| *cached == key);
            cached.map(|(_, inputs)| inputs.clone())
        };
        let inputs = if let Some(inputs) = cached {
            inputs
        } else {
            let Some(rendered) = self.context.requests.read_config(rendered).await? else {
                return Ok(WantedBuild::NotYet);
            };
            let inputs = read_inputs(config, &rendered, cluster, architecture);
            let entry = (key, inputs.clone());
            lock(self.state).inputs.insert(self.name.to_owned(), entry);
            inputs
        };
        match inputs {
            Ok(inputs) => {
                let obstacle = self.obstacle(snapshot, &inputs).await?;
                let plan = PlannedBuild::new(inputs, obstacle);
                Ok(WantedBuild::Image(Box::new(plan)))
            }
            Err(refusal) => Ok(WantedBuild::Refused(refusal)),
        }
    }

    /// Why the Job of a build cannot be made, as long as it is not made.
    async fn obstacle(
        &self,
        snapshot: &Snapshot,
        inputs: &ImageInputs,
    ) -> Result<Option<BuildRefusal>, wire::Error> {
        use api::machineconfiguration::BuildPhase::{Initial, Prepared};
        let build = snapshot.os_builds.get(&inputs.build_name());
        if build.is_some_and(|build| !matches!(build.phase(), Initial | Prepared)) {
            return Ok(None);
        }
        if let Err(refusal) = self.settings(snapshot) {
            return Ok(Some(refusal));
        }
        Ok(self.builder_image().await?.err())
    }

    fn settings(&self, snapshot: &Snapshot) -> Result<BuildSettings, BuildRefusal> {
        let policy = snapshot.policies.get(self.name);
        BuildSettings::read(policy.map(AsRef::as_ref))
    }

    /// Carries an action out. False where an object has changed, so that it is read again first.
    async fn act(
        &self,
        snapshot: &Snapshot,
        wanted: &WantedBuild,
        action: BuildAction,
    ) -> Result<bool, wire::Error> {
        match action {
            BuildAction::AcceptRebuild => self.annotate(snapshot, annotation::REBUILD, None).await,
            BuildAction::NameCurrent { build } => {
                let key = annotation::CURRENT_MACHINE_OS_BUILD;
                self.annotate(snapshot, key, Some(&build)).await
            }
            BuildAction::ReportConfig { status } => {
                let Some(config) = snapshot.os_configs.get(self.name) else {
                    return Ok(false);
                };
                let objects = self.context.requests.objects::<MachineOSConfig>().status();
                let version = config.metadata.resource_version.as_deref();
                let change = json!({ "status": status });
                let written = objects.patch_if(self.name, version, change).await?;
                self.context.store.os_configs.refresh(written);
                Ok(true)
            }
            BuildAction::Report { build, status } => {
                let Some(present) = snapshot.os_builds.get(&build) else {
                    return Ok(false);
                };
                let written = self.write_status(present, &status).await?;
                self.say_phase(snapshot, present, &written);
                self.context.metrics.count_build(&written);
                self.context.store.os_builds.refresh(written);
                Ok(true)
            }
            BuildAction::Create => self.create_build(snapshot, wanted).await,
            BuildAction::Delete { build, uid, why } => {
                tracing::info!(build, cause = ?why, "deletes an image's build");
                self.say_missing(snapshot, &build, why);
                if let Some(present) = snapshot.os_builds.get(&build) {
                    self.forget_image(present);
                }
                self.delete_build(snapshot, &build, &uid).await?;
                Ok(true)
            }
            BuildAction::Prepare { build } => self.prepare(snapshot, wanted, &build).await,
            BuildAction::StartJob { build } => self.start_job(snapshot, wanted, &build).await,
            BuildAction::DeleteForeignJob { job_uid } => {
                if let WantedBuild::Image(plan) = wanted {
                    self.delete_job(&plan.name, Some(&job_uid)).await?;
                }
                Ok(false)
            }
            BuildAction::Clean { build, uid } => {
                self.remove_objects(&build).await?;
                lock(self.state).cleaned.insert(uid);
                Ok(true)
            }
        }
    }

    /// Sets or removes an annotation of the MachineOSConfig, if it is still as it was read.
    async fn annotate(
        &self,
        snapshot: &Snapshot,
        key: &str,
        value: Option<&str>,
    ) -> Result<bool, wire::Error> {
        let Some(config) = snapshot.os_configs.get(self.name) else {
            return Ok(false);
        };
        let objects = self.context.requests.objects::<MachineOSConfig>();
        let version = config.metadata.resource_version.as_deref();
        let change = json!({ "metadata": { "annotations": { key: value } } });
        let written = objects.patch_if(self.name, version, change).await?;
        self.context.store.os_configs.refresh(written);
        Ok(true)
    }

    async fn create_build(
        &self,
        snapshot: &Snapshot,
        wanted: &WantedBuild,
    ) -> Result<bool, wire::Error> {
        let WantedBuild::Image(plan) = wanted else {
            return Ok(false);
        };
        let object = image_build::objects::build(&plan.inputs);
        let objects = self.context.requests.objects::<MachineOSBuild>();
        let created = objects.create(&object).await?;
        tracing::info!(
            build = plan.name,
            config = plan.inputs.rendered,
            "an image is to be built"
        );
        self.say_started(snapshot, &plan.name);
        let event = WatchEvent::Applied(created);
        self.context.store.os_builds.apply(event);
        Ok(true)
    }

    /// Forgets what was remembered of a MachineOSConfig that is gone.
    fn forget(&self) {
        let mut state = lock(self.state);
        state.inputs.remove(self.name);
        state.obstacles.remove(self.name);
    }

    /// Logs what is in the way, once.
    fn log_obstacle(&self, why: Option<String>) {
        let mut state = lock(self.state);
        let before = state.obstacles.get(self.name);
        if before == why.as_ref() {
            return;
        }
        match why {
            Some(why) => {
                tracing::warn!(pool = self.name, reason = why, "an image's build waits");
                state.obstacles.insert(self.name.to_owned(), why);
            }
            None => {
                state.obstacles.remove(self.name);
            }
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.context.now()
    }
}

fn read_inputs(
    config: &MachineOSConfig,
    rendered: &MachineConfig,
    cluster: Option<&controller_config::ControllerConfig>,
    architecture: image_build::architecture::ImageArchitecture,
) -> Result<ImageInputs, BuildRefusal> {
    ImageInputs::read(InputSources {
        config,
        rendered,
        cluster,
        architecture,
    })
}

#[cfg(test)]
mod tests;
