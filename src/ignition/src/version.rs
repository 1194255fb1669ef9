//! Which specification a configuration follows, and which members came with which version.

use serde_json::Value;

use super::{Error, Warning};

/// The family a configuration belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// `null` or `{}`: nothing is requested.
    Nothing,
    /// 2.0 to 2.2, all read as 2.2.
    Two,
    Three {
        /// The number after the 3.
        minor: u8,
    },
}

pub(super) fn of(value: &Value) -> Result<Version, Error> {
    if value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty) {
        return Ok(Version::Nothing);
    }
    let text = match value.pointer("/ignition/version") {
        Some(Value::String(text)) => text.as_str(),
        Some(other) => return Err(Error::InvalidVersion(other.to_string())),
        None => "",
    };
    match numbers(text) {
        Some([2, 0..=2, 0]) => Ok(Version::Two),
        Some([3, minor @ 0..=5, 0]) => Ok(Version::Three { minor }),
        Some(_) => Err(Error::UnknownVersion(text.to_owned())),
        None => Err(Error::InvalidVersion(text.to_owned())),
    }
}

/// The three numbers of a semantic version; a pre-release counts as an unknown version.
fn numbers(text: &str) -> Option<[u8; 3]> {
    let (release, suffix) = text
        .split_once(['-', '+'])
        .map_or((text, None), |(release, suffix)| (release, Some(suffix)));
    let mut parts = release.split('.');
    let mut next = || parts.next()?.parse::<u8>().ok();
    let numbers = [next()?, next()?, next()?];
    if parts.next().is_some() {
        return None;
    }
    Some(if suffix.is_some() { [0, 0, 0] } else { numbers })
}

/// Members of specification 3.x and the minor version they came with; `*` stands for each item of a
/// list.
const SINCE: &[(u8, &[&str])] = &[
    (1, &["ignition", "proxy"]),
    (1, &["ignition", "config", "merge", "*", "compression"]),
    (1, &["ignition", "config", "merge", "*", "httpHeaders"]),
    (1, &["ignition", "config", "replace", "compression"]),
    (1, &["ignition", "config", "replace", "httpHeaders"]),
    (
        1,
        &[
            "ignition",
            "security",
            "tls",
            "certificateAuthorities",
            "*",
            "compression",
        ],
    ),
    (
        1,
        &[
            "ignition",
            "security",
            "tls",
            "certificateAuthorities",
            "*",
            "httpHeaders",
        ],
    ),
    (1, &["storage", "files", "*", "contents", "httpHeaders"]),
    (1, &["storage", "files", "*", "append", "*", "httpHeaders"]),
    (1, &["storage", "filesystems", "*", "mountOptions"]),
    (2, &["passwd", "groups", "*", "shouldExist"]),
    (2, &["passwd", "users", "*", "shouldExist"]),
    (2, &["storage", "disks", "*", "partitions", "*", "resize"]),
    (2, &["storage", "luks"]),
    (3, &["kernelArguments"]),
    (
        4,
        &[
            "storage",
            "luks",
            "*",
            "clevis",
            "tang",
            "*",
            "advertisement",
        ],
    ),
    (4, &["storage", "luks", "*", "discard"]),
    (4, &["storage", "luks", "*", "openOptions"]),
    (5, &["storage", "luks", "*", "cex"]),
];

/// Takes out what a configuration of version 3.`minor` cannot say: the reader of that version would
/// not have seen it either.
pub(super) fn drop_newer(value: &mut Value, minor: u8) -> Vec<Warning> {
    let mut dropped = Vec::new();
    for (since, member) in SINCE {
        if *since > minor {
            remove(value, member, "", &mut dropped);
        }
    }
    dropped
        .into_iter()
        .map(|field| Warning {
            field,
            text: format!("is not known in specification 3.{minor}.0 and is left out"),
        })
        .collect()
}

fn remove(value: &mut Value, member: &[&str], at: &str, dropped: &mut Vec<String>) {
    let Some((head, rest)) = member.split_first() else {
        return;
    };
    if *head == "*" {
        for (index, item) in value.as_array_mut().into_iter().flatten().enumerate() {
            remove(item, rest, &format!("{at}[{index}]"), dropped);
        }
        return;
    }
    let Some(object) = value.as_object_mut() else {
        return;
    };
    let field = if at.is_empty() {
        (*head).to_owned()
    } else {
        format!("{at}.{head}")
    };
    if rest.is_empty() {
        if object.remove(*head).is_some() {
            dropped.push(field);
        }
    } else if let Some(inner) = object.get_mut(*head) {
        remove(inner, rest, &field, dropped);
    }
}

#[cfg(test)]
mod tests;
