//! The Helm chart `slipway`: the objects of the kustomize bundle, as templates.
//!
//! - `objects`: texts and objects of `deploy/`, with what kustomize makes of them
//! - `template`: texts as templates
//! - `values`: values, their defaults and their schema

pub(crate) mod objects;
mod template;
pub(crate) mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use release::PullSpec;

use crate::files;
#[cfg(test)]
use crate::images;

/// Name of the chart and of its folder.
pub const NAME: &str = "slipway";

const README: &str = include_str!("chart/README.md");
const NOTES: &str = include_str!("chart/NOTES.txt");

/// Writes the chart into `output`, as a folder `slipway`; returns its path.
///
/// Shape: `Chart.yaml` (`apiVersion: v2`, version and `appVersion` are `version`), `values.yaml`,
/// `values.schema.json`, `README.md`, and a template for each file that `deploy/` and its optional
/// folders apply, at the file's path.
///
/// `images` has the pull spec of each of [`image_builder::component::COMPONENTS`], by name: the
/// defaults of `images.<component>`.
///
/// # Errors
/// A component has no pull spec, the folder exists already, a file cannot be read or written, or
/// `deploy/` asks kustomize for something that templates do not do here.
///
/// Source: Helm, "Charts"; the files of `helm package`.
pub fn write(
    deploy: &Path,
    version: &str,
    images: &BTreeMap<&str, PullSpec>,
    output: &Path,
) -> Result<PathBuf> {
    let chart = output.join(NAME);
    fs::create_dir_all(output)
        .and_then(|()| fs::create_dir(&chart))
        .with_context(|| format!("cannot make {}", chart.display()))?;
    for file in objects::of(deploy)? {
        let path = chart.join("templates").join(&file.path);
        files::write(&path, template::of(&file)?)?;
    }
    for (path, text) in [
        ("Chart.yaml", description(version)),
        ("README.md", README.replace("{version}", version)),
        ("templates/NOTES.txt", NOTES.to_owned()),
        ("values.schema.json", values::schema()?),
        ("values.yaml", values::defaults(images)?),
    ] {
        files::write(&chart.join(path), text)?;
    }
    Ok(chart)
}

/// Admission policies are in Kubernetes since 1.30.
fn description(version: &str) -> String {
    format!(
        "apiVersion: v2\n\
         name: {NAME}\n\
         description: Configuration and updates of nodes and clusters, as OpenShift has them\n\
         type: application\n\
         version: {version}\n\
         appVersion: {version:?}\n\
         kubeVersion: \">=1.30.0-0\"\n"
    )
}

#[cfg(test)]
mod tests;
