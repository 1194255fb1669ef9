//! `image-references`: the images of a release, or of an operator, by name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_saphyr::UserMessageFormatter;

const KIND: &str = "ImageStream";
const API_VERSION: &str = "image.openshift.io/v1";

/// The only kind of source that is an image in a registry.
const DOCKER_IMAGE: &str = "DockerImage";

/// Annotations of a tag, and of the stream for a default.
pub mod annotation {
    /// Versions of the components in an image: `kubernetes=1.32.1,…`.
    pub const VERSIONS: &str = "io.openshift.build.versions";
    /// What people call these components: `machine-os=Red Hat Enterprise Linux CoreOS,…`.
    pub const VERSION_DISPLAY_NAMES: &str = "io.openshift.build.version-display-names";
    /// Commit that an image was built from.
    pub const COMMIT_ID: &str = "io.openshift.build.commit.id";
    /// Branch or tag of that commit.
    pub const COMMIT_REF: &str = "io.openshift.build.commit.ref";
    /// Repository of that commit.
    pub const SOURCE_LOCATION: &str = "io.openshift.build.source-location";
    /// Set on the tag of an image that was named for this release alone.
    pub const OVERRIDE: &str = "io.openshift.release.override";
    /// Set on the stream: pull spec of the release that this one was made from.
    pub const FROM_RELEASE: &str = "release.openshift.io/from-release";
}

/// Labels of an image that become annotations of its tag.
pub const COPIED_LABELS: [&str; 5] = [
    annotation::COMMIT_ID,
    annotation::COMMIT_REF,
    annotation::SOURCE_LOCATION,
    annotation::VERSIONS,
    annotation::VERSION_DISPLAY_NAMES,
];

/// The images of a release, by name.
///
/// Shape: ImageStream of `image.openshift.io/v1`; of a release its `metadata.name` is the version,
/// and each tag's `from.name` a pull spec by digest. Of an operator `from.name` is a placeholder
/// that its manifests contain. Tags whose source is no image are left out. Source:
/// `docs/reference/cli.md`, "Release payload".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Name of the stream; empty for an operator's.
    pub name: String,
    /// Annotations of the stream.
    pub annotations: BTreeMap<String, String>,
    /// Images by name.
    pub tags: BTreeMap<String, Tag>,
}

/// One image of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Its pull spec, or a placeholder.
    pub from: String,
    /// Annotations of the tag.
    pub annotations: BTreeMap<String, String>,
}

/// Why a file names no images.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it is not UTF-8")]
    Utf8(#[source] std::str::Utf8Error),
    /// It is neither YAML nor JSON, or a field has another type.
    #[error("{0}")]
    Syntax(String),
    /// It is an object of another kind.
    #[error("it is {kind:?} of {api_version:?}, and no {KIND} of {API_VERSION}")]
    Kind {
        /// What it says it is.
        kind: String,
        api_version: String,
    },
    /// A tag has no name.
    #[error("field spec.tags[{0}].name is missing or empty")]
    TagName(usize),
    /// An image has no source.
    #[error("field spec.tags[{index}].from.name is missing or empty (tag {name})")]
    From { index: usize, name: String },
    /// Two tags have one name.
    #[error("two tags are named {0:?}")]
    Twice(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireStream {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    metadata: Option<WireMetadata>,
    #[serde(default)]
    spec: Option<WireSpec>,
}

#[derive(Default, Serialize, Deserialize)]
struct WireMetadata {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Serialize, Deserialize)]
struct WireSpec {
    #[serde(default)]
    tags: Option<Vec<WireTag>>,
}

#[derive(Serialize, Deserialize)]
struct WireTag {
    #[serde(default)]
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    from: Option<WireSource>,
}

#[derive(Serialize, Deserialize)]
struct WireSource {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
}

impl References {
    /// Reads the file, YAML or JSON.
    ///
    /// # Errors
    /// [`Error`], of the first tag that is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let text = std::str::from_utf8(bytes).map_err(Error::Utf8)?;
        let options = serde_saphyr::options! { with_snippet: false };
        let stream: WireStream = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| Error::Syntax(error.render_with_formatter(&UserMessageFormatter)))?;
        if stream.kind != KIND || stream.api_version != API_VERSION {
            return Err(Error::Kind {
                kind: stream.kind,
                api_version: stream.api_version,
            });
        }
        let metadata = stream.metadata.unwrap_or_default();
        let mut references = Self {
            name: metadata.name,
            annotations: metadata.annotations.unwrap_or_default(),
            tags: BTreeMap::new(),
        };
        let tags = stream.spec.unwrap_or_default().tags.unwrap_or_default();
        for (index, tag) in tags.into_iter().enumerate() {
            if tag.name.is_empty() {
                return Err(Error::TagName(index));
            }
            let Some(source) = tag.from.filter(|source| source.kind == DOCKER_IMAGE) else {
                continue;
            };
            if source.name.is_empty() {
                return Err(Error::From {
                    index,
                    name: tag.name,
                });
            }
            let image = Tag {
                from: source.name,
                annotations: tag.annotations.unwrap_or_default(),
            };
            if references.tags.insert(tag.name.clone(), image).is_some() {
                return Err(Error::Twice(tag.name));
            }
        }
        Ok(references)
    }

    /// The file's bytes, JSON with sorted tags.
    pub fn print(&self) -> Vec<u8> {
        let some = |map: &BTreeMap<String, String>| Some(map.clone()).filter(|map| !map.is_empty());
        let tag = |(name, tag): (&String, &Tag)| WireTag {
            name: name.clone(),
            annotations: some(&tag.annotations),
            from: Some(WireSource {
                kind: DOCKER_IMAGE.to_owned(),
                name: tag.from.clone(),
            }),
        };
        crate::json::print(&WireStream {
            kind: KIND.to_owned(),
            api_version: API_VERSION.to_owned(),
            metadata: Some(WireMetadata {
                name: self.name.clone(),
                annotations: some(&self.annotations),
            }),
            spec: Some(WireSpec {
                tags: Some(self.tags.iter().map(tag).collect()),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &str = "kind: ImageStream\napiVersion: image.openshift.io/v1\n";

    #[test]
    fn yaml_and_json_are_read() {
        let yaml = format!(
            "{HEAD}metadata:\n  name: 4.16.1\n  annotations: {{a: b}}\nspec:\n  lookupPolicy: {{local: false}}\n  tags:\n  # a comment\n  \
             - name: mcd\n    from: {{kind: DockerImage, name: 'quay.io/mcd'}}\n    annotations:\n      x: \"y\"\n    generation: null\n  \
             - name: other\n    from: {{kind: ImageStreamTag, name: x}}\n  - name: none\n"
        );
        let mut expected = References {
            name: "4.16.1".to_owned(),
            annotations: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            tags: BTreeMap::new(),
        };
        let tag = Tag {
            from: "quay.io/mcd".to_owned(),
            annotations: BTreeMap::from([("x".to_owned(), "y".to_owned())]),
        };
        expected.tags.insert("mcd".to_owned(), tag);
        assert_eq!(References::parse(yaml.as_bytes()).unwrap(), expected);
        let json = expected.print();
        assert!(json.starts_with(b"{\n  \"kind\": \"ImageStream\""));
        assert_eq!(References::parse(&json).unwrap(), expected);
        let empty = References::parse(HEAD.as_bytes()).unwrap();
        assert_eq!(empty, References::default());
    }

    #[test]
    fn error_names_the_tag() {
        let image = "from: {kind: DockerImage, name: x}";
        for (text, expected) in [
            (String::new(), "no ImageStream"),
            (
                "kind: List\napiVersion: v1\n".to_owned(),
                "\"List\" of \"v1\"",
            ),
            (format!("{HEAD}spec: []\n"), "line 3"),
            (
                format!("{HEAD}spec: {{tags: [{{{image}}}]}}\n"),
                "spec.tags[0].name",
            ),
            (
                format!("{HEAD}spec: {{tags: [{{name: a, from: {{kind: DockerImage}}}}]}}\n"),
                "spec.tags[0].from.name is missing or empty (tag a)",
            ),
            (
                format!("{HEAD}spec: {{tags: [{{name: a, {image}}}, {{name: a, {image}}}]}}\n"),
                "two tags are named \"a\"",
            ),
        ] {
            let error = References::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(matches!(References::parse(b"\xff"), Err(Error::Utf8(_))));
    }

    fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
        proptest::collection::btree_map("[a-z./]{1,8}", "\\PC*", 0..3)
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            name in "\\PC{0,8}",
            annotations in texts(),
            tags in proptest::collection::btree_map("[a-z-]{1,8}", ("\\PC{1,20}", texts()), 0..4),
        ) {
            let tags = tags.into_iter().map(|(name, (from, annotations))| (name, Tag { from, annotations }));
            let expected = References { name, annotations, tags: tags.collect() };
            prop_assert_eq!(References::parse(&expected.print()).unwrap(), expected);
        }
    }
}
