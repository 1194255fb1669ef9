//! `slipway graph-data`: what curators of an update service check and change.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use release::Version;
use update_graph::blocked_edge::BLOCKED_EDGES;
use update_graph::channel_file::CHANNELS;
use update_graph::graph_data::SourceFiles;
use update_graph::{GraphData, SourceProblem, comparison, promotion};

use crate::failure::Ending;
use crate::output::{print, write};

/// `slipway graph-data check`.
#[derive(Debug, Args)]
pub struct GraphCheckArgs {
    /// Directory with version, channels and blocked-edges
    pub directory: PathBuf,
    /// Directory as it was before: what was added and removed is printed
    #[arg(long, value_name = "DIRECTORY")]
    pub against: Option<PathBuf>,
}

/// `slipway graph-data promote`.
#[derive(Debug, Args)]
pub struct GraphPromoteArgs {
    /// Directory with version, channels and blocked-edges
    pub directory: PathBuf,
    /// Release
    #[arg(long, value_name = "VERSION")]
    pub version: Version,
    /// Channel that it is added to
    #[arg(long, value_name = "CHANNEL")]
    pub channel: String,
    /// Print what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Lists problems, and what differs from another directory.
pub(crate) fn check(arguments: &GraphCheckArgs) -> anyhow::Result<Ending> {
    let (data, problems) = read(&arguments.directory)?;
    if let Some(before) = &arguments.against {
        let (before, _) = read(before)?;
        for line in comparison::lines(&before, &data) {
            print(line + "\n")?;
        }
    }
    for problem in &problems {
        print(format!("{problem}\n"))?;
    }
    Ok(if problems.is_empty() {
        Ending::Done
    } else {
        Ending::NeedsAttention
    })
}

/// Adds a release to a channel.
pub(crate) fn promote(arguments: &GraphPromoteArgs) -> anyhow::Result<()> {
    let (data, _) = read(&arguments.directory)?;
    let version = &arguments.version;
    let promoted = promotion::promote(&data, version, &arguments.channel)?;
    let path = arguments.directory.join(&promoted.file);
    let shown = path.display();
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {shown}"))?;
    let Some(text) = promotion::insert(&text, version) else {
        bail!("file {shown}: field versions is no list with one version a line");
    };
    if !arguments.dry_run {
        write(&path, text.as_bytes())?;
    }
    print(format!(
        "+ channel {}: release {version}\n",
        promoted.channel
    ))
}

/// Reads a directory of graph data.
fn read(directory: &Path) -> anyhow::Result<(GraphData, Vec<SourceProblem>)> {
    let shown = directory.display();
    let mut files = SourceFiles::new();
    for folder in ["", CHANNELS, BLOCKED_EDGES, "raw/"] {
        let place = directory.join(folder);
        if !place.is_dir() && !folder.is_empty() {
            continue;
        }
        let failed = || format!("cannot read {}", place.display());
        for entry in std::fs::read_dir(&place).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let name = entry.file_name();
            let name = name.to_str().with_context(failed)?;
            if entry.path().is_file() {
                let bytes = std::fs::read(entry.path()).with_context(failed)?;
                files.insert(format!("{folder}{name}"), bytes);
            } else if entry.path().is_dir() && !folder.is_empty() {
                files.insert(format!("{folder}{name}/"), Vec::new());
            }
        }
    }
    GraphData::parse(&files).with_context(|| format!("directory {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_promoted_from_channel_to_channel() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::create_dir(path.join("channels")).unwrap();
        std::fs::create_dir(path.join("raw")).unwrap();
        let write = |name: &str, text: &str| write(&path.join(name), text.as_bytes()).unwrap();
        write("version", "1.1.0\n");
        write("raw/metadata.json", "{}\n");
        write(
            "channels/c.yaml",
            "name: candidate-1\nversions:\n- 1.0.0\n- 1.0.1\n",
        );
        write(
            "channels/f.yaml",
            "feeder:\n  name: candidate-1\nname: fast-1\nversions:\n- 1.0.0\n",
        );
        let mut arguments = GraphPromoteArgs {
            directory: path.to_owned(),
            version: "1.0.1".parse().unwrap(),
            channel: "fast-1".to_owned(),
            dry_run: true,
        };
        let fast = || std::fs::read_to_string(path.join("channels/f.yaml")).unwrap();
        promote(&arguments).unwrap();
        assert!(!fast().contains("1.0.1"));
        arguments.dry_run = false;
        promote(&arguments).unwrap();
        assert!(fast().ends_with("- 1.0.0\n- 1.0.1\n"));
        let again = promote(&arguments).unwrap_err();
        assert_eq!(again.to_string(), "channel fast-1 has 1.0.1 already");
        let check = |against| {
            check(&GraphCheckArgs {
                directory: path.to_owned(),
                against,
            })
            .unwrap()
        };
        assert_eq!(check(Some(path.to_owned())), Ending::Done);
        write("channels/x.yml", "name: x\n");
        assert_eq!(check(None), Ending::NeedsAttention);
    }
}
