//! What an entry of a file system holds beside content, mode and owner. The kernel takes any bytes
//! where JSON takes text.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Extended attributes of a file by name, such as `security.capability`.
pub type Attributes = BTreeMap<AttributeName, Attribute>;

/// The name of an extended attribute: any bytes but zero, as for the kernel.
///
/// Shape: stored as text, or as hex digits after `hex:` if they are not UTF-8. No namespace of the
/// kernel has that prefix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct AttributeName(Vec<u8>);

/// Prefix of a name that is stored as hex digits.
const HEX: &str = "hex:";

impl AttributeName {
    /// A name that `listxattr` returns.
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<AttributeName> for String {
    fn from(name: AttributeName) -> Self {
        Self::from_utf8(name.0)
            .unwrap_or_else(|error| format!("{HEX}{}", hex::encode(error.into_bytes())))
    }
}

impl TryFrom<String> for AttributeName {
    type Error = hex::FromHexError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(Self(match text.strip_prefix(HEX) {
            Some(digits) => hex::decode(digits)?,
            None => text.into_bytes(),
        }))
    }
}

/// The value of an extended attribute. Stored as hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Attribute(pub Vec<u8>);

impl From<Attribute> for String {
    fn from(value: Attribute) -> Self {
        hex::encode(value.0)
    }
}

impl TryFrom<String> for Attribute {
    type Error = hex::FromHexError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        hex::decode(text).map(Self)
    }
}

/// What a symbolic link points to: any bytes, as for the kernel.
///
/// Shape: stored as text, or as hex digits in the member `hex` if they are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "StoredTarget", try_from = "StoredTarget")]
pub struct LinkTarget(Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredTarget {
    Text(String),
    Bytes { hex: String },
}

impl LinkTarget {
    /// The target that `readlink` returns.
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes of the link.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The target as text; `None` if it is not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl From<&str> for LinkTarget {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl fmt::Display for LinkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl From<LinkTarget> for StoredTarget {
    fn from(target: LinkTarget) -> Self {
        String::from_utf8(target.0).map_or_else(
            |error| Self::Bytes {
                hex: hex::encode(error.into_bytes()),
            },
            Self::Text,
        )
    }
}

impl TryFrom<StoredTarget> for LinkTarget {
    type Error = hex::FromHexError;

    fn try_from(stored: StoredTarget) -> Result<Self, Self::Error> {
        Ok(Self(match stored {
            StoredTarget::Text(text) => text.into_bytes(),
            StoredTarget::Bytes { hex } => hex::decode(hex)?,
        }))
    }
}
