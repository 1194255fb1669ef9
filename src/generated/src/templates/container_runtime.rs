//! `01-<role>-container-runtime`: CRI-O, its storage, and which registries it asks.

use ignition::{Config, Unit};
use serde::Serialize;

use super::{Facts, PULL_SECRET_FILE, ignition};
use crate::registries::{POLICY, REGISTRIES, default_policy, default_registries};
use crate::runtime::{DEFAULT_STORAGE, STORAGE};

/// Options of CRI-O; others lie over it by name.
const DEFAULT: &str = "/etc/crio/crio.conf.d/00-default";

/// Source: `crio.conf(5)`.
#[derive(Serialize)]
struct CrioConf {
    crio: Crio,
}

#[derive(Serialize)]
struct Crio {
    image: CrioImage,
    metrics: CrioMetrics,
    network: CrioNetwork,
    runtime: CrioRuntime,
}

#[derive(Serialize)]
struct CrioImage {
    global_auth_file: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_image_auth_file: Option<&'static str>,
}

#[derive(Serialize)]
struct CrioMetrics {
    enable_metrics: bool,
    metrics_host: &'static str,
    metrics_port: u16,
}

#[derive(Serialize)]
struct CrioNetwork {
    network_dir: &'static str,
    plugin_dirs: [&'static str; 2],
}

#[derive(Serialize)]
struct CrioRuntime {
    cgroup_manager: &'static str,
    conmon_cgroup: &'static str,
    default_runtime: &'static str,
    log_level: &'static str,
    selinux: bool,
}

pub(super) fn config(facts: &Facts) -> Config {
    let files = vec![
        (POLICY, default_policy()),
        (REGISTRIES, default_registries()),
        (STORAGE, DEFAULT_STORAGE.to_owned()),
        (DEFAULT, crio_conf(facts)),
    ];
    let unit = Unit {
        name: "crio.service".to_owned(),
        enabled: Some(true),
        ..Unit::default()
    };
    ignition(files, vec![unit])
}

fn crio_conf(facts: &Facts) -> String {
    let pause = facts.pause_image.clone();
    let conf = CrioConf {
        crio: Crio {
            image: CrioImage {
                global_auth_file: PULL_SECRET_FILE,
                pause_image_auth_file: pause.as_ref().map(|_| PULL_SECRET_FILE),
                pause_image: pause,
            },
            metrics: CrioMetrics {
                enable_metrics: true,
                metrics_host: "127.0.0.1",
                metrics_port: 9537,
            },
            network: CrioNetwork {
                network_dir: "/etc/kubernetes/cni/net.d/",
                plugin_dirs: ["/var/lib/cni/bin", "/usr/libexec/cni"],
            },
            runtime: CrioRuntime {
                cgroup_manager: "systemd",
                conmon_cgroup: "pod",
                default_runtime: "crun",
                log_level: "info",
                selinux: true,
            },
        },
    };
    // Tables and texts only: there is no value that TOML lacks.
    toml::to_string(&conf).unwrap_or_default()
}
