//! What a change gives back, to tell a unit that it took away from one that is not there for another reason.

use std::collections::BTreeSet;

use node_update::plan::QUADLETS;

use crate::systemd::links;

/// What the steps so far gave back and brought.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Names of files given back, and of the units that systemd's generator makes of files of container units, as a rule.
    names: BTreeSet<String>,
    /// Whether files of container units were among them: they may name their units themselves.
    quadlets: bool,
    /// Whether other such files were brought: a unit that is not there may be one that the generator refused.
    brought_quadlets: bool,
}

impl Taken {
    /// A file came.
    pub(super) fn bring(&mut self, path: &str) {
        self.brought_quadlets |= path.starts_with(QUADLETS);
    }

    /// A file was given back.
    ///
    /// Source of the units' names: podman-systemd.unit(5).
    pub(super) fn add(&mut self, path: &str) {
        let name = path.rsplit('/').next().unwrap_or(path);
        if !path.starts_with(QUADLETS) {
            self.names.insert(name.to_owned());
            return;
        }
        self.quadlets = true;
        if let Some((stem, kind)) = name.rsplit_once('.') {
            self.names.insert(match kind {
                "container" | "kube" => format!("{stem}.service"),
                _ => format!("{stem}-{kind}.service"),
            });
        }
    }

    /// Whether a unit that is not there any more was among it.
    pub(super) fn may_have_been(&self, unit: &str) -> bool {
        let is_named = self.names.contains(unit) || self.names.contains(&links::template_of(unit));
        is_named || self.quadlets && !self.brought_quadlets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_a_change_took_away_is_told_from_one_that_is_refused() {
        for (given_back, brought, unit, is_taken) in [
            ("/etc/systemd/system/a.service", None, "a.service", true),
            ("/etc/systemd/system/a@.service", None, "a@1.service", true),
            (
                "/usr/local/lib/systemd/system/a.service",
                None,
                "a.service",
                true,
            ),
            ("/etc/a.conf", None, "a.service", false),
            (
                "/etc/containers/systemd/a.container",
                Some("b"),
                "a.service",
                true,
            ),
            (
                "/etc/containers/systemd/a.volume",
                Some("b"),
                "a-volume.service",
                true,
            ),
            (
                "/etc/containers/systemd/a.container",
                Some("b"),
                "b.service",
                false,
            ),
            // It may have named its unit so.
            (
                "/etc/containers/systemd/a.container",
                None,
                "b.service",
                true,
            ),
        ] {
            let mut taken = Taken::default();
            taken.add(given_back);
            if let Some(brought) = brought {
                taken.bring(&format!("{QUADLETS}{brought}.container"));
            }
            assert_eq!(taken.may_have_been(unit), is_taken, "{given_back}: {unit}");
        }
    }
}
