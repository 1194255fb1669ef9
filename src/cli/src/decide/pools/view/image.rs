//! The OS image of a pool in image mode, for people.

use jiff::Timestamp;
use pool::image::{PoolImage, PoolImageState};
use serde::Serialize;

use super::seconds_since;
use crate::decide::blocks::duration;
use crate::decide::pools::objects::PoolObjects;

/// How far the image of a pool is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoolImageProgress {
    /// The MachineOSConfig that asks for it.
    config: String,
    /// The MachineOSBuild, once one was chosen.
    build: Option<String>,
    state: &'static str,
    /// The image, once it is built.
    image: Option<String>,
    /// Seconds since when the build runs.
    building_seconds: Option<i64>,
}

impl PoolImageProgress {
    pub(super) fn of(image: &PoolImage, objects: &PoolObjects, now: Timestamp) -> Self {
        let state = match &image.state {
            PoolImageState::Refused(_) => "refused",
            PoolImageState::NotBegun => "waiting for a build",
            PoolImageState::Pending { .. } => "queued",
            PoolImageState::Prepared { .. } => "prepared",
            PoolImageState::Building { .. } => "building",
            PoolImageState::Failed { .. } => "build failed",
            PoolImageState::Interrupted { .. } => "build interrupted",
            PoolImageState::Built { .. } => "built",
        };
        let build = image.build();
        let began = build.and_then(|build| objects.began(build));
        let is_building = matches!(image.state, PoolImageState::Building { .. });
        let building_seconds = began
            .filter(|_| is_building)
            .map(|began| seconds_since(now, began));
        Self {
            config: image.config.clone(),
            build: build.map(ToOwned::to_owned),
            state,
            image: image.image().map(ToOwned::to_owned),
            building_seconds,
        }
    }

    /// The image once there is one, else how far it is, and who makes it.
    pub(super) fn text(&self) -> String {
        let who = match &self.build {
            Some(build) => format!("MachineOSBuild {build}"),
            None => format!("MachineOSConfig {}", self.config),
        };
        let what = match (&self.image, self.building_seconds) {
            (Some(image), _) => image.clone(),
            (None, Some(seconds)) => format!("{} for {}", self.state, duration(seconds)),
            (None, None) => self.state.to_owned(),
        };
        format!("{what} ({who})")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects(build_end: Option<&str>) -> PoolObjects {
        let build = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSBuild",
            "metadata": { "name": "worker-1" },
            "spec": {
                "machineConfig": { "name": "rendered-worker-1" },
                "machineOSConfig": { "name": "worker" },
                "renderedImagePushSpec": "registry.example/os:worker-1",
            },
            "status": { "buildStart": "2026-01-01T00:00:00Z", "buildEnd": build_end },
        });
        PoolObjects {
            os_builds: vec![serde_json::from_value(build).unwrap()],
            ..PoolObjects::default()
        }
    }

    fn said(state: PoolImageState, objects: &PoolObjects) -> String {
        let image = PoolImage {
            config: "worker".to_owned(),
            state,
        };
        let now = "2026-01-01T00:03:00Z".parse().unwrap();
        PoolImageProgress::of(&image, objects, now).text()
    }

    #[test]
    fn a_build_is_shown_with_its_time_and_then_with_its_image() {
        let build = || "worker-1".to_owned();
        let running = objects(None);
        assert_eq!(
            said(PoolImageState::NotBegun, &running),
            "waiting for a build (MachineOSConfig worker)"
        );
        assert_eq!(
            said(PoolImageState::Pending { build: build() }, &running),
            "queued (MachineOSBuild worker-1)"
        );
        assert_eq!(
            said(PoolImageState::Building { build: build() }, &running),
            "building for 3m (MachineOSBuild worker-1)"
        );
        let ended = objects(Some("2026-01-01T00:02:00Z"));
        let why = String::new();
        assert_eq!(
            said(
                PoolImageState::Failed {
                    build: build(),
                    why
                },
                &ended
            ),
            "build failed (MachineOSBuild worker-1)"
        );
        let image = "registry.example/os@sha256:0".to_owned();
        assert_eq!(
            said(
                PoolImageState::Built {
                    build: build(),
                    image
                },
                &ended
            ),
            "registry.example/os@sha256:0 (MachineOSBuild worker-1)"
        );
    }
}
