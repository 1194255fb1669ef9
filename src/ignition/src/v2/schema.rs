//! The types of specification 2.2, private: nothing outlives the translation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::NodeOwner;
use super::super::resource::Verification;

macro_rules! schema {
    ($($(#[$doc:meta])* struct $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
            #[serde(rename_all = "camelCase", default)]
            pub(super) struct $name {
                $($(#[$attribute])* pub(super) $field: $type,)*
            }
        )*
    };
}

schema! {
    struct Config {
        ignition: Ignition,
        networkd: Networkd,
        passwd: Passwd,
        storage: Storage,
        systemd: Systemd,
    }
    struct Ignition {
        config: IgnitionConfig,
        security: Security,
        timeouts: super::super::Timeouts,
        version: String,
    }
    struct IgnitionConfig {
        append: Vec<Reference>,
        #[serde(skip_serializing_if = "Option::is_none")]
        replace: Option<Reference>,
    }
    struct Reference {
        source: String,
        verification: Verification,
    }
    struct Security {
        tls: Tls,
    }
    struct Tls {
        certificate_authorities: Vec<Reference>,
    }
    /// Of networkd only the presence matters: it is refused.
    struct Networkd {
        units: Vec<Value>,
    }
    struct Passwd {
        groups: Vec<Group>,
        users: Vec<User>,
    }
    struct Group {
        gid: Option<u32>,
        name: String,
        password_hash: String,
        system: bool,
    }
    struct User {
        /// Deprecated and refused.
        create: Option<Value>,
        gecos: String,
        groups: Vec<String>,
        home_dir: String,
        name: String,
        no_create_home: bool,
        no_log_init: bool,
        no_user_group: bool,
        password_hash: Option<String>,
        primary_group: String,
        ssh_authorized_keys: Vec<String>,
        shell: String,
        system: bool,
        uid: Option<u32>,
    }
    struct Storage {
        directories: Vec<Directory>,
        disks: Vec<Disk>,
        files: Vec<File>,
        filesystems: Vec<Filesystem>,
        links: Vec<Link>,
        raid: Vec<Raid>,
    }
    struct Directory {
        filesystem: String,
        group: NodeOwner,
        mode: Option<u32>,
        overwrite: Option<bool>,
        path: String,
        user: NodeOwner,
    }
    struct File {
        append: bool,
        contents: Contents,
        filesystem: String,
        group: NodeOwner,
        mode: Option<u32>,
        overwrite: Option<bool>,
        path: String,
        user: NodeOwner,
    }
    struct Contents {
        compression: String,
        source: String,
        verification: Verification,
    }
    struct Link {
        filesystem: String,
        group: NodeOwner,
        hard: bool,
        overwrite: Option<bool>,
        path: String,
        target: String,
        user: NodeOwner,
    }
    /// Only the file system named `root` is accepted, and what it says is implied.
    struct Filesystem {
        mount: Option<Value>,
        name: String,
        path: Option<String>,
    }
    struct Disk {
        device: String,
        partitions: Vec<Partition>,
        wipe_table: bool,
    }
    struct Partition {
        guid: String,
        label: String,
        number: i64,
        /// Sectors of 512 bytes.
        size: i64,
        /// Sectors of 512 bytes.
        start: i64,
        type_guid: String,
    }
    struct Raid {
        devices: Vec<String>,
        level: String,
        name: String,
        options: Vec<String>,
        spares: i64,
    }
    struct Systemd {
        units: Vec<Unit>,
    }
    struct Unit {
        contents: String,
        dropins: Vec<Dropin>,
        /// Deprecated spelling of `enabled`.
        enable: bool,
        enabled: Option<bool>,
        mask: bool,
        name: String,
    }
    struct Dropin {
        contents: String,
        name: String,
    }
}
