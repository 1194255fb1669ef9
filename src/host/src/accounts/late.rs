//! Users and groups that others added or changed in the deployment that was left.
//!
//! The databases are merged line by line: the booted deployment has accounts of its own, those that
//! are new in its OS, and the password that its configuration sets.

use std::collections::BTreeMap;

use super::database::name_of;
use super::{Error, GROUP, GSHADOW, PASSWD, SHADOW, edit};
use crate::files::{Found, Root};

/// One database, in its four places.
#[derive(Debug, Clone, Copy)]
struct Texts<'a> {
    left: &'a str,
    left_shipped: &'a str,
    booted: &'a str,
    booted_shipped: &'a str,
}

/// Carries over accounts that others added, changed or (if `may_remove`) removed in `left`; the
/// databases that changed. The line of the user `fixed` in `shadow` stays.
///
/// # Errors
/// [`Error::Database`], [`Error::Locked`], [`Error::Files`].
pub fn carry_late(
    left: &Root,
    booted: &Root,
    fixed: Option<&str>,
    may_remove: bool,
) -> Result<Vec<&'static str>, Error> {
    let mut changed = Vec::new();
    // As `useradd` writes them: a name that one database has is known to the ones before it.
    for path in [GROUP, GSHADOW, SHADOW, PASSWD] {
        let text = |root: &Root, prefix: &str| -> Result<String, Error> {
            let bytes = root.read(&format!("{prefix}{path}"))?.unwrap_or_default();
            let text = String::from_utf8(bytes);
            text.map_err(|_| Error::Database {
                path,
                why: "is not UTF-8",
            })
        };
        let is_file = |root: &Root| -> Result<bool, Error> {
            Ok(matches!(root.inspect(path)?, Found::File { .. }))
        };
        if !is_file(left)? || !is_file(booted)? {
            continue;
        }
        let (was, shipped) = (text(left, "")?, text(left, "/usr")?);
        let booted_shipped = text(booted, "/usr")?;
        let fixed = fixed.filter(|_| path == SHADOW);
        let mut is_changed = false;
        edit(booted, path, |is| {
            let merged = merge(
                Texts {
                    left: &was,
                    left_shipped: &shipped,
                    booted: is,
                    booted_shipped: &booted_shipped,
                },
                fixed,
                may_remove,
            );
            is_changed = merged.is_some();
            merged
        })?;
        if is_changed {
            changed.push(path);
        }
    }
    Ok(changed)
}

/// The booted deployment's database with the late changes; `None` if there are none.
///
/// Lines of the deployment that was left count, except those that only its OS ships. To them come
/// those of the booted one that its OS ships and the other one does not.
fn merge(texts: Texts<'_>, fixed: Option<&str>, may_remove: bool) -> Option<String> {
    // What its OS ships, unchanged, is nothing that others wrote.
    if texts.left == texts.left_shipped {
        return None;
    }
    let lines = |text: &'_ str| -> BTreeMap<String, String> {
        let named = text.lines().filter_map(|line| Some((name_of(line)?, line)));
        // The C library takes the first line of a name.
        let mut lines = BTreeMap::new();
        for (name, line) in named {
            lines
                .entry(name.to_owned())
                .or_insert_with(|| line.to_owned());
        }
        lines
    };
    let (left, left_shipped) = (lines(texts.left), lines(texts.left_shipped));
    let (booted, booted_shipped) = (lines(texts.booted), lines(texts.booted_shipped));
    let mut wanted = booted.clone();
    for (name, line) in &left {
        let is_of_other_os = !booted.contains_key(name) && left_shipped.contains_key(name);
        let is_as_shipped = left_shipped.get(name) == Some(line);
        if !is_of_other_os && !is_as_shipped && Some(name.as_str()) != fixed {
            wanted.insert(name.clone(), line.clone());
        }
    }
    wanted.retain(|name, _| {
        !may_remove
            || left.contains_key(name)
            || booted_shipped.contains_key(name)
            || Some(name.as_str()) == fixed
    });
    if wanted == booted {
        return None;
    }
    // In the order that the booted database has; what is new comes last, in that of the other.
    let order = texts.booted.lines().chain(texts.left.lines());
    let mut merged = String::new();
    for line in order {
        match name_of(line) {
            Some(name) => {
                if let Some(line) = wanted.remove(name) {
                    merged.push_str(&line);
                    merged.push('\n');
                }
            }
            // A comment or a compat entry.
            None if texts.booted.lines().any(|of| of == line) && !has_line(&merged, line) => {
                merged.push_str(line);
                merged.push('\n');
            }
            None => {}
        }
    }
    Some(merged)
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|of| of == line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OS: &str = "root:0\ndaemon:1\n";
    const NEW_OS: &str = "root:0\ndaemon:1\nchrony:9\n";

    fn merged(left: &str, booted: &str) -> Option<String> {
        let texts = Texts {
            left,
            left_shipped: OS,
            booted,
            booted_shipped: NEW_OS,
        };
        merge(texts, Some("core"), true)
    }

    #[test]
    fn each_difference_of_the_databases_has_its_outcome() {
        let is = |text: &str| Some(text.to_owned());
        let table = [
            ("as its OS ships it", OS, NEW_OS, None),
            (
                "only accounts of the new OS differ",
                "root:0\ndaemon:1\ncore:x\n",
                "root:0\ndaemon:1\ncore:x\nchrony:9\n",
                None,
            ),
            (
                "added late",
                "root:0\ndaemon:1\ncore:x\nlate:7\n",
                "root:0\ndaemon:1\ncore:x\nchrony:9\n",
                is("root:0\ndaemon:1\ncore:x\nchrony:9\nlate:7\n"),
            ),
            (
                "changed late, and a comment",
                "#+\nroot:0\ndaemon:1:off\ncore:x\n",
                "#+\nroot:0\ndaemon:1\ncore:x\nchrony:9\n",
                is("#+\nroot:0\ndaemon:1:off\ncore:x\nchrony:9\n"),
            ),
            (
                "removed late",
                "root:0\ndaemon:1\ncore:x\n",
                "root:0\ndaemon:1\ncore:x\ngone:6\nchrony:9\n",
                is("root:0\ndaemon:1\ncore:x\nchrony:9\n"),
            ),
            (
                "the password that the configuration sets",
                "root:0\ndaemon:1\ncore:old\n",
                "root:0\ndaemon:1\ncore:new\n",
                None,
            ),
        ];
        for (name, left, booted, expected) in table {
            let once = merged(left, booted);
            assert_eq!(once, expected, "{name}");
            if let Some(once) = once {
                assert_eq!(merged(left, &once), None, "{name}, again");
            }
        }
    }

    #[test]
    fn on_the_way_back_accounts_of_the_other_os_stay_behind() {
        let texts = Texts {
            left: "root:0\ndaemon:1\ncore:x\nchrony:9\nlate:7\n",
            left_shipped: NEW_OS,
            booted: "root:0\ndaemon:1\ncore:x\n",
            booted_shipped: OS,
        };
        let merged = merge(texts, None, true);
        assert_eq!(
            merged.as_deref(),
            Some("root:0\ndaemon:1\ncore:x\nlate:7\n")
        );
    }
}
