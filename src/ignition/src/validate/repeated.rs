//! What may stand in a list once only.

use std::collections::HashSet;

use super::super::{Config, Resource};
use super::Verdict;

pub(super) fn validate(config: &Config, verdict: &mut Verdict) {
    let mut once = Once { verdict };
    ignition(config, &mut once);
    let storage = &config.storage;
    let mut paths = HashSet::new();
    once.add(
        &mut paths,
        "storage.files",
        storage.files.iter().map(|file| file.path.clone()),
    );
    let directories = storage
        .directories
        .iter()
        .map(|directory| directory.path.clone());
    once.add(&mut paths, "storage.directories", directories);
    once.add(
        &mut paths,
        "storage.links",
        storage.links.iter().map(|link| link.path.clone()),
    );
    once.list(
        "storage.disks",
        storage.disks.iter().map(|disk| disk.device.clone()),
    );
    once.list(
        "storage.filesystems",
        storage.filesystems.iter().map(|fs| fs.device.clone()),
    );
    once.list(
        "storage.luks",
        storage.luks.iter().map(|luks| luks.name.clone()),
    );
    for (index, luks) in storage.luks.iter().enumerate() {
        let tang = luks.clevis.tang.iter().map(|tang| tang.url.clone());
        once.list(&format!("storage.luks[{index}].clevis.tang"), tang);
        let options = luks.open_options.iter().cloned();
        once.list(&format!("storage.luks[{index}].openOptions"), options);
    }
    once.list(
        "storage.raid",
        storage.raid.iter().map(|raid| raid.name.clone()),
    );
    for (index, raid) in storage.raid.iter().enumerate() {
        once.list(
            &format!("storage.raid[{index}].devices"),
            raid.devices.iter().cloned(),
        );
    }
    for (index, file) in storage.files.iter().enumerate() {
        headers(
            &file.contents,
            &format!("storage.files[{index}].contents"),
            &mut once,
        );
    }
    once.list(
        "systemd.units",
        config.systemd.units.iter().map(|unit| unit.name.clone()),
    );
    for (index, unit) in config.systemd.units.iter().enumerate() {
        let dropins = unit.dropins.iter().map(|dropin| dropin.name.clone());
        once.list(&format!("systemd.units[{index}].dropins"), dropins);
    }
    once.list(
        "passwd.groups",
        config.passwd.groups.iter().map(|group| group.name.clone()),
    );
    once.list(
        "passwd.users",
        config.passwd.users.iter().map(|user| user.name.clone()),
    );
    for (index, user) in config.passwd.users.iter().enumerate() {
        once.list(
            &format!("passwd.users[{index}].groups"),
            user.groups.iter().cloned(),
        );
        let keys = user.ssh_authorized_keys.iter().cloned();
        once.list(&format!("passwd.users[{index}].sshAuthorizedKeys"), keys);
    }
}

fn ignition(config: &Config, once: &mut Once<'_>) {
    let arguments = &config.kernel_arguments;
    let mut seen = HashSet::new();
    let should = arguments.should_exist.iter().cloned();
    once.add(&mut seen, "kernelArguments.shouldExist", should);
    let should_not = arguments.should_not_exist.iter().cloned();
    once.add(&mut seen, "kernelArguments.shouldNotExist", should_not);
    let ignition = &config.ignition;
    once.list(
        "ignition.config.merge",
        ignition.config.merge.iter().map(source),
    );
    once.list(
        "ignition.proxy.noProxy",
        ignition.proxy.no_proxy.iter().cloned(),
    );
    let authorities = ignition
        .security
        .tls
        .certificate_authorities
        .iter()
        .map(source);
    once.list("ignition.security.tls.certificateAuthorities", authorities);
}

fn source(resource: &Resource) -> String {
    resource.source.clone().unwrap_or_default()
}

fn headers(resource: &Resource, at: &str, once: &mut Once<'_>) {
    let names = resource
        .http_headers
        .iter()
        .map(|header| header.name.clone());
    once.list(&format!("{at}.httpHeaders"), names);
}

struct Once<'a> {
    verdict: &'a mut Verdict,
}

impl Once<'_> {
    fn list(&mut self, field: &str, keys: impl Iterator<Item = String>) {
        self.add(&mut HashSet::new(), field, keys);
    }

    fn add(&mut self, seen: &mut HashSet<String>, field: &str, keys: impl Iterator<Item = String>) {
        for (index, key) in keys.enumerate() {
            if seen.contains(&key) {
                // A source may be long and may be a secret; so may a key be long. The index says
                // which one it is.
                let shown = if key.len() > 128 || key.starts_with("data:") {
                    ""
                } else {
                    &key
                };
                let why = format!("duplicate entry defined: {shown:?}");
                self.verdict.refuse(format!("{field}[{index}]"), why);
            } else {
                seen.insert(key);
            }
        }
    }
}
