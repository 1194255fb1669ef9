//! Which pools serve a built OS image with their configuration.
//!
//! A MachineOSConfig has an image built for the pool of its name. A new machine gets it in its
//! first boot, once a node of the pool has proved it, and if a machine outside of the cluster can
//! pull it. It gets the OS of the release otherwise, and the image by the pool's rollout.
//!
//! Source: `docs/reference/config-server.md`, "Image mode".

use api::machineconfiguration::{BuildPhase, MachineOSBuild, MachineOSConfig, Target};
use operator::watch::kept::KeptPart;

/// What of a MachineOSConfig decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OsConfigPart {
    pool: String,
    /// The build of this generation.
    build: Option<String>,
}

impl KeptPart for OsConfigPart {
    type Object = MachineOSConfig;

    fn of(object: MachineOSConfig) -> Self {
        let status = object.status.unwrap_or_default();
        // A status of an earlier generation names a build of other inputs.
        let is_observed = status.observed_generation.is_some()
            && status.observed_generation == object.metadata.generation;
        let build = status.machine_os_build.filter(|_| is_observed);
        Self {
            pool: object.spec.machine_config_pool.name,
            build: build.map(|build| build.name),
        }
    }
}

/// What of a MachineOSBuild decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OsBuildPart {
    /// The MachineConfig and the MachineOSConfig that the image is built for.
    config: String,
    os_config: String,
    /// The image, by digest, once the build succeeded.
    image: Option<String>,
}

impl KeptPart for OsBuildPart {
    type Object = MachineOSBuild;

    fn of(object: MachineOSBuild) -> Self {
        let has_succeeded = object.phase() == BuildPhase::Succeeded;
        let status = object.status.unwrap_or_default();
        Self {
            config: object.spec.machine_config.name,
            os_config: object.spec.machine_os_config.name,
            image: status.digested_image_push_spec.filter(|_| has_succeeded),
        }
    }
}

impl OsConfigPart {
    /// The build that counts.
    pub(crate) fn build(&self) -> Option<&str> {
        self.build.as_deref()
    }
}

/// A pool, and what it serves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer<'a> {
    pub(crate) pool: &'a str,
    /// The rendered configuration that a new machine gets.
    pub(crate) config: &'a str,
    /// Whether a node of the pool is what the pool assigns.
    pub(crate) is_proved: bool,
}

/// Why a pool serves no built image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoImage {
    /// The pool has no MachineOSConfig.
    #[error("pool {0:?} has no MachineOSConfig")]
    NotInImageMode(String),
    /// There is no finished build of the pool's configuration.
    #[error("no MachineOSBuild of MachineConfig {config:?} has succeeded for pool {pool:?}")]
    NotBuilt { pool: String, config: String },
    /// No node has the image yet.
    #[error("no node of pool {0:?} has the image of its newest MachineOSBuild yet")]
    NotProved(String),
    /// The registry is a Service, which a new machine cannot resolve.
    #[error("image {0} is in a registry of the cluster, which a new machine cannot reach")]
    InCluster(String),
}

/// The configuration and the built image that a new machine gets.
///
/// Shape: `os_config` is the MachineOSConfig with the pool's name, `build` the MachineOSBuild that
/// it names.
///
/// # Errors
/// [`NoImage`]: the machine gets the OS that its configuration names.
pub(crate) fn serves_image(
    offer: Offer<'_>,
    os_config: Option<&OsConfigPart>,
    build: Option<&OsBuildPart>,
) -> Result<Target, NoImage> {
    let (name, served) = (offer.pool, offer.config);
    if os_config.is_none_or(|os_config| os_config.pool != name) {
        return Err(NoImage::NotInImageMode(name.to_owned()));
    }
    let found = build
        .filter(|build| build.os_config == name && build.config == served)
        .and_then(|build| build.image.clone());
    let image = found.ok_or_else(|| NoImage::NotBuilt {
        pool: name.to_owned(),
        config: served.to_owned(),
    })?;
    if !offer.is_proved {
        return Err(NoImage::NotProved(name.to_owned()));
    }
    if is_in_cluster(&image) {
        return Err(NoImage::InCluster(image));
    }
    Ok(Target {
        config: served.to_owned(),
        image: Some(image),
    })
}

/// Whether the registry of an image has the name of a Service, `<name>.<namespace>.svc` with or
/// without the cluster's domain.
fn is_in_cluster(image: &str) -> bool {
    let registry = image.split('/').next().unwrap_or_default();
    let host = registry.split(':').next().unwrap_or_default();
    host.split('.').nth(2) == Some("svc")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const IMAGE: &str = "registry.example:5000/os@sha256:1";

    fn os_config(pool: &str, generation: i64, status: &Value) -> OsConfigPart {
        let object = json!({
            "metadata": { "name": "worker", "generation": generation },
            "spec": {
                "machineConfigPool": { "name": pool },
                "imageBuilder": { "imageBuilderType": "Job" },
                "renderedImagePushSecret": { "name": "push" },
                "renderedImagePushSpec": "registry.example:5000/os:latest",
            },
            "status": status,
        });
        OsConfigPart::of(serde_json::from_value(object).unwrap())
    }

    fn of_build(generation: i64) -> OsConfigPart {
        let build = json!({
            "group": "machineconfiguration.openshift.io", "resource": "machineosbuilds", "name": "b",
        });
        let status = json!({ "observedGeneration": 2, "machineOSBuild": build });
        os_config("worker", generation, &status)
    }

    fn build(config: &str, condition: &str, image: Option<&str>) -> OsBuildPart {
        let object = json!({
            "metadata": { "name": "b" },
            "spec": {
                "machineConfig": { "name": config }, "machineOSConfig": { "name": "worker" },
                "renderedImagePushSpec": "registry.example:5000/os:b",
            },
            "status": {
                "conditions": [{
                    "type": condition, "status": "True", "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
                "digestedImagePushSpec": image,
            },
        });
        OsBuildPart::of(serde_json::from_value(object).unwrap())
    }

    /// A pool that goes from `old` to `new`, and whether a node is there.
    fn pool(is_proved: bool) -> Offer<'static> {
        Offer {
            pool: "worker",
            config: if is_proved { "new" } else { "old" },
            is_proved,
        }
    }

    #[test]
    fn image_is_served_once_a_node_has_proved_the_build_of_the_served_configuration() {
        let good = || build("new", "Succeeded", Some(IMAGE));
        let not_built = |config: &str| NoImage::NotBuilt {
            pool: "worker".to_owned(),
            config: config.to_owned(),
        };
        let plain = || NoImage::NotInImageMode("worker".to_owned());
        let target = Target::parse(&format!("new {IMAGE}")).unwrap();
        let table: [(&str, bool, Option<OsConfigPart>, Option<OsBuildPart>, _); 12] = [
            (
                "all of it",
                true,
                Some(of_build(2)),
                Some(good()),
                Ok(target),
            ),
            ("no MachineOSConfig", true, None, Some(good()), Err(plain())),
            (
                "that of another pool",
                true,
                Some(os_config("infra", 2, &Value::Null)),
                Some(good()),
                Err(plain()),
            ),
            (
                "an edit that is not observed",
                true,
                Some(of_build(3)),
                None,
                Err(not_built("new")),
            ),
            (
                "no status",
                true,
                Some(os_config("worker", 2, &Value::Null)),
                None,
                Err(not_built("new")),
            ),
            (
                "no such build",
                true,
                Some(of_build(2)),
                None,
                Err(not_built("new")),
            ),
            (
                "a build under way",
                true,
                Some(of_build(2)),
                Some(build("new", "Building", Some(IMAGE))),
                Err(not_built("new")),
            ),
            (
                "a build that failed",
                true,
                Some(of_build(2)),
                Some(build("new", "Failed", Some(IMAGE))),
                Err(not_built("new")),
            ),
            (
                "a build that names no image",
                true,
                Some(of_build(2)),
                Some(build("new", "Succeeded", None)),
                Err(not_built("new")),
            ),
            (
                "a build of another configuration",
                true,
                Some(of_build(2)),
                Some(build("old", "Succeeded", Some(IMAGE))),
                Err(not_built("new")),
            ),
            (
                "the old configuration is served, which it is not built for",
                false,
                Some(of_build(2)),
                Some(good()),
                Err(not_built("old")),
            ),
            (
                "no node has it",
                false,
                Some(of_build(2)),
                Some(build("old", "Succeeded", Some(IMAGE))),
                Err(NoImage::NotProved("worker".to_owned())),
            ),
        ];
        for (what, is_proved, os_config, build, expected) in table {
            let served = serves_image(pool(is_proved), os_config.as_ref(), build.as_ref());
            assert_eq!(served, expected, "{what}");
        }
        // What the status of another generation names is not even looked for.
        assert_eq!(of_build(2).build(), Some("b"));
        assert_eq!(of_build(3).build(), None);
        let of_others = OsBuildPart {
            os_config: "infra".to_owned(),
            ..good()
        };
        let served = serves_image(pool(true), Some(&of_build(2)), Some(&of_others));
        assert_eq!(served, Err(not_built("new")));
    }

    #[test]
    fn image_of_a_registry_in_the_cluster_is_not_served() {
        for (image, expected) in [
            (
                "image-registry.openshift-image-registry.svc:5000/n/os@sha256:1",
                true,
            ),
            ("registry.n.svc/os@sha256:1", true),
            ("registry.n.svc.cluster.local:5000/os@sha256:1", true),
            ("registry.svc.example.com/os@sha256:1", false),
            ("svc.example.com/os@sha256:1", false),
            ("registry.example.com/a.b.svc/os@sha256:1", false),
            (IMAGE, false),
        ] {
            assert_eq!(is_in_cluster(image), expected, "{image}");
            let build = build("new", "Succeeded", Some(image));
            let served = serves_image(pool(true), Some(&of_build(2)), Some(&build));
            assert_eq!(served.is_err(), expected, "{image}");
        }
    }
}
