//! Requests to the cluster.

use std::path::Path;

use anyhow::{Context as _, bail};
use api::config::{ClusterOperator, ClusterVersion, cluster_version::NAME};
use api::machineconfiguration::{MachineConfig, MachineConfigPool, NAMESPACE};
use cluster::access::Access;
use cluster::objects::Objects;
use cluster::path;
use cluster::wire::{self, RequestBody};
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use release::progress::{self, ProgressRecord};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::cluster_version;
use crate::decide::object::{ClusterObject, text};
use crate::decide::upgrade::alert::AlertView;
use crate::decide::upgrade::status::ClusterSnapshot;
use crate::decide::upgrade::timeline::TimelineInputs;
use crate::kubeconfig::ClusterArgs;

/// The Deployment of the machine-config operator, and its container whose image is the operator's;
/// others may stand before it.
const MACHINE_CONFIG_OPERATOR: &str = "machine-config-operator";

/// Service and port of the cluster's monitoring, as the API server's proxy names them.
const MONITORING: (&str, &str) = ("openshift-monitoring", "https:thanos-querier:9091");

/// The field that accepted risks are in.
const ACCEPT_RISKS: &str = "spec.desiredUpdate.acceptRisks";

/// Access to a cluster.
pub(crate) struct ClusterRequests {
    pub(super) access: Access,
}

#[derive(Default, Deserialize)]
struct Listed {
    #[serde(default)]
    items: Vec<ClusterObject>,
}

impl ClusterRequests {
    /// With the kubeconfig that is named, or that is where tools keep it.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn new(arguments: &ClusterArgs) -> anyhow::Result<Self> {
        let access = arguments.access()?;
        Ok(Self { access })
    }

    pub(crate) async fn version(&self) -> anyhow::Result<ClusterObject> {
        cluster_version::read(&self.access).await
    }

    /// Changes ClusterVersion, or has the API server check the change only.
    pub(super) async fn patch_version(&self, patch: &Value, is_dry: bool) -> anyhow::Result<()> {
        let versions = Objects::<ClusterVersion>::of_cluster(&self.access).manager("slipway");
        let versions = versions.dry_run(is_dry).read_as::<IgnoredAny>();
        let changed = versions.patch(NAME, patch).await;
        changed.context("cannot change ClusterVersion version")?;
        Ok(())
    }

    /// Refuses where the API server would drop the field.
    pub(super) async fn check_accept_risks(&self) -> anyhow::Result<()> {
        let definition = "clusterversions.config.openshift.io";
        let definition: ClusterObject = self
            .access
            .get(&path::object::<CustomResourceDefinition>(definition))
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
        if let Some(path) = file {
            let shown = path.display();
            let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
            return serde_json::from_slice(&bytes).with_context(|| format!("file {shown}"));
        }
        let (namespace, service) = MONITORING;
        let service = path::namespaced::<Service>(namespace, service);
        let alerts = format!("{service}/proxy/api/v1/alerts");
        Ok(self.access.get(&alerts).await?)
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
        let record = path::namespaced::<ConfigMap>(progress::NAMESPACE, progress::NAME);
        let deployment = path::namespaced::<Deployment>(NAMESPACE, MACHINE_CONFIG_OPERATOR);
        let (version, operators, pools, nodes, configs, deployment, record) = tokio::join!(
            self.version(),
            self.list(path::all::<ClusterOperator>(), RequestBody::Empty),
            self.list(path::all::<MachineConfigPool>(), RequestBody::Empty),
            self.list(path::all::<Node>(), RequestBody::Empty),
            self.list(path::all::<MachineConfig>(), RequestBody::MetadataList),
            self.access.find::<ClusterObject>(&deployment),
            self.access.find::<ClusterObject>(&record),
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
            Ok(deployment) => {
                deployment.and_then(|it| container_image(&it, MACHINE_CONFIG_OPERATOR))
            }
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
        let events = path::all::<Event>() + "?fieldSelector=involvedObject.kind%3DNode";
        let events = self.list(events, RequestBody::Empty);
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
        path: String,
        body: RequestBody<'_>,
    ) -> Result<Vec<ClusterObject>, wire::Error> {
        let listed = self.access.send(Method::GET, &path, body).await;
        Ok(wire::found::<Listed>(listed)?.unwrap_or_default().items)
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
fn read_record(map: Result<Option<ClusterObject>, wire::Error>) -> Option<ProgressRecord> {
    let name = format!("ConfigMap {}/{}", progress::NAMESPACE, progress::NAME);
    let map = match map {
        Ok(map) => map?,
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
        let own = json!({ "name": MACHINE_CONFIG_OPERATOR, "image": "operator" });
        for (containers, expected) in [
            (json!([proxy, own]), Some("operator")),
            (json!([proxy]), None),
            (json!([]), None),
        ] {
            let image = container_image(&deployment(containers), MACHINE_CONFIG_OPERATOR);
            assert_eq!(image.as_deref(), expected);
        }
    }

    #[tokio::test]
    async fn a_dry_run_has_the_server_check_and_changes_nothing() {
        let object = path::object::<ClusterVersion>(NAME) + "?fieldManager=slipway";
        let patch = json!({ "spec": { "channel": "fast-4.18" } });
        let dry = format!("{object}&dryRun=All");
        let calls =
            [dry, object].map(|path| Call::patch(&path, patch.clone(), Reply::ok(json!({}))));
        let (script, client) = Script::start(calls.to_vec());
        let requests = ClusterRequests {
            access: Access::of_client(client),
        };
        let sent = async {
            requests.patch_version(&patch, true).await?;
            requests.patch_version(&patch, false).await
        };
        script.drive(sent).await.unwrap();
    }
}
