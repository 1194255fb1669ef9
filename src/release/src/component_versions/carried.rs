//! Which components the images of a release carry, in which versions.

use std::collections::{BTreeMap, BTreeSet};

use super::{ComponentVersions, Error, parse};
use crate::references::{References, annotation};
use crate::version::Version;

/// May differ between images: a release may hold several operating systems.
const MAY_DIFFER: &str = "machine-os";

/// Is built into many images, and counts from these only.
const KUBECTL: &str = "kubectl";
const KUBECTL_IMAGES: [&str; 2] = ["cli", "cli-artifacts"];

/// The components of a release's images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Of each component the version of the first image that has it, by the name of the image.
    pub versions: ComponentVersions,
    /// Of each component the images that have it, with its version there.
    pub images: BTreeMap<String, Vec<(String, Version)>>,
}

impl Carried {
    /// Reads the annotations of all images, and names those of which they are wrong.
    pub fn of(references: &References) -> (Self, Vec<(String, Error)>) {
        let mut carried = Self::default();
        let mut faults = Vec::new();
        for (image, tag) in &references.tags {
            let text = |key| tag.annotations.get(key).map_or("", String::as_str);
            let parsed = parse(
                text(annotation::VERSIONS),
                text(annotation::VERSION_DISPLAY_NAMES),
            );
            match parsed {
                Ok(versions) => carried.add(image, versions),
                Err(error) => faults.push((image.clone(), error)),
            }
        }
        (carried, faults)
    }

    fn add(&mut self, image: &str, versions: ComponentVersions) {
        for (component, version) in versions {
            if component == KUBECTL && !KUBECTL_IMAGES.contains(&image) {
                continue;
            }
            let images = self.images.entry(component.clone()).or_default();
            images.push((image.to_owned(), version.version.clone()));
            self.versions.entry(component).or_insert(version);
        }
    }

    /// The components that images have in several versions, with these images; without those that
    /// may differ.
    pub fn conflicts(&self) -> impl Iterator<Item = (&str, &[(String, Version)])> {
        self.several()
            .filter(|(component, _)| *component != MAY_DIFFER)
    }

    /// The components that images have in several versions, whether or not they may.
    pub(crate) fn several(&self) -> impl Iterator<Item = (&str, &[(String, Version)])> {
        let all = self.images.iter();
        all.filter(|(_, images)| {
            let versions: BTreeSet<&Version> = images.iter().map(|(_, version)| version).collect();
            versions.len() > 1
        })
        .map(|(component, images)| (component.as_str(), images.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::Tag;

    #[test]
    fn components_of_all_images_are_gathered() {
        let images = [
            ("cli", "kubectl=1.32.1"),
            ("hyperkube", "kubectl=1.31.0,kubernetes=1.32.1"),
            ("os-10", "machine-os=10.0.0,kernel=6.12.0"),
            ("os-9", "machine-os=9.6.0,kernel=5.14.0"),
            ("other", "kubernetes=1.32.1"),
            ("wrong", "x"),
        ];
        let mut references = References::default();
        for (name, versions) in images {
            let versions = (annotation::VERSIONS.to_owned(), versions.to_owned());
            let tag = Tag {
                from: String::new(),
                annotations: [versions].into(),
            };
            references.tags.insert(name.to_owned(), tag);
        }
        let (carried, faults) = Carried::of(&references);
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].0, "wrong");
        let version = |component: &str| carried.versions[component].version.to_string();
        assert_eq!(version("kubectl"), "1.32.1");
        assert_eq!(version("machine-os"), "10.0.0");
        let conflicts: Vec<_> = carried
            .conflicts()
            .map(|(component, _)| component)
            .collect();
        assert_eq!(conflicts, ["kernel"]);
        let several: Vec<_> = carried.several().map(|(component, _)| component).collect();
        assert_eq!(several, ["kernel", "machine-os"]);
        let images: Vec<_> = carried.images["kubernetes"]
            .iter()
            .map(|(image, _)| image.as_str())
            .collect();
        assert_eq!(images, ["hyperkube", "other"]);
    }
}
