//! Releases in the lab's registry.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use images::draft::Built;
use images::image::Platform;
use images::tree::EntryContent;
use images::{Credentials, Draft, ImageLocation, Stores, Tree};
use jiff::Timestamp;
use release::verification::{FILE, SignatureTrust};
use release::{ImageDigest, RELEASE_LABEL};
use serde_json::{Value, json};
use testbed::{ReleaseKey, keyring};

/// The only component beside the version operator.
pub(crate) const COMPONENT: &str = "alpha";

/// Namespace and name of the version operator's own Deployment.
pub(crate) const OWN: (&str, &str) = ("openshift-cluster-version", "cluster-version-operator");

/// Files of a release, by path in its image.
pub(crate) type ReleaseTree = BTreeMap<String, String>;

fn object(api_version: &str, kind: &str, namespace: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": name,
            "annotations": { "include.release.openshift.io/self-managed-high-availability": "true" }
        }
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    for (key, value) in rest.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

/// A release that these keys may sign, and whose signatures `store` has.
pub(crate) fn release(version: &str, keys: &[&ReleaseKey], store: &str) -> Result<ReleaseTree> {
    let mut files = ReleaseTree::new();
    let mut put = |path: &str, value: &Value| files.insert(path.to_owned(), value.to_string());
    let metadata = json!({
        "kind": "cincinnati-metadata-v0", "version": version,
        "metadata": { "url": format!("https://example.com/{version}") }
    });
    put("release-manifests/release-metadata", &metadata);
    let references = json!({
        "kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
        "metadata": { "name": version }, "spec": { "tags": [] }
    });
    put("release-manifests/image-references", &references);
    let labels = json!({ "k8s-app": "cvo" });
    let container = json!({ "name": "cvo", "image": "{{.ReleaseImage}}" });
    let spec = json!({ "spec": {
        "replicas": 1, "selector": { "matchLabels": labels }, "strategy": { "type": "Recreate" },
        "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } }
    } });
    let own = object("apps/v1", "Deployment", OWN.0, OWN.1, &spec);
    put(
        "manifests/0000_00_cluster-version-operator_03_deployment.json",
        &own,
    );
    let data = json!({ "data": { "version": version } });
    let map = object("v1", "ConfigMap", "default", COMPONENT, &data);
    put("release-manifests/0000_50_alpha_05_config.json", &map);
    let status = json!({ "spec": {}, "status": {
        "versions": [{ "name": "operator", "version": version }]
    } });
    let operator = object(
        "config.openshift.io/v1",
        "ClusterOperator",
        "",
        COMPONENT,
        &status,
    );
    put(
        "release-manifests/0000_50_alpha_90_operator.json",
        &operator,
    );
    let trust = SignatureTrust {
        keyrings: [("test".to_owned(), keyring(keys)?)].into(),
        stores: [("lab".to_owned(), store.to_owned())].into(),
    };
    let keys = String::from_utf8(trust.print()?)?;
    files.insert(format!("release-manifests/{FILE}"), keys);
    Ok(files)
}

/// Writes a release to a directory, as its image has it.
pub(crate) fn write(files: &ReleaseTree, directory: &Path) -> Result<()> {
    for (path, text) in files {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().context("a path with a directory")?)?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// Puts a release into a registry; its digest.
pub(crate) async fn push(files: &ReleaseTree, place: &str) -> Result<ImageDigest> {
    let mut tree = Tree::new();
    for (path, text) in files {
        tree.put(path, 0o644, EntryContent::Bytes(text.clone().into_bytes()))?;
    }
    let mut base = Tree::new();
    base.put(
        "usr/bin/cvo",
        0o755,
        EntryContent::Bytes(b"a program".to_vec()),
    )?;
    let time = Timestamp::UNIX_EPOCH;
    let mut draft = Draft::new(Platform::of_this_machine(), time);
    // An update service tells releases from other images by it.
    draft.labels = [(RELEASE_LABEL.to_owned(), "a release".to_owned())].into();
    draft.push(base.layer(time)?, "base");
    draft.push(tree.layer(time)?, "release");
    let image: Built = draft.build()?;
    let location: ImageLocation = place.parse()?;
    Stores::new(Credentials::default(), true)
        .put(&image, &location)
        .await?;
    Ok(image.digest().clone())
}
