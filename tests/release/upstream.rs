//! The manifests of OpenShift's two operators of nodes and versions load, and become a release.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use release::assembly::{ComponentImage, ReleaseRequest, assemble};
use release::component_versions::ComponentVersions;
use release::order::{Place, is_manifest_file};
use release::payload::Files;
use release::{ImageDigest, Manifest, Metadata, Payload, PullSpec, REFERENCES_FILE, References};

/// Where the manifests lie.
fn data() -> Option<PathBuf> {
    lab::upstream_data("payload-manifests", "a release of upstream's manifests").unwrap()
}

fn files(directory: &Path) -> Files {
    let entries = fs::read_dir(directory).unwrap();
    let file = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read(path).unwrap())
    };
    entries.map(|entry| file(entry.unwrap().path())).collect()
}

fn image(name: &str, manifests: Option<Files>) -> ComponentImage {
    let digest = ImageDigest::of(name.as_bytes());
    ComponentImage {
        pull_spec: PullSpec::new(&format!("registry.example/{name}"), &digest).unwrap(),
        annotations: BTreeMap::new(),
        labels: BTreeMap::new(),
        manifests,
        is_override: false,
    }
}

#[test]
fn each_file_is_parsed_and_has_its_place() {
    let Some(data) = data() else { return };
    let mut counts = BTreeMap::new();
    for operator in ["machine-config-operator", "cluster-version-operator"] {
        let files = files(&data.join(operator));
        let count: usize = files
            .iter()
            .filter(|(file, _)| is_manifest_file(file))
            .map(|(file, bytes)| {
                assert!(Place::of(file).is_some(), "{file}");
                Manifest::parse(file, bytes).unwrap().len()
            })
            .sum();
        counts.insert(operator, (files.len(), count));
    }
    // Files, and what `grep -c '^kind:'` counts in those of manifests.
    let expected = [
        ("cluster-version-operator", (18, 18)),
        ("machine-config-operator", (14, 42)),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn a_release_of_them_has_no_placeholder_left() {
    let Some(data) = data() else { return };
    let operator = "machine-config-operator";
    let mut manifests = files(&data.join(operator));
    let named = References::parse(&manifests[REFERENCES_FILE]).unwrap();
    let mut images: BTreeMap<String, ComponentImage> = named
        .tags
        .keys()
        .map(|name| (name.clone(), image(name, None)))
        .collect();
    manifests.insert(
        "extra.yaml".to_owned(),
        b"apiVersion: v1\nkind: A\nmetadata: {name: a}\n".to_vec(),
    );
    images.insert(operator.to_owned(), image(operator, Some(manifests)));
    let request = ReleaseRequest {
        metadata: Metadata::new("4.99.0".parse().unwrap()),
        annotations: BTreeMap::new(),
        images,
        include: BTreeSet::new(),
        component_versions: ComponentVersions::new(),
        verification: None,
        allow_missing_images: false,
        image_policy: None,
        os_streams: false,
    };
    let assembly = assemble(&request).unwrap();
    let payload = Payload::parse(&assembly.files).unwrap();
    assert_eq!(payload.references.tags.len(), named.tags.len());
    let first = &payload.manifests[0];
    assert_eq!(first.id.to_string(), "A a");
    for (file, bytes) in &assembly.files {
        let text = std::str::from_utf8(bytes).unwrap();
        for placeholder in ["placeholder.url", "0.0.1-snapshot"] {
            assert!(!text.contains(placeholder), "{file} has {placeholder}");
        }
    }
    let deployment = &assembly.files["0000_80_machine-config_04_deployment.yaml"];
    let own = request.images[operator].pull_spec.as_str();
    assert!(String::from_utf8_lossy(deployment).contains(own));
}
