//! Masks and enablement: what changes of a unit besides its files.
//!
//! On a running system only units of which something else is desired than before are touched
//! (`docs/reference/daemon.md`, "Units"): a unit that is disabled and enabled again for nothing is
//! a unit that a power cut leaves disabled.
//!
//! Enabling and disabling take others along: what `[Install]` names in `Also=`, and all instances
//! of a template. First what is to be enabled, then what is not, as OpenShift's MCO; then once more
//! what is to be enabled and is not any more: what a unit of the OS takes along is known on the
//! host only.

use crate::desired::{Desired, DesiredUnit};
use crate::plan::{Action, QUADLETS};
use crate::well_known::UNITS;

/// Steps about units, before and after the files are written.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// While the old files are there: links that they made are removed, drop-ins that must go are
    /// restored.
    pub before_files: Vec<Action>,
    /// When the new files are there: masks, then enablement.
    pub after_files: Vec<Action>,
}

impl Changes {
    /// What changes from `before` to `after`; with `all`, everything that `after` says of units is
    /// done again.
    pub(super) fn between(before: &Desired, after: &Desired, all: bool) -> Self {
        let mut changes = Self::default();
        let (mut presets, mut disables, mut enables) = (Vec::new(), Vec::new(), Vec::new());
        for unit in &after.units {
            let old = before.unit(&unit.name);
            changes.links(old, Some(unit));
            changes.dropins(before, old, unit, all);
            changes.mask(after, old, unit, all);
            let name = unit.name.clone();
            match unit.enabled {
                _ if unit.is_masked() => {}
                Some(true) if all || is_other(old, unit) => {
                    enables.push(Action::EnableUnit { unit: name });
                }
                Some(false) if all || is_other(old, unit) => {
                    disables.push(Action::DisableUnit { unit: name });
                }
                None if wants_preset(old, unit) => presets.push(Action::PresetUnit { unit: name }),
                _ => {}
            }
        }
        for old in before
            .units
            .iter()
            .filter(|old| after.unit(&old.name).is_none())
        {
            changes.links(Some(old), None);
            if old.is_masked() {
                changes.restore(after, &old.path);
            }
            // What the OS has under this name is enabled as the OS says.
            if old.has_contents || old.is_masked() || old.enabled.is_some() {
                presets.push(Action::PresetUnit {
                    unit: old.name.clone(),
                });
            }
        }
        // Said of all, enabling comes after these.
        let earlier = changes
            .before_files
            .iter()
            .any(|action| matches!(action, Action::DisableUnit { .. }))
            || !presets.is_empty();
        let is_unlinked = !disables.is_empty() || (!all && earlier);
        changes.after_files.extend(presets);
        changes.after_files.extend(enables);
        changes.after_files.extend(disables);
        if is_unlinked {
            let on = after
                .units
                .iter()
                .filter(|unit| unit.enabled == Some(true) && !unit.is_masked());
            changes
                .after_files
                .extend(on.map(|unit| Action::KeepUnitEnabled {
                    unit: unit.name.clone(),
                }));
        }
        changes
    }

    /// Takes away the links that enabling the old file made, where the new one would not make them
    /// or is not there.
    fn links(&mut self, old: Option<&DesiredUnit>, new: Option<&DesiredUnit>) {
        let made = old.filter(|old| !old.install.is_empty() && old.enabled != Some(false));
        if let Some(old) = made
            && new.is_none_or(|new| new.install != old.install)
        {
            self.before_files.push(Action::DisableUnit {
                unit: old.name.clone(),
            });
        }
    }

    /// Restores drop-ins that the configuration names without text; those that the old one wrote go
    /// with its files.
    fn dropins(
        &mut self,
        before: &Desired,
        old: Option<&DesiredUnit>,
        new: &DesiredUnit,
        all: bool,
    ) {
        for path in &new.removed_dropins {
            let known = old.is_some_and(|old| old.removed_dropins.contains(path));
            if before.file(path).is_none() && (all || !known) {
                self.before_files
                    .push(Action::ReleaseFile { path: path.clone() });
            }
        }
    }

    /// Restores the path of a mask, unless a file has taken it already.
    fn restore(&mut self, after: &Desired, path: &str) {
        if after.file(path).is_none() {
            let path = path.to_owned();
            self.after_files.push(Action::ReleaseFile { path });
        }
    }

    fn mask(&mut self, after: &Desired, old: Option<&DesiredUnit>, new: &DesiredUnit, all: bool) {
        let was_masked = old.is_some_and(DesiredUnit::is_masked);
        let unit = new.name.clone();
        if new.is_masked() {
            if all || !was_masked {
                self.after_files.push(Action::MaskUnit { unit });
            }
        } else if !new.has_contents {
            if was_masked {
                self.restore(after, &new.path);
            }
            let said = old.is_some_and(|old| old.mask == Some(false));
            if new.mask == Some(false) && (all || !said) {
                self.after_files.push(Action::UnmaskUnit { unit });
            }
        }
    }
}

/// Whether enablement must be seen to again: another wish, another `[Install]`, or a unit that was
/// not there to be enabled.
fn is_other(old: Option<&DesiredUnit>, new: &DesiredUnit) -> bool {
    old.is_none_or(|old| {
        old.enabled != new.enabled
            || old.install != new.install
            || old.has_contents != new.has_contents
            || old.is_masked()
    })
}

/// Whether the presets of the OS must decide again. A unit that gets nothing but a drop-in keeps
/// the enablement it has.
fn wants_preset(old: Option<&DesiredUnit>, new: &DesiredUnit) -> bool {
    match old {
        None => new.has_contents,
        Some(old) => {
            old.enabled.is_some()
                || old.is_masked()
                || old.has_contents != new.has_contents
                || old.install != new.install
        }
    }
}

fn is_unit_file(path: &str) -> bool {
    path.strip_prefix(UNITS)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Whether systemd must reload its units after an action.
pub(super) fn is_about_units(action: &Action) -> bool {
    match action {
        Action::WriteFile { path, .. } | Action::ReleaseFile { path } => {
            is_unit_file(path) || path.starts_with(QUADLETS)
        }
        Action::MaskUnit { .. }
        | Action::UnmaskUnit { .. }
        | Action::EnableUnit { .. }
        | Action::KeepUnitEnabled { .. }
        | Action::DisableUnit { .. }
        | Action::PresetUnit { .. } => true,
        Action::WriteAuthorizedKeys { .. }
        | Action::SetPassword { .. }
        | Action::DaemonReload
        | Action::RestartUnit { .. }
        | Action::ReloadUnit { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::decode::decode;
    use machineconfig::spec::Spec;

    const ONE: &str = "[Service]\nNice=1\n[Install]\nWantedBy=one.target\n";
    const OTHER_TEXT: &str = "[Service]\nNice=2\n[Install]\nWantedBy=one.target\n";
    const OTHER_LINKS: &str = "[Service]\nNice=1\n[Install]\nWantedBy=two.target\n";

    fn desired(unit: &Value) -> Desired {
        let mut units = vec![];
        if !unit.is_null() {
            let mut unit = unit.clone();
            unit["name"] = json!("u.service");
            units.push(unit);
        }
        let config = json!({"ignition": {"version": "3.5.0"}, "systemd": {"units": units}});
        decode(&Spec::parse(&json!({"config": config})).unwrap().0).0
    }

    /// Steps as words, with a bar where the files are written.
    fn steps(old: &Value, new: &Value, all: bool) -> String {
        let changes = Changes::between(&desired(old), &desired(new), all);
        let word = |action: &Action| match action {
            Action::MaskUnit { .. } => "mask ".to_owned(),
            Action::UnmaskUnit { .. } => "unmask ".to_owned(),
            Action::EnableUnit { .. } => "enable ".to_owned(),
            Action::KeepUnitEnabled { .. } => "keep ".to_owned(),
            Action::DisableUnit { .. } => "disable ".to_owned(),
            Action::PresetUnit { .. } => "preset ".to_owned(),
            Action::ReleaseFile { path } => {
                format!("release({}) ", path.rsplit('/').next().unwrap())
            }
            Action::WriteFile { .. }
            | Action::WriteAuthorizedKeys { .. }
            | Action::SetPassword { .. }
            | Action::DaemonReload
            | Action::RestartUnit { .. }
            | Action::ReloadUnit { .. } => panic!("{action:?}"),
        };
        let words = |actions: &[Action]| actions.iter().map(word).collect::<String>();
        format!(
            "{}|{}",
            words(&changes.before_files),
            words(&changes.after_files)
        )
    }

    #[test]
    fn a_unit_is_touched_as_far_as_something_else_is_wanted_of_it() {
        let none = Value::Null;
        let text = |contents: &str| json!({"contents": contents});
        let on = |contents: &str| json!({"contents": contents, "enabled": true});
        let off = json!({"contents": ONE, "enabled": false});
        let masked = json!({"contents": ONE, "mask": true, "enabled": true});
        let dropin = json!({"dropins": [{"name": "a.conf", "contents": "[Unit]\n"}]});
        let no_dropin = json!({"dropins": [{"name": "a.conf"}]});
        for (old, new, expected) in [
            (&none, &on(ONE), "|enable "),
            (&none, &off, "|disable "),
            (&none, &text(ONE), "|preset "),
            (&none, &json!({"enabled": true}), "|enable "),
            (&none, &masked, "|mask "),
            (&none, &dropin, "|"),
            (&none, &no_dropin, "release(a.conf) |"),
            (&none, &json!({"mask": false}), "|unmask "),
            (&on(ONE), &on(ONE), "|"),
            (&on(ONE), &on(OTHER_TEXT), "|"),
            (&on(ONE), &on(OTHER_LINKS), "disable |enable keep "),
            (&on(ONE), &off, "|disable "),
            (
                &off,
                &json!({"contents": OTHER_LINKS, "enabled": false}),
                "|disable ",
            ),
            (&on(ONE), &text(ONE), "|preset "),
            (&text(ONE), &text(OTHER_LINKS), "disable |preset "),
            (&on(ONE), &none, "disable |preset "),
            (&off, &none, "|preset "),
            (&on(ONE), &json!({"enabled": true}), "disable |enable keep "),
            (&on(ONE), &masked, "disable |mask "),
            (&masked, &masked, "|"),
            (&masked, &on(ONE), "|enable "),
            (
                &masked,
                &json!({"mask": false}),
                "|release(u.service) unmask preset ",
            ),
            (&masked, &none, "|release(u.service) preset "),
            (&dropin, &none, "|"),
            (&no_dropin, &no_dropin, "|"),
        ] {
            assert_eq!(steps(old, new, false), expected, "{old} -> {new}");
        }
    }

    #[test]
    fn what_was_disabled_along_with_another_is_enabled_again() {
        let of = |units: &Value| {
            let config = json!({"ignition": {"version": "3.5.0"}, "systemd": {"units": units}});
            decode(&Spec::parse(&json!({"config": config})).unwrap().0).0
        };
        let also = "[Service]\n[Install]\nAlso=a.socket\nWantedBy=one.target\n";
        let socket = json!({"name": "a.socket", "contents": "[Socket]\n[Install]\nWantedBy=sockets.target\n", "enabled": true});
        let service =
            |enabled: bool| json!({"name": "a.service", "contents": also, "enabled": enabled});
        let template = |target: &str| json!({"name": "t@.service", "contents": format!("[Service]\n[Install]\nWantedBy={target}\n")});
        let instance = json!({"name": "t@x.service", "enabled": true});
        let words = |old: &Value, new: &Value| {
            let changes = Changes::between(&of(old), &of(new), false);
            let actions = changes.before_files.iter().chain(&changes.after_files);
            let word = |action: &Action| {
                if let Action::EnableUnit { unit } = action {
                    return Some(format!("+{unit}"));
                }
                if let Action::DisableUnit { unit } = action {
                    return Some(format!("-{unit}"));
                }
                if let Action::KeepUnitEnabled { unit } = action {
                    return Some(format!("={unit}"));
                }
                None
            };
            actions.filter_map(word).collect::<Vec<_>>()
        };
        let both = json!([socket, service(true)]);
        assert_eq!(words(&both, &json!([socket])), ["-a.service", "=a.socket"]);
        assert_eq!(
            words(&both, &json!([socket, service(false)])),
            ["-a.service", "=a.socket"]
        );
        // What the OS's own unit takes along is not known here.
        let os = |enabled: bool| json!({"name": "a.service", "enabled": enabled});
        assert_eq!(
            words(&json!([socket, os(true)]), &json!([socket, os(false)])),
            ["-a.service", "=a.socket"]
        );
        assert_eq!(
            words(
                &json!([template("one.target"), instance]),
                &json!([template("two.target"), instance])
            ),
            ["-t@.service", "=t@x.service"]
        );
        // One that is not to be enabled stays disabled, even if another unit enables it along.
        let off = json!({"name": "a.socket", "contents": "[Socket]\n", "enabled": false});
        assert_eq!(
            words(&json!([]), &json!([off, service(true)])),
            ["+a.service", "-a.socket", "=a.service"]
        );
    }

    #[test]
    fn on_another_os_all_wishes_are_said_again() {
        for (same, expected) in [
            (json!({"contents": ONE, "enabled": true}), "|enable "),
            (json!({"enabled": false}), "|disable "),
            (json!({"mask": true}), "|mask "),
            (json!({"mask": false}), "|unmask "),
            (
                json!({"dropins": [{"name": "a.conf"}]}),
                "release(a.conf) |",
            ),
            // What the presets decided stays decided.
            (json!({"contents": ONE}), "|"),
        ] {
            assert_eq!(steps(&same, &same, true), expected, "{same}");
        }
    }
}
