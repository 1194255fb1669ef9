//! Signatures in directories, as servers of them lay them out:
//! `<store>/sha256=<hex>/signature-<n>`.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use release::ImageDigest;

/// The highest number that is requested.
const LAST: u32 = 9;

/// Largest signature that is read. One is some hundred bytes to some kilobytes.
const MAX_BYTES: u64 = 50 << 10;

/// What may go wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried, such as `read`.
        what: &'static str,
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    #[error("{} has {LAST} signatures, and more are not asked for", .0.display())]
    Full(PathBuf),
    /// A file is larger than any signature.
    #[error("{} is larger than {MAX_BYTES} bytes", .0.display())]
    TooLarge(PathBuf),
}

/// The directory of an image's signatures.
fn directory(store: &Path, digest: &ImageDigest) -> PathBuf {
    store.join(format!("sha256={}", digest.hex()))
}

/// The signatures of an image; the first number that is missing ends them.
///
/// # Errors
/// [`Error::File`], [`Error::TooLarge`].
pub fn read(store: &Path, digest: &ImageDigest) -> Result<Vec<Vec<u8>>, Error> {
    let mut signatures = Vec::new();
    for number in 1..=LAST {
        let path = directory(store, digest).join(format!("signature-{number}"));
        let failed = |source| Error::File {
            what: "read",
            path: path.clone(),
            source,
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) => return Err(failed(error)),
        };
        let mut bytes = Vec::new();
        let taken = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        taken.map_err(failed)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(Error::TooLarge(path));
        }
        signatures.push(bytes);
    }
    Ok(signatures)
}

/// Adds a signature of an image under the first number that is free; where it is.
///
/// # Errors
/// [`Error::File`], [`Error::Full`].
pub fn add(store: &Path, digest: &ImageDigest, signature: &[u8]) -> Result<PathBuf, Error> {
    let directory = directory(store, digest);
    let failed = |path: &Path, source| Error::File {
        what: "write",
        path: path.to_owned(),
        source,
    };
    fs::create_dir_all(&directory).map_err(|source| failed(&directory, source))?;
    let written = || {
        let mut file = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(&directory)?;
        file.write_all(signature)?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    let mut file = written().map_err(|source| failed(&directory, source))?;
    for number in 1..=LAST {
        let path = directory.join(format!("signature-{number}"));
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => file = error.file,
            Err(error) => return Err(failed(&path, error.error)),
        }
    }
    Err(Error::Full(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_numbered_up_to_nine() {
        let store = tempfile::tempdir().unwrap();
        let digest = ImageDigest::of(b"image");
        assert_eq!(read(store.path(), &digest).unwrap(), Vec::<Vec<u8>>::new());
        let expected: Vec<Vec<u8>> = (1..=9_u8).map(|number| vec![number]).collect();
        for bytes in &expected {
            let path = add(store.path(), &digest, bytes).unwrap();
            let name = format!("sha256={}/signature-{}", digest.hex(), bytes[0]);
            assert_eq!(path, store.path().join(name));
        }
        assert_eq!(read(store.path(), &digest).unwrap(), expected);
        let full = add(store.path(), &digest, b"x").unwrap_err();
        assert!(
            full.to_string()
                .ends_with("has 9 signatures, and more are not asked for")
        );
        assert!(
            read(store.path(), &ImageDigest::of(b"other"))
                .unwrap()
                .is_empty()
        );
        // What failed left nothing behind.
        let names = fs::read_dir(store.path().join(format!("sha256={}", digest.hex())));
        assert_eq!(names.unwrap().count(), 9);
    }

    #[test]
    fn first_missing_number_ends_them() {
        let store = tempfile::tempdir().unwrap();
        let digest = ImageDigest::of(b"image");
        for bytes in [b"1", b"2", b"3"] {
            add(store.path(), &digest, bytes).unwrap();
        }
        fs::remove_file(directory(store.path(), &digest).join("signature-2")).unwrap();
        assert_eq!(read(store.path(), &digest).unwrap(), [b"1"]);
        // The free number is filled.
        add(store.path(), &digest, b"4").unwrap();
        assert_eq!(read(store.path(), &digest).unwrap(), [b"1", b"4", b"3"]);
    }

    #[test]
    fn large_file_is_refused() {
        let store = tempfile::tempdir().unwrap();
        let digest = ImageDigest::of(b"image");
        add(store.path(), &digest, &vec![0; 51_201]).unwrap();
        assert!(matches!(
            read(store.path(), &digest),
            Err(Error::TooLarge(_))
        ));
    }
}
