//! Each request to the API server.

use std::sync::Arc;

use api::config::{ClusterVersion, cluster_version};
use api::machineconfiguration::{DrainLease, annotation};
use api::upgrade::{
    UpgradeConfig, UpgradeConfigSpec, UpgradeConfigStatus, UpgradePlan, plan, upgrade_config,
};
use cluster::access::Access;
use cluster::list::Select;
use cluster::objects::{Objects, Precondition};
use cluster::wire::{Error, RequestBody, found, unless_conflict};
use cluster::{path, review};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use upgrade_plan::drain_help::ForcedRemoval;
use upgrade_plan::drain_help::StuckPod;

const MANAGER: &str = "managed-upgrade-operator";

/// Group of the machine API, and the namespace of its objects.
const MACHINE_API: (&str, &str) = ("machine.openshift.io/v1beta1", "openshift-machine-api");

/// Requests of the operator. A creation of what is there already, and a deletion of what another
/// object replaced, are no errors.
#[derive(Debug)]
pub(crate) struct Requests {
    access: Arc<Access>,
    namespace: String,
}

impl Requests {
    pub(crate) const fn new(access: Arc<Access>, namespace: String) -> Self {
        Self { access, namespace }
    }

    /// Objects below a path, as they are.
    fn at(&self, path: String) -> Objects<'_, Value> {
        Objects::at(&self.access, path).manager(MANAGER)
    }

    fn upgrades(&self) -> Objects<'_, UpgradeConfig> {
        Objects::in_namespace(&self.access, &self.namespace).manager(MANAGER)
    }

    /// Objects of the machine API.
    fn machine_api(&self, plural: &str) -> Objects<'_, Value> {
        let (group, namespace) = MACHINE_API;
        self.at(path::untyped(group, Some(namespace), plural))
    }

    fn jobs(&self) -> Objects<'_, Value> {
        self.at(path::namespace::<Job>(&self.namespace))
    }

    /// The UpgradeConfig as it is now.
    pub(crate) async fn upgrade(&self) -> Result<Option<UpgradeConfig>, Error> {
        self.upgrades().get(upgrade_config::NAME).await
    }

    /// Applies the status: all of it is this operator's.
    pub(crate) async fn apply_status(
        &self,
        upgrade: &UpgradeConfig,
        status: &UpgradeConfigStatus,
    ) -> Result<UpgradeConfig, Error> {
        let object = json!({
            "apiVersion": "upgrade.managed.openshift.io/v1alpha1",
            "kind": "UpgradeConfig",
            "metadata": {
                "name": upgrade_config::NAME, "namespace": self.namespace,
                // That of an object with this name that was created since is not written.
                "uid": upgrade.metadata.uid,
            },
            "status": status,
        });
        let upgrades = self.upgrades().status();
        upgrades.apply(upgrade_config::NAME, &object).await
    }

    /// Applies the plan. It goes with the UpgradeConfig.
    pub(crate) async fn apply_plan(
        &self,
        upgrade: &UpgradeConfig,
        plan: &UpgradePlan,
    ) -> Result<(), Error> {
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": plan::NAME, "namespace": self.namespace,
                "ownerReferences": [{
                    "apiVersion": "upgrade.managed.openshift.io/v1alpha1",
                    "kind": "UpgradeConfig",
                    "name": upgrade_config::NAME,
                    "uid": upgrade.metadata.uid,
                }],
            },
            "data": { plan::KEY: plan.print() },
        });
        let maps = self.at(path::namespace::<ConfigMap>(&self.namespace));
        maps.apply(plan::NAME, &object).await.map(drop)
    }

    /// Sets the finalizers, if the object is as it was read.
    pub(crate) async fn set_finalizers(
        &self,
        upgrade: &UpgradeConfig,
        finalizers: &[String],
    ) -> Result<(), Error> {
        let change = json!({ "metadata": { "finalizers": finalizers } });
        self.change_upgrade(upgrade, change).await
    }

    /// Sets annotations; null removes one.
    pub(crate) async fn annotate(&self, annotations: &Value) -> Result<UpgradeConfig, Error> {
        let change = json!({ "metadata": { "annotations": annotations } });
        self.upgrades().patch(upgrade_config::NAME, &change).await
    }

    /// Sets the version of an UpgradeConfig, if the object is as it was read.
    pub(crate) async fn set_desired_version(
        &self,
        upgrade: &UpgradeConfig,
        version: &str,
    ) -> Result<(), Error> {
        let change = json!({ "spec": { "desired": { "version": version } } });
        self.change_upgrade(upgrade, change).await
    }

    async fn change_upgrade(&self, upgrade: &UpgradeConfig, change: Value) -> Result<(), Error> {
        let upgrades = self.upgrades().read_as::<IgnoredAny>();
        let version = upgrade.metadata.resource_version.as_deref();
        let changed = upgrades.patch_if(upgrade_config::NAME, version, change);
        changed.await.map(drop)
    }

    /// Creates the UpgradeConfig. One that is there stays.
    pub(crate) async fn create_upgrade(&self, spec: &UpgradeConfigSpec) -> Result<(), Error> {
        let object = json!({
            "apiVersion": "upgrade.managed.openshift.io/v1alpha1",
            "kind": "UpgradeConfig",
            "metadata": { "name": upgrade_config::NAME, "namespace": self.namespace },
            "spec": spec,
        });
        let upgrades = self.upgrades().read_as::<IgnoredAny>();
        unless_conflict(upgrades.create(&object).await).map(drop)
    }

    /// Deletes this very UpgradeConfig.
    pub(crate) async fn delete_upgrade(&self, upgrade: &UpgradeConfig) -> Result<(), Error> {
        let precondition = Precondition::uid(upgrade.metadata.uid.as_deref());
        let upgrades = self.upgrades();
        let deleted = upgrades.delete(upgrade_config::NAME, precondition);
        unless_conflict(deleted.await).map(drop)
    }

    /// Changes what ClusterVersion asks for; the object after it.
    pub(crate) async fn change_version(&self, change: &Value) -> Result<ClusterVersion, Error> {
        let versions = Objects::<ClusterVersion>::of_cluster(&self.access).manager(MANAGER);
        versions.patch(cluster_version::NAME, change).await
    }

    /// MachineSets; none where the cluster has no machine API.
    pub(crate) async fn machine_sets(&self) -> Result<Vec<Value>, Error> {
        list(&self.machine_api("machinesets"), Select::All).await
    }

    /// Machines; none where the cluster has no machine API.
    pub(crate) async fn machines(&self) -> Result<Vec<Value>, Error> {
        list(&self.machine_api("machines"), Select::All).await
    }

    /// Creates a MachineSet. One of that name that is there stays.
    pub(crate) async fn create_machine_set(&self, set: &Value) -> Result<(), Error> {
        unless_conflict(self.machine_api("machinesets").create(set).await).map(drop)
    }

    /// Deletes a MachineSet.
    pub(crate) async fn delete_machine_set(&self, name: &str) -> Result<(), Error> {
        let sets = self.machine_api("machinesets");
        unless_conflict(sets.delete_with(name, RequestBody::Empty).await).map(drop)
    }

    /// PodDisruptionBudgets of all namespaces.
    pub(crate) async fn budgets(&self) -> Result<Vec<Value>, Error> {
        list(&self.at(path::all::<PodDisruptionBudget>()), Select::All).await
    }

    pub(crate) async fn pods_of(&self, node: &str) -> Result<Vec<Value>, Error> {
        let selector = format!("spec.nodeName={node}");
        list(&self.at(path::all::<Pod>()), Select::Fields(&selector)).await
    }

    /// Removes this very pod.
    pub(crate) async fn remove_pod(
        &self,
        pod: &StuckPod,
        removal: ForcedRemoval,
    ) -> Result<(), Error> {
        let pods = self.at(path::namespace::<Pod>(&pod.namespace));
        let precondition = Precondition::uid(Some(&pod.uid));
        let mut options = precondition.options();
        let removed = match removal {
            ForcedRemoval::End => pods.delete(&pod.name, precondition).await,
            ForcedRemoval::Delete => {
                if let Some(options) = options.as_object_mut() {
                    options.insert("gracePeriodSeconds".to_owned(), json!(0));
                }
                let options = RequestBody::Object(&options);
                pods.delete_with(&pod.name, options).await
            }
            ForcedRemoval::ClearFinalizers => {
                let change = json!({ "metadata": { "uid": pod.uid, "finalizers": null } });
                found(pods.patch(&pod.name, &change).await).map(drop)
            }
        };
        unless_conflict(removed).map(drop)
    }

    /// Sets the lease of a node's drain, or removes it.
    pub(crate) async fn set_drain_lease(
        &self,
        node: &str,
        lease: Option<&DrainLease>,
    ) -> Result<(), Error> {
        let lease = lease.map(ToString::to_string);
        let change = json!({ "metadata": { "annotations": { annotation::DRAIN_LEASE: lease } } });
        let nodes = Objects::<Node>::of_cluster(&self.access).manager(MANAGER);
        let nodes = nodes.read_as::<IgnoredAny>();
        found(nodes.patch(node, &change).await).map(drop)
    }

    /// A Job in the operator's namespace.
    pub(crate) async fn job(&self, name: &str) -> Result<Option<Value>, Error> {
        self.jobs().get(name).await
    }

    /// Creates a Job in the operator's namespace. One of that name that is there stays.
    pub(crate) async fn create_job(&self, job: &Value) -> Result<(), Error> {
        unless_conflict(self.jobs().create(job).await).map(drop)
    }

    /// Has the file integrity database initialised.
    pub(crate) async fn initialise_file_integrity(&self) -> Result<(), Error> {
        let namespace = Some("openshift-file-integrity");
        let group = "fileintegrity.openshift.io/v1alpha1";
        let objects = self.at(path::untyped(group, namespace, "fileintegrities"));
        let key = "file-integrity.openshift.io/re-init";
        let change = json!({ "metadata": { "annotations": { key: "" } } });
        objects.patch("osd-fileintegrity", &change).await.map(drop)
    }

    /// An object of another component, or none.
    pub(crate) async fn read(&self, path: &str) -> Result<Option<Value>, Error> {
        self.access.find(path).await
    }

    /// A token of the account that may read Prometheus and Alertmanager, for a day.
    pub(crate) async fn monitoring_token(&self) -> Result<String, Error> {
        let account = ("openshift-monitoring", "prometheus-k8s");
        let spec = json!({ "expirationSeconds": 86_400 });
        let token = review::account_token(&self.access, account, &spec).await?;
        Ok(token.unwrap_or_default())
    }
}

/// Objects as they are; none where the API has no such kind.
async fn list(objects: &Objects<'_, Value>, select: Select<'_>) -> Result<Vec<Value>, Error> {
    Ok(found(objects.list(select).await)?.unwrap_or_default())
}
