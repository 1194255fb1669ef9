//! Files of objects to apply, as `kubectl apply -f` takes them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use lab::tree::Overlay;
use serde_json::{Value, json};
use testbed::Cluster;
use testbed::config::{Config, File};

/// Writes one file for each of the table's `kubectl apply`.
#[expect(clippy::disallowed_methods, reason = "a run's own files")]
pub(super) fn write(cluster: &Cluster, out: &Path) -> Result<()> {
    let path = "/etc/nmstate/openshift/playground.yml";
    let file = Config::new().files([File::new(path, "a file that needs no reboot\n")]);
    let with = |os| anyhow::Ok(Config::new().os(cluster.image(&os)?.reference));
    let os = with(Overlay::version("v2"))?;
    let broken = with(Overlay::version("broken").failing_kubelet())?;
    let objects = [
        ("file", file.object("50-file", "worker")),
        ("os", os.object("60-os", "worker")),
        ("broken", broken.object("70-broken", "worker")),
        ("budget", budget()),
    ];
    for (name, object) in objects {
        let text = serde_json::to_string_pretty(&object)? + "\n";
        // JSON is YAML, and the name is what people expect.
        let path = out.join(format!("{name}.yaml"));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": "keep-all" },
        "spec": { "minAvailable": "100%", "selector": { "matchLabels": { "app": "scratch" } } },
    })
}
