//! Specification 2.2 in the words of 3.5. An empty text, `false` and 0 were "unset" there and are
//! absent here.

use super::super::{self as three, NodeOwner, Resource, VERSION};
use super::schema as two;

/// Sectors of 512 bytes in a mebibyte.
const SECTORS_PER_MIB: i64 = 2048;

pub(super) fn translate(config: two::Config) -> three::Config {
    three::Config {
        ignition: ignition(config.ignition),
        kernel_arguments: three::KernelArguments::default(),
        passwd: three::Passwd {
            groups: config.passwd.groups.into_iter().map(group).collect(),
            users: config.passwd.users.into_iter().map(user).collect(),
        },
        storage: storage(config.storage),
        systemd: three::Systemd {
            units: config.systemd.units.into_iter().map(unit).collect(),
        },
    }
}

fn text(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn flag(flag: bool) -> Option<bool> {
    flag.then_some(true)
}

fn ignition(ignition: two::Ignition) -> three::Ignition {
    let reference = |reference: two::Reference| Resource {
        source: Some(reference.source),
        verification: reference.verification,
        ..Resource::default()
    };
    three::Ignition {
        config: three::IgnitionConfig {
            merge: ignition.config.append.into_iter().map(reference).collect(),
            replace: ignition.config.replace.map(reference).unwrap_or_default(),
        },
        proxy: three::Proxy::default(),
        security: three::Security {
            tls: three::Tls {
                certificate_authorities: (ignition
                    .security
                    .tls
                    .certificate_authorities
                    .into_iter())
                .map(reference)
                .collect(),
            },
        },
        timeouts: ignition.timeouts,
        version: VERSION.to_owned(),
    }
}

fn group(group: two::Group) -> three::PasswdGroup {
    three::PasswdGroup {
        gid: group.gid,
        name: group.name,
        password_hash: text(group.password_hash),
        should_exist: None,
        system: flag(group.system),
    }
}

fn user(user: two::User) -> three::PasswdUser {
    three::PasswdUser {
        gecos: text(user.gecos),
        groups: user.groups,
        home_dir: text(user.home_dir),
        name: user.name,
        no_create_home: flag(user.no_create_home),
        no_log_init: flag(user.no_log_init),
        no_user_group: flag(user.no_user_group),
        password_hash: user.password_hash,
        primary_group: text(user.primary_group),
        ssh_authorized_keys: user.ssh_authorized_keys,
        shell: text(user.shell),
        should_exist: None,
        system: flag(user.system),
        uid: user.uid,
    }
}

fn storage(storage: two::Storage) -> three::Storage {
    three::Storage {
        directories: storage.directories.into_iter().map(directory).collect(),
        disks: storage.disks.into_iter().map(disk).collect(),
        files: storage.files.into_iter().map(file).collect(),
        // The one that is accepted, `root`, is implied.
        filesystems: Vec::new(),
        links: storage.links.into_iter().map(link).collect(),
        luks: Vec::new(),
        raid: storage.raid.into_iter().map(raid).collect(),
    }
}

fn owner(owner: NodeOwner) -> NodeOwner {
    NodeOwner {
        id: owner.id,
        name: owner.name.and_then(text),
    }
}

fn directory(directory: two::Directory) -> three::Directory {
    three::Directory {
        group: owner(directory.group),
        mode: directory.mode,
        overwrite: directory.overwrite,
        path: directory.path,
        user: owner(directory.user),
    }
}

/// Files of specification 2 overwrite unless they say otherwise; one that appends does not.
fn file(file: two::File) -> three::File {
    let contents = Resource {
        compression: text(file.contents.compression),
        http_headers: Vec::new(),
        source: Some(file.contents.source),
        verification: file.contents.verification,
    };
    let overwrite = if file.append {
        false
    } else {
        file.overwrite.unwrap_or(true)
    };
    let (append, contents) = if file.append {
        (vec![contents], Resource::default())
    } else {
        (Vec::new(), contents)
    };
    three::File {
        append,
        contents,
        group: owner(file.group),
        mode: file.mode,
        overwrite: Some(overwrite),
        path: file.path,
        user: owner(file.user),
    }
}

fn link(link: two::Link) -> three::Link {
    three::Link {
        group: owner(link.group),
        hard: flag(link.hard),
        overwrite: link.overwrite,
        path: link.path,
        target: Some(link.target),
        user: owner(link.user),
    }
}

fn disk(disk: two::Disk) -> three::Disk {
    three::Disk {
        device: disk.device,
        partitions: disk.partitions.into_iter().map(partition).collect(),
        wipe_table: flag(disk.wipe_table),
    }
}

/// Sizes in sectors are rounded up to the mebibytes of specification 3, which align.
fn partition(partition: two::Partition) -> three::Partition {
    let mebibytes = |sectors: i64| {
        (sectors != 0).then(|| sectors.saturating_add(SECTORS_PER_MIB - 1) / SECTORS_PER_MIB)
    };
    three::Partition {
        guid: text(partition.guid),
        label: text(partition.label),
        number: partition.number,
        resize: None,
        should_exist: None,
        size_mib: mebibytes(partition.size),
        start_mib: mebibytes(partition.start),
        type_guid: text(partition.type_guid),
        wipe_partition_entry: None,
    }
}

fn raid(raid: two::Raid) -> three::Raid {
    three::Raid {
        devices: raid.devices,
        level: text(raid.level),
        name: raid.name,
        options: raid.options,
        spares: (raid.spares != 0).then_some(raid.spares),
    }
}

/// `enabled` wins over its deprecated spelling `enable`.
fn unit(unit: two::Unit) -> three::Unit {
    three::Unit {
        contents: text(unit.contents),
        dropins: (unit.dropins.into_iter())
            .map(|dropin| three::Dropin {
                contents: text(dropin.contents),
                name: dropin.name,
            })
            .collect(),
        enabled: unit.enabled.or_else(|| flag(unit.enable)),
        mask: flag(unit.mask),
        name: unit.name,
    }
}
