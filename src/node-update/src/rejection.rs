//! Rejections: why a target cannot be applied, and which MachineConfig asks for it.

use std::fmt;

use ignition::{Config, KernelArguments};
use machineconfig::spec::{KernelType, Spec};

/// Why a target cannot be applied.
///
/// Shape: prints as `<JSON path>: <why>`, such as `spec.fips: detected change to FIPS flag; …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    pub subject: Subject,
    /// The member of the subject, where one alone is at fault.
    pub member: Option<Member>,
    /// A sentence for people that names the object: a path, a unit, a user. It is never parsed.
    pub why: String,
}

/// Why there is no plan. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Rejections(pub Vec<Rejection>);

/// A part of a MachineConfig that a rejection is about.
///
/// Shape: prints as its JSON path. An index is that of the target's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// `spec.config.storage.files[index]`
    File(usize),
    /// `spec.config.systemd.units[index]`
    Unit(usize),
    /// `spec.config.systemd.units[unit].dropins[dropin]`
    Dropin {
        /// Index of the unit.
        unit: usize,
        /// Index of the drop-in in its unit.
        dropin: usize,
    },
    /// `spec.config.passwd.users[index]`
    User(usize),
    /// A member that is at fault as a whole.
    Section(Section),
}

/// A member of a MachineConfig's `spec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// `spec.config.passwd.groups`
    Groups,
    /// `spec.config.kernelArguments`, which is Ignition's.
    IgnitionKernelArguments,
    /// `spec.config.storage.disks`
    Disks,
    /// `spec.config.storage.filesystems`
    Filesystems,
    /// `spec.config.storage.raid`
    Raid,
    /// `spec.config.storage.luks`
    Luks,
    /// `spec.config.storage.directories`
    Directories,
    /// `spec.config.storage.links`
    Links,
    /// `spec.config.systemd.units`
    Units,
    /// `spec.fips`
    Fips,
    /// `spec.kernelArguments`
    KernelArguments,
    /// `spec.kernelType`
    KernelType,
    /// `spec.extensions`
    Extensions,
}

/// A member of a file, unit or user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    Append,
    Contents,
    /// `contents.source`
    Source,
    Mask,
    Name,
    Path,
}

impl Rejection {
    /// A rejection of a subject as a whole.
    pub fn new(subject: Subject, why: impl Into<String>) -> Self {
        Self {
            subject,
            member: None,
            why: why.into(),
        }
    }

    /// A rejection of one member of a subject.
    pub fn of_member(subject: Subject, member: Member, why: impl Into<String>) -> Self {
        Self {
            member: Some(member),
            ..Self::new(subject, why)
        }
    }

    /// The MachineConfig that a rejection of a rendered configuration comes from: the last in the
    /// order of merging that has the subject.
    ///
    /// Shape: `sources` are the names and specs of the rendered configuration's sources, in the
    /// order of merging.
    pub fn source_in<'a>(
        &self,
        rendered: &Spec,
        mut sources: impl DoubleEndedIterator<Item = (&'a str, &'a Spec)>,
    ) -> Option<&'a str> {
        let source = sources.rfind(|(_, spec)| self.subject.is_in(spec, &rendered.ignition));
        source.map(|(name, _)| name)
    }
}

impl Subject {
    /// Whether a source has the subject. Files and units have another index in a source than in the
    /// rendered configuration, and are found there by path and name.
    fn is_in(self, source: &Spec, rendered: &Config) -> bool {
        let config = &source.ignition;
        match self {
            Self::File(index) => {
                let path = rendered.storage.files.get(index).map(|file| &file.path);
                path.is_some_and(|path| config.storage.files.iter().any(|file| file.path == *path))
            }
            Self::Unit(unit) | Self::Dropin { unit, .. } => {
                let name = rendered.systemd.units.get(unit).map(|unit| &unit.name);
                name.is_some_and(|name| config.systemd.units.iter().any(|unit| unit.name == *name))
            }
            Self::User(_) => !config.passwd.users.is_empty(),
            Self::Section(section) => section.is_in(source),
        }
    }
}

impl Section {
    fn is_in(self, source: &Spec) -> bool {
        let config = &source.ignition;
        match self {
            Self::Groups => !config.passwd.groups.is_empty(),
            Self::IgnitionKernelArguments => config.kernel_arguments != KernelArguments::default(),
            Self::Disks => !config.storage.disks.is_empty(),
            Self::Filesystems => !config.storage.filesystems.is_empty(),
            Self::Raid => !config.storage.raid.is_empty(),
            Self::Luks => !config.storage.luks.is_empty(),
            Self::Directories => !config.storage.directories.is_empty(),
            Self::Links => !config.storage.links.is_empty(),
            Self::Units => !config.systemd.units.is_empty(),
            Self::Fips => source.fips,
            Self::KernelArguments => !source.kernel_arguments.is_empty(),
            Self::KernelType => source.kernel_type != KernelType::Default,
            Self::Extensions => !source.extensions.is_empty(),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.subject)?;
        if let Some(member) = self.member {
            write!(f, ".{member}")?;
        }
        write!(f, ": {}", self.why)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(index) => write!(f, "spec.config.storage.files[{index}]"),
            Self::Unit(index) => write!(f, "spec.config.systemd.units[{index}]"),
            Self::Dropin { unit, dropin } => {
                write!(f, "{}.dropins[{dropin}]", Self::Unit(*unit))
            }
            Self::User(index) => write!(f, "spec.config.passwd.users[{index}]"),
            Self::Section(section) => section.fmt(f),
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Groups => "spec.config.passwd.groups",
            Self::IgnitionKernelArguments => "spec.config.kernelArguments",
            Self::Disks => "spec.config.storage.disks",
            Self::Filesystems => "spec.config.storage.filesystems",
            Self::Raid => "spec.config.storage.raid",
            Self::Luks => "spec.config.storage.luks",
            Self::Directories => "spec.config.storage.directories",
            Self::Links => "spec.config.storage.links",
            Self::Units => "spec.config.systemd.units",
            Self::Fips => "spec.fips",
            Self::KernelArguments => "spec.kernelArguments",
            Self::KernelType => "spec.kernelType",
            Self::Extensions => "spec.extensions",
        })
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Append => "append",
            Self::Contents => "contents",
            Self::Source => "contents.source",
            Self::Mask => "mask",
            Self::Name => "name",
            Self::Path => "path",
        })
    }
}

#[cfg(test)]
mod tests;
