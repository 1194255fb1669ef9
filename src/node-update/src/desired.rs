//! What a MachineConfig wants of a host, without Ignition's forms: files with bytes, units, the
//! account `core`.

use std::collections::BTreeMap;

use crate::plan::{Digest, FileState, Owners};
use crate::rejection::Subject;

/// Mode of a file that names none. Source: `docs/reference/daemon.md`, "Files".
pub(crate) const FILE_MODE: u32 = 0o644;
/// A password hash that no password has.
pub(crate) const LOCKED: &str = "*";

/// What a host is to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Desired {
    /// Files, then those of units, in the order of the configuration; last Slipway's own.
    pub files: Vec<DesiredFile>,
    /// Units, in the order of the configuration.
    pub units: Vec<DesiredUnit>,
    /// Keys of `core`, one a line; absent where the configuration has no such user.
    pub keys: Option<Vec<u8>>,
    /// Hash of the password of `core`; absent where the configuration says nothing about it.
    pub password: Option<String>,
    /// Contents by digest.
    pub blobs: BTreeMap<Digest, Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DesiredFile {
    pub path: String,
    pub state: FileState<Owners>,
    /// The part of the configuration that asks for it.
    pub subject: Subject,
    /// Whether Slipway adds it, so that it is not part of the configuration's text.
    pub is_own: bool,
}

/// A unit, besides its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DesiredUnit {
    pub name: String,
    /// Path of its own file, whether or not the configuration brings one.
    pub path: String,
    /// Whether the configuration brings its text.
    pub has_contents: bool,
    /// What enabling it does, if the configuration brings its text.
    pub install: Vec<(String, String)>,
    /// Paths of drop-ins that must not be there.
    pub removed_dropins: Vec<String>,
    pub mask: Option<bool>,
    pub enabled: Option<bool>,
    /// The part of the configuration that asks for it.
    pub subject: Subject,
}

impl Desired {
    /// The file at a path, if one is desired there.
    pub(crate) fn file(&self, path: &str) -> Option<&DesiredFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The unit of a name, if something is desired of it.
    pub(crate) fn unit(&self, name: &str) -> Option<&DesiredUnit> {
        self.units.iter().find(|unit| unit.name == name)
    }

    /// Keeps a content.
    pub(crate) fn keep(&mut self, bytes: Vec<u8>) -> Digest {
        let digest = Digest::of(&bytes);
        self.blobs.insert(digest.clone(), bytes);
        digest
    }
}

impl DesiredUnit {
    /// Whether the unit cannot be started at all.
    pub(crate) fn is_masked(&self) -> bool {
        self.mask == Some(true)
    }

    /// Whether it stands for units made from it, and is not started itself.
    pub(crate) fn is_template(&self) -> bool {
        self.name.contains("@.")
    }
}
