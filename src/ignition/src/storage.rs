//! Files, directories and links; disks are in [`super::disks`].

use serde::{Deserialize, Serialize};

use super::disks::{Disk, Filesystem, Luks, Raid};
use super::member::is_empty;
use super::resource::Resource;

/// `storage`. Files, directories and links share one space of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Storage {
    /// Directories, unique by path.
    #[serde(skip_serializing_if = "is_empty")]
    pub directories: Vec<Directory>,
    /// Disks, unique by device.
    #[serde(skip_serializing_if = "is_empty")]
    pub disks: Vec<Disk>,
    /// Files, unique by path.
    #[serde(skip_serializing_if = "is_empty")]
    pub files: Vec<File>,
    /// File systems, unique by device.
    #[serde(skip_serializing_if = "is_empty")]
    pub filesystems: Vec<Filesystem>,
    /// Links, unique by path.
    #[serde(skip_serializing_if = "is_empty")]
    pub links: Vec<Link>,
    /// Encrypted volumes, unique by name.
    #[serde(skip_serializing_if = "is_empty")]
    pub luks: Vec<Luks>,
    /// Arrays, unique by name.
    #[serde(skip_serializing_if = "is_empty")]
    pub raid: Vec<Raid>,
}

/// An owner: by id or by name, not both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeOwner {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct File {
    /// Fragments appended to what is there; refused on a node.
    #[serde(skip_serializing_if = "is_empty")]
    pub append: Vec<Resource>,
    /// The bytes; without a source the file is empty.
    #[serde(skip_serializing_if = "is_empty")]
    pub contents: Resource,
    #[serde(skip_serializing_if = "is_empty")]
    pub group: NodeOwner,
    /// Permission bits as a decimal number; absent: 0o644.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Whether it takes the place of what is there at first boot; a node always does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
    /// Absolute, clean path.
    pub path: String,
    #[serde(skip_serializing_if = "is_empty")]
    pub user: NodeOwner,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Directory {
    #[serde(skip_serializing_if = "is_empty")]
    pub group: NodeOwner,
    /// Permission bits as a decimal number; absent: 0o755.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Whether it takes the place of what is there at first boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
    /// Absolute, clean path.
    pub path: String,
    #[serde(skip_serializing_if = "is_empty")]
    pub user: NodeOwner,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Link {
    #[serde(skip_serializing_if = "is_empty")]
    pub group: NodeOwner,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<bool>,
    /// Whether it takes the place of what is there at first boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
    /// Absolute, clean path.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(skip_serializing_if = "is_empty")]
    pub user: NodeOwner,
}
