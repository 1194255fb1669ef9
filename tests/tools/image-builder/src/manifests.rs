//! The files of an operator's `/manifests`, which are those of `deploy/`, byte for byte.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use release::REFERENCES_FILE;
use release::payload::Files;
use release::references::{References, Tag};
use serde::Deserialize;

use crate::component::{Component, Manifests, ReleaseRole};

#[derive(Deserialize)]
struct Kustomization {
    resources: Vec<String>,
}

/// The files of `deploy/` that a component's manifests are, in their order, with the names that
/// they get.
///
/// Shape: of a directory with a `kustomization.yaml` its resources, in their order; else all files,
/// by name.
///
/// # Errors
/// A directory or file is not there.
pub fn files(deploy: &Path, component: &Component) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut all = Vec::new();
    for manifests in component.manifests {
        all.extend(files_of(deploy, manifests)?);
    }
    Ok(all)
}

fn files_of(deploy: &Path, manifests: &Manifests) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let directory = deploy.join(manifests.directory);
    let list = directory.join("kustomization.yaml");
    let names = if list.exists() {
        resources(&list)?
    } else {
        let entries = std::fs::read_dir(&directory);
        let entries = entries.with_context(|| format!("cannot read {}", directory.display()))?;
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    };
    let name = |(index, file): (usize, String)| {
        let number = manifests.first + index;
        let Manifests {
            directory, prefix, ..
        } = manifests;
        let flat = file.replace('/', "-");
        let name = format!("{prefix}_{number:02}_{directory}-{flat}");
        (Path::new(manifests.directory).join(file), name)
    };
    Ok(names.into_iter().enumerate().map(name).collect())
}

fn resources(list: &Path) -> anyhow::Result<Vec<String>> {
    let shown = list.display();
    let text = std::fs::read_to_string(list).with_context(|| format!("cannot read {shown}"))?;
    let list: Kustomization = serde_saphyr::from_str(&text).with_context(|| shown.to_string())?;
    Ok(list.resources)
}

/// The manifests of an image by name, of an operator's with the images that they name; none for
/// what has no manifests.
///
/// # Errors
/// A file is not there, or two have one name.
pub fn read(deploy: &Path, component: &Component) -> anyhow::Result<Option<Files>> {
    if component.manifests.is_empty() {
        return Ok(None);
    }
    let mut manifests = Files::new();
    for (path, name) in files(deploy, component)? {
        let path = deploy.join(path);
        let bytes = std::fs::read(&path);
        let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
        let other = manifests.insert(name.clone(), bytes);
        ensure!(other.is_none(), "two files are named {name}");
    }
    if component.role == ReleaseRole::Operator {
        // `deploy/` names an image by its name alone, which kustomize replaces there, and a release
        // here.
        let names = std::iter::once(&component.name).chain(component.references);
        let tags = names.map(|name| {
            let tag = Tag {
                from: (*name).to_owned(),
                ..Tag::default()
            };
            ((*name).to_owned(), tag)
        });
        let references = References {
            tags: tags.collect(),
            ..References::default()
        };
        manifests.insert(REFERENCES_FILE.to_owned(), references.print());
    }
    Ok(Some(manifests))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use release::assembly::{ComponentImage, ReleaseRequest, assemble};
    use release::{ImageDigest, Manifest, Metadata, Payload, PullSpec};

    use super::*;
    use crate::component::{COMPONENTS, OS, OS_BUILDER};

    fn deploy() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy")
    }

    /// What kustomize builds: the resources of the outermost list, and of the lists that they name.
    fn kustomized(directory: &Path, below: &Path) -> BTreeSet<PathBuf> {
        let mut files = BTreeSet::new();
        for resource in resources(&directory.join("kustomization.yaml")).unwrap() {
            let path = directory.join(&resource);
            if path.is_dir() {
                files.extend(kustomized(&path, &below.join(&resource)));
            } else {
                files.insert(below.join(resource));
            }
        }
        files
    }

    /// Directories whose objects belong to a cluster with a version operator, and so to no
    /// `kubectl apply --kustomize deploy`.
    const OF_RELEASES: [&str; 3] = ["cluster-operator", "cvo", "release"];

    /// What a release does not hold: an administrator provides addresses and certificates of the
    /// config server, and the version operator's own manifests have the namespaces.
    const NOT_OF_RELEASES: [&str; 2] = ["config-server", "namespaces.yaml"];

    #[test]
    fn images_hold_what_kustomize_builds_and_what_belongs_to_releases() {
        let mut held = BTreeSet::new();
        for component in COMPONENTS {
            for (path, _) in files(&deploy(), component).unwrap() {
                assert!(
                    held.insert(path.clone()),
                    "{} is held twice",
                    path.display()
                );
            }
        }
        let is_kustomized = |path: &PathBuf| {
            let mut of_releases = OF_RELEASES.iter();
            !of_releases.any(|directory| path.starts_with(directory))
        };
        let cvo = kustomized(&deploy().join("cvo"), Path::new("cvo"));
        assert!(cvo.is_subset(&held), "{cvo:?}");
        held.retain(is_kustomized);
        let mut applied = kustomized(&deploy(), Path::new(""));
        applied.retain(|path| !NOT_OF_RELEASES.iter().any(|of| path.starts_with(of)));
        assert_eq!(held, applied);
    }

    /// A release of all components' images, and of an OS.
    fn request() -> ReleaseRequest {
        let components = COMPONENTS
            .iter()
            .filter(|component| component.role != ReleaseRole::Base);
        let images = components.map(|component| {
            let digest = ImageDigest::of(component.name.as_bytes());
            let image = ComponentImage {
                pull_spec: PullSpec::new(&format!("registry.example/{}", component.name), &digest)
                    .unwrap(),
                annotations: BTreeMap::new(),
                labels: BTreeMap::new(),
                manifests: read(&deploy(), component).unwrap(),
                is_override: false,
            };
            (component.name.to_owned(), image)
        });
        let os = ComponentImage {
            pull_spec: PullSpec::new("registry.example/os", &ImageDigest::of(b"os")).unwrap(),
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
            manifests: None,
            is_override: false,
        };
        let images = images.chain([(OS.to_owned(), os)]);
        ReleaseRequest {
            metadata: Metadata::new("1.0.0".parse().unwrap()),
            annotations: BTreeMap::new(),
            images: images.collect(),
            include: BTreeSet::new(),
            component_versions: BTreeMap::new(),
            verification: None,
            allow_missing_images: false,
            image_policy: None,
            os_streams: false,
        }
    }

    #[test]
    fn a_release_of_the_images_is_for_clusters_and_has_no_placeholder() {
        let request = request();
        let assembly = assemble(&request).unwrap();
        let payload = Payload::parse(&assembly.files).unwrap();
        assert!(
            payload.manifests.len() > 15,
            "only {}",
            payload.manifests.len()
        );
        for manifest in &payload.manifests {
            let profiles = manifest.selection().profiles;
            assert!(
                profiles.contains("self-managed-high-availability"),
                "{} of {} is for no cluster",
                manifest.id,
                manifest.file
            );
        }
        let image_of = |kind: &str| {
            let is_one = |manifest: &&Manifest| manifest.id.kind == kind;
            let manifest = payload.manifests.iter().find(is_one).unwrap();
            manifest
                .text("/spec/template/spec/containers/0/image")
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            image_of("DaemonSet"),
            request.images["slipway-mcd"].pull_spec.as_str()
        );
        // What the controller takes over, and what the version operator waits for.
        let named = |kind: &str, name: &str| {
            let is_one =
                |manifest: &&Manifest| manifest.id.kind == kind && manifest.id.name == name;
            payload.manifests.iter().find(is_one).unwrap()
        };
        // Clients compare the image of this container with the version `operator-image`.
        for name in ["machine-config-operator", "machine-config-controller"] {
            let deployment = named("Deployment", name);
            let container =
                |field: &str| deployment.text(&format!("/spec/template/spec/containers/0/{field}"));
            let image = request.images["slipway-mcc"].pull_spec.as_str();
            assert_eq!(container("name"), Some(name));
            assert_eq!(container("image"), Some(image));
        }
        let os = named("ConfigMap", "machine-config-osimageurl");
        assert_eq!(
            os.text("/data/baseOSContainerImage").unwrap(),
            request.images[OS].pull_spec.as_str()
        );
        assert_eq!(os.text("/data/releaseVersion").unwrap(), "1.0.0");
        let images = named("ConfigMap", "machine-config-operator-images");
        let images = images.text("/data/images.json").unwrap();
        let images: BTreeMap<String, String> = serde_json::from_str(images).unwrap();
        assert_eq!(images["releaseVersion"], "1.0.0");
        for (key, image) in [
            ("machineConfigDaemon", "slipway-mcd"),
            ("slipwayOsBuilder", OS_BUILDER),
        ] {
            assert_eq!(images[key], request.images[image].pull_spec.as_str());
        }
        let operator = named("ClusterOperator", "machine-config");
        assert_eq!(
            operator.text("/status/versions/0/version").unwrap(),
            "1.0.0"
        );
        assert_eq!(
            operator.text("/status/versions/1/version").unwrap(),
            request.images["slipway-mcc"].pull_spec.as_str()
        );
        let last = payload.manifests.last().unwrap();
        assert_eq!(last.id.kind, "ClusterOperator");
        let position = |kind: &str| {
            payload
                .manifests
                .iter()
                .position(|manifest| manifest.id.kind == kind)
                .unwrap()
        };
        assert!(position("CustomResourceDefinition") < position("Namespace"));
        assert!(position("Namespace") < position("ServiceAccount"));
        assert!(position("ServiceAccount") < position("DaemonSet"));
    }
}
