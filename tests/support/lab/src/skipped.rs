//! What a run did not prove, because something is missing that need not be there.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Write as _, stderr};

use anyhow::{Context as _, Result, bail};

/// Set to `1`: what would be skipped fails.
const REQUIRE: &str = "SLIPWAY_REQUIRE_DATA";

/// A file that gets a line for all that is skipped: the harness keeps what a test prints.
const LIST: &str = "SLIPWAY_SKIPPED";

/// Says that something was skipped, in a line that begins with `skipped: `.
///
/// # Errors
///
/// `SLIPWAY_REQUIRE_DATA` is `1`, or the file named by `SLIPWAY_SKIPPED` cannot be written.
pub fn skipped(what: &str) -> Result<()> {
    let list = std::env::var_os(LIST).filter(|list| !list.is_empty());
    let require = std::env::var_os(REQUIRE);
    record(what, require.as_deref(), list.as_deref(), stderr())
}

fn record(
    what: &str,
    require: Option<&OsStr>,
    list: Option<&OsStr>,
    mut notices: impl std::io::Write,
) -> Result<()> {
    if require == Some(OsStr::new("1")) {
        bail!("{REQUIRE}=1, and this would be skipped: {what}");
    }
    let line = format!("skipped: {what}\n");
    // Where standard error is closed, nothing reads it.
    drop(notices.write_all(line.as_bytes()));
    if let Some(list) = list {
        // One write, so that lines of several processes do not mix.
        File::options()
            .append(true)
            .create(true)
            .open(list)
            .and_then(|mut list| list.write_all(line.as_bytes()))
            .with_context(|| format!("cannot write into {}", list.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_skipped_is_listed_unless_it_is_required() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("skipped");
        let mut notices = Vec::new();
        for (what, list) in [("a", Some(&list)), ("b", Some(&list)), ("c", None)] {
            let list = list.map(|list| list.as_os_str());
            record(what, Some(OsStr::new("0")), list, &mut notices).unwrap();
        }
        let notices = String::from_utf8(notices).unwrap();
        assert_eq!(notices, "skipped: a\nskipped: b\nskipped: c\n");
        let required = Some(OsStr::new("1"));
        let error = record("d", required, Some(list.as_os_str()), Vec::new()).unwrap_err();
        assert!(error.to_string().ends_with("skipped: d"), "{error}");
        let listed = std::fs::read_to_string(list).unwrap();
        assert_eq!(listed, "skipped: a\nskipped: b\n");
    }
}
