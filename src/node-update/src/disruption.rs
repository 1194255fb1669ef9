//! What a change does to a running node: nothing, a reload, a restart, a drain, a reboot; and why.
//!
//! - [`Policies`]: what an administrator says about files, units and keys
//! - [`merge`]: an administrator's policies, validated and laid over the defaults
//! - [`decide`]: what a change comes to
//!
//! Source: `docs/reference/daemon.md`, "Disruption policies" and "Registries and drains".

mod merge;
mod order;
mod policy;
mod registries;

pub use merge::merge;
pub use policy::{Action, Error, FilePolicy, Policies, UnitPolicy};

use crate::diff::Diff;
use crate::rejection::{Member, Rejection, Subject};
use crate::well_known::CRIO;
use ignition::content;
use machineconfig::spec::Spec;

/// The registries' configuration: the one file whose change is read to know whether pods must go.
pub const REGISTRIES: &str = "/etc/containers/registries.conf";

/// What is done to running services, in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Live {
    /// `systemctl daemon-reload`.
    DaemonReload,
    /// Reloads a unit.
    Reload(String),
    /// Restarts a unit.
    Restart(String),
}

/// What a change comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub reboot: bool,
    /// Whether pods must go first; always with a reboot.
    pub drain: bool,
    /// What is done to running services; empty with a reboot.
    pub actions: Vec<Live>,
    /// The same by the words of policies: `Reboot`, `None`, or one for each of the actions.
    pub words: Vec<String>,
    /// What decided: with a reboot, all that asks for it; else each change and what is done for it.
    /// Sentences without a full stop.
    pub because: Vec<String>,
}

/// Decides what a change comes to.
///
/// Shape: `os` says whether the OS changes, as only the caller knows what is booted; `force` asks
/// for a reboot whatever changes.
///
/// # Errors
/// A [`Rejection`] where the new registries' configuration cannot be read: CRI-O could not either.
pub fn decide(
    old: &Spec,
    new: &Spec,
    diff: &Diff,
    os: bool,
    force: bool,
    policies: &Policies,
) -> Result<Decision, Rejection> {
    let mut judge = Judge {
        policies,
        reboot: Vec::new(),
        drain: Vec::new(),
        lists: Vec::new(),
        is_special: false,
        reloads_crio: false,
    };
    let whole = [
        (force, "an administrator asked for it"),
        (os, "the OS image changes"),
        (diff.kernel_arguments, "spec.kernelArguments changes"),
        (diff.fips, "spec.fips changes"),
        (diff.kernel_type, "spec.kernelType changes"),
        (diff.extensions, "spec.extensions changes"),
    ];
    let reboots = whole.iter().filter(|(changes, _)| *changes);
    let reboots: Vec<String> = reboots.map(|(_, why)| (*why).to_owned()).collect();
    for path in diff.files.keys() {
        judge.file(path, old, new)?;
    }
    for unit in diff.units.keys() {
        judge.unit(unit);
    }
    if diff.passwd {
        judge.apply("SSH keys or password", "", &policies.sshkey, None);
    }
    if !reboots.is_empty() {
        // Whatever policies say of files and units then.
        judge.reboot = reboots;
    }
    Ok(judge.decision())
}

/// What the policies said so far.
struct Judge<'a> {
    policies: &'a Policies,
    reboot: Vec<String>,
    drain: Vec<String>,
    /// For each change, what it is and what is done for it.
    lists: Vec<(String, Vec<Live>)>,
    /// Whether CRI-O is reloaded by the word `Special`.
    is_special: bool,
    /// Whether it is reloaded by its name.
    reloads_crio: bool,
}

impl Judge<'_> {
    fn file(&mut self, path: &str, old: &Spec, new: &Spec) -> Result<(), Rejection> {
        let what = format!("file {path:?}");
        let policies = self.policies;
        let Some(policy) = policies.file(path) else {
            self.reboot
                .push(format!("{what} changes, and no policy covers it"));
            return Ok(());
        };
        let said_of = if policy.path == path {
            String::new()
        } else {
            format!(" (policy of {:?})", policy.path)
        };
        let special = policy.actions.contains(&Action::Special);
        let why = if special {
            drain_need(path, old, new)?
        } else {
            None
        };
        self.apply(&what, &said_of, &policy.actions, why);
        Ok(())
    }

    fn unit(&mut self, name: &str) {
        let what = format!("unit {name:?}");
        let policies = self.policies;
        match policies.unit(name) {
            Some(policy) => self.apply(&what, "", &policy.actions, None),
            None => self
                .reboot
                .push(format!("{what} changes, and no policy covers it")),
        }
    }

    fn apply(&mut self, what: &str, said_of: &str, actions: &[Action], unsafe_why: Option<String>) {
        let mut live = Vec::new();
        for action in actions {
            match action {
                Action::None => {}
                Action::Reboot => {
                    self.reboot
                        .push(format!("{what} changes, and its policy is Reboot{said_of}"));
                }
                Action::Drain => {
                    self.drain
                        .push(format!("{what} changes, and its policy is Drain{said_of}"));
                }
                Action::DaemonReload => live.push(Live::DaemonReload),
                Action::Reload(unit) => {
                    self.reloads_crio |= unit == CRIO;
                    live.push(Live::Reload(unit.clone()));
                }
                Action::Restart(unit) => live.push(Live::Restart(unit.clone())),
                Action::Special => {
                    self.is_special = true;
                    live.push(Live::Reload(CRIO.to_owned()));
                }
            }
        }
        if let Some(why) = unsafe_why {
            self.drain.push(format!("{what} changes: {why}"));
        }
        self.lists.push((format!("{what} changes{said_of}"), live));
    }

    fn decision(self) -> Decision {
        if !self.reboot.is_empty() {
            return Decision {
                reboot: true,
                drain: true,
                actions: Vec::new(),
                words: vec!["Reboot".to_owned()],
                because: self.reboot,
            };
        }
        let each = self
            .lists
            .iter()
            .map(|(what, live)| format!("{what}: {}", in_words(live)));
        let because = self.drain.iter().cloned().chain(each).collect();
        let lists: Vec<_> = self.lists.iter().map(|(_, live)| live.clone()).collect();
        let actions = order::merge(&lists);
        let mut words: Vec<String> = actions.iter().map(|live| self.word(live)).collect();
        if words.is_empty() {
            words.push("None".to_owned());
        }
        Decision {
            reboot: false,
            drain: !self.drain.is_empty(),
            actions,
            words,
            because,
        }
    }
}

impl Judge<'_> {
    fn word(&self, live: &Live) -> String {
        let word = match live {
            Live::DaemonReload => "DaemonReload",
            Live::Reload(unit) if unit == CRIO && self.is_special && !self.reloads_crio => {
                "Special"
            }
            Live::Reload(_) => "Reload",
            Live::Restart(_) => "Restart",
        };
        word.to_owned()
    }
}

fn in_words(live: &[Live]) -> String {
    let words: Vec<String> = live
        .iter()
        .map(|action| match action {
            Live::DaemonReload => "reload systemd".to_owned(),
            Live::Reload(unit) => format!("reload {unit}"),
            Live::Restart(unit) => format!("restart {unit}"),
        })
        .collect();
    if words.is_empty() {
        "nothing to do".to_owned()
    } else {
        words.join(", ")
    }
}

/// Why pods must go before the registries' configuration changes; none where it only grows in
/// harmless ways.
fn drain_need(path: &str, old: &Spec, new: &Spec) -> Result<Option<String>, Rejection> {
    if path != REGISTRIES {
        return Ok(Some(
            "only the registries' configuration is known to be harmless".to_owned(),
        ));
    }
    let before = text(old, path).ok().flatten();
    let after = text(new, path).map_err(|error| unreadable(new, path, &error))?;
    let (Some(before), Some(after)) = (before, after) else {
        return Ok(Some("it comes or goes as a whole".to_owned()));
    };
    let after = registries::parse(&after).map_err(|error| unreadable(new, path, &error))?;
    // An old one that cannot be read may have meant anything.
    Ok(match registries::parse(&before) {
        Ok(before) => registries::why_unsafe(&before, &after),
        Err(_) => Some("what was there cannot be read".to_owned()),
    })
}

/// Why a file has no text.
#[derive(Debug, thiserror::Error)]
enum TextError {
    #[error(transparent)]
    Decode(#[from] content::Error),
    #[error("not UTF-8")]
    NotUtf8,
}

/// The text of a file, if the configuration has it.
fn text(spec: &Spec, path: &str) -> Result<Option<String>, TextError> {
    let Some(file) = spec
        .ignition
        .storage
        .files
        .iter()
        .find(|file| file.path == path)
    else {
        return Ok(None);
    };
    let bytes = content::decode(&file.contents)?;
    let text = String::from_utf8(bytes).map_err(|_| TextError::NotUtf8)?;
    Ok(Some(text))
}

fn unreadable(spec: &Spec, path: &str, error: &dyn std::error::Error) -> Rejection {
    let index = spec
        .ignition
        .storage
        .files
        .iter()
        .position(|file| file.path == path);
    let subject = Subject::File(index.unwrap_or_default());
    let why = format!("cannot read {path}: {error}");
    Rejection::of_member(subject, Member::Contents, why)
}

#[cfg(test)]
mod tests;
