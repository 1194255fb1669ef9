//! From what was seen to what does not hold, in the words of `docs/reference/daemon.md`,
//! "Verification" where it has some.

use super::{Mismatch, Seen};
use crate::plan::{Expectation, FileState, Mode, Owners};
use crate::well_known::{MASK, UNITS};

/// Judges what was seen; empty when everything holds. The order is that of the expectations;
/// missing kernel arguments are one mismatch.
pub fn judge<'a>(pairs: impl IntoIterator<Item = (&'a Expectation, &'a Seen)>) -> Vec<Mismatch> {
    let mut mismatches = Vec::new();
    let mut missing: Option<(usize, Vec<&str>)> = None;
    for (expected, seen) in pairs {
        match (expected, seen) {
            (Expectation::KernelArgument { times, .. }, Seen::Times(seen)) if seen >= times => {}
            (Expectation::KernelArgument { argument, .. }, Seen::Times(_) | Seen::Nothing) => {
                let (_, missing) = missing.get_or_insert((mismatches.len(), Vec::new()));
                missing.push(argument);
            }
            _ => mismatches.extend(expected.mismatches(seen).into_iter().map(Mismatch)),
        }
    }
    if let Some((at, arguments)) = missing {
        let text = format!(
            "missing expected kernel arguments: [{}]",
            arguments.join(" ")
        );
        mismatches.insert(at, Mismatch(text));
    }
    mismatches
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
            Self::KernelArgument { argument, .. } => {
                vec![format!(
                    "expected to count kernel argument {argument}, found {}",
                    seen.kind()
                )]
            }
            Self::File { path, file } => file_mismatches(path, file, seen),
            Self::Masked { unit } => match seen {
                Seen::Link { target } if target == MASK => vec![],
                other => vec![format!(
                    "state validation: invalid unit masked setting. path: \"{UNITS}/{unit}\"; \
                     expected: {MASK}; received: {}",
                    other.kind()
                )],
            },
            Self::Enabled { unit, enabled } => match seen {
                Seen::Unit(state) if is_as_desired(*enabled, state) => vec![],
                other => vec![format!(
                    "unit \"{unit}\" expected enabled={enabled}, but systemd reports \"{}\"",
                    other.kind()
                )],
            },
            Self::Runs { unit } => match seen {
                Seen::Unit(state) if state == "active" => vec![],
                other => vec![format!(
                    "unit \"{unit}\" does not run: found {}",
                    other.kind()
                )],
            },
            Self::Started { unit } => match seen {
                Seen::Nothing => vec![],
                // What ran and ended has not failed.
                Seen::Unit(state) if ["active", "reloading", "inactive"].contains(&&**state) => {
                    vec![]
                }
                other => vec![format!(
                    "unit \"{unit}\", which the update touched, is {}",
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
            Self::Masked { unit }
            | Self::Enabled { unit, .. }
            | Self::Runs { unit }
            | Self::Started { unit }
            | Self::Active { unit } => {
                format!("unit \"{unit}\"")
            }
        }
    }
}

impl Seen {
    /// The bit of Go's `fs.FileMode` for what is no regular file, where it is known.
    const fn type_bit(&self) -> Option<u32> {
        match self {
            Self::Link { .. } => Some(LINK),
            Self::Directory(_) => Some(DIRECTORY),
            Self::Nothing
            | Self::Record { .. }
            | Self::Times(_)
            | Self::File(_)
            | Self::Other(_)
            | Self::Unit(_)
            | Self::Unreadable(_) => None,
        }
    }

    /// Permission bits of what is no regular file. Links have all of them.
    const fn mode(&self) -> Mode {
        match self {
            Self::Directory(mode) => *mode,
            Self::Link { .. }
            | Self::Nothing
            | Self::Record { .. }
            | Self::Times(_)
            | Self::File(_)
            | Self::Other(_)
            | Self::Unit(_)
            | Self::Unreadable(_) => Mode(0o777),
        }
    }

    /// What it is, in a word or two.
    fn kind(&self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Record { config, .. } => format!("record of {config}"),
            Self::Times(times) => format!("{times} times"),
            Self::File(_) => "regular file".to_owned(),
            Self::Link { target } => format!("link to {target}"),
            Self::Directory(_) => "directory".to_owned(),
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

fn file_mismatches(path: &str, expected: &FileState<Owners>, seen: &Seen) -> Vec<String> {
    let Seen::File(file) = seen else {
        return vec![match seen.type_bit() {
            // Whatever is no regular file has another mode, in the words of OpenShift's MCO.
            Some(bit) => format!(
                "mode mismatch for file: \"{path}\"; expected: {}; received: {} ({})",
                shown(expected.mode),
                shown_with(bit, seen.mode()),
                seen.kind()
            ),
            None if *seen == Seen::Nothing => {
                format!("could not stat file \"{path}\": no such file")
            }
            None => format!(
                "expected a regular file at \"{path}\", found {}",
                seen.kind()
            ),
        }];
    };
    let mut wrong = vec![];
    if file.mode != expected.mode {
        wrong.push(format!(
            "mode mismatch for file: \"{path}\"; expected: {}; received: {}",
            shown(expected.mode),
            shown(file.mode)
        ));
    }
    if file.owner != expected.owner {
        wrong.push(format!(
            "owner mismatch for file: \"{path}\"; expected: {}; received: {}",
            expected.owner, file.owner
        ));
    }
    if file.digest != expected.digest {
        wrong.push(format!("content mismatch for file \"{path}\""));
    }
    wrong
}

/// Bits of Go's `fs.FileMode` above the permissions, with their letters, and the bits of `st_mode`
/// that some stand for.
const DIRECTORY: u32 = 1 << 31;
const LINK: u32 = 1 << 27;
const SPECIAL: [(u32, u32, char); 3] = [
    (0o4000, 1 << 23, 'u'),
    (0o2000, 1 << 22, 'g'),
    (0o1000, 1 << 20, 't'),
];

/// A mode as OpenShift's MCO prints it, which is Go's `fs.FileMode`: letters, decimal, octal.
fn shown(mode: Mode) -> String {
    shown_with(0, mode)
}

/// The same of something that is no regular file.
fn shown_with(type_bit: u32, Mode(mode): Mode) -> String {
    let mut number = type_bit | mode & 0o777;
    let mut prefix = String::new();
    for (bit, letter) in [(DIRECTORY, 'd'), (LINK, 'L')] {
        if type_bit == bit {
            prefix.push(letter);
        }
    }
    for (bit, in_go, letter) in SPECIAL {
        if mode & bit != 0 {
            number |= in_go;
            prefix.push(letter);
        }
    }
    if prefix.is_empty() {
        prefix.push('-');
    }
    let bit = |at: u32, letter: char| if mode & (1 << at) == 0 { '-' } else { letter };
    let letters: String = (0..9)
        .rev()
        .zip("rwxrwxrwx".chars())
        .map(|(at, letter)| bit(at, letter))
        .collect();
    format!("{prefix}{letters}/{number}/0{number:o}")
}

/// What says neither yes nor no (`static`, `alias`, `generated`, …) is as desired, and so is a unit
/// that is not there.
fn is_as_desired(enabled: bool, state: &str) -> bool {
    if enabled {
        !matches!(state, "disabled" | "masked" | "masked-runtime")
    } else {
        !matches!(state, "enabled" | "enabled-runtime")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Digest, Owner};

    fn file_expected() -> Expectation {
        Expectation::File {
            path: "/etc/x".to_owned(),
            file: FileState {
                digest: Digest::of(b"x"),
                mode: Mode(0o600),
                owner: Owners {
                    user: Owner::Name("core".to_owned()),
                    group: Owner::ROOT,
                },
            },
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
        let seen = Seen::File(FileState {
            digest: Digest::of(b"secret"),
            mode: Mode(0o755),
            owner: Owners::ROOT,
        });
        assert_eq!(
            texts(&file_expected(), &seen),
            [
                "mode mismatch for file: \"/etc/x\"; expected: -rw-------/384/0600; received: -rwxr-xr-x/493/0755",
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
            [
                "mode mismatch for file: \"/etc/x\"; expected: -rw-------/384/0600; \
                 received: Lrwxrwxrwx/134218239/01000000777 (link to /etc/y)"
            ]
        );
        let directory = Seen::Directory(Mode(0o1755));
        assert_eq!(
            texts(&file_expected(), &directory),
            [
                "mode mismatch for file: \"/etc/x\"; expected: -rw-------/384/0600; \
                 received: dtrwxr-xr-x/2148532717/020004000755 (directory)"
            ]
        );
        let set_id = Seen::File(FileState {
            digest: Digest::of(b"x"),
            mode: Mode(0o4600),
            owner: Owners {
                user: Owner::Name("core".to_owned()),
                group: Owner::ROOT,
            },
        });
        assert_eq!(
            texts(&file_expected(), &set_id),
            [
                "mode mismatch for file: \"/etc/x\"; expected: -rw-------/384/0600; \
                 received: urw-------/8388992/040000600"
            ]
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
            (true, "not-found", true),
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
    fn missing_kernel_arguments_are_one_mismatch_in_place() {
        let argument = |argument: &str| Expectation::KernelArgument {
            argument: argument.to_owned(),
            times: 1,
        };
        let (a, b, c) = (argument("a"), argument("b"), argument("c"));
        let (file, none, one) = (file_expected(), Seen::Times(0), Seen::Times(1));
        let nothing = Seen::Nothing;
        let mismatches = judge([(&a, &none), (&b, &one), (&c, &none), (&file, &nothing)]);
        let mismatches: Vec<String> = mismatches.iter().map(ToString::to_string).collect();
        assert_eq!(
            mismatches,
            [
                "missing expected kernel arguments: [a c]",
                "could not stat file \"/etc/x\": no such file",
            ]
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

    #[test]
    fn a_unit_that_a_node_needs_has_to_run() {
        let expected = Expectation::Runs {
            unit: "kubelet.service".to_owned(),
        };
        assert!(texts(&expected, &Seen::Unit("active".to_owned())).is_empty());
        assert_eq!(
            texts(&expected, &Seen::Nothing),
            ["unit \"kubelet.service\" does not run: found nothing"]
        );
        assert_eq!(
            texts(&expected, &Seen::Unit("inactive".to_owned())),
            ["unit \"kubelet.service\" does not run: found inactive"]
        );
    }
}
