//! Limits of inotify, which all systemds and kubelets on one machine share.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

const LIMITS: &str = "/proc/sys/fs/inotify";

/// Limits and what several labs need. A host with a kubelet takes about 20 instances, and the
/// kernel's default is 128 for all processes of a user.
const NEEDED: [(&str, u64); 2] = [("max_user_instances", 8192), ("max_user_watches", 1 << 19)];

/// Raises what is too low, and prints a line for each limit that it raises. They stay raised, so
/// that later labs have nothing to do.
pub(crate) fn raise() -> Result<()> {
    raise_in(Path::new(LIMITS), &mut std::io::stderr())
}

#[expect(
    clippy::disallowed_methods,
    reason = "procfs is no file system to sync"
)]
fn raise_in(limits: &Path, mut notices: impl std::io::Write) -> Result<()> {
    for (name, needed) in NEEDED {
        let path = limits.join(name);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
        let limit: u64 = text
            .trim()
            .parse()
            .with_context(|| format!("cannot read {name}"))?;
        if limit < needed {
            fs::write(&path, needed.to_string())
                .with_context(|| format!("cannot raise fs.inotify.{name} from {limit}"))?;
            // Where standard error is closed, nothing reads it.
            drop(writeln!(
                notices,
                "raised fs.inotify.{name} from {limit} to {needed}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "files of a test")]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_too_low_is_raised_and_said_once() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("max_user_instances"), "128\n").unwrap();
        fs::write(dir.path().join("max_user_watches"), "1048576\n").unwrap();
        let mut notices = Vec::new();
        for _ in 0..2 {
            raise_in(dir.path(), &mut notices).unwrap();
        }
        let of = |name| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(of("max_user_instances"), "8192");
        assert_eq!(of("max_user_watches"), "1048576\n");
        assert_eq!(
            String::from_utf8(notices).unwrap(),
            "raised fs.inotify.max_user_instances from 128 to 8192\n"
        );
    }
}
