//! Metrics of builds of OS images.

use std::collections::BTreeMap;
use std::fmt;

use api::machineconfiguration::{BuildPhase, MachineOSBuild};
use chassis::metrics::{DescriptorEncoder, encode_counters, encode_gauges};
use jiff::{SignedDuration, Timestamp};
use pool::image::{PoolImage, PoolImageState};

/// The build that a pool in image mode waits for, or whose image it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildMetrics {
    /// One of [`PoolImageState::WORDS`].
    pub state: &'static str,
    /// When its Job was made; none of one that has no Job, or whose image was found.
    pub start: Option<Timestamp>,
    /// When it ended.
    pub end: Option<Timestamp>,
    /// How long it may take; none where the pool's policy cannot be followed.
    pub limit: Option<SignedDuration>,
}

impl BuildMetrics {
    /// How far an image is; `build` is the build that it names.
    pub fn of(
        image: &PoolImage,
        build: Option<&MachineOSBuild>,
        limit: Option<SignedDuration>,
    ) -> Self {
        let status = build.and_then(|build| build.status.as_ref());
        let start = status.and_then(|status| status.build_start.as_ref());
        let end = status.and_then(|status| status.build_end.as_ref());
        Self {
            state: image.state.word(),
            start: start.map(|time| time.0),
            end: end.map(|time| time.0),
            limit,
        }
    }

    /// How long it runs or ran.
    fn seconds(&self, now: Timestamp) -> Option<i64> {
        let seconds = self.end.unwrap_or(now).duration_since(self.start?);
        Some(seconds.as_secs().max(0))
    }
}

/// How a build can end: values of label `end`.
const ENDS: [&str; 4] = ["Built", "Reused", "Failed", "Interrupted"];

/// How many builds ended, by how.
#[derive(Debug, Default)]
pub(super) struct BuildEnds(BTreeMap<&'static str, u64>);

impl BuildEnds {
    /// Counts a build that was written, if it has ended.
    pub(super) fn count(&mut self, build: &MachineOSBuild) {
        if let Some(end) = end_of(build) {
            *self.0.entry(end).or_default() += 1;
        }
    }

    /// Prints them all, so that the first of each is seen as an increase.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let count = |end| self.0.get(end).copied().unwrap_or_default();
        encode_counters(
            encoder,
            "mcc_image_builds_total",
            "Builds of OS images that ended, by how.",
            ENDS.map(|end| ([("end", end)], count(end))),
        )
    }
}

/// How a build ended; none of one that has not.
fn end_of(build: &MachineOSBuild) -> Option<&'static str> {
    let status = build.status.as_ref();
    let had_job = status.is_some_and(|status| status.build_start.is_some());
    match build.phase() {
        BuildPhase::Initial | BuildPhase::Prepared | BuildPhase::Building => None,
        BuildPhase::Succeeded if had_job => Some("Built"),
        BuildPhase::Succeeded => Some("Reused"),
        BuildPhase::Failed => Some("Failed"),
        BuildPhase::Interrupted => Some("Interrupted"),
    }
}

/// Measures a build at a time.
type Measure = fn(&BuildMetrics, Timestamp) -> Option<i64>;

/// Prints the builds of pools in image mode.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    pools: &BTreeMap<&str, &BuildMetrics>,
    now: Timestamp,
) -> fmt::Result {
    let states = pools.iter().flat_map(|(pool, build)| {
        PoolImageState::WORDS.map(|state| {
            let labels = [("pool", *pool), ("state", state)];
            (labels, i64::from(build.state == state))
        })
    });
    encode_gauges(
        encoder,
        "mcc_pool_image_build_state",
        "How far the build of the pool's OS image is: 1 for its state, 0 for the others.",
        states,
    )?;
    let gauges: [(&str, &str, Measure); 3] = [
        (
            "mcc_pool_image_build_start_time_seconds",
            "When the Job of the pool's build was made.",
            |build, _| build.start.map(Timestamp::as_second),
        ),
        (
            "mcc_pool_image_build_seconds",
            "How long the pool's build runs, or ran.",
            BuildMetrics::seconds,
        ),
        (
            "mcc_pool_image_build_limit_seconds",
            "How long a build of the pool may take.",
            |build, _| build.limit.map(|limit| limit.as_secs()),
        ),
    ];
    for (name, help, value) in gauges {
        let samples = pools.iter().filter_map(|(pool, build)| {
            let value = value(build, now)?;
            Some(([("pool", *pool)], value))
        });
        encode_gauges(encoder, name, help, samples)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn build(condition: &str, start: &Value) -> MachineOSBuild {
        serde_json::from_value(json!({
            "metadata": { "name": "worker-1" },
            "spec": {
                "machineConfig": { "name": "rendered-worker-1" },
                "machineOSConfig": { "name": "worker" },
                "renderedImagePushSpec": "registry.example/os:worker-1",
            },
            "status": {
                "buildStart": start, "digestedImagePushSpec": "registry.example/os@sha256:0",
                "conditions": [{
                    "type": condition, "status": "True", "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        }))
        .unwrap()
    }

    #[test]
    fn each_end_is_counted_by_its_name() {
        let start = json!("2026-01-01T00:00:00Z");
        for (condition, start, end) in [
            ("Prepared", &Value::Null, None),
            ("Building", &start, None),
            ("Succeeded", &start, Some("Built")),
            ("Succeeded", &Value::Null, Some("Reused")),
            ("Failed", &start, Some("Failed")),
            ("Interrupted", &start, Some("Interrupted")),
        ] {
            assert_eq!(end_of(&build(condition, start)), end, "{condition}");
            assert!(end.is_none_or(|end| ENDS.contains(&end)));
        }
    }

    #[test]
    fn a_build_runs_until_its_end() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let metrics = |start: Option<&str>, end: Option<&str>| BuildMetrics {
            state: "Building",
            start: start.map(at),
            end: end.map(at),
            limit: None,
        };
        let began = Some("2026-01-01T00:00:00Z");
        let now = at("2026-01-01T00:01:40Z");
        assert_eq!(metrics(None, None).seconds(now), None);
        assert_eq!(metrics(began, None).seconds(now), Some(100));
        let ended = Some("2026-01-01T00:00:30Z");
        assert_eq!(metrics(began, ended).seconds(now), Some(30));
        // A clock that is behind.
        let later = Some("2026-01-01T00:09:00Z");
        assert_eq!(metrics(later, None).seconds(now), Some(0));
    }
}
