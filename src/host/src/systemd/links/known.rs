//! What is plain from the links of all directories of unit files.

use std::collections::BTreeSet;

use node_update::well_known::UNITS;

use super::{UNIT_PATHS, is_wanted, template_of};
use crate::files::{Error, Location, Root};

/// The links of all directories of unit files, read once: what is plain from them need not be asked
/// of systemd, which reads them all for each unit that it is asked for.
#[derive(Debug, Default)]
pub struct KnownLinks {
    /// Names of links in directories such as `<unit>.wants` below `/etc`.
    wanted: BTreeSet<String>,
    /// Names and targets of all other links, and targets of those.
    others: BTreeSet<String>,
    /// There is one that cannot be told.
    is_unclear: bool,
}

impl KnownLinks {
    /// Reads them.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(root: &Root) -> Result<Self, Error> {
        let mut known = Self::default();
        for directory in UNIT_PATHS {
            let top = root.locate(directory)?;
            for name in root.list(&top)? {
                let at = top.below(&name);
                let is_link = known.add(root, &at, &name, false)?;
                if !is_wanted(&name) {
                    continue;
                }
                // What a link leads to is systemd's to say.
                known.is_unclear |= is_link;
                for name in root.list(&at)? {
                    let at = at.below(&name);
                    known.add(root, &at, &name, *directory == UNITS)?;
                }
            }
        }
        Ok(known)
    }

    /// Notes an entry, if it is a link; whether it is.
    fn add(&mut self, root: &Root, at: &Location, name: &str, wants: bool) -> Result<bool, Error> {
        let target = match root.read_link(at) {
            Ok(Some(target)) => target,
            Ok(None) => return Ok(false),
            Err(Error::Path { .. }) => {
                self.is_unclear = true;
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let leads_to = target.rsplit('/').next().unwrap_or_default();
        let known = if wants {
            &mut self.wanted
        } else {
            &mut self.others
        };
        known.insert(name.to_owned());
        if leads_to != name {
            self.others.insert(leads_to.to_owned());
        }
        Ok(true)
    }

    /// The state of a unit that has a file, as `systemctl is-enabled` prints it, where the links
    /// say whether it is enabled: without any it is not, and with none but those by which others
    /// want it, it is. Otherwise `None`.
    pub fn plain_state(&self, unit: &str) -> Option<&'static str> {
        let is_other = self.others.contains(unit) || self.others.contains(&template_of(unit));
        if self.is_unclear || is_other {
            return None;
        }
        Some(if self.wanted.contains(unit) {
            "enabled"
        } else {
            "disabled"
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn host() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let units = dir.path().join("etc/systemd/system");
        fs::create_dir_all(units.join("multi-user.target.wants")).unwrap();
        symlink(
            "/usr/lib/systemd/system/old.service",
            units.join("multi-user.target.wants/old.service"),
        )
        .unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
        fs::write(
            units.join("new.service"),
            "[Unit]\nAlso=no.service\n[Install]\nAlso=new.socket\n",
        )
        .unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        (dir, root)
    }

    #[test]
    fn what_links_say_plainly_is_not_asked_of_systemd() {
        let (dir, root) = host();
        let link = |path: &str, target: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target, path).unwrap();
        };
        let vendor = |unit: &str| format!("/usr/lib/systemd/system/{unit}");
        link(
            "etc/systemd/system/x.wants/on.service",
            &vendor("on.service"),
        );
        link(
            "etc/systemd/system/x.requires/a@1.service",
            &vendor("a@.service"),
        );
        link("etc/systemd/system/alias.service", &vendor("named.service"));
        link("etc/systemd/system/masked.service", "/dev/null");
        link("run/systemd/system/x.wants/until-the-boot.service", "../y");
        link(
            "usr/lib/systemd/system/x.wants/vendor.service",
            "../vendor.service",
        );
        // Another's name for the same file.
        link(
            "etc/systemd/system/x.wants/other.service",
            &vendor("same.service"),
        );
        let state = |unit: &str| KnownLinks::read(&root).unwrap().plain_state(unit);
        assert_eq!(state("on.service"), Some("enabled"));
        assert_eq!(state("off.service"), Some("disabled"));
        for unit in [
            "named",
            "alias",
            "masked",
            "until-the-boot",
            "vendor",
            "same",
            "a@1",
        ] {
            assert_eq!(state(&format!("{unit}.service")), None, "{unit}");
        }
        link("etc/systemd/system/y.wants", "/elsewhere");
        assert_eq!(state("on.service"), None);
    }
}
