//! Requests to the cluster.

use std::path::Path;

use anyhow::{Context as _, bail};
use cluster::access::Access;
use cluster::wire::{self, RequestBody};
use http::Method;
use release::progress::{self, ProgressRecord};
use serde::Deserialize;
use serde_json::Value;

use super::alert::AlertView;
use super::status::ClusterSnapshot;
use super::timeline::TimelineInputs;
use crate::cluster_version::{self, NAME, VERSIONS};
use crate::kubeconfig::ClusterArgs;
use crate::object::{ClusterObject, text};

const OPERATORS: &str = "/apis/config.openshift.io/v1/clusteroperators";
const POOLS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools";
const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
const NODES: &str = "/api/v1/nodes";
const NODE_EVENTS: &str = "/api/v1/events?fieldSelector=involvedObject.kind%3DNode";
const MACHINE_CONFIG_OPERATOR: &str = "/apis/apps/v1/namespaces/openshift-machine-config-operator/deployments/machine-config-operator";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterversions.config.openshift.io";
const ALERTS: &str = "/api/v1/namespaces/openshift-monitoring/services/https:thanos-querier:9091/proxy/api/v1/alerts";

/// Container of that Deployment whose image is the operator's; others may stand before it.
const OPERATOR_CONTAINER: &str = "machine-config-operator";

/// The field that accepted risks are in.
const ACCEPT_RISKS: &str = "spec.desiredUpdate.acceptRisks";

/// Access to a cluster.
pub(crate) struct ClusterHands {
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
    pub(crate) fn new(arguments: &ClusterArgs) -> anyhow::Result<Self> {
        let access = arguments.access()?;
        Ok(Self { access })
    }

    /// ClusterVersion.
    pub(crate) async fn version(&self) -> anyhow::Result<ClusterObject> {
        cluster_version::read(&self.access).await
    }

    /// Changes ClusterVersion, or has the API server check the change only.
    pub(super) async fn patch_version(&self, patch: &Value, is_dry: bool) -> anyhow::Result<()> {
        let dry = if is_dry { "&dryRun=All" } else { "" };
        let object = format!("{VERSIONS}/{NAME}?fieldManager=slipway{dry}");
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

    /// All that the status reads, at once, each list in one request. What a cluster has no kind for
    /// is empty. What cannot be read besides ClusterVersion is empty too, and named.
    ///
    /// # Errors
    /// ClusterVersion, or a file of alerts, cannot be read.
    pub(super) async fn snapshot(&self, alerts: Option<&Path>) -> anyhow::Result<ClusterSnapshot> {
        let (snapshot, found) = tokio::join!(self.objects(), self.alerts(alerts));
        let mut snapshot = snapshot?;
        match (found, alerts) {
            (Ok(found), _) => {
                snapshot.alerts_unread = AlertView::check_whole(&found).err();
                snapshot.alerts = Some(found);
            }
            (Err(error), Some(_)) => return Err(error),
            (Err(error), None) => snapshot.alerts_unread = Some(format!("{error:#}")),
        }
        Ok(snapshot)
    }

    /// All of a snapshot but alerts.
    async fn objects(&self) -> anyhow::Result<ClusterSnapshot> {
        let record = format!(
            "/api/v1/namespaces/{}/configmaps/{}",
            progress::NAMESPACE,
            progress::NAME
        );
        let (version, operators, pools, nodes, configs, deployment, record) = tokio::join!(
            self.version(),
            self.list(OPERATORS, RequestBody::Empty),
            self.list(POOLS, RequestBody::Empty),
            self.list(NODES, RequestBody::Empty),
            self.list(CONFIGS, RequestBody::MetadataList),
            self.access.get::<ClusterObject>(MACHINE_CONFIG_OPERATOR),
            self.access.get::<ClusterObject>(&record),
        );
        let mut unread = Vec::new();
        let failed = |what: &str, error: wire::Error| {
            format!("cannot read {what}: {:#}", anyhow::Error::from(error))
        };
        let mut listed = |kind: &str, list: Result<Vec<ClusterObject>, wire::Error>| {
            list.unwrap_or_else(|error| {
                unread.push(failed(kind, error));
                Vec::new()
            })
        };
        let operators = listed("ClusterOperators", operators);
        let pools = listed("MachineConfigPools", pools);
        let nodes = listed("Nodes", nodes);
        let configs = listed("MachineConfigs", configs);
        let machine_config_image = match deployment {
            Ok(deployment) => container_image(&deployment, OPERATOR_CONTAINER),
            Err(error) if error.code() == Some(404) => None,
            Err(error) => {
                unread.push(failed("Deployment machine-config-operator", error));
                None
            }
        };
        Ok(ClusterSnapshot {
            record: read_record(record),
            version: version?,
            operators,
            pools,
            nodes,
            configs,
            machine_config_image,
            alerts: None,
            alerts_unread: None,
            unread,
        })
    }

    /// All that the timeline reads.
    pub(super) async fn timeline(&self) -> anyhow::Result<TimelineInputs> {
        let events = self.list(NODE_EVENTS, RequestBody::Empty);
        let (cluster, events) = tokio::join!(self.objects(), events);
        let cluster = cluster?;
        if let Some(unread) = cluster.unread.first() {
            bail!("{unread}");
        }
        Ok(TimelineInputs {
            cluster,
            events: events.context("cannot list Events")?,
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

/// The image of a Deployment's container.
fn container_image(deployment: &ClusterObject, name: &str) -> Option<String> {
    let containers = deployment.list("/spec/template/spec/containers");
    let mut found = containers
        .iter()
        .filter(|container| text(container, "/name") == name);
    let image = text(found.next()?, "/image");
    (!image.is_empty()).then(|| image.to_owned())
}

/// The version operator's record of the update. OpenShift's own keeps none, and without it the
/// status says less.
fn read_record(map: Result<ClusterObject, wire::Error>) -> Option<ProgressRecord> {
    let name = format!("ConfigMap {}/{}", progress::NAMESPACE, progress::NAME);
    let map = match map {
        Ok(map) => map,
        Err(error) if error.code() == Some(404) => return None,
        Err(error) => {
            let error = anyhow::Error::from(error);
            crate::output::warn(&format!("cannot read {name}: {error:#}"));
            return None;
        }
    };
    let pointer = format!("/data/{}", progress::KEY);
    let parsed = ProgressRecord::parse(map.text(&pointer));
    parsed
        .inspect_err(|error| {
            crate::output::warn(&format!("{name}: data.{}: {error}", progress::KEY));
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_image_is_that_of_the_named_container() {
        let deployment = |containers: Value| {
            ClusterObject(
                json!({ "spec": { "template": { "spec": { "containers": containers } } } }),
            )
        };
        let proxy = json!({ "name": "kube-rbac-proxy", "image": "proxy" });
        let own = json!({ "name": OPERATOR_CONTAINER, "image": "operator" });
        for (containers, expected) in [
            (json!([proxy, own]), Some("operator")),
            (json!([proxy]), None),
            (json!([]), None),
        ] {
            let image = container_image(&deployment(containers), OPERATOR_CONTAINER);
            assert_eq!(image.as_deref(), expected);
        }
    }

    #[tokio::test]
    async fn a_dry_run_has_the_server_check_and_changes_nothing() {
        let object = format!("{VERSIONS}/{NAME}?fieldManager=slipway");
        let patch = json!({ "spec": { "channel": "fast-4.18" } });
        let dry = format!("{object}&dryRun=All");
        let calls =
            [dry, object].map(|path| Call::patch(&path, patch.clone(), Reply::ok(json!({}))));
        let (script, client) = Script::start(calls.to_vec());
        let hands = ClusterHands {
            access: Access::of_client(client),
        };
        let sent = async {
            hands.patch_version(&patch, true).await?;
            hands.patch_version(&patch, false).await
        };
        script.drive(sent).await.unwrap();
    }
}
