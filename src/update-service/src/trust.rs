//! Whose signature graph data needs: a tag moves to whatever its registry says.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use release::ImageDigest;
use signatures::{Keyring, store, verify};

/// Whose signature an image needs, and where its signatures are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageTrust {
    /// Public keys, armoured or binary: one of them has signed the image.
    pub keyring: PathBuf,
    /// Directory with `sha256=<hex>/signature-<n>`.
    pub signatures: PathBuf,
}

impl ImageTrust {
    /// Checks that one of the keys has signed an image, as of `now`. Files are read each time.
    ///
    /// # Errors
    /// A file cannot be read; or why each signature does not count.
    pub fn check(&self, digest: &ImageDigest, now: Timestamp) -> anyhow::Result<()> {
        let shown = self.keyring.display().to_string();
        let keys = read(&self.keyring)?;
        let keyring = Keyring::parse(&shown, &keys)?;
        let found = store::read(&self.signatures, digest)?;
        let verified = verify(digest, None, &[keyring], &found, now);
        verified.map(|_| ()).map_err(|error| {
            let directory = self.signatures.display();
            let reasons = error.reasons.join("; ");
            anyhow!("{error}, by the signatures in {directory}: {reasons}")
        })
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "../signatures/src/testdata/key-of-gpg.asc";
    const OTHER_KEY: &str = "../signatures/src/testdata/key-sha1-2018.asc";
    const SIGNATURE: &[u8] = include_bytes!("../../signatures/src/testdata/signature-by-gpg");

    #[test]
    fn image_needs_a_signature_by_a_key_of_the_ring() {
        let now: Timestamp = "2024-01-03T00:00:00Z".parse().unwrap();
        let place = tempfile::tempdir().unwrap();
        let trust = |key: &str| ImageTrust {
            keyring: Path::new(env!("CARGO_MANIFEST_DIR")).join(key),
            signatures: place.path().to_owned(),
        };
        let checked = |trust: &ImageTrust, digest: &ImageDigest| {
            let checked = trust.check(digest, now);
            checked.map_err(|error| format!("{error:#}"))
        };
        // Of which image the signature is.
        let signed = ImageDigest::of(b"");
        let unsigned = checked(&trust(KEY), &signed).unwrap_err();
        assert!(unsigned.ends_with("there is no signature"), "{unsigned}");
        let path = place.path().join(format!("sha256={}", signed.hex()));
        store::add(place.path(), &signed, SIGNATURE).unwrap();
        assert_eq!(checked(&trust(KEY), &signed), Ok(()));
        let foreign = checked(&trust(OTHER_KEY), &signed).unwrap_err();
        assert!(foreign.contains("no key of keyring"), "{foreign}");
        // The same signature under the name of another image.
        let other = ImageDigest::of(b"other");
        let renamed = place.path().join(format!("sha256={}", other.hex()));
        std::fs::rename(path, renamed).unwrap();
        let moved = checked(&trust(KEY), &other).unwrap_err();
        assert!(moved.contains("signature 1, keyring "), "{moved}");
        let missing = checked(&trust("none.asc"), &signed).unwrap_err();
        assert!(missing.starts_with("cannot read "), "{missing}");
    }
}
