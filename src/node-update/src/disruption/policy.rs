//! What an administrator says about files, units and keys.

use serde_json::Value;

use crate::paths::USER_CA;
use crate::well_known::{CRIO, KUBELET, PULL_SECRET};

/// What is done for a change, as a policy names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Reboots; stands alone.
    Reboot,
    Drain,
    /// Reloads a service.
    Reload(String),
    /// Restarts a service.
    Restart(String),
    /// Reloads all units.
    DaemonReload,
    /// Nothing; stands alone.
    None,
    /// Reloads CRI-O, and drains unless the change of the registries' configuration is harmless. In
    /// a status only.
    Special,
}

/// What is done when a file changes, or one below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePolicy {
    /// Absolute path, clean: without `.`, `..`, doubled `/`, or one at its end.
    pub path: String,
    /// In order.
    pub actions: Vec<Action>,
}

/// What is done when a unit changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitPolicy {
    pub name: String,
    /// In order.
    pub actions: Vec<Action>,
}

/// Policies of a cluster, defaults and administrator's merged.
///
/// Source: `MachineConfiguration.status.nodeDisruptionPolicyStatus.clusterPolicies`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policies {
    /// For files; the longest path that covers one decides.
    pub files: Vec<FilePolicy>,
    /// For units, by exact name.
    pub units: Vec<UnitPolicy>,
    /// For SSH keys and passwords.
    pub sshkey: Vec<Action>,
}

/// Why policies cannot be read: the field and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Error {
    /// JSON path below `clusterPolicies` or `spec.nodeDisruptionPolicy`.
    pub field: String,
    pub why: String,
}

impl Policies {
    /// The policy of a file: that of the longest path equal to it or to a directory above it; of
    /// two policies for one path, the later one.
    pub fn file(&self, path: &str) -> Option<&FilePolicy> {
        let covers = |policy: &&FilePolicy| {
            let below = path.strip_prefix(policy.path.as_str());
            below.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || policy.path.ends_with('/')
            })
        };
        self.files
            .iter()
            .filter(covers)
            .max_by_key(|policy| policy.path.len())
    }

    /// The policy of a unit.
    pub fn unit(&self, name: &str) -> Option<&UnitPolicy> {
        self.units.iter().find(|policy| policy.name == name)
    }

    /// Reads the policies in force from a status.
    ///
    /// Shape:
    /// `{"files": [{"path", "actions"}], "units": [{"name", "actions"}], "sshkey": {"actions"}}`;
    /// an action is `{"type": "Restart", "restart": {"serviceName": "x.service"}}` and its like.
    /// Absent members hold nothing, and an entry without actions is as absent.
    ///
    /// # Errors
    /// [`Error`] with the field, for an unknown type of action, a missing name or path.
    pub fn parse(status: &Value) -> Result<Self, Error> {
        let list = |member: &str| {
            status
                .get(member)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        let mut policies = Self {
            files: Vec::new(),
            units: Vec::new(),
            sshkey: Vec::new(),
        };
        for (index, policy) in list("files").enumerate() {
            let at = format!("files[{index}]");
            let path = clean(text(policy, "path", &at)?);
            let actions = actions(policy, &at)?;
            if !actions.is_empty() {
                policies.files.push(FilePolicy { path, actions });
            }
        }
        for (index, policy) in list("units").enumerate() {
            let at = format!("units[{index}]");
            let name = text(policy, "name", &at)?.to_owned();
            let actions = actions(policy, &at)?;
            if !actions.is_empty() {
                policies.units.push(UnitPolicy { name, actions });
            }
        }
        if let Some(policy) = status.get("sshkey") {
            policies.sshkey = actions(policy, "sshkey")?;
        }
        Ok(policies)
    }
}

/// A path in its shortest form: an administrator may write a directory with a `/` at its end.
pub(super) fn clean(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                // Above the root is the root.
                let _above: Option<&str> = parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn actions(policy: &Value, at: &str) -> Result<Vec<Action>, Error> {
    let actions = policy
        .get("actions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    actions
        .enumerate()
        .map(|(index, action)| Action::parse(action, &format!("{at}.actions[{index}]")))
        .collect()
}

impl Action {
    /// Reads one action; `at` is its JSON path.
    pub(super) fn parse(action: &Value, at: &str) -> Result<Self, Error> {
        let service = |member: &str| -> Result<String, Error> {
            let inner = action.get(member).unwrap_or(&Value::Null);
            Ok(text(inner, "serviceName", &format!("{at}.{member}"))?.to_owned())
        };
        Ok(match text(action, "type", at)? {
            "Reboot" => Self::Reboot,
            "Drain" => Self::Drain,
            "Reload" => Self::Reload(service("reload")?),
            "Restart" => Self::Restart(service("restart")?),
            "DaemonReload" => Self::DaemonReload,
            "None" => Self::None,
            "Special" => Self::Special,
            other => {
                let why = format!("unknown type of action {other:?}");
                return Err(Error {
                    field: format!("{at}.type"),
                    why,
                });
            }
        })
    }
}

pub(super) fn text<'a>(object: &'a Value, member: &str, at: &str) -> Result<&'a str, Error> {
    object
        .get(member)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
        .ok_or_else(|| Error {
            field: format!("{at}.{member}"),
            why: "is missing or no text".to_owned(),
        })
}

/// The policies of a cluster whose administrator says nothing. Source: `docs/reference/daemon.md`,
/// "Disruption policies".
impl Default for Policies {
    fn default() -> Self {
        let restart = |unit: &str| Action::Restart(unit.to_owned());
        let reload_crio = || vec![Action::Reload(CRIO.to_owned())];
        let trust = || restart("coreos-update-ca-trust.service");
        let files = [
            (PULL_SECRET, vec![Action::None]),
            ("/etc/nmstate/openshift", vec![Action::None]),
            (
                "/etc/machine-config-daemon/no-reboot/containers-gpg.pub",
                reload_crio(),
            ),
            ("/etc/containers/policy.json", reload_crio()),
            ("/etc/containers/registries.d", reload_crio()),
            ("/etc/crio/policies", reload_crio()),
            (super::REGISTRIES, vec![Action::Special]),
            (USER_CA, vec![trust(), restart(CRIO)]),
            (
                "/etc/pki/ca-trust/source/anchors/iri-root-ca.crt",
                vec![trust()],
            ),
            (
                "/etc/kubernetes/credential-providers",
                vec![restart(KUBELET)],
            ),
            (
                "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf",
                vec![Action::DaemonReload, restart(KUBELET)],
            ),
            ("/etc/iri-registry", vec![restart("iri-registry.service")]),
            (
                "/usr/local/bin/load-registry-image.sh",
                vec![restart("iri-registry.service")],
            ),
        ];
        let unit = UnitPolicy {
            name: "iri-registry.service".to_owned(),
            actions: vec![Action::DaemonReload, restart("iri-registry.service")],
        };
        Self {
            files: (files.into_iter())
                .map(|(path, actions)| FilePolicy {
                    path: path.to_owned(),
                    actions,
                })
                .collect(),
            units: vec![unit],
            sshkey: vec![Action::None],
        }
    }
}
