//! Files of objects to apply, as `kubectl apply -f` takes them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use api::machineconfiguration::NAMESPACE;
use lab::image::busybox_of;
use lab::tree::Overlay;
use serde_json::{Value, json};
use testbed::Cluster;
use testbed::config::{Config, File};

/// The pool whose image is built, and the MachineOSConfig and the policy of its name.
const POOL: &str = "worker";

/// Secrets of the registry, which lets everyone in.
const SECRETS: [&str; 2] = ["pull", "push"];

/// Writes one file for each of the table's `kubectl apply`.
#[expect(clippy::disallowed_methods, reason = "a run's own files")]
pub(super) fn write(cluster: &Cluster, out: &Path) -> Result<()> {
    let path = "/etc/nmstate/openshift/playground.yml";
    let file = Config::new().files([File::new(path, "a file that needs no reboot\n")]);
    let with = |os| anyhow::Ok(Config::new().os(cluster.image(&os)?.reference));
    let os = with(Overlay::version("v2"))?;
    let broken = with(Overlay::version("broken").failing_kubelet())?;
    let registry = &cluster.host_lab()?.registry;
    let ahead = registry.push_layout(&busybox_of("ahead")?, "ahead:1")?;
    let location = registry.location();
    let objects = [
        ("file", file.object("50-file", "worker")),
        ("os", os.object("60-os", "worker")),
        ("broken", broken.object("70-broken", "worker")),
        ("budget", budget()),
        ("pins", pins(&ahead)),
        ("builds", builds(&location)),
        ("image", image(&location)),
        ("crowded", policy("1000")),
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

/// Has the workers pull an image ahead.
fn pins(image: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "PinnedImageSet",
        "metadata": {
            "name": "ahead",
            "labels": { "machineconfiguration.openshift.io/role": POOL },
        },
        "spec": { "pinnedImages": [{ "name": image }] },
    })
}

/// What a build needs here: nodes and builds know that the registry has no TLS, its Secrets are
/// there, and a node has room for the pod.
fn builds(registry: &str) -> Value {
    let settings = format!("[[registry]]\nlocation = \"{registry}\"\ninsecure = true\n");
    let settings = File::new("/etc/containers/registries.conf", settings);
    let settings = Config::new().files([settings]);
    let login = json!({ "auths": { registry: { "username": "lab", "password": "none" } } });
    let secret = |name: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/dockerconfigjson",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "stringData": { ".dockerconfigjson": login.to_string() },
        })
    };
    let mut items: Vec<Value> = SECRETS.map(secret).into();
    items.extend([policy("100m"), settings.object("10-registries", POOL)]);
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// A policy whose builds reserve so many processors; of the disk less than by default, which is
/// more than a host of the lab has.
fn policy(processors: &str) -> Value {
    json!({
        "apiVersion": "slipway.dev/v1alpha1",
        "kind": "RolloutPolicy",
        "metadata": { "name": POOL },
        "spec": { "imageBuild": {
            "timeout": "10m",
            "resources": { "requests": { "cpu": processors, "ephemeral-storage": "1Gi" } },
        } },
    })
}

/// Has the workers' OS image built.
fn image(registry: &str) -> Value {
    let content = "FROM configs AS final\nRUN echo built in the cluster >/usr/lib/playground\n";
    let [pull, push] = SECRETS;
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineOSConfig",
        "metadata": { "name": POOL },
        "spec": {
            "machineConfigPool": { "name": POOL },
            "imageBuilder": { "imageBuilderType": "Job" },
            "baseImagePullSecret": { "name": pull },
            "renderedImagePushSecret": { "name": push },
            "renderedImagePushSpec": format!("{registry}/built/{POOL}:latest"),
            "containerFile": [{ "containerfileArch": "NoArch", "content": content }],
        },
    })
}

#[cfg(test)]
mod tests {
    use api::machineconfiguration::{MachineOSConfig, PinnedImageSet};
    use api::rollout::RolloutPolicy;

    use super::*;

    #[test]
    fn objects_of_images_are_of_their_kinds_and_of_one_pool() {
        let registry = "10.97.0.1:5000";
        let config: MachineOSConfig = serde_json::from_value(image(registry)).unwrap();
        assert_eq!(config.spec.machine_config_pool.name, POOL);
        let policy: RolloutPolicy = serde_json::from_value(policy("100m")).unwrap();
        assert!(policy.spec.image_build.is_some());
        let digest = format!("{registry}/ahead@sha256:{}", "0".repeat(64));
        let set: PinnedImageSet = serde_json::from_value(pins(&digest)).unwrap();
        assert_eq!(set.spec.pinned_images[0].name, digest);
        // The Secrets that are named are made.
        let builds = builds(registry);
        let named = [
            config.spec.base_image_pull_secret.unwrap().name,
            config.spec.rendered_image_push_secret.name,
        ];
        for (item, name) in builds["items"].as_array().unwrap().iter().zip(named) {
            assert_eq!(item["metadata"]["name"], name);
            assert_eq!(item["metadata"]["namespace"], NAMESPACE);
        }
    }
}
