//! A rollout as a file: what the judgement reads of it, as compressed JSON.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use lab::audit::{Event, Verb};
use serde_json::{Map, Value, json};

use crate::laws::requests;
use crate::rollout::Rollout;
use crate::wire;

impl Rollout {
    /// Writes it, without what no law reads.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or what is left would be judged otherwise.
    pub fn keep(&self, path: &Path) -> Result<()> {
        let mut kept = self.clone();
        kept.record.audit = self.record.audit.iter().filter_map(slim).collect();
        for fetches in kept.record.fetches.values_mut() {
            fetches.retain(|request| request.is_blob_fetch() || request.is_manifest_fetch());
        }
        ensure!(
            kept.judge() == self.judge(),
            "the record is judged otherwise without what no law reads"
        );
        let cannot = || format!("cannot write {}", path.display());
        let file = File::create(path).with_context(cannot)?;
        let mut encoder = GzEncoder::new(file, Compression::best());
        serde_json::to_writer(&mut encoder, &kept).with_context(cannot)?;
        encoder.finish().with_context(cannot)?;
        Ok(())
    }

    /// Reads one that [`Self::keep`] wrote.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn read(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        serde_json::from_reader(BufReader::new(GzDecoder::new(file))).with_context(cannot)
    }
}

/// What is read of an event; none where nothing is.
fn slim(event: &Event) -> Option<Event> {
    let is_of_a_daemon = requests::is_of_a_daemon(event);
    let is_ours = is_of_a_daemon || requests::is_of_an_account(event);
    let is_patch = is_ours && event.verb == Verb::Patch;
    let is_refused = event
        .status
        .as_ref()
        .is_some_and(|status| status.code == 403);
    let kind = match () {
        () if event.concerns("", "nodes") => Some(node()),
        () if event.concerns("", "pods") => Some(pod()),
        () => None,
    };
    let is_write = event.succeeded() && event.response.is_some();
    let is_eviction = event
        .object
        .as_ref()
        .is_some_and(|object| object.subresource == "eviction");
    let is_read = is_of_a_daemon
        || is_patch
        || is_ours && is_refused
        || kind.is_some() && (is_write || is_eviction);
    let kind = kind.unwrap_or_else(|| json!({}));
    let request = event.request.clone().filter(|_| is_patch);
    let grace = || {
        let grace = event.request.as_ref()?.get("gracePeriodSeconds")?;
        Some(json!({ "gracePeriodSeconds": grace }))
    };
    let response = event.response.as_ref();
    is_read.then(|| Event {
        audit_id: String::new(),
        request: request.clone().or_else(grace),
        response: response.map(|response| part(response, Some(&kind), request.as_ref())),
        ..event.clone()
    })
}

/// What is read of a Node.
fn node() -> Value {
    let [config, state, topology, phase, waits_for] = [
        wire::CURRENT_CONFIG,
        wire::STATE,
        wire::CONTROL_PLANE_TOPOLOGY,
        wire::PHASE,
        wire::WAITS_FOR,
    ];
    json!({
        "kind": true,
        "metadata": {
            "name": true,
            "resourceVersion": true,
            "annotations": { config: true, state: true, topology: true, phase: true, waits_for: true },
        },
        "spec": { "unschedulable": true },
        "status": { "conditions": { "type": true, "status": true } },
    })
}

/// What is read of a pod.
fn pod() -> Value {
    json!({
        "kind": true,
        "metadata": {
            "namespace": true,
            "name": true,
            "uid": true,
            "resourceVersion": true,
            "labels": true,
            "annotations": { "kubernetes.io/config.mirror": true },
            "ownerReferences": true,
            "deletionTimestamp": true,
            "deletionGracePeriodSeconds": true,
        },
        "spec": { "nodeName": true },
        "status": { "phase": true, "conditions": { "type": true, "status": true } },
    })
}

/// Of an object, what a mask names, and what a patch that led to it has. `true` names everything.
fn part(object: &Value, mask: Option<&Value>, patch: Option<&Value>) -> Value {
    if mask == Some(&Value::Bool(true)) {
        return object.clone();
    }
    match object {
        Value::Object(members) => {
            let of = |key: &str, value: &Value| {
                let mask = mask.and_then(|mask| mask.get(key));
                let patch = patch.and_then(|patch| patch.get(key));
                (mask.is_some() || patch.is_some()).then(|| part(value, mask, patch))
            };
            let kept = members.iter();
            let kept = kept.filter_map(|(key, value)| Some((key.clone(), of(key, value)?)));
            Value::Object(kept.collect::<Map<_, _>>())
        }
        // Of a list, a patch names the whole.
        Value::Array(items) if patch.is_none() => {
            items.iter().map(|item| part(item, mask, None)).collect()
        }
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            object.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_object_is_kept_what_is_read_or_was_patched() {
        let object = json!({
            "kind": "Node",
            "metadata": { "name": "a", "uid": "1", "labels": { "b": "c", "d": "e" } },
            "status": { "conditions": [{ "type": "Ready", "status": "True", "reason": "x" }] },
        });
        let patch = json!({ "metadata": { "labels": { "b": "c" } } });
        let expected = json!({
            "kind": "Node",
            "metadata": { "name": "a", "labels": { "b": "c" } },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        assert_eq!(part(&object, Some(&node()), Some(&patch)), expected);
    }
}
