//! Units that start before those with default dependencies, and the guard, which has to come first.
//!
//! The guard writes or undoes files outside `/etc` between `local-fs.target` and `sysinit.target`.
//! A unit with `DefaultDependencies=no` is therefore ordered after the guard by a drop-in. One that
//! has to run before `local-fs.target` cannot be: it is rejected if it names a file outside `/etc`
//! that changes, for it would run with the old one. Any other unit so early is left alone: it has
//! the deployment and `/etc`, which are complete before the boot.

use std::collections::BTreeMap;

use crate::desired::{Desired, DesiredFile, FILE_MODE};
use crate::paths::belongs_to_image;
use crate::plan::{Digest, FileState, Mode, Owners};
use crate::rejection::Rejection;
use crate::unit_settings::{UnitText, changed_files, named_file, units};
use crate::well_known::{GUARD_DROPIN, GUARD_UNIT, UNITS};

pub(crate) const DROPIN_TEXT: &str = "\
# Slipway writes files outside /etc before this unit starts.
[Unit]
After=slipway-guard.service
";

/// Kinds of units that run a program, or start a unit that does.
const RUNNING: [&str; 4] = ["service", "socket", "timer", "path"];

/// Targets that file systems are mounted before.
const LOCAL_FS: [&str; 2] = ["local-fs.target", "local-fs-pre.target"];

/// Other units that come before `local-fs.target`, or that mounts wait for: the beginning of their
/// names.
///
/// Source: bootup(7), and the units of systemd, ostree and device-mapper.
const BEFORE_LOCAL_FS: [&str; 17] = [
    "systemd-fsck",
    "systemd-remount-fs.",
    "systemd-udev",
    "systemd-tmpfiles-setup-dev",
    "systemd-sysusers.",
    "systemd-makefs@",
    "systemd-mkswap@",
    "systemd-growfs",
    "systemd-quotacheck",
    "systemd-repart.",
    "systemd-cryptsetup",
    "cryptsetup",
    "veritysetup",
    "integritysetup",
    "ostree-remount.",
    "lvm2-",
    "multipathd.",
];

/// Whether it is ordered before `local-fs.target` by itself.
fn is_before_local_fs(unit: &UnitText<'_>) -> bool {
    let mut before = unit.words(&["Before"]);
    let mut by = unit.words(&["WantedBy", "RequiredBy", "UpheldBy"]);
    before.any(precedes_local_fs) || by.any(|target| LOCAL_FS.contains(&target))
}

fn precedes_local_fs(unit: &str) -> bool {
    LOCAL_FS.contains(&unit)
        || unit == GUARD_UNIT
        || kind_of(unit) == "mount"
        || BEFORE_LOCAL_FS.iter().any(|name| unit.starts_with(name))
}

/// The kind of a unit: what its name ends with.
fn kind_of(unit: &str) -> &str {
    unit.rsplit_once('.').map_or("", |(_, kind)| kind)
}

/// Names of the units that are before `local-fs.target`: by themselves, or because one of the
/// configuration's units is that comes after them.
fn early<'a>(units: &BTreeMap<&'a str, UnitText<'_>>) -> Vec<&'a str> {
    let mut early: Vec<&str> = units
        .iter()
        .filter(|(name, text)| precedes_local_fs(name) || is_before_local_fs(text))
        .map(|(name, _)| *name)
        .collect();
    let mut looked_at = 0;
    while let Some(later) = early.get(looked_at).copied() {
        looked_at += 1;
        let after: Vec<&str> = units
            .get(later)
            .map(|text| text.words(&["After"]).collect())
            .unwrap_or_default();
        let found = units.iter().filter(|(name, text)| {
            let is_named = after.contains(name) || text.words(&["Before"]).any(|of| of == later);
            is_named && !early.contains(name)
        });
        let found: Vec<&str> = found.map(|(name, _)| *name).collect();
        early.extend(found);
    }
    early
}

/// The drop-ins that order the configuration's units after the guard.
pub(crate) fn dropins(desired: &Desired) -> Vec<DesiredFile> {
    let units = units(desired);
    let early = early(&units);
    units
        .iter()
        .filter(|(name, text)| {
            RUNNING.contains(&kind_of(name)) && text.is_without_defaults() && !early.contains(name)
        })
        .filter_map(|(name, text)| {
            Some(DesiredFile {
                path: format!("{UNITS}/{name}.d/{GUARD_DROPIN}"),
                state: FileState {
                    digest: Digest::of(DROPIN_TEXT.as_bytes()),
                    mode: Mode(FILE_MODE),
                    owner: Owners::ROOT,
                },
                subject: *text.subject?,
                is_own: true,
            })
        })
        .collect()
}

/// Why a configuration cannot follow another: units that run before the guard can write what they
/// name.
pub(crate) fn rejections(before: &Desired, after: &Desired) -> Vec<Rejection> {
    let mut changed = changed_files(before, after);
    // What an image brings is complete before the boot, too.
    changed.retain(|path| !path.starts_with("/etc/") && !belongs_to_image(path));
    if changed.is_empty() {
        return Vec::new();
    }
    let units = units(after);
    let early = early(&units);
    let early = units.iter().filter(|(name, text)| {
        RUNNING.contains(&kind_of(name)) && text.is_without_defaults() && early.contains(name)
    });
    early
        .filter_map(|(name, text)| {
            let path = named_file(after, text, &changed)?;
            let why = format!(
                "unit {name} starts before local-fs.target, and {path} changes after that: \
                 the unit would run with the old file"
            );
            Some(Rejection::new(*text.subject?, why))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use machineconfig::spec::Spec;
    use serde_json::{Value, json};

    use super::*;
    use crate::decode::decode;

    fn desired(files: &Value, units: &Value) -> Desired {
        let config = json!({"ignition": {"version": "3.5.0"},
            "storage": {"files": files}, "systemd": {"units": units}});
        decode(&Spec::parse(&json!({"config": config})).unwrap().0).0
    }

    fn unit(name: &str, of_unit: &str, rest: &str) -> Value {
        let contents =
            format!("[Unit]\n{of_unit}\n[Service]\nExecStart=/usr/local/bin/x a\n{rest}");
        json!({"name": name, "contents": contents, "enabled": true})
    }

    fn script(path: &str, text: &str) -> Value {
        json!({"path": path, "contents": {"source": format!("data:,{text}")}, "mode": 0o755})
    }

    #[test]
    fn units_without_default_dependencies_are_ordered_after_the_guard() {
        const NO: &str = "DefaultDependencies=no";
        let dropin = |name: &str| format!("{UNITS}/{name}.d/50-slipway-guard.conf");
        for (unit, expected) in [
            (unit("a.service", NO, ""), Some("a.service")),
            (unit("a@.service", NO, ""), Some("a@.service")),
            (
                unit("a.timer", "DefaultDependencies=false", ""),
                Some("a.timer"),
            ),
            (
                unit(
                    "a.service",
                    "DefaultDependencies=no\nDefaultDependencies=yes",
                    "",
                ),
                None,
            ),
            (unit("a.service", "", ""), None),
            (unit("a.mount", NO, ""), None),
            // Ordered before what the guard comes after: a drop-in would be a cycle.
            (
                unit(
                    "a.service",
                    "DefaultDependencies=no\nBefore=x.service local-fs.target",
                    "",
                ),
                None,
            ),
            (
                unit(
                    "a.service",
                    "DefaultDependencies=no\nBefore=systemd-fsck@dev-sdb.service",
                    "",
                ),
                None,
            ),
            (
                unit("a.service", NO, "[Install]\nRequiredBy=local-fs.target\n"),
                None,
            ),
            (
                json!({"name": "a.service", "mask": true, "dropins": [{"name": "b.conf", "contents": "[Unit]\nDefaultDependencies=no\n"}]}),
                None,
            ),
            // Of the OS, with a drop-in of the configuration.
            (
                json!({"name": "a.service", "dropins": [{"name": "b.conf", "contents": "[Unit]\nDefaultDependencies=no\n"}]}),
                Some("a.service"),
            ),
        ] {
            let desired = desired(&json!([]), &json!([unit]));
            let own = desired.files.iter().filter(|file| file.is_own);
            let paths: Vec<&str> = own.map(|file| file.path.as_str()).collect();
            let expected: Vec<String> = expected.map(dropin).into_iter().collect();
            assert_eq!(paths, expected, "{unit}");
        }
    }

    #[test]
    fn what_a_mount_of_the_configuration_waits_for_is_before_local_fs_too() {
        let mount = json!({"name": "var-lib-etcd.mount",
            "contents": "[Unit]\nAfter=second.service\n[Mount]\nWhat=/dev/sdb\nWhere=/var/lib/etcd\n"});
        let units = json!([
            mount,
            unit(
                "first.service",
                "DefaultDependencies=no\nBefore=second.service",
                ""
            ),
            unit("second.service", "DefaultDependencies=no", ""),
            unit(
                "third.service",
                "DefaultDependencies=no\nAfter=second.service",
                ""
            ),
        ]);
        let desired = desired(&json!([]), &units);
        let own = desired.files.iter().filter(|file| file.is_own);
        let paths: Vec<&str> = own.map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            [format!("{UNITS}/third.service.d/50-slipway-guard.conf")]
        );
    }

    #[test]
    fn a_unit_before_local_fs_is_rejected_if_it_names_a_file_that_changes_later() {
        let early = unit(
            "early.service",
            "DefaultDependencies=no\nBefore=local-fs-pre.target",
            "",
        );
        let late = unit("late.service", "DefaultDependencies=no", "");
        let old = desired(&json!([script("/usr/local/bin/x", "1")]), &json!([]));
        let why = |files: &Value, units: &Value| {
            let rejections = rejections(&old, &desired(files, units));
            rejections
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let other = json!([script("/usr/local/bin/x", "2")]);
        let text = "spec.config.systemd.units[0]: unit early.service starts before local-fs.target, \
                    and /usr/local/bin/x changes after that: the unit would run with the old file";
        assert_eq!(why(&other, &json!([early])), [text]);
        assert_eq!(why(&json!([]), &json!([early])), [text], "a file that goes");
        assert_eq!(why(&other, &json!([late])), [""; 0]);
        // The file does not change, or is another than the unit names.
        assert_eq!(
            why(&json!([script("/usr/local/bin/x", "1")]), &json!([early])),
            [""; 0]
        );
        let longer = json!([
            script("/usr/local/bin/x", "1"),
            script("/usr/local/bin/x.sh", "2")
        ]);
        assert_eq!(why(&longer, &json!([early])), [""; 0]);
        // By way of a script in `/etc`.
        let through = json!({"name": "through.service", "enabled": true, "contents":
            "[Unit]\nDefaultDependencies=no\nBefore=local-fs.target\n[Service]\nExecStart=/etc/run\n"});
        let files = json!([
            script("/etc/run", "exec%20/usr/local/bin/x"),
            script("/usr/local/bin/x", "2")
        ]);
        assert_eq!(why(&files, &json!([through])).len(), 1);
    }
}
