//! What was applied of each object: whether it has to be applied again.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cluster::list::ObjectHead;
use release::manifest::ObjectId;
use release::version_hash::VersionHash;
use serde_json::Value;

/// The objects that were applied since the process started, as they were after it.
#[derive(Debug, Default)]
pub struct AppliedObjects(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    applied: HashMap<ObjectId, LastApplied>,
    permanently_failed: HashSet<ObjectId>,
}

/// An object as it was after the last apply.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LastApplied {
    key: u64,
    version: String,
    generation: Option<i64>,
    metadata: u64,
    is_ready: bool,
}

/// Whether an object has to be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It is as it was after the last apply of the same.
    Nothing,
    /// The same, and its health has to be read.
    Health,
    /// It was not applied, or has changed.
    Apply,
}

impl AppliedObjects {
    /// Whether an object has to be applied. `key` stands for what is to be applied.
    pub fn need(&self, id: &ObjectId, key: u64, head: Option<&ObjectHead>) -> Need {
        let state = self.state();
        let (Some(last), Some(head)) = (state.applied.get(id), head) else {
            return Need::Apply;
        };
        if last.key != key {
            return Need::Apply;
        }
        if last.version == head.resource_version {
            return if last.is_ready {
                Need::Nothing
            } else {
                Need::Health
            };
        }
        // Its status has changed, and nothing that is applied.
        let is_counted = head.generation.is_some() && head.generation == last.generation;
        if is_counted && last.metadata == metadata_hash(head) {
            Need::Health
        } else {
            Need::Apply
        }
    }

    /// Whether the same was applied before: then another writer has changed it.
    pub fn was_applied(&self, id: &ObjectId, key: u64) -> bool {
        let state = self.state();
        state.applied.get(id).is_some_and(|last| last.key == key)
    }

    /// Remembers an object that was applied, or read.
    pub fn remember(&self, id: &ObjectId, key: u64, object: &Value, is_ready: bool) {
        let head = object.get("metadata").cloned().unwrap_or_default();
        // A response without metadata is remembered as one that no list has.
        let head: ObjectHead = serde_json::from_value(head).unwrap_or_default();
        self.remember_head(id, key, head, is_ready);
    }

    /// Remembers an object by its metadata.
    pub fn remember_head(&self, id: &ObjectId, key: u64, head: ObjectHead, is_ready: bool) {
        let last = LastApplied {
            key,
            metadata: metadata_hash(&head),
            version: head.resource_version,
            generation: head.generation,
            is_ready,
        };
        self.state().applied.insert(id.clone(), last);
    }

    /// Notes that an object has failed for good: it is recreated when its turn comes again.
    pub fn mark_failed(&self, id: &ObjectId) {
        self.state().permanently_failed.insert(id.clone());
    }

    /// Whether it was noted; the note goes.
    pub fn take_failed(&self, id: &ObjectId) -> bool {
        self.state().permanently_failed.remove(id)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of what is applied of an object's metadata.
fn metadata_hash(head: &ObjectHead) -> u64 {
    let parts = [&head.labels, &head.annotations, &head.owner_references];
    let hash = parts.iter().fold(VersionHash::default(), |hash, part| {
        hash.with(part.to_string().as_bytes()).with(b"\n")
    });
    hash.as_u64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn object_is_applied_again_only_if_something_applied_has_changed() {
        let objects = AppliedObjects::default();
        let id = ObjectId {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "n".to_owned(),
            name: "d".to_owned(),
        };
        let object = |version: &str, generation: i64, labels: Value| json!({ "metadata": { "name": "d", "resourceVersion": version, "generation": generation, "labels": labels } });
        let head = |object: &Value| -> ObjectHead {
            serde_json::from_value(object["metadata"].clone()).unwrap()
        };
        let applied = object("5", 2, json!({ "a": "b" }));
        assert_eq!(objects.need(&id, 1, Some(&head(&applied))), Need::Apply);
        objects.remember(&id, 1, &applied, true);
        let need = |key, object: Value| objects.need(&id, key, Some(&head(&object)));
        assert_eq!(need(1, applied.clone()), Need::Nothing);
        assert_eq!(need(2, applied.clone()), Need::Apply);
        assert_eq!(objects.need(&id, 1, None), Need::Apply);
        assert_eq!(need(1, object("6", 2, json!({ "a": "b" }))), Need::Health);
        assert_eq!(need(1, object("6", 3, json!({ "a": "b" }))), Need::Apply);
        assert_eq!(need(1, object("6", 2, json!({ "a": "c" }))), Need::Apply);
        objects.remember(&id, 1, &applied, false);
        assert_eq!(need(1, applied), Need::Health);
        // A kind that counts no generations.
        let plain = json!({ "metadata": { "name": "d", "resourceVersion": "5" } });
        objects.remember(&id, 1, &plain, true);
        let mut changed = plain.clone();
        changed["metadata"]["resourceVersion"] = json!("6");
        assert_eq!(need(1, plain), Need::Nothing);
        assert_eq!(need(1, changed), Need::Apply);
    }
}
