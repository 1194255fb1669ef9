//! `slipway image extract`: files of an image.

use std::path::Path;

use anyhow::{Context as _, bail};
use images::content::unpack;

use crate::access::open;
use crate::cli::ImageExtractArgs;
use crate::output::warn;

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
