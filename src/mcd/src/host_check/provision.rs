//! What a host was provisioned with: its record, and the first annotations of its Node.

use std::collections::BTreeMap;

use api::machineconfiguration::annotation;
use chassis::report::Chain;
use host::files::{Found, Root};
use host::record;
use node_update::well_known::{FIRST_ANNOTATIONS, FIRST_ANNOTATIONS_USED, RECORD_CONFIG};

use super::Judged;

/// Judges by the two files that provisioning writes (`deploy/README.md`, "Bootstrap").
pub(super) fn record(root: &Root) -> Judged {
    let recorded = match record::read(root).and_then(|found| {
        let decoded = found.as_ref().map(record::Record::machine_config);
        decoded.transpose().map(|_| found)
    }) {
        Ok(Some(record)) => record.into_target().config,
        Ok(None) => {
            return Judged::missing(format!(
                "{RECORD_CONFIG} is not there: write the MachineConfig that the host is configured \
                 by, as JSON, and {FIRST_ANNOTATIONS} with {} and {}, both its name",
                annotation::CURRENT_CONFIG,
                annotation::DESIRED_CONFIG
            ));
        }
        Err(error) => return Judged::missing(Chain(&error).to_string()),
    };
    let named = match first_annotations(root) {
        Ok(named) => named,
        Err(why) => return Judged::missing(why),
    };
    match named {
        First::Named(current) if current == recorded => {
            Judged::ok(format!("the host is recorded to be in {recorded}"))
        }
        First::Named(current) => Judged::warning(format!(
            "the host is recorded to be in {recorded}, and {FIRST_ANNOTATIONS} names {current}: \
             the record wins"
        )),
        First::Used => Judged::ok(format!(
            "the host is recorded to be in {recorded}, and its Node has its first annotations"
        )),
        First::Absent => Judged::warning(format!(
            "the host is recorded to be in {recorded}, and {FIRST_ANNOTATIONS} is not there: a \
             Node without {} gets that of the record, and is marked as registered again",
            annotation::CURRENT_CONFIG
        )),
    }
}

/// The first annotations of a host's Node.
#[derive(Debug, PartialEq, Eq)]
enum First {
    /// They name this configuration.
    Named(String),
    /// The Node has them.
    Used,
    Absent,
}

/// Reads the file, or why it cannot be used.
fn first_annotations(root: &Root) -> Result<First, String> {
    let said = |error: &host::files::Error| Chain(error).to_string();
    let Some(bytes) = root.read(FIRST_ANNOTATIONS).map_err(|error| said(&error))? else {
        let used = root.inspect(FIRST_ANNOTATIONS_USED);
        return Ok(match used.map_err(|error| said(&error))? {
            Found::File { .. } => First::Used,
            Found::Nothing | Found::Link(_) | Found::Directory { .. } | Found::Other => {
                First::Absent
            }
        });
    };
    let mut annotations: BTreeMap<String, String> = serde_json::from_slice(&bytes)
        .map_err(|error| format!("{FIRST_ANNOTATIONS} is not a map of strings: {error}"))?;
    let mut take = |key: &str| {
        let value = annotations.remove(key).filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("{FIRST_ANNOTATIONS} has no {key}"))
    };
    take(annotation::DESIRED_CONFIG)?;
    take(annotation::CURRENT_CONFIG).map(First::Named)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use node_update::host_report::HostVerdict::{self, Missing, Ok, Warning};
    use serde_json::json;

    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::File::create(path).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }

    /// What is found on a host with these files.
    fn found(files: &[(&str, &str)]) -> (HostVerdict, String) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            put(dir.path(), path, text);
        }
        let judged = record(&Root::open(dir.path(), None).unwrap());
        (judged.verdict, judged.message)
    }

    #[test]
    fn a_host_has_a_record_and_first_annotations() {
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": "rendered-worker-a" },
            "spec": { "config": { "ignition": { "version": "3.4.0" } } }
        })
        .to_string();
        let annotations = |name: &str| {
            json!({ annotation::CURRENT_CONFIG: name, annotation::DESIRED_CONFIG: name })
                .to_string()
        };
        let (own, other) = (
            annotations("rendered-worker-a"),
            annotations("rendered-worker-b"),
        );
        let half = json!({ annotation::CURRENT_CONFIG: "rendered-worker-a" }).to_string();
        let empty = json!({ annotation::CURRENT_CONFIG: "", annotation::DESIRED_CONFIG: "a" });
        let empty = empty.to_string();
        let record = (RECORD_CONFIG, config.as_str());
        let first = |text| (FIRST_ANNOTATIONS, text);
        let nameless = r#"{"metadata":{}}"#;
        for (files, verdict, part) in [
            (
                vec![record, first(own.as_str())],
                Ok,
                "in rendered-worker-a",
            ),
            (
                vec![record, (FIRST_ANNOTATIONS_USED, "{}")],
                Ok,
                "its Node has",
            ),
            (vec![record, first(&other)], Warning, "the record wins"),
            (vec![record], Warning, "registered again"),
            (vec![], Missing, "write the MachineConfig"),
            (vec![first(&own)], Missing, "currentconfig is not there"),
            (
                vec![(RECORD_CONFIG, "{"), first(&own)],
                Missing,
                "broken record",
            ),
            (vec![(RECORD_CONFIG, nameless)], Missing, "metadata"),
            (vec![record, first("[]")], Missing, "not a map of strings"),
            (vec![record, first(&half)], Missing, "/desiredConfig"),
            (vec![record, first(&empty)], Missing, "/currentConfig"),
        ] {
            let (is, message) = found(&files);
            assert_eq!(is, verdict, "{message}");
            assert!(message.contains(part), "{message}");
        }
    }
}
