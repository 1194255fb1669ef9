//! The OS images that a release has, and which of two releases belong together.

use std::collections::{BTreeMap, BTreeSet};

use release::Payload;
use release::component_versions::Carried;
use release::os_streams::{self, OS_IMAGE, ReleaseStreams, STREAMS_KEY};
use serde_json::Value;

/// Keys of [`OS_IMAGE`] with the pull spec of the OS, the newer one first, and of its extensions.
const IMAGE_KEYS: [&str; 2] = ["baseOSContainerImage", "osImageURL"];
const EXTENSIONS_KEY: &str = "baseOSExtensionsContainerImage";

/// Component whose version is that of an OS.
const MACHINE_OS: &str = "machine-os";

/// Name of an OS that no tag of the release names.
const UNNAMED: &str = "os";

/// The OS images of a release, by stream. The only one of a release without streams has the name of
/// its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OsImages {
    /// Name of the one that pools have which choose none.
    default: String,
    has_streams: bool,
    /// Pull specs.
    images: BTreeMap<String, String>,
}

/// An OS of two releases, with its pull specs; one of them is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OsPair {
    pub(crate) name: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

impl OsImages {
    /// Reads them from ConfigMap [`OS_IMAGE`]; of a release without it the image that brings the
    /// version of `machine-os`. None where there is neither.
    ///
    /// # Errors
    /// The streams of the release cannot be read.
    pub(crate) fn of_release(payload: &Payload) -> Result<Option<Self>, os_streams::Error> {
        let mut manifests = payload.manifests.iter();
        let map = manifests.find(|it| it.id.kind == "ConfigMap" && it.id.name == OS_IMAGE);
        let data = |key: &str| {
            let value = map?.object.get("data")?.get(key).and_then(Value::as_str)?;
            Some(value).filter(|value| !value.is_empty())
        };
        let image = IMAGE_KEYS.iter().find_map(|key| data(key));
        let Some(image) = image else {
            return Ok(Self::of_tags(payload));
        };
        if let Some(streams) = data(STREAMS_KEY) {
            let extensions = data(EXTENSIONS_KEY).unwrap_or_default();
            let streams = ReleaseStreams::parse(streams, image, extensions)?;
            let images = streams.streams().iter();
            return Ok(Some(Self {
                default: streams.default_stream().to_owned(),
                has_streams: true,
                images: images
                    .map(|it| (it.name.clone(), it.os_image.clone()))
                    .collect(),
            }));
        }
        let mut tags = payload.references.tags.iter();
        let tag = tags.find(|(_, tag)| tag.from == image);
        let name = tag.map_or(UNNAMED, |(name, _)| name);
        Ok(Some(Self::one(name, image)))
    }

    fn of_tags(payload: &Payload) -> Option<Self> {
        let has_version = |name: &str| {
            let mut references = payload.references.clone();
            references.tags.retain(|tag, _| tag == name);
            Carried::of(&references).0.versions.contains_key(MACHINE_OS)
        };
        let mut tags = payload.references.tags.iter();
        let (name, tag) = tags.find(|(name, _)| has_version(name))?;
        Some(Self::one(name, &tag.from))
    }

    /// The only OS of a release.
    pub(crate) fn one(name: &str, image: &str) -> Self {
        Self {
            default: name.to_owned(),
            has_streams: false,
            images: BTreeMap::from([(name.to_owned(), image.to_owned())]),
        }
    }

    /// All of them: name and pull spec.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let images = self.images.iter();
        images.map(|(name, image)| (name.as_str(), image.as_str()))
    }
}

/// Pairs the OS images of two releases: streams by name; where one release has no streams, its OS
/// and the default stream of the other one.
pub(crate) fn pairs(from: &OsImages, to: &OsImages) -> Vec<OsPair> {
    let pair = |name: &str, from: Option<&String>, to: Option<&String>| OsPair {
        name: name.to_owned(),
        from: from.cloned(),
        to: to.cloned(),
    };
    if from.has_streams && to.has_streams {
        let names: BTreeSet<&String> = from.images.keys().chain(to.images.keys()).collect();
        let pair = |name: &String| pair(name, from.images.get(name), to.images.get(name));
        return names.into_iter().map(pair).collect();
    }
    let name = if from.has_streams {
        &from.default
    } else {
        &to.default
    };
    let default = |images: &OsImages| images.images.get(&images.default).cloned();
    let mut pairs = vec![pair(name, default(from).as_ref(), default(to).as_ref())];
    let others = |images: &OsImages| -> Vec<(String, String)> {
        let others = images.iter().filter(|(name, _)| *name != images.default);
        others
            .map(|(name, image)| (name.to_owned(), image.to_owned()))
            .collect()
    };
    pairs.extend(
        others(from)
            .iter()
            .map(|(name, image)| pair(name, Some(image), None)),
    );
    pairs.extend(
        others(to)
            .iter()
            .map(|(name, image)| pair(name, None, Some(image))),
    );
    pairs
}

#[cfg(test)]
mod tests {
    use release::manifest::Manifest;
    use serde_json::json;

    use super::*;
    use crate::view::info::tests::{info, with_images};

    fn spec(content: &str) -> String {
        let digest = release::ImageDigest::of(content.as_bytes());
        format!("registry.example/os@{digest}")
    }

    /// A release with this data in its ConfigMap.
    fn payload(data: &Value) -> Payload {
        let mut payload = with_images("1.0.1", &[("os", "1", ""), ("other", "2", "")]).payload;
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": OS_IMAGE }, "data": data,
        });
        let map = Manifest::parse("a.yaml", map.to_string().as_bytes()).unwrap();
        payload.manifests.extend(map);
        payload
    }

    fn streams(default: &str, all: &[(&str, &str)]) -> OsImages {
        OsImages {
            default: default.to_owned(),
            has_streams: true,
            images: all
                .iter()
                .map(|(name, image)| ((*name).to_owned(), spec(image)))
                .collect(),
        }
    }

    #[test]
    fn images_are_those_that_the_release_names() {
        let one = OsImages::of_release(&payload(&json!({ "baseOSContainerImage": spec("1") })));
        // The tag has another pull spec than the map of this toy.
        assert_eq!(one.unwrap(), Some(OsImages::one("os", &spec("1"))));
        let old = OsImages::of_release(&payload(&json!({ "osImageURL": spec("9") })));
        assert_eq!(old.unwrap(), Some(OsImages::one("os", &spec("9"))));
        let written = json!({
            "defaultStream": "b",
            "availableStreams": [
                { "name": "a", "osImage": spec("1") }, { "name": "b", "osImage": spec("2") },
            ],
        });
        let data = json!({ "baseOSContainerImage": spec("2"), STREAMS_KEY: written.to_string() });
        let read = OsImages::of_release(&payload(&data)).unwrap();
        assert_eq!(read, Some(streams("b", &[("a", "1"), ("b", "2")])));
        let data = json!({ "baseOSContainerImage": spec("2"), STREAMS_KEY: "{}" });
        let error = OsImages::of_release(&payload(&data)).unwrap_err();
        assert!(
            error.to_string().contains("data.osImageStreams.json"),
            "{error}"
        );
    }

    #[test]
    fn without_a_map_the_version_of_the_os_names_the_image() {
        let info = info();
        let found = OsImages::of_release(&info.payload).unwrap();
        assert_eq!(found, Some(OsImages::one("os", info.image("os").unwrap())));
        let none = with_images("1.0.1", &[("os", "1", "")]).payload;
        assert_eq!(OsImages::of_release(&none).unwrap(), None);
        let empty = payload(&json!({ "baseOSContainerImage": "" }));
        assert_eq!(OsImages::of_release(&empty).unwrap(), None);
    }

    #[test]
    fn images_of_two_releases_are_paired() {
        let text = |from: &OsImages, to: &OsImages| {
            let digit = |image: &Option<String>| {
                let digits = ["1", "2", "3"];
                let found = digits.iter().find(|it| image.as_ref() == Some(&spec(it)));
                (*found.unwrap_or(&"-")).to_owned()
            };
            let line =
                |pair: OsPair| format!("{} {}{}", pair.name, digit(&pair.from), digit(&pair.to));
            pairs(from, to)
                .into_iter()
                .map(line)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let one = OsImages::one("os", &spec("1"));
        let other = OsImages::one("machine-os", &spec("2"));
        let several = streams("b", &[("a", "1"), ("b", "2")]);
        assert_eq!(text(&one, &other), "machine-os 12");
        assert_eq!(text(&one, &several), "b 12, a -1");
        assert_eq!(text(&several, &one), "b 21, a 1-");
        assert_eq!(
            text(&several, &streams("c", &[("b", "3"), ("c", "1")])),
            "a 1-, b 23, c -1"
        );
    }
}
