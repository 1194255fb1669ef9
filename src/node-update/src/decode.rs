//! From a MachineConfig to what it wants of a host.

use crate::desired::{Desired, DesiredFile, DesiredUnit, FILE_MODE, LOCKED};
use crate::early;
use crate::plan::{Digest, FileState, Mode, Owner, Owners};
use crate::rejection::{Member, Rejection, Subject};
use crate::well_known::{CORE, UNITS};
use ignition::{Dropin, NodeOwner, Unit, content, unit_text};
use machineconfig::spec::{NodeConfig, Spec};

/// Decodes what a configuration wants, and rejects each file whose content cannot be decoded.
pub(crate) fn decode(spec: &Spec) -> (Desired, Vec<Rejection>) {
    let mut desired = Desired::default();
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
        add_unit(&mut desired, index, unit);
    }
    let own = early::dropins(&desired);
    if !own.is_empty() {
        desired.keep(early::DROPIN_TEXT.as_bytes().to_vec());
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
pub(crate) fn decode_old(spec: &Spec) -> Desired {
    let (mut desired, _) = decode(spec);
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

/// The drop-ins of Slipway's own for a configuration, by path, with their text.
pub fn dropins_of(config: &NodeConfig) -> Vec<(String, &'static str)> {
    let files = decode(&config.spec).0.files;
    let own = files.into_iter().filter(|file| file.is_own);
    own.map(|file| (file.path, early::DROPIN_TEXT)).collect()
}

/// Adds a unit with its files. The text of a masked unit is not written: the mask stands in its
/// place.
fn add_unit(desired: &mut Desired, index: usize, unit: &Unit) {
    let path = format!("{UNITS}/{}", unit.name);
    let text = unit.contents.as_deref().filter(|text| !text.is_empty());
    let text = text.filter(|_| unit.mask != Some(true));
    if let Some(text) = text {
        unit_file(desired, path.clone(), text, Subject::Unit(index));
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
                unit_file(desired, dropin, text, subject);
            }
            None => removed_dropins.push(dropin),
        }
    }
    desired.units.push(DesiredUnit {
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

fn unit_file(desired: &mut Desired, path: String, text: &str, subject: Subject) {
    let state = FileState {
        digest: desired.keep(text.as_bytes().to_vec()),
        mode: Mode(FILE_MODE),
        owner: Owners::ROOT,
    };
    desired.files.push(DesiredFile {
        path,
        state,
        subject,
        is_own: false,
    });
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
        assert_eq!(decode(&config.spec).0.files, []);
        let left = decode_old(&config.spec);
        let paths: Vec<&str> = left.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["/etc/x"]);
    }
}
