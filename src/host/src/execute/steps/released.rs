//! Units whose files a plan releases. A unit that the plan removed is stopped; one that is absent
//! for another reason is an error.

use std::collections::BTreeSet;

use node_update::plan::QUADLETS;

use crate::systemd::links;

/// The units whose files the steps so far released, and the container units that they wrote.
#[derive(Debug, Default)]
pub(super) struct ReleasedUnits {
    /// Names of released files, and of the units that systemd's generator makes of the files of
    /// container units, unless those files name their units themselves.
    names: BTreeSet<String>,
    /// Whether files of container units were released: they may name their units themselves.
    quadlets: bool,
    /// Whether files of container units were written: the generator may have refused one, so an
    /// absent unit need not be a released one.
    wrote_quadlets: bool,
}

impl ReleasedUnits {
    /// Notes a file that a step wrote.
    pub(super) fn wrote(&mut self, path: &str) {
        self.wrote_quadlets |= path.starts_with(QUADLETS);
    }

    /// Notes a file that a step released.
    ///
    /// Source of the units' names: podman-systemd.unit(5).
    pub(super) fn released(&mut self, path: &str) {
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

    /// Whether the released files may include the file of `unit`, which is absent now.
    pub(super) fn may_include(&self, unit: &str) -> bool {
        let is_named = self.names.contains(unit) || self.names.contains(&links::template_of(unit));
        is_named || self.quadlets && !self.wrote_quadlets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_unit_is_distinguished_from_a_refused_one() {
        for (path, written, unit, is_released) in [
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
            let mut released = ReleasedUnits::default();
            released.released(path);
            if let Some(written) = written {
                released.wrote(&format!("{QUADLETS}{written}.container"));
            }
            assert_eq!(released.may_include(unit), is_released, "{path}: {unit}");
        }
    }
}
