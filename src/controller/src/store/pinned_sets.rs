//! PinnedImageSets, by their metadata: which images they name is the daemon's. A cluster may lack
//! the kind.

use api::machineconfiguration::{PinStamp, PinnedImageSet};
use cluster::cache::CachedKind;
use kube::core::PartialObjectMeta;
use operator::{WatchForm, Watched};
use pool::pinned_sets::PinnedSetMeta;

/// The kind PinnedImageSet.
#[derive(Debug)]
pub enum PinnedSets {}

impl CachedKind for PinnedSets {
    type Entry = PinnedSetMeta;

    fn name(entry: &PinnedSetMeta) -> &str {
        &entry.name
    }

    fn version(entry: &PinnedSetMeta) -> &str {
        &entry.resource_version
    }

    fn has_same_content(one: &PinnedSetMeta, other: &PinnedSetMeta) -> bool {
        one.name == other.name && one.labels == other.labels && one.stamp == other.stamp
    }
}

impl Watched for PinnedSets {
    type Object = PartialObjectMeta<PinnedImageSet>;

    const FORM: WatchForm<PinnedSetMeta> = WatchForm::Metadata;

    fn parse(object: PartialObjectMeta<PinnedImageSet>) -> PinnedSetMeta {
        let metadata = object.metadata;
        let generation = metadata.generation.unwrap_or_default();
        PinnedSetMeta {
            name: metadata.name.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            stamp: PinStamp::new(generation, &metadata.uid.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::read;

    fn set(metadata: &Value) -> PinnedSetMeta {
        PinnedSets::parse(read(&json!({ "metadata": metadata })))
    }

    #[test]
    fn its_content_is_its_generation_and_uid() {
        let before = set(
            &json!({ "name": "a", "uid": "0a1b2c3d-4e5f", "generation": 2, "resourceVersion": "7" }),
        );
        assert_eq!(before.stamp.to_string(), "2.0a1b2c3d");
        for (changed, is_same) in [
            (
                json!({ "name": "a", "uid": "0a1b2c3d-4e5f", "generation": 2, "resourceVersion": "8" }),
                true,
            ),
            (
                json!({ "name": "a", "uid": "0a1b2c3d-4e5f", "generation": 3, "resourceVersion": "8" }),
                false,
            ),
            (
                json!({ "name": "a", "uid": "ffffffff-4e5f", "generation": 2, "resourceVersion": "8" }),
                false,
            ),
            (
                json!({ "name": "a", "uid": "0a1b2c3d-4e5f", "generation": 2, "resourceVersion": "8",
                    "labels": { "a": "b" } }),
                false,
            ),
        ] {
            let after = set(&changed);
            let same = PinnedSets::has_same_content(&before, &after);
            assert_eq!(same, is_same, "{changed}");
        }
    }
}
