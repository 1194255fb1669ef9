//! What a MachineConfig wants of a host, without Ignition's forms: files with bytes, units, the
//! account `core`.

use std::collections::BTreeMap;

use crate::early;
use crate::plan::{Digest, FileState, Mode, Owner, Owners};
use crate::rejection::{Member, Rejection, Subject};
use crate::well_known::{CORE, UNITS};
use ignition::{self, Dropin, NodeOwner, Unit, content, unit_text};
use machineconfig::spec::Spec;

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

/// A regular file.
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
    /// Decodes what a configuration wants, and rejects each file whose content cannot be decoded.
    pub(crate) fn of(spec: &Spec) -> (Self, Vec<Rejection>) {
        let mut desired = Self::default();
        let mut rejections = Vec::new();
        for (index, file) in spec.ignition.storage.files.iter().enumerate() {
            let subject = Subject::File(index);
            match content::decode(&file.contents) {
                Ok(bytes) => {
                    let desired_file = DesiredFile {
                        path: file.path.clone(),
                        state: state_of(file, desired.keep(bytes)),
                        subject,
                        is_own: false,
                    };
                    desired.files.push(desired_file);
                }
                Err(error) => {
                    let why = format!("could not decode file {:?}: {error}", file.path);
                    rejections.push(Rejection::of_member(subject, Member::Contents, why));
                }
            }
        }
        for (index, unit) in spec.ignition.systemd.units.iter().enumerate() {
            desired.add_unit(index, unit);
        }
        let own = early::dropins(&desired);
        if !own.is_empty() {
            desired.keep(early::dropin_text().to_vec());
            desired.files.extend(own);
        }
        if let Some(core) = spec
            .ignition
            .passwd
            .users
            .iter()
            .find(|user| user.name == CORE)
        {
            desired.keys = Some(lines(core));
            let hash = core.password_hash.clone();
            desired.password = hash.map(|hash| {
                if hash.is_empty() {
                    LOCKED.to_owned()
                } else {
                    hash
                }
            });
        }
        (desired, rejections)
    }

    /// What a configuration that is left brought: files whose bytes cannot be had any more, too, so
    /// that they go.
    pub(crate) fn of_old(spec: &Spec) -> Self {
        let (mut desired, _) = Self::of(spec);
        for (index, file) in spec.ignition.storage.files.iter().enumerate() {
            if desired.file(&file.path).is_none() {
                let unknown = DesiredFile {
                    path: file.path.clone(),
                    // That of no content: whatever comes in its place is another.
                    state: state_of(file, Digest::of_unknown()),
                    subject: Subject::File(index),
                    is_own: false,
                };
                desired.files.push(unknown);
            }
        }
        desired
    }

    /// The file at a path, if one is desired there.
    pub(crate) fn file(&self, path: &str) -> Option<&DesiredFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The unit of a name, if something is desired of it.
    pub(crate) fn unit(&self, name: &str) -> Option<&DesiredUnit> {
        self.units.iter().find(|unit| unit.name == name)
    }
}

impl Desired {
    fn keep(&mut self, bytes: Vec<u8>) -> Digest {
        let digest = Digest::of(&bytes);
        self.blobs.insert(digest.clone(), bytes);
        digest
    }

    /// Adds a unit with its files. The text of a masked unit is not written: the mask stands in its
    /// place.
    fn add_unit(&mut self, index: usize, unit: &Unit) {
        let path = format!("{UNITS}/{}", unit.name);
        let text = unit.contents.as_deref().filter(|text| !text.is_empty());
        let text = text.filter(|_| unit.mask != Some(true));
        if let Some(text) = text {
            self.unit_file(path.clone(), text, Subject::Unit(index));
        }
        let mut removed_dropins = Vec::new();
        for (at, Dropin { name, contents }) in unit.dropins.iter().enumerate() {
            let dropin = format!("{path}.d/{name}");
            match contents.as_deref().filter(|text| !text.is_empty()) {
                Some(text) => {
                    let subject = Subject::Dropin {
                        unit: index,
                        dropin: at,
                    };
                    self.unit_file(dropin, text, subject);
                }
                None => removed_dropins.push(dropin),
            }
        }
        self.units.push(DesiredUnit {
            name: unit.name.clone(),
            path,
            has_contents: text.is_some(),
            install: text.map(unit_text::install).unwrap_or_default(),
            removed_dropins,
            mask: unit.mask,
            enabled: unit.enabled,
            subject: Subject::Unit(index),
        });
    }

    fn unit_file(&mut self, path: String, text: &str, subject: Subject) {
        let state = FileState {
            digest: self.keep(text.as_bytes().to_vec()),
            mode: Mode(FILE_MODE),
            owner: Owners::ROOT,
        };
        self.files.push(DesiredFile {
            path,
            state,
            subject,
            is_own: false,
        });
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

/// The state that a configuration asks for, with the digest of its decoded content.
fn state_of(file: &ignition::File, digest: Digest) -> FileState<Owners> {
    FileState {
        digest,
        mode: Mode(file.mode.unwrap_or(FILE_MODE)),
        owner: Owners {
            user: owner(&file.user),
            group: owner(&file.group),
        },
    }
}

/// Who owns a file: the id, else the name, else root.
fn owner(owner: &NodeOwner) -> Owner {
    match (owner.id, owner.name.as_deref()) {
        (Some(id), _) => Owner::Id(id),
        (None, Some(name)) if !name.is_empty() => Owner::Name(name.to_owned()),
        (None, _) => Owner::ROOT,
    }
}

/// The keys of a user, each on a line of its own.
fn lines(user: &ignition::PasswdUser) -> Vec<u8> {
    let line = |key: &String| format!("{}\n", key.trim_end_matches(['\n', '\r']));
    user.ssh_authorized_keys
        .iter()
        .map(line)
        .collect::<String>()
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use machineconfig::spec::NodeConfig;

    #[test]
    fn a_file_whose_bytes_cannot_be_had_is_left_and_not_looked_at() {
        let hash = format!("sha256-{}", "0".repeat(64));
        let file = json!({"path": "/etc/x", "contents": {"source": "data:,x", "verification": {"hash": hash}}});
        let config = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}});
        let object = json!({"metadata": {"name": "r"}, "spec": {"config": config}});
        let (config, _) = NodeConfig::in_force(&object).unwrap();
        assert_eq!(Desired::of(&config.spec).0.files, []);
        let left = Desired::of_old(&config.spec);
        let paths: Vec<&str> = left.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["/etc/x"]);
    }
}
