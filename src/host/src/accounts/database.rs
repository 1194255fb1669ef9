//! The text of account databases: `passwd(5)`, `group(5)`, `shadow(5)`.

use std::collections::BTreeMap;

/// Users and groups by name. The first database that has a name decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    users: BTreeMap<String, User>,
    groups: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    pub home: String,
}

impl Accounts {
    /// Reads texts of `passwd` and `group` databases, in order of precedence. Other lines
    /// (comments, compat entries) are skipped, as the C library skips them.
    pub fn parse(passwd: &[&str], group: &[&str]) -> Self {
        let mut accounts = Self::default();
        for line in passwd.iter().flat_map(|text| text.lines()) {
            if let Some((name, user)) = parse_user(line) {
                accounts.users.entry(name).or_insert(user);
            }
        }
        for line in group.iter().flat_map(|text| text.lines()) {
            if let Some((name, gid)) = parse_group(line) {
                accounts.groups.entry(name).or_insert(gid);
            }
        }
        accounts
    }

    /// A user; `None` if no database has it.
    pub fn find_user(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// Whether a database was there: each one has a user, at least `root`.
    pub fn has_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// A group's id; `None` if no database has it.
    pub fn group(&self, name: &str) -> Option<u32> {
        self.groups.get(name).copied()
    }

    /// The name of the user with an id.
    pub(super) fn user_of(&self, uid: u32) -> Option<&str> {
        self.users
            .iter()
            .find(|(_, user)| user.uid == uid)
            .map(|(name, _)| name.as_str())
    }

    /// The name of the group with an id.
    pub(super) fn group_of(&self, gid: u32) -> Option<&str> {
        self.groups
            .iter()
            .find(|(_, id)| **id == gid)
            .map(|(name, _)| name.as_str())
    }
}

/// The name in a line of any of these databases.
pub(super) fn name_of(line: &str) -> Option<&str> {
    line.split_once(':')
        .map(|(name, _)| name)
        .filter(|name| !name.is_empty())
}

fn parse_user(line: &str) -> Option<(String, User)> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1)?;
    Some((
        name.to_owned(),
        User {
            uid,
            gid,
            home: home.to_owned(),
        },
    ))
}

fn parse_group(line: &str) -> Option<(String, u32)> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    let gid = fields.nth(1)?.parse().ok()?;
    Some((name.to_owned(), gid))
}

/// A `shadow` text with the user's hash set; `None` if it is set already.
pub(super) fn with_password(text: &str, user: &str, hash: &str) -> Option<String> {
    let mut edited = String::with_capacity(text.len() + hash.len());
    let mut found = false;
    for line in text.lines() {
        match line.split_once(':') {
            Some((name, rest)) if name == user && !found => {
                found = true;
                let (old, rest) = rest.split_once(':').unwrap_or((rest, ""));
                if old == hash {
                    return None;
                }
                edited.push_str(&[name, hash, rest].join(":"));
            }
            Some(_) | None => edited.push_str(line),
        }
        edited.push('\n');
    }
    if !found {
        // Empty ageing fields: the password never expires.
        edited.push_str(&[user, hash, "::::::\n"].join(":"));
    }
    Some(edited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_database_decides() {
        let accounts = Accounts::parse(
            &[
                "core:x:1000:1001:CoreOS:/var/home/core:/bin/bash\n+:::\n",
                "core:x:7:7::/:\nsshd:x:74:74::/:\n",
            ],
            &["wheel:x:10:core\n", "sshd:x:74:\nbroken\n"],
        );
        let core = User {
            uid: 1000,
            gid: 1001,
            home: "/var/home/core".to_owned(),
        };
        assert_eq!(accounts.find_user("core"), Some(&core));
        assert_eq!(accounts.find_user("sshd").map(|user| user.uid), Some(74));
        assert_eq!(accounts.group("wheel"), Some(10));
        assert_eq!(accounts.group("broken"), None);
    }

    #[test]
    fn a_password_is_set_only_where_it_differs() {
        let shadow = "root:!locked::0:99999:7:::\ncore:*:18000:0:99999:7:::\n";
        let set = with_password(shadow, "core", "$6$abc").unwrap();
        assert_eq!(
            set,
            "root:!locked::0:99999:7:::\ncore:$6$abc:18000:0:99999:7:::\n"
        );
        assert_eq!(with_password(&set, "core", "$6$abc"), None);
        let appended = with_password(shadow, "new", "*").unwrap();
        assert!(appended.ends_with("\nnew:*:::::::\n"));
        assert_eq!(with_password(&appended, "new", "*"), None);
    }
}
