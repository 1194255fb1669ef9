//! SHA-256 of an image's manifest or blob, as registries name it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A digest: `sha256:` and 64 lowercase hexadecimal digits.
///
/// Source: OCI image specification, "Descriptor". Other algorithms are not in use for releases.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageDigest(String);

/// The only algorithm, with what separates it from the digits.
const PREFIX: &str = "sha256:";

/// Digits of a SHA-256.
const DIGITS: usize = 64;

/// A text is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no digest: \"sha256:\" and 64 digits of 0-9a-f")]
pub struct Error(String);

impl ImageDigest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_sha256(&Sha256::digest(bytes))
    }

    /// The digest with these 32 bytes, as a hash that was fed piece by piece yields them.
    pub fn from_sha256(hash: &[u8]) -> Self {
        let mut text = PREFIX.to_owned();
        for byte in hash {
            for half in [byte >> 4, byte & 15] {
                text.extend(char::from_digit(u32::from(half), 16));
            }
        }
        Self(text)
    }

    /// Its 64 digits, without the algorithm.
    pub fn hex(&self) -> &str {
        self.0.strip_prefix(PREFIX).unwrap_or(&self.0)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ImageDigest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digits = text.strip_prefix(PREFIX).unwrap_or_default();
        let is_digest = digits.len() == DIGITS
            && digits
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if is_digest {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error(text.to_owned()))
        }
    }
}

impl TryFrom<String> for ImageDigest {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<ImageDigest> for String {
    fn from(digest: ImageDigest) -> Self {
        digest.0
    }
}

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_bytes_is_known() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(ImageDigest::of(b"").as_str(), empty);
        assert_eq!(empty.parse(), Ok(ImageDigest::of(b"")));
        assert_eq!(ImageDigest::of(b"").hex().len(), 64);
    }

    #[test]
    fn other_texts_are_no_digests() {
        let digits = "0123456789abcdef".repeat(4);
        for text in [
            "",
            "sha256:",
            &digits,
            &format!("sha512:{digits}"),
            &format!("sha256:{digits}0"),
            &format!("sha256:{}", digits.to_uppercase()),
            &format!("sha256:{}g", "0".repeat(63)),
            &format!(" sha256:{digits}"),
        ] {
            assert!(text.parse::<ImageDigest>().is_err(), "{text}");
        }
    }
}
