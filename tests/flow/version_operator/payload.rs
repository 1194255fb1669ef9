//! A release of three components, in a directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

pub(crate) const IMAGE: &str = "registry.example/release@sha256:2";
pub(crate) const VERSION: &str = "4.2.0";

/// Components with their run levels, lowest first.
pub(crate) const COMPONENTS: [(&str, &str); 3] = [("10", "alpha"), ("20", "beta"), ("50", "gamma")];

/// Manifests that the cluster applies.
pub(crate) const INCLUDED: usize = 12;

/// Objects in namespace `default`, with the annotation by which this cluster includes them.
fn object(api_version: &str, kind: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "annotations": { "include.release.openshift.io/self-managed-high-availability": "true" }
        }
    });
    if ["ConfigMap", "Widget"].contains(&kind) {
        object["metadata"]["namespace"] = json!("default");
    }
    for (key, value) in rest.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

pub(crate) struct Payload(PathBuf);

impl Payload {
    /// Writes the release.
    pub(crate) fn make(dir: PathBuf) -> Result<Self> {
        let this = Self(dir);
        this.rewrite(VERSION)?;
        Ok(this)
    }

    /// Writes another version of it in its place.
    pub(crate) fn rewrite(&self, version: &str) -> Result<()> {
        let this = self;
        fs::create_dir_all(this.0.join("manifests"))?;
        fs::create_dir_all(this.0.join("release-manifests"))?;
        let metadata = json!({ "kind": "cincinnati-metadata-v0", "version": version });
        this.write("release-metadata", &metadata)?;
        let references = json!({
            "kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
            "metadata": { "name": version }, "spec": { "tags": [] }
        });
        this.write("image-references", &references)?;
        let own = object(
            "v1",
            "ConfigMap",
            "own",
            &json!({ "data": { "image": "{{.ReleaseImage}}" } }),
        );
        fs::write(this.0.join("manifests/0000_90_own_x.json"), own.to_string())?;
        for (level, component) in COMPONENTS {
            let config = object(
                "v1",
                "ConfigMap",
                component,
                &json!({ "data": { "level": level, "version": version } }),
            );
            this.write(&format!("0000_{level}_{component}_05_config.json"), &config)?;
            let status = json!({ "status": {
                "versions": [{ "name": "operator", "version": version }],
                "relatedObjects": [{ "group": "", "resource": "namespaces", "name": "default" }]
            } });
            let mut operator = object(
                "config.openshift.io/v1",
                "ClusterOperator",
                component,
                &status,
            );
            operator["spec"] = json!({});
            this.write(
                &format!("0000_{level}_{component}_90_operator.json"),
                &operator,
            )?;
        }
        this.write(
            "0000_10_alpha_01_crd.json",
            &definition("example.com", "Widget", "widgets"),
        )?;
        let widget = object(
            "example.com/v1",
            "Widget",
            "w",
            &json!({ "spec": { "size": 1 } }),
        );
        this.write("0000_10_alpha_02_widget.json", &widget)?;
        let role =
            json!({ "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] });
        let role = object("rbac.authorization.k8s.io/v1", "ClusterRole", "beta", &role);
        this.write("0000_20_beta_01_role.json", &role)?;
        let mut once = object(
            "v1",
            "ConfigMap",
            "once",
            &json!({ "data": { "a": "release's" } }),
        );
        once["metadata"]["annotations"]["release.openshift.io/create-only"] = json!("true");
        this.write("0000_20_beta_02_once.json", &once)?;
        let mut removed = object("v1", "ConfigMap", "removed", &Value::Null);
        removed["metadata"]["annotations"]["release.openshift.io/delete"] = json!("true");
        this.write("0000_50_gamma_01_removed.json", &removed)?;
        let mut other = object("v1", "ConfigMap", "other", &Value::Null);
        other["metadata"]["annotations"] = json!({ "include.release.openshift.io/other": "true" });
        this.write("0000_50_gamma_02_other.json", &other)
    }

    /// Writes a file of manifests.
    pub(crate) fn write(&self, file: &str, value: &Value) -> Result<()> {
        self.write_text(file, &value.to_string())
    }

    pub(crate) fn write_text(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.0.join("release-manifests").join(file), text)?;
        Ok(())
    }

    pub(crate) fn remove(&self, file: &str) -> Result<()> {
        Ok(fs::remove_file(
            self.0.join("release-manifests").join(file),
        )?)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A ConfigMap that the API server does not accept.
    pub(crate) fn rejected() -> Value {
        object("v1", "ConfigMap", "Not_A_Name", &Value::Null)
    }
}

/// A definition of a kind whose objects have a size.
pub(crate) fn definition(group: &str, kind: &str, plural: &str) -> Value {
    let schema = json!({
        "type": "object",
        "properties": { "spec": { "type": "object", "properties": { "size": { "type": "integer" } } } }
    });
    let spec = json!({ "spec": {
        "group": group,
        "names": { "kind": kind, "plural": plural },
        "scope": "Namespaced",
        "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }]
    } });
    object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &format!("{plural}.{group}"),
        &spec,
    )
}
