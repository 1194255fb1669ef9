//! The Job in which the machine-config controller of another release renders the cluster's pools.
//! It reads the cluster and writes nothing; its outcome is the last message of its container.

use std::time::Duration;

use api::config::preflight::{
    MAX_RELEASE_BYTES, NextRelease, RELEASE_VARIABLE, RenderedPool, RenderedPools,
};
use api::machineconfiguration::{NAMESPACE, label};
use chassis::report::Chain;
use cluster::access::Access;
use cluster::{objects, path, wire};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use release::inventory::Entry;
use release::manifest::ObjectId;
use serde_json::{Value, json};

use crate::job;
use crate::payload::ReleaseFiles;
use version_update::failure::Failure;

/// Group of pools and their sources.
const GROUP: &str = "machineconfiguration.openshift.io";

/// `ConfigMap`s by which a release names the OS image, and the images of components.
const OS_MAP: &str = "machine-config-osimageurl";
const IMAGE_MAP: &str = "machine-config-operator-images";

/// Key of the second, and in it that of the controller.
const IMAGES: (&str, &str) = ("images.json", "machineConfigController");

/// Label of the Job.
const LABEL: (&str, &str) = ("k8s-app", "preflight-render");

/// Seconds after which the Job is given up: its image may have to be pulled.
const DEADLINE_SECS: u64 = 240;

/// Exit code of `mcc` for a command that it does not know.
const USAGE: i64 = 2;

/// What of a release's dry run the pools are rendered from.
#[derive(Debug, Default)]
pub struct PoolSources {
    /// MachineConfigs and pools as the cluster would have them.
    pub objects: Vec<Value>,
    /// MachineConfigs that the release deletes.
    pub deleted: Vec<String>,
}

impl PoolSources {
    /// Whether pools are rendered from such an object.
    pub fn has_kind(id: &ObjectId) -> bool {
        id.group == GROUP && ["MachineConfig", "MachineConfigPool"].contains(&id.kind.as_str())
    }

    /// Adds an object as the API server returns it.
    pub fn add(&mut self, mut object: Value) {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = object
            .pointer_mut("/metadata")
            .and_then(Value::as_object_mut)
        {
            metadata.remove("managedFields");
        }
        self.objects.push(object);
    }
}

/// What came of the rendering.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rendering {
    /// Pools that were rendered.
    pub pools: Vec<RenderedPool>,
    pub failures: Vec<String>,
    pub not_checked: Vec<String>,
}

impl Rendering {
    fn unknown(why: &str) -> Self {
        Self {
            not_checked: vec![format!("nodes and pools: {why}")],
            ..Self::default()
        }
    }

    fn failed(why: String) -> Self {
        Self {
            failures: vec![why],
            ..Self::default()
        }
    }

    /// Reads the last message of the container.
    fn parse(message: &str) -> Self {
        let parsed: RenderedPools = match serde_json::from_str(message) {
            Ok(parsed) => parsed,
            Err(error) => {
                let text: String = message.chars().take(200).collect();
                return Self::failed(format!(
                    "pools: the release's machine-config controller said {text:?}: {error}"
                ));
            }
        };
        let mut rendering = Self::default();
        for pool in parsed.pools {
            if pool.failure.is_empty() {
                rendering.pools.push(pool);
            } else {
                let RenderedPool { pool, failure, .. } = pool;
                let failure = format!("MachineConfigPool {pool}: {failure}");
                rendering.failures.push(failure);
            }
        }
        if parsed.omitted > 0 {
            rendering
                .not_checked
                .push(format!("{} more pools", parsed.omitted));
        }
        rendering
    }
}

/// The Job of a release.
#[derive(Debug)]
pub struct RenderJob {
    object: Value,
}

impl RenderJob {
    /// Makes the Job of values.
    ///
    /// # Errors
    /// There is none for this release; what is to be reported instead.
    pub fn plan(
        files: &ReleaseFiles,
        entries: &[&Entry],
        sources: PoolSources,
        now: Timestamp,
    ) -> Result<Self, Rendering> {
        let mut maps = Vec::new();
        for name in [OS_MAP, IMAGE_MAP] {
            let is_it = |entry: &&&Entry| {
                let ObjectId {
                    group,
                    kind,
                    namespace,
                    name: found,
                } = &entry.id;
                (
                    group.as_str(),
                    kind.as_str(),
                    namespace.as_str(),
                    found.as_str(),
                ) == ("", "ConfigMap", NAMESPACE, name)
            };
            let Some(entry) = entries.iter().find(is_it) else {
                let why = format!("the release has no ConfigMap {NAMESPACE}/{name}");
                return Err(Rendering::unknown(&why));
            };
            let object = files.object(entry);
            let object = object.map_err(|Failure { message, .. }| Rendering::failed(message))?;
            maps.push(object);
        }
        let image = controller_image(maps.last().unwrap_or(&Value::Null));
        let image = image.map_err(|why| {
            let why = Chain(&why);
            Rendering::failed(format!("ConfigMap {NAMESPACE}/{IMAGE_MAP}: {why}"))
        })?;
        let next = NextRelease {
            version: files.release.version.clone(),
            objects: maps.into_iter().chain(sources.objects).collect(),
            deleted: sources.deleted,
        };
        let Some(variables) = next.to_variables() else {
            return Err(Rendering::unknown(&format!(
                "the release's MachineConfigs and pools have more than the {MAX_RELEASE_BYTES} \
                 bytes that a Job can carry"
            )));
        };
        let name = format!("preflight-render-{}", now.as_millisecond());
        Ok(Self {
            object: object(&name, &image, &variables),
        })
    }

    /// Runs the Job to its end. What an earlier process left is removed first; [`remove`] removes
    /// this one.
    ///
    /// # Errors
    /// That cannot be removed.
    pub async fn run(&self, access: &Access) -> Result<Rendering, wire::Error> {
        remove(access).await?;
        let limit = Duration::from_secs(DEADLINE_SECS + 10);
        Ok(
            match job::run(access, NAMESPACE, &self.object, limit).await {
                Ok(message) => Rendering::parse(&message),
                Err(failure) if failure.exit_code == Some(USAGE) => Rendering::unknown(&format!(
                    "the release's machine-config controller cannot render ahead: {}",
                    Chain(&failure.error)
                )),
                Err(failure) => Rendering::failed(format!("pools: {}", Chain(&failure.error))),
            },
        )
    }
}

/// Removes the Job and its pods. Failures are logged: it removes itself later.
pub async fn tidy(access: &Access) {
    if let Err(error) = remove(access).await {
        tracing::warn!(error = %Chain(&error), "cannot remove the Job of a preflight");
    }
}

async fn remove(access: &Access) -> Result<(), wire::Error> {
    let selector = wire::escape(&format!("{}={}", LABEL.0, LABEL.1));
    let path = format!(
        "{}?labelSelector={selector}",
        path::namespace::<Job>(NAMESPACE)
    );
    objects::delete_in_background(access, &path).await
}

/// Why the ConfigMap of images does not have the controller's.
#[derive(Debug, thiserror::Error)]
enum ImageError {
    /// The ConfigMap has no list.
    #[error("data has no key {}", IMAGES.0)]
    FindList,
    #[error("data.{}", IMAGES.0)]
    ParseList(#[source] serde_json::Error),
    /// The list has no such image.
    #[error("data.{} has no image {}", IMAGES.0, IMAGES.1)]
    FindImage,
}

/// Image of the controller in the ConfigMap of images.
fn controller_image(map: &Value) -> Result<String, ImageError> {
    let (key, name) = IMAGES;
    let data = map.pointer("/data").and_then(|data| data.get(key));
    let text = data.and_then(Value::as_str).ok_or(ImageError::FindList)?;
    let images: Value = serde_json::from_str(text).map_err(ImageError::ParseList)?;
    let image = images.get(name).and_then(Value::as_str);
    Ok(image.ok_or(ImageError::FindImage)?.to_owned())
}

/// The Job: scheduled and limited as the controller itself is, with its service account.
fn object(name: &str, image: &str, variables: &[String]) -> Value {
    let labels = json!({ LABEL.0: LABEL.1 });
    let toleration =
        |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" });
    let has_role =
        |key: &str| json!({ "matchExpressions": [{ "key": key, "operator": "Exists" }] });
    let roles = label::CONTROL_PLANE_ROLES;
    let variables = variables.iter().enumerate();
    let variables = variables.map(
        |(number, text)| json!({ "name": format!("{RELEASE_VARIABLE}{number}"), "value": text }),
    );
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels },
        "spec": {
            "activeDeadlineSeconds": DEADLINE_SECS,
            "backoffLimit": 0,
            // If the process that has made it ends, and no other one does a preflight.
            "ttlSecondsAfterFinished": 600,
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": "machine-config-controller",
                    "restartPolicy": "Never",
                    "affinity": { "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": roles.map(has_role)
                        }
                    } },
                    "tolerations": roles.map(toleration),
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": 65532,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [{
                        "name": "render",
                        "image": image,
                        "command": ["/usr/bin/mcc", "render"],
                        "env": variables.collect::<Vec<_>>(),
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "readOnlyRootFilesystem": true,
                            "capabilities": { "drop": ["ALL"] },
                        },
                        "resources": { "requests": { "cpu": "20m", "memory": "50Mi" } },
                        "terminationMessagePolicy": "FallbackToLogsOnError",
                    }],
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_of_each_pool_is_said_by_its_name() {
        let message = r#"{"pools":[{"pool":"infra","failure":"MachineConfig \"99-x\": spec.fips: no"},
            {"pool":"worker","config":"rendered-worker-1"}],"omitted":2}"#;
        let rendering = Rendering::parse(message);
        assert_eq!(
            rendering.failures,
            ["MachineConfigPool infra: MachineConfig \"99-x\": spec.fips: no"]
        );
        assert_eq!(rendering.pools[0].config, "rendered-worker-1");
        assert_eq!(rendering.not_checked, ["2 more pools"]);
        let failures = Rendering::parse("panicked").failures;
        assert!(
            failures[0]
                .starts_with("pools: the release's machine-config controller said \"panicked\": "),
            "{failures:?}"
        );
    }

    #[test]
    fn image_of_the_controller_is_found_or_its_place_is_named() {
        let map = |text: &str| json!({ "data": { "images.json": text } });
        let found = controller_image(&map(r#"{"machineConfigController":"q/mcc"}"#));
        assert_eq!(found.unwrap(), "q/mcc");
        for (map, expected) in [
            (
                map("{}"),
                "data.images.json has no image machineConfigController",
            ),
            (map("{"), "data.images.json: "),
            (json!({}), "data has no key images.json"),
        ] {
            let why = controller_image(&map).unwrap_err();
            let why = Chain(&why).to_string();
            assert!(why.starts_with(expected), "{why}");
        }
    }

    #[test]
    fn an_object_carries_nothing_that_rendering_does_not_read() {
        let mut sources = PoolSources::default();
        let metadata = json!({ "name": "a", "managedFields": [{}] });
        sources.add(json!({ "kind": "MachineConfigPool", "metadata": metadata, "status": {} }));
        let expected = json!({ "kind": "MachineConfigPool", "metadata": { "name": "a" } });
        assert_eq!(sources.objects, [expected]);
    }
}
