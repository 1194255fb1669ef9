//! Files of a folder, read and written with errors that name them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Paths of all files below a folder, in order.
pub(crate) fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let shown = || format!("cannot read {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(shown)? {
            let entry = entry.with_context(shown)?;
            let kind = entry.file_type().with_context(shown)?;
            let list = if kind.is_dir() { &mut open } else { &mut all };
            list.push(entry.path());
        }
    }
    all.sort();
    Ok(all)
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

pub(crate) fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a file, and makes the folders that it is in.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, content)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
