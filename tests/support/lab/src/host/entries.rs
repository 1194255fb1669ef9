//! What a boot loader would start: the entries that libostree wrote.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

/// A boot loader entry, and the deployment that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What the menu shows.
    pub title: String,
    /// Higher is further up in the menu.
    pub version: u64,
    /// The kernel's command line.
    pub options: String,
    /// Path of the kernel, in the file system of `/boot`.
    pub linux: String,
}

/// A deployment's identity: the same commit may be deployed more than once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DeploymentId {
    /// Of the commit, SHA-256 in hexadecimal.
    pub checksum: String,
    /// Counts deployments of the same commit.
    pub serial: u32,
}

impl std::fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.checksum, self.serial)
    }
}

impl From<DeploymentId> for String {
    fn from(id: DeploymentId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for DeploymentId {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        let parts = text.rsplit_once('.');
        let (checksum, serial) = parts.with_context(|| format!("{text} is no deployment"))?;
        Ok(Self {
            checksum: checksum.to_owned(),
            serial: serial.parse()?,
        })
    }
}

/// All entries of a sysroot, the one to be booted first.
///
/// Source: the Boot Loader Specification, type 1; libostree gives the one to be booted the highest
/// `version`.
///
/// # Errors
///
/// There is none, or one that is not complete.
pub fn entries(sysroot: &Path) -> Result<Vec<Entry>> {
    let dir = sysroot.join("boot/loader/entries");
    let mut entries = Vec::new();
    for file in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = file?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "conf")
        {
            let text = fs::read_to_string(&path)?;
            let entry = parse(&text).with_context(|| format!("in {}", path.display()))?;
            entries.push(entry);
        }
    }
    ensure!(!entries.is_empty(), "no entry in {}", dir.display());
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.version));
    Ok(entries)
}

impl Entry {
    /// The directory that it boots, real path below `sysroot`.
    ///
    /// # Errors
    ///
    /// It has no `ostree=` option, or that leads nowhere, or the kernel is not in `/boot`.
    pub fn deployment(&self, sysroot: &Path) -> Result<PathBuf> {
        let kernel = sysroot
            .join("boot")
            .join(self.linux.trim_start_matches('/'));
        ensure!(kernel.is_file(), "there is no kernel {}", kernel.display());
        let link = ostree_option(&self.options)
            .with_context(|| format!("entry {:?} has no option ostree=", self.title))?;
        let path = sysroot.join(link.trim_start_matches('/'));
        path.canonicalize()
            .with_context(|| format!("{} leads nowhere", path.display()))
    }
}

/// Value of the option `ostree=` of a kernel's command line: a path in the sysroot.
fn ostree_option(options: &str) -> Option<String> {
    split(options)
        .into_iter()
        .find_map(|option| option.strip_prefix("ostree=").map(ToOwned::to_owned))
}

/// Which deployment a deployment's directory is, by its name.
pub(crate) fn deployment_id(dir: &Path) -> Result<DeploymentId> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    DeploymentId::try_from(name.into_owned())
}

/// Splits a command line as the kernel does: at blanks, but not between double quotes.
pub(crate) fn split(options: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quoted) = (String::new(), false);
    for char in options.chars() {
        match char {
            '"' => {
                quoted = !quoted;
                word.push(char);
            }
            blank if blank.is_ascii_whitespace() && !quoted => {
                words.push(std::mem::take(&mut word));
            }
            other => word.push(other),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn parse(text: &str) -> Result<Entry> {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix([' ', '\t']))
            .map(|value| value.trim().to_owned())
            .with_context(|| format!("it has no {key}"))
    };
    Ok(Entry {
        title: value("title")?,
        version: value("version")?
            .parse()
            .context("its version is no number")?,
        options: value("options")?,
        linux: value("linux")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `ostree admin deploy` of libostree 2022.7 writes it, shortened.
    const ENTRY: &str = "title Slipway lab v1 (ostree:0)\nversion 1\n\
        options root=LABEL=root rw ostree=/ostree/boot.1/slipway/434160/0\n\
        linux /ostree/slipway-434160/vmlinuz-6.1.0-50\n\
        initrd /ostree/slipway-434160/initramfs-6.1.0-50.img\n";

    #[test]
    fn an_entry_is_read() {
        let entry = parse(ENTRY).unwrap();
        assert_eq!(entry.version, 1);
        assert_eq!(entry.linux, "/ostree/slipway-434160/vmlinuz-6.1.0-50");
        assert!(
            entry
                .options
                .ends_with("ostree=/ostree/boot.1/slipway/434160/0")
        );
    }

    #[test]
    fn quotes_keep_an_argument_together() {
        assert_eq!(split("a  b=\"c d\"\te"), ["a", "b=\"c d\"", "e"]);
    }
}
