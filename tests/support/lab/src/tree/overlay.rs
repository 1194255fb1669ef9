//! What a commit has other than the base it is laid over.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::cache::Recipe;
use prebuilt::tree::make_parents;

/// Files of a commit that differ from the base, and its version.
///
/// Paths are those of the commit, absolute: configuration is in `/usr/etc`.
#[derive(Clone, Debug)]
pub struct Overlay {
    pub(super) version: String,
    entries: BTreeMap<String, Entry>,
    kernel: Kernel,
}

#[derive(Clone, Debug)]
enum Entry {
    File {
        content: Content,
        mode: u32,
        owner: (u32, u32),
    },
    Link {
        target: String,
    },
    Gone,
}

#[derive(Clone, Debug)]
enum Content {
    Bytes(Vec<u8>),
    Random { bytes: u64, seed: u64 },
}

/// What a boot loader finds.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    /// The base's.
    AsInBase,
    /// The base's with the version behind it.
    Another,
    /// None at all.
    Missing,
    /// A kernel that panics, having no initramfs that it can unpack.
    Panics,
}

impl Overlay {
    /// An overlay that changes nothing but the version.
    pub fn version(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            entries: BTreeMap::new(),
            kernel: Kernel::AsInBase,
        }
    }

    /// With a file of root's.
    #[must_use]
    pub fn file(self, path: &str, content: impl Into<Vec<u8>>, mode: u32) -> Self {
        self.owned_file(path, content, mode, (0, 0))
    }

    /// With a file of another owner, by the numbers of user and group.
    #[must_use]
    pub fn owned_file(
        mut self,
        path: &str,
        content: impl Into<Vec<u8>>,
        mode: u32,
        owner: (u32, u32),
    ) -> Self {
        let content = Content::Bytes(content.into());
        self.entries.insert(
            path.to_owned(),
            Entry::File {
                content,
                mode,
                owner,
            },
        );
        self
    }

    /// With a symbolic link.
    #[must_use]
    pub fn link(mut self, path: &str, target: &str) -> Self {
        self.entries.insert(
            path.to_owned(),
            Entry::Link {
                target: target.to_owned(),
            },
        );
        self
    }

    /// Without a file that the base has.
    #[must_use]
    pub fn without(mut self, path: &str) -> Self {
        self.entries.insert(path.to_owned(), Entry::Gone);
        self
    }

    /// With this many random bytes in `/usr/lib/ballast`, which no compression makes fewer.
    #[must_use]
    pub fn ballast(mut self, bytes: u64, seed: u64) -> Self {
        let content = Content::Random { bytes, seed };
        let entry = Entry::File {
            content,
            mode: 0o644,
            owner: (0, 0),
        };
        self.entries.insert("/usr/lib/ballast".to_owned(), entry);
        self
    }

    /// With a kernel of other bytes, which therefore takes room of its own in `/boot`.
    #[must_use]
    pub fn another_kernel(mut self) -> Self {
        self.kernel = Kernel::Another;
        self
    }

    /// Without a kernel: a commit that cannot be deployed.
    #[must_use]
    pub fn without_kernel(mut self) -> Self {
        self.kernel = Kernel::Missing;
        self
    }

    /// With an initramfs that is none: a machine that boots it panics.
    #[must_use]
    pub fn panics(mut self) -> Self {
        self.kernel = Kernel::Panics;
        self
    }

    /// With a kubelet unit that fails.
    #[must_use]
    pub fn failing_kubelet(self) -> Self {
        let unit = "[Unit]\nDescription=Kubelet that fails\n\n[Service]\nType=oneshot\n\
                    ExecStart=/bin/false\n\n[Install]\nWantedBy=multi-user.target\n";
        self.file("/usr/lib/systemd/system/kubelet.service", unit, 0o644)
    }

    /// With a kubelet unit that never comes to run, and never fails either.
    #[must_use]
    pub fn hanging_kubelet(self) -> Self {
        let unit = "[Unit]\nDescription=Kubelet that waits for ever\n\n[Service]\nType=oneshot\n\
                    ExecStart=/bin/sleep infinity\n\n[Install]\nWantedBy=multi-user.target\n";
        self.file("/usr/lib/systemd/system/kubelet.service", unit, 0o644)
    }

    /// What it is made from.
    pub(super) fn recipe(&self) -> Recipe {
        let recipe = Recipe::default()
            .with("version", &self.version)
            .with("kernel", format!("{:?}", self.kernel));
        self.entries
            .iter()
            .fold(recipe, |recipe, (path, entry)| match entry {
                Entry::File {
                    content: Content::Bytes(bytes),
                    mode,
                    owner,
                } => recipe
                    .with(path, format!("{mode:o} {owner:?}"))
                    .with("", bytes),
                entry @ (Entry::File { .. } | Entry::Link { .. } | Entry::Gone) => {
                    recipe.with(path, format!("{entry:?}"))
                }
            })
    }

    /// Whether libostree finds something to boot in it.
    pub(super) fn has_kernel(&self) -> bool {
        !matches!(self.kernel, Kernel::Missing)
    }

    /// Paths of the base that are left out.
    pub(super) fn removed(&self, kernel: &str) -> Vec<String> {
        let gone = |(path, entry): (&String, &Entry)| match entry {
            Entry::Gone => Some(path.clone()),
            Entry::File { .. } | Entry::Link { .. } => None,
        };
        let mut paths: Vec<_> = self.entries.iter().filter_map(gone).collect();
        if matches!(self.kernel, Kernel::Missing) {
            paths.push(format!("/usr/lib/modules/{kernel}/vmlinuz"));
        }
        paths
    }

    /// Writes what it has into the new directory `root`; `base` reads a file of the base.
    pub(super) fn write(
        &self,
        root: &Path,
        kernel: &str,
        base: impl Fn(&str) -> Result<Vec<u8>>,
    ) -> Result<()> {
        for (path, entry) in &self.entries {
            ensure!(path.starts_with('/'), "{path} is not absolute");
            let at = root.join(path.trim_start_matches('/'));
            match entry {
                Entry::Gone => {}
                Entry::Link { target } => {
                    make_parents(&at)?;
                    symlink(target, &at)?;
                }
                Entry::File {
                    content,
                    mode,
                    owner,
                } => {
                    write_file(&at, content, *mode, *owner)
                        .with_context(|| format!("cannot write {}", at.display()))?;
                }
            }
        }
        let modules = format!("/usr/lib/modules/{kernel}");
        match self.kernel {
            Kernel::AsInBase | Kernel::Missing => Ok(()),
            Kernel::Panics => {
                let content = Content::Random {
                    bytes: 4096,
                    seed: 1,
                };
                write_file(
                    &root.join(format!(".{modules}/initramfs.img")),
                    &content,
                    0o600,
                    (0, 0),
                )
            }
            Kernel::Another => {
                // What follows the last section of a kernel's image is loaded and never looked at.
                let path = format!("{modules}/vmlinuz");
                let mut image = base(&path)?;
                image.extend_from_slice(self.version.as_bytes());
                write_file(
                    &root.join(format!(".{path}")),
                    &Content::Bytes(image),
                    0o644,
                    (0, 0),
                )
            }
        }
    }
}

fn write_file(at: &Path, content: &Content, mode: u32, (uid, gid): (u32, u32)) -> Result<()> {
    make_parents(at)?;
    let mut file = BufWriter::new(File::create_new(at)?);
    match content {
        Content::Bytes(bytes) => file.write_all(bytes)?,
        Content::Random { bytes, seed } => {
            let mut state = *seed;
            let mut left = *bytes;
            while left > 0 {
                let word = splitmix64(&mut state).to_le_bytes();
                let take = word.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                file.write_all(word.get(..take).unwrap_or_default())?;
                left -= take as u64;
            }
        }
    }
    file.into_inner()?;
    chown(at, Some(uid), Some(gid))?;
    // After the owner, whose change takes the set-id bits away.
    Ok(fs::set_permissions(at, fs::Permissions::from_mode(mode))?)
}

/// One step of the generator splitmix64, enough to be incompressible.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
