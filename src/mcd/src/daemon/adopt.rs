//! A node that is met for the first time: its first annotations, and a record of what it was born
//! in.

use std::collections::BTreeMap;

use api::machineconfiguration::{NodeStatus, annotation};
use host::files::{Content, Found, Root};
use host::record::{self, Record};
use machineconfig::name::pool_of;
use node::view::Node;
use node::writer::Change;
use node_update::plan::Target;
use node_update::well_known::{FIRST_ANNOTATIONS, FIRST_ANNOTATIONS_USED};

use super::observe;

/// Why a node cannot be adopted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host cannot be read or written.
    #[error(transparent)]
    Host(#[from] observe::Error),
    /// The first annotations are no map of strings.
    #[error("{FIRST_ANNOTATIONS} on the host is not a map of strings")]
    Annotations(#[source] serde_json::Error),
}

impl From<host::files::Error> for Error {
    fn from(error: host::files::Error) -> Self {
        Self::Host(error.into())
    }
}

impl From<record::Error> for Error {
    fn from(error: record::Error) -> Self {
        Self::Host(error.into())
    }
}

/// The annotations that the host has for a Node that is not managed yet; none where it has neither
/// such a file nor a record.
///
/// A record that names something else has overtaken their file, for the Node of a host that went on
/// may have been deleted and registered again. Such a Node has lost its labels, and with them its
/// pool: it gets [`annotation::REGISTERED_ANEW`].
///
/// # Errors
/// All of [`Error`].
pub fn first_annotations(root: &Root) -> Result<BTreeMap<String, String>, Error> {
    let born = match root.read(FIRST_ANNOTATIONS)? {
        Some(bytes) => serde_json::from_slice(&bytes).map_err(Error::Annotations)?,
        None => BTreeMap::new(),
    };
    let record = record::read(root)?.map(Record::into_target);
    Ok(first(born, record))
}

/// Renames the file of the first annotations, which are used once.
///
/// # Errors
/// [`Error::Host`].
pub fn retire_first_annotations(root: &Root) -> Result<(), Error> {
    let at = root.locate(FIRST_ANNOTATIONS)?;
    let Found::File { bytes, mode, owner } = root.look(&at)? else {
        return Ok(());
    };
    let bytes = &bytes;
    let content = Content { bytes, mode, owner };
    root.replace(&root.locate(FIRST_ANNOTATIONS_USED)?, content)?;
    Ok(root.remove(&at)?)
}

fn first(mut born: BTreeMap<String, String>, record: Option<Target>) -> BTreeMap<String, String> {
    let Some(record) = record else {
        return born;
    };
    let image = born.get(annotation::CURRENT_IMAGE);
    let is_of_record = born.get(annotation::CURRENT_CONFIG) == Some(&record.config)
        && image.filter(|image| !image.is_empty()) == record.image.as_ref();
    if is_of_record {
        return born;
    }
    for key in [
        annotation::CURRENT_IMAGE,
        annotation::DESIRED_IMAGE,
        annotation::STATE,
    ] {
        born.remove(key);
    }
    for key in [annotation::CURRENT_CONFIG, annotation::DESIRED_CONFIG] {
        born.insert(key.to_owned(), record.config.clone());
    }
    born.insert(
        annotation::REGISTERED_ANEW.to_owned(),
        record.config.clone(),
    );
    if let Some(image) = record.image {
        for key in [annotation::CURRENT_IMAGE, annotation::DESIRED_IMAGE] {
            born.insert(key.to_owned(), image.clone());
        }
    }
    born
}

/// The pool of a Node that was registered again, as far as its host names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnewPool {
    /// Nothing that keeps a target off.
    Free,
    /// The target is of the pool that the host has its configuration of: the Node is back in it.
    Back,
    /// The target is of another pool.
    Other(OtherPool),
}

/// A target of another pool than the one that configured the host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this Node was registered anew and has no labels of pool {was}, of which its host has {at}: \
     {to} of {} is not followed. Give the Node the labels of pool {was}, or remove its annotation \
     {} to have it follow",
    .is.as_ref().map_or_else(|| "no pool".to_owned(), |pool| format!("pool {pool}")),
    annotation::REGISTERED_ANEW
)]
pub struct OtherPool {
    /// The pool of the host.
    was: String,
    /// The configuration of the host.
    at: String,
    /// The configuration that is desired.
    to: String,
    is: Option<String>,
}

/// Whether a target may be followed. Without its labels a Node counts as a worker: what made the
/// host another kind of node would be taken from it in silence.
pub fn judge_pool(node: &Node, to: &str) -> AnewPool {
    let Some(at) = node.annotation(annotation::REGISTERED_ANEW) else {
        return AnewPool::Free;
    };
    let (Some(was), is) = (pool_of(at), pool_of(to)) else {
        return AnewPool::Free;
    };
    if is == Some(was) {
        return if at == to {
            AnewPool::Free
        } else {
            AnewPool::Back
        };
    }
    AnewPool::Other(OtherPool {
        was: was.to_owned(),
        at: at.to_owned(),
        to: to.to_owned(),
        is: is.map(str::to_owned),
    })
}

/// Whether the Node names no configuration in force yet, or none that it is to have: then no
/// assignment is under way.
pub fn is_new(node: &Node) -> bool {
    let status = NodeStatus::read(&node.annotations);
    status.current_config.is_none() || status.desired_config.is_none()
}

/// What to write to a Node that has none of `first` yet. What stands there stays.
pub fn annotate(node: &Node, first: &BTreeMap<String, String>) -> Change {
    let mut change = Change::default();
    if is_new(node) {
        for (key, value) in first {
            if node.annotation(key).is_none_or(str::is_empty) {
                change = change.set(key, value.as_str());
            }
        }
    }
    change
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(annotations: &Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n", "annotations": annotations}}))
            .unwrap()
    }

    fn born() -> BTreeMap<String, String> {
        [annotation::CURRENT_CONFIG, annotation::DESIRED_CONFIG]
            .map(|key| (key.to_owned(), "rendered-worker-1".to_owned()))
            .into()
    }

    #[test]
    fn a_new_node_gets_what_it_was_born_with() {
        let change = annotate(&node(&json!({})), &born());
        assert_eq!(change.annotations.len(), 2);
    }

    #[test]
    fn a_host_that_went_on_is_not_born_again() {
        let born = || {
            let mut born = born();
            born.insert(annotation::STATE.to_owned(), "Done".to_owned());
            born
        };
        let record = |config: &str, image: Option<&str>| {
            Some(Target {
                config: config.to_owned(),
                image: image.map(ToOwned::to_owned),
            })
        };
        assert_eq!(first(born(), record("rendered-worker-1", None)), born());
        assert_eq!(first(born(), None), born());
        let layered = || {
            let mut born = born();
            for key in [annotation::CURRENT_IMAGE, annotation::DESIRED_IMAGE] {
                born.insert(key.to_owned(), "registry/os".to_owned());
            }
            born
        };
        let in_image = record("rendered-worker-1", Some("registry/os"));
        assert_eq!(first(layered(), in_image), layered());
        // Into image mode, to another image, and out of it, without another configuration.
        for (born, image) in [
            (born(), Some("registry/os")),
            (layered(), Some("registry/os2")),
            (layered(), None),
        ] {
            let later = first(born, record("rendered-worker-1", image));
            let shown = later.get(annotation::CURRENT_IMAGE).map(String::as_str);
            assert_eq!(shown, image);
            assert!(later.contains_key(annotation::REGISTERED_ANEW), "{image:?}");
        }

        let later = first(born(), record("rendered-worker-7", Some("registry/os")));
        let expected = [
            (annotation::CURRENT_CONFIG, "rendered-worker-7"),
            (annotation::DESIRED_CONFIG, "rendered-worker-7"),
            (annotation::CURRENT_IMAGE, "registry/os"),
            (annotation::DESIRED_IMAGE, "registry/os"),
            (annotation::REGISTERED_ANEW, "rendered-worker-7"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(later, expected.into());
    }

    #[test]
    fn a_node_that_was_registered_anew_follows_no_other_pool() {
        let judge = |before: Option<&str>, to: &str| {
            let annotations = before.map(|config| (annotation::REGISTERED_ANEW, config));
            let annotations: BTreeMap<_, _> = annotations.into_iter().collect();
            judge_pool(&node(&json!(annotations)), to)
        };
        let before = Some("rendered-infra-1");
        assert_eq!(judge(None, "rendered-worker-2"), AnewPool::Free);
        assert_eq!(judge(before, "rendered-infra-1"), AnewPool::Free);
        assert_eq!(judge(before, "rendered-infra-2"), AnewPool::Back);
        // A host that no pool configured belongs to none.
        assert_eq!(judge(Some("by-hand"), "rendered-worker-2"), AnewPool::Free);
        for (to, pool) in [("rendered-worker-2", "of pool worker"), ("x", "of no pool")] {
            let AnewPool::Other(other) = judge(before, to) else {
                panic!("{to} is followed");
            };
            let text = other.to_string();
            assert!(text.contains(pool), "{text}");
            assert!(text.contains("pool infra"), "{text}");
        }
    }

    #[test]
    fn the_first_annotations_are_renamed_once() {
        let tree = tempfile::tempdir().unwrap();
        let at = |path: &str| tree.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(at("/etc/machine-config-daemon")).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
        std::fs::write(at(FIRST_ANNOTATIONS), "{}").unwrap();
        let root = Root::open(tree.path(), None).unwrap();
        for _ in 0..2 {
            retire_first_annotations(&root).unwrap();
            assert!(!at(FIRST_ANNOTATIONS).exists());
            assert_eq!(std::fs::read(at(FIRST_ANNOTATIONS_USED)).unwrap(), b"{}");
        }
    }

    #[test]
    fn the_controllers_word_stays() {
        let change = annotate(
            &node(&json!({annotation::DESIRED_CONFIG: "rendered-worker-2"})),
            &born(),
        );
        let keys: Vec<_> = change.annotations.into_keys().collect();
        assert_eq!(keys, [annotation::CURRENT_CONFIG]);
    }

    #[test]
    fn an_adopted_node_is_left_alone() {
        let annotations = json!({
            annotation::CURRENT_CONFIG: "rendered-worker-9", annotation::DESIRED_CONFIG: "rendered-worker-9"
        });
        assert_eq!(annotate(&node(&annotations), &born()), Change::default());
    }
}
