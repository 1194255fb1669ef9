//! The file that says how fast an image is fetched.
//!
//! Shape: bytes a second, in digits. Without the file there is no limit. It is read again all the
//! time, so that a fetch under way takes up a change.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A limit cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InvalidLimit {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file says something else.
    #[error("{} has {text:?}, which is no number of bytes a second above 0", path.display())]
    Value { path: PathBuf, text: String },
}

/// Reads a limit, in bytes a second; none without the file.
///
/// # Errors
/// [`InvalidLimit`].
pub fn read_limit(path: &Path) -> Result<Option<NonZeroU64>, InvalidLimit> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            let path = path.to_owned();
            return Err(InvalidLimit::Read { path, source });
        }
    };
    let parsed = text.trim_end().parse().ok();
    parsed.map(Some).ok_or_else(|| InvalidLimit::Value {
        path: path.to_owned(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_limit_is_digits_and_anything_else_is_named_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("limit");
        assert_eq!(read_limit(&path).unwrap(), None);
        let write = |text: &str| {
            let mut file = fs::File::create(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            read_limit(&path)
        };
        assert_eq!(write("20000000\n").unwrap(), NonZeroU64::new(20_000_000));
        for bad in ["", "0", "20M", "-1", "1.5", "1 2"] {
            let error = write(bad).unwrap_err().to_string();
            let expected = format!(
                "{} has {bad:?}, which is no number of bytes a second above 0",
                dir.path().join("limit").display()
            );
            assert_eq!(error, expected);
        }
        let error = read_limit(dir.path()).unwrap_err().to_string();
        assert_eq!(error, format!("cannot read {}", dir.path().display()));
    }
}
