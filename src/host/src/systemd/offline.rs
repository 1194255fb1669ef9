//! Unit files of a root that is not running.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::{Enablement, Error};
use crate::process::{self, Program};

/// Deadline of a change of links, which takes milliseconds.
const DEADLINE: Duration = Duration::from_mins(1);

/// `systemctl --root`: presets, enabling and disabling by the unit files and presets of that root.
#[derive(Debug, Clone)]
pub struct Offline {
    root: PathBuf,
}

impl Offline {
    /// Unit files below `root`.
    pub fn new(root: PathBuf) -> Self {
        // On a host `/ostree` is a link. systemctl 252 resolves the path of a drop-in, finds that
        // the result is not below the root as it was given, and fails.
        let root = root.canonicalize().unwrap_or(root);
        Self { root }
    }

    /// Changes the links of a unit.
    ///
    /// # Errors
    /// [`Error::Offline`], with what systemctl said.
    pub fn set_enablement(&self, change: Enablement, unit: &str) -> Result<(), Error> {
        self.systemctl(&[change.verb(), unit]).map(drop)
    }

    /// All unit files with their state: `enabled`, `disabled`, `static`, `masked`, …
    ///
    /// # Errors
    /// [`Error::Offline`].
    pub fn unit_files(&self) -> Result<BTreeMap<String, String>, Error> {
        let listing =
            self.systemctl(&["list-unit-files", "--full", "--no-legend", "--no-pager"])?;
        Ok(parse_listing(&String::from_utf8_lossy(&listing)))
    }

    fn systemctl(&self, arguments: &[&str]) -> Result<Vec<u8>, Error> {
        let root = format!("--root={}", self.root.display());
        let arguments = [&[root.as_str()], arguments].concat();
        Ok(process::run(Program::Systemctl, &arguments, DEADLINE).map_err(Box::new)?)
    }
}

/// Lines of `list-unit-files`: name, state, preset.
fn parse_listing(listing: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    listing.lines().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn enabling_makes_links_below_the_root_only() {
        let dir = tempfile::tempdir().unwrap();
        let units = dir.path().join("etc/systemd/system");
        fs::create_dir_all(&units).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
        fs::write(
            units.join("x.service"),
            "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
        )
        .unwrap();
        let offline = Offline::new(dir.path().to_owned());
        let state = |unit| offline.unit_files().unwrap().get(unit).cloned();
        assert_eq!(state("x.service").as_deref(), Some("disabled"));
        offline
            .set_enablement(Enablement::Enable, "x.service")
            .unwrap();
        let link = fs::read_link(units.join("multi-user.target.wants/x.service")).unwrap();
        assert_eq!(link.to_str(), Some("/etc/systemd/system/x.service"));
        assert_eq!(state("x.service").as_deref(), Some("enabled"));
        offline
            .set_enablement(Enablement::Disable, "x.service")
            .unwrap();
        assert_eq!(state("x.service").as_deref(), Some("disabled"));
        assert_eq!(state("none.service"), None);
        offline
            .set_enablement(Enablement::Enable, "none.service")
            .unwrap_err();
    }

    #[test]
    fn a_unit_with_a_dropin_is_enabled_below_a_root_behind_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let units = dir.path().join("real/etc/systemd/system");
        fs::create_dir_all(units.join("x.service.d")).unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        for (name, text) in [
            (
                "x.service",
                "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
            ),
            ("x.service.d/10-more.conf", "[Unit]\nDescription=more\n"),
        ] {
            #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
            fs::write(units.join(name), text).unwrap();
        }
        let offline = Offline::new(dir.path().join("link"));
        offline
            .set_enablement(Enablement::Enable, "x.service")
            .unwrap();
        assert!(units.join("multi-user.target.wants/x.service").is_symlink());
    }
}
