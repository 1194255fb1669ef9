//! A release, as text.

use std::collections::BTreeMap;

use images::Image;
use release::component_versions::{Carried, ComponentVersion};
use release::order::is_manifest_file;
use release::payload::Files;
use release::references::annotation;
use release::{METADATA_FILE, Payload, PullSpec, REFERENCES_FILE, Version};

use super::table::{blocks, table};

/// What is shown of a release.
#[derive(Debug, Clone)]
pub(crate) struct Info {
    pub(crate) head: Head,
    pub(crate) payload: Payload,
    pub(crate) files: Files,
    pub(crate) carried: Carried,
    pub(crate) warnings: Vec<String>,
}

/// What is shown of the image.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// Digest of the list, if there is one, else of the image.
    pub(crate) digest: String,
    /// Digest of the image.
    pub(crate) content_digest: String,
    /// Digest of the list; empty where there is none.
    pub(crate) list_digest: String,
    /// How the image is pulled, by digest.
    pub(crate) pull_from: String,
    pub(crate) created: String,
    /// What it runs on; of a list all of them.
    pub(crate) platform: String,
    pub(crate) configuration: serde_json::Value,
}

/// Stands for an absent value.
const UNKNOWN: &str = "unknown";

impl Head {
    pub(crate) fn of(image: &Image) -> Self {
        let platform = match image.list() {
            Some(list) => {
                let all: Vec<String> = list.platforms.iter().map(ToString::to_string).collect();
                format!("multi ({})", all.join(", "))
            }
            None => {
                or_unknown(&image.platform().os) + "/" + &or_unknown(&image.platform().architecture)
            }
        };
        let digest = image.outer_digest();
        let pull_spec = image.name().pull_spec(digest);
        let created = image.created();
        Self {
            digest: digest.to_string(),
            content_digest: image.digest().to_string(),
            list_digest: image
                .list()
                .map_or_else(String::new, |list| list.digest.to_string()),
            pull_from: pull_spec.map_or_else(
                || image.name().with_digest(digest).to_string(),
                |spec| spec.to_string(),
            ),
            created: created.map_or_else(|| UNKNOWN.to_owned(), |time| time.to_string()),
            platform,
            configuration: serde_json::from_slice(image.configuration_bytes()).unwrap_or_default(),
        }
    }
}

fn or_unknown(text: &str) -> String {
    let text = if text.is_empty() { UNKNOWN } else { text };
    text.to_owned()
}

impl Info {
    pub(crate) fn new(head: Head, payload: Payload, files: Files) -> Self {
        let (carried, faults) = Carried::of(&payload.references);
        let mut warnings: Vec<String> = faults
            .iter()
            .map(|(image, error)| {
                format!(
                    "image {image}: annotation {} names no versions: {error}",
                    annotation::VERSIONS
                )
            })
            .collect();
        let conflicts: Vec<&str> = carried
            .conflicts()
            .map(|(component, _)| component)
            .collect();
        if !conflicts.is_empty() {
            let conflicts = conflicts.join(", ");
            warnings.push(format!("multiple versions or display names reported for the following component(s): {conflicts}"));
        }
        for key in &payload.metadata.not_text {
            warnings.push(format!("{METADATA_FILE}: field metadata.{key} is no text"));
        }
        Self {
            head,
            payload,
            files,
            carried,
            warnings,
        }
    }

    pub(crate) fn version(&self) -> &Version {
        &self.payload.metadata.version
    }

    /// Pull spec of an image of the release.
    pub(crate) fn image(&self, name: &str) -> Option<&str> {
        Some(self.payload.references.tags.get(name)?.from.as_str())
    }

    /// Digest of each image by name; its pull spec where that has none.
    pub(crate) fn digests(&self) -> BTreeMap<&str, String> {
        let tags = self.payload.references.tags.iter();
        tags.map(|(name, tag)| {
            let digest = tag
                .from
                .parse()
                .map(|spec: PullSpec| spec.digest().to_string());
            (name.as_str(), digest.unwrap_or_else(|_| tag.from.clone()))
        })
        .collect()
    }

    fn annotation(&self, image: &str, key: &str) -> &str {
        let tag = self.payload.references.tags.get(image);
        let value = tag.and_then(|tag| tag.annotations.get(key));
        value.map_or("", String::as_str)
    }

    /// Commit of each image by name, with its repository.
    pub(crate) fn commit(&self, image: &str) -> (&str, &str) {
        (
            self.annotation(image, annotation::SOURCE_LOCATION),
            self.annotation(image, annotation::COMMIT_ID),
        )
    }
}

/// What is shown of the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Images {
    Digests,
    PullSpecs,
    Commits,
    CommitUrls,
}

pub(crate) fn text(info: &Info, images: Images) -> String {
    blocks(&[
        head(info),
        format!("Pull From: {}\n", info.head.pull_from),
        metadata(info),
        components(info),
        images_block(info, images),
        warnings(info),
    ])
}

fn head(info: &Info) -> String {
    let (manifests, others): (Vec<&String>, Vec<&String>) =
        info.files.keys().partition(|name| is_manifest_file(name));
    let is_known = |name: &&&String| [METADATA_FILE, REFERENCES_FILE].contains(&name.as_str());
    let others = others.iter().filter(|name| !is_known(name)).count();
    let mut rows = vec![
        ["Name:", &info.version().to_string()].map(str::to_owned),
        ["Digest:", &info.head.digest].map(str::to_owned),
        ["Created:", &info.head.created].map(str::to_owned),
        ["OS/Arch:", &info.head.platform].map(str::to_owned),
        ["Manifests:", &manifests.len().to_string()].map(str::to_owned),
    ];
    if others > 0 {
        rows.push(["Metadata files:".to_owned(), others.to_string()]);
    }
    table(0, &rows)
}

fn metadata(info: &Info) -> String {
    let metadata = &info.payload.metadata;
    let previous: Vec<String> = metadata.previous.iter().map(Version::to_string).collect();
    let upgrades = if previous.is_empty() {
        "<none>".to_owned()
    } else {
        previous.join(", ")
    };
    let version = info.version().to_string();
    let mut text = "Release Metadata:\n".to_owned();
    text += &table(2, &[["Version:", &version], ["Upgrades:", &upgrades]]);
    let all = metadata
        .metadata
        .iter()
        .filter(|(_, value)| !value.is_empty());
    let rows: Vec<[String; 2]> = all
        .map(|(key, value)| [format!("{key}:"), value.clone()])
        .collect();
    if !rows.is_empty() {
        text += "  Metadata:\n";
        text += &table(4, &rows);
    }
    text
}

fn components(info: &Info) -> String {
    let rows: Vec<[String; 3]> = info
        .carried
        .versions
        .iter()
        .map(|(name, version)| {
            let ComponentVersion {
                version,
                display_name,
            } = version;
            [name.clone(), version.to_string(), display_name.clone()]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("Component Versions:\n{}", table(2, &rows))
}

fn images_block(info: &Info, images: Images) -> String {
    let names = info.payload.references.tags.keys();
    let text = match images {
        Images::Digests => {
            let digests = info.digests();
            let rows = digests
                .iter()
                .map(|(name, digest)| [*name, digest.as_str()]);
            table(
                2,
                &[["NAME", "DIGEST"]]
                    .into_iter()
                    .chain(rows)
                    .collect::<Vec<_>>(),
            )
        }
        Images::PullSpecs => {
            let rows = names.map(|name| [name.as_str(), info.image(name).unwrap_or_default()]);
            table(
                2,
                &[["NAME", "PULL SPEC"]]
                    .into_iter()
                    .chain(rows)
                    .collect::<Vec<_>>(),
            )
        }
        Images::Commits => {
            let rows = names.map(|name| {
                let (repository, commit) = info.commit(name);
                [name.as_str(), repository, commit]
            });
            table(
                2,
                &[["NAME", "REPO", "COMMIT"]]
                    .into_iter()
                    .chain(rows)
                    .collect::<Vec<_>>(),
            )
        }
        Images::CommitUrls => {
            let rows = names.map(|name| {
                let (repository, commit) = info.commit(name);
                [name.clone(), commit_url(repository, commit)]
            });
            let head = [["NAME".to_owned(), "URL".to_owned()]];
            table(2, &head.into_iter().chain(rows).collect::<Vec<_>>())
        }
    };
    format!("Images:\n{text}")
}

/// Where a commit is shown; its text where the repository has no such page.
fn commit_url(repository: &str, commit: &str) -> String {
    let is_page = repository.starts_with("https://") && !commit.is_empty();
    if is_page {
        format!(
            "{}/commit/{commit}",
            repository.trim_end_matches('/').trim_end_matches(".git")
        )
    } else {
        commit.to_owned()
    }
}

fn warnings(info: &Info) -> String {
    if info.warnings.is_empty() {
        return String::new();
    }
    let mut text = "Warnings:\n".to_owned();
    for warning in &info.warnings {
        text.push_str("* ");
        text.push_str(warning);
        text.push('\n');
    }
    text
}

/// All files, metadata first, each after a line with its name.
pub(crate) fn contents(files: &Files) -> Vec<u8> {
    let (manifests, metadata): (Vec<_>, Vec<_>) =
        files.iter().partition(|(name, _)| is_manifest_file(name));
    let mut out = Vec::new();
    for (name, bytes) in metadata.into_iter().chain(manifests) {
        out.extend_from_slice(format!("# {name}\n").as_bytes());
        out.extend_from_slice(bytes);
        if !bytes.ends_with(b"\n") {
            out.push(b'\n');
        }
    }
    out
}

#[cfg(test)]
pub(crate) mod tests;
