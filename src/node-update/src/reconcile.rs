//! Whether a host can go from one MachineConfig to another without being reinstalled.
//!
//! Source: `docs/reference/daemon.md`, "Rejected changes"; `docs/reference/controller.md`,
//! "Reconcilability". The texts are those of OpenShift's MCO.

use crate::decode::{decode, decode_old};
use crate::desired::Desired;
use crate::early;
use crate::kubelet;
use crate::packages;
use crate::paths;
use crate::pull;
use crate::rejection::{Member, Rejection, Section, Subject};
use crate::well_known::{CORE, FORCE_FILE};
use ignition::{Config, PasswdUser, Resource};
use machineconfig::spec::Spec;

/// Changes that are let pass though they have no effect on a host that is installed.
///
/// Source: `MachineConfiguration.spec.irreconcilableValidationOverrides.storage`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exempt {
    pub disks: bool,
    pub filesystems: bool,
    pub raid: bool,
}

/// Why `new` cannot follow `old` on a host without a built image; empty when it can.
pub fn rejections(old: &Spec, new: &Spec, exempt: Exempt) -> Vec<Rejection> {
    of_pool(old, new, exempt, false)
}

/// The same in image mode: the image that is built for `new` brings the files and packages that
/// belong to it.
pub fn rejections_in_image_mode(old: &Spec, new: &Spec, exempt: Exempt) -> Vec<Rejection> {
    of_pool(old, new, exempt, true)
}

fn of_pool(old: &Spec, new: &Spec, exempt: Exempt, has_image: bool) -> Vec<Rejection> {
    let held = decode_old(old);
    let mut all = rejections_of(old, new, (&held, &decode(new).0), exempt, has_image);
    all.extend(packages::rejections_of_pool(old, new, has_image));
    all
}

/// Both, where `old` and `new` were decoded already: what `old` held, and what `new` wants.
///
/// Shape: `has_image` says that the target has a built image.
pub(crate) fn rejections_of(
    old: &Spec,
    new: &Spec,
    (held, desired): (&Desired, &Desired),
    exempt: Exempt,
    has_image: bool,
) -> Vec<Rejection> {
    let (before, after) = (&old.ignition, &new.ignition);
    let mut rejections = Vec::new();
    passwd(before, after, &mut rejections);
    if before.kernel_arguments != after.kernel_arguments {
        rejections.push(Rejection::new(
            Subject::Section(Section::IgnitionKernelArguments),
            "ignition kargs section contains changes",
        ));
    }
    storage(before, after, exempt, &mut rejections);
    files(after, &mut rejections);
    rejections.extend(paths::rejections(desired, has_image));
    rejections.extend(pull::rejections(held, desired));
    rejections.extend(early::rejections(held, desired));
    rejections.extend(kubelet::rejections(held, desired));
    if old.fips != new.fips {
        rejections.push(fips());
    }
    rejections
}

/// What `new` changes without effect on a host in `old`, though it is accepted: sections that an
/// administrator let through, links that go, encrypted volumes. Sentences for people.
pub fn without_effect(old: &Spec, new: &Spec) -> Vec<String> {
    let (before, after) = (&old.ignition.storage, &new.ignition.storage);
    let changes = [
        (Section::Disks, before.disks != after.disks),
        (
            Section::Filesystems,
            before.filesystems != after.filesystems,
        ),
        (Section::Raid, before.raid != after.raid),
        (Section::Luks, before.luks != after.luks),
        (Section::Links, before.links != after.links),
    ];
    let differing = changes.iter().filter(|(_, differs)| *differs);
    differing
        .map(|(section, _)| format!("{section} changes, which has no effect on an installed host"))
        .collect()
}

/// A section in which a host is not what its configuration says, and cannot become it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub field_path: String,
    /// The entries that differ, by name, and how. Contents are left out: volumes have keys.
    pub diff: String,
}

/// What a host that was installed with `installed` cannot have of `current`.
///
/// Source: `docs/reference/daemon.md`, "Changes without effect".
pub fn differs_from_installed(installed: &Spec, current: &Spec) -> Vec<Difference> {
    let (before, after) = (&installed.ignition.storage, &current.ignition.storage);
    let sections = [
        (
            Section::Disks,
            differing(&before.disks, &after.disks, |disk| &disk.device),
        ),
        (
            Section::Filesystems,
            differing(&before.filesystems, &after.filesystems, |it| &it.device),
        ),
        (
            Section::Raid,
            differing(&before.raid, &after.raid, |array| &array.name),
        ),
        (
            Section::Luks,
            differing(&before.luks, &after.luks, |volume| &volume.name),
        ),
    ];
    let differing = sections.into_iter().filter(|(_, diff)| !diff.is_empty());
    differing
        .map(|(section, diff)| Difference {
            field_path: section.to_string(),
            diff,
        })
        .collect()
}

/// How the entries of two lists differ, by name; empty if they are equal.
fn differing<'a, T: PartialEq>(
    before: &'a [T],
    after: &'a [T],
    name: impl Fn(&'a T) -> &'a String,
) -> String {
    if before == after {
        return String::new();
    }
    let find = |all: &'a [T], wanted: &String| all.iter().find(|entry| name(entry) == wanted);
    let mut words = Vec::new();
    for entry in before {
        match find(after, name(entry)) {
            None => words.push(format!("{} is gone from the configuration", name(entry))),
            Some(other) if other != entry => words.push(format!("{} changed", name(entry))),
            Some(_) => {}
        }
    }
    for entry in after {
        if find(before, name(entry)).is_none() {
            words.push(format!("{} is new in the configuration", name(entry)));
        }
    }
    if words.is_empty() {
        words.push("the order changed".to_owned());
    }
    words.join("; ")
}

/// The rejection of a change of FIPS mode, against the old configuration or against the kernel.
pub(crate) fn fips() -> Rejection {
    Rejection::new(
        Subject::Section(Section::Fips),
        "detected change to FIPS flag; refusing to modify FIPS on a running cluster",
    )
}

fn passwd(old: &Config, new: &Config, rejections: &mut Vec<Rejection>) {
    let mut reject = |subject: Subject, member: Option<Member>, why: &str| {
        let why = format!("invalid passwd change(s): {why}");
        rejections.push(Rejection {
            subject,
            member,
            why,
        });
    };
    if old.passwd.groups != new.passwd.groups {
        let why = "ignition Passwd Groups section contains changes";
        reject(Subject::Section(Section::Groups), None, why);
    }
    let users = &new.passwd.users;
    if old.passwd.users == *users {
        return;
    }
    if let Some(index) = users.iter().position(|user| user.name != CORE) {
        let why = "ignition passwd user section contains unsupported changes: non-core user";
        reject(Subject::User(index), Some(Member::Name), why);
    } else if let Some(core) = users.last() {
        let subject = Subject::User(users.len() - 1);
        let expected = PasswdUser {
            name: core.name.clone(),
            ssh_authorized_keys: core.ssh_authorized_keys.clone(),
            password_hash: core.password_hash.clone(),
            ..PasswdUser::default()
        };
        if *core != expected {
            let why = "SSH keys and password hash are not reconcilable";
            reject(subject, None, why);
        } else if core.password_hash.is_none() && core.ssh_authorized_keys.is_empty() {
            let why = "ignition passwd user section contains unsupported changes: user must be core and have 1 or more sshKeys";
            reject(subject, None, why);
        }
    }
}

fn storage(old: &Config, new: &Config, exempt: Exempt, rejections: &mut Vec<Rejection>) {
    let (before, after) = (&old.storage, &new.storage);
    for (section, name, differs) in [
        (
            Section::Disks,
            "disks",
            !exempt.disks && before.disks != after.disks,
        ),
        (
            Section::Filesystems,
            "filesystems",
            !exempt.filesystems && before.filesystems != after.filesystems,
        ),
        (
            Section::Raid,
            "raid",
            !exempt.raid && before.raid != after.raid,
        ),
        (
            Section::Directories,
            "directories",
            before.directories != after.directories,
        ),
        // Links that go are left where they are.
        (
            Section::Links,
            "links",
            before.links != after.links && !after.links.is_empty(),
        ),
    ] {
        if differs {
            let why = format!("ignition {name} section contains changes");
            rejections.push(Rejection::new(Subject::Section(section), why));
        }
    }
}

/// What no host can follow, whatever it followed before.
fn files(new: &Config, rejections: &mut Vec<Rejection>) {
    for (index, file) in new.storage.files.iter().enumerate() {
        let mut reject = |member: Member, why: String| {
            rejections.push(Rejection::of_member(Subject::File(index), member, why));
        };
        if !file.append.is_empty() {
            let why = format!("ignition file {} includes append", file.path);
            reject(Member::Append, why);
        }
        if file.path == FORCE_FILE {
            let why = format!("cannot create {FORCE_FILE} via Ignition");
            reject(Member::Path, why);
        }
        if let Some(scheme) = remote(&file.contents) {
            let why = format!("{}: source must be a data: URL, is {scheme}:", file.path);
            reject(Member::Source, why);
        }
    }
}

/// The scheme of a source that would have to be fetched.
fn remote(contents: &Resource) -> Option<&str> {
    let source = contents
        .source
        .as_deref()
        .filter(|source| !source.is_empty())?;
    let (scheme, _) = source.split_once(':')?;
    (scheme != "data").then_some(scheme)
}

#[cfg(test)]
mod tests;
