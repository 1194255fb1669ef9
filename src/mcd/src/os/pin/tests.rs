//! Runs against a runtime at a socket.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::bail;
use fakecri::{FakePull, FakeRuntime};
use node_update::pins::{PINNED, PINS_DROPIN, SLIPWAYS};
use node_update::pull::PullFiles;
use serde_json::json;

use super::*;
use crate::protocol::HelperOutcome;

/// As much as a node needs that takes any image.
const AMPLE: u64 = 1 << 40;

/// A host whose registries have an image of one layer of 1 KiB under each name.
struct FakeHost {
    dir: tempfile::TempDir,
    root: Root,
    hands: Arc<FakeHands>,
}

struct FakeHands {
    reloads: AtomicUsize,
    /// What CRI-O does at a reload; `None` fails.
    runtime: Mutex<Option<FakeRuntime>>,
    manifests: Mutex<BTreeMap<String, Result<String, &'static str>>>,
    free: u64,
}

impl PinHost for FakeHands {
    async fn reload_crio(&self) -> anyhow::Result<()> {
        self.reloads.fetch_add(1, Ordering::Relaxed);
        match &*self.runtime.lock().unwrap() {
            Some(runtime) => runtime.reload(),
            None => bail!("the bus is gone"),
        }
        Ok(())
    }

    fn manifest(&self, image: &str) -> anyhow::Result<Vec<u8>> {
        match self.planned(image) {
            Some(Ok(manifest)) => Ok(manifest.into_bytes()),
            Some(Err(why)) => bail!("{why}"),
            None => Ok(manifest_of(image).into_bytes()),
        }
    }

    fn free_bytes(&self, root: &Root, place: &str) -> io::Result<u64> {
        assert!(root.path().exists());
        assert_eq!(place, "/");
        Ok(self.free)
    }
}

impl FakeHands {
    fn planned(&self, image: &str) -> Option<Result<String, &'static str>> {
        self.manifests.lock().unwrap().get(image).cloned()
    }
}

fn manifest_of(layer: &str) -> String {
    json!({"layers": [{"digest": layer, "size": 1024}]}).to_string()
}

impl FakeHost {
    fn new(start: fn(&Path) -> FakeRuntime) -> Self {
        Self::with_free(start, AMPLE)
    }

    fn with_free(start: fn(&Path) -> FakeRuntime, free: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        let hands = Arc::new(FakeHands {
            reloads: AtomicUsize::new(0),
            runtime: Mutex::new(Some(start(dir.path()))),
            manifests: Mutex::default(),
            free,
        });
        Self { dir, root, hands }
    }

    fn runtime<T>(&self, read: impl FnOnce(&FakeRuntime) -> T) -> T {
        read(self.hands.runtime.lock().unwrap().as_ref().unwrap())
    }

    fn reloads(&self) -> usize {
        self.hands.reloads.load(Ordering::Relaxed)
    }

    fn dropin(&self) -> Option<String> {
        let path = self.dir.path().join(PINS_DROPIN.trim_start_matches('/'));
        fs::read_to_string(path).ok()
    }

    /// Files of the host, as they are read for a pull.
    async fn run_with(&self, request: &PinRequest, files: &PullFiles) -> HelperReport {
        let none = PullFiles::new();
        let settings = pull::settings(files, &none, &FileChanges::new(), HOME).unwrap();
        let pinning = Pinning {
            root: &self.root,
            request,
            settings: &settings,
            host: &self.hands,
            patience: Duration::ZERO,
        };
        let report = pinning.run().await;
        report.unwrap_or_else(|error| HelperReport::of_failure(&error))
    }

    async fn run(&self, request: &PinRequest) -> HelperReport {
        self.run_with(request, &PullFiles::new()).await
    }

    fn pulled(&self) -> Vec<String> {
        let pulls = self.runtime(FakeRuntime::pulls);
        pulls.into_iter().map(|pull| pull.image).collect()
    }

    /// What a registry has for an image.
    fn publish(&self, name: &str, manifest: Result<String, &'static str>) {
        let mut manifests = self.hands.manifests.lock().unwrap();
        manifests.insert(image(name), manifest);
    }

    fn pinned(&self) -> Vec<String> {
        self.runtime(FakeRuntime::pinned)
    }
}

fn image(name: &str) -> String {
    format!("{name}@sha256:{}", "5".repeat(64))
}

fn request(images: &[&str]) -> PinRequest {
    let images: Vec<String> = images.iter().map(|name| image(name)).collect();
    let sets = [("s".to_owned(), images)].into_iter();
    PinRequest {
        sets: sets.filter(|(_, images)| !images.is_empty()).collect(),
        allocatable_bytes: Some(AMPLE),
        at_once: 2,
    }
}

/// What a report says, as `(pinned, pulled, lacks_room)`.
fn details(report: &HelperReport) -> (usize, usize, bool) {
    let details: PinDetails = report.clone().details().unwrap();
    (details.pinned, details.pulled, details.lacks_room)
}

#[track_caller]
fn assert_done(report: &HelperReport, pinned: usize, pulled: usize) {
    assert_eq!(report.outcome, HelperOutcome::Done, "{report:?}");
    assert_eq!(details(report), (pinned, pulled, false));
}

#[tokio::test]
async fn images_are_pulled_once_and_pinned() {
    for start in [FakeRuntime::crio, FakeRuntime::containerd] {
        let host = FakeHost::new(start);
        let three = request(&["q.io/a", "q.io/b", "r.io:5000/c"]);
        assert_done(&host.run(&three).await, 3, 3);
        let all = three.sets["s"].clone();
        assert_eq!(host.pinned(), all);
        assert_eq!(host.pulled().len(), 3);
        assert_done(&host.run(&three).await, 3, 0);
        assert_eq!(host.pulled().len(), 3);
        // A pod that always pulls.
        let client = RuntimeClient::find(host.dir.path(), Duration::ZERO);
        client.await.unwrap().pull(&all[0], None).await.unwrap();
        assert_eq!(host.pinned(), all);
        // The next request keeps one, and has one more.
        assert_done(&host.run(&request(&["q.io/b", "q.io/d"])).await, 2, 1);
        assert_eq!(host.pinned(), [image("q.io/b"), image("q.io/d")]);
        assert!(host.runtime(|it| it.labels(&image("q.io/a"))).is_some());
        assert_done(&host.run(&request(&[])).await, 0, 0);
        assert_eq!(host.pinned(), [""; 0]);
    }
}

#[tokio::test]
async fn an_image_that_is_there_is_pinned_without_a_pull() {
    for start in [FakeRuntime::crio, FakeRuntime::containerd] {
        let host = FakeHost::new(start);
        host.runtime(|it| it.has(&image("q.io/a"), &[]));
        assert_done(&host.run(&request(&["q.io/a"])).await, 1, 0);
        assert_eq!(host.pulled(), [""; 0]);
    }
}

#[tokio::test]
async fn pins_of_others_stay() {
    let host = FakeHost::new(FakeRuntime::containerd);
    let wanted = image("q.io/wanted");
    host.runtime(|it| {
        it.has("pause", &[PINNED]);
        it.has(&wanted, &[PINNED]);
        it.has("old", &[PINNED, SLIPWAYS, ("other", "1")]);
    });
    assert_done(&host.run(&request(&["q.io/wanted"])).await, 1, 0);
    let labels = |name: &str| host.runtime(|it| it.labels(name)).unwrap();
    assert_eq!(labels("old").into_keys().collect::<Vec<_>>(), ["other"]);
    assert_done(&host.run(&request(&[])).await, 0, 0);
    assert_eq!(host.pinned(), ["pause".to_owned(), wanted.clone()]);
    assert_eq!(labels(&wanted).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_pulled_keeps_no_other_from_it() {
    for start in [FakeRuntime::crio, FakeRuntime::containerd] {
        let host = FakeHost::new(start);
        host.runtime(|it| {
            it.plan(&image("q.io/bad"), FakePull::Fails(100, "manifest unknown"));
            it.plan(&image("q.io/slow"), FakePull::Fails(4, "i/o timeout"));
        });
        let three = request(&["q.io/a", "q.io/bad", "q.io/slow"]);
        let report = host.run(&three).await;
        assert_eq!(report.outcome, HelperOutcome::Failed);
        assert_eq!(details(&report), (2, 2, false));
        assert_eq!(report.reasons.len(), 1);
        let reason = &report.reasons[0];
        assert!(reason.starts_with(&image("q.io/bad")), "{reason}");
        assert!(reason.ends_with(": manifest unknown"), "{reason}");
        assert_eq!(host.pinned(), [image("q.io/a"), image("q.io/slow")]);
        let tries = |name: &str| {
            let pulled = host.pulled();
            pulled.iter().filter(|it| **it == image(name)).count()
        };
        assert_eq!((tries("q.io/bad"), tries("q.io/slow")), (5, 5));
    }
}

#[tokio::test]
async fn a_full_disk_ends_all_pulls() {
    let host = FakeHost::new(FakeRuntime::containerd);
    let full = "write /var/lib/x: no space left on device";
    host.runtime(|it| {
        it.has(&image("q.io/there"), &[]);
        it.plan(&image("q.io/big"), FakePull::Fails(100, full));
        it.plan(&image("q.io/a"), FakePull::Takes(Duration::from_hours(1)));
    });
    let report = host
        .run(&request(&[
            "q.io/there",
            "q.io/a",
            "q.io/big",
            "q.io/never",
        ]))
        .await;
    assert_eq!(report.outcome, HelperOutcome::Rejected);
    assert_eq!(details(&report), (1, 0, true));
    assert_eq!(report.reasons.len(), 1, "{report:?}");
    let reason = &report.reasons[0];
    assert!(reason.starts_with(&image("q.io/big")) && reason.ends_with(full));
    assert_eq!(host.pulled(), [image("q.io/a"), image("q.io/big")]);
}

#[tokio::test]
async fn no_more_are_pulled_at_once_than_requested() {
    let host = FakeHost::new(FakeRuntime::crio);
    let names = ["q.io/a", "q.io/b", "q.io/c", "q.io/d", "q.io/e"];
    for name in names {
        let takes = FakePull::Takes(Duration::from_millis(20));
        host.runtime(|it| it.plan(&image(name), takes));
    }
    assert_done(&host.run(&request(&names)).await, 5, 5);
    assert_eq!(host.runtime(FakeRuntime::most_at_once), 2);
}

#[tokio::test]
async fn credentials_are_sent_to_containerd_alone_and_for_their_registry() {
    // robot:hunter2
    let auths = json!({"auths": {"r.io:5000": {"auth": "cm9ib3Q6aHVudGVyMg=="}}});
    let path = "/var/lib/kubelet/config.json".to_owned();
    let files = PullFiles::from([(path, auths.to_string().into_bytes())]);
    let images = request(&["q.io/a", "r.io:5000/b"]);
    let logins = |host: &FakeHost| {
        let pulls = host.runtime(FakeRuntime::pulls).into_iter();
        let logins = pulls.map(|pull| (pull.image, pull.login));
        logins.collect::<BTreeMap<_, _>>()
    };
    let containerd = FakeHost::new(FakeRuntime::containerd);
    assert_done(&containerd.run_with(&images, &files).await, 2, 2);
    let sent = ["robot", "hunter2", "https://r.io:5000"].map(str::to_owned);
    let [user, password, server] = sent;
    assert_eq!(
        logins(&containerd),
        BTreeMap::from([
            (image("q.io/a"), None),
            (image("r.io:5000/b"), Some((user, password, server)))
        ])
    );
    let crio = FakeHost::new(FakeRuntime::crio);
    assert_done(&crio.run_with(&images, &files).await, 2, 2);
    assert!(logins(&crio).into_values().all(|login| login.is_none()));
}

#[tokio::test]
async fn crio_is_reloaded_only_for_another_file() {
    let host = FakeHost::new(FakeRuntime::crio);
    let one = request(&["q.io/a"]);
    assert_done(&host.run(&one).await, 1, 1);
    assert_eq!(host.dropin(), pins::dropin(&one.sets));
    assert_eq!(host.reloads(), 1);
    host.run(&one).await;
    assert_eq!(host.reloads(), 1);
    host.run(&request(&[])).await;
    assert_eq!((host.reloads(), host.dropin()), (2, None));
    host.run(&request(&[])).await;
    assert_eq!(host.reloads(), 2);
}

#[tokio::test]
async fn a_file_that_crio_did_not_read_is_read_by_the_next_run() {
    let host = FakeHost::new(FakeRuntime::crio);
    let one = request(&["q.io/a"]);
    let runtime = host.hands.runtime.lock().unwrap().take();
    let report = host.run(&one).await;
    assert_eq!(report.outcome, HelperOutcome::Failed);
    assert_eq!(report.reasons, ["the bus is gone"]);
    assert_eq!((host.dropin(), host.reloads()), (None, 1));
    *host.hands.runtime.lock().unwrap() = runtime;
    // A run that was killed between file and reload.
    let path = host.dir.path().join(PINS_DROPIN.trim_start_matches('/'));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = pins::dropin(&one.sets).unwrap();
    io::Write::write_all(&mut fs::File::create(path).unwrap(), text.as_bytes()).unwrap();
    host.runtime(|it| it.has(&image("q.io/a"), &[]));
    assert_done(&host.run(&one).await, 1, 0);
    assert_eq!(host.reloads(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_pins_nothing_is_named() {
    for start in [FakeRuntime::crio, FakeRuntime::containerd] {
        let host = FakeHost::new(start);
        host.runtime(FakeRuntime::lose_pins);
        let report = host.run(&request(&["q.io/a"])).await;
        assert_eq!(report.outcome, HelperOutcome::Failed);
        assert_eq!(details(&report), (0, 1, false));
        let reason = &report.reasons[0];
        assert!(reason.ends_with(" does not show it as pinned"), "{reason}");
    }
}

#[tokio::test]
async fn what_does_not_fit_is_not_pulled() {
    // A layer takes twice its 1024 bytes.
    for (free, fits) in [(4095, false), (4096, true)] {
        let host = FakeHost::with_free(FakeRuntime::containerd, free);
        host.runtime(|it| it.has(&image("q.io/there"), &[]));
        let report = host
            .run(&request(&["q.io/a", "q.io/b", "q.io/there"]))
            .await;
        if fits {
            assert_done(&report, 3, 2);
            continue;
        }
        assert_eq!(report.outcome, HelperOutcome::Rejected);
        assert_eq!(details(&report), (1, 0, true));
        assert!(report.reasons[0].starts_with("sets s: 1 bytes lack"));
        assert_eq!(host.pinned(), [image("q.io/there")]);
        assert_eq!(host.pulled(), [""; 0]);
    }
}

#[tokio::test]
async fn layers_of_images_that_are_there_take_no_room() {
    let host = FakeHost::with_free(FakeRuntime::containerd, 0);
    host.runtime(|it| it.has(&image("q.io/there"), &[]));
    let two = request(&["q.io/a", "q.io/there"]);
    assert_eq!(details(&host.run(&two).await), (1, 0, true));
    let shared = Ok(manifest_of(&image("q.io/there")));
    host.publish("q.io/a", shared);
    assert_done(&host.run(&two).await, 2, 1);
}

#[tokio::test]
async fn what_is_not_known_is_not_assumed() {
    let host = FakeHost::new(FakeRuntime::crio);
    let unknown = PinRequest {
        allocatable_bytes: None,
        ..request(&["q.io/a"])
    };
    let report = host.run(&unknown).await;
    assert_eq!(report.outcome, HelperOutcome::Failed);
    assert_eq!(details(&report), (0, 0, false));
    assert!(report.reasons[0].contains("allocatable"), "{report:?}");
    host.runtime(FakeRuntime::lose_file_system);
    let report = host.run(&request(&["q.io/a"])).await;
    assert_eq!(report.outcome, HelperOutcome::Failed);
    assert!(report.reasons[0].contains("free bytes"), "{report:?}");
    assert_eq!(host.pulled(), [""; 0]);
}

#[tokio::test]
async fn an_image_of_unknown_size_is_left_out_and_named() {
    let host = FakeHost::new(FakeRuntime::containerd);
    host.publish("q.io/bad", Err("unauthorized"));
    let platform = |architecture: &str, digest: &str| json!({"digest": digest, "platform": {"os": "linux", "architecture": architecture}});
    let this = host::pull::architecture();
    for (name, index) in [
        ("q.io/index", platform(this, "sha256:1")),
        ("q.io/other", platform("none", "sha256:2")),
    ] {
        let index = json!({"manifests": [index]}).to_string();
        host.publish(name, Ok(index));
    }
    let report = host
        .run(&request(&["q.io/bad", "q.io/index", "q.io/other"]))
        .await;
    assert_eq!(report.outcome, HelperOutcome::Failed);
    assert_eq!(details(&report), (1, 1, false));
    let [bad, other] = report.reasons.as_slice() else {
        panic!("{report:?}");
    };
    assert!(
        bad.ends_with("its size is not known: unauthorized"),
        "{bad}"
    );
    assert!(other.contains("its index has none for linux/"), "{other}");
    assert_eq!(host.pulled(), [image("q.io/index")]);
}

#[tokio::test]
async fn the_signature_policy_holds() {
    let policy = json!({"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {
        "q.io/no": [{"type": "reject"}], "q.io/signed": [{"type": "signedBy"}],
    }}});
    let path = pull::POLICY.to_owned();
    let files = PullFiles::from([(path, policy.to_string().into_bytes())]);
    let three = request(&["q.io/a", "q.io/no", "q.io/signed"]);
    for (start, refused) in [
        (FakeRuntime::crio as fn(&Path) -> FakeRuntime, 1),
        // containerd checks no signature.
        (FakeRuntime::containerd, 2),
    ] {
        let host = FakeHost::new(start);
        let report = host.run_with(&three, &files).await;
        assert_eq!(report.outcome, HelperOutcome::Failed);
        assert_eq!(report.reasons.len(), refused, "{report:?}");
        assert!(report.reasons.iter().all(|it| it.contains(pull::POLICY)));
        assert_eq!(host.pulled().len(), 3 - refused);
    }
}

#[tokio::test]
async fn a_host_without_a_runtime_has_nothing_to_drop() {
    let host = FakeHost::new(FakeRuntime::crio);
    fs::remove_dir_all(host.dir.path().join("var/run/crio")).unwrap();
    assert_done(&host.run(&request(&[])).await, 0, 0);
    let report = host.run(&request(&["q.io/a"])).await;
    assert_eq!(report.outcome, HelperOutcome::Rejected);
    for kind in RuntimeKind::ALL {
        assert!(report.reasons[0].contains(kind.socket()), "{report:?}");
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_pulled_changes_nothing() {
    let host = FakeHost::new(FakeRuntime::crio);
    assert_done(&host.run(&request(&["q.io/a"])).await, 1, 1);
    let mut bad = request(&["q.io/b"]);
    bad.sets.insert("t".to_owned(), vec!["q.io/c:1".to_owned()]);
    let report = host.run(&bad).await;
    assert_eq!(report.outcome, HelperOutcome::Rejected);
    assert_eq!(
        report.reasons,
        ["set t, image \"q.io/c:1\": it has no digest"]
    );
    assert_eq!((host.pinned().len(), host.reloads()), (1, 1));
}

#[tokio::test]
async fn a_removal_drops_the_pins_and_names_them() {
    for start in [FakeRuntime::crio, FakeRuntime::containerd] {
        let host = FakeHost::new(start);
        host.run(&request(&["q.io/a"])).await;
        let dropped = drop_pins(&host.root, &host.hands, Duration::ZERO);
        let dropped = dropped.await.unwrap();
        let expected = match host.dropin() {
            None if host.reloads() > 0 => PINS_DROPIN.to_owned(),
            _ => format!("pin of {}", fakecri::id(&image("q.io/a"))),
        };
        assert_eq!(dropped, [expected]);
        assert_eq!(host.pinned(), [""; 0]);
        let again = drop_pins(&host.root, &host.hands, Duration::ZERO);
        assert_eq!(again.await.unwrap(), [""; 0]);
    }
}

#[test]
fn a_file_that_is_no_request_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pins.json");
    let file = path.to_str().unwrap();
    let fault = read_request(file).unwrap_err();
    assert!(
        fault.starts_with(&format!("cannot read {file}: ")),
        "{fault}"
    );
    for (text, why) in [
        ("{", "EOF"),
        (r#"{"sets": {}, "allocatable_bytes": null}"#, "at_once"),
        (
            r#"{"sets": {}, "allocatable_bytes": -1, "at_once": 1}"#,
            "-1",
        ),
        (
            r#"{"sets": {}, "allocatable_bytes": 1, "at_once": 0}"#,
            "at_once is 0",
        ),
    ] {
        io::Write::write_all(&mut fs::File::create(&path).unwrap(), text.as_bytes()).unwrap();
        let fault = read_request(file).unwrap_err();
        assert!(fault.starts_with(file) && fault.contains(why), "{fault}");
    }
}
