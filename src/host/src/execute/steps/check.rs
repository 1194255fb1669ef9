//! Checks whether steps can be performed, without performing them.

use std::collections::BTreeSet;

use node_update::plan::Action;

use super::{Error, StepError, StepExecutor, describe};
use crate::files::{Found, Location, PathScope};
use crate::systemd::links;

/// The state that the checked steps would leave; the checks of later steps start from it.
#[derive(Debug, Default)]
pub struct Preflight {
    /// Paths that were released.
    released: BTreeSet<String>,
    /// Paths at which a file was written.
    files: BTreeSet<String>,
}

impl StepExecutor<'_> {
    /// Checks whether a step can be performed after the steps in `preflight`, and adds it to them.
    /// Changes nothing on the host.
    ///
    /// # Errors
    /// [`Error::Step`].
    pub fn check(&mut self, action: &Action, preflight: &mut Preflight) -> Result<(), Error> {
        self.try_check(action, preflight)
            .map_err(|source| Error::Step {
                object: describe(action),
                source,
            })
    }

    fn try_check(&self, action: &Action, preflight: &mut Preflight) -> Result<(), StepError> {
        match action {
            Action::WriteFile { path, file } => {
                let at = self.writable(path)?;
                // By another name than the rules of a configuration know.
                if at.scope() == PathScope::Volatile {
                    return Err(StepError::Volatile {
                        path: at.to_string(),
                    });
                }
                self.owner_ids(path, &file.owner)?;
                if let Found::Directory { .. } = self.root.look(&at)? {
                    return Err(StepError::Directory {
                        path: at.to_string(),
                    });
                }
                self.has_directory(&at, preflight)?;
                preflight.files.insert(at.to_string());
            }
            Action::ReleaseFile { path } => {
                preflight.released.insert(self.writable(path)?.to_string());
            }
            Action::WriteAuthorizedKeys { user, .. } => {
                if let Some(keys) = self.keys_of(user)? {
                    self.has_directory(&keys.file, preflight)?;
                }
            }
            Action::SetPassword { user, .. } => {
                drop(self.account(user)?);
            }
            Action::MaskUnit { unit } | Action::UnmaskUnit { unit } => {
                drop(links::unit_path(self.root, unit)?);
            }
            Action::EnableUnit { .. }
            | Action::KeepUnitEnabled { .. }
            | Action::DisableUnit { .. }
            | Action::PresetUnit { .. }
            | Action::DaemonReload
            | Action::RestartUnit { .. }
            | Action::ReloadUnit { .. } => {}
        }
        Ok(())
    }

    /// The nearest existing parent must be a directory: missing ones are made in it.
    fn has_directory(&self, at: &Location, preflight: &Preflight) -> Result<(), StepError> {
        let mut parent = at.parent();
        while let Some(directory) = parent {
            let path = directory.as_str();
            let is_there = match self.root.look(&directory)? {
                Found::Directory { .. } => return Ok(()),
                Found::Nothing => false,
                Found::File { .. } | Found::Link(_) | Found::Other => {
                    !preflight.released.contains(path)
                }
            };
            if is_there || preflight.files.contains(path) {
                return Err(StepError::NotDirectory {
                    path: directory.to_string(),
                });
            }
            parent = directory.parent();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use node_update::plan::{Attempt, Digest, FileState, Mode, Owner, Owners};

    use super::*;
    use crate::files::Root;
    use crate::journal::JournalStore;
    use crate::systemd::Offline;
    use chassis::report::Chain;

    fn write(path: &str) -> Action {
        Action::WriteFile {
            path: path.to_owned(),
            file: FileState {
                digest: Digest::of(b""),
                mode: Mode(0o644),
                owner: Owners::ROOT,
            },
        }
    }

    fn release(path: &str) -> Action {
        let path = path.to_owned();
        Action::ReleaseFile { path }
    }

    #[test]
    fn an_unknown_owner_is_named_with_its_file() {
        let host = tempfile::tempdir().unwrap();
        let root = Root::open(host.path(), None).unwrap();
        let store = JournalStore::new(&root);
        let mut units = Offline::new(host.path().to_owned());
        let mut executor = StepExecutor::new(&root, &mut units, &store, Attempt("a".to_owned()));
        let unknown = || Owner::Name("unknown-owner".to_owned());
        for (user, group, words) in [
            (unknown(), Owner::ROOT, "UserID for username"),
            (Owner::ROOT, unknown(), "GroupID for group"),
        ] {
            let mut action = write("/etc/x");
            if let Action::WriteFile { file, .. } = &mut action {
                file.owner = Owners { user, group };
            }
            let error = executor
                .check(&action, &mut Preflight::default())
                .unwrap_err();
            assert_eq!(
                Chain(&error).to_string(),
                format!(
                    "cannot apply file /etc/x: failed to retrieve file ownership for file \
                     \"/etc/x\": failed to retrieve {words}: unknown-owner"
                )
            );
        }
    }

    #[test]
    fn a_file_needs_a_directory_at_its_step() {
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(host.path().join("var/there")).unwrap();
        std::fs::File::create(host.path().join("var/plain")).unwrap();
        std::fs::create_dir(host.path().join("run")).unwrap();
        std::os::unix::fs::symlink("../run", host.path().join("var/run")).unwrap();
        let no_directory = |path: &str, parent: &str| {
            Some(format!(
                "cannot apply file {path}: {parent} is not a directory"
            ))
        };
        for (actions, refusal) in [
            (vec![write("/var/there/x")], None),
            (vec![write("/var/not/yet/there")], None),
            (
                vec![write("/var/there")],
                Some("cannot apply file /var/there: /var/there is a directory".to_owned()),
            ),
            (
                vec![write("/var/plain/far/below")],
                no_directory("/var/plain/far/below", "/var/plain"),
            ),
            (
                vec![write("/var/run/x")],
                Some(
                    "cannot apply file /var/run/x: /run/x lies where each boot removes all"
                        .to_owned(),
                ),
            ),
            (vec![release("/var/run/x")], None),
            (vec![release("/var/plain"), write("/var/plain/below")], None),
            (
                vec![write("/var/new"), write("/var/new/below")],
                no_directory("/var/new/below", "/var/new"),
            ),
        ] {
            let root = Root::open(host.path(), None).unwrap();
            let store = JournalStore::new(&root);
            // A check reads no unit.
            let mut units = Offline::new(host.path().to_owned());
            let mut executor =
                StepExecutor::new(&root, &mut units, &store, Attempt("a".to_owned()));
            let mut preflight = Preflight::default();
            let refused = actions
                .iter()
                .find_map(|action| executor.check(action, &mut preflight).err());
            assert_eq!(
                refused.map(|error| Chain(&error).to_string()),
                refusal,
                "{actions:?}"
            );
        }
    }
}
