//! Accounts.

use serde::{Deserialize, Serialize};

use super::member::is_empty;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Passwd {
    /// Groups, unique by name.
    #[serde(skip_serializing_if = "is_empty")]
    pub groups: Vec<PasswdGroup>,
    /// Users, unique by name.
    #[serde(skip_serializing_if = "is_empty")]
    pub users: Vec<PasswdUser>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PasswdGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_hash: Option<String>,
    /// Whether it exists at all; absent: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub should_exist: Option<bool>,
    /// Whether it is a group of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PasswdUser {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gecos: Option<String>,
    #[serde(skip_serializing_if = "is_empty")]
    pub groups: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home_dir: Option<String>,
    pub name: String,
    /// Whether the home directory is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_create_home: Option<bool>,
    /// Whether the user is left out of lastlog and faillog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_log_init: Option<bool>,
    /// Whether a group of the same name is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_user_group: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_group: Option<String>,
    /// Public keys, one a line of `authorized_keys`.
    #[serde(skip_serializing_if = "is_empty")]
    pub ssh_authorized_keys: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Whether it exists at all; absent: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub should_exist: Option<bool>,
    /// Whether it is a user of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
}
