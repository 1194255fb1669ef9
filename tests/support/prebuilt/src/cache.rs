//! What is costly to make is made once, and kept outside the checkout under a digest of what it was
//! made from.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

/// The cache's folder: `$SLIPWAY_CACHE`, or `/var/cache/slipway`.
pub fn dir() -> PathBuf {
    std::env::var_os("SLIPWAY_CACHE")
        .filter(|dir| !dir.is_empty())
        .map_or_else(|| PathBuf::from("/var/cache/slipway"), PathBuf::from)
}

/// Digest of what something is made from: any number of named inputs, in order.
///
/// Names and contents are both counted with their lengths, so that no two lists of inputs run
/// together into the same digest.
#[derive(Clone, Debug, Default)]
pub struct Recipe(Sha256);

impl Recipe {
    /// Adds one input, such as a file's content under its name or a tool's version.
    #[must_use]
    pub fn with(mut self, name: &str, content: impl AsRef<[u8]>) -> Self {
        for part in [name.as_bytes(), content.as_ref()] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
        self
    }

    /// Adds the content of a file under its file name.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn with_file(self, path: &Path) -> Result<Self> {
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_name().unwrap_or_default();
        Ok(self.with(&name.to_string_lossy(), content))
    }

    /// First 128 bits of the digest in hexadecimal: enough for no accident, short in a path.
    pub fn digest(&self) -> String {
        let digest = self.0.clone().finalize();
        let head = digest
            .iter()
            .take(16)
            .fold(0, |head: u128, byte| head << 8 | u128::from(*byte));
        format!("{head:032x}")
    }
}

/// Folder `<cache>/<kind>/<digest of recipe>`, made by `make` where it does not exist yet.
///
/// `make` fills an empty folder beside it, which is renamed at the end: what exists is complete. Of
/// several processes one makes it and the others wait. An attempt that was killed leaves its
/// folder, which the next one empties.
///
/// # Errors
/// Those of `make`, and any of the file system's.
pub fn folder(
    kind: &str,
    recipe: &Recipe,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    folder_in(&dir(), kind, recipe, make)
}

fn folder_in(
    cache: &Path,
    kind: &str,
    recipe: &Recipe,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let of_kind = cache.join(kind);
    let done = of_kind.join(recipe.digest());
    if done.is_dir() {
        return Ok(done);
    }
    fs::create_dir_all(&of_kind)
        .with_context(|| format!("cannot make the cache's folder {}", of_kind.display()))?;
    let _lock = lock(&of_kind.join(format!("{}.lock", recipe.digest())))?;
    if done.is_dir() {
        return Ok(done);
    }

    let making = of_kind.join(format!("{}.making", recipe.digest()));
    match fs::remove_dir_all(&making) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error)
                .with_context(|| format!("cannot remove the unfinished {}", making.display()));
        }
        Ok(()) | Err(_) => {}
    }
    fs::create_dir(&making).with_context(|| format!("cannot make {}", making.display()))?;
    make(&making).with_context(|| format!("cannot make {kind} in {}", making.display()))?;
    ensure!(making.is_dir(), "the maker of {kind} took its folder away");
    fs::rename(&making, &done)
        .with_context(|| format!("cannot rename {} to {}", making.display(), done.display()))?;
    Ok(done)
}

/// Waits for an exclusive lock, held until the file is dropped or the process ends.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot open {}", path.display()))?;
    file.lock()
        .with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn inputs_do_not_run_together() {
        let digests = [
            Recipe::default().with("a", "bc").digest(),
            Recipe::default().with("ab", "c").digest(),
            Recipe::default().with("a", "b").with("c", "").digest(),
        ];
        assert_ne!(digests[0], digests[1]);
        assert_ne!(digests[0], digests[2]);
        assert_eq!(digests[0], Recipe::default().with("a", "bc").digest());
    }

    #[test]
    fn many_at_once_make_it_once() {
        let cache = tempfile::tempdir().unwrap();
        let recipe = Recipe::default().with("input", "1");
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let folder = folder_in(cache.path(), "thing", &recipe, |dir| {
                        made.fetch_add(1, Ordering::Relaxed);
                        Ok(File::create_new(dir.join("part")).map(drop)?)
                    });
                    assert!(folder.unwrap().join("part").is_file());
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn a_failed_attempt_leaves_nothing_that_looks_made() {
        let cache = tempfile::tempdir().unwrap();
        let recipe = Recipe::default().with("input", "1");
        let failed = folder_in(cache.path(), "thing", &recipe, |dir| {
            File::create_new(dir.join("half"))?;
            anyhow::bail!("no more")
        });
        assert!(failed.is_err());
        let done = folder_in(cache.path(), "thing", &recipe, |dir| {
            assert_eq!(fs::read_dir(dir)?.count(), 0);
            Ok(())
        });
        assert!(done.unwrap().is_dir());
    }
}
