//! Specification 3 in the words of 2.2: the way back of `translate`.

use serde_json::{Map, Value};

use super::super::{self as three, Problem, Resource};
use super::schema as two;

/// Sectors of 512 bytes in a mebibyte.
const SECTORS_PER_MIB: i64 = 2048;

/// What 2.2 has no words for, of what 3.1 has.
pub(super) fn unprintable(config: &three::Config) -> Vec<Problem> {
    let mut problems = Problems(Vec::new());
    let ignition = &config.ignition;
    problems.unless_empty("ignition.proxy", &ignition.proxy);
    let config_sources = ignition.config.merge.iter().enumerate();
    for (at, resource) in config_sources {
        problems.reference(&format!("ignition.config.merge[{at}]"), resource);
    }
    problems.reference("ignition.config.replace", &ignition.config.replace);
    let authorities = ignition.security.tls.certificate_authorities.iter();
    for (at, resource) in authorities.enumerate() {
        let field = format!("ignition.security.tls.certificateAuthorities[{at}]");
        problems.reference(&field, resource);
    }
    let storage = &config.storage;
    for at in 0..storage.filesystems.len() {
        // A file names its file system there, and has its path below it.
        problems.refuse(format!("storage.filesystems[{at}]"));
    }
    for (at, file) in storage.files.iter().enumerate() {
        let field = format!("storage.files[{at}]");
        problems.contents(&format!("{field}.contents"), &file.contents);
        for (nth, resource) in file.append.iter().enumerate() {
            problems.contents(&format!("{field}.append[{nth}]"), resource);
        }
        // There one entry either writes a file or appends to it.
        if file.append.len() > 1 || (!file.append.is_empty() && has_contents(file)) {
            problems.refuse(format!("{field}.append"));
        }
    }
    for (at, disk) in storage.disks.iter().enumerate() {
        for (nth, partition) in disk.partitions.iter().enumerate() {
            let field = format!("storage.disks[{at}].partitions[{nth}]");
            problems.unless_empty(&format!("{field}.shouldExist"), &partition.should_exist);
            problems.unless_empty(
                &format!("{field}.wipePartitionEntry"),
                &partition.wipe_partition_entry,
            );
        }
    }
    problems.0
}

fn has_contents(file: &three::File) -> bool {
    file.contents.source.is_some()
}

struct Problems(Vec<Problem>);

impl Problems {
    fn refuse(&mut self, field: String) {
        let why = "cannot be said in specification 2.2.0".to_owned();
        self.0.push(Problem { field, why });
    }

    fn unless_empty<T: Default + PartialEq>(&mut self, field: &str, value: &T) {
        if *value != T::default() {
            self.refuse(field.to_owned());
        }
    }

    /// A configuration or certificate: a URL and a hash.
    fn reference(&mut self, field: &str, resource: &Resource) {
        let compression = resource.compression.clone().unwrap_or_default();
        self.unless_empty(&format!("{field}.compression"), &compression);
        self.contents(field, resource);
    }

    /// Contents of a file: a URL, a hash and a compression. SHA-256 came with 3.1.
    fn contents(&mut self, field: &str, resource: &Resource) {
        self.unless_empty(&format!("{field}.httpHeaders"), &resource.http_headers);
        let hash = resource.verification.hash.as_deref();
        if hash.is_some_and(|hash| hash.starts_with("sha256-")) {
            self.refuse(format!("{field}.verification.hash"));
        }
    }
}

/// The configuration as JSON of 2.2, members that are empty left out.
pub(super) fn print(config: &three::Config) -> Value {
    let config = two::Config {
        ignition: ignition(&config.ignition),
        networkd: two::Networkd::default(),
        passwd: two::Passwd {
            groups: config.passwd.groups.iter().map(group).collect(),
            users: config.passwd.users.iter().map(user).collect(),
        },
        storage: two::Storage {
            directories: config.storage.directories.iter().map(directory).collect(),
            disks: config.storage.disks.iter().map(disk).collect(),
            files: config.storage.files.iter().map(file).collect(),
            filesystems: Vec::new(),
            links: config.storage.links.iter().map(link).collect(),
            raid: config.storage.raid.iter().map(raid).collect(),
        },
        systemd: two::Systemd {
            units: config.systemd.units.iter().map(unit).collect(),
        },
    };
    // No type there has a map with keys other than strings.
    let mut value = serde_json::to_value(config).unwrap_or_default();
    prune(&mut value);
    value
}

/// Removes what says nothing: `null`, an empty text, list or object, and `false` where that is what
/// absence means.
fn prune(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for member in members.values_mut() {
                prune(member);
            }
            members.retain(says_something);
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn says_something(name: &String, value: &mut Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(false) => name == "enabled" || name == "overwrite",
        // A file that is to be empty has an empty source.
        Value::String(text) => !text.is_empty() || name == "source",
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => *members != Map::new(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

fn text(text: Option<&String>) -> String {
    text.cloned().unwrap_or_default()
}

fn ignition(ignition: &three::Ignition) -> two::Ignition {
    let reference = |resource: &Resource| two::Reference {
        source: text(resource.source.as_ref()),
        verification: resource.verification.clone(),
    };
    let replace = &ignition.config.replace;
    two::Ignition {
        config: two::IgnitionConfig {
            append: ignition.config.merge.iter().map(reference).collect(),
            replace: replace.source.is_some().then(|| reference(replace)),
        },
        security: two::Security {
            tls: two::Tls {
                certificate_authorities: (ignition.security.tls.certificate_authorities.iter())
                    .map(reference)
                    .collect(),
            },
        },
        timeouts: ignition.timeouts.clone(),
        version: "2.2.0".to_owned(),
    }
}

fn group(group: &three::PasswdGroup) -> two::Group {
    two::Group {
        gid: group.gid,
        name: group.name.clone(),
        password_hash: text(group.password_hash.as_ref()),
        system: group.system.unwrap_or_default(),
    }
}

fn user(user: &three::PasswdUser) -> two::User {
    two::User {
        create: None,
        gecos: text(user.gecos.as_ref()),
        groups: user.groups.clone(),
        home_dir: text(user.home_dir.as_ref()),
        name: user.name.clone(),
        no_create_home: user.no_create_home.unwrap_or_default(),
        no_log_init: user.no_log_init.unwrap_or_default(),
        no_user_group: user.no_user_group.unwrap_or_default(),
        password_hash: user.password_hash.clone(),
        primary_group: text(user.primary_group.as_ref()),
        ssh_authorized_keys: user.ssh_authorized_keys.clone(),
        shell: text(user.shell.as_ref()),
        system: user.system.unwrap_or_default(),
        uid: user.uid,
    }
}

/// The one file system that is always there.
fn root() -> String {
    "root".to_owned()
}

fn directory(directory: &three::Directory) -> two::Directory {
    two::Directory {
        filesystem: root(),
        group: directory.group.clone(),
        mode: directory.mode,
        overwrite: directory.overwrite,
        path: directory.path.clone(),
        user: directory.user.clone(),
    }
}

/// Absence of `overwrite` means `true` there and `false` here, so it is always printed; but not
/// where a file is appended to.
fn file(file: &three::File) -> two::File {
    let appended = file.append.first();
    let resource = appended.unwrap_or(&file.contents);
    two::File {
        append: appended.is_some(),
        contents: two::Contents {
            compression: text(resource.compression.as_ref()),
            source: text(resource.source.as_ref()),
            verification: resource.verification.clone(),
        },
        filesystem: root(),
        group: file.group.clone(),
        mode: file.mode,
        overwrite: appended
            .is_none()
            .then(|| file.overwrite.unwrap_or_default()),
        path: file.path.clone(),
        user: file.user.clone(),
    }
}

fn link(link: &three::Link) -> two::Link {
    two::Link {
        filesystem: root(),
        group: link.group.clone(),
        hard: link.hard.unwrap_or_default(),
        overwrite: link.overwrite,
        path: link.path.clone(),
        target: text(link.target.as_ref()),
        user: link.user.clone(),
    }
}

fn disk(disk: &three::Disk) -> two::Disk {
    two::Disk {
        device: disk.device.clone(),
        partitions: disk.partitions.iter().map(partition).collect(),
        wipe_table: disk.wipe_table.unwrap_or_default(),
    }
}

fn partition(partition: &three::Partition) -> two::Partition {
    let sectors = |mebibytes: Option<i64>| {
        mebibytes
            .unwrap_or_default()
            .saturating_mul(SECTORS_PER_MIB)
    };
    two::Partition {
        guid: text(partition.guid.as_ref()),
        label: text(partition.label.as_ref()),
        number: partition.number,
        size: sectors(partition.size_mib),
        start: sectors(partition.start_mib),
        type_guid: text(partition.type_guid.as_ref()),
    }
}

fn raid(raid: &three::Raid) -> two::Raid {
    two::Raid {
        devices: raid.devices.clone(),
        level: text(raid.level.as_ref()),
        name: raid.name.clone(),
        options: raid.options.clone(),
        spares: raid.spares.unwrap_or_default(),
    }
}

fn unit(unit: &three::Unit) -> two::Unit {
    two::Unit {
        contents: text(unit.contents.as_ref()),
        dropins: (unit.dropins.iter())
            .map(|dropin| two::Dropin {
                contents: text(dropin.contents.as_ref()),
                name: dropin.name.clone(),
            })
            .collect(),
        enable: false,
        enabled: unit.enabled,
        mask: unit.mask.unwrap_or_default(),
        name: unit.name.clone(),
    }
}
