//! System accounts that the three-way merge of `/etc` omits.
//!
//! The merge handles `/etc/passwd` as one file. On a host that edited it (added a user), the merge
//! keeps the host's copy, which lacks accounts that are new in the OS. Those are appended, as their
//! packages would have done.

use std::collections::BTreeSet;

use super::database::{Accounts, name_of};
use super::{Error, GROUP, GSHADOW, PASSWD, SHADOW, edit};
use crate::files::Root;

/// Lines to append, by database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingAccounts {
    /// For `/etc/passwd`.
    pub users: Vec<String>,
    /// For `/etc/group`.
    pub groups: Vec<String>,
    /// For `/etc/shadow`, if the OS ships them.
    pub shadow: Vec<String>,
    /// For `/etc/gshadow`, if the OS ships them.
    pub gshadow: Vec<String>,
}

/// The account databases of one directory, as text; empty for a missing one.
#[derive(Debug, Clone, Default)]
struct Databases {
    passwd: String,
    group: String,
    shadow: String,
    gshadow: String,
}

/// Finds the accounts that `target`'s OS ships, that the OS of `origin` did not ship, and that the
/// target's merged databases lack. An account that an administrator removed stays removed.
///
/// # Errors
/// [`Error::Taken`] if another account of the merged databases has the id of such an account;
/// [`Error::Files`].
pub fn find_missing(origin: &Root, target: &Root) -> Result<MissingAccounts, Error> {
    let before = Databases::read(origin, "/usr")?;
    let shipped = Databases::read(target, "/usr")?;
    let merged = Databases::read(target, "")?;
    let known = Accounts::read(target)?;
    let missing = MissingAccounts {
        users: missing_lines(&before.passwd, &shipped.passwd, &merged.passwd),
        groups: missing_lines(&before.group, &shipped.group, &merged.group),
        shadow: missing_lines(&before.shadow, &shipped.shadow, &merged.shadow),
        gshadow: missing_lines(&before.gshadow, &shipped.gshadow, &merged.gshadow),
    }
    .without(&known);
    missing.check(&known)?;
    Ok(missing)
}

impl MissingAccounts {
    /// Whether no account is missing.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    /// Names of the missing users and groups, for messages.
    pub fn names(&self) -> Vec<String> {
        let names: BTreeSet<&str> = self
            .users
            .iter()
            .chain(&self.groups)
            .filter_map(|line| name_of(line))
            .collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Appends the lines to the databases of `root`.
    ///
    /// # Errors
    /// Those of editing a database.
    pub fn append(&self, root: &Root) -> Result<(), Error> {
        for (path, lines) in [
            (GROUP, &self.groups),
            (GSHADOW, &self.gshadow),
            (SHADOW, &self.shadow),
            (PASSWD, &self.users),
        ] {
            if !lines.is_empty() {
                edit(root, path, |text| appended(text, lines))?;
            }
        }
        Ok(())
    }

    /// Leaves out accounts that `/usr/lib` has, and secrets of accounts that are not missing.
    fn without(mut self, known: &Accounts) -> Self {
        let of = |lines: &[String]| -> BTreeSet<String> {
            lines
                .iter()
                .filter_map(|line| name_of(line))
                .map(str::to_owned)
                .collect()
        };
        self.users
            .retain(|line| name_of(line).is_some_and(|name| known.find_user(name).is_none()));
        self.groups
            .retain(|line| name_of(line).is_some_and(|name| known.group(name).is_none()));
        let (users, groups) = (of(&self.users), of(&self.groups));
        self.shadow
            .retain(|line| name_of(line).is_some_and(|name| users.contains(name)));
        self.gshadow
            .retain(|line| name_of(line).is_some_and(|name| groups.contains(name)));
        self
    }

    fn check(&self, known: &Accounts) -> Result<(), Error> {
        let missing = Accounts::parse(&[&self.users.join("\n")], &[&self.groups.join("\n")]);
        for name in self.names() {
            let taken = |kind, id, other: &str| {
                Err(Error::Taken {
                    kind,
                    name: name.clone(),
                    id,
                    other: other.to_owned(),
                })
            };
            if let Some(user) = missing.find_user(&name)
                && let Some(other) = known.user_of(user.uid)
            {
                return taken("user", user.uid, other);
            }
            if let Some(gid) = missing.group(&name)
                && let Some(other) = known.group_of(gid)
            {
                return taken("group", gid, other);
            }
        }
        Ok(())
    }
}

impl Databases {
    /// Reads the databases at `prefix`: `/usr` for what the OS ships in `/usr/etc`, nothing for
    /// `/etc`.
    fn read(root: &Root, prefix: &str) -> Result<Self, Error> {
        let text = |path| -> Result<String, Error> {
            let bytes = root.read(&format!("{prefix}{path}"))?.unwrap_or_default();
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Self {
            passwd: text(PASSWD)?,
            group: text(GROUP)?,
            shadow: text(SHADOW)?,
            gshadow: text(GSHADOW)?,
        })
    }
}

/// Lines of `shipped` whose name neither `before` nor `merged` has.
fn missing_lines(before: &str, shipped: &str, merged: &str) -> Vec<String> {
    let names = |text: &str| -> BTreeSet<String> {
        text.lines()
            .filter_map(name_of)
            .map(str::to_owned)
            .collect()
    };
    let (before, merged) = (names(before), names(merged));
    shipped
        .lines()
        .filter(|line| {
            name_of(line).is_some_and(|name| !before.contains(name) && !merged.contains(name))
        })
        .map(str::to_owned)
        .collect()
}

fn appended(text: &str, lines: &[String]) -> Option<String> {
    let present: BTreeSet<&str> = text.lines().filter_map(name_of).collect();
    let mut edited = text.to_owned();
    let mut changed = false;
    for line in lines {
        if name_of(line).is_some_and(|name| present.contains(name)) {
            continue;
        }
        if !edited.is_empty() && !edited.ends_with('\n') {
            edited.push('\n');
        }
        edited.push_str(line);
        edited.push('\n');
        changed = true;
    }
    changed.then_some(edited)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
        fs::write(path, text).unwrap();
    }

    fn roots(before: &str, shipped: &str, merged: &str) -> (tempfile::TempDir, Root, Root) {
        let dir = tempfile::tempdir().unwrap();
        let (origin, target) = (dir.path().join("origin"), dir.path().join("target"));
        put(&origin, "usr/etc/passwd", before);
        put(&target, "usr/etc/passwd", shipped);
        put(&target, "usr/etc/group", "newd:x:990:\n");
        put(&target, "etc/passwd", merged);
        put(&target, "etc/group", "root:x:0:");
        let (origin, target) = (Root::open(&origin, None), Root::open(&target, None));
        (dir, origin.unwrap(), target.unwrap())
    }

    const ROOT: &str = "root:x:0:0::/root:/bin/sh\n";
    const ADMIN: &str = "admin:x:1001:1001::/home/admin:/bin/sh\n";
    const NEWD: &str = "newd:x:990:990::/:/usr/sbin/nologin\n";

    #[test]
    fn an_account_new_in_the_os_is_appended_once() {
        let (_dir, origin, target) =
            roots(ROOT, &format!("{ROOT}{NEWD}"), &format!("{ROOT}{ADMIN}"));
        let missing = find_missing(&origin, &target).unwrap();
        assert_eq!(missing.names(), ["newd"]);
        missing.append(&target).unwrap();
        missing.append(&target).unwrap();
        let passwd = target.read("/etc/passwd").unwrap().unwrap();
        assert_eq!(
            String::from_utf8(passwd).unwrap(),
            format!("{ROOT}{ADMIN}{NEWD}")
        );
        let group = target.read("/etc/group").unwrap().unwrap();
        assert_eq!(
            String::from_utf8(group).unwrap(),
            "root:x:0:\nnewd:x:990:\n"
        );
        assert!(find_missing(&origin, &target).unwrap().is_empty());
    }

    #[test]
    fn an_account_removed_by_the_host_stays_removed() {
        let shipped = format!("{ROOT}{NEWD}");
        let (_dir, origin, target) = roots(&shipped, &shipped, ROOT);
        let missing = find_missing(&origin, &target).unwrap();
        assert!(missing.users.is_empty());
    }

    #[test]
    fn an_id_in_use_is_refused_with_both_names() {
        let theirs = "theirs:x:990:990::/:/bin/sh\n";
        let (_dir, origin, target) =
            roots(ROOT, &format!("{ROOT}{NEWD}"), &format!("{ROOT}{theirs}"));
        let error = find_missing(&origin, &target).unwrap_err().to_string();
        assert_eq!(
            error,
            "user \"newd\" is new in the OS, but its id 990 belongs to \"theirs\""
        );
    }
}
