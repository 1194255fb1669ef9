//! KubeletConfigs as a client in Go writes them: each field that it does not set is there, with a
//! zero.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::pool::Pool;
use crate::held::Held;

const POOL: &str = "node-max-pods";
const NODE: &str = "worker-1";

pub(super) fn all(held: &Held) -> Result<()> {
    let pool = Pool::make(held, POOL, NODE)?;
    let default = pool.target()?;
    let is_default = |text: &str| {
        text.contains("maxPods: 250")
            && text.contains("systemReservedCgroup: /system.slice")
            && text.contains("- system-reserved-compressible")
    };
    let text = kubelet_conf(held)?;
    ensure!(is_default(&text), "{text}");

    let mut zeros = zeros();
    zeros["maxPods"] = json!(100);
    zeros["systemReservedCgroup"] = json!("");
    zeros["enforceNodeAllocatable"] = json!(["pods"]);
    let first = kubelet_config("kubelet-test-101", None, &zeros);
    let first_target = pool.rolls(|| held.apply(&first))?;
    let is_first = |text: &str| {
        text.contains("maxPods: 100")
            && text.contains("nodeStatusUpdateFrequency: 10s")
            && text.contains("- pods")
            && !text.contains("/system.slice\nsystemReservedCgroup")
            && !text.contains("systemReservedCgroup: /system.slice")
            && !text.contains("system-reserved-compressible")
    };
    let text = kubelet_conf(held)?;
    ensure!(is_first(&text), "{text}");
    owned(held, "kubelet-test-101")?;

    // The later one wins where they disagree.
    zeros["maxPods"] = json!(200);
    zeros["systemReservedCgroup"] = json!("/system.slice");
    zeros["enforceNodeAllocatable"] = json!(["pods", "system-reserved-compressible"]);
    let second = kubelet_config("kubelet-test-200", Some("1"), &zeros);
    pool.rolls(|| held.apply(&second))?;
    let text = kubelet_conf(held)?;
    let is_second = text.contains("maxPods: 200")
        && text.contains("systemReservedCgroup: /system.slice")
        && text.contains("- system-reserved-compressible");
    ensure!(is_second, "{text}");
    owned(held, "kubelet-test-200")?;

    let delete = |name: &str| held.done(&format!("kubectl delete kubeletconfigs {name}"));
    let target = pool.rolls(|| delete("kubelet-test-200"))?;
    ensure!(target == first_target, "{target}, not {first_target}");
    let text = kubelet_conf(held)?;
    ensure!(is_first(&text), "{text}");
    let target = pool.rolls(|| delete("kubelet-test-101"))?;
    ensure!(target == default, "{target}, not {default}");
    let text = kubelet_conf(held)?;
    ensure!(is_default(&text), "{text}");
    pool.end()
}

fn kubelet_conf(held: &Held) -> Result<String> {
    let ran = held.run(&format!("host {NODE} cat /etc/kubernetes/kubelet.conf"), "")?;
    ensure!(ran.code == Some(0), "{}", ran.printed);
    Ok(ran.printed)
}

/// There is a MachineConfig that the KubeletConfig owns.
fn owned(held: &Held, name: &str) -> Result<()> {
    let configs = held.items("kubectl get machineconfigs")?;
    let is_owned = configs.iter().any(|config| {
        super::array(config, "/metadata/ownerReferences")
            .iter()
            .any(|owner| owner["kind"] == "KubeletConfig" && owner["name"] == name)
    });
    ensure!(is_owned, "{name} owns no MachineConfig");
    Ok(())
}

fn kubelet_config(name: &str, suffix: Option<&str>, settings: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig",
        "metadata": { "name": name, "annotations": {} },
        "spec": {
            "machineConfigPoolSelector": { "matchLabels": { POOL: "" } },
            "kubeletConfig": settings,
        },
    });
    if let Some(suffix) = suffix {
        let key = "machineconfiguration.openshift.io/mc-name-suffix";
        object["metadata"]["annotations"][key] = json!(suffix);
    }
    object
}

/// A KubeletConfiguration of which a client in Go sets nothing.
fn zeros() -> Value {
    json!({
        "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "syncFrequency": "0s", "fileCheckFrequency": "0s", "httpCheckFrequency": "0s",
        "authentication": { "x509": {}, "webhook": { "cacheTTL": "0s" }, "anonymous": {} },
        "authorization": {
            "webhook": { "cacheAuthorizedTTL": "0s", "cacheUnauthorizedTTL": "0s" },
        },
        "streamingConnectionIdleTimeout": "0s", "nodeStatusUpdateFrequency": "0s",
        "nodeStatusReportFrequency": "0s", "imageMinimumGCAge": "0s", "imageMaximumGCAge": "0s",
        "volumeStatsAggPeriod": "0s", "cpuManagerReconcilePeriod": "0s",
        "runtimeRequestTimeout": "0s", "evictionPressureTransitionPeriod": "0s",
        "memorySwap": {},
        "logging": {
            "flushFrequency": 0, "verbosity": 0,
            "options": { "text": { "infoBufferSize": "0" }, "json": { "infoBufferSize": "0" } },
        },
        "shutdownGracePeriod": "0s", "shutdownGracePeriodCriticalPods": "0s",
        "crashLoopBackOff": {}, "containerRuntimeEndpoint": "",
    })
}
