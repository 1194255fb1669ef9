//! Words that programs show to administrators: `slipway explain` has each.

use std::collections::BTreeSet;

use crate::sources::{root, sources};

/// Crates that show words. Enums of `api` are checked by the tests of `cli`.
const CRATES: &[&str] = &[
    "config-server",
    "controller",
    "cvo",
    "managed-upgrade",
    "mcd",
    "pool",
    "update-service",
    "upgrade-plan",
    "version-update",
];

/// Files in which each word with a capital is shown, also one like `Path`.
const WHOLE: &[&str] = &[
    "src/config-server/src/refusal.rs",
    "src/controller/src/events.rs",
    "src/mcd/src/daemon/events.rs",
];

/// Sources with words for the host, not for administrators.
const APART: &[&str] = &[
    "src/mcd/src/daemon/helper.rs",
    "src/mcd/src/daemon/host_os.rs",
];

/// Words of two parts that no one is shown as a reason: kinds, fields and values of other programs.
const OTHER: &[&str] = &[
    "AdditionalTrustBundle",
    "AlreadyExists",
    "Busy",
    "CloudProviderCAData",
    "ClusterFirst",
    "ClusterIP",
    "ClusterImagePolicy",
    "ClusterOperator",
    "ClusterRole",
    "ClusterUpdateAcceptRisks",
    "ClusterVersion",
    "ConfigMap",
    "ConfigServer",
    "ContainerRuntimeConfig",
    "CustomResourceDefinition",
    "DaemonSet",
    "DiskPressure",
    "DoesNotExist",
    "ErrImagePull",
    "FallbackToLogsOnError",
    "FeatureGate",
    "FileSystems",
    "GenericControllerConfig",
    "GenericOperatorConfig",
    "HorizontalPodAutoscaler",
    "ImageContentSourcePolicy",
    "ImageDigestMirrorSet",
    "ImagePolicy",
    "ImageTagMirrorSet",
    "ImplicitlyEnabled",
    "InternalError",
    "KubeAPIServerServingCAData",
    "KubeContainerWaiting",
    "KubeNodeNotReady",
    "KubeNodeReadinessFlapping",
    "KubeNodeUnreachable",
    "KubeletConfig",
    "KubeletHealthState",
    "LogEntry",
    "MachineConfig",
    "MachineConfigDaemon",
    "MachineConfigNode",
    "MachineConfigNodes",
    "MachineConfigPool",
    "MachineConfiguration",
    "MachineOSConfig",
    "MachineSet",
    "MutatingWebhookConfiguration",
    "NetworkUnavailable",
    "NoSchedule",
    "NoVersions",
    "Node",
    "NodeObject",
    "NotAvailable",
    "NotIn",
    "OSImageStream",
    "OnFailure",
    "OperatorDegraded",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PodDisruptionBudgetAtLimit",
    "PodInitializing",
    "PreHealthCheck",
    "PreferNoSchedule",
    "ProgressDeadlineExceeded",
    "PromQL",
    "RenderConfig",
    "ReplicaFailure",
    "RequiredPools",
    "RollingUpdate",
    "RootCAData",
    "RuntimeDefault",
    "ServerTimeout",
    "ServiceAccount",
    "ServiceLogNotification",
    "TooManyRequests",
    "UpgradeConfig",
    "UpgradePolicyState",
    "VMCannotBeEvicted",
    "ValidatingWebhookConfiguration",
    "VirtHandlerDaemonSetRolloutFailing",
    "WantedBy",
];

/// The words that `slipway explain` knows, from its sources.
fn explained() -> BTreeSet<String> {
    let folder = root().join("src/cli/src/explain");
    let mut words = BTreeSet::new();
    for path in sources(&folder, "rs") {
        let text = std::fs::read_to_string(&path).unwrap();
        for entry in text.split(" of(").skip(1) {
            let word = entry.split('"').nth(1).unwrap_or_default();
            words.insert(word.to_owned());
        }
    }
    words
}

/// String literals of one word that begins with a capital.
fn words(text: &str) -> BTreeSet<String> {
    let ships = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = ships.lines().filter(|line| {
        let line = line.trim_start();
        !line.starts_with("//")
    });
    let mut words = BTreeSet::new();
    for line in lines {
        for word in line.split('"').skip(1).step_by(2) {
            let is_word = word.starts_with(|first: char| first.is_ascii_uppercase())
                && word.chars().all(|one| one.is_ascii_alphabetic())
                && word.contains(|one: char| one.is_ascii_lowercase());
            if is_word {
                words.insert(word.to_owned());
            }
        }
    }
    words
}

fn has_two_parts(word: &str) -> bool {
    let rest = word.trim_start_matches(|one: char| one.is_ascii_uppercase());
    rest.contains(|one: char| one.is_ascii_uppercase())
}

#[test]
fn every_word_that_programs_show_is_explained() {
    let explained = explained();
    assert!(explained.len() > 200, "only {} words", explained.len());
    let mut unknown = Vec::new();
    let mut met = BTreeSet::new();
    for name in CRATES {
        for path in sources(&root().join("src").join(name).join("src"), "rs") {
            let shown = path.strip_prefix(root()).unwrap().display().to_string();
            let is_test = ["/tests", "fixture", "/zeros.rs"]
                .iter()
                .any(|part| shown.contains(part));
            if is_test || APART.contains(&shown.as_str()) {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for word in words(&text) {
                let counts = has_two_parts(&word) || WHOLE.contains(&shown.as_str());
                if OTHER.contains(&word.as_str()) {
                    met.insert(word);
                } else if counts && !explained.contains(&word) {
                    unknown.push(format!("{shown}: {word}"));
                }
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "explain these below src/cli/src/explain, or name them in OTHER if they are never shown as \
         a reason:\n{}",
        unknown.join("\n")
    );
    for word in OTHER {
        assert!(met.contains(*word), "{word} is nowhere: take it out");
    }
}
