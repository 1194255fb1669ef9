//! Objects that ask for settings of pools become part of the pools' rendered configurations, on a
//! real API server with the controller's own account. A bad one is named in a condition, and the
//! other pools go on.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use api::ConditionStatus;
use api::config::ImageDigestMirrorSet;
use api::machineconfiguration::machine_config_pool::PoolConditionType;
use api::machineconfiguration::{ContainerRuntimeConfig, KubeletConfig, MachineConfig};
use ignition::content;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use lab::manifest;
use serde_json::{Value, json};
use testbed::config::{Config, File};
use testbed::{CONTROLLER, Cluster, SOON, Testbed, logs, until, until_so};

/// Definitions that a cluster of OpenShift has from elsewhere.
const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/cvo/crds");

/// Pools without nodes: `worker` is built in, `edge` is custom and has a base of its own only by
/// the workers'.
const POOLS: &str = "
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: worker
  labels: { size: small }
spec:
  machineConfigSelector:
    matchLabels: { machineconfiguration.openshift.io/role: worker }
  nodeSelector:
    matchLabels: { node-role.kubernetes.io/worker: '' }
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: edge
  labels: { size: large }
spec:
  machineConfigSelector:
    matchExpressions:
      - { key: machineconfiguration.openshift.io/role, operator: In, values: [worker, edge] }
  nodeSelector:
    matchLabels: { node-role.kubernetes.io/edge: '' }
";

const PODS: &str = "
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata: { name: pods }
spec:
  machineConfigPoolSelector:
    matchLabels: { size: small }
  kubeletConfig: { maxPods: 300 }
  logLevel: 4
";

const PIDS: &str = "
apiVersion: machineconfiguration.openshift.io/v1
kind: ContainerRuntimeConfig
metadata: { name: pids }
spec:
  machineConfigPoolSelector:
    matchLabels: { size: small }
  containerRuntimeConfig: { pidsLimit: 4096 }
";

const MIRRORS: &str = "
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: { name: mirrors }
spec:
  imageDigestMirrors:
    - { source: quay.io/a, mirrors: [mirror.example/a] }
";

const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
const REGISTRIES: &str = "/etc/containers/registries.conf";
const PIDS_CONF: &str = "/etc/crio/crio.conf.d/01-ctrcfg-pidsLimit";

/// The controller over two pools without nodes.
async fn start(name: &str) -> Result<Cluster> {
    let testbed = Testbed::new(logs::folder("generated", name)).components(&[]);
    let mut cluster = testbed.objects(POOLS).start().await?;
    manifest::define(cluster.objects().client(), Path::new(DEFINITIONS)).await?;
    let base = Config::new().files([File::new(
        KUBELET_CONF,
        "maxPods: 250\nclusterDomain: cluster.local\n",
    )]);
    cluster
        .configure("01-worker-kubelet", "worker", &base.spec())
        .await?;
    cluster.run(CONTROLLER, &[]).await?;
    for pool in ["worker", "edge"] {
        cluster.next_target(pool, "").await?;
    }
    Ok(cluster)
}

/// A file of a pool's rendered configuration; empty where it does not write it.
async fn file(cluster: &Cluster, pool: &str, path: &str) -> Result<String> {
    let target = cluster.objects().target(pool).await?;
    let config = cluster.objects().machine_config(&target).await?;
    let (config, _) = ignition::parse(&config.spec.config.unwrap_or_default())?;
    let mut files = config.storage.files.iter();
    let Some(file) = files.find(|file| file.path == path) else {
        return Ok(String::new());
    };
    Ok(String::from_utf8(content::decode(&file.contents)?)?)
}

/// Waits until a file of a pool's rendered configuration says something.
async fn says(cluster: &Cluster, pool: &str, path: &str, words: &str) -> Result<()> {
    let what = format!("{words} in {path} of {pool}");
    let read = async || file(cluster, pool, path).await;
    until_so(&what, read, |text| text.contains(words)).await?;
    Ok(())
}

/// Waits until the last condition of a KubeletConfig says something.
async fn kubelet_config_says(cluster: &Cluster, name: &str, message: &str) -> Result<()> {
    let configs = Api::<KubeletConfig>::all(cluster.objects().client().clone());
    let read = async || {
        let status = configs.get(name).await?.status.unwrap_or_default();
        let last = status.conditions.last();
        Ok(last.map(|last| last.message.clone()).unwrap_or_default())
    };
    let what = format!("{message} of {name}");
    until_so(&what, read, |last| last == message).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn settings_become_part_of_the_rendered_configuration_and_leave_it() -> Result<()> {
    let cluster = start("settings").await?;
    let client = cluster.objects().client().clone();
    for object in [PODS, PIDS, MIRRORS] {
        cluster.apply(object).await?;
    }
    says(&cluster, "worker", KUBELET_CONF, "maxPods: 300").await?;
    says(&cluster, "worker", PIDS_CONF, "pids_limit = 4096").await?;
    says(&cluster, "worker", REGISTRIES, "mirror.example/a").await?;
    // A custom pool selects what is generated for workers, too.
    says(&cluster, "edge", REGISTRIES, "mirror.example/a").await?;
    says(&cluster, "edge", KUBELET_CONF, "maxPods: 300").await?;
    kubelet_config_says(&cluster, "pods", "Success").await?;
    let configs = Api::<KubeletConfig>::all(client.clone());
    let pods = configs.get("pods").await?;
    ensure!(pods.finalizers() == ["99-worker-generated-kubelet"]);
    let runtime = Api::<ContainerRuntimeConfig>::all(client.clone());
    let runtimes = runtime.get("pids").await?.status.unwrap_or_default();
    let last = runtimes.conditions.last().context("no condition")?;
    ensure!(last.r#type.as_str() == "Success" && last.status == ConditionStatus::True);

    // An edit is reverted.
    let generated = Api::<MachineConfig>::all(client.clone());
    let edit = Patch::Merge(json!({ "spec": { "kernelArguments": ["mine"] } }));
    let name = "99-worker-generated-kubelet";
    generated
        .patch(name, &PatchParams::default(), &edit)
        .await?;
    until("the edit to be reverted", SOON, async || {
        let arguments = generated.get(name).await?.spec.kernel_arguments;
        Ok(if arguments.is_empty() {
            Ok(())
        } else {
            Err(format!("{arguments:?}"))
        })
    })
    .await?;

    configs.delete("pods", &DeleteParams::default()).await?;
    runtime.delete("pids", &DeleteParams::default()).await?;
    Api::<ImageDigestMirrorSet>::all(client)
        .delete("mirrors", &DeleteParams::default())
        .await?;
    until("all to be left", SOON, async || {
        let conf = file(&cluster, "worker", KUBELET_CONF).await?;
        let rest = [
            file(&cluster, "worker", PIDS_CONF).await?,
            file(&cluster, "worker", REGISTRIES).await?,
        ];
        let is_left = conf.contains("maxPods: 250") && rest.concat().is_empty();
        Ok(if is_left {
            Ok(())
        } else {
            Err(format!("{conf} {rest:?}"))
        })
    })
    .await?;
    let left: Vec<String> = generated
        .list(&kube::api::ListParams::default())
        .await?
        .into_iter()
        .map(|config| config.name_any())
        .filter(|name| name.contains("-generated-"))
        .collect();
    ensure!(left.is_empty(), "{left:?} are left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn a_bad_object_is_named_and_the_other_pools_go_on() -> Result<()> {
    let cluster = start("refused").await?;
    let client = cluster.objects().client().clone();
    let configs = Api::<KubeletConfig>::all(client.clone());
    cluster.apply(PODS).await?;
    says(&cluster, "worker", KUBELET_CONF, "maxPods: 300").await?;
    let mut bad: Value = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig",
        "metadata": { "name": "bad" },
        "spec": {
            "machineConfigPoolSelector": { "matchLabels": { "size": "small" } },
            "kubeletConfig": { "clusterDomain": "a.example" }
        }
    });
    cluster.apply(&bad.to_string()).await?;
    let why = "Error: KubeletConfiguration: clusterDomain is not allowed to be set, but contains: a.example";
    kubelet_config_says(&cluster, "bad", why).await?;
    // The pool that it selects waits, the other one goes on.
    let before = cluster.objects().target("worker").await?;
    let change = Config::new().argument("a=1").spec();
    cluster.configure("50-change", "worker", &change).await?;
    let edge = cluster.objects().target("edge").await?;
    cluster.next_target("edge", &edge).await?;
    ensure!(
        cluster.objects().target("worker").await? == before,
        "the pool did not wait"
    );

    // Of two that set one field differently the last is in force, and both say so.
    bad["spec"]["kubeletConfig"] = json!({ "maxPods": 400 });
    cluster.apply(&bad.to_string()).await?;
    let why = "Success; KubeletConfigs pods and bad of MachineConfigPool worker set spec.kubeletConfig.maxPods differently: bad, the last, is in force";
    kubelet_config_says(&cluster, "bad", why).await?;
    kubelet_config_says(&cluster, "pods", why).await?;
    says(&cluster, "worker", KUBELET_CONF, "maxPods: 400").await?;
    configs.delete("bad", &DeleteParams::default()).await?;
    cluster.next_target("worker", &before).await?;

    // A bad mirror is named by the built-in pool.
    cluster
        .apply(&MIRRORS.replace("quay.io/a", "https://quay.io"))
        .await?;
    let why = "ImageDigestMirrorSet mirrors: spec.imageDigestMirrors[0].source: \"https://quay.io\" has a scheme: write the host alone";
    let read = async || {
        let pool = cluster.objects().pool("worker").await?;
        let status = pool.status.unwrap_or_default();
        let condition = status.condition(&PoolConditionType::RenderDegraded);
        Ok(condition.map_or_else(String::new, |condition| condition.message.clone()))
    };
    until_so("the mirror to be named", read, |message| {
        message.ends_with(why)
    })
    .await?;
    let edge = cluster.objects().target("edge").await?;
    let change = Config::new().argument("a=2").spec();
    cluster.configure("50-edge", "edge", &change).await?;
    cluster.next_target("edge", &edge).await?;
    cluster.apply(MIRRORS).await?;
    says(&cluster, "worker", REGISTRIES, "mirror.example/a").await
}

/// Kinds that a cluster of OpenShift has from elsewhere: group, version, kind, plural, scope.
const FOREIGN: [(&str, &str, &str, &str, &str); 4] = [
    ("config.openshift.io", "v1", "Node", "nodes", "Cluster"),
    (
        "config.openshift.io",
        "v1",
        "ClusterImagePolicy",
        "clusterimagepolicies",
        "Cluster",
    ),
    (
        "config.openshift.io",
        "v1",
        "ImagePolicy",
        "imagepolicies",
        "Namespaced",
    ),
    (
        "operator.openshift.io",
        "v1alpha1",
        "ImageContentSourcePolicy",
        "imagecontentsourcepolicies",
        "Cluster",
    ),
];

/// Defines [`FOREIGN`], each with any content.
#[expect(clippy::disallowed_methods, reason = "a lab's own files")]
async fn define_foreign(cluster: &Cluster) -> Result<()> {
    let dir = tempfile::tempdir()?;
    for (group, version, kind, plural, scope) in FOREIGN {
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group, "scope": scope,
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
                "versions": [{
                    "name": version, "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": schema }
                }]
            }
        });
        std::fs::write(
            dir.path().join(format!("{plural}.yaml")),
            definition.to_string(),
        )?;
    }
    manifest::define(cluster.objects().client(), dir.path()).await
}

/// A ControllerConfig of a cluster on no cloud.
fn on_no_cloud() -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
        "metadata": {
            "name": "machine-config-controller",
            "annotations": {
                "machineconfiguration.openshift.io/generated-by-version": env!("CARGO_PKG_VERSION")
            }
        },
        "spec": {
            "additionalTrustBundle": null, "baseOSContainerImage": "", "cloudProviderCAData": null,
            "cloudProviderConfig": "", "clusterDNSIP": "172.30.0.10", "dns": null, "images": {},
            "infra": {
                "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure",
                "metadata": { "name": "cluster" }, "spec": {},
                "status": { "platformStatus": { "type": "None" } }
            },
            "ipFamilies": "IPv4", "kubeAPIServerServingCAData": "Y2EK", "network": null,
            "proxy": null, "releaseImage": "", "rootCAData": "Y2EK"
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn a_cluster_on_no_cloud_needs_no_base_made_by_hand() -> Result<()> {
    let testbed = Testbed::new(logs::folder("generated", "templates")).components(&[]);
    let mut cluster = testbed.objects(POOLS).start().await?;
    manifest::define(cluster.objects().client(), Path::new(DEFINITIONS)).await?;
    define_foreign(&cluster).await?;
    let mut config = on_no_cloud();
    cluster.apply(&config.to_string()).await?;
    cluster.apply(PODS).await?;
    cluster.run(CONTROLLER, &[]).await?;
    for pool in ["worker", "edge"] {
        cluster.next_target(pool, "").await?;
    }
    // The options lie over the base that only the ControllerConfig needs.
    says(&cluster, "worker", KUBELET_CONF, "maxPods: 300").await?;
    says(&cluster, "worker", KUBELET_CONF, "172.30.0.10").await?;
    says(&cluster, "edge", "/etc/crio/crio.conf.d/00-default", "crun").await?;
    kubelet_config_says(&cluster, "pods", "Success").await?;
    let configs = Api::<MachineConfig>::all(cluster.objects().client().clone());
    let base = configs.get("01-worker-kubelet").await?;
    let owner = base.owner_references().first();
    ensure!(owner.is_some_and(|owner| owner.kind == "ControllerConfig"));

    // What is changed by hand is reverted; what the ControllerConfig says, is followed.
    // The lab has a 00-worker of its own, which is left alone.
    let name = "01-worker-container-runtime";
    let edit = Patch::Merge(json!({ "spec": { "kernelArguments": ["mine"] } }));
    configs.patch(name, &PatchParams::default(), &edit).await?;
    let read = async || Ok(configs.get(name).await?.spec.kernel_arguments);
    until_so("the edit to be reverted", read, Vec::is_empty).await?;
    config["spec"]["clusterDNSIP"] = json!("172.30.0.99");
    cluster.apply(&config.to_string()).await?;
    says(&cluster, "worker", KUBELET_CONF, "172.30.0.99").await?;

    // Settings of all nodes, and signatures.
    let key = "LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0K";
    let policy = |kind: &str, name: &str, scope: &str| {
        json!({
            "apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": { "name": name },
            "spec": {
                "scopes": [scope],
                "policy": { "rootOfTrust": {
                    "policyType": "PublicKey", "publicKey": { "keyData": key }
                } }
            }
        })
    };
    let mut own = policy("ImagePolicy", "own", "quay.io/b");
    own["metadata"]["namespace"] = json!("default");
    let settings = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Node", "metadata": { "name": "cluster" },
        "spec": { "workerLatencyProfile": "MediumUpdateAverageReaction" }
    });
    let mirrors = json!({
        "apiVersion": "operator.openshift.io/v1alpha1", "kind": "ImageContentSourcePolicy",
        "metadata": { "name": "old" },
        "spec": { "repositoryDigestMirrors": [
            { "source": "quay.io", "mirrors": ["mirror.example/quay"] }
        ] }
    });
    for object in [
        settings,
        mirrors,
        policy("ClusterImagePolicy", "all", "quay.io/a"),
        own,
    ] {
        cluster.apply(&object.to_string()).await?;
    }
    let frequency = "nodeStatusUpdateFrequency: 20s";
    says(&cluster, "worker", KUBELET_CONF, frequency).await?;
    says(&cluster, "worker", REGISTRIES, "mirror.example/quay").await?;
    let policies = "/etc/containers/policy.json";
    says(&cluster, "worker", policies, "sigstoreSigned").await?;
    says(
        &cluster,
        "worker",
        "/etc/crio/policies/default.json",
        "quay.io/b",
    )
    .await?;
    let attachments = "/etc/containers/registries.d/sigstore-registries.yaml";
    says(&cluster, "worker", attachments, "mirror.example/quay/b").await?;
    let target = cluster.objects().target("worker").await?;
    let rendered = cluster.objects().machine_config(&target).await?;
    let argument = "systemd.unified_cgroup_hierarchy=1";
    ensure!(
        rendered
            .spec
            .kernel_arguments
            .iter()
            .any(|it| it == argument)
    );
    Ok(())
}

/// Objects that a cluster of OpenShift has from elsewhere.
const OPENSHIFT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/openshift");

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn what_other_operators_bring_is_accepted_and_kubelet_configs_lie_over_its_base() -> Result<()>
{
    let testbed = Testbed::new(logs::folder("generated", "openshift")).components(&[]);
    let mut cluster = testbed.objects(POOLS).start().await?;
    let client = cluster.objects().client().clone();
    manifest::define(&client, Path::new(DEFINITIONS)).await?;
    manifest::define(&client, Path::new(&format!("{OPENSHIFT}/crds"))).await?;
    let kubectl = |arguments: &[&str]| cluster.control_plane().kubectl(arguments);
    let apply = ["apply", "--server-side"];
    kubectl(&[&apply[..], &["--kustomize", OPENSHIFT]].concat())?;
    let status = format!("{OPENSHIFT}/status.yaml");
    kubectl(&[&apply[..], &["--subresource=status", "--filename", &status]].concat())?;
    let node = format!("{OPENSHIFT}/node.yaml");
    kubectl(&[&apply[..], &["--filename", &node]].concat())?;

    // What is there already stays: the lab's configuration of this name has the OS.
    let output = "--output=jsonpath={.metadata.managedFields[*].manager}";
    let managers = kubectl(&["get", "machineconfig", "00-worker", output])?;
    ensure!(managers.contains("lab"), "managers are {managers}");
    let platform = "--output=jsonpath={.status.platformStatus.type}";
    let platform = kubectl(&["get", "infrastructure", "cluster", platform])?;
    ensure!(platform == "None", "the platform is {platform:?}");
    let user = "--as=system:serviceaccount:openshift-monitoring:prometheus-k8s";
    kubectl(&["auth", "can-i", "get", "/metrics", user])?;
    let account = ("openshift-monitoring", "prometheus-k8s");
    cluster.control_plane().token(account.0, account.1).await?;

    cluster.apply(PODS).await?;
    cluster.run(CONTROLLER, &[]).await?;
    for pool in ["worker", "edge"] {
        cluster.next_target(pool, "").await?;
    }
    kubelet_config_says(&cluster, "pods", "Success").await?;
    says(&cluster, "worker", KUBELET_CONF, "300").await?;
    let conf = manifest::parse(&file(&cluster, "worker", KUBELET_CONF).await?)?;
    let conf = &conf.first().context("no kubelet.conf")?.data;
    for (field, value) in [
        ("maxPods", json!(300)),
        ("podPidsLimit", json!(4096)),
        ("nodeStatusUpdateFrequency", json!("10s")),
    ] {
        ensure!(conf.get(field) == Some(&value), "{field} of {conf}");
    }
    says(
        &cluster,
        "worker",
        "/etc/containers/storage.conf",
        "overlay",
    )
    .await
}
