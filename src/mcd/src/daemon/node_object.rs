//! The MachineConfigNode of this node: its status, written by the kubelet's identity.
//!
//! One task follows the Node and writes what [`conditions`] makes of it, only where that differs.
//! It reads the object once, and then caches the responses to its own writes, also those of
//! the process before, which are kept on the host: no request is sent to the API server while the
//! Node does not change. The controller makes the object, and names it on the Node where an older
//! one was deleted: only then it is read again.
//!
//! - [`conditions`]: what it shows
//! - `images`: the OS images of a node in image mode
//! - [`kept`]: what it showed last, on the host

use std::sync::Arc;
use std::time::Duration;

use api::machineconfiguration::machine_config_node::{
    DesiredImage, IrreconcilableChange, NodeConditionType,
};
use api::machineconfiguration::{
    MachineConfigNode, MachineConfigNodeStatus, NodeStatus, PhaseName, annotation,
};
use chassis::backoff::Backoff;
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use cluster::access::Access;
use cluster::path;
use cluster::wire::{self, RequestBody};
use http::Method;
use jiff::Timestamp;
use node::view::Node;
use node::watch::ObservedNode;
use node_update::plan::Target;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::publish::MOMENT;
use kept::{KeptNodeObject, KeptStatus};

pub mod conditions;
mod images;
pub mod kept;

/// Who owns the fields: the manager that clients of OpenShift's MCO know.
const MANAGER: &str = "machine-config-operator";

/// First and longest wait before an object that is missing or cannot be written is read again.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(10));

/// Writes for one change of the Node, at most: an API server that returns another status than
/// it was given must not be written to for ever.
const STEPS: usize = 4;

/// The phase that the object shows, or that could not be shown.
pub type Reported = Option<PhaseName>;

/// Reads in what the host differs from the configuration that it is in, without a way to change it.
pub type ReadDifferences = Box<dyn Fn() -> Vec<IrreconcilableChange> + Send>;

/// Writes the status of one node's MachineConfigNode.
pub struct NodeObject {
    access: Arc<Access>,
    path: String,
    name: String,
    now: fn() -> Timestamp,
    differences: ReadDifferences,
    /// What they were when the node came to rest in a configuration, and its name.
    differs: Option<(String, Vec<IrreconcilableChange>)>,
    last: Option<LastWritten>,
    /// What the process before knew, until it was looked for.
    kept: KeptStatus,
    is_new: bool,
    /// The object that the Node named last.
    renewed: Option<String>,
}

/// The object as it was last read or written.
#[derive(Debug)]
struct LastWritten {
    /// Of the Node: another one has another object.
    node: String,
    generation: Option<i64>,
    /// What its spec has the node be in.
    desired: Option<Target>,
    status: MachineConfigNodeStatus,
}

/// What is read of a MachineConfigNode.
#[derive(Debug, Deserialize)]
struct Wire {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Option<MachineConfigNodeStatus>,
}

#[derive(Debug, Deserialize)]
struct Meta {
    #[serde(default)]
    generation: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    config_version: Version,
    config_image: Option<DesiredImage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Version {
    desired: Option<String>,
}

impl std::fmt::Debug for NodeObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeObject")
            .field("name", &self.name)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl NodeObject {
    /// The object of the node `name`; what it shows is kept in `kept` for the next process.
    pub fn new(
        access: Arc<Access>,
        name: &str,
        now: fn() -> Timestamp,
        differences: ReadDifferences,
        kept: KeptStatus,
    ) -> Self {
        Self {
            kept,
            is_new: true,
            differences,
            differs: None,
            access,
            path: path::object::<MachineConfigNode>(name),
            name: name.to_owned(),
            now,
            last: None,
            renewed: None,
        }
    }

    /// Follows the Node until the shutdown; `reported` gets each phase that was written, or that an
    /// API server refused.
    pub async fn keep(
        mut self,
        mut seen: watch::Receiver<ObservedNode>,
        reported: watch::Sender<Reported>,
        mut shutdown: Shutdown,
    ) {
        tokio::select! {
            () = shutdown.requested() => {}
            () = self.follow(&mut seen, &reported) => {}
        }
    }

    async fn follow(
        &mut self,
        seen: &mut watch::Receiver<ObservedNode>,
        reported: &watch::Sender<Reported>,
    ) {
        let mut retry = Backoff::new(RETRY.0, RETRY.1);
        let mut due = None;
        loop {
            let node = seen.borrow_and_update().clone();
            if node.as_deref().is_some_and(is_on_its_way) {
                let due = *due.get_or_insert_with(|| Instant::now() + MOMENT);
                // The last of several steps is written.
                match timeout_at(due, seen.changed()).await {
                    Ok(Ok(())) => continue,
                    // The sender lives as long as the daemon.
                    Ok(Err(_)) => return,
                    Err(_) => {}
                }
            }
            due = None;
            let result = match &node {
                Some(node) => self.write(node).await,
                None => Ok(()),
            };
            reported.send_replace(phase(node.as_ref()));
            let wait = match result {
                Ok(()) => {
                    retry.reset();
                    None
                }
                Err(error) => {
                    if retry.failures() == 0 {
                        tracing::info!(node = self.name, error = %Chain(&error), "cannot write the MachineConfigNode yet");
                    }
                    let delay = error.retry_after().unwrap_or_else(|| retry.next_delay());
                    Some(Instant::now() + delay)
                }
            };
            // Where the object cannot be written nothing waits for it.
            loop {
                tokio::select! {
                    changed = seen.changed() => match changed {
                        Err(_) => return,
                        Ok(()) if wait.is_none() => break,
                        // It is there now.
                        Ok(()) if self.is_renewed(seen.borrow().as_ref()) => break,
                        Ok(()) => {
                            let now = phase(seen.borrow_and_update().as_ref());
                            reported.send_replace(now);
                        }
                    },
                    () = sleep_until(wait.unwrap_or_else(Instant::now)), if wait.is_some() => break,
                }
            }
        }
    }

    /// Writes what `node` shows, unless it stands there.
    async fn write(&mut self, node: &Node) -> Result<(), wire::Error> {
        let is_renewed = renewed(node) != self.renewed.as_deref();
        let last = match self.last.take() {
            Some(last) if last.node == node.uid && !is_renewed => Some(last),
            _ if std::mem::take(&mut self.is_new) => self.kept.read(node).map(LastWritten::from),
            _ => None,
        };
        let mut last = match last {
            Some(last) => last,
            None => LastWritten::of(node, self.access.get(&self.path).await?),
        };
        self.renewed = renewed(node).map(str::to_owned);
        for _ in 0..STEPS {
            let (generation, before) = (last.generation_for(node), &last.status);
            let mut next = conditions::settled(node, generation, before, (self.now)());
            if last.has_images() {
                next.config_image = images::shown(node, &next);
            }
            if let Some(differences) = self.differences_at_rest(node) {
                next.irreconcilable_changes = differences;
            }
            if next == last.status {
                break;
            }
            let status = format!("{}/status?fieldManager={MANAGER}&force=true", self.path);
            let body = self.body(&next);
            let written = self
                .access
                .send(Method::PATCH, &status, RequestBody::Apply(&body))
                .await?;
            last = LastWritten::of(node, written);
        }
        self.kept.write(node, || {
            let spec = (last.generation, last.desired.as_ref());
            KeptNodeObject::of(node, spec, &last.status)
        });
        self.last = Some(last);
        Ok(())
    }

    /// Where the host is not what its configuration says, read once it rests in that; `None` while
    /// it does not.
    fn differences_at_rest(&mut self, node: &Node) -> Option<Vec<IrreconcilableChange>> {
        let status = NodeStatus::read(&node.annotations);
        let current = status.current_config.clone().filter(|_| status.is_done())?;
        let read = self.differs.take().filter(|(config, _)| *config == current);
        let (_, differences) = self
            .differs
            .insert(read.unwrap_or_else(|| (current, (self.differences)())));
        Some(differences.clone())
    }

    /// Whether the Node names another object than before.
    fn is_renewed(&self, node: Option<&Arc<Node>>) -> bool {
        node.is_some_and(|node| renewed(node) != self.renewed.as_deref())
    }

    /// The fields that are the daemon's. Conditions of other writers stay theirs.
    fn body(&self, status: &MachineConfigNodeStatus) -> Value {
        let is_known = |r#type: &NodeConditionType| !matches!(r#type, NodeConditionType::Other(_));
        let conditions = status.conditions.iter();
        let conditions: Vec<_> = conditions.filter(|it| is_known(&it.r#type)).collect();
        let mut fields = serde_json::Map::from_iter([
            ("conditions".to_owned(), json!(conditions)),
            ("configVersion".to_owned(), json!(status.config_version)),
            (
                "observedGeneration".to_owned(),
                json!(status.observed_generation),
            ),
        ]);
        // What is left out is removed by the server.
        if let Some(images) = &status.config_image {
            fields.insert("configImage".to_owned(), json!(images));
        }
        if !status.pinned_image_sets.is_empty() {
            let sets = json!(status.pinned_image_sets);
            fields.insert("pinnedImageSets".to_owned(), sets);
        }
        if !status.irreconcilable_changes.is_empty() {
            let changes = json!(status.irreconcilable_changes);
            fields.insert("irreconcilableChanges".to_owned(), changes);
        }
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfigNode",
            "metadata": { "name": self.name },
            "status": fields,
        })
    }
}

/// The object that the Node names, where an older one was deleted.
fn renewed(node: &Node) -> Option<&str> {
    node.annotation(annotation::NODE_OBJECT)
}

/// Whether the next step of an update may follow at once, and nothing waits for this one.
fn is_on_its_way(node: &Node) -> bool {
    let status = NodeStatus::read(&node.annotations);
    let is_a_step = matches!(
        status.phase(),
        Some(
            PhaseName::Fetching
                | PhaseName::Draining
                | PhaseName::Applying
                | PhaseName::Verifying
                | PhaseName::Finishing
        )
    );
    is_a_step && !status.state().is_failed()
}

fn phase(node: Option<&Arc<Node>>) -> Reported {
    NodeStatus::read(&node?.annotations).phase()
}

impl From<KeptNodeObject> for LastWritten {
    fn from(kept: KeptNodeObject) -> Self {
        Self {
            desired: kept.target(),
            node: kept.node,
            generation: kept.generation,
            status: kept.status,
        }
    }
}

impl LastWritten {
    fn of(node: &Node, read: Wire) -> Self {
        let Spec {
            config_version,
            config_image,
        } = read.spec;
        Self {
            node: node.uid.clone(),
            generation: read.metadata.generation,
            desired: config_version.desired.map(|config| Target {
                config,
                image: config_image.map(|image| image.desired_image),
            }),
            status: read.status.unwrap_or_default(),
        }
    }

    /// Whether images are shown: a definition without the feature `ImageModeStatusReporting` has no
    /// place for them, and the API server would refuse the whole status.
    fn has_images(&self) -> bool {
        let desired = self.desired.as_ref();
        desired.is_some_and(|desired| desired.image.is_some()) || self.status.config_image.is_some()
    }

    /// The generation that is observed with `node`. The controller writes each assignment into the
    /// spec, too: one that was not read yet is another generation.
    fn generation_for(&self, node: &Node) -> Option<i64> {
        let assigned = NodeStatus::read(&node.annotations);
        let is_read = self.desired.as_ref().is_none_or(|read| {
            let is_same_image = !self.has_images() || assigned.desired_image == read.image;
            is_same_image && assigned.desired_config.as_ref() == Some(&read.config)
        });
        let unread = i64::from(!is_read);
        self.generation.map(|read| read.saturating_add(unread))
    }
}

#[cfg(test)]
mod tests;
