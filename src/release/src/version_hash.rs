//! `versionHash`: a short name of the manifests that a cluster applies.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// A hash of manifests, in the order of their application.
///
/// Shape: FNV-1 of 64 bits over their JSON, printed as padded URL-safe base64 of the eight bytes,
/// highest first. Source: `status.versionHash` of ClusterVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionHash(u64);

impl Default for VersionHash {
    fn default() -> Self {
        Self(OFFSET)
    }
}

impl VersionHash {
    /// The hash with these bytes behind the ones before.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        let step = |hash: u64, byte: &u8| hash.wrapping_mul(PRIME) ^ u64::from(*byte);
        Self(bytes.iter().fold(self.0, step))
    }

    /// The hash as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for VersionHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&URL_SAFE.encode(self.0.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: test vectors of FNV-1 64 by its authors.
    #[test]
    fn hash_is_fnv_1() {
        for (text, expected) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_bd4c_8601_b7be),
            ("foobar", 0x340d_8765_a4dd_a9c2),
        ] {
            let hash = VersionHash::default().with(text.as_bytes());
            assert_eq!(hash.as_u64(), expected, "{text}");
        }
        let hash = VersionHash::default().with(b"foo").with(b"bar");
        assert_eq!(hash.to_string(), "NA2HZaTdqcI=");
    }
}
