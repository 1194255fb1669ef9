use serde_json::{Value, json};

use super::*;
use crate::fixture::{NEW, OLD, pool};

const IMAGE: &str = "registry.example/os@sha256:0";

fn config(status: &Value) -> MachineOSConfig {
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSConfig",
        "metadata": { "name": "worker", "generation": 4 },
        "spec": {
            "machineConfigPool": { "name": "worker" },
            "imageBuilder": { "imageBuilderType": "Job" },
            "renderedImagePushSecret": { "name": "push" },
            "renderedImagePushSpec": "registry.example/os:latest",
        },
        "status": status,
    }))
    .unwrap()
}

/// The status of a builder that chose `worker-1`.
fn chosen() -> Value {
    json!({
        "observedGeneration": 4,
        "machineOSBuild": { "group": "", "resource": "machineosbuilds", "name": "worker-1" },
    })
}

fn build(rendered: &str, condition: &str, image: Option<&str>) -> MachineOSBuild {
    let conditions = if condition.is_empty() {
        json!([])
    } else {
        json!([{
            "type": condition, "status": "True", "reason": "R", "message": "RUN false: exit 1",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    };
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSBuild",
        "metadata": { "name": "worker-1" },
        "spec": {
            "machineConfig": { "name": rendered },
            "machineOSConfig": { "name": "worker" },
            "renderedImagePushSpec": "registry.example/os:worker-1",
        },
        "status": { "conditions": conditions, "digestedImagePushSpec": image },
    }))
    .unwrap()
}

fn read(status: &Value, build: Option<&MachineOSBuild>) -> PoolImageState {
    let named = |name: &str| build.filter(|build| build.metadata.name.as_deref() == Some(name));
    PoolImage::read(&config(status), named, Some(NEW)).state
}

fn of(state: PoolImageState) -> PoolImage {
    PoolImage {
        config: "worker".to_owned(),
        state,
    }
}

#[test]
fn a_build_counts_if_it_is_of_this_generation_and_of_the_pools_configuration() {
    let built = build(NEW, "Succeeded", Some(IMAGE));
    let expected = PoolImageState::Built {
        build: "worker-1".to_owned(),
        image: IMAGE.to_owned(),
    };
    assert_eq!(read(&chosen(), Some(&built)), expected);
    let mut older = chosen();
    older["observedGeneration"] = json!(3);
    let mut foreign = chosen();
    foreign["machineOSBuild"]["name"] = json!("worker-2");
    let mut silent = chosen();
    silent["observedGeneration"] = Value::Null;
    let mut of_others = built.clone();
    of_others.spec.machine_os_config.name = "edge".to_owned();
    for (status, build) in [
        (&Value::Null, &built),
        (&json!({ "observedGeneration": 4 }), &built),
        (&older, &built),
        (&silent, &built),
        (&foreign, &built),
        (&chosen(), &build(OLD, "Succeeded", Some(IMAGE))),
        (&chosen(), &of_others),
    ] {
        assert_eq!(
            read(status, Some(build)),
            PoolImageState::NotBegun,
            "{status}"
        );
    }
    assert_eq!(read(&chosen(), None), PoolImageState::NotBegun);
    // A pool that is not rendered has no image.
    let rendered = PoolImage::read(&config(&chosen()), |_| Some(&built), None);
    assert_eq!(rendered.state, PoolImageState::NotBegun);
}

#[test]
fn a_refusal_counts_only_of_the_object_as_it_is() {
    let refusal = json!([{
        "type": "Refused", "status": "True", "reason": "InvalidSpec",
        "message": "spec.containerFile[0].content: no", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let mut refused = chosen();
    refused["conditions"] = refusal;
    let why = "spec.containerFile[0].content: no".to_owned();
    assert_eq!(read(&refused, None), PoolImageState::Refused(why));
    refused["observedGeneration"] = json!(3);
    assert_eq!(read(&refused, None), PoolImageState::NotBegun);
    refused["observedGeneration"] = json!(4);
    refused["conditions"][0]["status"] = json!("False");
    assert_eq!(read(&refused, None), PoolImageState::NotBegun);
}

/// Each state: the image, whether it has stopped, `Updating` of a pool that rolls and of one that
/// is paused, and `ImageBuildDegraded`.
#[test]
fn each_state_is_said_in_the_words_that_clients_know() {
    let found = |condition: &str, image: Option<&str>| {
        of(read(&chosen(), Some(&build(NEW, condition, image))))
    };
    let refused = of(PoolImageState::Refused("spec: no".to_owned()));
    let mut unscheduled = build(NEW, "Building", None);
    let building = &mut unscheduled.status.as_mut().unwrap().conditions[0];
    building.reason = "PodNotScheduled".to_owned();
    building.message = "no node takes its pod".to_owned();
    let held = of(read(&chosen(), Some(&unscheduled)));
    let table = [
        (
            refused,
            "False : Pool update stopped: MachineOSConfig worker: spec: no",
            "False : Pool is paused; MachineOSConfig worker: spec: no",
            "True BuildRefused: MachineOSConfig worker: spec: no",
        ),
        (
            of(PoolImageState::NotBegun),
            "True : Pool is waiting for a new OS image build to start (mosc: worker)",
            "True : Pool is paused; waiting for a new OS image build to start (mosc: worker)",
            "False BuildPending: MachineOSConfig updated/created, waiting for MachineOSBuild",
        ),
        (
            found("", None),
            "True : Pool is waiting for OS image build to start (mosb: worker-1)",
            "True : Pool is paused; OS image build has been created but not yet started (mosb: worker-1)",
            "False BuildPending: MachineOSConfig updated/created, waiting for MachineOSBuild",
        ),
        (
            found("Prepared", None),
            "True : Pool is waiting for OS image build to start (mosb: worker-1)",
            "True : Pool is paused; OS image build has been prepared but will not rollout (mosb: worker-1)",
            "False BuildPending: MachineOSConfig updated/created, waiting for MachineOSBuild",
        ),
        (
            found("Building", None),
            "True : Pool is waiting for OS image build to complete (mosb: worker-1)",
            "True : Pool is paused; OS image build in progress (mosb: worker-1)",
            "False Building: New build started",
        ),
        (
            held,
            "True : Pool is waiting for OS image build to complete (mosb: worker-1): no node takes its pod",
            "True : Pool is paused; OS image build in progress (mosb: worker-1): no node takes its pod",
            "False Building: MachineOSBuild worker-1 is held: no node takes its pod",
        ),
        (
            found("Failed", None),
            "False : Pool update stopped due to OS image build failure (mosb: worker-1)",
            "False : Pool is paused; OS image build failed (mosb: worker-1)",
            "True BuildFailed: MachineOSBuild worker-1 failed: RUN false: exit 1",
        ),
        (
            found("Interrupted", None),
            "False : Pool update stopped due to OS image build being interrupted (mosb: worker-1)",
            "False : Pool is paused; OS image build was interrupted (mosb: worker-1)",
            "True BuildInterrupted: MachineOSBuild worker-1 was interrupted: its Job is gone. Annotate MachineOSConfig worker with machineconfiguration.openshift.io/rebuild to build again",
        ),
        (
            found("Succeeded", Some(IMAGE)),
            "True : Pool is waiting for nodes to apply OS image (mosb: worker-1)",
            "False : Pool is paused; OS image build completed successfully (mosb: worker-1)",
            "False BuildSuccess: Build completed successfully",
        ),
    ];
    let said = |finding: Finding| {
        let condition = finding.at(crate::fixture::NOW);
        let (status, reason) = (condition.status, condition.reason);
        format!("{status} {reason}: {}", condition.message)
    };
    let words: Vec<&str> = table.iter().map(|(image, ..)| image.state.word()).collect();
    assert_eq!(words, PoolImageState::WORDS);
    for (image, running, paused, degraded) in table {
        assert_eq!(said(image.updating(false)), running);
        assert_eq!(said(image.updating(true)), paused);
        assert_eq!(said(image.degraded()), degraded);
        let has_image = matches!(image.state, PoolImageState::Built { .. });
        assert_eq!(image.image().is_some(), has_image);
        // What has stopped is what a person has to know.
        assert_eq!(image.has_stopped(), degraded.starts_with("True"), "{image}");
        let mut view = pool("worker", json!({}));
        view.follow_image(image.clone());
        assert_eq!(view.allows_assignments(), has_image, "{image}");
        assert_eq!(
            view.target.unwrap().image.as_deref(),
            has_image.then_some(IMAGE)
        );
    }
}
