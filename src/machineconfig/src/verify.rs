//! What must hold on a host in a configuration, and the judgement over what was observed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan::{Digest, Mode, Owner};

/// One thing that must hold on the running host. All are local: none needs a network.
///
/// Source: `daemon.md` 4.1, with owners and enablement checked too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "expect")]
pub enum Expectation {
    /// The booted deployment's record names this configuration (and image, if any).
    Record {
        /// Configuration name.
        config: String,
        /// Image pull spec.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<String>,
    },
    /// `/proc/cmdline` holds this argument at least `times` times.
    KernelArgument {
        /// `key` or `key=value`, as the kernel splits.
        argument: String,
        /// How often the configuration names it.
        times: usize,
    },
    /// A regular file with these bytes, mode and owner.
    File {
        /// Absolute path.
        path: String,
        /// Content.
        digest: Digest,
        /// Permission bits, compared exactly.
        mode: Mode,
        /// Owning user.
        user: Owner,
        /// Owning group.
        group: Owner,
    },
    /// The unit's path is a link to `/dev/null`.
    Masked {
        /// Unit name.
        unit: String,
    },
    /// `systemctl is-enabled` agrees.
    Enabled {
        /// Unit name.
        unit: String,
        /// What is wanted.
        enabled: bool,
    },
    /// The unit is active once the system is up; only asked where the unit exists.
    Active {
        /// Unit name.
        unit: String,
    },
}

/// What was seen on the host for one expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Nothing is at the path, or no record is there.
    Nothing,
    /// The record of the booted deployment.
    Record {
        /// Configuration name.
        config: String,
        /// Image pull spec.
        image: Option<String>,
    },
    /// How often the argument stands in `/proc/cmdline`.
    Times(usize),
    /// A regular file.
    File {
        /// Content.
        digest: Digest,
        /// Permission bits with set-id and sticky.
        mode: Mode,
        /// Owning user: as the expectation names it where that is the same account, else the number.
        user: Owner,
        /// Owning group, likewise.
        group: Owner,
    },
    /// A symbolic link.
    Link {
        /// What it points to.
        target: String,
    },
    /// Something else at the path, by its kind: "directory", "socket", ….
    Other(String),
    /// What `systemctl is-enabled` or the unit's `ActiveState` says.
    Unit(String),
    /// It could not be looked at, and why.
    Unreadable(String),
}

/// An expectation that does not hold: a sentence for people. It never shows contents.
///
/// Source: the texts of `daemon.md` 4.1, where one exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch(String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Judges what was seen; empty when everything holds. The order is that of the expectations.
pub fn judge<'a>(pairs: impl IntoIterator<Item = (&'a Expectation, &'a Seen)>) -> Vec<Mismatch> {
    pairs
        .into_iter()
        .flat_map(|(expected, seen)| expected.mismatches(seen))
        .map(Mismatch)
        .collect()
}

impl Expectation {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "whatever else was seen is a mismatch"
    )]
    fn mismatches(&self, seen: &Seen) -> Vec<String> {
        if let Seen::Unreadable(why) = seen {
            return vec![format!("cannot check {}: {why}", self.subject())];
        }
        match self {
            Self::Record { config, image } => one(record(config, image.as_deref(), seen)),
            Self::KernelArgument { argument, times } => match seen {
                Seen::Times(seen) if seen >= times => vec![],
                _ => vec![format!("missing expected kernel arguments: [{argument}]")],
            },
            Self::File {
                path,
                digest,
                mode,
                user,
                group,
            } => file(path, digest, *mode, (user, group), seen),
            Self::Masked { unit } => match seen {
                Seen::Link { target } if target == "/dev/null" => vec![],
                other => vec![format!(
                    "state validation: invalid unit masked setting. path: \"/etc/systemd/system/{unit}\"; \
                     expected: /dev/null; received: {}",
                    other.kind()
                )],
            },
            Self::Enabled { unit, enabled } => match seen {
                Seen::Unit(state) if is_as_wanted(*enabled, state) => vec![],
                other => vec![format!(
                    "unit \"{unit}\" expected enabled={enabled}, but systemd reports \"{}\"",
                    other.kind()
                )],
            },
            Self::Active { unit } => match seen {
                // A host that has no such unit cannot fail to run it.
                Seen::Nothing => vec![],
                Seen::Unit(state) if state == "active" => vec![],
                other => vec![format!(
                    "unit \"{unit}\" is not active, but {}",
                    other.kind()
                )],
            },
        }
    }

    fn subject(&self) -> String {
        match self {
            Self::Record { .. } => "the record of the booted deployment".to_owned(),
            Self::KernelArgument { argument, .. } => format!("kernel argument {argument}"),
            Self::File { path, .. } => format!("file \"{path}\""),
            Self::Masked { unit } | Self::Enabled { unit, .. } | Self::Active { unit } => {
                format!("unit \"{unit}\"")
            }
        }
    }
}

impl Seen {
    /// What it is, in a word or two.
    fn kind(&self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Record { config, .. } => format!("record of {config}"),
            Self::Times(times) => format!("{times} times"),
            Self::File { .. } => "regular file".to_owned(),
            Self::Link { target } => format!("link to {target}"),
            Self::Other(kind) => kind.clone(),
            Self::Unit(state) => state.clone(),
            Self::Unreadable(why) => why.clone(),
        }
    }
}

fn one(mismatch: Option<String>) -> Vec<String> {
    mismatch.into_iter().collect()
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else was seen is a mismatch"
)]
fn record(config: &str, image: Option<&str>, seen: &Seen) -> Option<String> {
    match seen {
        Seen::Record {
            config: c,
            image: i,
        } if c == config && i.as_deref() == image => None,
        Seen::Record {
            config: c,
            image: i,
        } if c == config => Some(format!(
            "expected image {}, the booted deployment's record names {}",
            image.unwrap_or("none"),
            i.as_deref().unwrap_or("none")
        )),
        other => Some(format!(
            "expected configuration {config}, the booted deployment has {}",
            other.kind()
        )),
    }
}

fn file(
    path: &str,
    digest: &Digest,
    mode: Mode,
    owner: (&Owner, &Owner),
    seen: &Seen,
) -> Vec<String> {
    let Seen::File {
        digest: bytes,
        mode: bits,
        user,
        group,
    } = seen
    else {
        return vec![if *seen == Seen::Nothing {
            format!("could not stat file \"{path}\": no such file")
        } else {
            format!(
                "expected a regular file at \"{path}\", found {}",
                seen.kind()
            )
        }];
    };
    let mut wrong = vec![];
    if *bits != mode {
        wrong.push(format!(
            "mode mismatch for file: \"{path}\"; expected: {mode}; received: {bits}"
        ));
    }
    if (user, group) != owner {
        wrong.push(format!(
            "owner mismatch for file: \"{path}\"; expected: {}:{}; received: {user}:{group}",
            owner.0, owner.1
        ));
    }
    if bytes != digest {
        wrong.push(format!("content mismatch for file \"{path}\""));
    }
    wrong
}

/// The words of `daemon.md` 4.1: what says neither yes nor no (`static`, `alias`, `generated`, …) is as wanted.
fn is_as_wanted(enabled: bool, state: &str) -> bool {
    if enabled {
        !matches!(
            state,
            "disabled" | "masked" | "masked-runtime" | "not-found" | ""
        )
    } else {
        !matches!(state, "enabled" | "enabled-runtime")
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_expected() -> Expectation {
        Expectation::File {
            path: "/etc/x".to_owned(),
            digest: Digest::of(b"x"),
            mode: Mode(0o600),
            user: Owner::Name("core".to_owned()),
            group: Owner::ROOT,
        }
    }

    fn texts(expected: &Expectation, seen: &Seen) -> Vec<String> {
        judge([(expected, seen)])
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn every_difference_of_a_file_is_named_and_no_content() {
        let seen = Seen::File {
            digest: Digest::of(b"secret"),
            mode: Mode(0o644),
            user: Owner::Id(0),
            group: Owner::ROOT,
        };
        assert_eq!(
            texts(&file_expected(), &seen),
            [
                "mode mismatch for file: \"/etc/x\"; expected: 0o600; received: 0o644",
                "owner mismatch for file: \"/etc/x\"; expected: core:0; received: 0:0",
                "content mismatch for file \"/etc/x\"",
            ]
        );
    }

    #[test]
    fn a_link_or_nothing_is_no_file() {
        let link = Seen::Link {
            target: "/etc/y".to_owned(),
        };
        assert_eq!(
            texts(&file_expected(), &link),
            ["expected a regular file at \"/etc/x\", found link to /etc/y"]
        );
        assert_eq!(
            texts(&file_expected(), &Seen::Nothing),
            ["could not stat file \"/etc/x\": no such file"]
        );
    }

    #[test]
    fn enablement_knows_words_that_say_neither() {
        let table = [
            (true, "enabled", true),
            (true, "static", true),
            (true, "disabled", false),
            (true, "masked", false),
            (true, "not-found", false),
            (false, "disabled", true),
            (false, "static", true),
            (false, "enabled", false),
            (false, "enabled-runtime", false),
        ];
        for (enabled, state, holds) in table {
            let expected = Expectation::Enabled {
                unit: "a.service".to_owned(),
                enabled,
            };
            let seen = Seen::Unit(state.to_owned());
            assert_eq!(
                texts(&expected, &seen).is_empty(),
                holds,
                "{enabled} {state}"
            );
        }
    }

    #[test]
    fn a_kernel_argument_may_have_to_stand_twice() {
        let expected = Expectation::KernelArgument {
            argument: "console=ttyS0".to_owned(),
            times: 2,
        };
        assert!(texts(&expected, &Seen::Times(3)).is_empty());
        assert_eq!(
            texts(&expected, &Seen::Times(1)),
            ["missing expected kernel arguments: [console=ttyS0]"]
        );
    }

    #[test]
    fn a_unit_the_host_lacks_cannot_fail() {
        let expected = Expectation::Active {
            unit: "kubelet.service".to_owned(),
        };
        assert!(texts(&expected, &Seen::Nothing).is_empty());
        assert!(texts(&expected, &Seen::Unit("active".to_owned())).is_empty());
        assert_eq!(
            texts(&expected, &Seen::Unit("failed".to_owned())),
            ["unit \"kubelet.service\" is not active, but failed"]
        );
    }
}
