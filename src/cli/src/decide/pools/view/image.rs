//! The OS image of a pool in image mode, for people.

use jiff::Timestamp;
use pool::image::{PoolImage, PoolImageState};
use serde::Serialize;

use super::seconds_since;
use crate::decide::blocks::{duration, first_line};
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
    /// Why there is none, or why the build does not go on.
    why: Option<String>,
}

impl PoolImageProgress {
    pub(super) fn of(image: &PoolImage, objects: &PoolObjects, now: Timestamp) -> Self {
        let state = match &image.state {
            PoolImageState::Refused(_) => "refused",
            PoolImageState::NotBegun => "waiting for a build",
            PoolImageState::Pending { .. } => "queued",
            PoolImageState::Prepared { .. } => "prepared",
            PoolImageState::Building { held: None, .. } => "building",
            PoolImageState::Building { held: Some(_), .. } => "held",
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
            why: why(&image.state),
        }
    }

    /// The image once there is one, else how far it is and why, and who makes it.
    pub(super) fn text(&self) -> String {
        let who = match &self.build {
            Some(build) => format!("MachineOSBuild {build}"),
            None => format!("MachineOSConfig {}", self.config),
        };
        let image = self.image.clone();
        let what = image.unwrap_or_else(|| self.progress(self.building_seconds));
        format!("{what} ({who})")
    }

    /// The same in short, for a view that is drawn again and again: whole minutes, and the
    /// beginning of the image's digest.
    pub(super) fn note(&self) -> String {
        match &self.image {
            Some(image) => short(image),
            None => self.progress(self.building_seconds.map(|seconds| seconds / 60 * 60)),
        }
    }

    /// Whether it says what is in the way.
    pub(super) const fn has_cause(&self) -> bool {
        self.why.is_some()
    }

    fn progress(&self, seconds: Option<i64>) -> String {
        let since = match seconds {
            // It began within this minute, or a clock is behind.
            Some(..=0) => " now".to_owned(),
            Some(seconds) => format!(" for {}", duration(seconds)),
            None => String::new(),
        };
        let why = self.why.as_deref().map(first_line);
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        format!("{}{since}{why}", self.state)
    }
}

/// Why a state is not the next one; none where it only takes time.
fn why(state: &PoolImageState) -> Option<String> {
    let why = match state {
        PoolImageState::Refused(why) | PoolImageState::Failed { why, .. } => why.clone(),
        PoolImageState::Building { held, .. } => held.clone()?,
        PoolImageState::Interrupted { .. } => "its Job is gone".to_owned(),
        PoolImageState::NotBegun
        | PoolImageState::Pending { .. }
        | PoolImageState::Prepared { .. }
        | PoolImageState::Built { .. } => return None,
    };
    Some(why).filter(|why| !why.trim().is_empty())
}

/// An image with the first twelve digits of its digest.
fn short(image: &str) -> String {
    const DIGITS: usize = 12;
    match image.split_once("@sha256:") {
        Some((repository, digest)) => {
            let digits: String = digest.chars().take(DIGITS).collect();
            format!("{repository}@sha256:{digits}")
        }
        None => image.to_owned(),
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

    /// What `slipway pool` and what `slipway watch` say.
    fn said(state: PoolImageState, objects: &PoolObjects, now: &str) -> [String; 2] {
        let image = PoolImage {
            config: "worker".to_owned(),
            state,
        };
        let progress = PoolImageProgress::of(&image, objects, now.parse().unwrap());
        [progress.text(), progress.note()]
    }

    #[test]
    fn a_build_is_shown_with_its_time_and_cause_and_then_with_its_image() {
        let build = || "worker-1".to_owned();
        let running = || objects(None);
        let ended = || objects(Some("2026-01-01T00:02:00Z"));
        let held = |why: &str| PoolImageState::Building {
            build: build(),
            held: Some(why.to_owned()),
        };
        let digest = "0123456789abcdef".repeat(4);
        let image = format!("registry.example/os@sha256:{digest}");
        let table = [
            (
                PoolImageState::Refused("spec.containerFile: no".to_owned()),
                running(),
                "refused: spec.containerFile: no (MachineOSConfig worker)".to_owned(),
                "refused: spec.containerFile: no",
            ),
            (
                PoolImageState::NotBegun,
                running(),
                "waiting for a build (MachineOSConfig worker)".to_owned(),
                "waiting for a build",
            ),
            (
                PoolImageState::Pending { build: build() },
                running(),
                "queued (MachineOSBuild worker-1)".to_owned(),
                "queued",
            ),
            (
                PoolImageState::Prepared { build: build() },
                running(),
                "prepared (MachineOSBuild worker-1)".to_owned(),
                "prepared",
            ),
            (
                PoolImageState::Building {
                    build: build(),
                    held: None,
                },
                running(),
                "building for 3m20s (MachineOSBuild worker-1)".to_owned(),
                "building for 3m",
            ),
            (
                held("no node takes its pod: Unschedulable"),
                running(),
                "held for 3m20s: no node takes its pod: Unschedulable (MachineOSBuild worker-1)"
                    .to_owned(),
                "held for 3m: no node takes its pod: Unschedulable",
            ),
            (
                PoolImageState::Failed {
                    build: build(),
                    why: "BackoffLimitExceeded: exit code 1\nno such package\n".to_owned(),
                },
                ended(),
                "build failed: BackoffLimitExceeded: exit code 1... (MachineOSBuild worker-1)"
                    .to_owned(),
                "build failed: BackoffLimitExceeded: exit code 1...",
            ),
            (
                PoolImageState::Failed {
                    build: build(),
                    why: String::new(),
                },
                ended(),
                "build failed (MachineOSBuild worker-1)".to_owned(),
                "build failed",
            ),
            (
                PoolImageState::Interrupted { build: build() },
                ended(),
                "build interrupted: its Job is gone (MachineOSBuild worker-1)".to_owned(),
                "build interrupted: its Job is gone",
            ),
            (
                PoolImageState::Built {
                    build: build(),
                    image: image.clone(),
                },
                ended(),
                format!("{image} (MachineOSBuild worker-1)"),
                "registry.example/os@sha256:0123456789ab",
            ),
        ];
        for (state, objects, text, note) in table {
            assert_eq!(
                said(state, &objects, "2026-01-01T00:03:20Z"),
                [text, note.to_owned()]
            );
        }
    }

    #[test]
    fn a_build_that_has_just_begun_is_building_now() {
        let state = PoolImageState::Building {
            build: "worker-1".to_owned(),
            held: None,
        };
        assert_eq!(
            said(state, &objects(None), "2026-01-01T00:00:20Z"),
            ["building for 20s (MachineOSBuild worker-1)", "building now"]
        );
    }
}
