//! Files that changed in the origin's `/etc` after the target's was merged from it. They do not come along; whoever changed them is told.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

/// How deep directories may lie in each other: `/etc` has no loops, and nobody nests like that.
const DEPTH_MAX: usize = 64;

/// Files and links below `etc` whose content, mode or owner changed at `since` or later, as paths from `/etc`, in order.
///
/// What was only removed is not seen: nothing is left that says when.
///
/// # Errors
/// A directory cannot be read.
pub fn changed_since(etc: &Path, since: SystemTime) -> io::Result<Vec<String>> {
    let mut changed = Vec::new();
    walk(etc, "/etc", since, 0, &mut changed)?;
    changed.sort();
    Ok(changed)
}

fn walk(
    directory: &Path,
    shown: &str,
    since: SystemTime,
    depth: usize,
    changed: &mut Vec<String>,
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let shown = format!("{shown}/{}", entry.file_name().display());
        let stat = match entry.metadata() {
            // Gone since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            stat => stat?,
        };
        if stat.is_dir() {
            if depth < DEPTH_MAX {
                walk(&entry.path(), &shown, since, depth + 1, changed)?;
            }
        } else if changed_at(&stat).is_some_and(|at| at >= since) {
            changed.push(shown);
        }
    }
    Ok(())
}

/// When content, mode or owner last changed; none before 1970.
fn changed_at(stat: &fs::Metadata) -> Option<SystemTime> {
    let seconds = u64::try_from(stat.ctime()).ok()?;
    let nanoseconds = u32::try_from(stat.ctime_nsec()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::new(seconds, nanoseconds))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_changed_later_is_named() {
        let etc = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = etc.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::File::create(path).unwrap();
        };
        put("early");
        let now = changed_at(&fs::metadata(etc.path().join("early")).unwrap()).unwrap();
        let later = now + Duration::from_nanos(1);
        // The file system's clock moves in steps.
        loop {
            put("deep/late");
            let at = changed_at(&fs::metadata(etc.path().join("deep/late")).unwrap()).unwrap();
            if at >= later {
                break;
            }
        }
        assert_eq!(
            changed_since(etc.path(), later).unwrap(),
            ["/etc/deep/late"]
        );
        let all = changed_since(etc.path(), now).unwrap();
        assert_eq!(all, ["/etc/deep/late", "/etc/early"]);
    }
}
