//! Which stream of OS images a pool has: the one it chooses, that of `worker` for a custom pool,
//! else the cluster's default.
//!
//! Source: `docs/reference/controller.md`, "OS image streams".

use std::fmt;

use api::machineconfiguration::{AvailableStream, MachineConfigPool, OSImageStream, label};

/// A stream that an administrator chose for a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChosenStream {
    pub(crate) name: String,
    /// Whether pool `worker` chose it, for a custom pool that does not.
    is_workers: bool,
}

impl fmt::Display for ChosenStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.is_workers {
            " of pool worker"
        } else {
            ""
        };
        write!(f, "spec.osImageStream {}{of}", self.name)
    }
}

/// The cluster has streams of OS images, and not the one that a pool is to have.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoStream {
    /// Nor does a release bring it any more, if one did: the nodes keep what they run.
    #[error(
        "{chosen}: OSImageStream cluster has no such stream in status.availableStreams ({streams})"
    )]
    Chosen {
        chosen: ChosenStream,
        /// Names of those that there are.
        streams: String,
    },
    #[error(
        "OSImageStream cluster: status.defaultStream {default} is no stream of status.availableStreams ({streams}), and the pool chooses none"
    )]
    Default { default: String, streams: String },
}

/// The stream that is chosen for a pool.
pub(crate) fn chosen(
    pool: &MachineConfigPool,
    worker: Option<&MachineConfigPool>,
) -> Option<ChosenStream> {
    let of = |pool: &MachineConfigPool, is_workers| {
        let stream = pool.spec.os_image_stream.clone()?;
        Some(ChosenStream {
            name: stream.name,
            is_workers,
        })
    };
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let is_custom = !label::role::is_control_plane(name);
    of(pool, false).or_else(|| of(worker.filter(|_| is_custom)?, true))
}

/// The stream that a pool is to have, with its images; none where nothing says which, as in a
/// cluster without streams. Then it has the release's OS.
///
/// # Errors
/// [`NoStream`].
pub(crate) fn resolve<'a>(
    chosen: Option<&ChosenStream>,
    streams: Option<&'a OSImageStream>,
) -> Result<Option<&'a AvailableStream>, NoStream> {
    let Some(object) = streams else {
        return Ok(None);
    };
    let streams = || object.stream_names();
    if let Some(chosen) = chosen {
        let stream = object.stream(&chosen.name);
        return stream.map(Some).ok_or_else(|| NoStream::Chosen {
            chosen: chosen.clone(),
            streams: streams(),
        });
    }
    let default = object.status.as_ref().map(|it| it.default_stream.as_str());
    let Some(default) = default.filter(|default| !default.is_empty()) else {
        return Ok(None);
    };
    let stream = object.stream(default);
    stream.map(Some).ok_or_else(|| NoStream::Default {
        default: default.to_owned(),
        streams: streams(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::read;

    fn pool(name: &str, stream: Option<&str>) -> MachineConfigPool {
        let stream = stream.map(|name| json!({ "name": name }));
        read(&json!({ "metadata": { "name": name }, "spec": { "osImageStream": stream } }))
    }

    fn streams(default: Option<&str>) -> OSImageStream {
        let mut status = json!({ "availableStreams": [
            { "name": "a", "osImage": "os-a" }, { "name": "b", "osImage": "os-b" }
        ] });
        if let Some(default) = default {
            status["defaultStream"] = json!(default);
        }
        read(&json!({ "metadata": { "name": "cluster" }, "spec": {}, "status": status }))
    }

    #[test]
    fn a_pool_has_its_own_stream_then_the_workers_then_the_default() {
        let table = [
            // (pool, its own, the workers', what it has)
            ("edge", Some("a"), Some("b"), Ok("a")),
            ("edge", None, Some("b"), Ok("b")),
            ("edge", None, None, Ok("a")),
            ("worker", None, None, Ok("a")),
            ("worker", Some("b"), Some("b"), Ok("b")),
            ("master", None, Some("b"), Ok("a")),
            ("arbiter", None, Some("b"), Ok("a")),
            ("master", Some("b"), None, Ok("b")),
            ("edge", Some("c"), None, Err("spec.osImageStream c: ")),
            (
                "edge",
                None,
                Some("c"),
                Err("spec.osImageStream c of pool worker: "),
            ),
        ];
        let streams = streams(Some("a"));
        for (name, own, workers, expected) in table {
            let worker = pool("worker", workers);
            let chosen = chosen(&pool(name, own), Some(&worker));
            let found = resolve(chosen.as_ref(), Some(&streams));
            let found = found.map(|stream| stream.unwrap().name.as_str());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{name} {own:?}"),
                (Err(error), Err(expected)) => {
                    let text = error.to_string();
                    let rest = "OSImageStream cluster has no such stream in status.availableStreams (a, b)";
                    assert_eq!(text, format!("{expected}{rest}"));
                }
                (found, expected) => panic!("{name} {own:?}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn without_a_default_a_pool_has_the_release_s_os_and_a_wrong_one_is_refused() {
        for default in [None, Some("")] {
            assert!(matches!(resolve(None, Some(&streams(default))), Ok(None)));
        }
        assert!(matches!(resolve(None, None), Ok(None)));
        let chosen = chosen(&pool("worker", Some("c")), None);
        assert!(matches!(resolve(chosen.as_ref(), None), Ok(None)));
        let why = resolve(None, Some(&streams(Some("c")))).unwrap_err();
        assert_eq!(
            why.to_string(),
            "OSImageStream cluster: status.defaultStream c is no stream of status.availableStreams (a, b), and the pool chooses none"
        );
    }
}
