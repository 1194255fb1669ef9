//! What a build is called, and the digest of an image's content.

use sha2::{Digest as _, Sha256};

/// Hexadecimal digits in a name: half of a SHA-256.
const NAME_DIGITS: usize = 32;

/// Most characters of a label's value and of a Job's name.
///
/// Source: Kubernetes documentation, "Labels and Selectors"; Job `metadata.name`, which becomes a
/// label of its pods.
pub const LABEL_CHARS: usize = 63;

/// A digest over parts, each with its length, so that no two lists of parts are alike.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartHash(Sha256);

impl PartHash {
    pub(crate) fn part(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    /// SHA-256 in hexadecimal digits.
    pub(crate) fn finish(self) -> String {
        hex::encode(self.0.finalize())
    }
}

/// The name of the build of an image for a rendered configuration: `<config>-<32 digits>`, in
/// hexadecimal.
pub fn build_name(config: &str, content: &str, rendered: &str) -> String {
    let hash = PartHash::default()
        .part(content.as_bytes())
        .part(rendered.as_bytes())
        .finish();
    format!("{config}-{}", hash.get(..NAME_DIGITS).unwrap_or(&hash))
}

/// A text of at most so many characters: the text itself where it is short, else its beginning and
/// a digest of the whole.
///
/// Shape: ASCII, as names of objects are; `most` is more than 33.
pub fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let hash = PartHash::default().part(text.as_bytes()).finish();
    let hash = hash.get(..NAME_DIGITS).unwrap_or(&hash);
    let begin = text.get(..most.saturating_sub(NAME_DIGITS + 1));
    let begin = begin.unwrap_or_default();
    // A name has a letter or digit before its dash.
    format!("{}-{hash}", begin.trim_end_matches(['-', '.', '_']))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_depends_on_content_and_configuration() {
        let name = build_name("worker", "abc", "rendered-worker-1");
        assert_eq!(name.len(), "worker-".len() + 32);
        assert_eq!(name, build_name("worker", "abc", "rendered-worker-1"));
        assert_ne!(name, build_name("worker", "abd", "rendered-worker-1"));
        assert_ne!(name, build_name("worker", "abc", "rendered-worker-2"));
        assert_ne!(name, build_name("worker", "abcr", "endered-worker-1"));
    }

    proptest! {
        #[test]
        fn cut_texts_are_short_and_differ(a in "[a-z0-9.-]{1,200}", b in "[a-z0-9.-]{1,200}") {
            for most in [LABEL_CHARS, 128] {
                let (short, other) = (cut(&a, most), cut(&b, most));
                prop_assert!(short.len() <= most, "{short}");
                prop_assert_eq!(a == b, short == other);
                prop_assert!(a.len() > most || short == a);
            }
        }
    }
}
