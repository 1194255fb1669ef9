//! An administrator's policies, validated and laid over the defaults.

use serde_json::Value;

use super::policy::{Action, Error, FilePolicy, Policies, UnitPolicy, clean, text};

/// Files with a policy, and units with one; each at most. Source: the CRD of MachineConfiguration.
const ENTRIES: usize = 50;

/// Actions of one entry, at most. Source: the CRD of MachineConfiguration.
const ACTIONS: usize = 10;

/// Longest name of a unit, in bytes. Source: systemd.unit(5).
const UNIT_NAME_BYTES: usize = 255;

/// Kinds of units that a policy may name. Source: the CRD of MachineConfiguration.
const UNIT_SUFFIXES: [&str; 12] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "snapshot",
    "slice",
    "scope",
];

/// Lays an administrator's policies over the defaults.
///
/// Shape: `requested` is `spec.nodeDisruptionPolicy`, in the form that [`Policies::parse`] reads;
/// `null` asks for nothing. An entry replaces the default of the same path or name in its place;
/// others follow the defaults. `sshkey` replaces the default's. Paths are cleaned of doubled `/`
/// and of one at the end. Without actions, any of them is as absent: `None` is what asks for
/// nothing.
/// Source: `docs/reference/daemon.md`, "Disruption policies".
///
/// # Errors
/// One [`Error`] for each wrong field. What OpenShift's CRD checks is checked again: another
/// version of the CRD may let it through.
pub fn merge(requested: &Value) -> Result<Policies, Vec<Error>> {
    let mut check = Check::default();
    let requested = check.policies(requested);
    if !check.errors.is_empty() {
        return Err(check.errors);
    }
    let mut merged = Policies::default();
    overlay(&mut merged.files, requested.files, |one, other| {
        one.path == other.path
    });
    overlay(&mut merged.units, requested.units, |one, other| {
        one.name == other.name
    });
    if !requested.sshkey.is_empty() {
        merged.sshkey = requested.sshkey;
    }
    Ok(merged)
}

fn overlay<T>(defaults: &mut Vec<T>, requested: Vec<T>, is_for_the_same: impl Fn(&T, &T) -> bool) {
    for policy in requested {
        let default = defaults
            .iter_mut()
            .find(|default| is_for_the_same(default, &policy));
        match default {
            Some(default) => *default = policy,
            None => defaults.push(policy),
        }
    }
}

/// What is wrong so far.
#[derive(Default)]
struct Check {
    errors: Vec<Error>,
}

impl Check {
    fn policies(&mut self, requested: &Value) -> Policies {
        let mut policies = Policies {
            files: Vec::new(),
            units: Vec::new(),
            sshkey: Vec::new(),
        };
        for (at, entry) in self.entries(requested, "files") {
            let path = self.accept(text(entry, "path", &at));
            let actions = self.actions(entry, &at);
            let Some(path) = path else { continue };
            let field = format!("{at}.path");
            if let Some(why) = fault_of_path(path) {
                self.reject(field, why);
                continue;
            }
            let path = clean(path);
            if policies.files.iter().any(|known| known.path == path) {
                self.reject(field, "is the path of an entry before");
                continue;
            }
            policies.files.push(FilePolicy { path, actions });
        }
        for (at, entry) in self.entries(requested, "units") {
            let name = self.accept(text(entry, "name", &at));
            let actions = self.actions(entry, &at);
            let Some(name) = name else { continue };
            let field = format!("{at}.name");
            if let Some(why) = fault_of_unit(name) {
                self.reject(field, why);
                continue;
            }
            if policies.units.iter().any(|known| known.name == name) {
                self.reject(field, "is the name of an entry before");
                continue;
            }
            let name = name.to_owned();
            policies.units.push(UnitPolicy { name, actions });
        }
        if let Some(sshkey) = requested.get("sshkey").filter(|sshkey| !sshkey.is_null()) {
            policies.sshkey = self.actions(sshkey, "sshkey");
        }
        policies.files.retain(|policy| !policy.actions.is_empty());
        policies.units.retain(|policy| !policy.actions.is_empty());
        policies
    }

    /// The entries of a list, each with its JSON path.
    fn entries<'a>(&mut self, requested: &'a Value, member: &str) -> Vec<(String, &'a Value)> {
        let entries = requested.get(member).and_then(Value::as_array);
        let entries = entries.map_or(&[][..], Vec::as_slice);
        if entries.len() > ENTRIES {
            let why = format!(
                "has {} entries, at most {ENTRIES} are allowed",
                entries.len()
            );
            self.reject(member.to_owned(), &why);
        }
        (entries.iter().take(ENTRIES).enumerate())
            .map(|(index, entry)| (format!("{member}[{index}]"), entry))
            .collect()
    }

    fn actions(&mut self, entry: &Value, at: &str) -> Vec<Action> {
        let at = format!("{at}.actions");
        let Some(requested) = entry.get("actions").and_then(Value::as_array) else {
            self.reject(at, "is missing or no list");
            return Vec::new();
        };
        if requested.len() > ACTIONS {
            let why = format!(
                "has {} actions, at most {ACTIONS} are allowed",
                requested.len()
            );
            self.reject(at.clone(), &why);
        }
        let mut actions = Vec::new();
        for (index, action) in requested.iter().take(ACTIONS).enumerate() {
            let at = format!("{at}[{index}]");
            if let Some(action) = self.action(action, &at) {
                actions.push(action);
            }
        }
        for (action, name) in [(Action::Reboot, "Reboot"), (Action::None, "None")] {
            if requested.len() > 1 && actions.contains(&action) {
                self.reject(at.clone(), &format!("{name} stands beside other actions"));
            }
        }
        actions
    }

    fn action(&mut self, requested: &Value, at: &str) -> Option<Action> {
        let action = self.accept(Action::parse(requested, at))?;
        let named = match &action {
            Action::Reload(service) => Some(("reload", service)),
            Action::Restart(service) => Some(("restart", service)),
            Action::Special => {
                self.reject(format!("{at}.type"), "Special is for the defaults only");
                return None;
            }
            Action::Reboot | Action::Drain | Action::DaemonReload | Action::None => None,
        };
        if let Some((member, service)) = named
            && let Some(why) = fault_of_unit(service)
        {
            self.reject(format!("{at}.{member}.serviceName"), why);
        }
        let belongs = |member: &str| named.is_some_and(|(named, _)| named == member);
        for member in ["reload", "restart"] {
            let has = requested.get(member).is_some_and(|value| !value.is_null());
            if has && !belongs(member) {
                let why = "belongs to another type of action";
                self.reject(format!("{at}.{member}"), why);
            }
        }
        Some(action)
    }

    fn accept<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.errors.push(error)).ok()
    }

    fn reject(&mut self, field: String, why: &str) {
        let why = why.to_owned();
        self.errors.push(Error { field, why });
    }
}

fn fault_of_path(path: &str) -> Option<&'static str> {
    let has = |name: &str| path.split('/').any(|part| part == name);
    if !path.starts_with('/') {
        Some("is not absolute")
    } else if has(".") || has("..") {
        Some("has a part \".\" or \"..\"")
    } else if path.contains(char::is_control) {
        Some("has a control character")
    } else {
        None
    }
}

/// Source: the CRD of MachineConfiguration, and systemd.unit(5) for the `@` of instances.
fn fault_of_unit(name: &str) -> Option<&'static str> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
    let is_unit = name
        .rsplit_once('.')
        .is_some_and(|(stem, suffix)| !stem.is_empty() && UNIT_SUFFIXES.contains(&suffix));
    if !is_unit {
        Some("is not a name with a suffix of systemd, such as .service")
    } else if name.len() > UNIT_NAME_BYTES {
        Some("is longer than 255 bytes")
    } else if !name.bytes().all(is_allowed) {
        Some("has a character that no unit name has")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
