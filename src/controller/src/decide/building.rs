//! What the build of an OS image is decided by, from one snapshot of the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{MachineOSBuild, MachineOSConfig, PhaseName, Target};
use image_build::BuildRefusal;
use image_build::architecture::ImageArchitecture;
use image_build::step::{BuildAction, BuildStep, CHECK, DeletionCause};
use operator::watch::kept::ConfigMapData;
use pool::node::NodeView;
use pool::stop::PoolStops;

use super::release::images::{OS_BUILDER, component};
use crate::store::Snapshot;
use crate::store::release_maps::COMPONENT_IMAGES;

/// Label with a node's architecture.
const ARCHITECTURE: &str = "kubernetes.io/arch";

/// The MachineOSConfigs that there are, and those of which there still are builds.
pub fn names(snapshot: &Snapshot) -> BTreeSet<String> {
    let configs = snapshot.os_configs.values();
    let configs = configs.filter_map(|config| config.metadata.name.clone());
    let builds = snapshot.os_builds.values();
    let builds = builds.map(|build| build.spec.machine_os_config.name.clone());
    configs.chain(builds).collect()
}

/// The builds of a MachineOSConfig, by name.
pub fn builds_of(snapshot: &Snapshot, config: &str) -> Vec<Arc<MachineOSBuild>> {
    let builds = snapshot.os_builds.values();
    let builds = builds.filter(|build| build.spec.machine_os_config.name == config);
    builds.cloned().collect()
}

/// What is done next of the build of a pool's image: while the pool is stopped nothing that begins
/// a build. One that runs is followed to its end, and what nothing wants any more goes.
pub fn unless_stopped(step: BuildStep, snapshot: &Snapshot, pool: &str) -> BuildStep {
    let stops = snapshot.pools.get(pool);
    let stops = stops.map(|pool| snapshot.stops_of(&pool.view));
    match (&step, stops.filter(PoolStops::are_set)) {
        (BuildStep::Act(action), Some(stops)) if begins(action) => BuildStep::Wait {
            after: CHECK,
            why: Some(stops.to_string()),
        },
        _ => step,
    }
}

/// Whether an action leads to a build that would not be otherwise.
const fn begins(action: &BuildAction) -> bool {
    match action {
        BuildAction::AcceptRebuild
        | BuildAction::Create
        | BuildAction::Prepare { .. }
        | BuildAction::StartJob { .. }
        | BuildAction::Delete {
            why: DeletionCause::Rebuild | DeletionCause::ImageMissing,
            ..
        } => true,
        BuildAction::Delete {
            why: DeletionCause::Superseded | DeletionCause::Unneeded | DeletionCause::ConfigGone,
            ..
        }
        | BuildAction::NameCurrent { .. }
        | BuildAction::DeleteForeignJob { .. }
        | BuildAction::Report { .. }
        | BuildAction::ReportConfig { .. }
        | BuildAction::Clean { .. } => false,
    }
}

/// The nodes of a pool.
pub fn members(snapshot: &Snapshot, pool: &str) -> Vec<Arc<NodeView>> {
    let views: Vec<_> = snapshot
        .pools
        .values()
        .map(|pool| pool.view.clone())
        .collect();
    let sorted = snapshot.sort(snapshot.nodes.values().map(Arc::as_ref), &views);
    let members = sorted.of(pool).iter();
    members
        .filter_map(|node| snapshot.nodes.get(&node.name).cloned())
        .collect()
}

/// Whether a node of the pool reports that it cannot fetch an image.
pub fn is_missed(snapshot: &Snapshot, pool: &str, image: &str) -> bool {
    members(snapshot, pool).iter().any(|node| {
        let status = &node.status;
        let failed = status.failed_in.as_ref().and_then(Reading::known);
        let has_failed = failed.is_some_and(|failed| {
            failed.phase == PhaseName::Fetching && failed.target.image.as_deref() == Some(image)
        });
        let not_fetched = status.not_fetched.as_deref().unwrap_or_default();
        let target = not_fetched.split(": ").next().and_then(Target::parse);
        has_failed || target.is_some_and(|target| target.image.as_deref() == Some(image))
    })
}

/// For which architecture a pool's image is built.
///
/// # Errors
/// Its nodes have several, or one that is unknown.
pub fn architecture(
    snapshot: &Snapshot,
    pool: &str,
    members: &[Arc<NodeView>],
) -> Result<ImageArchitecture, BuildRefusal> {
    fn of(node: &Arc<NodeView>) -> Option<&str> {
        node.labels.get(ARCHITECTURE).map(String::as_str)
    }
    let members = members.iter().filter_map(of);
    ImageArchitecture::of_pool(pool, members, snapshot.nodes.values().filter_map(of))
}

/// Images that nodes have or are assigned, that another MachineOSConfig names, or a build of one.
pub fn images_in_use(snapshot: &Snapshot, config: &str) -> BTreeSet<String> {
    let of_nodes = snapshot.nodes.values().flat_map(|node| {
        let status = &node.status;
        [status.current_image.clone(), status.desired_image.clone()]
    });
    let others = snapshot.os_configs.values();
    let others = others.filter(|other| other.metadata.name.as_deref() != Some(config));
    let named = others.map(|other: &Arc<MachineOSConfig>| {
        let status = other.status.as_ref()?;
        status.current_image_pull_spec.clone()
    });
    let builds = snapshot.os_builds.values();
    let builds = builds.filter(|build| build.spec.machine_os_config.name != config);
    let built = builds.map(|build| build.status.as_ref()?.digested_image_push_spec.clone());
    of_nodes.chain(named).chain(built).flatten().collect()
}

/// The image of the builder: the one of the release, else the one of the options.
///
/// # Errors
/// Neither names one.
pub fn builder_image(
    components: Option<&ConfigMapData>,
    version: &str,
    option: Option<&str>,
) -> Result<String, BuildRefusal> {
    let of_release = component(components, version, OS_BUILDER);
    of_release
        .or_else(|| option.map(ToOwned::to_owned))
        .ok_or_else(|| {
            let object = format!("ConfigMap {COMPONENT_IMAGES}");
            let why = format!(
                "it names no {OS_BUILDER} of release {version}, and --os-builder-image is not set"
            );
            BuildRefusal::new(&object, "data.images.json", why)
        })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::fixture::{OLD, node, settled};

    #[test]
    fn a_stopped_pool_begins_no_build_and_ends_those_that_are_unneeded() {
        let (mut cluster, _, _) = settled();
        let build = || "worker-1".to_owned();
        let delete = |why| BuildAction::Delete {
            build: build(),
            uid: "u".to_owned(),
            why,
        };
        let goes_on = cluster.snapshot();
        cluster.pools[0]["metadata"]["annotations"] = json!({ "slipway.dev/stop": "" });
        let stopped = cluster.snapshot();
        for (action, begins) in [
            (BuildAction::AcceptRebuild, true),
            (BuildAction::Create, true),
            (BuildAction::Prepare { build: build() }, true),
            (BuildAction::StartJob { build: build() }, true),
            (delete(DeletionCause::Rebuild), true),
            (delete(DeletionCause::ImageMissing), true),
            (delete(DeletionCause::Superseded), false),
            (delete(DeletionCause::Unneeded), false),
            (delete(DeletionCause::ConfigGone), false),
            (BuildAction::NameCurrent { build: build() }, false),
        ] {
            let step = BuildStep::Act(action);
            let next = unless_stopped(step.clone(), &goes_on, "worker");
            assert_eq!(next, step);
            let next = unless_stopped(step.clone(), &stopped, "worker");
            let waits =
                matches!(&next, BuildStep::Wait { why: Some(why), .. } if why.contains("stopped"));
            assert_eq!((waits, next == step), (begins, !begins), "{step:?}");
            // Without a pool there is no switch of its own.
            assert_eq!(unless_stopped(step.clone(), &stopped, "infra"), step);
        }
        let settled = BuildStep::Settled;
        assert_eq!(unless_stopped(settled.clone(), &stopped, "worker"), settled);
    }

    #[test]
    fn the_builder_is_the_releases_or_the_options() {
        let map = |text: &str| ConfigMapData {
            data: BTreeMap::from([("images.json".to_owned(), text.to_owned())]),
        };
        let ours = map(r#"{"releaseVersion":"4.2.0","slipwayOsBuilder":"of-release"}"#);
        let other = map(r#"{"releaseVersion":"4.1.0","slipwayOsBuilder":"older"}"#);
        let without = map(r#"{"releaseVersion":"4.2.0","slipwayOsBuilder":""}"#);
        let none = "ConfigMap machine-config-operator-images: data.images.json: it names no \
                    slipwayOsBuilder of release 4.2.0, and --os-builder-image is not set";
        for (components, option, expected) in [
            (Some(&ours), Some("option"), Ok("of-release")),
            (Some(&other), Some("option"), Ok("option")),
            (Some(&without), Some("option"), Ok("option")),
            (None, Some("option"), Ok("option")),
            (None, None, Err(none)),
            (Some(&map("[]")), None, Err(none)),
        ] {
            let image = builder_image(components, "4.2.0", option);
            assert_eq!(
                image.map_err(|refusal| refusal.to_string()),
                expected.map(ToOwned::to_owned).map_err(ToOwned::to_owned)
            );
        }
    }

    #[test]
    fn a_node_that_cannot_fetch_an_image_misses_it() {
        let image = "q/a@sha256:1";
        for (key, value, expected) in [
            ("failed-in", format!("Fetching {OLD} {image}"), true),
            ("failed-in", format!("Draining {OLD} {image}"), false),
            ("failed-in", format!("Fetching {OLD}"), false),
            ("failed-in", format!("Fetching {OLD} q/a@sha256:2"), false),
            ("not-fetched", format!("{OLD} {image}: not found"), true),
            ("not-fetched", format!("{OLD}: {image} not found"), false),
        ] {
            let (mut cluster, ..) = settled();
            let mut one = node("n", OLD);
            one["metadata"]["annotations"][format!("slipway.dev/{key}")] = json!(value);
            cluster.nodes = vec![one];
            let snapshot = cluster.snapshot();
            assert_eq!(is_missed(&snapshot, "worker", image), expected, "{value}");
        }
    }

    #[test]
    fn images_of_nodes_and_of_other_configs_are_in_use() {
        let (mut cluster, ..) = settled();
        let mut one = node("n", OLD);
        let annotations = &mut one["metadata"]["annotations"];
        annotations["machineconfiguration.openshift.io/currentImage"] = json!("q/a@sha256:1");
        annotations["machineconfiguration.openshift.io/desiredImage"] = json!("q/a@sha256:2");
        one["metadata"]["labels"][ARCHITECTURE] = json!("arm64");
        cluster.nodes = vec![one];
        let config = |name: &str, image: &str| {
            json!({
                "metadata": { "name": name, "resourceVersion": "1" },
                "spec": {
                    "machineConfigPool": { "name": name },
                    "imageBuilder": { "imageBuilderType": "Job" },
                    "renderedImagePushSecret": { "name": "push" },
                    "renderedImagePushSpec": "registry.example/os:latest",
                },
                "status": { "currentImagePullSpec": image },
            })
        };
        cluster.os_configs = vec![
            config("worker", "q/a@sha256:3"),
            config("infra", "q/a@sha256:4"),
        ];
        let snapshot = cluster.snapshot();
        let found: Vec<String> = images_in_use(&snapshot, "worker").into_iter().collect();
        assert_eq!(found, ["q/a@sha256:1", "q/a@sha256:2", "q/a@sha256:4"]);
        let members = members(&snapshot, "worker");
        assert_eq!(
            architecture(&snapshot, "worker", &members),
            Ok(ImageArchitecture::Arm64)
        );
        let names: Vec<String> = names(&snapshot).into_iter().collect();
        assert_eq!(names, ["infra", "worker"]);
    }
}
