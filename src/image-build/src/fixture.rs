//! Objects for tests.

use api::machineconfiguration::{
    ControllerConfig, MachineConfig, MachineOSBuild, MachineOSConfig, MachineOsConfigSpec,
};
use serde_json::{Value, json};

use crate::architecture::ImageArchitecture;
use crate::inputs::{ImageInputs, InputSources};
use crate::refusal::BuildRefusal;

pub(crate) const BASE: &str = "quay.io/base@sha256:1";

pub(crate) fn config() -> MachineOSConfig {
    config_of(&json!({}))
}

/// A MachineOSConfig with these members in the place of the fixture's.
pub(crate) fn config_of(changes: &Value) -> MachineOSConfig {
    let mut spec = json!({
        "machineConfigPool": { "name": "worker" },
        "imageBuilder": { "imageBuilderType": "Job" },
        "renderedImagePushSecret": { "name": "push" },
        "renderedImagePushSpec": "registry.example:5000/a/os:latest",
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let spec: MachineOsConfigSpec = serde_json::from_value(spec).unwrap();
    let mut config = MachineOSConfig::new("worker", spec);
    config.metadata.generation = Some(1);
    config
}

pub(crate) fn rendered(name: &str, spec: &Value) -> MachineConfig {
    let mut whole = json!({ "osImageURL": BASE, "config": { "ignition": { "version": "3.5.0" } } });
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": whole })).unwrap()
}

pub(crate) fn files(files: &Value) -> Value {
    json!({ "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": files } } })
}

pub(crate) fn cluster(spec: &Value) -> ControllerConfig {
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
        "metadata": { "name": "machine-config-controller" }, "spec": spec,
    }))
    .unwrap()
}

pub(crate) fn read(
    config: &MachineOSConfig,
    rendered: &MachineConfig,
    spec: &Value,
) -> Result<ImageInputs, BuildRefusal> {
    ImageInputs::read(InputSources {
        config,
        rendered,
        cluster: Some(&cluster(spec)),
        architecture: ImageArchitecture::Amd64,
    })
}

pub(crate) fn inputs() -> ImageInputs {
    read(
        &config(),
        &rendered("rendered-worker-1", &json!({})),
        &json!({}),
    )
    .unwrap()
}

pub(crate) fn build(name: &str, rendered: &str, content: &str) -> MachineOSBuild {
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSBuild",
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "generation": 1,
            "annotations": {
                "slipway.dev/image-content": content, "slipway.dev/push-secret": "push",
            },
        },
        "spec": {
            "machineConfig": { "name": rendered },
            "machineOSConfig": { "name": "worker" },
            "renderedImagePushSpec": format!("registry.example:5000/a/os:{name}"),
        },
    }))
    .unwrap()
}
