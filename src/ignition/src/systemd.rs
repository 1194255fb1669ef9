//! Units and their drop-ins.

use serde::{Deserialize, Serialize};

use super::member::is_empty;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Systemd {
    /// Units, unique by name.
    #[serde(skip_serializing_if = "is_empty")]
    pub units: Vec<Unit>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unit {
    /// Text of the unit; absent or empty: the unit of the OS, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// Drop-ins, unique by name.
    #[serde(skip_serializing_if = "is_empty")]
    pub dropins: Vec<Dropin>,
    /// Whether it starts at boot; absent: as the presets of the OS say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether it is masked; `false` removes a mask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<bool>,
    /// Name with its suffix, such as `chronyd.service`.
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Dropin {
    /// Text; absent or empty: the drop-in is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// Name, ending in `.conf`.
    pub name: String,
}
