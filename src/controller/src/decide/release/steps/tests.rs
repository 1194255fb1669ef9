use operator::watch::kept::KeptPart as _;
use serde_json::json;

use super::super::images::{self, CONTROLLER, DAEMON};
use super::super::required::tests::{master, os_images, rendered};
use super::*;
use crate::fixture::{Cluster, read};
use crate::store::daemons;

const START: &str = "2026-01-01T00:00:00Z";

/// What a step depends on, in a cluster that is at the release.
struct Scene {
    images: Result<ReleaseImages, images::Error>,
    config: Option<Value>,
    updated_daemons: i32,
    pool: Value,
    clock: Option<ReleaseStep>,
    minutes: u64,
}

impl Scene {
    fn new() -> Self {
        let images = ReleaseImages {
            version: "2.0.0".to_owned(),
            os: "os2".to_owned(),
            extensions: String::new(),
            components: [(DAEMON, "mcd2"), (CONTROLLER, "mcc2")]
                .map(|(name, image)| (name.to_owned(), image.to_owned()))
                .into(),
            streams: None,
        };
        let mut this = Self {
            images: Ok(images),
            config: Some(json!({
                "metadata": { "name": "machine-config-controller", "resourceVersion": "7", "generation": 4 },
                "spec": {}
            })),
            updated_daemons: 3,
            pool: master(),
            clock: None,
            minutes: 0,
        };
        // As the controller itself leaves it.
        for _ in 0..2 {
            let change = match this.next() {
                NextStep::Configure(change) | NextStep::Complete(change) => change,
                NextStep::Report(progress) => panic!("{progress:?}"),
            };
            let config = this.config.as_mut().unwrap();
            for part in ["spec", "status"] {
                if let Some(changed) = change.get(part) {
                    config[part] = changed.clone();
                }
            }
            if let Some(annotations) = change.pointer("/metadata/annotations") {
                config["metadata"]["annotations"] = annotations.clone();
            }
        }
        this
    }

    /// The same while the ControllerConfig is the one of the release before.
    fn before() -> Self {
        let mut this = Self::new();
        this.config.as_mut().unwrap()["spec"]["baseOSContainerImage"] = json!("os1");
        this
    }

    fn next(&self) -> NextStep {
        let cluster = Cluster {
            configs: vec![rendered()],
            ..Cluster::default()
        };
        let snapshot = cluster.snapshot();
        let config = self.config.as_ref().map(read);
        let daemons = json!({
            "metadata": { "name": daemons::NAME, "generation": 2 },
            "spec": { "selector": {}, "template": { "spec": { "containers": [{ "name": daemons::NAME, "image": "mcd2" }] } } },
            "status": {
                "observedGeneration": 2, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
                "numberMisscheduled": 0, "numberReady": 3, "updatedNumberScheduled": self.updated_daemons
            }
        });
        let pool = read(&self.pool);
        let start: Timestamp = START.parse().unwrap();
        next(&ReleaseFacts {
            version: "2.0.0",
            images: &self.images,
            release_image: Some("release2"),
            config: config.as_ref(),
            daemons: Some(&DaemonRollout::of(read(&daemons))),
            pools: &[&pool],
            streams: None,
            configs: &snapshot.configs,
            os_images: &os_images("os2"),
            clock: self.clock.map(|step| (step, start)),
            now: start + Duration::from_mins(self.minutes),
        })
    }

    fn summary(&self) -> String {
        match self.next() {
            NextStep::Configure(_) => "configure".to_owned(),
            NextStep::Complete(_) => "complete".to_owned(),
            NextStep::Report(ReleaseProgress::Done) => "done".to_owned(),
            NextStep::Report(ReleaseProgress::Waiting { step, why }) => {
                format!("{step} waits: {why}")
            }
            NextStep::Report(ReleaseProgress::Failed { step, why }) => {
                format!("{step} failed: {why}")
            }
        }
    }
}

/// Makes a scene differ in one way.
type Change = fn(&mut Scene);

#[test]
fn daemons_come_before_the_os_and_pools_come_last() {
    use ReleaseStep::{MachineConfigDaemon, RenderConfig, RequiredPools};
    let late = "MachineConfigDaemon waits: DaemonSet machine-config-daemon has updated 1 of 3 pods";
    let table: [(Scene, Change, &str); 14] = [
        (Scene::new(), |_| {}, "done"),
        (Scene::before(), |_| {}, "configure"),
        (Scene::before(), |scene| scene.updated_daemons = 1, late),
        (
            Scene::before(),
            |scene| {
                scene.updated_daemons = 1;
                scene.clock = Some(MachineConfigDaemon);
                scene.minutes = 9;
            },
            late,
        ),
        // A broken node does not keep the others from the release, and is reported.
        (
            Scene::before(),
            |scene| {
                scene.updated_daemons = 1;
                scene.clock = Some(MachineConfigDaemon);
                scene.minutes = 10;
            },
            "configure",
        ),
        (
            Scene::new(),
            |scene| {
                scene.updated_daemons = 1;
                scene.clock = Some(MachineConfigDaemon);
                scene.minutes = 10;
            },
            "MachineConfigDaemon failed: DaemonSet machine-config-daemon has updated 1 of 3 pods",
        ),
        // The clock of another step does not count.
        (
            Scene::new(),
            |scene| {
                scene.updated_daemons = 1;
                scene.clock = Some(RenderConfig);
                scene.minutes = 60;
            },
            late,
        ),
        (
            Scene::new(),
            |scene| scene.config.as_mut().unwrap()["metadata"]["generation"] = json!(5),
            "complete",
        ),
        (
            Scene::new(),
            |scene| scene.images = Err(images::Error::NoMap("refused")),
            "RenderConfig waits: ConfigMap refused is missing",
        ),
        (
            Scene::new(),
            |scene| {
                scene.images = Err(images::Error::NoMap("refused"));
                scene.clock = Some(RenderConfig);
                scene.minutes = 10;
            },
            "RenderConfig failed: ConfigMap refused is missing",
        ),
        (
            Scene::new(),
            |scene| scene.config = None,
            "RenderConfig failed: ControllerConfig machine-config-controller is missing",
        ),
        (
            Scene::new(),
            |scene| scene.pool["status"]["conditions"] = json!([]),
            "RequiredPools waits: MachineConfigPool master is not ready",
        ),
        // Ten minutes for each of the three nodes.
        (
            Scene::new(),
            |scene| {
                scene.pool["status"]["conditions"] = json!([]);
                scene.clock = Some(RequiredPools);
                scene.minutes = 29;
            },
            "RequiredPools waits: MachineConfigPool master is not ready",
        ),
        (
            Scene::new(),
            |scene| {
                scene.pool["status"]["conditions"] = json!([]);
                scene.clock = Some(RequiredPools);
                scene.minutes = 30;
            },
            "RequiredPools failed: MachineConfigPool master is not ready",
        ),
    ];
    for (number, (mut scene, change, expected)) in table.into_iter().enumerate() {
        change(&mut scene);
        let summary = scene.summary();
        assert!(
            summary.starts_with(expected),
            "{number}: {summary}, not {expected}"
        );
    }
}

#[test]
fn clock_of_a_step_starts_when_another_one_ends() {
    let at = |minute: u64| START.parse::<Timestamp>().unwrap() + Duration::from_mins(minute);
    let waiting = |step| ReleaseProgress::Waiting {
        step,
        why: String::new(),
    };
    let daemon = ReleaseStep::MachineConfigDaemon;
    let pools = ReleaseStep::RequiredPools;
    let started = clock(None, &waiting(daemon), at(0));
    assert_eq!(started, Some((daemon, at(0))));
    assert_eq!(clock(started, &waiting(daemon), at(5)), started);
    let next = clock(started, &waiting(pools), at(6));
    assert_eq!(next, Some((pools, at(6))));
    assert_eq!(clock(next, &ReleaseProgress::Done, at(7)), None);
}
