//! One step on one root: done, observed, put back.

mod check;
mod taken;

use std::collections::BTreeMap;

use node_update::plan::{Action, Attempt, Digest, Mode, Owner, Prior, Undo};
use tracing::warn;

pub use self::check::Foreseen;
use self::taken::Taken;
use super::{Error, Perform, StepError, Units};
use crate::accounts::{self, Accounts};
use crate::files::{Content, Found, Location, Place, Root};
use crate::journal::Store;
use crate::systemd::links::{self, Installed};
use crate::systemd::{Enablement, Job};

/// Where a user's keys are, below the home directory: directories, then the file.
const KEYS: (&[&str], &str) = (&[".ssh", "authorized_keys.d"], "ignition");

/// Acts on one root: the running one, or a deployment's.
pub struct Hands<'a> {
    root: &'a Root,
    units: &'a mut dyn Units,
    store: &'a Store<'a>,
    attempt: Attempt,
    taken: Taken,
}

impl std::fmt::Debug for Hands<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hands")
            .field("root", self.root)
            .finish_non_exhaustive()
    }
}

/// What a step is about, for people: `file /etc/hosts`, `unit kubelet.service`, `user core`.
pub fn describe(action: &Action) -> String {
    match action {
        Action::WriteFile { path, .. } | Action::ReleaseFile { path } => format!("file {path}"),
        Action::MaskUnit { unit }
        | Action::UnmaskUnit { unit }
        | Action::EnableUnit { unit }
        | Action::KeepUnitEnabled { unit }
        | Action::DisableUnit { unit }
        | Action::PresetUnit { unit }
        | Action::RestartUnit { unit }
        | Action::ReloadUnit { unit } => format!("unit {unit}"),
        Action::WriteAuthorizedKeys { user, .. } => format!("SSH keys of user {user}"),
        Action::SetPassword { user, .. } => format!("password of user {user}"),
        Action::DaemonReload => "daemon-reload".to_owned(),
    }
}

impl<'a> Hands<'a> {
    /// Acts on `root` and its units, with contents from the stored plan of `attempt`.
    pub fn new(
        root: &'a Root,
        units: &'a mut dyn Units,
        store: &'a Store<'a>,
        attempt: Attempt,
    ) -> Self {
        Self {
            root,
            units,
            store,
            attempt,
            taken: Taken::default(),
        }
    }

    fn blob(&self, digest: &Digest) -> Result<Vec<u8>, StepError> {
        Ok(self.store.blob(&self.attempt, digest)?)
    }

    fn act(&mut self, action: &Action) -> Result<(), StepError> {
        match action {
            Action::WriteFile {
                path,
                blob,
                mode,
                user,
                group,
            } => {
                let at = self.writable(path)?;
                self.taken.bring(path);
                let bytes = self.blob(blob)?;
                let (uid, gid) = (self.uid(user)?, self.gid(group)?);
                self.root.replace(
                    &at,
                    Content {
                        bytes: &bytes,
                        mode: *mode,
                        uid,
                        gid,
                    },
                )?;
            }
            Action::ReleaseFile { path } => {
                self.root.release(&self.writable(path)?)?;
                self.taken.add(path);
            }
            Action::MaskUnit { unit } => {
                self.root
                    .symlink(&links::unit_path(self.root, unit)?, links::MASK)?;
            }
            Action::UnmaskUnit { unit } => {
                let at = links::unit_path(self.root, unit)?;
                if self.root.look(&at)? == Found::Link(links::MASK.to_owned()) {
                    self.root.remove(&at)?;
                }
            }
            Action::EnableUnit { unit } => self.set_enablement(Enablement::Enable, unit)?,
            Action::KeepUnitEnabled { unit } => {
                if !links::is_linked(self.root, unit)? {
                    self.set_enablement(Enablement::Enable, unit)?;
                }
            }
            Action::DisableUnit { unit } => self.set_enablement(Enablement::Disable, unit)?,
            Action::PresetUnit { unit } => self.set_enablement(Enablement::Preset, unit)?,
            Action::WriteAuthorizedKeys { user, blob } => self.write_keys(user, blob)?,
            Action::SetPassword { user, blob } => {
                let hash = String::from_utf8(self.blob(blob)?);
                let hash = hash.map_err(|_| StepError::NotText)?;
                let accounts = Accounts::read(self.root)?;
                accounts::set_password(self.root, &accounts, user, &hash)?;
            }
            Action::DaemonReload => self.units.reload_manager()?,
            Action::RestartUnit { unit } => self.tell(Job::Restart, unit)?,
            Action::ReloadUnit { unit } => self.tell(Job::Reload, unit)?,
        }
        Ok(())
    }

    fn look(&self, action: &Action) -> Result<Undo, StepError> {
        let paths = match action {
            Action::WriteFile { path, .. } | Action::ReleaseFile { path } => {
                vec![self.writable(path)?]
            }
            Action::MaskUnit { unit } | Action::UnmaskUnit { unit } => {
                vec![links::unit_path(self.root, unit)?]
            }
            Action::WriteAuthorizedKeys { user, .. } => vec![self.keys_of(user)?.1],
            Action::SetPassword { .. } => vec![self.root.locate(accounts::SHADOW)?],
            // All links of unit files are observed at once, before the first step.
            Action::EnableUnit { .. }
            | Action::KeepUnitEnabled { .. }
            | Action::DisableUnit { .. }
            | Action::PresetUnit { .. } => {
                return Ok(Undo::Nothing);
            }
            Action::DaemonReload | Action::RestartUnit { .. } | Action::ReloadUnit { .. } => {
                return Ok(Undo::Again);
            }
        };
        let mut priors = BTreeMap::new();
        for at in paths {
            let mut keep = |digest: &Digest, bytes: &[u8]| -> Result<(), StepError> {
                Ok(self.store.put_blob(&self.attempt, digest, bytes)?)
            };
            self.root.observe(&at, &mut priors, &mut keep)?;
        }
        if let Action::WriteAuthorizedKeys { user, .. } = action {
            for directory in self.keys_of(user)?.0 {
                if let Found::Directory { mode, uid, gid } = self.root.look(&directory)? {
                    priors.insert(directory.to_string(), Prior::Directory { mode, uid, gid });
                }
            }
        }
        Ok(Undo::Restore { paths: priors })
    }

    fn put_back(&self, undo: &Undo) -> Result<(), StepError> {
        let Undo::Restore { paths } = undo else {
            return Ok(());
        };
        self.root.restore(paths, &mut |digest| self.blob(digest))
    }

    fn place(&self, action: &Action) -> Result<Place, StepError> {
        Ok(match action {
            Action::WriteFile { path, .. } | Action::ReleaseFile { path } => {
                self.writable(path)?.place()
            }
            Action::WriteAuthorizedKeys { user, .. } => self.keys_of(user)?.1.place(),
            Action::MaskUnit { .. }
            | Action::UnmaskUnit { .. }
            | Action::EnableUnit { .. }
            | Action::KeepUnitEnabled { .. }
            | Action::DisableUnit { .. }
            | Action::PresetUnit { .. }
            | Action::SetPassword { .. } => Place::Deployment,
            Action::DaemonReload | Action::RestartUnit { .. } | Action::ReloadUnit { .. } => {
                return Err(StepError::NotRunning);
            }
        })
    }

    fn writable(&self, path: &str) -> Result<Location, StepError> {
        let at = self.root.locate(path)?;
        match at.place() {
            Place::Deployment | Place::Shared | Place::Volatile => Ok(at),
            Place::ReadOnly => Err(StepError::ReadOnly {
                path: at.to_string(),
            }),
        }
    }

    fn uid(&self, owner: &Owner) -> Result<u32, StepError> {
        match owner {
            Owner::Id(id) => Ok(*id),
            Owner::Name(_) => Ok(Accounts::read(self.root)?.uid(owner)?),
        }
    }

    fn gid(&self, owner: &Owner) -> Result<u32, StepError> {
        match owner {
            Owner::Id(id) => Ok(*id),
            Owner::Name(_) => Ok(Accounts::read(self.root)?.gid(owner)?),
        }
    }

    /// Has a service take up the change. One that the change took away, or masked, is stopped. One that is not there for another reason,
    /// as a container unit that its generator refused, is systemd's to say no to: the change is undone then.
    fn tell(&mut self, job: Job, unit: &str) -> Result<(), StepError> {
        let at = links::unit_path(self.root, unit)?;
        let is_masked = self.root.look(&at)? == Found::Link(links::MASK.to_owned());
        let is_taken = || -> Result<bool, StepError> {
            Ok(self.taken.may_have_been(unit) && !links::exists(self.root, unit)?)
        };
        if !is_masked && !is_taken()? {
            return self.units.run(job, unit);
        }
        if self.units.active_state(unit)?.as_deref() == Some("active") {
            return self.units.run(Job::Stop, unit);
        }
        // Stopped by a run before this one, or it never ran.
        warn!(unit, "unit is not there to be told of the change");
        Ok(())
    }

    /// A unit that neither the OS nor the configuration has is not enabled, as with the original: a
    /// configuration may name units of an OS that is yet to come. Its links go with the rest.
    fn set_enablement(&mut self, change: Enablement, unit: &str) -> Result<(), StepError> {
        let installed = links::installed(self.root, unit)?;
        if installed == Installed::Here {
            return self.units.set_enablement(change, unit);
        }
        if installed == Installed::Elsewhere && change == Enablement::Enable {
            // As somebody enabled it on the running host.
            return if links::is_linked(self.root, unit)? {
                Ok(())
            } else {
                Err(StepError::Elsewhere)
            };
        }
        warn!(unit, change = change.verb(), "unit has no file");
        if change != Enablement::Enable {
            links::remove(self.root, unit)?;
        }
        Ok(())
    }

    fn write_keys(&self, user: &str, blob: &Digest) -> Result<(), StepError> {
        let bytes = self.blob(blob)?;
        let (directories, file) = self.keys_of(user)?;
        let account = Accounts::read(self.root)?.user(user)?.clone();
        let (uid, gid) = (account.uid, account.gid);
        for directory in directories {
            self.root
                .make_directory(&directory, Mode(0o700), uid, gid)?;
        }
        self.root.replace(
            &file,
            Content {
                bytes: &bytes,
                mode: Mode(0o600),
                uid,
                gid,
            },
        )?;
        Ok(())
    }

    /// The directories of a user's keys, outermost first (the home directory too, where it lacks),
    /// and the file.
    ///
    /// Below the home directory no link is followed: the user could have put it there, and root
    /// would write where the user may not.
    fn keys_of(&self, user: &str) -> Result<(Vec<Location>, Location), StepError> {
        let accounts = Accounts::read(self.root)?;
        let account = accounts.user(user)?;
        let (names, file) = KEYS;
        let home = self.root.follow(account.home.trim_end_matches('/'))?;
        if home.place() == Place::ReadOnly {
            return Err(StepError::ReadOnly {
                path: home.to_string(),
            });
        }
        let mut directories = Vec::new();
        if self.root.look(&home)? == Found::Nothing {
            directories.push(home.clone());
        }
        let mut at = home;
        for name in names {
            at = at.below(name);
            match self.root.look(&at)? {
                Found::Nothing | Found::Directory { .. } => directories.push(at.clone()),
                Found::File { .. } | Found::Link(_) | Found::Other => {
                    return Err(StepError::Home {
                        path: at.to_string(),
                    });
                }
            }
        }
        Ok((directories, at.below(file)))
    }
}

impl Perform for Hands<'_> {
    fn perform(&mut self, action: &Action) -> Result<(), Error> {
        self.act(action).map_err(|source| Error::Step {
            object: describe(action),
            source,
        })
    }

    fn observe(&mut self, action: &Action) -> Result<Undo, Error> {
        self.look(action).map_err(|source| Error::Step {
            object: describe(action),
            source,
        })
    }

    fn restore(&mut self, action: &Action, undo: &Undo) -> Result<(), Error> {
        self.put_back(undo).map_err(|source| Error::Undo {
            object: describe(action),
            source,
        })
    }

    fn is_of_deployment(&mut self, action: &Action) -> Result<bool, Error> {
        self.place(action)
            .map(|place| place == Place::Deployment)
            .map_err(|source| Error::Step {
                object: describe(action),
                source,
            })
    }

    fn root(&self) -> &Root {
        self.root
    }

    fn units(&mut self) -> &mut dyn Units {
        self.units
    }
}
