//! One step on one root: performed, observed, restored.

mod account;
mod check;
mod released;

use std::collections::BTreeMap;

use chassis::report::Chain;
use node_update::plan::{Action, Attempt, Digest, Owner, OwnerIds, Owners, Prior, Undo};
use node_update::well_known::MASK;
use tracing::warn;

pub use self::check::Preflight;
use self::released::ReleasedUnits;
use super::{Error, StepError, Steps, Units};
use crate::accounts::{self, Accounts};
use crate::files::{Content, Found, Location, PathScope, Root};
use crate::journal::JournalStore;
use crate::systemd::links::{self, Installed};
use crate::systemd::{Enablement, Job};

/// Executes steps on one root: the running one, or a deployment's.
pub struct StepExecutor<'a> {
    root: &'a Root,
    units: &'a mut dyn Units,
    store: &'a JournalStore<'a>,
    attempt: Attempt,
    released: ReleasedUnits,
}

impl std::fmt::Debug for StepExecutor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepExecutor")
            .field("root", self.root)
            .finish_non_exhaustive()
    }
}

/// The object of a step, for messages: `file /etc/hosts`, `unit kubelet.service`, `user core`.
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

impl<'a> StepExecutor<'a> {
    /// Executes steps on `root` and its units, with blobs from the stored plan of `attempt`.
    pub fn new(
        root: &'a Root,
        units: &'a mut dyn Units,
        store: &'a JournalStore<'a>,
        attempt: Attempt,
    ) -> Self {
        Self {
            root,
            units,
            store,
            attempt,
            released: ReleasedUnits::default(),
        }
    }

    fn blob(&self, digest: &Digest) -> Result<Vec<u8>, StepError> {
        Ok(self.store.blob(&self.attempt, digest)?)
    }

    fn try_perform(&mut self, action: &Action) -> Result<(), StepError> {
        match action {
            Action::WriteFile { path, file } => {
                let at = self.writable(path)?;
                self.released.wrote(path);
                let bytes = self.blob(&file.digest)?;
                let content = Content {
                    bytes: &bytes,
                    mode: file.mode,
                    owner: self.owner_ids(path, &file.owner)?,
                };
                self.root.replace(&at, content)?;
            }
            Action::ReleaseFile { path } => {
                self.root.release(&self.writable(path)?)?;
                self.released.released(path);
            }
            Action::MaskUnit { unit } => {
                self.root
                    .symlink(&links::unit_path(self.root, unit)?, &MASK.into())?;
            }
            Action::UnmaskUnit { unit } => {
                let at = links::unit_path(self.root, unit)?;
                if self.root.look(&at)? == Found::Link(MASK.into()) {
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
            Action::PresetUnit { unit } => {
                // Presets are the OS's wishes, and not the configuration's.
                match self.set_enablement(Enablement::Preset, unit) {
                    Err(error @ (StepError::Systemd(_) | StepError::Process(_))) => {
                        warn!(unit, error = %Chain(&error), "presets of the unit are not followed");
                    }
                    result => result?,
                }
            }
            Action::WriteAuthorizedKeys { user, blob } => self.write_keys(user, blob)?,
            Action::SetPassword { user, blob } => self.set_password(user, blob)?,
            Action::DaemonReload => self.units.reload_manager()?,
            Action::RestartUnit { unit } => self.run_job(Job::Restart, unit)?,
            Action::ReloadUnit { unit } => self.run_job(Job::Reload, unit)?,
        }
        Ok(())
    }

    fn try_observe(&self, action: &Action) -> Result<Undo, StepError> {
        let paths = match action {
            Action::WriteFile { path, .. } | Action::ReleaseFile { path } => {
                vec![self.writable(path)?]
            }
            Action::MaskUnit { unit } | Action::UnmaskUnit { unit } => {
                vec![links::unit_path(self.root, unit)?]
            }
            Action::WriteAuthorizedKeys { user, .. } => self
                .keys_of(user)?
                .map(|keys| keys.file)
                .into_iter()
                .collect(),
            Action::SetPassword { user, .. } if self.account(user)?.is_none() => Vec::new(),
            Action::SetPassword { .. } => vec![self.root.locate(accounts::SHADOW)?],
            // The live route observes all links of unit files at once, before the first step.
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
        if let Action::WriteAuthorizedKeys { user, .. } = action
            && let Some(keys) = self.keys_of(user)?
        {
            for directory in keys.directories {
                if let Found::Directory { mode, owner } = self.root.look(&directory)? {
                    priors.insert(directory.to_string(), Prior::Directory { mode, owner });
                }
            }
        }
        Ok(Undo::Restore { paths: priors })
    }

    fn restore_paths(&self, undo: &Undo) -> Result<(), StepError> {
        let Undo::Restore { paths } = undo else {
            return Ok(());
        };
        self.root.restore(paths, &mut |digest| self.blob(digest))
    }

    fn scope_of(&self, action: &Action) -> Result<PathScope, StepError> {
        Ok(match action {
            Action::WriteFile { path, .. } | Action::ReleaseFile { path } => {
                self.writable(path)?.scope()
            }
            Action::WriteAuthorizedKeys { user, .. } => self
                .keys_of(user)?
                .map_or(PathScope::Deployment, |keys| keys.file.scope()),
            Action::MaskUnit { .. }
            | Action::UnmaskUnit { .. }
            | Action::EnableUnit { .. }
            | Action::KeepUnitEnabled { .. }
            | Action::DisableUnit { .. }
            | Action::PresetUnit { .. }
            | Action::SetPassword { .. } => PathScope::Deployment,
            Action::DaemonReload | Action::RestartUnit { .. } | Action::ReloadUnit { .. } => {
                return Err(StepError::NotRunning);
            }
        })
    }

    fn writable(&self, path: &str) -> Result<Location, StepError> {
        let at = self.root.locate(path)?;
        match at.scope() {
            PathScope::Deployment | PathScope::Shared | PathScope::Volatile => Ok(at),
            PathScope::ReadOnly => Err(StepError::ReadOnly {
                path: at.to_string(),
            }),
        }
    }

    /// Resolves owners in the deployment that is written to; ids need no account database.
    fn owner_ids(&self, path: &str, owners: &Owners) -> Result<OwnerIds, StepError> {
        let Owners { user, group } = owners;
        let named = |id| {
            move |error| match error {
                accounts::Error::Unknown { name, .. } => StepError::Owner {
                    path: path.to_owned(),
                    id,
                    name,
                },
                other @ (accounts::Error::Database { .. }
                | accounts::Error::Taken { .. }
                | accounts::Error::Locked
                | accounts::Error::Files(_)) => other.into(),
            }
        };
        Ok(OwnerIds {
            uid: self.uid(user).map_err(named("UserID for username"))?,
            gid: self.gid(group).map_err(named("GroupID for group"))?,
        })
    }

    fn uid(&self, owner: &Owner) -> Result<u32, accounts::Error> {
        match owner {
            Owner::Id(id) => Ok(*id),
            Owner::Name(_) => Accounts::read(self.root)?.uid(owner),
        }
    }

    fn gid(&self, owner: &Owner) -> Result<u32, accounts::Error> {
        match owner {
            Owner::Id(id) => Ok(*id),
            Owner::Name(_) => Accounts::read(self.root)?.gid(owner),
        }
    }

    /// Restarts or reloads a service. A service that the plan removed or masked is stopped. For one
    /// that is absent for another reason, such as a container unit that its generator refused,
    /// systemd returns an error, and the plan is reverted.
    fn run_job(&mut self, job: Job, unit: &str) -> Result<(), StepError> {
        let at = links::unit_path(self.root, unit)?;
        let is_masked = self.root.look(&at)? == Found::Link(MASK.into());
        let is_released = || -> Result<bool, StepError> {
            Ok(self.released.may_include(unit) && !links::exists(self.root, unit)?)
        };
        if !is_masked && !is_released()? {
            return self.units.run(job, unit);
        }
        if self.units.active_state(unit)?.as_deref() == Some("active") {
            return self.units.run(Job::Stop, unit);
        }
        // An earlier run stopped it, or it never ran.
        warn!(unit, "unit is absent and not active: nothing to stop");
        Ok(())
    }

    /// Changes a unit's links. A unit without a file is not enabled, as in OpenShift's MCO: a
    /// configuration may name units of a later OS. Disabling it removes its links.
    fn set_enablement(&mut self, change: Enablement, unit: &str) -> Result<(), StepError> {
        let installed = links::installed(self.root, unit)?;
        if installed == Installed::Here {
            if change == Enablement::Disable && !links::may_be_linked(self.root, unit)? {
                // A program for each of hundreds of units takes seconds, in which a node is out.
                return Ok(());
            }
            return self.units.set_enablement(change, unit);
        }
        if installed == Installed::Elsewhere && change == Enablement::Enable {
            // Its links may exist already: the running host can enable it.
            return if links::is_linked(self.root, unit)? {
                Ok(())
            } else {
                Err(StepError::Elsewhere)
            };
        }
        if change == Enablement::Enable {
            // Clients of OpenShift's MCO look for these words.
            warn!("Could not enable unit {unit:?}, because it has no contents, skipping");
            return Ok(());
        }
        warn!(unit, change = change.verb(), "unit has no file");
        links::remove(self.root, unit)?;
        Ok(())
    }
}

impl Steps for StepExecutor<'_> {
    fn perform(&mut self, action: &Action) -> Result<(), Error> {
        self.try_perform(action).map_err(|source| {
            if matches!(
                action,
                Action::RestartUnit { .. } | Action::ReloadUnit { .. }
            ) {
                let action = Box::new(action.clone());
                return Error::Service { action, source };
            }
            Error::Step {
                object: describe(action),
                source,
            }
        })
    }

    fn observe(&mut self, action: &Action) -> Result<Undo, Error> {
        self.try_observe(action).map_err(|source| Error::Step {
            object: describe(action),
            source,
        })
    }

    fn restore(&mut self, action: &Action, undo: &Undo) -> Result<(), Error> {
        self.restore_paths(undo).map_err(|source| Error::Undo {
            object: describe(action),
            source,
        })
    }

    fn is_of_deployment(&mut self, action: &Action) -> Result<bool, Error> {
        self.scope_of(action)
            .map(|scope| scope == PathScope::Deployment)
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
