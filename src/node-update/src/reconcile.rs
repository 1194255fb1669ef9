//! Whether a host can go from one MachineConfig to another without being installed anew.
//!
//! Source: `docs/reference/daemon.md`, "Rejected changes"; `docs/reference/controller.md`, "Reconcilability". The texts are those of
//! OpenShift's MCO.

use std::fmt;

use serde_json::Value;

use crate::paths;
use crate::wanted::Wanted;
use ignition::{Config, PasswdUser, Resource};
use machineconfig::spec::Spec;

/// A file that forces an update where it exists; no configuration may bring it.
pub const FORCE_FILE: &str = "/run/machine-config-daemon-force";

/// The only user a configuration may change.
const CORE: &str = "core";

/// Why something is refused: the field, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// JSON path in the MachineConfig, such as `spec.config.storage.files[3].mode`.
    pub field: String,
    /// Why, naming the object: a path, a unit, a user.
    pub why: String,
}

impl Reason {
    /// A reason about `field`.
    pub fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            why: why.into(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
    }
}

/// Changes that are let pass though they have no effect on a host that is installed.
///
/// Source: `MachineConfiguration.spec.irreconcilableValidationOverrides.storage`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exempt {
    /// `Disks`.
    pub disks: bool,
    /// `FileSystems`.
    pub filesystems: bool,
    /// `Raid`.
    pub raid: bool,
}

/// Why `new` cannot follow `old`; empty when it can.
pub fn refusals(old: &Spec, new: &Spec, exempt: Exempt) -> Vec<Reason> {
    refusals_of(old, new, &Wanted::of(new).0, exempt)
}

/// [`refusals`], where `new` was decoded already: `desired` is what it wants.
pub(crate) fn refusals_of(old: &Spec, new: &Spec, desired: &Wanted, exempt: Exempt) -> Vec<Reason> {
    let (before, after) = (&old.ignition, &new.ignition);
    let mut reasons = Vec::new();
    passwd(before, after, &mut reasons);
    if before.kernel_arguments != after.kernel_arguments {
        reasons.push(Reason::new(
            "spec.config.kernelArguments",
            "ignition kargs section contains changes",
        ));
    }
    storage(before, after, exempt, &mut reasons);
    files(after, &mut reasons);
    reasons.extend(paths::refusals(desired));
    if old.fips != new.fips {
        reasons.push(fips());
    }
    reasons
}

/// The refusal of a change of FIPS mode, against the old configuration or against the kernel.
pub fn fips() -> Reason {
    Reason::new(
        "spec.fips",
        "detected change to FIPS flag; refusing to modify FIPS on a running cluster",
    )
}

fn passwd(old: &Config, new: &Config, reasons: &mut Vec<Reason>) {
    let mut refuse = |field: &str, why: &str| {
        let why = format!("invalid passwd change(s): {why}");
        reasons.push(Reason::new(format!("spec.config.passwd.{field}"), why));
    };
    if old.passwd.groups != new.passwd.groups {
        refuse("groups", "ignition Passwd Groups section contains changes");
    }
    let users = &new.passwd.users;
    if old.passwd.users == *users {
        return;
    }
    if let Some(index) = users.iter().position(|user| user.name != CORE) {
        let why = "ignition passwd user section contains unsupported changes: non-core user";
        refuse(&format!("users[{index}].name"), why);
    } else if let Some(core) = users.last() {
        let at = format!("users[{}]", users.len() - 1);
        let known = PasswdUser {
            name: core.name.clone(),
            ssh_authorized_keys: core.ssh_authorized_keys.clone(),
            password_hash: core.password_hash.clone(),
            ..PasswdUser::default()
        };
        if *core != known {
            refuse(&at, "SSH keys and password hash are not reconcilable");
        } else if core.password_hash.is_none() && core.ssh_authorized_keys.is_empty() {
            let why = "ignition passwd user section contains unsupported changes: user must be core and have 1 or more sshKeys";
            refuse(&at, why);
        }
    }
}

fn storage(old: &Config, new: &Config, exempt: Exempt, reasons: &mut Vec<Reason>) {
    let (before, after) = (&old.storage, &new.storage);
    for (member, differs) in [
        ("disks", !exempt.disks && before.disks != after.disks),
        (
            "filesystems",
            !exempt.filesystems && before.filesystems != after.filesystems,
        ),
        ("raid", !exempt.raid && before.raid != after.raid),
        ("directories", before.directories != after.directories),
        // Links that go are left where they are.
        (
            "links",
            before.links != after.links && !after.links.is_empty(),
        ),
    ] {
        if differs {
            let why = format!("ignition {member} section contains changes");
            reasons.push(Reason::new(format!("spec.config.storage.{member}"), why));
        }
    }
}

/// What no host can follow, whatever it followed before.
fn files(new: &Config, reasons: &mut Vec<Reason>) {
    for (index, file) in new.storage.files.iter().enumerate() {
        let at = format!("spec.config.storage.files[{index}]");
        if !file.append.is_empty() {
            let why = format!("ignition file {} includes append", file.path);
            reasons.push(Reason::new(format!("{at}.append"), why));
        }
        if file.path == FORCE_FILE {
            let why = format!("cannot create {FORCE_FILE} via Ignition");
            reasons.push(Reason::new(format!("{at}.path"), why));
        }
        if let Some(scheme) = remote(&file.contents) {
            let why = format!("{}: source must be a data: URL, is {scheme}:", file.path);
            reasons.push(Reason::new(format!("{at}.contents.source"), why));
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

/// The source that a refusal of a rendered configuration comes from: the last, in the order of merging, that says something about it.
///
/// Shape: `sources` are the names and specs of the rendered configuration's sources, in any order that is that of merging.
pub fn blame<'a>(
    reason: &Reason,
    rendered: &Spec,
    mut sources: impl DoubleEndedIterator<Item = (&'a str, &'a Spec)>,
) -> Option<&'a str> {
    let says = |spec: &Spec| match entry(reason, rendered) {
        Some(Entry::File(path)) => spec
            .ignition
            .storage
            .files
            .iter()
            .any(|file| file.path == path),
        Some(Entry::Unit(name)) => spec
            .ignition
            .systemd
            .units
            .iter()
            .any(|unit| unit.name == name),
        None => match member(reason, spec) {
            None => false,
            Some(Value::Bool(flag)) => flag,
            Some(Value::Array(items)) => !items.is_empty(),
            Some(Value::Null | Value::Number(_) | Value::String(_) | Value::Object(_)) => true,
        },
    };
    sources.rfind(|(_, spec)| says(spec)).map(|(name, _)| name)
}

/// An item of a list that is known by a key, and so stands elsewhere in its source.
enum Entry<'a> {
    File(&'a str),
    Unit(&'a str),
}

/// The file or unit that a reason is about.
fn entry<'a>(reason: &Reason, rendered: &'a Spec) -> Option<Entry<'a>> {
    let index = |list: &str| -> Option<usize> {
        reason
            .field
            .strip_prefix(list)?
            .split(']')
            .next()?
            .parse()
            .ok()
    };
    let ignition = &rendered.ignition;
    let file = index("spec.config.storage.files[").and_then(|at| ignition.storage.files.get(at));
    let unit = index("spec.config.systemd.units[").and_then(|at| ignition.systemd.units.get(at));
    match (file, unit) {
        (Some(file), _) => Some(Entry::File(&file.path)),
        (None, Some(unit)) => Some(Entry::Unit(&unit.name)),
        (None, None) => None,
    }
}

/// What a configuration says in the section that a reason is about.
fn member(reason: &Reason, spec: &Spec) -> Option<Value> {
    let section = reason.field.strip_prefix("spec.")?.split('[').next()?;
    spec.to_value()
        .pointer(&format!("/{}", section.replace('.', "/")))
        .cloned()
}

#[cfg(test)]
mod tests;
