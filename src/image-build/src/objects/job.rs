//! The Job of a build.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{BuildObjectNames, BuildOwner};
use crate::inputs::ImageInputs;
use crate::settings::BuildSettings;

/// ServiceAccount of the pods. It has no rights, and its token is not mounted.
pub const ACCOUNT: &str = "machine-os-builder";

/// Name of the container, by which its end is read.
pub const CONTAINER: &str = "build";

/// Program of the builder's image.
const PROGRAM: &str = "/usr/bin/build-os-image";

/// How often a build that ended with an error is tried again.
const TRIES: u32 = 3;

/// Code with which the program ends where another try would end the same.
const WRONG_INPUT: i32 = 65;

/// Where the program finds its storage.
const WORK: &str = "/build/work";

/// What buildah needs to run a build in a chroot: it mounts file systems and makes devices.
fn security_context() -> Value {
    json!({
        "privileged": false,
        "runAsUser": 0,
        "capabilities": { "drop": ["ALL"], "add": CAPABILITIES },
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

/// Source: `deploy/os-builder/README.md`, "Rights of its pod".
const CAPABILITIES: [&str; 15] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_ADMIN",
    "SYS_CHROOT",
];

/// Volumes that are mounted read-only where the namespace has the object: name of the volume, kind,
/// name of the object, and directory.
const OPTIONAL: [(&str, &str, &str, &str); 3] = [
    (
        "yum-repos",
        "configMap",
        "etc-yum-repos-d",
        "/build/yum.repos.d",
    ),
    ("rpm-gpg", "secret", "etc-pki-rpm-gpg", "/build/rpm-gpg"),
    (
        "entitlement",
        "secret",
        "etc-pki-entitlement",
        "/build/entitlement",
    ),
];

/// What a Job is made from.
#[derive(Debug, Clone, Copy)]
pub struct JobInput<'a> {
    pub owner: BuildOwner<'a>,
    pub inputs: &'a ImageInputs,
    pub settings: &'a BuildSettings,
    /// Image of the builder.
    pub builder: &'a str,
    /// Where the image is pushed to, with the build's tag.
    pub push: &'a str,
}

/// The Job that builds and pushes the image.
///
/// Source: `docs/reference/image-mode.md`, "The Job".
pub fn job(input: JobInput<'_>) -> Value {
    let JobInput {
        owner, settings, ..
    } = input;
    let metadata = owner.metadata(&BuildObjectNames::of(owner.build).job);
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {
            "backoffLimit": TRIES,
            "activeDeadlineSeconds": settings.timeout.as_secs(),
            // Two pods would push the same tag.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": { "rules": [
                { "action": "FailJob", "onExitCodes": {
                    "containerName": CONTAINER, "operator": "In", "values": [WRONG_INPUT],
                } },
                { "action": "Ignore", "onPodConditions": [
                    { "type": "DisruptionTarget", "status": "True" },
                ] },
            ] },
            "template": {
                "metadata": { "labels": metadata.get("labels") },
                "spec": pod(input),
            },
        },
        "metadata": metadata,
    })
}

fn pod(input: JobInput<'_>) -> Value {
    let JobInput {
        owner,
        inputs,
        settings,
        builder,
        ..
    } = input;
    let names = BuildObjectNames::of(owner.build);
    let mut volumes = vec![
        json!({ "name": "work", "emptyDir": {} }),
        json!({ "name": "input", "configMap": { "name": names.input } }),
        json!({ "name": "pull-auth", "secret": { "secretName": names.pull, "defaultMode": 0o400 } }),
        json!({ "name": "push-auth", "secret": { "secretName": names.push, "defaultMode": 0o400 } }),
    ];
    let mut mounts = vec![
        json!({ "name": "work", "mountPath": WORK }),
        json!({ "name": "input", "mountPath": "/build/input", "readOnly": true }),
        json!({ "name": "pull-auth", "mountPath": "/build/pull-auth", "readOnly": true }),
        json!({ "name": "push-auth", "mountPath": "/build/push-auth", "readOnly": true }),
    ];
    for (volume, kind, object, directory) in OPTIONAL {
        let key = if kind == "secret" {
            "secretName"
        } else {
            "name"
        };
        let source = json!({ key: object, "optional": true });
        volumes.push(json!({ "name": volume, kind: source }));
        mounts.push(json!({ "name": volume, "mountPath": directory, "readOnly": true }));
    }
    let mut node_selector: BTreeMap<&str, &str> = settings
        .node_selector
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    node_selector.insert("kubernetes.io/os", "linux");
    node_selector.insert("kubernetes.io/arch", inputs.architecture.as_label());
    json!({
        "restartPolicy": "Never",
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "nodeSelector": node_selector,
        "tolerations": settings.tolerations,
        "volumes": volumes,
        "containers": [{
            "name": CONTAINER,
            "image": builder,
            "command": [PROGRAM],
            "env": environment(input),
            "resources": settings.resources,
            "securityContext": security_context(),
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": mounts,
        }],
    })
}

/// Variables of the program.
fn environment(input: JobInput<'_>) -> Vec<Value> {
    let proxy = &input.inputs.proxy;
    let own = [
        ("IMAGE", input.push),
        ("BUILD", input.owner.build),
        ("BASE_IMAGE", input.inputs.base_image.as_str()),
    ];
    let proxies = [
        ("HTTP_PROXY", &proxy.http),
        ("HTTPS_PROXY", &proxy.https),
        ("NO_PROXY", &proxy.no_proxy),
    ];
    let own = own.into_iter().map(|(name, value)| variable(name, value));
    let proxies = proxies.into_iter().filter(|(_, value)| !value.is_empty());
    let proxies = proxies
        .flat_map(|(name, value)| [variable(name, value), variable(&name.to_lowercase(), value)]);
    own.chain(proxies).collect()
}

fn variable(name: &str, value: &str) -> Value {
    let members = [("name", name), ("value", value)];
    let members = members.map(|(key, text)| (key.to_owned(), json!(text)));
    Value::Object(Map::from_iter(members))
}
