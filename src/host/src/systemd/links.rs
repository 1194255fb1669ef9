//! The links below `/etc/systemd/system` that enable and disable units.
//!
//! - [`known`]: what is plain from the links of all directories

pub mod known;

use std::collections::{BTreeMap, BTreeSet};

use node_update::plan::{LinkTarget, Prior};
use node_update::well_known::{MASK, UNITS};

use crate::files::{Error, Found, Location, Root};

/// Directories of unit files, in order of precedence.
///
/// Source: systemd.unit(5), system unit search path.
const UNIT_PATHS: &[&str] = &[
    "/run/systemd/generator.early",
    UNITS,
    "/run/systemd/system",
    "/run/systemd/generator",
    LOCAL,
    "/usr/lib/systemd/system",
    "/run/systemd/generator.late",
];

/// Directory of locally installed units; on many hosts below `/var`.
const LOCAL: &str = "/usr/local/lib/systemd/system";

/// Directories whose units can be enabled: those of generators are not.
const INSTALLED: &[&str] = &[
    UNITS,
    "/run/systemd/system",
    LOCAL,
    "/usr/lib/systemd/system",
];

/// Suffixes of the directories that hold links of enabled units: `<unit>.wants` and the like.
const WANTED: &[&str] = &[".wants", ".requires", ".upholds"];

/// All links and directories of links, in their present state.
///
/// # Errors
/// Those of reading.
pub fn snapshot(root: &Root) -> Result<BTreeMap<String, Prior>, Error> {
    let mut links = BTreeMap::new();
    let top = root.locate(UNITS)?;
    for name in root.list(&top)? {
        let at = top.below(&name);
        match root.look(&at)? {
            Found::Link(target) => {
                links.insert(at.to_string(), Prior::Link { target });
            }
            Found::Directory { mode, owner } if is_wanted(&name) => {
                links.insert(at.to_string(), Prior::Directory { mode, owner });
                for name in root.list(&at)? {
                    let at = at.below(&name);
                    if let Found::Link(target) = root.look(&at)? {
                        links.insert(at.to_string(), Prior::Link { target });
                    }
                }
            }
            Found::Nothing | Found::File { .. } | Found::Directory { .. } | Found::Other => {}
        }
    }
    Ok(links)
}

/// Restores the links of `units` and of the units enabled with them. Links of other units stay:
/// other programs made or removed them.
///
/// # Errors
/// Those of reading and writing.
pub fn restore(
    root: &Root,
    before: &BTreeMap<String, Prior>,
    units: &BTreeSet<String>,
) -> Result<(), Error> {
    let units = closure(root, units)?;
    let now = snapshot(root)?;
    for (path, found) in now.iter().rev() {
        if before.contains_key(path) {
            continue;
        }
        let at = root.locate(path)?;
        match found {
            Prior::Link { target } if is_of(&units, path, target) => root.remove(&at)?,
            Prior::Directory { .. } => {
                root.remove_empty_directory(&at)?;
            }
            Prior::Link { .. } | Prior::Absent | Prior::File { .. } => {}
        }
    }
    for (path, prior) in before {
        match prior {
            Prior::Link { target } if is_of(&units, path, target) => {
                root.symlink(&root.locate(path)?, target)?;
            }
            Prior::Directory { mode, owner } if !now.contains_key(path) => {
                root.make_directory(&root.locate(path)?, *mode, *owner)?;
            }
            Prior::Link { .. } | Prior::Directory { .. } | Prior::Absent | Prior::File { .. } => {}
        }
    }
    Ok(())
}

/// Removes the links to a unit without a file: an earlier OS had it, and a later OS that has it
/// again would start it. A mask stays.
///
/// # Errors
/// Those of reading and removing.
pub fn remove(root: &Root, unit: &str) -> Result<(), Error> {
    let units = BTreeSet::from([unit.to_owned()]);
    for (path, found) in snapshot(root)? {
        let Prior::Link { target } = found else {
            continue;
        };
        if target == MASK.into() || !is_of(&units, &path, &target) {
            continue;
        }
        let at = root.locate(&path)?;
        root.remove(&at)?;
        if let Some(wanted) = at.parent().filter(|parent| is_wanted(parent.as_str())) {
            root.remove_empty_directory(&wanted)?;
        }
    }
    Ok(())
}

/// Whether a unit has a file, also one of a generator; for `a@b.service` also one of `a@.service`.
///
/// # Errors
/// Those of reading.
pub fn exists(root: &Root, unit: &str) -> Result<bool, Error> {
    Ok(text_in(root, UNIT_PATHS, unit)?.is_some())
}

/// Where `systemctl` finds a unit's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installed {
    /// In a directory of that root.
    Here,
    /// On the running host only: below `/var`.
    Elsewhere,
    /// In no directory whose units can be enabled.
    Nowhere,
}

/// Finds the file of a unit that can be enabled.
///
/// # Errors
/// Those of reading.
pub fn installed(root: &Root, unit: &str) -> Result<Installed, Error> {
    let mut best = Installed::Nowhere;
    for directory in INSTALLED {
        if text_in(root, &[directory], unit)?.is_none() {
            continue;
        }
        if !root.is_elsewhere(directory)? {
            return Ok(Installed::Here);
        }
        best = Installed::Elsewhere;
    }
    Ok(best)
}

/// Whether a unit is enabled: it has a link that is neither a mask nor its own file.
///
/// # Errors
/// Those of reading.
pub fn is_linked(root: &Root, unit: &str) -> Result<bool, Error> {
    let units = BTreeSet::from([unit.to_owned()]);
    let own = format!("{UNITS}/{unit}");
    Ok(snapshot(root)?.iter().any(|(path, found)| {
        let is_link =
            matches!(found, Prior::Link { target } if *target != MASK.into() && is_of(&units, path, target));
        is_link && *path != own
    }))
}

/// Has a unit wanted by these targets and no others. It removes the links of an earlier file of the
/// unit; the caller enables a unit of which it returns `false`: some links are missing.
///
/// # Errors
/// Those of reading and removing.
pub fn keep_wanted(root: &Root, unit: &str, by: &[&str]) -> Result<bool, Error> {
    let mut missing: BTreeSet<String> = by
        .iter()
        .map(|target| format!("{UNITS}/{target}.wants/{unit}"))
        .collect();
    for (path, found) in snapshot(root)? {
        let is_units = path.ends_with(&format!(".wants/{unit}"));
        if !is_units || !matches!(found, Prior::Link { .. }) || missing.remove(&path) {
            continue;
        }
        let at = root.locate(&path)?;
        root.remove(&at)?;
        if let Some(directory) = at.parent() {
            root.remove_empty_directory(&directory)?;
        }
    }
    Ok(missing.is_empty())
}

/// Whether a disabled unit would change: whether it, or a unit that is enabled with it, has a link.
/// A link that cannot be told counts.
///
/// # Errors
/// Those of reading.
pub fn may_be_linked(root: &Root, unit: &str) -> Result<bool, Error> {
    let units = closure(root, &BTreeSet::from([unit.to_owned()]))?;
    let is_of_units = |at: &Location, name: &str| -> Result<bool, Error> {
        let target = match root.read_link(at) {
            Ok(Some(target)) => target,
            Ok(None) => return Ok(false),
            Err(Error::Path { .. }) => return Ok(true),
            Err(error) => return Err(error),
        };
        let mut names = [name, target.rsplit('/').next().unwrap_or_default()].into_iter();
        Ok(names.any(|name| units.contains(name) || units.contains(&template_of(name))))
    };
    let top = root.locate(UNITS)?;
    for name in root.list(&top)? {
        let at = top.below(&name);
        if is_of_units(&at, &name)? {
            return Ok(true);
        }
        if !is_wanted(&name) {
            continue;
        }
        for name in root.list(&at)? {
            if is_of_units(&at.below(&name), &name)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a unit is wanted by these targets and no others.
///
/// # Errors
/// Those of reading.
pub fn is_wanted_by(root: &Root, unit: &str, by: &[&str]) -> Result<bool, Error> {
    let wanted: BTreeSet<String> = by
        .iter()
        .map(|target| format!("{UNITS}/{target}.wants/{unit}"))
        .collect();
    let is_units = |path: &&String| path.ends_with(&format!(".wants/{unit}"));
    let links = snapshot(root)?;
    let found: BTreeSet<String> = links.keys().filter(is_units).cloned().collect();
    Ok(found == wanted)
}

/// Whether a file at a path can be a unit's: systemd must reload its units after it changed.
/// Paths below `/usr/local` count by both of their names.
pub fn is_unit_file(path: &str) -> bool {
    let var = LOCAL.replacen("/usr/local", "/var/usrlocal", 1);
    [UNITS, LOCAL, &var]
        .into_iter()
        .filter_map(|directory| path.strip_prefix(directory))
        .any(|rest| rest.starts_with('/'))
}

fn is_wanted(name: &str) -> bool {
    WANTED.iter().any(|suffix| name.ends_with(suffix))
}

/// Whether a link belongs to one of the units, by its name or its target.
fn is_of(units: &BTreeSet<String>, path: &str, target: &LinkTarget) -> bool {
    // A unit's name is ASCII.
    [path, target.as_str().unwrap_or_default()]
        .into_iter()
        .filter_map(|path| path.rsplit('/').next())
        .any(|name| units.contains(name) || units.contains(&template_of(name)))
}

/// The units and those that their `Also=` names, transitively.
pub(crate) fn closure(root: &Root, units: &BTreeSet<String>) -> Result<BTreeSet<String>, Error> {
    let mut all = BTreeSet::new();
    let mut pending: Vec<String> = units.iter().cloned().collect();
    while let Some(unit) = pending.pop() {
        if all.contains(&unit) {
            continue;
        }
        if let Some(text) = text_in(root, UNIT_PATHS, &unit)? {
            pending.extend(also(&text));
        }
        all.insert(unit);
    }
    Ok(all)
}

fn text_in(root: &Root, paths: &[&str], unit: &str) -> Result<Option<String>, Error> {
    for name in [unit.to_owned(), template_of(unit)] {
        for directory in paths {
            if let Some(bytes) = root.read(&format!("{directory}/{name}"))? {
                return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
    }
    Ok(None)
}

/// The template of an instance (`a@b.service` → `a@.service`); any other name stays.
pub fn template_of(unit: &str) -> String {
    match (unit.split_once('@'), unit.rsplit_once('.')) {
        (Some((prefix, _)), Some((_, suffix))) => format!("{prefix}@.{suffix}"),
        _ => unit.to_owned(),
    }
}

/// The units that `Also=` in `[Install]` names.
fn also(text: &str) -> Vec<String> {
    let mut install = false;
    let mut units = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            install = line == "[Install]";
        } else if install
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "Also"
        {
            units.extend(value.split_whitespace().map(str::to_owned));
        }
    }
    units
}

/// The path of a unit's own file or mask.
///
/// # Errors
/// Those of locating; [`Error::Path`] for a name with `/`.
pub fn unit_path(root: &Root, unit: &str) -> Result<Location, Error> {
    if unit.is_empty() || unit.contains('/') || unit.starts_with('.') {
        return Err(Error::Path {
            path: unit.to_owned(),
            why: "is no unit's name",
        });
    }
    root.locate(&format!("{UNITS}/{unit}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn host() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let units = dir.path().join("etc/systemd/system");
        fs::create_dir_all(units.join("multi-user.target.wants")).unwrap();
        symlink(
            "/usr/lib/systemd/system/old.service",
            units.join("multi-user.target.wants/old.service"),
        )
        .unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
        fs::write(
            units.join("new.service"),
            "[Unit]\nAlso=no.service\n[Install]\nAlso=new.socket\n",
        )
        .unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        (dir, root)
    }

    #[test]
    fn a_unit_is_wanted_by_what_is_named_and_no_other() {
        let (dir, root) = host();
        let link = |path: &str| {
            let path = dir.path().join("etc/systemd/system").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink("/etc/systemd/system/own.service", path).unwrap();
        };
        let is_wanted = || is_wanted_by(&root, "own.service", &["basic.target"]).unwrap();
        assert!(!is_wanted());
        link("basic.target.wants/own.service");
        assert!(is_wanted());
        link("other.target.wants/own.service");
        assert!(!is_wanted());
    }

    #[test]
    fn a_unit_without_links_need_not_be_disabled() {
        let (dir, root) = host();
        let units = dir.path().join("etc/systemd/system");
        #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
        let put = |name: &str, text: &str| fs::write(units.join(name), text).unwrap();
        put("alone.service", "[Install]\nWantedBy=x.target\n");
        put(
            "both.service",
            "[Install]\nWantedBy=x.target\nAlso=second.socket\n",
        );
        put("t@.service", "[Install]\nWantedBy=x.target\n");
        let may_be_linked = |unit: &str| super::may_be_linked(&root, unit).unwrap();
        for unit in ["alone.service", "both.service", "t@.service", "t@1.service"] {
            assert!(!may_be_linked(unit), "{unit}");
        }
        let link = |path: &str, target: &str| {
            let path = units.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target, path).unwrap();
        };
        link("x.target.wants/second.socket", "../second.socket");
        assert!(may_be_linked("both.service") && !may_be_linked("alone.service"));
        link("alias.service", "/etc/systemd/system/alone.service");
        assert!(may_be_linked("alone.service"));
        link("x.target.requires/t@1.service", "../t@.service");
        assert!(may_be_linked("t@.service") && may_be_linked("t@1.service"));
    }

    #[test]
    fn only_links_of_the_units_and_those_enabled_with_them_are_restored() {
        let (dir, root) = host();
        let before = snapshot(&root).unwrap();
        let units = dir.path().join("etc/systemd/system");
        fs::create_dir_all(units.join("sockets.target.wants")).unwrap();
        symlink(
            "../new.socket",
            units.join("sockets.target.wants/new.socket"),
        )
        .unwrap();
        symlink(
            "/etc/systemd/system/new.service",
            units.join("alias.service"),
        )
        .unwrap();
        symlink(
            "/usr/lib/systemd/system/theirs.service",
            units.join("theirs.service"),
        )
        .unwrap();
        fs::remove_file(units.join("multi-user.target.wants/old.service")).unwrap();
        fs::remove_dir(units.join("multi-user.target.wants")).unwrap();

        let touched = BTreeSet::from(["new.service".to_owned(), "old.service".to_owned()]);
        for _ in 0..2 {
            restore(&root, &before, &touched).unwrap();
            let mut expected = before.clone();
            let theirs = "/usr/lib/systemd/system/theirs.service".into();
            expected.insert(
                format!("{UNITS}/theirs.service"),
                Prior::Link { target: theirs },
            );
            assert_eq!(snapshot(&root).unwrap(), expected);
        }
    }

    #[test]
    fn links_to_a_unit_without_a_file_are_removed_and_a_mask_stays() {
        let (dir, root) = host();
        let units = dir.path().join("etc/systemd/system");
        symlink(MASK, units.join("masked.service")).unwrap();
        for unit in ["old.service", "masked.service"] {
            remove(&root, unit).unwrap();
            remove(&root, unit).unwrap();
        }
        assert!(!units.join("multi-user.target.wants").exists());
        assert_eq!(
            fs::read_link(units.join("masked.service"))
                .unwrap()
                .to_str(),
            Some(MASK)
        );
    }

    #[test]
    fn a_unit_is_wanted_by_the_targets_of_its_file_only() {
        let (dir, root) = host();
        let units = dir.path().join("etc/systemd/system");
        let is_kept = |by: &[&str]| keep_wanted(&root, "old.service", by).unwrap();
        assert!(is_kept(&["multi-user.target"]));
        fs::create_dir(units.join("sysinit.target.wants")).unwrap();
        let link = units.join("sysinit.target.wants/old.service");
        symlink("/etc/systemd/system/old.service", &link).unwrap();
        assert!(!is_kept(&["sysinit.target", "other.target"]));
        assert!(is_kept(&["sysinit.target"]) && link.is_symlink());
        assert!(!units.join("multi-user.target.wants").exists());
    }

    #[test]
    fn a_file_below_a_directory_of_units_is_a_units() {
        for (path, is) in [
            ("/etc/systemd/system/a.service", true),
            ("/usr/local/lib/systemd/system/a.service.d/b.conf", true),
            ("/var/usrlocal/lib/systemd/system/a.service", true),
            ("/usr/local/lib/systemd/systemx", false),
            ("/etc/systemd/system.conf", false),
        ] {
            assert_eq!(is_unit_file(path), is, "{path}");
        }
    }

    #[test]
    fn an_instance_exists_where_its_template_does() {
        let (dir, root) = host();
        let lib = dir.path().join("usr/lib/systemd/system");
        fs::create_dir_all(&lib).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
        fs::write(lib.join("tty@.service"), "").unwrap();
        assert!(exists(&root, "tty@1.service").unwrap());
        assert!(exists(&root, "new.service").unwrap());
        assert!(!exists(&root, "none.service").unwrap());
        let installed = installed(&root, "new.service").unwrap();
        assert_eq!(installed, Installed::Here);
    }

    #[test]
    fn a_generated_unit_exists_and_cannot_be_enabled() {
        let (dir, root) = host();
        let generated = dir.path().join("run/systemd/generator");
        fs::create_dir_all(&generated).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
        fs::write(generated.join("web.service"), "").unwrap();
        assert!(exists(&root, "web.service").unwrap());
        let installed = installed(&root, "web.service").unwrap();
        assert_eq!(installed, Installed::Nowhere);
    }

    #[test]
    fn a_deployment_sees_no_unit_below_var() {
        let (dir, running) = host();
        let local = dir.path().join("var/usrlocal/lib/systemd/system");
        fs::create_dir_all(&local).unwrap();
        fs::create_dir_all(dir.path().join("usr")).unwrap();
        symlink("../var/usrlocal", dir.path().join("usr/local")).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
        fs::write(local.join("agent.service"), "").unwrap();
        let deployment = Root::open(dir.path(), Some(&dir.path().join("var"))).unwrap();
        for (root, is) in [
            (running, Installed::Here),
            (deployment, Installed::Elsewhere),
        ] {
            assert_eq!(installed(&root, "agent.service").unwrap(), is);
        }
    }

    #[test]
    fn a_unit_is_enabled_by_a_link_that_is_no_mask() {
        let (dir, root) = host();
        let units = dir.path().join("etc/systemd/system");
        symlink(MASK, units.join("masked.service")).unwrap();
        for (unit, is_enabled) in [
            ("old.service", true),
            ("new.service", false),
            ("masked.service", false),
        ] {
            assert_eq!(is_linked(&root, unit).unwrap(), is_enabled, "{unit}");
        }
    }

    #[test]
    fn a_units_name_cannot_leave_the_directory_of_units() {
        let (_dir, root) = host();
        for name in ["", "..", "../x.service", "a/b.service"] {
            assert!(unit_path(&root, name).is_err(), "{name:?}");
        }
    }
}
