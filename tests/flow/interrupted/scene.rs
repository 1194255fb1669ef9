//! A cluster of one node, and what is asked of it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::annotation;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use lab::audit;
use lab::host::{Boot, Host};
use lab::tree::Overlay;
use serde_json::{Value, json};
use tests::cluster::objects::{self, until};
use tests::cluster::{Binaries, Cluster, Image, NodeSpec};
use tests::logs;
use tests::observer::host::{self, Fact};

pub(crate) const NODE: &str = "worker-0";
pub(crate) const POOL: &str = "worker";

/// Name of the MachineConfig that is changed.
const CONFIG: &str = "60-change";

/// How long a change may take, a reboot included.
pub(crate) const DONE_WITHIN: Duration = Duration::from_mins(3);

/// How long a node may take to get into a phase.
pub(crate) const PHASE_WITHIN: Duration = Duration::from_mins(1);

const OBJECTS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: held
spec:
  replicas: 1
  selector:
    matchLabels: { app: held }
  template:
    metadata:
      labels: { app: held }
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - { name: held, image: lab/held }
";

const BUDGET: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: held
spec:
  minAvailable: 1
  selector:
    matchLabels: { app: held }
";

/// A cluster of one node, and where that started.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    /// The configuration that the node was born in.
    pub(crate) origin: String,
}

impl Scene {
    pub(crate) async fn start() -> Result<Self> {
        let logs = logs::folder("interrupted", "all-acts");
        let node = NodeSpec::new(NODE).proved_within_secs(15);
        let cluster = Cluster::start(&Binaries::built()?, &logs, OBJECTS, &[node]).await?;
        let origin = cluster.objects().target(POOL).await?;
        Ok(Self { cluster, origin })
    }

    /// Changes the configuration; the new target.
    pub(crate) async fn ask(&self, spec: &Value) -> Result<String> {
        let before = self.cluster.objects().target(POOL).await?;
        self.cluster.configure(CONFIG, POOL, spec).await?;
        self.cluster.next_target(POOL, &before).await
    }

    /// What the controller says of the control plane.
    pub(crate) async fn of_topology(&self, topology: Option<&str>) -> Result<()> {
        let annotations = json!({ (annotation::CONTROL_PLANE_TOPOLOGY): topology });
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.cluster.objects().patch_node(NODE, &patch).await
    }

    /// Whether the node is one of the control plane.
    pub(crate) async fn in_control_plane(&self, is_there: bool) -> Result<()> {
        let value = is_there.then_some("");
        let labels = json!({ "node-role.kubernetes.io/control-plane": value });
        let patch = json!({ "metadata": { "labels": labels } });
        self.cluster.objects().patch_node(NODE, &patch).await
    }

    pub(crate) async fn pause(&self, paused: bool) -> Result<()> {
        let patch = json!({ "spec": { "paused": paused } });
        self.cluster.objects().patch_pool(POOL, &patch).await
    }

    /// Asks for what the node was born in, and waits until it is Done in that.
    pub(crate) async fn back_to_origin(&self) -> Result<()> {
        self.cluster.remove_config(CONFIG).await?;
        self.cluster.all_done(POOL, &self.origin, DONE_WITHIN).await
    }

    pub(crate) fn os(&self, version: &str) -> Result<Image> {
        self.cluster.image(&Overlay::version(version))
    }

    /// Waits for the pod, and forbids that it is evicted.
    pub(crate) async fn hold_on(&self) -> Result<()> {
        self.cluster.objects().ready_pod(("app", "held")).await?;
        self.cluster.apply(BUDGET).await
    }

    pub(crate) fn no_budget(&self) -> Result<()> {
        let delete = [
            "delete",
            "poddisruptionbudget",
            "held",
            "--ignore-not-found",
        ];
        self.cluster.control_plane().kubectl(&delete)?;
        Ok(())
    }

    /// Reboots the host as somebody else would; it comes back as it was.
    pub(crate) async fn reboots_into_the_same(
        &self,
        before: &BTreeMap<String, String>,
    ) -> Result<()> {
        let booted = self.boots()?.pop().context("the host was never booted")?;
        let again = self.host()?.reboot()?;
        ensure!(
            again.deployment == booted.deployment && again.options == booted.options,
            "the host booted {} instead of {}",
            again.deployment,
            booted.deployment
        );
        // What is rehearsed again is there for a moment.
        until("the host to be what it was", PHASE_WITHIN, async || {
            let differences = host::differences(before, &host::snapshot(self.host()?)?);
            Ok(if differences.is_empty() {
                Ok(())
            } else {
                Err(differences.join("\n  "))
            })
        })
        .await
    }

    /// No eviction was asked for since.
    pub(crate) fn evicted_none(&self, since: Timestamp) -> Result<()> {
        let events = audit::load(&self.cluster.control_plane().audit_log())?;
        let evictions = audit::pods::evictions(&events);
        let evicted = evictions.iter().find(|eviction| eviction.received > since);
        ensure!(evicted.is_none(), "a pod was to be evicted: {evicted:?}");
        Ok(())
    }

    pub(crate) async fn draining_names_what_blocks(&self) -> Result<()> {
        let blocked = |node: &Node| {
            let reason = objects::annotation(node, annotation::REASON);
            objects::annotation(node, annotation::PHASE) == "Draining"
                && reason.contains("default/held-")
                && reason.contains("PodDisruptionBudget default/held")
        };
        self.node_is(
            "Draining, with the pod and its budget named",
            PHASE_WITHIN,
            blocked,
        )
        .await
    }

    pub(crate) async fn phase(&self, name: &str) -> Result<()> {
        let is_in = |node: &Node| objects::annotation(node, annotation::PHASE) == name;
        self.node_is(name, PHASE_WITHIN, is_in).await
    }

    /// Waits for an event about the node for each of these reasons.
    pub(crate) async fn says(&self, reasons: &[&str]) -> Result<()> {
        until("the events of the node", PHASE_WITHIN, async || {
            let events = self.cluster.objects().events().await?;
            let about: Vec<_> = events
                .iter()
                .filter(|event| event.involved_object.name.as_deref() == Some(NODE))
                .filter_map(|event| event.reason.as_deref())
                .collect();
            let missing = reasons.iter().find(|reason| !about.contains(reason));
            Ok(missing.map_or(Ok(()), |reason| Err(format!("no {reason} among {about:?}"))))
        })
        .await
    }

    pub(crate) async fn node_is(
        &self,
        what: &str,
        within: Duration,
        holds: impl Fn(&Node) -> bool,
    ) -> Result<()> {
        until(&format!("the node to be {what}"), within, async || {
            let node = self.cluster.objects().node(NODE).await?;
            Ok(if holds(&node) {
                Ok(())
            } else {
                Err(objects::says(&node))
            })
        })
        .await
    }

    pub(crate) fn runs(&self, image: &Image) -> Result<()> {
        let doubt = Fact::Booted {
            content: image.content.clone(),
        }
        .doubt(self.host()?)?;
        ensure!(doubt.is_none(), "{}", doubt.unwrap_or_default());
        Ok(())
    }

    pub(crate) fn host(&self) -> Result<&Host> {
        self.cluster.host(NODE)
    }

    pub(crate) fn boots(&self) -> Result<Vec<Boot>> {
        Ok(self.host()?.boots())
    }
}

/// A node with this layered image, or none.
pub(crate) fn layered_in(image: &Value) -> Value {
    json!({ "metadata": { "annotations": { (annotation::DESIRED_IMAGE): image } } })
}

/// A node with this target.
pub(crate) fn told(config: &str) -> Value {
    json!({ "metadata": { "annotations": { (annotation::DESIRED_CONFIG): config } } })
}
