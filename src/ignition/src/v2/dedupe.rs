//! Repeated entries of specification 2: the last one wins.

use std::collections::HashSet;

use super::schema::{Config, Unit, User};

/// Makes files, units and users unique.
///
/// Files and units come out in reverse order, and keys of later users before those of earlier
/// ones: the rendered name depends on the order, so it is that of OpenShift's MCO. A unit keeps the
/// drop-ins of its earlier entries unless it has one of that name.
pub(super) fn dedupe(mut config: Config) -> Config {
    let mut paths = HashSet::new();
    config.storage.files.reverse();
    config
        .storage
        .files
        .retain(|file| paths.insert(file.path.clone()));
    config.systemd.units = units(config.systemd.units);
    config.passwd.users = users(config.passwd.users);
    config
}

fn units(units: Vec<Unit>) -> Vec<Unit> {
    let mut kept: Vec<Unit> = Vec::new();
    for unit in units.into_iter().rev() {
        let Some(last) = kept.iter_mut().find(|last| last.name == unit.name) else {
            kept.push(unit);
            continue;
        };
        for dropin in unit.dropins {
            if !last.dropins.iter().any(|kept| kept.name == dropin.name) {
                last.dropins.push(dropin);
            }
        }
    }
    kept
}

/// One user, the last: it alone is accepted, and takes the keys of all.
fn users(mut users: Vec<User>) -> Vec<User> {
    let Some(mut last) = users.pop() else {
        return users;
    };
    let earlier = users
        .into_iter()
        .rev()
        .flat_map(|user| user.ssh_authorized_keys);
    last.ssh_authorized_keys.extend(earlier);
    let mut keys = HashSet::new();
    last.ssh_authorized_keys
        .retain(|key| keys.insert(key.clone()));
    vec![last]
}
