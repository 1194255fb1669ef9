//! What a pool asks for that nothing here does, and objects of kinds that nothing here handles.

use std::collections::BTreeMap;
use std::fmt;

use api::machineconfiguration::MachineConfigPool;

use crate::hold::Hold;
use crate::view::PoolView;

/// An object that asks something of pools, of a kind that nothing here handles.
#[derive(Debug, Clone, PartialEq)]
pub struct UnhandledObject {
    pub kind: &'static str,
    pub name: String,
    /// Version of the object that was read.
    pub resource_version: String,
    pub asks: Ask,
    /// Which pools it asks it of.
    pub scope: Scope,
}

/// What an object asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// OS images that are built for the pool: its nodes must be left alone.
    ImageMode,
    /// A setting; without it nodes run as before.
    Setting,
}

/// Which pools an object asks something of.
#[derive(Debug, Clone, PartialEq)]
pub enum Scope {
    /// The one of this name.
    Named(String),
    /// Those that select these labels, as they select MachineConfigs.
    Labels(BTreeMap<String, String>),
}

impl UnhandledObject {
    /// Whether it asks something of a pool.
    fn concerns(&self, view: &PoolView) -> bool {
        match &self.scope {
            Scope::Named(name) => *name == view.name,
            // As with MachineConfigs, no pool selects what has no labels.
            Scope::Labels(labels) => {
                let selector = view.config_selector.as_ref();
                !labels.is_empty() && selector.is_ok_and(|selector| selector.matches(labels))
            }
        }
    }
}

impl fmt::Display for UnhandledObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// The hold that an object puts on a pool, if one does.
pub fn hold<'a>(
    view: &PoolView,
    objects: impl IntoIterator<Item = &'a UnhandledObject>,
) -> Option<Hold> {
    let mut objects = objects.into_iter();
    objects
        .find(|object| object.asks == Ask::ImageMode && object.concerns(view))
        .map(|object| Hold::ImageMode {
            object: object.to_string(),
        })
}

/// What a pool asks for, or objects ask of it, and nothing does: the fields first, then the objects
/// in the order given. A stream of OS images is followed where the cluster has streams.
pub fn unhandled<'a>(
    pool: &MachineConfigPool,
    view: &PoolView,
    has_streams: bool,
    objects: impl IntoIterator<Item = &'a UnhandledObject>,
) -> Vec<String> {
    let stream = pool.spec.os_image_stream.as_ref();
    let stream = stream.filter(|_| !has_streams);
    let stream = stream.map(|stream| format!("spec.osImageStream {}", stream.name));
    let named = pool.spec.pinned_image_sets.iter();
    let pinned = named.map(|set| format!("spec.pinnedImageSets {}", set.name));
    let objects = objects
        .into_iter()
        .filter(|object| object.asks == Ask::Setting && object.concerns(view));
    let objects = objects.map(ToString::to_string);
    stream.into_iter().chain(pinned).chain(objects).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{parse_pool, pool_object};

    const ROLE: &str = "machineconfiguration.openshift.io/role";

    fn object(kind: &'static str, asks: Ask, scope: Scope) -> UnhandledObject {
        UnhandledObject {
            kind,
            name: "x".to_owned(),
            resource_version: "1".to_owned(),
            asks,
            scope,
        }
    }

    fn labels(role: &str) -> Scope {
        Scope::Labels(BTreeMap::from([(ROLE.to_owned(), role.to_owned())]))
    }

    /// The worker pool with additional fields of `spec`.
    fn worker(spec: Value) -> (MachineConfigPool, PoolView) {
        let pool = pool_object("worker", spec);
        parse_pool(pool)
    }

    #[test]
    fn objects_concern_the_pools_that_they_name_or_are_selected_by() {
        let (pool, view) = worker(json!({}));
        let table = [
            (Scope::Named("worker".to_owned()), true),
            (Scope::Named("master".to_owned()), false),
            (labels("worker"), true),
            (labels("master"), false),
            (Scope::Labels(BTreeMap::new()), false),
        ];
        for (scope, concerns) in table {
            let object = object("Kind", Ask::Setting, scope);
            let named = unhandled(&pool, &view, false, [&object]);
            assert_eq!(named == ["Kind x"], concerns, "{object:?}");
            let object = UnhandledObject {
                asks: Ask::ImageMode,
                ..object
            };
            let hold = hold(&view, [&object]);
            let expected = concerns.then(|| Hold::ImageMode {
                object: "Kind x".to_owned(),
            });
            assert_eq!(hold, expected, "{object:?}");
        }
    }

    #[test]
    fn fields_and_objects_are_named() {
        let (pool, view) = worker(json!({
            "osImageStream": { "name": "rhel-10" },
            "pinnedImageSets": [{ "name": "a" }, { "name": "b" }]
        }));
        let objects = [
            object("PinnedImageSet", Ask::Setting, labels("worker")),
            object(
                "MachineOSConfig",
                Ask::ImageMode,
                Scope::Named("worker".to_owned()),
            ),
        ];
        let expected = [
            "spec.osImageStream rhel-10",
            "spec.pinnedImageSets a",
            "spec.pinnedImageSets b",
            "PinnedImageSet x",
        ];
        assert_eq!(unhandled(&pool, &view, false, &objects), expected);
        assert_eq!(unhandled(&pool, &view, true, &objects), expected[1..]);
        let (pool, view) = worker(json!({}));
        assert_eq!(unhandled(&pool, &view, false, []), [""; 0]);
    }
}
