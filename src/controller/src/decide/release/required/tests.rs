use serde_json::{Value, json};

use super::*;
use crate::fixture::{Cluster, read, reference};

pub(crate) const CONFIG: &str = "rendered-master-2";

/// Pool `master` of one node that is at the release.
pub(crate) fn master() -> Value {
    json!({
        "metadata": { "name": "master", "generation": 4 },
        "spec": { "paused": false, "configuration": { "name": CONFIG, "source": [reference("50-m")] } },
        "status": {
            "observedGeneration": 4, "machineCount": 3, "readyMachineCount": 3,
            "updatedMachineCount": 3, "unavailableMachineCount": 0, "degradedMachineCount": 0,
            "configuration": { "name": CONFIG, "source": [reference("50-m")] },
            "conditions": [{ "type": "Updated", "status": "True" }]
        }
    })
}

/// The rendered configuration of that pool.
pub(crate) fn rendered() -> Value {
    json!({ "metadata": { "name": CONFIG, "annotations": {
        "machineconfiguration.openshift.io/generated-by-controller-version": BUILD,
        "machineconfiguration.openshift.io/release-image-version": "2.0.0"
    } } })
}

pub(crate) fn os_images(os_image: &str) -> BTreeMap<String, String> {
    [(CONFIG.to_owned(), os_image.to_owned())].into()
}

/// Makes a case differ in one way.
type Change = fn(&mut Case);

/// The same, with a pool that fails.
type Failing = fn(&mut Case, Value);

struct Case {
    pools: Vec<Value>,
    config: Value,
    os_images: BTreeMap<String, String>,
    streams: Option<OSImageStream>,
}

impl Case {
    fn new() -> Self {
        Self {
            pools: vec![master()],
            config: rendered(),
            os_images: os_images("os2"),
            streams: None,
        }
    }

    fn annotate(&mut self, key: &str, value: &str) {
        let key = format!("machineconfiguration.openshift.io/{key}");
        self.config["metadata"]["annotations"][key] = json!(value);
    }

    fn shortfall(&self) -> Option<Shortfall> {
        self.with(shortfall)
    }

    fn unread(&self) -> Vec<String> {
        self.with(|pools, wanted| {
            let names = unread(pools, wanted);
            names.into_iter().map(str::to_owned).collect()
        })
    }

    fn with<T>(&self, judge: impl FnOnce(&[&MachineConfigPool], &Wanted<'_>) -> T) -> T {
        let cluster = Cluster {
            configs: vec![self.config.clone()],
            ..Cluster::default()
        };
        let snapshot = cluster.snapshot();
        let pools: Vec<MachineConfigPool> = self.pools.iter().map(read).collect();
        let pools: Vec<&MachineConfigPool> = pools.iter().collect();
        let wanted = Wanted {
            version: "2.0.0",
            os_image: "os2",
            streams: self.streams.as_ref(),
            configs: &snapshot.configs,
            os_images: &self.os_images,
        };
        judge(&pools, &wanted)
    }
}

/// A pool that is not at the release in one way, and the message about it.
#[test]
fn required_pool_is_at_the_release_only_when_all_holds() {
    assert_eq!(Case::new().shortfall(), None);
    let table: [(Change, &str); 12] = [
        (
            |case| case.pools[0]["spec"]["configuration"] = json!({}),
            "configuration spec for pool master is empty: ",
        ),
        (
            |case| case.pools[0]["status"]["configuration"] = json!({}),
            "configuration status for pool master is empty: ",
        ),
        (
            |case| case.pools[0]["spec"]["configuration"]["source"] = json!([]),
            "list of MachineConfigs that were used to generate configuration for pool master is empty",
        ),
        (
            |case| case.config["metadata"]["name"] = json!("other"),
            "rendered-master-2, which pool master names, is gone",
        ),
        (
            |case| case.config["metadata"]["annotations"] = json!({}),
            "rendered-master-2 must be created by controller version",
        ),
        (
            |case| case.pools[0]["metadata"]["generation"] = json!(5),
            "MachineConfigPool master is not ready, retrying. Status: (pool degraded: false total: 3, ready 3, updated: 3, unavailable: 0)",
        ),
        (
            |case| case.pools[0]["status"]["conditions"][0]["status"] = json!("False"),
            "MachineConfigPool master is not ready",
        ),
        (
            |case| case.pools[0]["status"]["configuration"]["name"] = json!("rendered-master-1"),
            "MachineConfigPool master is not ready",
        ),
        (
            |case| case.os_images.clear(),
            "rendered-master-2, which pool master names, is not read yet",
        ),
        (
            |case| case.os_images = os_images("os1"),
            "osImageURL mismatch for master in rendered-master-2 expected: os2 got: os1",
        ),
        (
            |case| case.annotate("release-image-version", "1.0.0"),
            "release image version mismatch for master in rendered-master-2 expected: 2.0.0 got: 1.0.0",
        ),
        (
            |case| case.annotate("generated-by-controller-version", "older"),
            "controller version mismatch for rendered-master-2 expected",
        ),
    ];
    for (change, expected) in table {
        let mut case = Case::new();
        change(&mut case);
        match case.shortfall() {
            Some(Shortfall::Waiting(why)) => assert!(why.contains(expected), "{why}"),
            other => panic!("{other:?} instead of {expected}"),
        }
    }
    // A user's image is no mismatch.
    let mut case = Case::new();
    case.os_images = os_images("os1");
    case.annotate("os-image-url-overridden", "true");
    assert_eq!(case.shortfall(), None);
}

/// Each is read once, and only where all else says that it is the release's.
#[test]
fn only_what_may_be_of_the_release_is_read() {
    assert_eq!(Case::new().unread(), [""; 0]);
    let table: [(Change, &[&str]); 6] = [
        (|_| {}, &[CONFIG]),
        (|case| case.annotate("release-image-version", "1.0.0"), &[]),
        (|case| case.annotate("os-image-url-overridden", "true"), &[]),
        (|case| case.config["metadata"]["name"] = json!("other"), &[]),
        (
            |case| case.pools[0]["spec"]["configuration"] = json!({}),
            &[],
        ),
        (
            |case| case.pools[0]["metadata"]["name"] = json!("worker"),
            &[],
        ),
    ];
    for (change, expected) in table {
        let mut case = Case::new();
        case.os_images.clear();
        change(&mut case);
        assert_eq!(case.unread(), expected);
    }
}

#[test]
fn pool_that_does_not_get_there_by_itself_is_a_failure() {
    let mut worker = master();
    worker["metadata"]["name"] = json!("worker");
    worker["status"]["conditions"] = json!([
        { "type": "Degraded", "status": "True" },
        { "type": "NodeDegraded", "status": "True", "reason": "1 nodes are reporting degraded status on sync", "message": "Node n: no space" }
    ]);
    let table: [(Failing, &str); 3] = [
        // Any degraded pool, with its cause.
        (
            |case, worker| case.pools.push(worker),
            "MachineConfigPool worker is not ready, retrying. Status: (pool degraded: true total: 3, ready 3, updated: 3, unavailable: 0): \"1 nodes are reporting degraded status on sync\": \"Node n: no space\"",
        ),
        (
            |case, _| {
                case.pools[0]["spec"]["paused"] = json!(true);
                case.pools[0]["status"]["conditions"] = json!([]);
            },
            "required MachineConfigPool master is paused and cannot sync until it is unpaused",
        ),
        (
            |case, _| case.pools[0]["metadata"]["name"] = json!("worker"),
            "no MachineConfigPool is required for an update: there is no pool master or arbiter",
        ),
    ];
    for (change, expected) in table {
        let mut case = Case::new();
        change(&mut case, worker.clone());
        match case.shortfall() {
            Some(Shortfall::Failed(why)) => assert!(why.contains(expected), "{why}"),
            other => panic!("{other:?} instead of {expected}"),
        }
    }
}

#[test]
fn workers_are_not_waited_for_unless_labelled_and_a_paused_pool_with_nothing_to_do_is_done() {
    let mut worker = master();
    worker["metadata"]["name"] = json!("worker");
    worker["status"]["conditions"] = json!([{ "type": "Updating", "status": "True" }]);
    let mut case = Case::new();
    case.pools.push(worker);
    case.pools[0]["spec"]["paused"] = json!(true);
    assert_eq!(case.shortfall(), None);
    case.pools[1]["metadata"]["labels"] =
        json!({ "operator.machineconfiguration.openshift.io/required-for-upgrade": "" });
    assert!(
        matches!(case.shortfall(), Some(Shortfall::Waiting(why)) if why.contains("MachineConfigPool worker is not ready"))
    );
}

#[test]
fn a_pool_that_chooses_a_stream_is_there_with_the_image_of_that_stream() {
    let streams = json!({
        "metadata": { "name": "cluster" }, "spec": { "defaultStream": "a" },
        "status": { "defaultStream": "a", "availableStreams": [
            { "name": "a", "osImage": "os2" }, { "name": "b", "osImage": "os-b" }
        ] }
    });
    let table = [
        // (stream of the pool, image that it has, what is missing)
        (None, "os2", None),
        (None, "os-b", Some("expected: os2 got: os-b")),
        (Some("b"), "os-b", None),
        (Some("b"), "os2", Some("expected: os-b got: os2")),
        (Some("c"), "os2", Some("spec.osImageStream c: ")),
    ];
    for (stream, image, expected) in table {
        let mut case = Case::new();
        case.streams = Some(read(&streams));
        case.os_images = os_images(image);
        case.pools[0]["spec"]["osImageStream"] = json!(stream.map(|name| json!({ "name": name })));
        let missing = case.shortfall();
        let is_it = match (&missing, expected) {
            (None, None) => true,
            (Some(Shortfall::Waiting(why)), Some(expected)) => why.contains(expected),
            _ => false,
        };
        assert!(is_it, "{stream:?} {image}: {missing:?}");
    }
    // Without the object, nothing says which image a stream has.
    let mut case = Case::new();
    case.pools[0]["spec"]["osImageStream"] = json!({ "name": "b" });
    assert_eq!(case.shortfall(), None);
}
