//! The units of Slipway on a host, and their removal.

use host::files::{Error, Found, Root};
use host::systemd::links;
use ignition::unit_text;
use node_update::well_known::{
    GUARD_DROPIN, GUARD_UNIT, REBOOT_UNIT, UNITS as DIRECTORY, VERIFY_UNIT,
};

/// The units, as they are in this program's own tree.
pub(crate) const UNITS: &[(&str, &str)] = &[
    (
        GUARD_UNIT,
        include_str!("../../../systemd/slipway-guard.service"),
    ),
    (
        VERIFY_UNIT,
        include_str!("../../../systemd/slipway-verify.service"),
    ),
    (
        REBOOT_UNIT,
        include_str!("../../../systemd/slipway-reboot@.service"),
    ),
];

/// Removes the units from `/etc` of a root, with their links and the drop-ins that order other
/// units after the guard; the removed paths. Directories that are empty then go, too.
///
/// Of each unit the links go first: one that is left would only name a unit without a file.
///
/// # Errors
/// Those of reading and removing.
pub(crate) fn remove(root: &Root) -> Result<Vec<String>, Error> {
    let mut removed = Vec::new();
    for (unit, text) in UNITS {
        let before = links::snapshot(root)?;
        links::remove(root, unit)?;
        // Left where a run was killed after the link in it.
        for target in wanted_by(text) {
            root.remove_empty_directory(&root.locate(&format!("{DIRECTORY}/{target}.wants"))?)?;
        }
        let after = links::snapshot(root)?;
        removed.extend(before.into_keys().filter(|path| !after.contains_key(path)));
        remove_file(root, &format!("{DIRECTORY}/{unit}"), &mut removed)?;
    }
    let names = root.list(&root.locate(DIRECTORY)?)?;
    for unit in names.iter().filter_map(|name| name.strip_suffix(".d")) {
        let directory = format!("{DIRECTORY}/{unit}.d");
        if remove_file(root, &format!("{directory}/{GUARD_DROPIN}"), &mut removed)? {
            root.remove_empty_directory(&root.locate(&directory)?)?;
        }
    }
    Ok(removed)
}

/// The targets that a unit is wanted by.
pub(crate) fn wanted_by(text: &str) -> Vec<String> {
    let install = unit_text::install(text);
    let wanted = install.into_iter().filter(|(key, _)| key == "WantedBy");
    wanted.map(|(_, target)| target).collect()
}

/// Removes a file or link, if it is there; whether it was.
fn remove_file(root: &Root, path: &str, removed: &mut Vec<String>) -> Result<bool, Error> {
    let at = root.locate(path)?;
    let is_there = root.look(&at)? != Found::Nothing;
    // Also without one: a run that was killed may have left its temporary file.
    root.remove(&at)?;
    if is_there {
        removed.push(path.to_owned());
    }
    Ok(is_there)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn put(root: &Path, path: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(path).unwrap();
    }

    fn link(root: &Path, path: &str, target: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// Paths of all entries.
    fn entries(root: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut pending = vec![root.to_owned()];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    pending.push(path.clone());
                }
                found.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
        found.sort();
        found
    }

    #[test]
    fn units_links_and_dropins_are_removed_and_those_of_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let units = "etc/systemd/system";
        put(dir.path(), &format!("{units}/kubelet.service"));
        put(dir.path(), &format!("{units}/early.service.d/10-own.conf"));
        link(
            dir.path(),
            &format!("{units}/multi-user.target.wants/kubelet.service"),
            "/etc/systemd/system/kubelet.service",
        );
        let before = entries(dir.path());
        for (unit, _) in UNITS {
            put(dir.path(), &format!("{units}/{unit}"));
        }
        for (target, unit) in [
            ("sysinit.target", GUARD_UNIT),
            ("multi-user.target", VERIFY_UNIT),
        ] {
            let target = format!("{units}/{target}.wants/{unit}");
            link(dir.path(), &target, &format!("/etc/systemd/system/{unit}"));
        }
        put(
            dir.path(),
            &format!("{units}/early.service.d/{GUARD_DROPIN}"),
        );
        put(
            dir.path(),
            &format!("{units}/other.socket.d/{GUARD_DROPIN}"),
        );
        let root = Root::open(dir.path(), None).unwrap();
        let mut removed = remove(&root).unwrap();
        removed.sort();
        let units = DIRECTORY;
        assert_eq!(
            removed,
            [
                format!("{units}/early.service.d/{GUARD_DROPIN}"),
                format!("{units}/multi-user.target.wants/{VERIFY_UNIT}"),
                format!("{units}/other.socket.d/{GUARD_DROPIN}"),
                format!("{units}/{GUARD_UNIT}"),
                format!("{units}/{REBOOT_UNIT}"),
                format!("{units}/{VERIFY_UNIT}"),
                format!("{units}/sysinit.target.wants"),
                format!("{units}/sysinit.target.wants/{GUARD_UNIT}"),
            ]
        );
        assert_eq!(entries(dir.path()), before);
        assert_eq!(remove(&root).unwrap(), [""; 0]);
        assert_eq!(entries(dir.path()), before);
    }

    #[test]
    fn a_host_without_units_has_none_to_remove() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        assert_eq!(remove(&root).unwrap(), [""; 0]);
        assert_eq!(entries(dir.path()), [""; 0]);
    }
}
