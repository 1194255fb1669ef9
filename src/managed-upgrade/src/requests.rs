//! Each request to the API server.

use std::sync::Arc;

use api::config::{ClusterVersion, cluster_version};
use api::machineconfiguration::{DrainLease, annotation};
use api::upgrade::{
    UpgradeConfig, UpgradeConfigSpec, UpgradeConfigStatus, UpgradePlan, plan, upgrade_config,
};
use cluster::access::Access;
use cluster::path;
use cluster::wire::{Error, RequestBody, escape};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::node_keeper::ForcedRemoval;
use crate::node_keeper::pods::KeptPod;

/// Field manager.
const MANAGER: &str = "managed-upgrade-operator";

/// Namespace of machines, and their paths.
const MACHINE_API: &str = "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api";

/// Objects asked for at once.
const PAGE: usize = 250;

/// Requests of the operator.
#[derive(Debug)]
pub(crate) struct Requests {
    access: Arc<Access>,
    namespace: String,
}

impl Requests {
    pub(crate) const fn new(access: Arc<Access>, namespace: String) -> Self {
        Self { access, namespace }
    }

    fn upgrade_path(&self) -> String {
        path::namespaced::<UpgradeConfig>(&self.namespace, upgrade_config::NAME)
    }

    /// The UpgradeConfig as it is now.
    pub(crate) async fn upgrade(&self) -> Result<Option<UpgradeConfig>, Error> {
        found(self.access.get(&self.upgrade_path()).await)
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
        let path = self.upgrade_path();
        let path = format!("{path}/status?fieldManager={MANAGER}&force=true");
        self.access
            .send(Method::PATCH, &path, RequestBody::Apply(&object))
            .await
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
        let path = path::namespaced::<ConfigMap>(&self.namespace, plan::NAME);
        let path = format!("{path}?fieldManager={MANAGER}&force=true");
        let content = RequestBody::Apply(&object);
        let _: IgnoredAny = self.access.send(Method::PATCH, &path, content).await?;
        Ok(())
    }

    /// Sets the finalizers, if the object is as it was read.
    pub(crate) async fn set_finalizers(
        &self,
        upgrade: &UpgradeConfig,
        finalizers: &[String],
    ) -> Result<(), Error> {
        let change = json!({ "metadata": {
            "resourceVersion": upgrade.metadata.resource_version, "finalizers": finalizers,
        } });
        self.change(&self.upgrade_path(), &change).await
    }

    /// Sets annotations; null removes one.
    pub(crate) async fn annotate(&self, annotations: &Value) -> Result<UpgradeConfig, Error> {
        let change = json!({ "metadata": { "annotations": annotations } });
        let path = format!("{}?fieldManager={MANAGER}", self.upgrade_path());
        self.access
            .send(Method::PATCH, &path, RequestBody::MergePatch(&change))
            .await
    }

    /// Sets the version of an UpgradeConfig, if the object is as it was read.
    pub(crate) async fn set_desired_version(
        &self,
        upgrade: &UpgradeConfig,
        version: &str,
    ) -> Result<(), Error> {
        let change = json!({
            "metadata": { "resourceVersion": upgrade.metadata.resource_version },
            "spec": { "desired": { "version": version } },
        });
        self.change(&self.upgrade_path(), &change).await
    }

    /// Creates the UpgradeConfig. One that is there stays.
    pub(crate) async fn create_upgrade(&self, spec: &UpgradeConfigSpec) -> Result<(), Error> {
        let object = json!({
            "apiVersion": "upgrade.managed.openshift.io/v1alpha1",
            "kind": "UpgradeConfig",
            "metadata": { "name": upgrade_config::NAME, "namespace": self.namespace },
            "spec": spec,
        });
        let path = path::namespace::<UpgradeConfig>(&self.namespace);
        self.create(&format!("{path}?fieldManager={MANAGER}"), &object)
            .await
    }

    /// Deletes this very UpgradeConfig.
    pub(crate) async fn delete_upgrade(&self, upgrade: &UpgradeConfig) -> Result<(), Error> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": { "uid": upgrade.metadata.uid },
        });
        let path = self.upgrade_path();
        let content = RequestBody::Object(&options);
        let answer: Result<IgnoredAny, Error> =
            self.access.send(Method::DELETE, &path, content).await;
        gone(answer)
    }

    /// Changes what ClusterVersion asks for; the object after it.
    pub(crate) async fn change_version(&self, change: &Value) -> Result<ClusterVersion, Error> {
        let path = path::object::<ClusterVersion>(cluster_version::NAME);
        let path = format!("{path}?fieldManager={MANAGER}");
        self.access
            .send(Method::PATCH, &path, RequestBody::MergePatch(change))
            .await
    }

    /// MachineSets; none where the cluster has no machine API.
    pub(crate) async fn machine_sets(&self) -> Result<Vec<Value>, Error> {
        self.list(&format!("{MACHINE_API}/machinesets")).await
    }

    /// Machines; none where the cluster has no machine API.
    pub(crate) async fn machines(&self) -> Result<Vec<Value>, Error> {
        self.list(&format!("{MACHINE_API}/machines")).await
    }

    /// Creates a MachineSet. One of that name that is there stays.
    pub(crate) async fn create_machine_set(&self, set: &Value) -> Result<(), Error> {
        let path = format!("{MACHINE_API}/machinesets?fieldManager={MANAGER}");
        self.create(&path, set).await
    }

    /// Deletes a MachineSet.
    pub(crate) async fn delete_machine_set(&self, name: &str) -> Result<(), Error> {
        let path = format!("{MACHINE_API}/machinesets/{}", escape(name));
        let answer: Result<IgnoredAny, Error> = self
            .access
            .send(Method::DELETE, &path, RequestBody::Empty)
            .await;
        gone(answer)
    }

    /// PodDisruptionBudgets of all namespaces.
    pub(crate) async fn budgets(&self) -> Result<Vec<Value>, Error> {
        self.list("/apis/policy/v1/poddisruptionbudgets").await
    }

    /// Pods of a node.
    pub(crate) async fn pods_of(&self, node: &str) -> Result<Vec<Value>, Error> {
        let node = escape(node);
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&");
        self.list_from(path).await
    }

    /// Removes this very pod.
    pub(crate) async fn remove_pod(
        &self,
        pod: &KeptPod,
        removal: ForcedRemoval,
    ) -> Result<(), Error> {
        let mut options = Map::from_iter([
            ("apiVersion".to_owned(), json!("v1")),
            ("kind".to_owned(), json!("DeleteOptions")),
            ("preconditions".to_owned(), json!({ "uid": pod.uid })),
        ]);
        if removal == ForcedRemoval::Delete {
            options.insert("gracePeriodSeconds".to_owned(), json!(0));
        }
        let options = Value::Object(options);
        let change = json!({ "metadata": { "uid": pod.uid, "finalizers": null } });
        let mut path = pod_path(pod);
        let (method, content) = match removal {
            ForcedRemoval::End | ForcedRemoval::Delete => {
                (Method::DELETE, RequestBody::Object(&options))
            }
            ForcedRemoval::ClearFinalizers => {
                path = format!("{path}?fieldManager={MANAGER}");
                (Method::PATCH, RequestBody::MergePatch(&change))
            }
        };
        let answer: Result<IgnoredAny, Error> = self.access.send(method, &path, content).await;
        gone(answer)
    }

    /// Sets the lease of a node's drain, or removes it.
    pub(crate) async fn set_drain_lease(
        &self,
        node: &str,
        lease: Option<&DrainLease>,
    ) -> Result<(), Error> {
        let lease = lease.map(ToString::to_string);
        let change = json!({ "metadata": { "annotations": { annotation::DRAIN_LEASE: lease } } });
        let path = format!("/api/v1/nodes/{}", escape(node));
        match self.change(&path, &change).await {
            Err(error) if error.code() != Some(404) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// A Job in the operator's namespace.
    pub(crate) async fn job(&self, name: &str) -> Result<Option<Value>, Error> {
        let path = format!("{}/{}", self.jobs_path(), escape(name));
        self.read(&path).await
    }

    /// Creates a Job in the operator's namespace. One of that name that is there stays.
    pub(crate) async fn create_job(&self, job: &Value) -> Result<(), Error> {
        let path = format!("{}?fieldManager={MANAGER}", self.jobs_path());
        self.create(&path, job).await
    }

    fn jobs_path(&self) -> String {
        format!("/apis/batch/v1/namespaces/{}/jobs", self.namespace)
    }

    /// Has the file integrity database initialised.
    pub(crate) async fn initialise_file_integrity(&self) -> Result<(), Error> {
        const PATH: &str = "/apis/fileintegrity.openshift.io/v1alpha1/namespaces/\
                            openshift-file-integrity/fileintegrities/osd-fileintegrity";
        let key = "file-integrity.openshift.io/re-init";
        let change = json!({ "metadata": { "annotations": { key: "" } } });
        self.change(PATH, &change).await
    }

    /// An object of another component, or none.
    pub(crate) async fn read(&self, path: &str) -> Result<Option<Value>, Error> {
        found(self.access.get(path).await)
    }

    /// A token of the account by which Prometheus and Alertmanager are asked, for a day.
    pub(crate) async fn monitoring_token(&self) -> Result<String, Error> {
        const PATH: &str =
            "/api/v1/namespaces/openshift-monitoring/serviceaccounts/prometheus-k8s/token";
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "expirationSeconds": 86_400 },
        });
        let answer: Value = self
            .access
            .send(Method::POST, PATH, RequestBody::Object(&request))
            .await?;
        let token = answer.pointer("/status/token").and_then(Value::as_str);
        Ok(token.unwrap_or_default().to_owned())
    }

    async fn create(&self, path: &str, object: &Value) -> Result<(), Error> {
        let content = RequestBody::Object(object);
        let answer: Result<IgnoredAny, Error> = self.access.send(Method::POST, path, content).await;
        match answer {
            Err(error) if error.code() != Some(409) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn change(&self, path: &str, change: &Value) -> Result<(), Error> {
        let path = format!("{path}?fieldManager={MANAGER}");
        let content = RequestBody::MergePatch(change);
        let _: IgnoredAny = self.access.send(Method::PATCH, &path, content).await?;
        Ok(())
    }

    async fn list(&self, path: &str) -> Result<Vec<Value>, Error> {
        self.list_from(format!("{path}?")).await
    }

    /// The same from a path that ends with its query, open for more.
    async fn list_from(&self, path: String) -> Result<Vec<Value>, Error> {
        let mut items = Vec::new();
        let mut next = String::new();
        loop {
            let url = format!("{path}limit={PAGE}{next}");
            let Some(page) = found::<Value>(self.access.get(&url).await)? else {
                return Ok(items);
            };
            let found = page.get("items").and_then(Value::as_array);
            items.extend(found.into_iter().flatten().cloned());
            match page.pointer("/metadata/continue").and_then(Value::as_str) {
                None | Some("") => return Ok(items),
                Some(token) => next = format!("&continue={}", escape(token)),
            }
        }
    }
}

fn pod_path(pod: &KeptPod) -> String {
    let (namespace, name) = (escape(&pod.namespace), escape(&pod.name));
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is gone already needs no deletion, and what another object replaced (409) neither.
fn gone(answer: Result<IgnoredAny, Error>) -> Result<(), Error> {
    match answer {
        Err(error) if !matches!(error.code(), Some(404 | 409)) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}
