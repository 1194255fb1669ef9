//! What an update does to a host, as data: the steps, in order, with how each is undone.
//!
//! A plan is made once, stored whole, and executed as stored: a restart never recomputes it. It
//! carries no file contents; they lie beside it as blobs named by their digest ([`Bundle`]).
//!
//! - `entry`: what links and attributes hold, of any bytes
//! - `expectation`: what must hold on a host

mod entry;
mod expectation;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use self::entry::{Attribute, AttributeName, Attributes, LinkTarget};
pub use self::expectation::Expectation;
pub use api::machineconfiguration::Target;

/// Version of the stored form. A reader refuses any other.
pub const SCHEMA: u32 = 1;

/// Where files of container units lie: systemd's generator makes services of them when it reads its
/// units.
pub const QUADLETS: &str = "/etc/containers/systemd/";

/// Name of one attempt to reach a target; unique on a host. Lower-case letters, digits and `-`: it
/// names directories and units.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub String);

/// SHA-256 of a blob, lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(hex::encode(Sha256::digest(bytes)))
    }

    /// The digest of bytes that cannot be had: no content's.
    pub(crate) const fn of_unknown() -> Self {
        Self(String::new())
    }

    /// The digest as 64 hex digits: the name of the blob's file.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Computes a digest part by part: a file need not be held whole.
#[derive(Debug, Default)]
pub struct Digester(Sha256);

impl Digester {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all of them.
    pub fn finish(self) -> Digest {
        Digest(hex::encode(self.0.finalize()))
    }
}

/// Permission bits of a file, at most 0o7777. Printed and stored as a number, as Ignition does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mode(pub u32);

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#o}", self.0)
    }
}

/// A user or group as a configuration names it. Names are resolved in the deployment that is
/// written to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    Id(u32),
    /// Name in the target's accounts.
    Name(String),
}

impl Owner {
    /// The superuser, which owns what a configuration leaves open.
    pub const ROOT: Self = Self::Id(0);
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Owner of a file as a configuration names it. Stored as the members `user` and `group`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owners {
    pub user: Owner,
    pub group: Owner,
}

impl Owners {
    /// User and group of the superuser.
    pub const ROOT: Self = Self {
        user: Owner::ROOT,
        group: Owner::ROOT,
    };
}

impl fmt::Display for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.user, self.group)
    }
}

/// Owner of a file as a file system holds it. Stored as the members `uid` and `gid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerIds {
    pub uid: u32,
    pub gid: u32,
}

impl OwnerIds {
    /// User and group of the superuser.
    pub const ROOT: Self = Self { uid: 0, gid: 0 };
}

/// A regular file: all of it that a configuration decides.
///
/// Shape: stored as `digest`, `mode` and the members of the owner, [`Owners`] or [`OwnerIds`];
/// where the digest names a blob of a plan, as `blob` ([`Blob`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState<O> {
    pub digest: Digest,
    /// Permission bits, with set-id and sticky.
    pub mode: Mode,
    #[serde(flatten)]
    pub owner: O,
}

/// The stored form of a [`FileState`] whose content is a blob of the plan.
#[derive(Serialize, Deserialize)]
#[serde(remote = "FileState")]
struct Blob<O> {
    #[serde(rename = "blob")]
    digest: Digest,
    mode: Mode,
    #[serde(flatten)]
    owner: O,
}

/// How the plan reaches the running host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// Edits the running system, file by file, with undo.
    Live,
    /// Makes a new deployment, writes into its `/etc`, switches the boot loader, and asks for a
    /// reboot.
    Reboot,
}

/// What the new deployment is made of; only for [`Route::Reboot`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deploy {
    /// Pull spec of the OS image to deploy; absent: the booted commit again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Kernel arguments of the old configuration, removed where present, one occurrence each.
    #[serde(default)]
    pub delete_arguments: Vec<String>,
    /// Kernel arguments of the new configuration, appended in order.
    #[serde(default)]
    pub append_arguments: Vec<String>,
}

/// One effect on the host. It carries all it needs: executing chooses nothing, and a second run
/// changes nothing.
///
/// Paths are absolute and clean; those below `/etc` belong to the deployment that is written to,
/// all others are shared by deployments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Action {
    /// Puts a regular file in place, with its parents (0755, root) where they lack.
    WriteFile {
        /// Absolute path.
        path: String,
        /// What is written; its content is a blob.
        #[serde(flatten, with = "Blob")]
        file: FileState<Owners>,
    },
    /// Gives a path back to the OS: the target's `/usr/etc/<path>` if it ships one (bytes, mode,
    /// owner), else nothing stays.
    ReleaseFile {
        /// Absolute path.
        path: String,
    },
    /// Links `/etc/systemd/system/<unit>` to `/dev/null`, removing what was there.
    MaskUnit { unit: String },
    /// Removes such a link; anything else at the path stays.
    UnmaskUnit { unit: String },
    /// `systemctl enable`; nothing where no unit of that name exists.
    EnableUnit { unit: String },
    /// `systemctl enable`, where no link leads to the unit any more: disabling another took it
    /// along.
    KeepUnitEnabled { unit: String },
    /// `systemctl disable`; where no unit of that name exists, the links to it are removed all the
    /// same.
    DisableUnit { unit: String },
    /// `systemctl preset`: what the OS's presets say. Where no unit of that name exists, the links
    /// to it are removed: the OS that had it is gone, and one that has it again would start it.
    PresetUnit { unit: String },
    /// Writes `~<user>/.ssh/authorized_keys.d/ignition`, 0600, with directories 0700, owned by the
    /// user.
    WriteAuthorizedKeys {
        user: String,
        /// Content: one key a line, newline-terminated.
        blob: Digest,
    },
    /// Sets the account's password hash in `/etc/shadow`; `*` locks it.
    SetPassword {
        user: String,
        /// Content: the hash, without a newline. A blob, so that plans can be printed.
        blob: Digest,
    },
    /// `systemctl daemon-reload`; only in a live plan.
    DaemonReload,
    /// Restarts a unit; only in a live plan.
    RestartUnit { unit: String },
    /// Reloads a unit; only in a live plan.
    ReloadUnit { unit: String },
}

/// What a path held before a step touched it, observed before the first effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "was")]
pub enum Prior {
    /// Nothing was there.
    Absent,
    /// A regular file, with its content as a blob.
    File {
        /// Content, mode and owner.
        #[serde(flatten, with = "Blob")]
        state: FileState<OwnerIds>,
        /// Its extended attributes, except the SELinux label.
        #[serde(default, skip_serializing_if = "Attributes::is_empty")]
        attributes: Attributes,
    },
    Link {
        target: LinkTarget,
    },
    /// A directory that the step may find empty and take away.
    Directory {
        /// Permission bits.
        mode: Mode,
        #[serde(flatten)]
        owner: OwnerIds,
    },
}

/// How a step is undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "undo")]
pub enum Undo {
    /// Nothing to undo: the effect lies in a deployment that is removed, or another step undoes it.
    Nothing,
    /// Puts every path back as it was, then forgets directories the step made.
    Restore {
        /// Path and what it held.
        paths: BTreeMap<String, Prior>,
    },
    /// Runs an action again after the files are back (reload, restart).
    Again,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    #[serde(flatten)]
    pub action: Action,
    /// How to take it back. [`Undo::Nothing`] until the executor has observed the host and stored
    /// the plan.
    #[serde(default = "Undo::nothing")]
    pub undo: Undo,
}

impl Undo {
    const fn nothing() -> Self {
        Self::Nothing
    }
}

/// Everything an update does to one host.
///
/// Shape: stored as `plan.json`, with the blobs in `blobs/<digest>` beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub schema: u32,
    pub attempt: Attempt,
    pub from: Target,
    pub to: Target,
    /// Live or through a reboot.
    pub route: Route,
    /// Whether the node is drained first. A reboot always is, unless the topology has a single
    /// node.
    pub drain: bool,
    /// What must hold on the host before the first effect: files and units of the configuration it
    /// is in. Empty where an administrator forces the update, and where nothing is overwritten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origin: Vec<Expectation>,
    /// What follows the change, by the words of node disruption policies: `Reboot`, `None`, or
    /// others, in order. Empty in a plan of an earlier version, and in one made by hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub post_config_actions: Vec<String>,
    /// Why it is this route: the paths, units or fields that decided, for people.
    #[serde(default)]
    pub because: Vec<String>,
    /// What the target changes without effect on an installed host, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_effect: Vec<String>,
    /// The new deployment; present exactly for [`Route::Reboot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy: Option<Deploy>,
    /// Effects, in order.
    pub steps: Vec<Step>,
    /// The record of the target, `/etc/machine-config-daemon/currentconfig`: the MachineConfig as
    /// JSON. Written with the steps on the reboot route, after the last step on the live route.
    pub record: Digest,
    /// What must hold on the host once the plan is through.
    pub expect: Vec<Expectation>,
}

/// A plan with its blobs, as it is handed from the thinking to the hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    pub plan: Plan,
    /// Contents by digest.
    pub blobs: BTreeMap<Digest, Vec<u8>>,
}

#[cfg(test)]
mod tests;
