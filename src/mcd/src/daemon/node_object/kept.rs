//! What a MachineConfigNode showed last, kept on the host for the next process: a daemon that
//! starts need not ask for it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use api::machineconfiguration::{MachineConfigNodeStatus, NodeStatus, PhaseName, annotation};
use chassis::report::Chain;
use host::files::{Content, Root};
use node::view::Node;
use node_update::plan::{Mode, OwnerIds, Target};
use serde::{Deserialize, Serialize};

/// Where it is kept. In `/var`: an update ends behind a reboot.
const KEPT: &str = "/var/lib/slipway/machine-config-node.json";

/// The object as it was written for a Node.
///
/// It holds for the phase that the Node showed then: one that went on since has been written to by
/// another process, and so may the object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptNodeObject {
    /// UID of the Node.
    pub node: String,
    /// The phase, and since when.
    phase: Option<String>,
    since: Option<String>,
    /// The object that the Node names.
    object: Option<String>,
    /// Generation of the object.
    pub generation: Option<i64>,
    /// What its spec has the node be in, as text.
    pub desired: Option<String>,
    pub status: MachineConfigNodeStatus,
}

impl KeptNodeObject {
    /// What was written for `node`; `spec` is the object's generation, and what it has the node be
    /// in.
    pub fn of(
        node: &Node,
        (generation, desired): (Option<i64>, Option<&Target>),
        status: &MachineConfigNodeStatus,
    ) -> Self {
        let value = |key| node.annotation(key).map(str::to_owned);
        Self {
            node: node.uid.clone(),
            phase: value(annotation::PHASE),
            since: value(annotation::SINCE),
            object: value(annotation::NODE_OBJECT),
            generation,
            desired: desired.map(Target::to_string),
            status: status.clone(),
        }
    }

    fn is_of(&self, node: &Node) -> bool {
        let target = self.target();
        let spec = (self.generation, target.as_ref());
        self.since.is_some() && *self == Self::of(node, spec, &self.status)
    }

    /// What its spec has the node be in.
    pub fn target(&self) -> Option<Target> {
        self.desired.as_deref().and_then(Target::parse)
    }
}

/// The file on the host.
#[derive(Debug)]
pub struct KeptStatus {
    root: PathBuf,
    kept: Option<KeptNodeObject>,
}

impl KeptStatus {
    /// The file of the host whose root is mounted at `root`.
    pub fn of(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            kept: None,
        }
    }

    /// What was kept, if it holds for `node`.
    pub fn read(&mut self, node: &Node) -> Option<KeptNodeObject> {
        let read = || -> anyhow::Result<Option<KeptNodeObject>> {
            let bytes = Root::open(&self.root, None)?.read(KEPT)?;
            let kept = bytes.map(|bytes| serde_json::from_slice(&bytes));
            kept.transpose().context(KEPT)
        };
        self.kept = read().unwrap_or_else(|error| {
            tracing::warn!(error = %Chain(&*error), "the last status of the MachineConfigNode is lost");
            None
        });
        self.kept.clone().filter(|kept| kept.is_of(node))
    }

    /// Keeps what was written for `node`, where a process may end next: at rest, and before a
    /// reboot.
    pub fn write(&mut self, node: &Node, kept: impl FnOnce() -> KeptNodeObject) {
        let phase = NodeStatus::read(&node.annotations).phase();
        if !matches!(phase, Some(PhaseName::Idle | PhaseName::Rebooting)) {
            return;
        }
        let kept = Some(kept());
        if self.kept == kept {
            return;
        }
        let put = || -> anyhow::Result<()> {
            let root = Root::open(&self.root, None)?;
            let bytes = serde_json::to_vec(&kept)?;
            let content = Content {
                bytes: &bytes,
                mode: Mode(0o600),
                owner: OwnerIds::ROOT,
            };
            Ok(root.replace(&root.locate(KEPT)?, content)?)
        };
        match put() {
            Ok(()) => self.kept = kept,
            Err(error) => {
                tracing::warn!(error = %Chain(&*error), "the status of the MachineConfigNode is not kept");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(phase: &str, since: &str) -> Node {
        let node = json!({ "metadata": { "name": "n", "uid": "u", "resourceVersion": "1", "annotations": {
            annotation::PHASE: phase, annotation::SINCE: since,
        }}});
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn a_status_holds_for_the_phase_that_it_was_written_for() {
        let host = tempfile::tempdir().unwrap();
        let status = MachineConfigNodeStatus::default();
        let target = Target::parse("a registry:5000/os").unwrap();
        let (idle, fetching) = (node("Idle", "1"), node("Fetching", "2"));
        let mut first = KeptStatus::of(host.path());
        for node in [&idle, &fetching] {
            first.write(node, || {
                KeptNodeObject::of(node, (Some(3), Some(&target)), &status)
            });
        }
        let read = |node: &Node| KeptStatus::of(host.path()).read(node);
        let kept = read(&idle).unwrap();
        assert_eq!(kept.target(), Some(target));
        assert_eq!((kept.generation, kept.status), (Some(3), status));
        assert_eq!(read(&fetching), None, "a phase in which no process ends");
        assert_eq!(read(&node("Idle", "4")), None, "the node went on since");
        let another = Node {
            uid: "v".to_owned(),
            ..idle.clone()
        };
        assert_eq!(read(&another), None, "a Node that was registered again");
        let mut named = idle.clone();
        named
            .annotations
            .insert(annotation::NODE_OBJECT.to_owned(), "m".to_owned());
        assert_eq!(read(&named), None, "an object that was recreated");
    }

    #[test]
    fn a_file_that_is_broken_is_none() {
        let host = tempfile::tempdir().unwrap();
        let root = Root::open(host.path(), None).unwrap();
        let content = Content {
            bytes: b"{",
            mode: Mode(0o600),
            owner: OwnerIds::ROOT,
        };
        root.replace(&root.locate(KEPT).unwrap(), content).unwrap();
        assert_eq!(KeptStatus::of(host.path()).read(&node("Idle", "1")), None);
    }
}
