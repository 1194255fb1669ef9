//! Observes a host for the expectations of its configuration. All reads are local.

use chassis::report::Chain;
use node_update::kargs;
use node_update::plan::{Digest, Expectation, FileState, Owner, OwnerIds, Owners, Target};
use node_update::verify::{Mismatch, Seen, judge};

use crate::accounts::Accounts;
use crate::execute::{StepError, Units};
use crate::files::{Found, Root};
use crate::record;
use crate::systemd::links::{self, known::KnownLinks};

/// The running kernel's command line.
const COMMAND_LINE: &str = "/proc/cmdline";

/// Checks the host against `expectations` and returns the mismatches.
pub fn mismatches(
    root: &Root,
    units: &mut dyn Units,
    expectations: &[Expectation],
) -> Vec<Mismatch> {
    let mut host = HostView::new(root);
    let seen: Vec<Seen> = expectations
        .iter()
        .map(|each| observe(&mut host, units, each))
        .collect();
    judge(expectations.iter().zip(&seen))
}

/// A root, of which is read once what concerns many files or units.
struct HostView<'a> {
    root: &'a Root,
    accounts: Option<Accounts>,
    links: Option<KnownLinks>,
}

impl<'a> HostView<'a> {
    const fn new(root: &'a Root) -> Self {
        Self {
            root,
            accounts: None,
            links: None,
        }
    }

    fn accounts(&mut self) -> Result<&Accounts, StepError> {
        match &mut self.accounts {
            Some(read) => Ok(read),
            none => Ok(none.insert(Accounts::read(self.root)?)),
        }
    }

    /// The state of a unit, where that is plain. `enabled` is what it should be: only that is taken
    /// from the links. What differs from it is for systemd to say.
    fn plain_state(&mut self, unit: &str, enabled: bool) -> Result<Option<String>, StepError> {
        let links = match &mut self.links {
            Some(read) => read,
            none => none.insert(KnownLinks::read(self.root)?),
        };
        let wanted = if enabled { "enabled" } else { "disabled" };
        let state = links.plain_state(unit).filter(|state| *state == wanted);
        Ok(state.map(str::to_owned))
    }
}

/// Observes the host for one expectation. A failed read becomes [`Seen::Unreadable`].
fn observe(host: &mut HostView<'_>, units: &mut dyn Units, expectation: &Expectation) -> Seen {
    try_observe(host, units, expectation)
        .unwrap_or_else(|error| Seen::Unreadable(Chain(&error).to_string()))
}

fn try_observe(
    host: &mut HostView<'_>,
    units: &mut dyn Units,
    expectation: &Expectation,
) -> Result<Seen, StepError> {
    let root = host.root;
    Ok(match expectation {
        Expectation::Record { .. } => record::read(root)?.map_or(Seen::Nothing, |record| {
            let Target { config, image } = record.into_target();
            Seen::Record { config, image }
        }),
        Expectation::KernelArgument { argument, .. } => {
            let line = root.read(COMMAND_LINE)?.unwrap_or_default();
            let argument = kargs::unquoted(argument);
            let present = kargs::split_line(&String::from_utf8_lossy(&line));
            let is_it = |present: &&String| kargs::unquoted(present) == argument;
            Seen::Times(present.iter().filter(is_it).count())
        }
        Expectation::File { path, file } => observe_file(host, path, &file.owner)?,
        Expectation::Masked { unit } => seen(root.look(&links::unit_path(root, unit)?)?, |_| {
            Ok(Owners::ROOT)
        })?,
        Expectation::Enabled { unit, .. } if !links::exists(root, unit)? => {
            Seen::Unit("not-found".to_owned())
        }
        Expectation::Active { unit }
        | Expectation::Runs { unit }
        | Expectation::Started { unit }
            if !links::exists(root, unit)? =>
        {
            Seen::Nothing
        }
        Expectation::Enabled { unit, enabled } => {
            Seen::Unit(match host.plain_state(unit, *enabled)? {
                Some(state) => state,
                None => units.file_state(unit)?,
            })
        }
        Expectation::Active { unit } => units.active_state(unit)?.map_or(Seen::Nothing, Seen::Unit),
        Expectation::Started { unit } => units.start_state(unit)?.map_or(Seen::Nothing, Seen::Unit),
        Expectation::Runs { unit } => {
            let state = units.active_state(unit)?;
            Seen::Unit(state.unwrap_or_else(|| "kept by its own conditions".to_owned()))
        }
    })
}

/// Names the owner as the expectation does where it is the same account.
fn observe_file(host: &mut HostView<'_>, path: &str, expected: &Owners) -> Result<Seen, StepError> {
    let found = host.root.inspect(path)?;
    seen(found, |OwnerIds { uid, gid }| {
        let Owners { user, group } = expected;
        let accounts = host.accounts()?;
        // An account that does not exist owns nothing.
        let is_user = accounts.uid(user).is_ok_and(|id| id == uid);
        let is_group = accounts.gid(group).is_ok_and(|id| id == gid);
        let user = if is_user {
            user.clone()
        } else {
            Owner::Id(uid)
        };
        let group = if is_group {
            group.clone()
        } else {
            Owner::Id(gid)
        };
        Ok(Owners { user, group })
    })
}

fn seen(
    found: Found,
    owners: impl FnOnce(OwnerIds) -> Result<Owners, StepError>,
) -> Result<Seen, StepError> {
    Ok(match found {
        Found::Nothing => Seen::Nothing,
        Found::File { bytes, mode, owner } => Seen::File(FileState {
            digest: Digest::of(&bytes),
            mode,
            owner: owners(owner)?,
        }),
        Found::Link(target) => Seen::Link {
            target: target.to_string(),
        },
        Found::Directory { mode, .. } => Seen::Directory(mode),
        Found::Other => Seen::Other("device, socket or pipe".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use node_update::plan::Mode;

    use super::*;
    use crate::systemd::{Enablement, Job};

    /// Units that all have the given state.
    struct Are(&'static str);

    impl Units for Are {
        fn set_enablement(&mut self, _: Enablement, _: &str) -> Result<(), StepError> {
            Err(StepError::NotRunning)
        }
        fn file_state(&mut self, _: &str) -> Result<String, StepError> {
            Ok(self.0.to_owned())
        }
        fn reload_manager(&mut self) -> Result<(), StepError> {
            Err(StepError::NotRunning)
        }
        fn run(&mut self, _: Job, _: &str) -> Result<(), StepError> {
            Err(StepError::NotRunning)
        }
        fn active_state(&mut self, _: &str) -> Result<Option<String>, StepError> {
            Ok(Some(self.0.to_owned()))
        }
    }

    fn put(root: &std::path::Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
        fs::write(path, text).unwrap();
    }

    /// Units whose states are asked for one by one.
    #[derive(Default)]
    struct Asked(Vec<String>);

    impl Units for Asked {
        fn set_enablement(&mut self, _: Enablement, _: &str) -> Result<(), StepError> {
            Err(StepError::NotRunning)
        }
        fn file_state(&mut self, unit: &str) -> Result<String, StepError> {
            self.0.push(unit.to_owned());
            Ok("enabled-runtime".to_owned())
        }
        fn reload_manager(&mut self) -> Result<(), StepError> {
            Err(StepError::NotRunning)
        }
        fn run(&mut self, _: Job, _: &str) -> Result<(), StepError> {
            Err(StepError::NotRunning)
        }
        fn active_state(&mut self, _: &str) -> Result<Option<String>, StepError> {
            Err(StepError::NotRunning)
        }
    }

    #[test]
    fn systemd_says_what_differs_and_what_links_leave_open() {
        let dir = tempfile::tempdir().unwrap();
        for unit in ["on", "off", "switched-off", "switched-on", "linked"] {
            let path = format!("usr/lib/systemd/system/{unit}.service");
            put(dir.path(), &path, "");
        }
        let wants = dir.path().join("etc/systemd/system/x.wants");
        fs::create_dir_all(&wants).unwrap();
        for unit in ["on", "switched-on"] {
            let name = format!("{unit}.service");
            symlink(format!("../{name}"), wants.join(name)).unwrap();
        }
        let alias = dir.path().join("etc/systemd/system/alias.service");
        symlink("/usr/lib/systemd/system/linked.service", alias).unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        let expected = [
            ("on", true),
            ("off", false),
            ("switched-off", true),
            ("switched-on", false),
            ("linked", false),
        ];
        let expected = expected.map(|(unit, enabled)| Expectation::Enabled {
            unit: format!("{unit}.service"),
            enabled,
        });
        let mut units = Asked::default();
        let found = mismatches(&root, &mut units, &expected);
        let asked = ["switched-off", "switched-on", "linked"];
        assert_eq!(units.0, asked.map(|unit| format!("{unit}.service")));
        // As systemd says it.
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_host_in_its_configuration_has_no_mismatch_and_another_has_all() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "etc/passwd", "core:x:0:0::/:/bin/sh\n");
        put(dir.path(), "etc/file", "bytes");
        put(
            dir.path(),
            "proc/cmdline",
            "root=a quiet quiet \"dyndbg=file a +p\"\n",
        );
        put(dir.path(), "usr/lib/systemd/system/x.service", "");
        put(
            dir.path(),
            "etc/machine-config-daemon/currentconfig",
            r#"{"metadata":{"name":"r"}}"#,
        );
        fs::create_dir_all(dir.path().join("etc/systemd/system")).unwrap();
        symlink("/dev/null", dir.path().join("etc/systemd/system/m.service")).unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        let unit = |name: &str| name.to_owned();
        let expectations = [
            Expectation::Record {
                config: "r".to_owned(),
                image: None,
            },
            Expectation::KernelArgument {
                argument: "quiet".to_owned(),
                times: 2,
            },
            // As the boot entry has it; GRUB passes it with other quotes.
            Expectation::KernelArgument {
                argument: r#"dyndbg="file a +p""#.to_owned(),
                times: 1,
            },
            Expectation::File {
                path: "/etc/file".to_owned(),
                file: FileState {
                    digest: Digest::of(b"bytes"),
                    mode: Mode(0o644),
                    owner: Owners {
                        user: Owner::Name("core".to_owned()),
                        group: Owner::ROOT,
                    },
                },
            },
            Expectation::Masked {
                unit: unit("m.service"),
            },
            Expectation::Enabled {
                unit: unit("x.service"),
                enabled: true,
            },
            Expectation::Active {
                unit: unit("none.service"),
            },
        ];
        let found = mismatches(&root, &mut Are("enabled"), &expectations);
        assert!(found.is_empty(), "{found:?}");

        put(dir.path(), "etc/file", "other");
        put(dir.path(), "proc/cmdline", "root=a quiet\n");
        fs::remove_file(dir.path().join("etc/systemd/system/m.service")).unwrap();
        put(dir.path(), "etc/machine-config-daemon/currentconfig", "{}");
        let found = mismatches(&root, &mut Are("disabled"), &expectations);
        assert_eq!(found.len(), 5, "{found:?}");
    }
}
