//! Keys and password of an account.
//!
//! An account that no database of the host has is left alone: a configuration is of many hosts, and
//! an account of another OS is no reason to keep this host from an update. No account is made.

use node_update::plan::{Digest, Mode, OwnerIds};
use tracing::warn;

use super::{StepError, StepExecutor};
use crate::accounts::{self, Accounts, User};
use crate::files::{Content, Found, Location, PathScope};

/// Path of a user's keys below the home directory: directories, then the file.
const KEYS: (&[&str], &str) = (&[".ssh", "authorized_keys.d"], "ignition");

/// Where the keys of an account are.
#[derive(Debug)]
pub(super) struct KeyPaths {
    /// The directories, outermost first (with the home directory if it does not exist).
    pub directories: Vec<Location>,
    pub file: Location,
    owner: OwnerIds,
}

impl StepExecutor<'_> {
    /// An account of the root; `None` if the databases do not have it.
    ///
    /// # Errors
    /// [`StepError::Accounts`], also for databases without any user: they were not read, so they
    /// do not prove that the account is absent.
    pub(super) fn account(&self, user: &str) -> Result<Option<User>, StepError> {
        let accounts = Accounts::read(self.root)?;
        if accounts.has_users() {
            return Ok(accounts.find_user(user).cloned());
        }
        Ok(Some(accounts.user(user)?.clone()))
    }

    pub(super) fn set_password(&self, user: &str, blob: &Digest) -> Result<(), StepError> {
        if self.account(user)?.is_none() {
            warn!(
                user,
                "the host does not have this user: its password is left out"
            );
            return Ok(());
        }
        let hash = String::from_utf8(self.blob(blob)?).map_err(|_| StepError::NotText)?;
        Ok(accounts::set_password(self.root, user, &hash)?)
    }

    pub(super) fn write_keys(&self, user: &str, blob: &Digest) -> Result<(), StepError> {
        let Some(keys) = self.keys_of(user)? else {
            warn!(
                user,
                "the host does not have this user: its SSH keys are left out"
            );
            return Ok(());
        };
        let bytes = self.blob(blob)?;
        for directory in keys.directories {
            self.root
                .make_directory(&directory, Mode(0o700), keys.owner)?;
        }
        let content = Content {
            bytes: &bytes,
            mode: Mode(0o600),
            owner: keys.owner,
        };
        Ok(self.root.replace(&keys.file, content)?)
    }

    /// Where the keys of a user are; `None` without such a user.
    ///
    /// Below the home directory links are not followed: a link of the user's could lead root to
    /// write where the user may not.
    pub(super) fn keys_of(&self, user: &str) -> Result<Option<KeyPaths>, StepError> {
        let Some(account) = self.account(user)? else {
            return Ok(None);
        };
        let (names, file) = KEYS;
        let home = self.root.follow(account.home.trim_end_matches('/'))?;
        if home.scope() == PathScope::ReadOnly {
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
        Ok(Some(KeyPaths {
            directories,
            file: at.below(file),
            owner: OwnerIds {
                uid: account.uid,
                gid: account.gid,
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use chassis::report::Chain;
    use node_update::plan::{Action, Attempt, Undo};

    use crate::execute::{Preflight, StepExecutor, Steps as _};
    use crate::files::Root;
    use crate::journal::JournalStore;
    use crate::systemd::Offline;

    use super::Digest;

    fn actions() -> [Action; 2] {
        let (user, blob) = ("core".to_owned(), Digest::of(b"x"));
        let keys = Action::WriteAuthorizedKeys {
            user: user.clone(),
            blob: blob.clone(),
        };
        [keys, Action::SetPassword { user, blob }]
    }

    /// Checks, observes and performs the steps on a host with these accounts.
    fn run(passwd: &str) -> Vec<Result<Undo, String>> {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir(host.path().join("etc")).unwrap();
        for (name, text) in [("passwd", passwd), ("shadow", "root:*:::::::\n")] {
            #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
            fs::write(host.path().join("etc").join(name), text).unwrap();
        }
        let root = Root::open(host.path(), None).unwrap();
        let store = JournalStore::new(&root);
        let mut units = Offline::new(host.path().to_owned());
        let mut executor = StepExecutor::new(&root, &mut units, &store, Attempt("a".to_owned()));
        let done = actions().map(|action| {
            executor
                .check(&action, &mut Preflight::default())
                .and_then(|()| executor.is_of_deployment(&action))
                .and_then(|_| executor.observe(&action))
                .and_then(|undo| executor.perform(&action).map(|()| undo))
                .map_err(|error| Chain(&error).to_string())
        });
        // No account is made, and no home.
        let etc = |name: &str| fs::read_to_string(host.path().join("etc").join(name)).unwrap();
        assert_eq!(
            (etc("passwd"), etc("shadow")),
            (passwd.to_owned(), "root:*:::::::\n".to_owned())
        );
        assert!(!host.path().join("home").exists());
        done.into()
    }

    #[test]
    fn an_account_that_the_host_lacks_is_left_out() {
        let nothing = || {
            Ok(Undo::Restore {
                paths: BTreeMap::new(),
            })
        };
        let done = run("root:x:0:0::/root:/bin/sh\n");
        assert_eq!(done, [nothing(), nothing()]);
    }

    #[test]
    fn databases_without_any_user_prove_nothing() {
        for done in run("") {
            let error = done.unwrap_err();
            assert!(
                error.ends_with("user \"core\" is not known to the OS"),
                "{error}"
            );
        }
    }
}
