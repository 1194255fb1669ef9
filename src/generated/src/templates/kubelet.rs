//! `01-<role>-kubelet`: the kubelet's configuration and service.

use ignition::{Config, Unit};
use serde_json::{Value, json};

use super::{Facts, ignition};
use crate::kubelet::compose::{KUBELET_CONF, NODE_SIZING, node_sizing};
use crate::pools::PoolFacts;

pub(super) fn config(facts: &Facts, pool: &PoolFacts) -> Config {
    let conf = serde_json::to_string_pretty(&kubelet_conf(facts)).unwrap_or_default();
    let files = vec![
        (KUBELET_CONF, conf + "\n"),
        (NODE_SIZING, node_sizing(!pool.is_control_plane)),
    ];
    let unit = Unit {
        name: "kubelet.service".to_owned(),
        contents: Some(service(&pool.name)),
        enabled: Some(true),
        ..Unit::default()
    };
    ignition(files, vec![unit])
}

/// Values are OpenShift's for nodes on no cloud, without those that need a feature gate. What is
/// not here is the kubelet's default.
///
/// Source: `docs/reference/controller.md`, "Base configurations".
fn kubelet_conf(facts: &Facts) -> Value {
    json!({
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "authentication": {
            "x509": { "clientCAFile": "/etc/kubernetes/kubelet-ca.crt" },
            "anonymous": { "enabled": false }
        },
        "cgroupDriver": "systemd",
        "cgroupRoot": "/",
        "clusterDNS": [facts.dns],
        "clusterDomain": "cluster.local",
        "containerLogMaxSize": "50Mi",
        "kubeAPIBurst": 100,
        "kubeAPIQPS": 50,
        "maxPods": 250,
        "podPidsLimit": 4096,
        "protectKernelDefaults": true,
        "rotateCertificates": true,
        "serializeImagePulls": false,
        "serverTLSBootstrap": true,
        "staticPodPath": "/etc/kubernetes/manifests",
        "systemCgroups": "/system.slice"
    })
}

/// The service. System reservations come from the file that a KubeletConfig may replace.
fn service(role: &str) -> String {
    let (labels, taints) = match role {
        "master" => (
            "node-role.kubernetes.io/control-plane,node-role.kubernetes.io/master",
            Some("node-role.kubernetes.io/master=:NoSchedule"),
        ),
        "arbiter" => (
            "node-role.kubernetes.io/arbiter",
            Some("node-role.kubernetes.io/arbiter=:NoSchedule"),
        ),
        _ => ("node-role.kubernetes.io/worker", None),
    };
    let mut options = vec![
        format!("--config={KUBELET_CONF}"),
        "--bootstrap-kubeconfig=/etc/kubernetes/kubeconfig".to_owned(),
        "--kubeconfig=/var/lib/kubelet/kubeconfig".to_owned(),
        "--container-runtime-endpoint=unix:///var/run/crio/crio.sock".to_owned(),
        "--runtime-cgroups=/system.slice/crio.service".to_owned(),
        format!("--node-labels={labels},node.openshift.io/os_id=${{ID}}"),
        "--system-reserved=cpu=${SYSTEM_RESERVED_CPU},memory=${SYSTEM_RESERVED_MEMORY},ephemeral-storage=${SYSTEM_RESERVED_ES}"
            .to_owned(),
    ];
    options.extend(taints.map(|taints| format!("--register-with-taints={taints}")));
    options.push("--v=${KUBELET_LOG_LEVEL}".to_owned());
    format!(
        "\
[Unit]
Description=Kubernetes kubelet
Wants=network-online.target crio.service
After=network-online.target crio.service

[Service]
Type=notify
ExecStartPre=/bin/mkdir --parents /etc/kubernetes/manifests
Environment=\"KUBELET_LOG_LEVEL=2\"
EnvironmentFile=/etc/os-release
EnvironmentFile={NODE_SIZING}
EnvironmentFile=-/etc/kubernetes/kubelet-env
ExecStart=/usr/bin/kubelet \\
  {}
Restart=always
RestartSec=10

[Install]
WantedBy=multi-user.target
",
        options.join(" \\\n  ")
    )
}
