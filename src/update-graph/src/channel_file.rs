//! `channels/*.yaml`: the releases of a channel, and how releases come into it.

use std::collections::BTreeSet;

use regex::Regex;
use release::Version;
use serde::Deserialize;

use crate::problem::{SourceProblem, chain};
use crate::yaml::yaml;

/// Folder of channels.
pub const CHANNELS: &str = "channels/";

#[derive(Clone, Debug)]
pub struct ChannelFile {
    /// The file, below the repository.
    pub file: String,
    pub name: String,
    /// Its releases: of all architectures, or of the one that the build metadata names.
    pub versions: BTreeSet<Version>,
    /// Where its releases come from.
    pub feeder: Option<Feeder>,
    /// Releases that stay here and are never promoted on.
    pub tombstones: BTreeSet<Version>,
}

/// Where a channel's releases come from.
#[derive(Clone, Debug)]
pub struct Feeder {
    pub channel: String,
    /// How long a release stays there: `PT0H`, `P1W`, `P1DT12H`.
    pub delay: String,
    /// Whether only releases with a public errata page are taken.
    pub needs_errata: bool,
    /// Which releases are taken; all if it is absent. It matches the whole version.
    pub filter: Option<Regex>,
}

#[derive(Deserialize)]
struct Wire {
    name: String,
    #[serde(default)]
    versions: Option<Vec<String>>,
    #[serde(default)]
    feeder: Option<WireFeeder>,
    #[serde(default)]
    tombstones: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct WireFeeder {
    name: String,
    #[serde(default)]
    delay: String,
    #[serde(default)]
    errata: String,
    #[serde(default)]
    filter: Option<String>,
}

impl ChannelFile {
    /// Reads a file. Versions that are none are left out and listed, as is a feeder that cannot be
    /// read: only promotion needs it.
    ///
    /// # Errors
    /// The file has no name of a channel, or is no YAML of this shape.
    pub(crate) fn parse(
        file: &str,
        bytes: &[u8],
        problems: &mut Vec<SourceProblem>,
    ) -> Result<Self, SourceProblem> {
        let wire: Wire = yaml(file, bytes)?;
        if !is_channel_name(&wire.name) {
            let reason = format!(
                "{:?} does not match {CHANNEL_PATTERN}; the file is left out",
                wire.name
            );
            return Err(SourceProblem::new(file, "name", reason));
        }
        let mut versions = |field: &str, texts: Option<Vec<String>>| {
            let mut parsed = BTreeSet::new();
            for (index, text) in texts.into_iter().flatten().enumerate() {
                let field = || format!("{field}[{index}]");
                match text.parse::<Version>() {
                    Ok(version) => {
                        if !parsed.insert(version) {
                            let reason = format!("{text} is there twice");
                            problems.push(SourceProblem::new(file, field(), reason));
                        }
                    }
                    Err(error) => {
                        problems.push(SourceProblem::new(file, field(), chain(&error)));
                    }
                }
            }
            parsed
        };
        let (versions, tombstones) = (
            versions("versions", wire.versions),
            versions("tombstones", wire.tombstones),
        );
        let feeder = wire.feeder.and_then(|feeder| {
            Feeder::read(feeder)
                .map_err(|(field, reason)| problems.push(SourceProblem::new(file, field, reason)))
                .ok()
        });
        Ok(Self {
            file: file.to_owned(),
            name: wire.name,
            versions,
            feeder,
            tombstones,
        })
    }

    /// Whether the channel holds this release; `version` has its architecture.
    pub fn holds(&self, version: &Version) -> bool {
        self.versions.contains(version) || self.versions.contains(&version.without_architecture())
    }
}

impl Feeder {
    fn read(wire: WireFeeder) -> Result<Self, (&'static str, String)> {
        if !wire.delay.is_empty() && !is_delay(&wire.delay) {
            let reason = format!("{:?} is neither P<n>W nor P[<n>D][T<n>H]", wire.delay);
            return Err(("feeder.delay", reason));
        }
        let needs_errata = match wire.errata.as_str() {
            "" => false,
            "public" => true,
            other => return Err(("feeder.errata", format!("{other:?} is not \"public\""))),
        };
        let filter = wire.filter.map(|filter| {
            Regex::new(&format!("^(?:{filter})$"))
                .map_err(|error| ("feeder.filter", first_line(&error)))
        });
        Ok(Self {
            channel: wire.name,
            delay: wire.delay,
            needs_errata,
            filter: filter.transpose()?,
        })
    }
}

/// What names of channels match, as a request has them.
pub const CHANNEL_PATTERN: &str = r"^[0-9a-z\-\.]+$";

/// Whether a text is a name of a channel.
pub fn is_channel_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'-' | b'.'))
}

/// The error of a regular expression, of which the last line says what is wrong.
pub(crate) fn first_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    let last = last.trim().trim_start_matches("error: ");
    format!("it is no regular expression: {last}")
}

fn is_delay(text: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(rest) = text.strip_prefix('P') else {
        return false;
    };
    if let Some(weeks) = rest.strip_suffix('W') {
        return number(weeks);
    }
    let (days, hours) = match rest.split_once('T') {
        Some((days, hours)) => (days, Some(hours)),
        None => (rest, None),
    };
    let is_days = days.is_empty() || days.strip_suffix('D').is_some_and(number);
    let is_hours = hours.is_none_or(|hours| hours.strip_suffix('H').is_some_and(number));
    is_days && is_hours && !rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_weeks_or_days_and_hours() {
        for (text, expected) in [
            ("PT0H", true),
            ("P1W", true),
            ("P1D", true),
            ("P1DT12H", true),
            ("", false),
            ("P", false),
            ("1W", false),
            ("P1H", false),
            ("PT1D", false),
        ] {
            assert_eq!(is_delay(text), expected, "{text}");
        }
    }

    #[test]
    fn bad_parts_of_a_channel_are_listed_by_field() {
        let text = "name: fast-4.1\nversions: [4.1.0, four, 4.1.0]\nfeeder: {name: candidate-4.1, filter: '('}\n";
        let mut problems = Vec::new();
        let channel =
            ChannelFile::parse("channels/a.yaml", text.as_bytes(), &mut problems).unwrap();
        let fields: Vec<&str> = problems
            .iter()
            .map(|problem| problem.field.as_str())
            .collect();
        assert_eq!(fields, ["versions[1]", "versions[2]", "feeder.filter"]);
        assert_eq!(channel.versions.len(), 1);
        assert!(channel.feeder.is_none());
        let error = ChannelFile::parse("channels/a.yaml", b"name: Fast\n", &mut problems);
        assert_eq!(error.unwrap_err().field, "name");
    }
}
