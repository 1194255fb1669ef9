//! The machine API of a managed upgrade. There is no cloud: definitions of MachineSet and Machine
//! are the lab's own, and this answers for their controllers, with a host of the lab as the
//! machine.

use std::path::Path;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use testbed::{Cluster, NodeSpec, objects};

/// The host that becomes a machine, and its node. It is judged as one of the workers.
pub(crate) const EXTRA: &str = "worker-extra";

const NAMESPACE: &str = "openshift-machine-api";

/// Label of MachineSets that a managed upgrade adds.
const ADDED: &str = "upgrade.managed.openshift.io";

/// Of the host: the first is the installer's OS, the second that of its pool.
const BOOTS: usize = 2;

/// How far the machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Off,
    Boots,
    Runs,
    Gone,
}

/// MachineSets, Machines and the host.
#[derive(Debug)]
pub(crate) struct Machines {
    sets: Api<DynamicObject>,
    all: Api<DynamicObject>,
    stage: Stage,
}

/// The host as the testbed makes it: nothing is configured on it, and it is off.
pub(crate) fn host() -> NodeSpec {
    NodeSpec::new(EXTRA).containers().fresh()
}

impl Machines {
    /// Serves both kinds, and makes the MachineSet of the workers.
    pub(crate) async fn start(cluster: &Cluster) -> Result<Self> {
        let client = cluster.objects().client();
        let definitions = testbed::workspace().join("tests/support/testbed/definitions");
        lab::manifest::define(client, &definitions).await?;
        let template = json!({ "metadata": { "labels": { "demo": "worker" } } });
        let set = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
            "metadata": {
                "name": "worker", "namespace": NAMESPACE,
                "labels": { "hive.openshift.io/machine-pool": "worker" },
            },
            "spec": {
                "replicas": 3, "selector": { "matchLabels": { "demo": "worker" } },
                "template": template,
            },
        });
        cluster.apply(&set.to_string()).await?;
        Ok(Self {
            sets: api(client, "MachineSet"),
            all: api(client, "Machine"),
            stage: Stage::Off,
        })
    }

    /// Does the next step of the machine that an added MachineSet asks for, or that is to go.
    /// `pointer` is the Ignition config that it starts with.
    pub(crate) async fn advance(&mut self, cluster: &mut Cluster, pointer: &Path) -> Result<()> {
        let sets = self.sets.list(&ListParams::default()).await?;
        let is_added = |set: &&DynamicObject| set.labels().contains_key(ADDED);
        match (self.stage, sets.items.iter().find(is_added)) {
            (Stage::Off, Some(set)) => {
                self.provision(set).await?;
                let host = cluster.host_mut(EXTRA)?;
                host.ignite(pointer)?;
                host.start()?;
                self.stage = Stage::Boots;
            }
            (Stage::Boots, Some(set)) if is_up(cluster).await? => {
                cluster.introduce(&host()).await?;
                let node = json!({ "phase": "Running", "nodeRef": { "name": EXTRA } });
                say(&self.all, EXTRA, node).await?;
                say(&self.sets, &set.name_any(), json!({ "readyReplicas": 1 })).await?;
                self.stage = Stage::Runs;
            }
            (Stage::Runs, None) => {
                self.remove(cluster).await?;
                self.stage = Stage::Gone;
            }
            _ => {}
        }
        Ok(())
    }

    /// What speaks against a machine that was added and is gone.
    pub(crate) async fn doubt(&self) -> Result<Option<String>> {
        let left = self.all.list(&ListParams::default()).await?.items;
        Ok(match self.stage {
            Stage::Gone if left.is_empty() => None,
            Stage::Off => Some("no machine was added".to_owned()),
            stage @ (Stage::Boots | Stage::Runs | Stage::Gone) => {
                Some(format!("the added machine is there still: {stage:?}"))
            }
        })
    }

    async fn provision(&self, set: &DynamicObject) -> Result<()> {
        let labels = set.data.pointer("/spec/template/metadata/labels");
        let machine = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": { "name": EXTRA, "namespace": NAMESPACE, "labels": labels },
            "spec": {}, "status": { "phase": "Provisioning" },
        });
        let params = PatchParams::apply("demo").force();
        self.all
            .patch(EXTRA, &params, &Patch::Apply(machine))
            .await?;
        Ok(())
    }

    /// Drains the node, turns the host off, and deletes Node and Machine.
    async fn remove(&self, cluster: &mut Cluster) -> Result<()> {
        cluster
            .control_plane()
            .kubectl(&[
                "drain",
                EXTRA,
                "--ignore-daemonsets",
                "--delete-emptydir-data",
                "--timeout=60s",
            ])
            .context("cannot drain the added machine's node")?;
        cluster.host_mut(EXTRA)?.stop()?;
        let nodes = Api::<Node>::all(cluster.objects().client().clone());
        nodes.delete(EXTRA, &DeleteParams::default()).await?;
        self.all.delete(EXTRA, &DeleteParams::default()).await?;
        Ok(())
    }
}

/// Whether the host runs its pool's OS and takes pods.
async fn is_up(cluster: &Cluster) -> Result<bool> {
    let is_booted = cluster.host(EXTRA)?.boots().len() >= BOOTS;
    let nodes = cluster.objects().nodes().await?;
    Ok(is_booted && nodes.get(EXTRA).is_some_and(objects::is_in_service))
}

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("machine.openshift.io", "v1beta1", kind);
    Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind))
}

/// Merges into the status. The lab's definitions have no subresource for it.
async fn say(api: &Api<DynamicObject>, name: &str, status: Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}
