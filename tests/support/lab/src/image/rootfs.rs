//! A root file system as one layer, as any container image has it: no objects, no repository.

use std::path::Path;

use anyhow::Result;

use super::layout;
use crate::program::{command, run};
use crate::tree::Commit;

/// Writes the layout into an empty directory.
pub(super) fn write(commit: &Commit, layout: &Path) -> Result<()> {
    let tar = layout.join("layer.tar");
    run(command("ostree")
        .arg("export")
        .arg(format!("--repo={}", commit.repo.display()))
        .arg(format!("--output={}", tar.display()))
        .arg(&commit.checksum))?;
    let diff_id = layout::digest(&tar)?;
    // Packed, as the layers of the native image are.
    run(command("gzip").arg("--no-name").arg(&tar))?;
    let packed = tar.with_extension("tar.gz");
    let layer = (
        packed.as_path(),
        "application/vnd.oci.image.layer.v1.tar+gzip",
    );
    layout::write(layout, &layout::labels(commit), layer, Some(diff_id))
}
