//! Paths, modes and owners of files, directories and links.

use std::collections::BTreeSet;

use super::super::{Config, NodeOwner, Storage, UNITS};
use super::{Verdict, is_unset};

/// The highest mode of a file: the special bits are not supported.
pub const MAX_FILE_MODE: u32 = 0o777;

pub(super) fn validate(config: &Config, verdict: &mut Verdict) {
    let storage = &config.storage;
    nodes(storage, verdict);
    links(storage, verdict);
    through_links(storage, verdict);
    against_units(config, verdict);
}

fn nodes(storage: &Storage, verdict: &mut Verdict) {
    for (index, file) in storage.files.iter().enumerate() {
        let at = format!("storage.files[{index}]");
        check_path(&file.path, format!("{at}.path"), verdict);
        owners(&file.user, &file.group, &at, verdict);
        if let Some(mode) = file.mode.filter(|mode| *mode > MAX_FILE_MODE) {
            let why = format!(
                "invalid mode 0{mode:o} for {}, cannot exceed 0{MAX_FILE_MODE:o}",
                file.path
            );
            verdict.refuse(format!("{at}.mode"), why);
        }
    }
    for (index, directory) in storage.directories.iter().enumerate() {
        let at = format!("storage.directories[{index}]");
        check_path(&directory.path, format!("{at}.path"), verdict);
        owners(&directory.user, &directory.group, &at, verdict);
        match directory.mode {
            Some(mode) if mode > 0o7777 => {
                verdict.refuse(format!("{at}.mode"), format!("illegal mode 0{mode:o}"));
            }
            Some(mode) if mode > MAX_FILE_MODE => {
                verdict.warn(
                    format!("{at}.mode"),
                    "setuid, setgid and sticky bits have no effect",
                );
            }
            _ => {}
        }
    }
    for (index, link) in storage.links.iter().enumerate() {
        let at = format!("storage.links[{index}]");
        check_path(&link.path, format!("{at}.path"), verdict);
        owners(&link.user, &link.group, &at, verdict);
    }
}

/// A path is absolute and written in one way only: no `.`, `..`, `//` and no `/` at its end.
pub(super) fn check_path(path: &str, field: String, verdict: &mut Verdict) {
    let why = if path.is_empty() {
        "path not specified".to_owned()
    } else if !path.starts_with('/') {
        format!("path not absolute: {path:?}")
    } else if path.split('/').any(|part| part == "..") {
        format!("path must not contain \"..\": {path:?}")
    } else if !is_clean(path) {
        format!("path is not fully simplified: {path:?}")
    } else if path.contains(char::is_control) {
        format!("path holds a control character: {path:?}")
    } else {
        return;
    };
    verdict.refuse(field, why);
}

fn is_clean(path: &str) -> bool {
    path == "/"
        || path
            .split('/')
            .skip(1)
            .all(|part| !part.is_empty() && part != ".")
}

fn owners(user: &NodeOwner, group: &NodeOwner, at: &str, verdict: &mut Verdict) {
    for (owner, member) in [(user, "user"), (group, "group")] {
        if let (Some(id), Some(name)) = (owner.id, owner.name.as_deref())
            && !name.is_empty()
        {
            let why = format!("cannot set both id and name: {id} and {name:?}");
            verdict.refuse(format!("{at}.{member}"), why);
        }
    }
}

fn links(storage: &Storage, verdict: &mut Verdict) {
    let directories: BTreeSet<&str> = storage
        .directories
        .iter()
        .map(|directory| directory.path.as_str())
        .collect();
    for (index, link) in storage.links.iter().enumerate() {
        let at = format!("storage.links[{index}]");
        if is_unset(link.target.as_deref()) {
            verdict.refuse(format!("{at}.target"), "link target is required");
        } else if link.hard == Some(true)
            && link
                .target
                .as_deref()
                .is_some_and(|target| directories.contains(target))
        {
            verdict.refuse(format!("{at}.target"), "hard link target is a directory");
        }
    }
}

/// Nothing may lie below a link of the same configuration.
fn through_links(storage: &Storage, verdict: &mut Verdict) {
    let links: BTreeSet<&str> = storage
        .links
        .iter()
        .map(|link| link.path.as_str())
        .collect();
    let mut check = |kind: &str, index: usize, path: &str| {
        if let Some(link) = ancestors(path).find(|ancestor| links.contains(ancestor)) {
            let why = format!("path {path:?} leads through the link {link:?}");
            verdict.refuse(format!("storage.{kind}[{index}].path"), why);
        }
    };
    for (index, file) in storage.files.iter().enumerate() {
        check("files", index, &file.path);
    }
    for (index, directory) in storage.directories.iter().enumerate() {
        check("directories", index, &directory.path);
    }
    for (index, link) in storage.links.iter().enumerate() {
        check("links", index, &link.path);
    }
}

/// The paths above `path`, nearest first, without `/`.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| {
        path.rsplit_once('/').map(|(parent, _)| parent)
    })
    .skip(1)
    .filter(|path| !path.is_empty())
}

/// What a unit or drop-in writes, nothing else may.
fn against_units(config: &Config, verdict: &mut Verdict) {
    let mut written = BTreeSet::new();
    for unit in &config.systemd.units {
        if !is_unset(unit.contents.as_deref()) {
            written.insert(format!("{UNITS}/{}", unit.name));
        }
        for dropin in &unit.dropins {
            if !is_unset(dropin.contents.as_deref()) {
                written.insert(format!("{UNITS}/{}.d/{}", unit.name, dropin.name));
            }
        }
    }
    let storage = &config.storage;
    let files = storage.files.iter().map(|file| &file.path).enumerate();
    let directories = storage
        .directories
        .iter()
        .map(|directory| &directory.path)
        .enumerate();
    let links = storage.links.iter().map(|link| &link.path).enumerate();
    let all = files
        .map(|(index, path)| ("files", index, path))
        .chain(directories.map(|(index, path)| ("directories", index, path)))
        .chain(links.map(|(index, path)| ("links", index, path)));
    for (kind, index, path) in all {
        if written.contains(path.as_str()) {
            let why = format!("path conflicts with systemd unit or dropin: {path:?}");
            verdict.refuse(format!("storage.{kind}[{index}].path"), why);
        }
    }
}
