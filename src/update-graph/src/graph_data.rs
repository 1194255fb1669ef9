//! The graph data that curators keep: channels, blocked edges and raw metadata.

use std::collections::{BTreeMap, BTreeSet};

use release::Version;
use serde_json::Value;

use crate::block_effect::{Match, bare_hint};
use crate::blocked_edge::{BLOCKED_EDGES, BlockedEdge, Expressions};
use crate::channel_file::{CHANNELS, ChannelFile};
use crate::problem::{SourceProblem, some};

/// File with the version of the layout.
pub const VERSION_FILE: &str = "version";

/// File of raw metadata.
pub const RAW_METADATA: &str = "raw/metadata.json";

/// The only major version of the layout.
const MAJOR: u64 = 1;

/// Files of a repository, by path below it. A folder in one whose files are read is there by its
/// path with a `/` at the end, without content.
pub type SourceFiles = BTreeMap<String, Vec<u8>>;

/// What a repository of graph data says.
#[derive(Clone, Debug, Default)]
pub struct GraphData {
    /// Channels by name.
    pub channels: BTreeMap<String, ChannelFile>,
    /// Blocked edges, by file.
    pub blocked: Vec<BlockedEdge>,
    /// Metadata by version: appended to releases of all architectures.
    pub raw: BTreeMap<Version, BTreeMap<String, String>>,
}

/// The repository cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that each repository has is missing.
    #[error("there is no file {0}")]
    Missing(&'static str),
    /// The layout is of an unsupported version.
    #[error("file {VERSION_FILE}: {0:?} is no version {MAJOR}.x.y")]
    Layout(String),
    #[error("no file of {CHANNELS} is a channel")]
    NoChannel,
    /// The raw metadata cannot be read.
    #[error("file {RAW_METADATA}{}", field.as_ref().map_or_else(String::new, |field| format!(", field {field}")))]
    Raw {
        /// Path of the field; none for the whole.
        field: Option<String>,
        #[source]
        source: RawError,
    },
}

/// What is wrong with raw metadata.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// It is no JSON of this shape.
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
    #[error(transparent)]
    Version(#[from] release::version::Error),
    #[error("it is no text")]
    NoText,
}

impl GraphData {
    /// Whether a path is one of those that are read; others need not be handed over.
    pub fn wants(path: &str) -> bool {
        path == VERSION_FILE || path == RAW_METADATA || folder_of(path).is_some()
    }

    /// Reads a repository. What cannot be read of it is left out and listed.
    ///
    /// Shape: files of `channels/` and `blocked-edges/` count if their extension is `yaml` (or
    /// `yaaml`, …); `yml` is not read, as upstream does not read it.
    ///
    /// # Errors
    /// [`Error`]: nothing of it can be used.
    pub fn parse(files: &SourceFiles) -> Result<(Self, Vec<SourceProblem>), Error> {
        let version = files
            .get(VERSION_FILE)
            .ok_or(Error::Missing(VERSION_FILE))?;
        let version = String::from_utf8_lossy(version).trim().to_owned();
        match version.parse::<Version>() {
            Ok(parsed) if parsed.minor().0 == MAJOR => {}
            _ => return Err(Error::Layout(version)),
        }
        let mut data = Self::default();
        let mut problems = Vec::new();
        let mut expressions = Expressions::default();
        for (path, bytes) in files {
            match folder_of(path) {
                Some(CHANNELS) => match ChannelFile::parse(path, bytes, &mut problems) {
                    Ok(channel) => data.add_channel(channel, &mut problems),
                    Err(problem) => problems.push(problem),
                },
                Some(_) => match BlockedEdge::parse(path, bytes, &mut expressions, &mut problems) {
                    Ok(edge) => data.blocked.push(edge),
                    Err(problem) => problems.push(problem),
                },
                None => problems.extend(unread(path)),
            }
        }
        if data.channels.is_empty() {
            return Err(Error::NoChannel);
        }
        // Without it, or a part of it, updates that it takes out of the graph would come back.
        data.raw = raw(files
            .get(RAW_METADATA)
            .ok_or(Error::Missing(RAW_METADATA))?)?;
        problems.extend(data.differing_risks());
        problems.extend(data.without_match());
        Ok((data, problems))
    }

    fn add_channel(&mut self, channel: ChannelFile, problems: &mut Vec<SourceProblem>) {
        if let Some(first) = self.channels.get_mut(&channel.name) {
            let reason = format!(
                "{} is that of {}, too; both count",
                channel.name, first.file
            );
            problems.push(SourceProblem::new(channel.file, "name", reason));
            first.versions.extend(channel.versions);
        } else {
            self.channels.insert(channel.name.clone(), channel);
        }
    }

    /// Files that share a name of a risk and differ in what it says.
    fn differing_risks(&self) -> Vec<SourceProblem> {
        let mut first: BTreeMap<&str, &BlockedEdge> = BTreeMap::new();
        let mut problems = Vec::new();
        for edge in &self.blocked {
            let Some(risk) = &edge.risk else { continue };
            let other = first.entry(&risk.name).or_insert(edge);
            let (file, Some(other)) = (&other.file, &other.risk) else {
                continue;
            };
            for (field, differs) in [
                ("url", other.url != risk.url),
                ("message", other.message != risk.message),
                ("matchingRules", other.rules != risk.rules),
            ] {
                if differs {
                    let reason = format!("it differs from that of {file}");
                    problems.push(SourceProblem::new(edge.file.as_str(), field, reason));
                }
            }
        }
        problems
    }

    /// Blocked edges of releases in channels whose `from` matches none of the releases in channels.
    fn without_match(&self) -> Vec<SourceProblem> {
        let versions = self.channels.values().flat_map(|channel| &channel.versions);
        let in_channels: BTreeSet<Version> = versions.map(Version::without_architecture).collect();
        let names: Vec<String> = in_channels.iter().map(Version::to_string).collect();
        // A thousand files share a hundred expressions.
        let mut matches: BTreeMap<&str, Match<'_>> = BTreeMap::new();
        let mut problems = Vec::new();
        for edge in &self.blocked {
            if !in_channels.contains(&edge.to.without_architecture()) {
                continue;
            }
            let text = edge.from.as_str();
            let found = matches
                .entry(text)
                .or_insert_with(|| Match::of(&edge.from, &names));
            let hint = match found {
                Match::Whole => continue,
                Match::Bare(name) => bare_hint(name),
                Match::Nothing => String::new(),
            };
            let reason = format!("{text:?} matches no release of a channel{hint}; without effect");
            problems.push(SourceProblem::new(edge.file.as_str(), "from", reason));
        }
        problems
    }

    /// Names that no release has, in channels and blocked edges: one problem for each channel, and
    /// one for all blocked edges.
    pub fn unknown_releases(&self, releases: &BTreeSet<Version>) -> Vec<SourceProblem> {
        let is_known = |version: &Version| releases.contains(&version.without_architecture());
        let mut problems = Vec::new();
        for channel in self.channels.values() {
            let unknown = channel.versions.iter().filter(|version| !is_known(version));
            let unknown: Vec<String> = unknown.map(Version::to_string).collect();
            if !unknown.is_empty() {
                let reason = format!("there is no release {}", some(&unknown));
                problems.push(SourceProblem::new(
                    channel.file.as_str(),
                    "versions",
                    reason,
                ));
            }
        }
        let unknown = self.blocked.iter().filter(|edge| {
            let legacy = edge.to.without_architecture();
            !releases.contains(&legacy)
        });
        let unknown: BTreeSet<&str> = unknown.map(|edge| edge.file.as_str()).collect();
        if !unknown.is_empty() {
            let files: Vec<String> = unknown.into_iter().map(str::to_owned).collect();
            let reason = format!("there is no such release; without effect: {}", some(&files));
            problems.push(SourceProblem::new(BLOCKED_EDGES, "to", reason));
        }
        problems
    }
}

/// The folder whose files count that a path is in, if its extension is read.
fn folder_of(path: &str) -> Option<&'static str> {
    [CHANNELS, BLOCKED_EDGES].into_iter().find(|folder| {
        let name = path.strip_prefix(folder).filter(|name| !name.contains('/'));
        let extension = name
            .and_then(|name| name.rsplit_once('.'))
            .map(|(_, extension)| extension);
        extension.is_some_and(|extension| {
            let middle = extension
                .strip_prefix('y')
                .and_then(|rest| rest.strip_suffix("ml"));
            middle
                .is_some_and(|middle| !middle.is_empty() && middle.bytes().all(|byte| byte == b'a'))
        })
    })
}

/// A file that looks as if it should be read, and is not.
fn unread(path: &str) -> Option<SourceProblem> {
    let folder = [CHANNELS, BLOCKED_EDGES]
        .into_iter()
        .find(|folder| path.starts_with(folder))?;
    let reason = if path.ends_with('/') {
        format!("folders in {folder} are not read")
    } else {
        format!("files of {folder} end in .yaml; the file is left out")
    };
    let path = path.trim_end_matches('/');
    (!path.rsplit('/').next()?.starts_with('.')).then(|| SourceProblem::new(path, "", reason))
}

fn raw(bytes: &[u8]) -> Result<BTreeMap<Version, BTreeMap<String, String>>, Error> {
    let failed = |field: Option<String>, source: RawError| Error::Raw { field, source };
    let wire: BTreeMap<String, BTreeMap<String, Value>> =
        serde_json::from_slice(bytes).map_err(|error| failed(None, error.into()))?;
    let mut raw: BTreeMap<Version, BTreeMap<String, String>> = BTreeMap::new();
    for (text, values) in wire {
        let version: Version = text
            .parse()
            .map_err(|error: release::version::Error| failed(Some(text.clone()), error.into()))?;
        for (key, value) in values {
            let Value::String(value) = value else {
                return Err(failed(Some(format!("{text}.{key}")), RawError::NoText));
            };
            raw.entry(version.clone()).or_default().insert(key, value);
        }
    }
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(pairs: &[(&str, &str)]) -> SourceFiles {
        let pairs = pairs.iter();
        pairs
            .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
            .collect()
    }

    const RAW: (&str, &str) = (RAW_METADATA, "{}");

    const CHANNEL: (&str, &str) = ("channels/a.yaml", "name: a\nversions: [1.0.0]\n");

    #[test]
    fn the_version_of_the_layout_decides() {
        for (version, expected) in [
            ("1.1.0\n", true),
            ("1.9.0", true),
            ("2.0.0", false),
            ("one", false),
        ] {
            let parsed = GraphData::parse(&files(&[("version", version), RAW, CHANNEL]));
            assert_eq!(parsed.is_ok(), expected, "{version}");
        }
        let error = GraphData::parse(&files(&[CHANNEL])).unwrap_err();
        assert_eq!(error.to_string(), "there is no file version");
        let error = GraphData::parse(&files(&[("version", "1.0.0")])).unwrap_err();
        assert_eq!(error.to_string(), "no file of channels/ is a channel");
    }

    #[test]
    fn what_does_not_parse_is_listed_and_the_rest_is_used() {
        let (data, problems) = GraphData::parse(&files(&[
            ("version", "1.1.0"),
            CHANNEL,
            ("channels/b.yml", "name: b\n"),
            ("channels/c.yaml", ": ["),
            ("channels/c/d.yaml", "name: d\n"),
            ("channels/e/", ""),
            ("channels/.f/", ""),
            ("blocked-edges/1.0.0.yaml", "to: 1.0.0\nfrom: (\n"),
            (RAW_METADATA, "{\"1.0.0\":{\"b\":\"c\"}}"),
            ("README.md", "read me"),
        ]))
        .unwrap();
        assert_eq!(data.channels.keys().collect::<Vec<_>>(), ["a"]);
        let named: Vec<(&str, &str)> = problems
            .iter()
            .map(|problem| (problem.object.as_str(), problem.field.as_str()))
            .collect();
        assert_eq!(
            named,
            [
                ("blocked-edges/1.0.0.yaml", "from"),
                ("channels/b.yml", ""),
                ("channels/c.yaml", ""),
                ("channels/c/d.yaml", ""),
                ("channels/e", ""),
            ]
        );
        assert_eq!(problems[4].reason, "folders in channels/ are not read");
        assert_eq!(data.raw.values().next().unwrap().len(), 1);
    }

    #[test]
    fn broken_or_missing_raw_metadata_fails_the_whole() {
        let parse = |raw: Option<&str>| {
            let mut files = files(&[("version", "1.1.0"), CHANNEL]);
            files.extend(raw.map(|raw| (RAW_METADATA.to_owned(), raw.as_bytes().to_vec())));
            let error = GraphData::parse(&files).err()?;
            Some(crate::problem::chain(&error))
        };
        for (raw, expected) in [
            (None, "there is no file raw/metadata.json"),
            (Some(""), "file raw/metadata.json: EOF while parsing"),
            (Some("[]"), "file raw/metadata.json: invalid type"),
            (Some("{\"x\":{}}"), "file raw/metadata.json, field x: "),
            (
                Some("{\"1.0.0\":{\"a\":1}}"),
                "file raw/metadata.json, field 1.0.0.a: it is no text",
            ),
        ] {
            let error = parse(raw).unwrap();
            assert!(error.starts_with(expected), "{raw:?}: {error}");
        }
        assert_eq!(parse(Some("{}")), None);
    }

    #[test]
    fn a_blocked_edge_that_matches_no_release_is_listed() {
        let channel = "name: a\nversions: [4.18.0-ec.1, 4.18.2]\n";
        let problems = |to: &str, from: &str| {
            let edge = format!("to: {to}\nfrom: '{from}'\n");
            let files = files(&[
                ("version", "1.1.0"),
                RAW,
                ("channels/a.yaml", channel),
                ("blocked-edges/4.18.2.yaml", &edge),
            ]);
            let (_, problems) = GraphData::parse(&files).unwrap();
            problems.iter().map(ToString::to_string).collect::<String>()
        };
        for (to, from) in [
            ("4.18.2", ".*"),
            ("4.18.2", r"^4[.]18[.]0-ec[.][0-2][+]arm64$"),
            ("4.18.2+arm64", r"^4[.]18[.]0-ec[.][0-2]\+"),
            // No channel has its target.
            ("4.18.3", "^none$"),
        ] {
            assert_eq!(problems(to, from), "", "{from}");
        }
        let listed = problems("4.18.2", "^4[.]18[.]0-ec[0-2]$");
        let expected = r#"blocked-edges/4.18.2.yaml: field from: "^4[.]18[.]0-ec[0-2]$" matches no release of a channel; without effect"#;
        assert_eq!(listed, expected);
        let listed = problems("4.18.2", "^4[.]18[.]0-ec[.][0-2]$");
        let expected =
            "as the architecture is a part of the version: 4.18.0-ec.1+amd64; without effect";
        assert!(listed.ends_with(expected), "{listed}");
    }
}
