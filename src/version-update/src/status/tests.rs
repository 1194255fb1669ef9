#![expect(clippy::needless_pass_by_value, reason = "json! makes values")]

use std::collections::BTreeMap;
use std::sync::Arc;

use api::config::ClusterCondition;
use jiff::SignedDuration;
use release::capability::Capabilities;
use serde_json::{Value, json};

use super::*;
use crate::acceptance::{AcceptanceStep, RequestedRelease, TargetRelease};
use crate::failure::{Effect, Failure};
use crate::release_state::{AppliedRelease, ReleaseOnDisk, ReleaseStage};
use crate::report::Accepted;
use crate::retrieved_updates::{NoUpdates, UpdatesRequest};

fn own() -> Release {
    Release {
        version: "4.2.0".to_owned(),
        image: "q/r@sha256:2".to_owned(),
        ..Release::default()
    }
}

fn accepted() -> Accepted {
    Accepted {
        version_hash: "h".to_owned(),
        capabilities: Capabilities {
            known: ["Build", "Console"].map(str::to_owned).into(),
            enabled: ["Console"].map(str::to_owned).into(),
            implied: ["Console"].map(str::to_owned).into(),
        },
        generation: 7,
    }
}

fn at(minutes: i64) -> Timestamp {
    let start: Timestamp = "2025-01-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_mins(minutes)
}

fn report(total: usize, done: usize) -> Report {
    let mut report = Report::default();
    report.begin(accepted(), total);
    (0..done).for_each(|number| report.done(number));
    report
}

struct Cluster(ClusterVersion, ReleaseState);

impl Cluster {
    fn new(spec: Value, history: Value) -> Self {
        let object = json!({ "metadata": { "name": "version" }, "spec": spec, "status": { "history": history } });
        let own = ReleaseOnDisk::own("/".into(), own().image);
        Self(
            serde_json::from_value(object).unwrap(),
            ReleaseState::new(Arc::new(own)),
        )
    }

    fn updated() -> Self {
        Self::new(
            json!({}),
            json!([entry("Completed", "4.2.0", "q/r@sha256:2")]),
        )
    }

    fn updating() -> Self {
        Self::new(
            json!({}),
            json!([
                entry("Partial", "4.2.0", "q/r@sha256:2"),
                entry("Completed", "4.1.0", "q/r@sha256:1")
            ]),
        )
    }

    /// Takes a report over; the conditions as `type=status reason message`.
    fn take(&mut self, report: &Report, minutes: i64) -> Vec<String> {
        let none = UpgradeInputs {
            gates: Some(BTreeMap::new()),
            acks: Some(BTreeMap::new()),
            ..UpgradeInputs::default()
        };
        let request = UpdatesRequest::of(&self.0, &own(), None, "amd64");
        let away = || Err(NoUpdates::of_response("RemoteFailed", "refused"));
        let request = request.as_ref().map_err(Clone::clone);
        let updates = RetrievedUpdates::next(None, request, away, at(minutes));
        let upgradeable_risks =
            upgradeable_risks(&self.0, (report, &self.1), &own(), &none, at(minutes));
        let facts = VersionFacts {
            report,
            state: &self.1,
            own: &own(),
            upgradeable_risks: &upgradeable_risks,
            updates: Some(&updates),
            queries: &QueryCache::default(),
            manifests: Some(&[]),
        };
        let status = next(&self.0, &facts, at(minutes));
        let show = |condition: &ClusterCondition| {
            let ClusterCondition {
                r#type,
                status,
                reason,
                message,
                ..
            } = condition;
            format!("{type}={status} {reason}: {message}")
        };
        let all = status.conditions.iter().map(show).collect();
        self.0.status = Some(status);
        all
    }

    fn condition(&mut self, report: &Report, r#type: &str) -> String {
        let all = self.take(report, 1);
        let prefix = format!("{type}=");
        let found = all.iter().find_map(|shown| shown.strip_prefix(&prefix));
        found.unwrap_or_default().to_owned()
    }

    /// Another release is applied from now on.
    fn switch(&mut self, accepted: TargetRelease) {
        let on_disk = ReleaseOnDisk {
            image: accepted.release.image.clone(),
            accepted: Some(accepted),
            ..ReleaseOnDisk::clone(self.1.on_disk())
        };
        let applied = AppliedRelease {
            on_disk: Arc::new(on_disk),
            stage: ReleaseStage::Switching,
            attempt: 0,
        };
        self.1 = ReleaseState::Alone(applied);
    }

    /// Another release is requested, and came to a step.
    fn request(&mut self, image: &str, status: ConditionStatus, message: &str) {
        let applied = AppliedRelease {
            on_disk: Arc::clone(self.1.on_disk()),
            stage: ReleaseStage::Running,
            attempt: 0,
        };
        let request = RequestedRelease {
            release: Release::default(),
            is_forced: false,
            generation: None,
            step: Some(AcceptanceStep {
                image: image.to_owned(),
                reason: "RetrievePayload",
                status,
                message: message.to_owned(),
            }),
            refusals: 0,
        };
        self.1 = ReleaseState::Requested(applied, request);
    }

    fn head(&self) -> String {
        let head = &self.0.status.as_ref().unwrap().history[0];
        format!("{} {}", head.version, head.state)
    }
}

fn entry(state: &str, version: &str, image: &str) -> Value {
    json!({
        "state": state, "version": version, "image": image, "verified": false,
        "startedTime": "2024-01-01T00:00:00Z", "completionTime": null
    })
}

#[test]
fn first_release_is_worked_towards_and_completed() {
    let mut cluster = Cluster::new(json!({ "channel": "" }), json!([]));
    let shown = cluster.take(&report(3, 0), 0);
    assert_eq!(
        shown,
        [
            "ReleaseAccepted=True PayloadLoaded: Payload loaded version=\"4.2.0\" image=\"q/r@sha256:2\" architecture=\"amd64\"",
            "RetrievedUpdates=False NoChannel: The update channel has not been configured.",
            "ImplicitlyEnabledCapabilities=True CapabilitiesImplicitlyEnabled: The following capabilities could not be disabled: Console",
            "Available=False : ",
            "Failing=False : ",
            "Progressing=True : Working towards 4.2.0",
            "Upgradeable=False ClusterVersionUpdating: An update is already in progress and the details are in the Progressing condition.",
        ]
        .map(|line| line.replace("amd64", architecture()))
    );
    assert_eq!(cluster.head(), "4.2.0 Partial");
    assert_eq!(
        cluster.condition(&report(3, 1), "Progressing"),
        "True : Working towards 4.2.0: 1 of 3 done (33% complete)"
    );
    let mut done = report(3, 3);
    done.complete(BTreeMap::new());
    let shown = cluster.take(&done, 5);
    assert!(shown.contains(&"Available=True : Done applying 4.2.0".to_owned()));
    assert!(shown.contains(&"Progressing=False : Cluster version is 4.2.0".to_owned()));
    assert_eq!(cluster.head(), "4.2.0 Completed");
    let status = cluster.0.status.clone().unwrap();
    assert_eq!(
        (status.observed_generation, status.version_hash.as_str()),
        (7, "h")
    );
    // A second time nothing changes, also not the times.
    cluster.take(&done, 9);
    assert_eq!(cluster.0.status.unwrap(), status);
}

#[test]
fn what_is_waited_for_and_what_fails_is_said() {
    let mut report = report(4, 2);
    report
        .failures
        .insert(2, Failure::operator("dns", "Updating", Effect::None));
    report.pending.insert("dns".to_owned(), at(0));
    let mut cluster = Cluster::updating();
    assert_eq!(
        cluster.condition(&report, "Progressing"),
        "True ClusterOperatorUpdating: Working towards 4.2.0: 2 of 4 done (50% complete), waiting on dns"
    );
    assert_eq!(cluster.condition(&report, "Failing"), "False : ");
    let slow = cluster.take(&report, 31);
    assert!(slow.contains(
        &"Failing=Unknown SlowClusterOperator: waiting on dns over 30 minutes which is longer than expected".to_owned()
    ));
    report
        .failures
        .insert(3, Failure::operator("etcd", "NotAvailable", Effect::Fail));
    assert_eq!(
        cluster.condition(&report, "Failing"),
        "True ClusterOperatorNotAvailable: Cluster operator etcd is not available"
    );
    assert_eq!(
        cluster.condition(&report, "Progressing"),
        "True ClusterOperatorNotAvailable: Unable to apply 4.2.0: the cluster operator etcd is not available"
    );
}

/// A reader of `Progressing` sees who stopped the cluster, once, and no more when it goes on.
#[test]
fn stopped_cluster_says_so_after_what_it_does() {
    let stop = |cluster: &mut Cluster, value: Option<&str>| {
        let annotations =
            value.map(|value| [(api::stop::STOP.to_owned(), value.to_owned())].into());
        cluster.0.metadata.annotations = annotations;
    };
    let by_alice = r#"{"by":"alice","since":"2026-11-30T07:15:00Z","reason":"kernel bug"}"#;
    let by_bob = r#"{"by":"bob","since":"2026-11-30T07:16:00Z"}"#;
    let said = "; the cluster is stopped by alice since 2026-11-30T07:15:00Z: kernel bug";
    let mut done = report(1, 1);
    done.complete(BTreeMap::new());
    let mut failed = done.clone();
    failed.begin(accepted(), 1);
    let failure = Failure::operator("dns", "Degraded", Effect::FailAfterInterval);
    failed.failures.insert(0, failure);
    let mut starting = report(1, 0);
    starting.is_applied = false;
    let error = "Error while reconciling 4.2.0: the cluster operator dns is degraded";
    let mut cluster = Cluster::updated();
    for (value, report, expected) in [
        (None, &done, "False : Cluster version is 4.2.0".to_owned()),
        (
            Some(by_alice),
            &done,
            format!("False Stopped: Cluster version is 4.2.0{said}"),
        ),
        (
            Some(by_alice),
            &failed,
            format!("False ClusterOperatorDegraded: {error}{said}"),
        ),
        // A process that has just started keeps what the one before found, and says it once.
        (
            Some(by_bob),
            &starting,
            format!(
                "False ClusterOperatorDegraded: {error}; the cluster is stopped by bob since \
                 2026-11-30T07:16:00Z, without a reason"
            ),
        ),
        (
            None,
            &starting,
            format!("False ClusterOperatorDegraded: {error}"),
        ),
    ] {
        stop(&mut cluster, value);
        assert_eq!(cluster.condition(report, "Progressing"), expected);
    }
    let mut cluster = Cluster::updating();
    stop(&mut cluster, Some(by_alice));
    assert_eq!(
        cluster.condition(&report(4, 1), "Progressing"),
        format!("True Stopped: Working towards 4.2.0: 1 of 4 done (25% complete){said}")
    );
    stop(&mut cluster, None);
    assert_eq!(
        cluster.condition(&report(4, 1), "Progressing"),
        "True : Working towards 4.2.0: 1 of 4 done (25% complete)"
    );
}

#[test]
fn failure_of_a_release_that_is_there_keeps_it_available() {
    let mut cluster = Cluster::updated();
    let mut done = report(1, 1);
    done.complete(BTreeMap::new());
    cluster.take(&done, 0);
    done.begin(accepted(), 1);
    done.failures.insert(
        0,
        Failure::operator("dns", "Degraded", Effect::FailAfterInterval),
    );
    let shown = cluster.take(&done, 1);
    for expected in [
        "Available=True : Done applying 4.2.0",
        "Failing=True ClusterOperatorDegraded: Cluster operator dns is degraded",
        "Progressing=False ClusterOperatorDegraded: Error while reconciling 4.2.0: the cluster operator dns is degraded",
    ] {
        assert!(shown.contains(&expected.to_owned()), "{shown:#?}");
    }
    assert_eq!(cluster.head(), "4.2.0 Completed");
}

#[test]
fn unreadable_release_names_its_file() {
    let mut report = Report::default();
    let text = "Error loading manifests from /: 0000_50_a.yaml: line 3";
    report.unreadable = Some(Failure::integrity(text.to_owned()));
    let mut cluster = Cluster::updating();
    assert_eq!(
        cluster.condition(&report, "ReleaseAccepted"),
        "False LoadPayload: Loading payload failed version=\"4.2.0\" image=\"q/r@sha256:2\" \
         failure=Error loading manifests from /: 0000_50_a.yaml: line 3"
    );
    assert_eq!(
        cluster.condition(&report, "Failing"),
        "True UpdatePayloadIntegrity: Error loading manifests from /: 0000_50_a.yaml: line 3"
    );
    assert_eq!(
        cluster.condition(&report, "Progressing"),
        "True UpdatePayloadIntegrity: Unable to apply 4.2.0: the contents of the update are invalid"
    );
}

/// While a release's files cannot be read, its version is the one that the status has.
#[test]
fn version_of_an_unreadable_release_is_that_of_the_status() {
    let mut cluster = Cluster::updated().0;
    let status = cluster.status.as_mut().unwrap();
    let image = "q/r@sha256:2";
    assert_eq!(known_release(image, Some(status)), own());
    status.desired = Release {
        url: "https://e".to_owned(),
        ..own()
    };
    assert_eq!(known_release(image, Some(status)), status.desired);
    for (image, status) in [("q/r@sha256:9", Some(&*status)), (image, None)] {
        let bare = known_release(image, status);
        assert_eq!((bare.image.as_str(), bare.version.as_str()), (image, ""));
    }
}

/// What the update service has of the release stays until the next response.
#[test]
fn description_of_the_release_stays_over_a_restart() {
    let mut cluster = Cluster::updated();
    cluster.0.spec = serde_json::from_value(json!({
        "clusterID": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "channel": "stable-4.2", "upstream": "http://e"
    }))
    .unwrap();
    let described = Release {
        url: "https://e".to_owned(),
        channels: vec!["stable-4.2".to_owned()],
        ..own()
    };
    let status = cluster.0.status.as_mut().unwrap();
    status.desired = described.clone();
    let mut done = report(1, 1);
    done.complete(BTreeMap::new());
    // The service is away.
    cluster.take(&done, 0);
    assert_eq!(cluster.0.status.as_ref().unwrap().desired, described);
    // Another release is another one.
    let status = cluster.0.status.as_mut().unwrap();
    status.desired.version = "4.1.0".to_owned();
    cluster.take(&done, 1);
    assert_eq!(cluster.0.status.as_ref().unwrap().desired, own());
    // Without a channel no request is sent, and nothing stays.
    let status = cluster.0.status.as_mut().unwrap();
    status.desired = described;
    cluster.0.spec = serde_json::from_value(json!({})).unwrap();
    cluster.take(&done, 2);
    assert_eq!(cluster.0.status.as_ref().unwrap().desired, own());
}

/// A restart is no proof that what failed before is gone.
#[test]
fn failure_of_the_process_before_stays_until_a_pass_is_done() {
    let mut cluster = Cluster::updated();
    let mut before = report(1, 1);
    before.complete(BTreeMap::new());
    before.begin(accepted(), 1);
    let degraded = Failure::operator("dns", "Degraded", Effect::FailAfterInterval);
    before.failures.insert(0, degraded);
    cluster.take(&before, 0);
    let failed = cluster.0.status.clone().unwrap().conditions;
    let mut after = report(1, 0);
    cluster.take(&after, 5);
    assert_eq!(cluster.0.status.clone().unwrap().conditions, failed);
    after.done(0);
    after.complete(BTreeMap::new());
    let shown = cluster.take(&after, 6);
    assert!(shown.contains(&"Failing=False : ".to_owned()), "{shown:#?}");
    assert!(shown.contains(&"Progressing=False : Cluster version is 4.2.0".to_owned()));
}

/// One malformed manifest keeps neither the rest from being reconciled nor another release from
/// being seen.
#[test]
fn release_that_is_read_in_part_fails_and_another_one_is_seen() {
    let mut cluster = Cluster::updated();
    let mut report = report(1, 1);
    let text = "Error loading manifests from /: 0000_50_a.yaml: line 3";
    report.unreadable = Some(Failure::integrity(text.to_owned()));
    report.complete(BTreeMap::new());
    let shown = cluster.take(&report, 0);
    for expected in [
        "Failing=True UpdatePayloadIntegrity: Error loading manifests from /: 0000_50_a.yaml: line 3",
        "Progressing=False UpdatePayloadIntegrity: Error while reconciling 4.2.0: the contents of the update are invalid",
    ] {
        assert!(shown.contains(&expected.to_owned()), "{shown:#?}");
    }
    cluster.0.spec = serde_json::from_value(
        json!({ "channel": "stable", "desiredUpdate": { "version": "4.3.0", "image": "q/r@sha256:3" } }),
    )
    .unwrap();
    assert!(
        cluster
            .condition(&report, "ReleaseAccepted")
            .starts_with("False LoadPayload")
    );
    cluster.request("q/r@sha256:3", ConditionStatus::False, "not signed");
    assert_eq!(
        cluster.condition(&report, "ReleaseAccepted"),
        "False RetrievePayload: not signed"
    );
    // An update to such a release does not end.
    let mut cluster = Cluster::updating();
    cluster.take(&report, 0);
    assert_eq!(cluster.head(), "4.2.0 Partial");
}

#[test]
fn another_release_is_refused_by_name_and_withdrawn() {
    let mut cluster = Cluster::updated();
    let mut report = report(1, 1);
    report.complete(BTreeMap::new());
    cluster.0.spec = serde_json::from_value(
        json!({ "channel": "stable", "desiredUpdate": { "version": "4.3.0", "image": "q/r@sha256:3" } }),
    )
    .unwrap();
    // A request that was not tried has no message.
    assert_eq!(cluster.condition(&report, "ReleaseAccepted"), "");
    cluster.request("q/r@sha256:3", ConditionStatus::False, "not signed");
    assert_eq!(
        cluster.condition(&report, "ReleaseAccepted"),
        "False RetrievePayload: not signed"
    );
    cluster.request("q/r@sha256:9", ConditionStatus::Unknown, "another one");
    assert_eq!(
        cluster.condition(&report, "ReleaseAccepted"),
        "False RetrievePayload: not signed"
    );
    assert_eq!(
        cluster.condition(&report, "RetrievedUpdates"),
        "False RemoteFailed: Unable to retrieve available updates: refused"
    );
    assert_eq!(
        cluster.condition(&report, "Progressing"),
        "False : Cluster version is 4.2.0"
    );
    assert_eq!(cluster.0.status.as_ref().unwrap().desired.version, "4.2.0");
    cluster.0.spec.desired_update = None;
    assert!(
        cluster
            .condition(&report, "ReleaseAccepted")
            .starts_with("True PayloadLoaded")
    );
}

#[test]
fn invalid_settings_do_not_stop_the_release() {
    let mut cluster = Cluster::updated();
    let mut report = report(1, 1);
    report.complete(BTreeMap::new());
    cluster.0.spec = serde_json::from_value(json!({ "clusterID": "x", "upstream": "y" })).unwrap();
    assert!(cluster.condition(&report, "Invalid").starts_with(
        "True InvalidClusterVersion: The cluster version is invalid:\n* spec.upstream"
    ));
    assert_eq!(
        cluster.condition(&report, "Progressing"),
        "False InvalidClusterVersion: Stopped at 4.2.0: the cluster version is invalid"
    );
    cluster.0.spec = serde_json::from_value(json!({})).unwrap();
    assert_eq!(cluster.condition(&report, "Invalid"), "");
}

#[test]
fn state_follows_from_the_history() {
    let of = |cluster: Cluster| ordering(&cluster.0.status.unwrap(), &own(), 4);
    assert_eq!(
        of(Cluster::new(json!({}), json!([]))),
        Ordering::Initializing
    );
    assert_eq!(of(Cluster::updating()), Ordering::Updating);
    assert_eq!(of(Cluster::updated()), Ordering::Reconciling { attempt: 4 });
    let other = Cluster::new(
        json!({}),
        json!([entry("Completed", "4.1.0", "q/r@sha256:1")]),
    );
    assert_eq!(of(other), Ordering::Updating);
}

#[test]
fn accepted_release_is_the_one_that_is_reported() {
    let mut cluster = Cluster::updated();
    let mut report = report(1, 1);
    report.restart();
    cluster.switch(TargetRelease {
        release: Release {
            version: "4.3.0".to_owned(),
            image: "q/r@sha256:3".to_owned(),
            ..Release::default()
        },
        is_verified: true,
        accepted_risks: "a risk".to_owned(),
    });
    let next = Accepted {
        version_hash: "next".to_owned(),
        ..accepted()
    };
    report.begin(next, 4);
    assert_eq!(
        cluster.condition(&report, "Progressing"),
        "True : Working towards 4.3.0"
    );
    let status = cluster.0.status.as_ref().unwrap();
    assert_eq!(status.desired.version, "4.3.0");
    let head = &status.history[0];
    assert!(head.verified && head.accepted_risks == "a risk");
    assert_eq!(cluster.head(), "4.3.0 Partial");
    let upgradeable = cluster.condition(&report, "Upgradeable");
    assert!(
        upgradeable.starts_with("False ClusterVersionUpdating: An update is already"),
        "{upgradeable}"
    );
}
