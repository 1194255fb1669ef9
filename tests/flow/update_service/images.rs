//! Release images of tests.

use std::collections::BTreeMap;
use std::path::Path;

use images::draft::Built;
use images::image::Platform;
use images::tree::EntryContent;
use images::{Draft, Tree};
use jiff::Timestamp;
use release::{ImageDigest, Metadata, RELEASE_LABEL, RELEASE_MANIFESTS};
use serde_json::{Value, json};

/// Forms of manifests in a layout.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A release image with this metadata file.
pub(crate) fn release(version: &str, architecture: &str, metadata: &[u8]) -> Built {
    let mut tree = Tree::new();
    let path = format!("{RELEASE_MANIFESTS}/release-metadata");
    tree.put(&path, 0o444, EntryContent::Bytes(metadata.to_vec()))
        .unwrap();
    let platform = Platform {
        os: "linux".to_owned(),
        architecture: architecture.to_owned(),
    };
    let mut draft = Draft::new(platform, Timestamp::UNIX_EPOCH);
    draft.push(tree.layer(Timestamp::UNIX_EPOCH).unwrap(), "test");
    draft.labels = [(RELEASE_LABEL.to_owned(), version.to_owned())].into();
    draft.build().unwrap()
}

/// The metadata file of a release.
pub(crate) fn metadata(version: &str, previous: &[&str], is_multi: bool) -> Vec<u8> {
    let mut metadata = Metadata::new(version.parse().unwrap());
    metadata.previous = previous.iter().map(|text| text.parse().unwrap()).collect();
    if is_multi {
        let key = "release.openshift.io/architecture".to_owned();
        metadata.metadata.insert(key, "multi".to_owned());
    }
    metadata.print()
}

/// Writes a layout directory with every version for every architecture; `multi` are lists.
pub(crate) fn layout(
    directory: &Path,
    releases: &[(String, Vec<String>)],
    architectures: &[String],
) {
    let blobs = directory.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let put = |bytes: &[u8]| {
        let digest = ImageDigest::of(bytes);
        std::fs::write(blobs.join(digest.hex()), bytes).unwrap();
        (digest, bytes.len())
    };
    let mut listed = Vec::new();
    for (version, previous) in releases {
        let previous: Vec<&str> = previous.iter().map(String::as_str).collect();
        let write = |architecture: &str, is_multi: bool| -> Value {
            let image = release(
                version,
                architecture,
                &metadata(version, &previous, is_multi),
            );
            for blob in image.blobs() {
                put(&blob.bytes().unwrap());
            }
            let (digest, size) = put(&image.manifest().bytes().unwrap());
            json!({"mediaType": MANIFEST, "digest": digest, "size": size})
        };
        for architecture in architectures {
            if architecture != "multi" {
                listed.push(write(architecture, false));
                continue;
            }
            let parts: Vec<Value> = ["amd64", "arm64"]
                .into_iter()
                .map(|architecture| {
                    let mut part = write(architecture, true);
                    part["platform"] = json!({"os": "linux", "architecture": architecture});
                    part
                })
                .collect();
            let list = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": parts});
            let (digest, size) = put(list.to_string().as_bytes());
            listed.push(json!({"mediaType": INDEX, "digest": digest, "size": size}));
        }
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed});
    std::fs::write(directory.join("index.json"), index.to_string()).unwrap();
    let mark = r#"{"imageLayoutVersion":"1.0.0"}"#;
    std::fs::write(directory.join("oci-layout"), mark).unwrap();
}

/// All releases of a list of upstream's data, and its architectures.
pub(crate) fn real(list: &Path) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let bytes = std::fs::read(list).unwrap();
    let listed: Value = serde_json::from_slice(&bytes).unwrap();
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().unwrap().iter();
        list.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let releases: BTreeMap<String, Vec<String>> = listed["releases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|release| {
            let version = release["version"].as_str().unwrap().to_owned();
            (version, texts(&release["previous"]))
        })
        .collect();
    (releases.into_iter().collect(), texts(&listed["arches"]))
}
