//! `release-metadata`: what a release is called and which releases lead to it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::version::{self, Version};

/// The only kind of this file.
const KIND: &str = "cincinnati-metadata-v0";

/// Key of the page that describes a release.
const URL: &str = "url";

/// Key of the channels that hold a release: a list with commas.
const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";

/// Key of the releases from which a cluster may return to this one although the minor version
/// differs: versions, with commas. Slipway's own.
pub const ROLLBACK_FROM: &str = "slipway.dev/rollback-from";

/// Key of the architecture, of a release for several.
const ARCHITECTURE: &str = "release.openshift.io/architecture";

/// What `release-metadata` says.
///
/// Shape: JSON
/// `{"kind":"cincinnati-metadata-v0","version":…,"previous":[…],"next":[…],"metadata":{…}}`. `kind`
/// and `version` are required; an absent or null list is empty; other keys are ignored. Source:
/// Cincinnati's release metadata; `docs/reference/cli.md`, "Release payload".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    pub version: Version,
    /// Releases that may be updated to this one.
    pub previous: BTreeSet<Version>,
    /// Releases that this one may be updated to.
    pub next: BTreeSet<Version>,
    /// Its other metadata, by key.
    pub metadata: BTreeMap<String, String>,
    /// Keys of `metadata` whose value is no text, and which are left out there.
    pub not_text: BTreeSet<String>,
}

/// Why a file is no release metadata.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not JSON, or a field has another type.
    #[error("field {field}")]
    Syntax {
        /// Path of the field; `.` for the whole.
        field: String,
        #[source]
        source: serde_json::Error,
    },
    /// It is of another kind.
    #[error("unrecognized Cincinnati metadata kind {0:?}: field kind is not {KIND:?}")]
    Kind(String),
    #[error("field {field}")]
    Version {
        /// Path of the field.
        field: String,
        #[source]
        source: version::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct Wire {
    kind: String,
    version: String,
    #[serde(default, deserialize_with = "null_is_default")]
    previous: Vec<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    next: Vec<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    metadata: BTreeMap<String, Value>,
}

fn null_is_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Metadata {
    /// Metadata that says no more than a version.
    pub fn new(version: Version) -> Self {
        Self {
            version,
            previous: BTreeSet::new(),
            next: BTreeSet::new(),
            metadata: BTreeMap::new(),
            not_text: BTreeSet::new(),
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`Error`], with the field that is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let wire: Wire =
            serde_path_to_error::deserialize(&mut json).map_err(|error| Error::Syntax {
                field: error.path().to_string(),
                source: error.into_inner(),
            })?;
        json.end().map_err(|source| Error::Syntax {
            field: ".".to_owned(),
            source,
        })?;
        if wire.kind != KIND {
            return Err(Error::Kind(wire.kind));
        }
        let mut metadata = BTreeMap::new();
        let mut not_text = BTreeSet::new();
        for (key, value) in wire.metadata {
            if let Value::String(text) = value {
                metadata.insert(key, text);
            } else {
                not_text.insert(key);
            }
        }
        Ok(Self {
            version: version("version".to_owned(), &wire.version)?,
            previous: versions("previous", &wire.previous)?,
            next: versions("next", &wire.next)?,
            metadata,
            not_text,
        })
    }

    /// The file's bytes. Lists are sorted by text, as `oc` sorts them.
    pub fn print(&self) -> Vec<u8> {
        let texts = |versions: &BTreeSet<Version>| {
            let mut texts: Vec<String> = versions.iter().map(Version::to_string).collect();
            texts.sort();
            texts
        };
        let wire = Wire {
            kind: KIND.to_owned(),
            version: self.version.to_string(),
            previous: texts(&self.previous),
            next: texts(&self.next),
            metadata: self
                .metadata
                .iter()
                .map(|(key, text)| (key.clone(), text.as_str().into()))
                .collect(),
        };
        crate::json::print(&wire)
    }

    /// Page that describes the release.
    pub fn url(&self) -> Option<&str> {
        self.metadata.get(URL).map(String::as_str)
    }

    /// Channels that hold the release; empty names are left out.
    pub fn channels(&self) -> BTreeSet<&str> {
        let list = self.metadata.get(CHANNELS).map_or("", String::as_str);
        let names = list.split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).collect()
    }

    /// What of the metadata is left out, each with its key.
    pub fn left_out(&self) -> Vec<String> {
        let not_text = self.not_text.iter();
        let not_text = not_text.map(|key| format!("metadata[{key:?}] is left out: it is no text"));
        let mut all: Vec<String> = not_text.collect();
        let list = self.metadata.get(CHANNELS).map_or("", String::as_str);
        let is_empty = |name: &str| name.trim().is_empty();
        if !list.is_empty() && list.split(',').any(is_empty) {
            all.push(format!(
                "metadata[{CHANNELS:?}] has an empty name, which is left out: {list:?}"
            ));
        }
        all
    }

    /// Releases from which a cluster may return to this one over a minor version, as
    /// [`ROLLBACK_FROM`] lists them; empty entries are left out.
    ///
    /// # Errors
    /// [`Error::Version`], with the entry that is none.
    pub fn rollback_sources(&self) -> Result<BTreeSet<Version>, Error> {
        let list = self.metadata.get(ROLLBACK_FROM).map_or("", String::as_str);
        let texts: Vec<String> = list.split(',').map(|text| text.trim().to_owned()).collect();
        let one = |(index, text): (usize, &String)| {
            version(format!("metadata[{ROLLBACK_FROM:?}][{index}]"), text)
        };
        let texts = texts.iter().enumerate();
        texts
            .filter(|(_, text)| !text.is_empty())
            .map(one)
            .collect()
    }

    /// Whether the release is one for several architectures.
    pub fn is_multi(&self) -> bool {
        self.metadata
            .get(ARCHITECTURE)
            .is_some_and(|name| name == "multi")
    }
}

fn version(field: String, text: &str) -> Result<Version, Error> {
    text.parse()
        .map_err(|source| Error::Version { field, source })
}

fn versions(field: &str, texts: &[String]) -> Result<BTreeSet<Version>, Error> {
    let one = |(index, text): (usize, &String)| version(format!("{field}[{index}]"), text);
    texts.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text_of(error: &Error) -> String {
        let source = std::error::Error::source(error).map(ToString::to_string);
        format!("{error}: {}", source.unwrap_or_default())
    }

    #[test]
    fn rollback_sources_are_versions() {
        let sources = |list: Option<&str>| {
            let mut metadata = Metadata::new("4.2.9".parse().unwrap());
            let list = list.map(|list| (ROLLBACK_FROM.to_owned(), list.to_owned()));
            metadata.metadata.extend(list);
            let sources = metadata
                .rollback_sources()
                .map_err(|error| text_of(&error))?;
            Ok::<_, String>(sources.iter().map(Version::to_string).collect::<Vec<_>>())
        };
        assert_eq!(sources(None).unwrap(), Vec::<String>::new());
        assert_eq!(sources(Some("4.3.1, 4.3.0,")).unwrap(), ["4.3.0", "4.3.1"]);
        let refused = sources(Some("4.3.0,four")).unwrap_err();
        assert!(
            refused.starts_with("field metadata[\"slipway.dev/rollback-from\"][1]: \"four\""),
            "{refused}"
        );
    }

    #[test]
    fn all_fields_are_read() {
        let metadata = Metadata::parse(
            br#"{"kind":"cincinnati-metadata-v0","version":"4.16.15","previous":["4.16.9","4.16.10","4.15.0"],"next":null,
            "metadata":{"url":"https://example.com","io.openshift.upgrades.graph.release.channels":"fast-4.16, ,candidate-4.16,",
            "release.openshift.io/architecture":"multi","number":1},"other":true}"#,
        )
        .unwrap();
        assert_eq!(metadata.version.to_string(), "4.16.15");
        let previous: Vec<_> = metadata.previous.iter().map(Version::to_string).collect();
        assert_eq!(previous, ["4.15.0", "4.16.9", "4.16.10"]);
        assert_eq!(metadata.url(), Some("https://example.com"));
        let channels: Vec<_> = metadata.channels().into_iter().collect();
        assert_eq!(channels, ["candidate-4.16", "fast-4.16"]);
        assert!(metadata.is_multi());
        assert_eq!(metadata.not_text, BTreeSet::from(["number".to_owned()]));
        assert_eq!(
            metadata.left_out(),
            [
                "metadata[\"number\"] is left out: it is no text",
                "metadata[\"io.openshift.upgrades.graph.release.channels\"] has an empty name, which is \
                 left out: \"fast-4.16, ,candidate-4.16,\"",
            ]
        );
    }

    #[test]
    fn only_kind_and_version_are_required() {
        let bytes = br#"{"kind":"cincinnati-metadata-v0","version":"1.0.0"}"#;
        let metadata = Metadata::parse(bytes).unwrap();
        assert_eq!(metadata, Metadata::new("1.0.0".parse().unwrap()));
        assert_eq!(metadata.url(), None);
        assert!(metadata.channels().is_empty() && !metadata.is_multi());
    }

    #[test]
    fn error_names_the_field() {
        let kind = r#""kind":"cincinnati-metadata-v0""#;
        for (text, expected) in [
            (String::new(), "field ."),
            ("[]".to_owned(), "field ."),
            (format!("{{{kind}}}"), "missing field `version`"),
            ("{\"version\":\"1.0.0\"}".to_owned(), "missing field `kind`"),
            (
                r#"{"kind":"other","version":"1.0.0"}"#.to_owned(),
                "unrecognized Cincinnati metadata kind \"other\": field kind is not",
            ),
            (
                format!(r#"{{{kind},"version":"1.0"}}"#),
                "field version: \"1.0\" is no semantic version",
            ),
            (
                format!(r#"{{{kind},"version":"1.0.0","previous":["1.0.0","x"]}}"#),
                "field previous[1]: \"x\" is no semantic version",
            ),
            (
                format!(r#"{{{kind},"version":"1.0.0","next":"1.0.1"}}"#),
                "field next: invalid type",
            ),
            (format!(r#"{{{kind},"version":"1.0.0"}} x"#), "trailing"),
        ] {
            let error = text_of(&Metadata::parse(text.as_bytes()).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn printed_lists_are_sorted_by_text() {
        let mut metadata = Metadata::new("4.16.15".parse().unwrap());
        metadata.previous = ["4.16.9", "4.16.10"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        metadata.metadata.insert("url".into(), "u".into());
        let expected = "{\n  \"kind\": \"cincinnati-metadata-v0\",\n  \"version\": \"4.16.15\",\n  \"previous\": [\n    \"4.16.10\",\n    \
                        \"4.16.9\"\n  ],\n  \"next\": [],\n  \"metadata\": {\n    \"url\": \"u\"\n  }\n}\n";
        assert_eq!(String::from_utf8(metadata.print()).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            version in "[1-9]\\.[0-9]\\.[1-9]",
            previous in proptest::collection::btree_set("[1-9]\\.[0-9]{1}\\.[1-9](-rc\\.[0-9])?", 0..5),
            metadata in proptest::collection::btree_map("[a-z.]{1,8}", ".*", 0..4),
        ) {
            let mut expected = Metadata::new(version.parse().unwrap());
            expected.previous = previous.iter().map(|text| text.parse().unwrap()).collect();
            expected.metadata = metadata;
            prop_assert_eq!(Metadata::parse(&expected.print()).unwrap(), expected);
        }
    }
}
