//! Objects as we write them, with every field that we ever set; and some that are wrong.

use serde_json::{Value, json};

/// Kind and object, of each kind.
pub(crate) fn written() -> Vec<(&'static str, Value)> {
    vec![
        ("MachineConfigPool", pool()),
        ("MachineConfig", rendered()),
        ("MachineConfigNode", node()),
        ("MachineConfiguration", settings()),
        ("ControllerConfig", controller_config()),
        ("KubeletConfig", kubelet_config()),
        ("ClusterVersion", cluster_version()),
        ("ClusterOperator", cluster_operator()),
    ]
}

/// Pools that the schema refuses, each with what is said about it.
pub(crate) fn faulty_pools() -> Vec<(Value, &'static str)> {
    vec![
        (json!({}), ".spec: required"),
        (
            json!({ "spec": { "paused": "yes" } }),
            ".spec.paused: \"yes\" is not of type Some(\"boolean\")",
        ),
        (
            json!({ "spec": { "pause": true } }),
            ".spec.pause: unknown field",
        ),
        (
            json!({ "spec": { "maxUnavailable": 1.5 } }),
            ".spec.maxUnavailable: neither integer nor string: 1.5",
        ),
        (json!({ "spec": { "paused": null } }), ".spec.paused: null"),
        (
            json!({ "spec": { "osImageStream": { "name": "" } } }),
            ".spec.osImageStream.name: 0 is out of bounds",
        ),
        (
            json!({ "spec": {}, "status": { "machineCount": 5_000_000_000_u64 } }),
            ".status.machineCount: 5000000000 does not fit 32 bits",
        ),
        (
            json!({ "spec": {}, "status": { "conditions": [{ "status": "Maybe" }] } }),
            ".status.conditions[0].status: \"Maybe\" is not in the enum",
        ),
        (
            json!({ "spec": {}, "status": { "conditions": [{ "lastTransitionTime": "now" }] } }),
            ".status.conditions[0].lastTransitionTime: not a time: now",
        ),
    ]
}

fn source(name: &str) -> Value {
    json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "name": name })
}

fn pool() -> Value {
    let configuration = json!({
        "name": "rendered-worker-4cec9ed3a634560e5c083a187c8f93a7",
        "source": [source("00-worker"), source("99-worker-ssh")]
    });
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": { "name": "worker", "annotations": { "slipway.dev/round": "7" } },
        "spec": {
            "configuration": configuration,
            "machineConfigSelector": { "matchLabels": { "machineconfiguration.openshift.io/role": "worker" } },
            "nodeSelector": { "matchExpressions": [{ "key": "node-role.kubernetes.io/worker", "operator": "Exists" }] },
            "maxUnavailable": "10%",
            "paused": false,
            "pinnedImageSets": [{ "name": "edge" }]
        },
        "status": {
            "certExpirys": [{ "bundle": "KubeAPIServerServingCAData", "subject": "CN=admin", "expiry": "2034-02-04T16:03:00Z" }],
            "conditions": [
                {
                    "type": "NodeDegraded", "status": "True", "lastTransitionTime": "2024-02-07T16:03:35Z",
                    "reason": "1 nodes are reporting degraded status on sync", "message": "Node a is reporting: \"no room\""
                },
                { "type": "RenderDegraded", "status": "False", "lastTransitionTime": "2024-02-07T16:03:30Z", "reason": "", "message": "" }
            ],
            "configuration": configuration,
            "degradedMachineCount": 1,
            "machineCount": 3,
            "observedGeneration": 5,
            "poolSynchronizersStatus": [{
                "poolSynchronizerType": "PinnedImageSets", "machineCount": 3, "updatedMachineCount": 2, "readyMachineCount": 1,
                "availableMachineCount": 3, "unavailableMachineCount": 0, "observedGeneration": 4
            }],
            "readyMachineCount": 2,
            "unavailableMachineCount": 0,
            "updatedMachineCount": 2
        }
    })
}

fn rendered() -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {
            "name": "rendered-worker-4cec9ed3a634560e5c083a187c8f93a7",
            "annotations": {
                "machineconfiguration.openshift.io/generated-by-controller-version": "5ac7b4a",
                "machineconfiguration.openshift.io/release-image-version": "4.19.0"
            },
            "ownerReferences": [{
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "name": "worker",
                "uid": "9f08ae73-d4b9-4213-b303-33a3c953fca1", "controller": true, "blockOwnerDeletion": true
            }]
        },
        "spec": {
            "baseOSExtensionsContainerImage": "",
            "config": {
                "ignition": { "version": "3.5.0" },
                "storage": { "files": [{ "path": "/etc/a", "mode": 420, "overwrite": true, "contents": { "source": "data:,a" } }] }
            },
            "extensions": [],
            "fips": false,
            "kernelArguments": ["console=ttyS0", "console=tty0"],
            "kernelType": "default",
            "osImageURL": "registry.example/os@sha256:00"
        }
    })
}

fn kubelet_config() -> Value {
    let condition = |r#type: &str| {
        json!({
            "type": r#type, "status": "True", "lastTransitionTime": "2024-02-07T16:03:35Z",
            "message": "Success"
        })
    };
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "KubeletConfig",
        "metadata": {
            "name": "pods", "finalizers": ["99-worker-generated-kubelet"],
            "annotations": { "machineconfiguration.openshift.io/mc-name-suffix": "" }
        },
        "spec": {
            "autoSizingReserved": true,
            "kubeletConfig": { "maxPods": 300 },
            "logLevel": 4,
            "machineConfigPoolSelector": { "matchLabels": { "size": "small" } },
            "tlsSecurityProfile": {
                "type": "Custom",
                "custom": { "ciphers": ["AES128-SHA"], "minTLSVersion": "VersionTLS12" },
                "modern": {}
            }
        },
        "status": {
            "conditions": [condition("Accepted"), condition("Success")], "observedGeneration": 2
        }
    })
}

fn node() -> Value {
    let condition = |r#type: &str, status: &str, reason: &str| {
        json!({
            "type": r#type, "status": status, "lastTransitionTime": "2024-02-07T16:03:35Z",
            "reason": reason, "message": "", "observedGeneration": 1
        })
    };
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigNode",
        "metadata": { "name": "node-1" },
        "spec": {
            "node": { "name": "node-1" },
            "pool": { "name": "worker" },
            "configVersion": { "desired": "rendered-worker-2" }
        },
        "status": {
            "conditions": [
                condition("Updated", "False", "Updated"),
                condition("UpdateExecuted", "Unknown", "UpdateExecutedDrained"),
                condition("RebootedNode", "False", "NotYetOccurred")
            ],
            "configVersion": { "current": "rendered-worker-1", "desired": "rendered-worker-2" },
            "irreconcilableChanges": [{ "fieldPath": "spec.config.storage.disks", "diff": "added" }],
            "observedGeneration": 1
        }
    })
}

fn settings() -> Value {
    let actions = json!([{ "type": "DaemonReload" }, { "type": "Restart", "restart": { "serviceName": "kubelet.service" } }]);
    json!({
        "apiVersion": "operator.openshift.io/v1",
        "kind": "MachineConfiguration",
        "metadata": { "name": "cluster" },
        "spec": {
            "logLevel": "Normal",
            "operatorLogLevel": "Normal",
            "managementState": "Managed",
            "nodeDisruptionPolicy": {
                "files": [{ "path": "/etc/a", "actions": [{ "type": "None" }] }],
                "units": [{ "name": "a.service", "actions": actions }],
                "sshkey": { "actions": [{ "type": "Drain" }, { "type": "Reload", "reload": { "serviceName": "crio.service" } }] }
            },
            "irreconcilableValidationOverrides": { "storage": ["Disks"] },
            "managedBootImages": { "machineManagers": [{
                "resource": "machinesets", "apiGroup": "machine.openshift.io", "selection": { "mode": "None" }
            }] }
        },
        "status": {
            "observedGeneration": 1,
            "nodeDisruptionPolicyStatus": { "clusterPolicies": {
                "files": [{ "path": "/etc/containers/registries.conf", "actions": [{ "type": "Special" }] }],
                "sshkey": { "actions": [{ "type": "None" }] }
            } }
        }
    })
}

fn controller_config() -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "ControllerConfig",
        "metadata": { "name": "machine-config-controller", "annotations": { "machineconfiguration.openshift.io/generated-by-version": "4.19.0" } },
        "spec": {
            "additionalTrustBundle": null,
            "baseOSContainerImage": "registry.example/os@sha256:00",
            "cloudProviderCAData": null,
            "cloudProviderConfig": "",
            "clusterDNSIP": "172.30.0.10",
            "dns": { "apiVersion": "config.openshift.io/v1", "kind": "DNS", "spec": { "baseDomain": "example" } },
            "images": { "machineConfigOperator": "registry.example/mco" },
            "infra": {
                "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure",
                "spec": { "cloudConfig": { "name": "" } },
                "status": { "controlPlaneTopology": "HighlyAvailable", "infrastructureTopology": "HighlyAvailable" }
            },
            "ipFamilies": "IPv4",
            "kubeAPIServerServingCAData": "Y2E=",
            "network": null,
            "proxy": null,
            "pullSecret": { "name": "pull-secret", "namespace": "openshift-config" },
            "releaseImage": "registry.example/release",
            "rootCAData": "Y2E="
        },
        "status": {
            "observedGeneration": 1,
            "conditions": [{
                "type": "TemplateControllerCompleted", "status": "True", "lastTransitionTime": "2024-02-07T16:03:35Z",
                "message": "sync completed"
            }],
            "controllerCertificates": [{ "subject": "CN=admin", "signer": "CN=admin", "bundleFile": "KubeAPIServerServingCAData", "notAfter": "2034-02-04T16:03:00Z" }]
        }
    })
}

fn cluster_condition(r#type: &str, message: &str) -> Value {
    json!({ "type": r#type, "status": "True", "lastTransitionTime": "2024-02-07T16:03:35Z", "reason": "Why", "message": message })
}

fn cluster_version() -> Value {
    let release = |version: &str| json!({ "version": version, "image": "q/r@sha256:00", "url": "https://e.example/1", "channels": ["stable-4.16"] });
    json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterVersion",
        "metadata": { "name": "version" },
        "spec": {
            "clusterID": "4f1d3c3e-2b3b-4c8e-9c1d-6a3b1e0f9a11",
            "desiredUpdate": { "version": "4.16.1", "image": "q/r@sha256:01", "architecture": "", "force": true },
            "upstream": "https://e.example/graph",
            "channel": "stable-4.16",
            "capabilities": { "baselineCapabilitySet": "v4.11", "additionalEnabledCapabilities": ["Console"] },
            "overrides": [{ "kind": "Deployment", "group": "apps", "namespace": "n", "name": "d", "unmanaged": true }]
        },
        "status": {
            "desired": release("4.16.0"),
            "history": [
                {
                    "state": "Partial", "startedTime": "2024-02-07T16:03:35Z", "completionTime": null, "version": "4.16.0",
                    "image": "q/r@sha256:00", "verified": true, "acceptedRisks": "some"
                },
                {
                    "state": "Completed", "startedTime": "2024-02-07T16:03:35Z", "completionTime": "2024-02-07T17:03:35Z",
                    "version": "4.15.0", "image": "q/r@sha256:02", "verified": false
                }
            ],
            "observedGeneration": 3,
            "versionHash": "NA2HZaTdqcI=",
            "capabilities": { "enabledCapabilities": ["Console"], "knownCapabilities": ["Build", "Console"] },
            "conditions": [cluster_condition("Progressing", "Working towards 4.16.0"), cluster_condition("SomeOther", "a")],
            "availableUpdates": null,
            "conditionalUpdates": [{
                "release": release("4.16.2"),
                "risks": [{
                    "url": "https://e.example/2", "name": "Risk", "message": "It may fail.",
                    "matchingRules": [{ "type": "PromQL", "promql": { "promql": "vector(1)" } }, { "type": "Always" }]
                }],
                "conditions": [{
                    "type": "Recommended", "status": "False", "lastTransitionTime": "2024-02-07T16:03:35Z",
                    "reason": "Risk", "message": "It may fail."
                }]
            }]
        }
    })
}

fn cluster_operator() -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": { "name": "dns" },
        "spec": {},
        "status": {
            "conditions": [cluster_condition("Available", "It answers."), cluster_condition("EvaluationConditionsDetected", "No.")],
            "extension": { "a": [1] },
            "relatedObjects": [{ "group": "", "resource": "namespaces", "name": "openshift-dns" }],
            "versions": [{ "name": "operator", "version": "4.16.0" }]
        }
    })
}
