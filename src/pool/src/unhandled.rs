//! What a pool asks for that nothing here does, and objects of kinds that nothing here handles.

use std::fmt;

use api::machineconfiguration::MachineConfigPool;

use crate::hold::Hold;
use crate::view::PoolView;

/// An object that asks for OS images that are built for a pool, of a kind that nothing here
/// handles: the pool's nodes must be left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnhandledObject {
    pub kind: &'static str,
    pub name: String,
    /// Version of the object that was read.
    pub resource_version: String,
    /// Name of the pool.
    pub pool: String,
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
        .find(|object| object.pool == view.name)
        .map(|object| Hold::ImageMode {
            object: object.to_string(),
        })
}

/// The fields of a pool that nothing follows. A stream of OS images is followed where the cluster
/// has streams.
pub fn unhandled(pool: &MachineConfigPool, has_streams: bool) -> Vec<String> {
    let stream = pool.spec.os_image_stream.as_ref();
    let stream = stream.filter(|_| !has_streams);
    let stream = stream.map(|stream| format!("spec.osImageStream {}", stream.name));
    stream.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{parse_pool, pool_object};

    #[test]
    fn an_object_holds_the_pool_that_it_names() {
        let (_, view) = parse_pool(pool_object("worker", json!({})));
        let of_pool = |pool: &str| UnhandledObject {
            kind: "MachineOSConfig",
            name: "x".to_owned(),
            resource_version: "1".to_owned(),
            pool: pool.to_owned(),
        };
        assert_eq!(hold(&view, []), None);
        assert_eq!(hold(&view, [&of_pool("master"), &of_pool("")]), None);
        let held = Hold::ImageMode {
            object: "MachineOSConfig x".to_owned(),
        };
        let objects = [of_pool("master"), of_pool("worker")];
        assert_eq!(hold(&view, &objects), Some(held));
    }

    #[test]
    fn a_stream_is_named_where_the_cluster_has_none() {
        let pool = |spec| parse_pool(pool_object("worker", spec)).0;
        let streamed = pool(json!({ "osImageStream": { "name": "rhel-10" } }));
        assert_eq!(unhandled(&streamed, false), ["spec.osImageStream rhel-10"]);
        assert_eq!(unhandled(&streamed, true), [""; 0]);
        let pinned = pool(json!({ "pinnedImageSets": [{ "name": "a" }] }));
        assert_eq!(unhandled(&pinned, false), [""; 0]);
    }
}
