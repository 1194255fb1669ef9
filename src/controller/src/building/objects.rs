//! The objects of a build are made, read and removed.

use api::machineconfiguration::{MachineOSBuild, MachineOsBuildStatus, NAMESPACE};
use cluster::cache::WatchEvent;
use cluster::list::Select;
use cluster::objects::{Objects, Precondition};
use cluster::wire;
use generated::templates::PULL_SECRET;
use image_build::BuildRefusal;
use image_build::hold::PodHold;
use image_build::login::BuildLogin;
use image_build::objects::{self, BuildObjectNames, BuildOwner, JobInput};
use image_build::observed::{JobPods, JobState, PlannedBuild, WantedBuild};
use image_build::outcome::{JobEnd, JobView, PodEnd};
use image_build::status::{BuildChange, changed};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use operator::watch::kept::{ConfigMapData, KeptPart as _};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::Building;
use crate::decide::building;
use crate::store::Snapshot;
use crate::store::release_maps::COMPONENT_IMAGES;

/// What is read of an object to know whose it is.
#[derive(Deserialize)]
struct Owned {
    metadata: ObjectMeta,
}

impl Building<'_> {
    /// The objects of a kind in the namespace.
    fn in_namespace<K>(&self) -> Objects<'_, K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.context.requests.in_namespace(NAMESPACE)
    }

    /// The Job of a build, and how its newest pod ended, or why none runs. Pods are not read while
    /// the Job counts one that runs.
    pub(super) async fn read_job(&self, build: &str) -> Result<JobState, wire::Error> {
        let name = BuildObjectNames::of(build).job;
        let Some(job) = self.in_namespace::<Job>().get(&name).await? else {
            return Ok(JobState::Absent);
        };
        let view = JobView::read(&job);
        let mut found = JobPods::default();
        if view.end != JobEnd::Running || !view.is_running {
            let selector = format!("batch.kubernetes.io/job-name={name}");
            let pods = self.in_namespace::<Pod>();
            let pods = pods.list(Select::Labels(&selector)).await?;
            match view.end {
                JobEnd::Running => found.held = PodHold::read(&view, &pods, self.now()),
                JobEnd::Complete | JobEnd::Failed { .. } => found.ended = PodEnd::newest(&pods),
            }
        }
        Ok(JobState::Present(view, Box::new(found)))
    }

    /// The logins with which a base image is pulled, and the image pushed.
    pub(super) async fn read_logins(
        &self,
        plan: &PlannedBuild,
    ) -> Result<Result<[BuildLogin; 2], BuildRefusal>, wire::Error> {
        let object = format!("MachineOSConfig {}", self.name);
        let (pull, field) = match &plan.inputs.pull_secret {
            Some(name) => ((NAMESPACE, name.as_str()), "spec.baseImagePullSecret.name"),
            // Without one of its own, the cluster's.
            None => (PULL_SECRET, "spec.baseImagePullSecret"),
        };
        let push = (NAMESPACE, plan.inputs.push_secret.as_str());
        let mut logins = Vec::new();
        for (place, field) in [(pull, field), (push, "spec.renderedImagePushSecret.name")] {
            let secret = self.read_secret(place).await?;
            match BuildLogin::read(&object, field, place, secret.as_ref()) {
                Ok(login) => logins.push(login),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        let logins: Result<[BuildLogin; 2], _> = logins.try_into();
        Ok(logins.map_err(|_| BuildRefusal::new(&object, "spec", "it names no Secrets")))
    }

    pub(super) async fn read_secret(
        &self,
        (namespace, name): (&str, &str),
    ) -> Result<Option<Secret>, wire::Error> {
        if name.is_empty() {
            return Ok(None);
        }
        let secrets = self.context.requests.in_namespace::<Secret>(namespace);
        secrets.get(name).await
    }

    /// The image of the builder.
    pub(super) async fn builder_image(&self) -> Result<Result<String, BuildRefusal>, wire::Error> {
        let map = self
            .in_namespace::<ConfigMap>()
            .get(COMPONENT_IMAGES)
            .await?;
        let data = map.map(ConfigMapData::of);
        let version = self.context.store.version.as_str();
        let option = self.options.builder.as_deref();
        Ok(building::builder_image(data.as_ref(), version, option))
    }

    /// Makes ConfigMap and Secrets of a build.
    pub(super) async fn prepare(
        &self,
        snapshot: &Snapshot,
        wanted: &WantedBuild,
        build: &str,
    ) -> Result<bool, wire::Error> {
        let (WantedBuild::Image(plan), Some(present)) = (wanted, snapshot.os_builds.get(build))
        else {
            return Ok(false);
        };
        let Some(owner) = BuildOwner::of(present) else {
            return Ok(false);
        };
        let (Ok([pull, push]), Ok(input)) = (
            self.read_logins(plan).await?,
            objects::input(owner, &plan.inputs),
        ) else {
            // The next step reports it.
            return Ok(false);
        };
        if !self.make::<ConfigMap>(owner, &input).await? {
            return Ok(false);
        }
        for secret in objects::secrets(owner, &pull, &push) {
            if !self.make::<Secret>(owner, &secret).await? {
                return Ok(false);
            }
        }
        let status = changed(present, &BuildChange::Prepared, self.now());
        let Some(status) = status else {
            return Ok(false);
        };
        let written = self.write_status(present, &status).await?;
        self.context.store.os_builds.refresh(written);
        Ok(true)
    }

    /// Makes the Job of a build.
    pub(super) async fn start_job(
        &self,
        snapshot: &Snapshot,
        wanted: &WantedBuild,
        build: &str,
    ) -> Result<bool, wire::Error> {
        let (WantedBuild::Image(plan), Some(present)) = (wanted, snapshot.os_builds.get(build))
        else {
            return Ok(false);
        };
        let (Some(owner), Ok(settings), Ok(builder)) = (
            BuildOwner::of(present),
            self.settings(snapshot),
            self.builder_image().await?,
        ) else {
            return Ok(false);
        };
        let job = objects::job(JobInput {
            owner,
            inputs: &plan.inputs,
            settings: &settings,
            builder: &builder,
            push: &present.spec.rendered_image_push_spec,
        });
        tracing::info!(
            build,
            image = present.spec.rendered_image_push_spec,
            "builds an image"
        );
        self.make::<Job>(owner, &job).await
    }

    /// Makes an object of a build. False where one of its name belonged to another, which is
    /// removed.
    async fn make<K>(&self, owner: BuildOwner<'_>, object: &Value) -> Result<bool, wire::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let created = self
            .in_namespace::<K>()
            .read_as::<IgnoredAny>()
            .create(object)
            .await;
        if wire::unless_conflict(created)?.is_some() {
            return Ok(true);
        }
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let objects = self.in_namespace::<K>().read_as::<Owned>();
        let Some(Owned { metadata }) = objects.get(name).await? else {
            return Ok(false);
        };
        let owners = metadata.owner_references.iter().flatten();
        if owners.map(|it| it.uid.as_str()).any(|uid| uid == owner.uid) {
            return Ok(true);
        }
        let precondition = Precondition::uid(metadata.uid.as_deref());
        objects.delete(name, precondition).await?;
        Ok(false)
    }

    /// Writes the status of a build, if it is still as it was read.
    pub(super) async fn write_status(
        &self,
        build: &MachineOSBuild,
        status: &MachineOsBuildStatus,
    ) -> Result<MachineOSBuild, wire::Error> {
        let objects = self.context.requests.objects::<MachineOSBuild>().status();
        let name = build.metadata.name.as_deref().unwrap_or_default();
        let version = build.metadata.resource_version.as_deref();
        objects
            .patch_if(name, version, json!({ "status": status }))
            .await
    }

    /// Deletes a Job with its pods.
    pub(super) async fn delete_job(
        &self,
        build: &str,
        uid: Option<&str>,
    ) -> Result<(), wire::Error> {
        let mut options = Precondition::uid(uid).options();
        if let Some(options) = options.as_object_mut() {
            options.insert("propagationPolicy".to_owned(), json!("Background"));
        }
        let name = BuildObjectNames::of(build).job;
        let jobs = self.in_namespace::<Job>();
        jobs.delete_with(&name, wire::RequestBody::Object(&options))
            .await
    }

    /// Removes Job, ConfigMap and Secrets of a build. That they are gone is no error.
    pub(super) async fn remove_objects(&self, build: &str) -> Result<(), wire::Error> {
        let names = BuildObjectNames::of(build);
        let any = Precondition::default;
        self.delete_job(build, None).await?;
        let maps = self.in_namespace::<ConfigMap>();
        maps.delete(&names.input, any()).await?;
        let secrets = self.in_namespace::<Secret>();
        secrets.delete(&names.pull, any()).await?;
        secrets.delete(&names.push, any()).await
    }

    /// Removes a build after its objects.
    pub(super) async fn delete_build(
        &self,
        snapshot: &Snapshot,
        build: &str,
        uid: &str,
    ) -> Result<(), wire::Error> {
        self.remove_objects(build).await?;
        let builds = self.context.requests.objects::<MachineOSBuild>();
        builds.delete(build, Precondition::uid(Some(uid))).await?;
        if let Some(present) = snapshot.os_builds.get(build) {
            let event = WatchEvent::Deleted(present.as_ref().clone());
            self.context.store.os_builds.apply(event);
        }
        Ok(())
    }
}
