//! The mirrors of each source, over all objects.

use std::collections::BTreeMap;

use api::config::ImageMirrors;
use release::scope::contains;

use super::scope;
use super::{Error, RegistryFacts};

/// How images are pulled from a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PullBy {
    Digest,
    Tag,
}

/// The mirrors of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SourceMirrors {
    /// In the order in which they are tried.
    pub(super) mirrors: Vec<(String, PullBy)>,
    /// Whether the source itself is tried never.
    pub(super) is_only_mirrored: bool,
    /// Object that set this, or not.
    policy_of: String,
}

impl SourceMirrors {
    /// Those of images by digest.
    pub(super) fn by_digest(&self) -> impl Iterator<Item = &str> {
        let mirrors = self.mirrors.iter().filter(|(_, by)| *by == PullBy::Digest);
        mirrors.map(|(mirror, _)| mirror.as_str())
    }
}

/// Mirrors by source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MirrorTable {
    pub(super) sources: BTreeMap<String, SourceMirrors>,
}

impl MirrorTable {
    /// Reads the objects in the order of their names; of one source, the mirrors of the first come
    /// first.
    ///
    /// # Errors
    /// Object and field, and why it is refused.
    pub(super) fn read(settings: &RegistryFacts<'_>) -> Result<Self, Error> {
        let mut table = Self::default();
        for policy in &settings.content_source {
            let object = format!(
                "ImageContentSourcePolicy {}",
                policy.metadata.name.as_deref().unwrap_or_default()
            );
            let mirrors = policy.spec.repository_digest_mirrors.iter();
            let mirrors: Vec<ImageMirrors> = mirrors
                .map(|entry| ImageMirrors {
                    source: entry.source.clone(),
                    mirrors: entry.mirrors.clone(),
                    mirror_source_policy: String::new(),
                })
                .collect();
            table.add(&object, "repositoryDigestMirrors", &mirrors, PullBy::Digest)?;
        }
        for set in &settings.digest {
            let object = format!(
                "ImageDigestMirrorSet {}",
                set.metadata.name.as_deref().unwrap_or_default()
            );
            let mirrors = &set.spec.image_digest_mirrors;
            table.add(&object, "imageDigestMirrors", mirrors, PullBy::Digest)?;
        }
        for set in &settings.tag {
            let object = format!(
                "ImageTagMirrorSet {}",
                set.metadata.name.as_deref().unwrap_or_default()
            );
            let mirrors = &set.spec.image_tag_mirrors;
            table.add(&object, "imageTagMirrors", mirrors, PullBy::Tag)?;
        }
        Ok(table)
    }

    fn add(
        &mut self,
        object: &str,
        field: &str,
        list: &[ImageMirrors],
        by: PullBy,
    ) -> Result<(), Error> {
        for (index, entry) in list.iter().enumerate() {
            let at = || format!("{object}: spec.{field}[{index}]");
            scope::check(&entry.source, true)
                .map_err(|error| Error::Mirror(at(), "source", error))?;
            for mirror in &entry.mirrors {
                scope::check(mirror, false)
                    .map_err(|error| Error::Mirror(at(), "mirrors", error))?;
            }
            let is_only_mirrored = match entry.mirror_source_policy.as_str() {
                "" | "AllowContactingSource" => false,
                "NeverContactSource" => true,
                other => return Err(Error::NoSourcePolicy(at(), other.to_owned())),
            };
            let source = self.sources.entry(entry.source.clone()).or_default();
            if source.policy_of.is_empty() {
                source.is_only_mirrored = is_only_mirrored;
                object.clone_into(&mut source.policy_of);
            } else if source.is_only_mirrored != is_only_mirrored {
                let other = source.policy_of.clone();
                return Err(Error::TwoPolicies(at(), entry.source.clone(), other));
            }
            for mirror in &entry.mirrors {
                let mirror = (mirror.clone(), by);
                if !source.mirrors.contains(&mirror) {
                    source.mirrors.push(mirror);
                }
            }
        }
        Ok(())
    }

    /// The longest source that has a repository, and its mirrors: the runtime follows no other.
    pub(super) fn of(&self, repository: &str) -> Option<(&str, &SourceMirrors)> {
        let sources = self.sources.iter();
        let sources = sources.filter(|(source, _)| contains(source, repository));
        let longest = sources.max_by_key(|(source, _)| source.len());
        longest.map(|(source, mirrors)| (source.as_str(), mirrors))
    }

    /// Mirrors of a repository's images by digest.
    pub(super) fn of_digests(&self, repository: &str) -> impl Iterator<Item = &str> {
        self.of(repository)
            .into_iter()
            .flat_map(|(_, source)| source.by_digest())
    }
}
