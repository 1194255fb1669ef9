//! A release moved on from channel to channel: from candidate to fast to stable.

use release::Version;

use crate::graph_data::GraphData;

/// A release added to a channel: which file gets which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    pub channel: String,
    pub file: String,
    pub version: Version,
}

/// Why a release is not promoted into a channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such channel.
    #[error("there is no channel {0}")]
    NoChannel(String),
    /// The channel takes no releases from another one.
    #[error("channel {0} has no feeder: releases are added to it by hand")]
    NoFeeder(String),
    #[error("channel {0} has {1} already")]
    Present(String, Version),
    /// The release is not in the channel before.
    #[error("channel {channel} is fed by {feeder}, which has no {version}")]
    NotInFeeder {
        channel: String,
        feeder: String,
        version: Version,
    },
    /// The release stays where it is.
    #[error("channel {feeder} has a tombstone for {version}: it is not promoted on")]
    Tombstone { feeder: String, version: Version },
    /// The channel takes other releases only.
    #[error("channel {channel}: feeder.filter {filter} does not match {version}")]
    Filter {
        channel: String,
        filter: String,
        version: Version,
    },
}

/// Decides whether a release may move into a channel from its feeder. Its delay is for people to
/// wait for: the graph data does not say when a release entered a channel.
///
/// # Errors
/// [`Error`]: it may not.
pub fn promote(data: &GraphData, version: &Version, channel: &str) -> Result<Promotion, Error> {
    let name = || channel.to_owned();
    let to = data
        .channels
        .get(channel)
        .ok_or_else(|| Error::NoChannel(name()))?;
    if to.versions.contains(version) {
        return Err(Error::Present(name(), version.clone()));
    }
    let feeder = to.feeder.as_ref().ok_or_else(|| Error::NoFeeder(name()))?;
    let from = data.channels.get(&feeder.channel);
    let from = from.ok_or_else(|| Error::NoChannel(feeder.channel.clone()))?;
    if !from.versions.contains(version) {
        return Err(Error::NotInFeeder {
            channel: name(),
            feeder: feeder.channel.clone(),
            version: version.clone(),
        });
    }
    if from.tombstones.contains(version) {
        return Err(Error::Tombstone {
            feeder: feeder.channel.clone(),
            version: version.clone(),
        });
    }
    if let Some(filter) = &feeder.filter
        && !filter.is_match(&version.to_string())
    {
        return Err(Error::Filter {
            channel: name(),
            filter: filter.to_string(),
            version: version.clone(),
        });
    }
    Ok(Promotion {
        channel: name(),
        file: to.file.clone(),
        version: version.clone(),
    })
}

/// The channel's file with the release added: after the last release that is not newer, with the
/// indentation of the others. All else stays byte for byte.
///
/// Nothing where the file has no list `versions:` in block style.
pub fn insert(file: &str, version: &Version) -> Option<String> {
    let lines: Vec<&str> = file.split_inclusive('\n').collect();
    let begin = lines
        .iter()
        .position(|line| line.trim_end() == "versions:")?
        + 1;
    let (mut at, mut indent) = (begin, "");
    for (index, line) in lines.iter().enumerate().skip(begin) {
        let rest = line.trim_start();
        if rest.starts_with('#') || rest.trim().is_empty() {
            continue;
        }
        let Some(item) = rest.strip_prefix("- ") else {
            break;
        };
        indent = line.get(..line.len() - rest.len())?;
        let text = item
            .split(" #")
            .next()
            .unwrap_or(item)
            .trim()
            .trim_matches(['"', '\'']);
        if text.parse::<Version>().is_ok_and(|other| other < *version) {
            at = index + 1;
        }
    }
    let (before, after) = lines.split_at_checked(at)?;
    let mut text = before.concat();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.extend([format!("{indent}- {version}\n")]);
    text.push_str(&after.concat());
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_data::SourceFiles;

    fn data() -> GraphData {
        let files: SourceFiles = [
            ("version", "1.1.0"),
            ("raw/metadata.json", "{}"),
            (
                "channels/c.yaml",
                "name: candidate-1\nversions: [1.0.0, 1.0.1, 1.0.2, 2.0.0]\ntombstones: [1.0.2]\n",
            ),
            (
                "channels/f.yaml",
                "name: fast-1\nversions: [1.0.0]\nfeeder: {name: candidate-1, filter: '1[.].*'}\n",
            ),
            (
                "channels/s.yaml",
                "name: stable-1\nversions: []\nfeeder: {name: fast-1, delay: P1W}\n",
            ),
        ]
        .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()))
        .into();
        GraphData::parse(&files).unwrap().0
    }

    #[test]
    fn a_release_moves_from_its_feeder_only() {
        let outcome = |version: &str, channel: &str| match promote(
            &data(),
            &version.parse().unwrap(),
            channel,
        ) {
            Ok(promotion) => promotion.file,
            Err(error) => error.to_string(),
        };
        for (version, channel, expected) in [
            ("1.0.1", "fast-1", "channels/f.yaml"),
            ("1.0.0", "stable-1", "channels/s.yaml"),
            (
                "1.0.1",
                "stable-1",
                "channel stable-1 is fed by fast-1, which has no 1.0.1",
            ),
            ("1.0.0", "fast-1", "channel fast-1 has 1.0.0 already"),
            (
                "1.0.2",
                "fast-1",
                "channel candidate-1 has a tombstone for 1.0.2: it is not promoted on",
            ),
            (
                "2.0.0",
                "fast-1",
                "channel fast-1: feeder.filter ^(?:1[.].*)$ does not match 2.0.0",
            ),
            (
                "1.0.3",
                "candidate-1",
                "channel candidate-1 has no feeder: releases are added to it by hand",
            ),
            ("1.0.3", "eus-1", "there is no channel eus-1"),
        ] {
            assert_eq!(outcome(version, channel), expected, "{version} {channel}");
        }
    }

    #[test]
    fn the_file_gets_one_line_and_keeps_the_others() {
        let file = "# head\nversions:\n# old\n- 1.0.0\n- 1.0.2-rc.1 # note\n\n- 1.0.10\nname: x\n";
        let inserted = |version: &str| insert(file, &version.parse().unwrap()).unwrap();
        assert_eq!(inserted("1.0.2"), file.replace("note\n", "note\n- 1.0.2\n"));
        assert_eq!(
            inserted("1.0.11"),
            file.replace("- 1.0.10\n", "- 1.0.10\n- 1.0.11\n")
        );
        assert_eq!(
            inserted("0.9.0"),
            file.replace("versions:\n", "versions:\n- 0.9.0\n")
        );
        assert_eq!(
            insert("versions:\n  - 1.0.0", &"1.0.1".parse().unwrap()).unwrap(),
            "versions:\n  - 1.0.0\n  - 1.0.1\n"
        );
        assert_eq!(
            insert("versions: [1.0.0]\n", &"1.0.1".parse().unwrap()),
            None
        );
    }
}
