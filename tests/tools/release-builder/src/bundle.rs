//! The kustomize bundle: what people apply of `deploy/`, with each image by digest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use image_builder::component::{COMPONENTS, Component};
use release::PullSpec;

use crate::kustomization::{self, Kustomization};
use crate::{files, images};

/// Of `deploy/`, what people do not apply: templates of releases, and the script of an image.
const RELEASES_ONLY: [&str; 3] = ["cluster-operator", "os-builder", "release"];

/// The page that `deploy/` opens with, and its name in the bundle, which has a page of its own.
const PAGE: (&str, &str) = ("README.md", "INSTALL.md");

/// The page of the bundle.
const README: &str = include_str!("bundle/README.md");

/// Kustomizations say in this comment how to set an image: the bundle does it.
const HOW_TO_SET: &str = "# Set the image with ";

/// Writes the bundle into `output`, as a folder `slipway-<version>`; returns its path.
///
/// Shape: the files of `deploy` but those of releases. Each kustomization that lists an object with
/// a component's image has an entry `images` for it (`name`, `newName`, `digest`), so that each
/// folder that is applied apart is complete. Where a component's name stands elsewhere than in a
/// field `image`, the file has the pull spec itself.
///
/// `images` has the pull spec of each of [`COMPONENTS`], by name.
///
/// # Errors
/// A component has no pull spec, the folder exists already, or a file cannot be read or written.
pub fn write(
    deploy: &Path,
    version: &str,
    images: &BTreeMap<&str, PullSpec>,
    output: &Path,
) -> Result<PathBuf> {
    let bundle = output.join(format!("slipway-{version}"));
    fs::create_dir_all(output)
        .and_then(|()| fs::create_dir(&bundle))
        .with_context(|| format!("cannot make {}", bundle.display()))?;
    for path in files::below(deploy)? {
        let name = path.strip_prefix(deploy)?;
        if RELEASES_ONLY.iter().any(|folder| name.starts_with(folder)) {
            continue;
        }
        let text = files::read_text(&path)?;
        let text = if name.ends_with(kustomization::NAME) {
            let folder = path.parent().context("a file without folder")?;
            with_images(&text, &entries(folder, images)?)
        } else if name.extension().is_some_and(|kind| kind == "yaml") {
            resolve(&text, images)?
        } else {
            text
        };
        let name = if name == Path::new(PAGE.0) {
            Path::new(PAGE.1)
        } else {
            name
        };
        files::write(&bundle.join(name), text)?;
    }
    let page = README.replace("{version}", version);
    files::write(&bundle.join(PAGE.0), page)?;
    Ok(bundle)
}

/// The text with pull specs for the names that kustomize does not reach.
fn resolve(text: &str, images: &BTreeMap<&str, PullSpec>) -> Result<String> {
    let text = images::without_placeholder(text);
    let mut resolved = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if images::is_image_field(line) {
            resolved.push_str(line);
            continue;
        }
        let with = |component: &Component| Ok(images::of(images, component)?.to_string());
        resolved.push_str(&images::replace(line, with)?);
    }
    Ok(resolved)
}

/// Entries `images` of a kustomization; empty if its files name no component.
fn entries(folder: &Path, images: &BTreeMap<&str, PullSpec>) -> Result<String> {
    let mut named = BTreeSet::new();
    for resource in Kustomization::read(folder)?.resources {
        let path = folder.join(resource);
        if path.is_file() {
            let text = images::without_placeholder(&files::read_text(&path)?);
            let fields = text.lines().filter(|line| images::is_image_field(line));
            named.extend(fields.flat_map(images::names));
        }
    }
    let mut entries = String::new();
    for component in COMPONENTS.iter().filter(|it| named.contains(it.name)) {
        let image = images::of(images, component)?;
        let (repository, digest) = (images::repository(image), image.digest());
        let name = component.name;
        write!(
            entries,
            "  - name: {name}\n    newName: {repository}\n    digest: {digest}\n"
        )?;
    }
    Ok(entries)
}

fn with_images(text: &str, entries: &str) -> String {
    let lines = text.split_inclusive('\n');
    let mut text: String = lines.filter(|line| !line.starts_with(HOW_TO_SET)).collect();
    if !entries.is_empty() {
        text.push_str("images:\n");
        text.push_str(entries);
    }
    text
}

#[cfg(test)]
mod tests;
