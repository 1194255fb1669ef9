//! A release, for programs.

use serde_json::{Map, Value, json};

use super::info::Info;

/// All facts about a release.
///
/// Shape: the keys of `oc adm release info -o json`. `metadata` and `references` are the release's
/// own files.
pub(crate) fn json(info: &Info, image: &str) -> Value {
    let file = |name: &str| {
        let bytes = info.files.get(name).map(Vec::as_slice).unwrap_or_default();
        serde_json::from_slice::<Value>(bytes).unwrap_or_default()
    };
    let mut versions = Map::new();
    let mut display_versions = Map::new();
    let mut tags = Map::new();
    for (component, version) in &info.carried.versions {
        let text = version.version.to_string();
        let display = json!({"Version": text, "DisplayName": version.display_name});
        display_versions.insert(component.clone(), display);
        versions.insert(component.clone(), text.into());
    }
    for (component, images) in &info.carried.images {
        let names: Vec<&str> = images.iter().map(|(name, _)| name.as_str()).collect();
        tags.insert(component.clone(), names.into());
    }
    json!({
        "image": image,
        "digest": info.head.digest,
        "contentDigest": info.head.content_digest,
        "listDigest": info.head.list_digest,
        "config": info.head.configuration,
        "metadata": file(release::METADATA_FILE),
        "references": file(release::REFERENCES_FILE),
        "versions": versions,
        "displayVersions": display_versions,
        "versionsTags": tags,
        "images": null,
        "warnings": info.warnings,
    })
}
