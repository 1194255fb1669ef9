//! Disks, partitions, arrays, encrypted volumes and file systems: what only a first boot can make.

use serde::{Deserialize, Serialize};

use super::member::is_empty;
use super::resource::Resource;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disk {
    /// Absolute path of the device.
    pub device: String,
    /// Partitions, unique by number or else label.
    #[serde(skip_serializing_if = "is_empty")]
    pub partitions: Vec<Partition>,
    /// Whether the table is wiped first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wipe_table: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Partition {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guid: Option<String>,
    /// Its label, at most 36 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its number; 0: the next free one.
    #[serde(skip_serializing_if = "is_empty")]
    pub number: i64,
    /// Whether an existing one may be resized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize: Option<bool>,
    /// Whether it exists at all; absent: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub should_exist: Option<bool>,
    /// Size in mebibytes; 0: all that is free.
    #[serde(rename = "sizeMiB", skip_serializing_if = "Option::is_none")]
    pub size_mib: Option<i64>,
    /// Start in mebibytes; 0: the largest free room.
    #[serde(rename = "startMiB", skip_serializing_if = "Option::is_none")]
    pub start_mib: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_guid: Option<String>,
    /// Whether an entry that differs is wiped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wipe_partition_entry: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filesystem {
    /// Absolute path of the device.
    pub device: String,
    /// `ext4`, `btrfs`, `xfs`, `vfat`, `swap` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Options it is mounted with.
    #[serde(skip_serializing_if = "is_empty")]
    pub mount_options: Vec<String>,
    /// Options it is made with.
    #[serde(skip_serializing_if = "is_empty")]
    pub options: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Whether what is there is wiped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wipe_filesystem: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Raid {
    /// Absolute paths of its devices.
    #[serde(skip_serializing_if = "is_empty")]
    pub devices: Vec<String>,
    /// Level, such as `raid1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    pub name: String,
    #[serde(skip_serializing_if = "is_empty")]
    pub options: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spares: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Luks {
    /// Key from a crypto card.
    #[serde(skip_serializing_if = "is_empty")]
    pub cex: Cex,
    /// Key from a network, a chip or a program.
    #[serde(skip_serializing_if = "is_empty")]
    pub clevis: Clevis,
    /// Absolute path of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<bool>,
    #[serde(skip_serializing_if = "is_empty")]
    pub key_file: Resource,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub name: String,
    /// Options it is opened with.
    #[serde(skip_serializing_if = "is_empty")]
    pub open_options: Vec<String>,
    /// Options it is made with.
    #[serde(skip_serializing_if = "is_empty")]
    pub options: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Whether what is there is wiped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wipe_volume: Option<bool>,
}

/// `luks.cex`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cex {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// `luks.clevis`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Clevis {
    /// A pin of one's own.
    #[serde(skip_serializing_if = "is_empty")]
    pub custom: ClevisCustom,
    /// Tang servers, unique by URL.
    #[serde(skip_serializing_if = "is_empty")]
    pub tang: Vec<Tang>,
    /// How many pins open it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<i64>,
    /// Whether a TPM 2 opens it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm2: Option<bool>,
}

/// `luks.clevis.custom`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClevisCustom {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Whether it needs the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_network: Option<bool>,
    /// `tpm2`, `tang` or `sss`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tang {
    /// Advertisement, as JSON text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertisement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thumbprint: Option<String>,
    #[serde(skip_serializing_if = "is_empty")]
    pub url: String,
}
