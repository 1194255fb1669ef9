//! `slipway image extract`: files of an image.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use images::ImageLocation;
use images::content::unpack;

use crate::access::{AccessArgs, open};
use crate::output::warn;

/// `slipway image extract`.
#[derive(Debug, Args)]
pub struct ImageExtractArgs {
    /// Image
    pub image: ImageLocation,
    /// A file or directory of the image, and the directory that it, or all that is in it, is
    /// written to
    #[arg(long, value_name = "SOURCE:DIRECTORY", required = true, value_parser = path_pair)]
    pub path: Vec<(String, PathBuf)>,
    /// Write into directories that are not empty, too
    #[arg(long)]
    pub confirm: bool,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

pub(crate) async fn run(arguments: ImageExtractArgs) -> anyhow::Result<()> {
    for (_, directory) in &arguments.path {
        check(directory, arguments.confirm)?;
    }
    let stores = arguments.access.stores()?;
    let image = open(&stores, &arguments.image).await?;
    for (source, directory) in &arguments.path {
        let done = unpack(&stores, &image, source, directory).await?;
        for path in done.left_out {
            warn(&format!(
                "{path} is left out: it is neither a file nor a directory nor a link"
            ));
        }
    }
    Ok(())
}

/// Whether a directory is one that may be written into.
fn check(directory: &Path, is_confirmed: bool) -> anyhow::Result<()> {
    let shown = directory.display();
    let mut entries =
        std::fs::read_dir(directory).with_context(|| format!("{shown} is no directory"))?;
    if !is_confirmed && entries.next().is_some() {
        bail!("directory {shown} is not empty; --confirm writes into it all the same");
    }
    Ok(())
}

/// A text is no source and directory.
#[derive(Debug, thiserror::Error)]
#[error("it is not SOURCE:DIRECTORY")]
struct NoPathPair;

fn path_pair(text: &str) -> Result<(String, PathBuf), NoPathPair> {
    match text.rsplit_once(':') {
        Some((source, target)) if !source.is_empty() && !target.is_empty() => {
            Ok((source.to_owned(), target.into()))
        }
        _ => Err(NoPathPair),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_parsed_from_the_right() {
        let (source, target) = path_pair("/a:b:/out").unwrap();
        assert_eq!((source.as_str(), target), ("/a:b", "/out".into()));
    }
}
