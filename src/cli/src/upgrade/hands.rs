//! Requests to the cluster.

use std::path::Path;

use anyhow::{Context as _, bail};
use cluster::access::Access;
use cluster::wire::{self, RequestBody};
use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::object::ClusterObject;
use super::status::ClusterSnapshot;
use super::version::NAME;
use crate::kubeconfig::ClusterArgs;

const VERSIONS: &str = "/apis/config.openshift.io/v1/clusterversions";
const OPERATORS: &str = "/apis/config.openshift.io/v1/clusteroperators";
const POOLS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools";
const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
const NODES: &str = "/api/v1/nodes";
const MACHINE_CONFIG_OPERATOR: &str = "/apis/apps/v1/namespaces/openshift-machine-config-operator/deployments/machine-config-operator";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterversions.config.openshift.io";
const ALERTS: &str = "/api/v1/namespaces/openshift-monitoring/services/https:thanos-querier:9091/proxy/api/v1/alerts";

/// The field that accepted risks are in.
const ACCEPT_RISKS: &str = "spec.desiredUpdate.acceptRisks";

/// Access to a cluster.
pub(super) struct ClusterHands {
    access: Access,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    items: Vec<ClusterObject>,
}

impl ClusterHands {
    /// With the kubeconfig that is named, or that is where tools keep it.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn new(arguments: &ClusterArgs) -> anyhow::Result<Self> {
        let access = arguments.access()?;
        Ok(Self { access })
    }

    /// ClusterVersion.
    pub(super) async fn version(&self) -> anyhow::Result<ClusterObject> {
        let path = format!("{VERSIONS}/{NAME}");
        self.access
            .get(&path)
            .await
            .context("cannot read ClusterVersion version")
    }

    pub(super) async fn patch_version(&self, patch: &Value) -> anyhow::Result<()> {
        let object = format!("{VERSIONS}/{NAME}?fieldManager=slipway");
        let body = RequestBody::MergePatch(patch);
        let changed: Result<Value, _> = self.access.send(Method::PATCH, &object, body).await;
        changed.context("cannot change ClusterVersion version")?;
        Ok(())
    }

    /// Refuses where the API server would drop the field.
    pub(super) async fn check_accept_risks(&self) -> anyhow::Result<()> {
        let definition: ClusterObject = self
            .access
            .get(DEFINITION)
            .await
            .context("cannot read the definition of ClusterVersion")?;
        let field = "/schema/openAPIV3Schema/properties/spec/properties/desiredUpdate/properties/acceptRisks";
        let versions = definition.list("/spec/versions");
        if versions
            .iter()
            .all(|version| version.pointer(field).is_none())
        {
            bail!(
                "ClusterVersion of this cluster has no field {ACCEPT_RISKS}: it cannot accept risks"
            );
        }
        Ok(())
    }

    /// Alerts, of a file or of the cluster's own monitoring.
    pub(super) async fn alerts(&self, file: Option<&Path>) -> anyhow::Result<Value> {
        match file {
            Some(path) => {
                let shown = path.display();
                let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
                serde_json::from_slice(&bytes).with_context(|| format!("file {shown}"))
            }
            None => Ok(self.access.get(ALERTS).await?),
        }
    }

    /// All that the status reads. What a cluster has no kind for is empty.
    pub(super) async fn snapshot(&self, alerts: Option<&Path>) -> anyhow::Result<ClusterSnapshot> {
        let (version, operators, pools, nodes, configs, deployment, alerts_found) = tokio::join!(
            self.version(),
            self.list(OPERATORS, RequestBody::Empty),
            self.list(POOLS, RequestBody::Empty),
            self.list(NODES, RequestBody::Empty),
            self.list(CONFIGS, RequestBody::MetadataList),
            self.access.get::<ClusterObject>(MACHINE_CONFIG_OPERATOR),
            self.alerts(alerts),
        );
        let machine_config_image = match deployment {
            Ok(deployment) => {
                let image = deployment.text("/spec/template/spec/containers/0/image");
                Some(image.to_owned()).filter(|image| !image.is_empty())
            }
            Err(error) if error.code() == Some(404) => None,
            Err(error) => return Err(error.into()),
        };
        let alerts_found = match (alerts_found, alerts) {
            (Ok(found), _) => Some(found),
            (Err(error), Some(_)) => return Err(error),
            (Err(error), None) => {
                crate::output::warn(&format!("alerts are not known: {error:#}"));
                None
            }
        };
        Ok(ClusterSnapshot {
            version: version?,
            operators: operators?,
            pools: pools?,
            nodes: nodes?,
            configs: configs?,
            machine_config_image,
            alerts: alerts_found,
        })
    }

    async fn list(
        &self,
        path: &str,
        body: RequestBody<'_>,
    ) -> Result<Vec<ClusterObject>, wire::Error> {
        match self.access.send::<Listed>(Method::GET, path, body).await {
            Ok(listed) => Ok(listed.items),
            Err(error) if error.code() == Some(404) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
