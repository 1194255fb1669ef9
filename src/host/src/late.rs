//! Carries what others wrote in `/etc` of the deployment that was left over to the booted one.
//!
//! What is carried over is decided by [`node_update::late`]. Each change is done as a whole, and
//! what is done needs nothing any more: stopped at any point, it can be begun again.

use jiff::Timestamp;
use machineconfig::spec::NodeConfig;
use node_update::late::{EtcEntry, LateChange, LateConflict, LeftBehind, Managed, Side, plan};
use node_update::plan::{Mode, OwnerIds};

use crate::accounts::{self, carry_late};
use crate::files::{self, Content, Found, Inode, Location, Root};
use crate::journal::Switch;
use crate::record;

/// Where the content of a change that is not carried over is kept, below it the path in `/etc`. Not
/// beside the file itself: programs read all files of many directories of `/etc`.
pub const KEPT: &str = "/var/lib/slipway/late";

const ETC: &str = "/etc";
const SHIPPED: &str = "/usr";

/// The user whose password a configuration can set.
const CORE: &str = node_update::well_known::CORE;

/// Limit of nested directories; a real `/etc` has far fewer levels.
const DEPTH_MAX: usize = 64;

/// Why late changes cannot be carried over.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An entry cannot be read.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// The configuration of one of the deployments is not known.
    #[error(transparent)]
    Record(#[from] record::Error),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CarriedOver {
    /// Written paths, in the order in which they were written.
    pub written: Vec<String>,
    pub removed: Vec<String>,
    /// What was not carried over and is kept in [`KEPT`], and why.
    pub conflicts: Vec<(String, String)>,
    /// What stays in the deployment that was left.
    pub left_behind: LeftBehind,
}

/// Carries over the late changes of `left` to `booted`, the running system's root.
///
/// A change that fails keeps no other from being carried over: it is a conflict.
///
/// # Errors
/// [`Error`], before anything is changed.
pub fn carry(left: &Root, booted: &Root, switch: &Switch) -> Result<CarriedOver, Error> {
    let (since, never_came) = (switch.since, &switch.left_behind);
    let configs = (config(left)?, config(booted)?);
    let managed = Managed::of(
        configs.0.as_ref().map(|config| &config.spec),
        configs.1.as_ref().map(|config| &config.spec),
    );
    let (was, is) = (side(left, since)?, side(booted, since)?);
    let decided = plan(&was, &is, &managed, never_came);
    let mut carried = CarriedOver {
        left_behind: decided.left_behind,
        ..CarriedOver::default()
    };
    for change in decided.changes {
        let is_removal = matches!(change, LateChange::Remove { .. });
        let path = change.path().to_owned();
        match apply(left, booted, &change) {
            Err(error) => {
                carried.left_behind.add(&path);
                carried.conflicts.push((path, explained(&error)));
            }
            Ok(()) if is_removal => carried.removed.push(path),
            Ok(()) => carried.written.push(path),
        }
    }
    let has_password = |config: &Option<NodeConfig>| {
        let users = config.iter().flat_map(|it| &it.spec.ignition.passwd.users);
        users
            .filter(|user| user.name == CORE)
            .any(|user| user.password_hash.is_some())
    };
    let fixed = has_password(&configs.0) || has_password(&configs.1);
    let may_remove = !never_came.has(accounts::PASSWD);
    match carry_late(left, booted, fixed.then_some(CORE), may_remove) {
        Ok(databases) => carried
            .written
            .extend(databases.into_iter().map(str::to_owned)),
        Err(error) => {
            carried.left_behind.add(accounts::PASSWD);
            let conflict = (accounts::PASSWD.to_owned(), explained(&error));
            carried.conflicts.push(conflict);
        }
    }
    let conflicts = decided.conflicts.into_iter();
    let conflicts = conflicts.map(|(path, conflict)| {
        let unreadable = was
            .unreadable
            .get(&path)
            .or_else(|| is.unreadable.get(&path));
        let why = match unreadable.filter(|_| conflict == LateConflict::Unreadable) {
            Some(why) => format!("{}: {why}", conflict.as_str()),
            None => conflict.as_str().to_owned(),
        };
        (path, why)
    });
    carried.conflicts.extend(conflicts);
    carried.conflicts.sort();
    for (path, why) in &mut carried.conflicts {
        if let Err(error) = keep(left, booted, path) {
            *why = format!("{why}; and it cannot be kept: {}", explained(&error));
        }
    }
    Ok(carried)
}

fn explained(error: &(dyn std::error::Error + 'static)) -> String {
    chassis::report::Chain(error).to_string()
}

fn config(root: &Root) -> Result<Option<NodeConfig>, record::Error> {
    record::read(root)?
        .map(|record| record.machine_config())
        .transpose()
}

/// Reads `/etc` of a root, and what its OS ships there. What cannot be read is noted: one file
/// keeps no other from being carried over.
fn side(root: &Root, since: Timestamp) -> Result<Side, files::Error> {
    let mut side = Side::default();
    let etc = root.locate(ETC)?;
    let names = root.list(&etc)?;
    read_below(root, &etc, names, 0, &mut |at, seen| {
        let path = at.as_str().to_owned();
        match seen {
            Ok((entry, inode)) => {
                if inode.is_shared {
                    side.inodes.insert(path.clone(), inode.number);
                }
                if inode.changed_secs >= since.as_second() {
                    side.recent.insert(path.clone());
                }
                side.etc.insert(path, entry);
            }
            Err(error) => {
                side.unreadable.insert(path, explained(&error));
            }
        }
    });
    let usr_etc = root.locate(&format!("{SHIPPED}{ETC}"))?;
    let names = root.list(&usr_etc)?;
    read_below(root, &usr_etc, names, 0, &mut |at, seen| {
        let path = at.as_str().strip_prefix(SHIPPED).unwrap_or(at.as_str());
        match seen {
            Ok((entry, _)) => {
                side.shipped.insert(path.to_owned(), entry);
            }
            Err(error) => {
                let unreadable = side.unreadable.entry(path.to_owned());
                unreadable.or_insert_with(|| explained(&error));
            }
        }
    });
    Ok(side)
}

/// An entry with its inode, or why it cannot be read.
type Seen = Result<(EtcEntry, Inode), files::Error>;

/// Calls `show` for each entry below a directory that has these names. An entry that is removed
/// meanwhile is left out.
fn read_below(
    root: &Root,
    directory: &Location,
    names: Vec<String>,
    depth: usize,
    show: &mut dyn FnMut(&Location, Seen),
) {
    for name in names {
        let at = directory.below(&name);
        let seen = read_entry(root, &at);
        let below = match &seen {
            Ok(Some((EtcEntry::Directory { .. }, _))) if depth < DEPTH_MAX => root.list(&at),
            Ok(_) | Err(_) => Ok(Vec::new()),
        };
        match (seen, below) {
            // Its name has other bytes than this text.
            (Ok(None), _) if name.contains(char::REPLACEMENT_CHARACTER) => {
                show(&at, Ok((EtcEntry::Other, Inode::UNKNOWN)));
            }
            (Ok(None), _) => {}
            (Err(error), _) | (_, Err(error)) => show(&at, Err(error)),
            (Ok(Some(entry)), Ok(below)) => {
                show(&at, Ok(entry));
                read_below(root, &at, below, depth + 1, show);
            }
        }
    }
}

fn read_entry(root: &Root, at: &Location) -> Result<Option<(EtcEntry, Inode)>, files::Error> {
    let entry = match root.read_digest(at)? {
        Found::Nothing => return Ok(None),
        Found::File {
            bytes: digest,
            mode,
            owner,
        } => EtcEntry::File {
            digest,
            mode,
            owner,
            attributes: root.attributes(at)?,
        },
        Found::Link(target) => EtcEntry::Link(target),
        Found::Directory { mode, owner } => EtcEntry::Directory { mode, owner },
        Found::Other => EtcEntry::Other,
    };
    Ok(root.inode(at)?.map(|inode| (entry, inode)))
}

fn apply(left: &Root, booted: &Root, change: &LateChange) -> Result<(), files::Error> {
    let at = Location::of_resolved(change.path())?;
    match change {
        LateChange::Write { .. } => copy(left, &at, booted, &at),
        LateChange::HardLink { to, .. } => booted.hard_link(&at, &Location::of_resolved(to)?),
        LateChange::Remove { .. } => match booted.look(&at)? {
            Found::Directory { .. } => booted.remove_empty_directory(&at).map(|_| ()),
            Found::Nothing | Found::File { .. } | Found::Link(_) | Found::Other => {
                booted.remove(&at)
            }
        },
    }
}

/// Writes the entry at `from` of `left` to `to`; nothing for a device, socket or pipe.
fn copy(left: &Root, from: &Location, booted: &Root, to: &Location) -> Result<(), files::Error> {
    match left.look(from)? {
        Found::Nothing | Found::Other => Ok(()),
        Found::File { bytes, mode, owner } => {
            let content = Content {
                bytes: &bytes,
                mode,
                owner,
            };
            booted.replace_with(to, content, &left.attributes(from)?)
        }
        Found::Link(target) => booted.symlink(to, &target),
        Found::Directory { mode, owner } => booted.make_directory(to, mode, owner),
    }
}

/// Keeps the entry at `path` of `left` in [`KEPT`].
fn keep(left: &Root, booted: &Root, path: &str) -> Result<(), files::Error> {
    let kept = booted.locate(KEPT)?;
    booted.make_directory(&kept, Mode(0o700), OwnerIds::ROOT)?;
    let from = Location::of_resolved(path)?;
    let to = booted.locate(&format!("{KEPT}{path}"))?;
    copy(left, &from, booted, &to)
}

#[cfg(test)]
mod tests;
