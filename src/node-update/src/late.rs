//! What others wrote in `/etc` of a deployment after the one that is booted now was made from it,
//! and what of it is carried over.
//!
//! The deployment that was left is compared with the booted one, path by path. What is carried over
//! depends on no clock; which conflicts are named does:
//!
//! | in the deployment that was left | in the booted one | what follows |
//! |---|---|---|
//! | equal | equal | nothing |
//! | cannot be read, or a directory above it | anything | a conflict, as in the reverse case |
//! | as its OS ships it | anything | nothing: the booted OS decides |
//! | written by others, managed | anything | a conflict: the configuration decides |
//! | written by others | nothing, or another file or link | carried over |
//! | written by others | a directory in place of a file, or the reverse | a conflict |
//! | removed | as the booted OS ships it, and only that ships it | nothing |
//! | removed, managed | anything | nothing: the configuration decides |
//! | not there, because it never came there | anything | nothing |
//! | removed | anything else | removed |
//!
//! That a file which others wrote wins over the booted OS's new one is the rule of libostree's
//! merge, too: it does not matter on which side of the merge the file was written.

use std::collections::{BTreeMap, BTreeSet};

use machineconfig::spec::Spec;
use serde::{Deserialize, Serialize};

use crate::decode::decode_old;
use crate::plan::{Attributes, Digest, LinkTarget, Mode, OwnerIds};
use crate::well_known::{ENCAPSULATED, ENCAPSULATED_USED};

/// An entry of `/etc`. Two that are equal differ in nothing that is carried over, except the
/// SELinux label, which the booted deployment's policy names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcEntry {
    File {
        digest: Digest,
        /// Permission bits.
        mode: Mode,
        owner: OwnerIds,
        /// Extended attributes, except the label.
        attributes: Attributes,
    },
    /// A symbolic link, and what it points to.
    Link(LinkTarget),
    Directory {
        /// Permission bits.
        mode: Mode,
        owner: OwnerIds,
    },
    /// A device, socket or pipe.
    Other,
}

impl EtcEntry {
    fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }
}

/// The entries below `/etc`, by absolute path.
pub type EtcTree = BTreeMap<String, EtcEntry>;

/// `/etc` of one deployment.
#[derive(Debug, Clone, Default)]
pub struct Side {
    pub etc: EtcTree,
    /// As the OS ships it in `/usr/etc`, by the paths that it has in `/etc`.
    pub shipped: EtcTree,
    /// Files that are several hard links of one, by path; equal numbers are one file.
    pub inodes: BTreeMap<String, u64>,
    /// Paths that changed since the switch, by the host's clock. Only these can be conflicts: a
    /// file that a new configuration takes over is none.
    pub recent: BTreeSet<String>,
    /// Paths that cannot be read, here or as the OS ships them, and why. Of a directory, nothing
    /// below it is known.
    pub unreadable: BTreeMap<String, String>,
}

impl Side {
    /// Whether nothing is known of what is below the path's parents.
    fn hides(&self, path: &str) -> bool {
        let mut above = parent_of(path);
        while let Some(directory) = above {
            if self.unreadable.contains_key(directory) {
                return true;
            }
            above = parent_of(directory);
        }
        false
    }
}

/// One change of the booted `/etc`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LateChange {
    /// The entry of the deployment that was left is written; of a directory, not what is in it.
    Write { path: String },
    /// The path becomes a hard link of a file that is equal or was written before.
    HardLink {
        path: String,
        /// The path of that file.
        to: String,
    },
    /// The entry is removed; a directory only if it is empty.
    Remove { path: String },
}

impl LateChange {
    /// The path that it changes.
    pub fn path(&self) -> &str {
        match self {
            Self::Write { path } | Self::HardLink { path, .. } | Self::Remove { path } => path,
        }
    }
}

/// Why an entry that others wrote is not carried over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateConflict {
    /// The configuration of one of the two deployments manages the path.
    Managed,
    /// The booted deployment has a directory at the path, or no directory above it.
    Replaced,
    /// It is a device, socket or pipe.
    NotAFile,
    /// It is part of the OS's SELinux policy.
    Policy,
    /// It cannot be read in one of the two deployments, so that they cannot be compared.
    Unreadable,
}

impl LateConflict {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Managed => "the configuration manages it",
            Self::Replaced => {
                "the booted deployment has a directory in its place, or a file above it"
            }
            Self::NotAFile => "it is a device, socket or pipe, or its name is not UTF-8",
            Self::Policy => "it is part of the OS's SELinux policy",
            Self::Unreadable => "it cannot be read",
        }
    }
}

/// What is done about late changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carry {
    /// In the order in which they are done.
    pub changes: Vec<LateChange>,
    /// What changed since the switch and is not carried over, and why, by path.
    pub conflicts: BTreeMap<String, LateConflict>,
    /// All that others wrote and that is not carried over, also before the switch.
    pub left_behind: LeftBehind,
}

/// Paths that others wrote in one deployment and that never came to the other. On the way back
/// their absence is no removal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftBehind(BTreeSet<String>);

impl LeftBehind {
    /// Nothing was carried over.
    pub fn everything() -> Self {
        Self(BTreeSet::from(["/etc".to_owned()]))
    }

    /// Adds a path, and all that is below it.
    pub fn add(&mut self, path: &str) {
        self.0.insert(path.to_owned());
    }

    /// Whether the path or a directory above it was left behind.
    pub fn has(&self, path: &str) -> bool {
        let mut at = Some(path);
        while let Some(path) = at {
            if self.0.contains(path) {
                return true;
            }
            at = parent_of(path);
        }
        false
    }
}

/// What the configurations of the two deployments manage in `/etc`.
#[derive(Debug, Clone, Default)]
pub struct Managed {
    /// Files, and the content that the configuration of the deployment that was left asks for.
    files: BTreeMap<String, Option<Digest>>,
    units: BTreeSet<String>,
}

impl Managed {
    /// Of the configurations of the deployment that was left, and of the booted one.
    pub fn of(left: Option<&Spec>, booted: Option<&Spec>) -> Self {
        let mut managed = Self::default();
        for (spec, is_left) in [(booted, false), (left, true)] {
            let Some(spec) = spec else { continue };
            let desired = decode_old(spec);
            for file in desired.files {
                let content = is_left.then_some(file.state.digest);
                managed.files.insert(file.path, content);
            }
            for unit in desired.units {
                managed.files.entry(unit.path).or_insert(None);
                for dropin in unit.removed_dropins {
                    managed.files.entry(dropin).or_insert(None);
                }
                managed.units.insert(unit.name);
            }
        }
        managed
    }

    fn has(&self, path: &str, entry: Option<&EtcEntry>) -> bool {
        let name = name_of(path);
        let leads_to_unit = match entry {
            Some(EtcEntry::Link(target)) => std::str::from_utf8(target.as_bytes())
                .is_ok_and(|target| self.units.contains(name_of(target))),
            _ => false,
        };
        self.files.contains_key(path) || self.is_unit(path, name) || leads_to_unit
    }

    fn is_unit(&self, path: &str, name: &str) -> bool {
        path.starts_with("/etc/systemd/") && self.units.contains(name)
    }

    /// Whether the entry is what the configuration of the deployment that was left put there, or a
    /// link that enables or masks a unit: those are no work of others.
    fn wrote(&self, path: &str, entry: &EtcEntry) -> bool {
        match entry {
            EtcEntry::File { digest, .. } => self
                .files
                .get(path)
                .is_some_and(|of| of.as_ref() == Some(digest)),
            EtcEntry::Link(_) => {
                self.is_unit(path, name_of(path)) || !self.files.contains_key(path)
            }
            EtcEntry::Directory { .. } | EtcEntry::Other => false,
        }
    }
}

/// Decides what of `left`'s late changes is carried over to `booted`. `never_came` was in `booted`
/// and did not come to `left`.
pub fn plan(left: &Side, booted: &Side, managed: &Managed, never_came: &LeftBehind) -> Carry {
    let mut carry = Carry::default();
    let mut writes = BTreeSet::new();
    let mut removals = BTreeSet::new();
    let readable = left.etc.keys().chain(booted.etc.keys());
    let unreadable = left.unreadable.keys().chain(booted.unreadable.keys());
    let paths: BTreeSet<&String> = readable.chain(unreadable).collect();
    for path in paths {
        let (was, is) = (left.etc.get(path), booted.etc.get(path));
        let is_equal = was.is_some() && was == is;
        if is_equal || is_own(path) || left.hides(path) || booted.hides(path) {
            continue;
        }
        if left.unreadable.contains_key(path) || booted.unreadable.contains_key(path) {
            carry.left_behind.add(path);
            carry
                .conflicts
                .insert(path.clone(), LateConflict::Unreadable);
            continue;
        }
        let Some(was) = was else {
            let is_new_in_os = is == booted.shipped.get(path) && !left.shipped.contains_key(path);
            // Devices are never carried over.
            let is_of_booted = is_new_in_os || is == Some(&EtcEntry::Other) || is_policy(path);
            if !is_of_booted && !managed.has(path, is) && !never_came.has(path) {
                removals.insert(path.clone());
            }
            continue;
        };
        // A directory with entries is made with the first of them that is carried over.
        let is_made_with_its_entries =
            is.is_none() && was.is_directory() && has_entries(left, path);
        if left.shipped.get(path) == Some(was) || is_made_with_its_entries {
            continue;
        }
        let conflict = if managed.has(path, Some(was)) || managed.has(path, is) {
            if managed.wrote(path, was) {
                continue;
            }
            Some(LateConflict::Managed)
        } else if is_policy(path) {
            Some(LateConflict::Policy)
        } else if *was == EtcEntry::Other {
            Some(LateConflict::NotAFile)
        } else {
            let is_replaced = is.is_some_and(|is| is.is_directory() != was.is_directory());
            let parents = parents_to_make(path, left, booted, managed);
            match parents.filter(|_| !is_replaced && is != Some(&EtcEntry::Other)) {
                Some(parents) => {
                    writes.extend(parents);
                    None
                }
                None => Some(LateConflict::Replaced),
            }
        };
        let Some(conflict) = conflict else {
            writes.insert(path.clone());
            continue;
        };
        carry.left_behind.add(path);
        if left.recent.contains(path) {
            carry.conflicts.insert(path.clone(), conflict);
        }
    }
    carry.changes = with_hard_links(left, booted, &writes);
    let removals = removals_in_order(booted, &writes, &removals);
    carry.changes.extend(removals);
    carry
}

/// Removals, innermost first; of a directory only if all that is in it goes.
fn removals_in_order(
    booted: &Side,
    writes: &BTreeSet<String>,
    removals: &BTreeSet<String>,
) -> Vec<LateChange> {
    let stays = writes.iter().chain(booted.unreadable.keys());
    let mut stays: BTreeSet<&str> = stays.filter_map(|path| parent_of(path)).collect();
    let mut changes = Vec::new();
    // In the reverse of their order the entries of a directory come before it.
    for path in booted.etc.keys().rev() {
        if removals.contains(path) && !stays.contains(path.as_str()) {
            changes.push(LateChange::Remove { path: path.clone() });
        } else {
            stays.extend(parent_of(path));
        }
    }
    changes
}

fn has_entries(side: &Side, directory: &str) -> bool {
    let first = format!("{directory}/");
    let mut below = side.etc.range(first.clone()..);
    below
        .next()
        .is_some_and(|(path, _)| path.starts_with(&first))
}

/// The directories above `path` that the booted deployment lacks, as those of the deployment that
/// was left; `None` where another entry is in the place of one.
fn parents_to_make(
    path: &str,
    left: &Side,
    booted: &Side,
    managed: &Managed,
) -> Option<Vec<String>> {
    let mut missing = Vec::new();
    let mut parent = parent_of(path);
    while let Some(directory) = parent.filter(|directory| *directory != "/etc") {
        match booted.etc.get(directory) {
            Some(EtcEntry::Directory { .. }) => break,
            Some(_) => return None,
            None => {
                let was = left.etc.get(directory);
                if !was.is_some_and(EtcEntry::is_directory) || managed.has(directory, None) {
                    return None;
                }
                missing.push(directory.to_owned());
            }
        }
        parent = parent_of(directory);
    }
    Some(missing)
}

/// The writes in the order of their paths: a directory before what is in it, and of several hard
/// links of one file the first before the others.
fn with_hard_links(left: &Side, booted: &Side, writes: &BTreeSet<String>) -> Vec<LateChange> {
    let mut firsts: BTreeMap<u64, String> = BTreeMap::new();
    for (path, inode) in &left.inodes {
        let is_equal = left.etc.get(path) == booted.etc.get(path);
        if is_equal {
            firsts.entry(*inode).or_insert_with(|| path.clone());
        }
    }
    let mut changes = Vec::new();
    for path in writes {
        let path = path.clone();
        let inode = left.inodes.get(&path);
        let first = inode.and_then(|inode| firsts.get(inode).cloned());
        if let Some(to) = first {
            changes.push(LateChange::HardLink { path, to });
            continue;
        }
        if let Some(inode) = inode {
            firsts.insert(*inode, path.clone());
        }
        changes.push(LateChange::Write { path });
    }
    changes
}

/// Files that belong to one deployment: Slipway's own, what asks for a first boot, the account
/// databases, which are merged line by line, and what programs of the OS make anew from other
/// files.
fn is_own(path: &str) -> bool {
    const OWN: &[&str] = &[
        "/etc/.pwd.lock",
        "/etc/.updated",
        "/etc/group",
        "/etc/group-",
        "/etc/gshadow",
        "/etc/gshadow-",
        "/etc/ld.so.cache",
        "/etc/machine-config-daemon",
        "/etc/mtab",
        "/etc/passwd",
        "/etc/passwd-",
        "/etc/shadow",
        "/etc/shadow-",
        "/etc/udev/hwdb.bin",
        ENCAPSULATED,
        ENCAPSULATED_USED,
    ];
    OWN.contains(&path)
        || path.starts_with("/etc/machine-config-daemon/")
        || name_of(path).starts_with("slipway-")
        || name_of(path).ends_with(".slipway-new")
}

fn is_policy(path: &str) -> bool {
    path.starts_with("/etc/selinux/") && path != "/etc/selinux/config"
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn parent_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

#[cfg(test)]
mod tests;
