//! `mcd host-remove`: takes from a host what Slipway has put there.
//!
//! | order | what | by |
//! |---|---|---|
//! | 1 | kept images, the count of boots, units in deployments that are not booted, pins of images | `mcd-os remove`, as a unit of the host |
//! | 2 | units, links and drop-ins in the booted `/etc`; systemd reads its units again | this program |
//! | 3 | `/run/slipway`, the link to the daemon's program, `/var/lib/slipway` | this program |
//!
//! A host that reboots in between boots well: until the units are removed, their program and state
//! are whole; afterwards nothing starts the program. As long as something of `/var/lib/slipway` is
//! left, the next run does all of it again.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use chassis::report::Chain;
use clap::Args as ClapArgs;
use host::files::{Found, Root};
use host::journal::{JournalFault, JournalStore};
use host::systemd::SystemdClient;
use node_update::host_report::{HostRemoval, HostRemovalOutcome, SCHEMA};
use node_update::plan::Attempt;
use node_update::well_known::{GUARD_UNIT, STATE, VERIFY_UNIT};

use crate::daemon::helper::{Error as HelperError, Helper, Priority};
use crate::protocol::{HelperOutcome, RemoveDetails, Verb};
use crate::{own_units, program};

/// How long another program that acts on this host is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reports of the helper, and other files that are gone with the boot.
const VOLATILE: &str = "/run/slipway";

/// Directory of the link to the daemon's program, which has no other use on a host.
const LINKS: &str = "/run/bin";

/// Directory of the refs of kept images.
const REFS: &str = "/ostree/repo/refs/heads/slipway";

/// Every removal has the unit of the helper in common: one that was left running is waited for.
const ATTEMPT: &str = "host";
const REMOVAL_UNIT: &str = "slipway-remove-host.service";

/// Units of helpers, of the guard and of timers of an update under way.
const OWN_UNITS: &str = "slipway-*";

/// The lock's file: it is there once this program has looked.
const LOCK: &str = "lock";

/// Removes everything of Slipway from the host, and nothing else
///
/// For a pod that has the host's root and process ids. Prints what became of it as JSON. The record
/// of the host's configuration and the configuration's files stay. A run that was killed is resumed
/// by the next one. Exit codes: 0 removed, 1 failed or refused (an update is under way), 2 usage.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Where the host's root is mounted
    #[arg(long, default_value = "/rootfs")]
    root_mount: PathBuf,
    /// The helper that is put on the host
    #[arg(long, default_value = "/usr/bin/mcd-os")]
    helper: PathBuf,
}

/// Removes it, and prints what became of it.
///
/// # Errors
/// Where that cannot be printed.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut removed = Vec::new();
    let ended = runtime.block_on(remove(args, &mut removed));
    let (outcome, reasons) = ended.unwrap_or_else(|error| {
        let reason = Chain(error.as_ref()).to_string();
        (HostRemovalOutcome::Failed, vec![reason])
    });
    let removal = HostRemoval {
        schema: SCHEMA,
        outcome,
        reasons,
        removed,
    };
    let text = serde_json::to_string(&removal)?;
    writeln!(std::io::stdout(), "{text}").context("cannot print")?;
    Ok(match outcome {
        HostRemovalOutcome::Removed => ExitCode::SUCCESS,
        HostRemovalOutcome::Refused | HostRemovalOutcome::Failed => ExitCode::FAILURE,
    })
}

/// How it ended, and why.
type Ended = (HostRemovalOutcome, Vec<String>);

async fn remove(args: &Args, removed: &mut Vec<String>) -> anyhow::Result<Ended> {
    let root = Root::open(&args.root_mount, None).context("cannot open the host's root")?;
    let socket = args.root_mount.join("run/dbus/system_bus_socket");
    let systemd = SystemdClient::connect(Some(&socket)).await?;
    let mut reasons = running(&systemd.running(&[OWN_UNITS.to_owned()]).await?);
    reasons.extend(under_way(&root)?);
    if !reasons.is_empty() {
        return Ok((HostRemovalOutcome::Refused, reasons));
    }
    let mut left_out = Vec::new();
    if has_traces(&root)? {
        match remove_by_helper(args, &root).await? {
            Helped::Removed(paths) => removed.extend(paths),
            Helped::Refused(reasons) => return Ok((HostRemovalOutcome::Refused, reasons)),
            Helped::NotNeeded(why) => left_out.push(why),
        }
    }
    let store = JournalStore::new(&root);
    // Held until the end: no other program begins an update meanwhile.
    let lock = store.lock(PATIENCE)?;
    let reasons: Vec<String> = under_way(&root)?.into_iter().collect();
    if !reasons.is_empty() {
        return Ok((HostRemovalOutcome::Refused, reasons));
    }
    removed.extend(own_units::remove(&root)?);
    // In any case: a run that was killed may have removed them without this.
    systemd.reload().await?;
    for unit in [GUARD_UNIT, VERIFY_UNIT] {
        systemd.reset_failed(unit).await?;
    }
    removed.extend(remove_files(&root)?);
    drop(lock);
    Ok((HostRemovalOutcome::Removed, left_out))
}

/// Why units that run keep the removal from beginning. An earlier removal's is waited for.
fn running(units: &[String]) -> Vec<String> {
    let units = units.iter().filter(|unit| *unit != REMOVAL_UNIT);
    units
        .map(|unit| format!("unit {unit} runs on this host"))
        .collect()
}

/// Why the host's journal keeps the removal from beginning.
fn under_way(root: &Root) -> anyhow::Result<Option<String>> {
    let store = JournalStore::new(root);
    if let Some(fault) = store.journal_fault()? {
        let (JournalFault::Copied(_, error) | JournalFault::Lost(error)) = fault;
        return Ok(Some(format!(
            "it is unknown whether an attempt is under way on this host: {}",
            Chain(&error)
        )));
    }
    // One that ended, and of which only the journal was left, is over.
    let (journal, last) = (store.journal()?, store.last()?);
    let attempt = journal.map(|journal| journal.plan.attempt);
    let is_over = attempt.as_ref() == last.as_ref().map(|last| &last.attempt);
    Ok(attempt
        .filter(|_| !is_over)
        .map(|Attempt(attempt)| format!("attempt {attempt} is under way on this host")))
}

/// Whether something is left that the helper removes, or of which it says that there is nothing.
fn has_traces(root: &Root) -> anyhow::Result<bool> {
    let state = root.list(&root.locate(STATE)?)?;
    Ok(state.iter().any(|name| name != LOCK) || has_refs(root)?)
}

/// Whether there is a ref: libostree leaves the directories of those that it removes.
fn has_refs(root: &Root) -> anyhow::Result<bool> {
    let mut pending = vec![root.follow(REFS)?.to_string()];
    while let Some(directory) = pending.pop() {
        for name in root.list(&root.locate(&directory)?)? {
            let path = format!("{directory}/{name}");
            match root.inspect(&path)? {
                Found::Directory { .. } => pending.push(path),
                Found::File { .. } | Found::Link(_) | Found::Other => return Ok(true),
                Found::Nothing => {}
            }
        }
    }
    Ok(false)
}

/// What the helper has done.
#[derive(Debug, PartialEq, Eq)]
enum Helped {
    Removed(Vec<String>),
    Refused(Vec<String>),
    /// It does not run on this host, and has never run: there is nothing of its own.
    NotNeeded(String),
}

async fn remove_by_helper(args: &Args, root: &Root) -> anyhow::Result<Helped> {
    // Read first: what the helper removes.
    let has_run = has_refs(root)? || has_switched(root)?;
    let helper = Helper::place(&args.root_mount, &args.helper)?;
    let attempt = Attempt(ATTEMPT.to_owned());
    let report = match helper.run(&Verb::Remove, &attempt, Priority::Normal).await {
        Ok(report) => report,
        Err(error @ (HelperError::NoReport { .. } | HelperError::Unit { .. })) if !has_run => {
            let why = format!("mcd-os does not run on this host: {}", Chain(&error));
            return Ok(Helped::NotNeeded(why));
        }
        Err(error) => return Err(error).context("mcd-os cannot remove what is its own"),
    };
    match report.outcome {
        HelperOutcome::Done => {
            let details: RemoveDetails = report
                .details()
                .context("cannot understand the report of mcd-os remove")?;
            Ok(Helped::Removed(details.removed))
        }
        HelperOutcome::Rejected => Ok(Helped::Refused(report.reasons)),
        HelperOutcome::Failed | HelperOutcome::NeedsReboot => {
            anyhow::bail!("mcd-os remove failed: {}", report.because())
        }
    }
}

/// Whether this host was ever led to another deployment.
fn has_switched(root: &Root) -> anyhow::Result<bool> {
    let store = JournalStore::new(root);
    Ok(store.switch()?.is_some() || store.last()?.is_some())
}

/// Removes the files that no unit needs any more, those of `/var/lib/slipway` last; their paths.
fn remove_files(root: &Root) -> anyhow::Result<Vec<String>> {
    let mut removed = Vec::new();
    let link = root.locate(program::DAEMON_LINK)?;
    if let Found::Link(target) = root.look(&link)?
        && target.as_str().is_some_and(is_own_program)
    {
        root.remove(&link)?;
        removed.push(program::DAEMON_LINK.to_owned());
    }
    root.remove_empty_directory(&root.locate(LINKS)?)?;
    for directory in [VOLATILE, STATE] {
        let at = root.locate(directory)?;
        // The lock alone is this program's own.
        let is_used = root.list(&at)?.iter().any(|name| name != LOCK);
        root.remove_all(&at)?;
        if is_used {
            removed.push(directory.to_owned());
        }
    }
    Ok(removed)
}

fn is_own_program(target: &str) -> bool {
    target.starts_with(&format!("{}/", program::DIRECTORY))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::symlink;

    use host::journal::{AttemptOutcome, DeploymentId, Journal, Moment};
    use jiff::Timestamp;
    use node_update::plan::{Digest, Plan, Route, SCHEMA as PLAN_SCHEMA, Target};

    use super::*;

    struct Host {
        dir: tempfile::TempDir,
        root: Root,
    }

    impl Host {
        /// A host on which other programs have files.
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = Root::open(dir.path(), None).unwrap();
            let host = Self { dir, root };
            for path in [
                "etc/machine-config-daemon/currentconfig",
                "etc/systemd/system/kubelet.service",
                "run/dbus/other",
                "var/lib/other/slipway",
            ] {
                host.put(path, "theirs");
            }
            host
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut file = fs::File::create(path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        /// Puts on it what the daemon and the helper put there.
        fn install(&self) {
            for (unit, text) in own_units::UNITS {
                self.put(&format!("etc/systemd/system/{unit}"), text);
            }
            let wants = self
                .dir
                .path()
                .join("etc/systemd/system/sysinit.target.wants");
            fs::create_dir_all(&wants).unwrap();
            symlink(
                format!("/etc/systemd/system/{GUARD_UNIT}"),
                wants.join(GUARD_UNIT),
            )
            .unwrap();
            self.put("var/lib/slipway/bin/0123/mcd-os", "program");
            self.put("var/lib/slipway/bin/0123/mcd", "program");
            self.put("var/lib/slipway/late/etc/odd", "late");
            self.put("var/lib/slipway/last.json.good", "{}");
            self.put("run/slipway/proxy.env", "");
            symlink(
                "0123/mcd-os",
                self.dir.path().join("var/lib/slipway/bin/mcd-os"),
            )
            .unwrap();
            fs::create_dir_all(self.dir.path().join("run/bin")).unwrap();
            let link = self.dir.path().join("run/bin/machine-config-daemon");
            symlink("/var/lib/slipway/bin/0123/mcd", link).unwrap();
        }

        fn entries(&self) -> BTreeSet<PathBuf> {
            let mut found = BTreeSet::new();
            let mut pending = vec![self.dir.path().to_owned()];
            while let Some(directory) = pending.pop() {
                for entry in fs::read_dir(&directory).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() && !path.is_symlink() {
                        pending.push(path.clone());
                    }
                    found.insert(path);
                }
            }
            found
        }

        fn remove(&self) -> Vec<String> {
            let mut removed = own_units::remove(&self.root).unwrap();
            removed.extend(remove_files(&self.root).unwrap());
            removed
        }
    }

    #[test]
    fn what_others_have_on_a_host_stays_and_all_else_goes() {
        let host = Host::new();
        // Directories that are there on any host.
        fs::create_dir_all(host.dir.path().join("var/lib")).unwrap();
        let before = host.entries();
        host.install();
        assert!(has_traces(&host.root).unwrap());
        let removed = host.remove();
        for path in [STATE, VOLATILE, program::DAEMON_LINK] {
            assert!(removed.iter().any(|it| it == path), "{removed:?}");
        }
        assert_eq!(host.entries(), before);
        assert!(!has_traces(&host.root).unwrap());
        JournalStore::new(&host.root).lock(PATIENCE).unwrap();
        assert_eq!(host.remove(), [""; 0]);
        assert_eq!(host.entries(), before);
    }

    #[test]
    fn a_removal_that_was_killed_is_resumed() {
        let before = Host::new().entries().len();
        let units = "etc/systemd/system";
        let gone: [&[&str]; 4] = [
            &["etc/systemd/system/sysinit.target.wants/slipway-guard.service"],
            &[
                "etc/systemd/system/sysinit.target.wants/slipway-guard.service",
                "etc/systemd/system/slipway-guard.service",
                "etc/systemd/system/slipway-verify.service",
            ],
            &["run/bin/machine-config-daemon", "run/slipway/proxy.env"],
            &[
                "run/bin/machine-config-daemon",
                "var/lib/slipway/bin/0123/mcd-os",
            ],
        ];
        for gone in gone {
            let host = Host::new();
            host.install();
            // Of a program that was killed while it wrote.
            host.put(&format!("{units}/.{GUARD_UNIT}.slipway-new"), "");
            for path in gone {
                fs::remove_file(host.dir.path().join(path)).unwrap();
            }
            assert!(has_traces(&host.root).unwrap(), "{gone:?}");
            host.remove();
            assert_eq!(host.entries().len(), before, "{gone:?}");
        }
    }

    #[test]
    fn a_link_of_another_program_stays() {
        let host = Host::new();
        fs::create_dir_all(host.dir.path().join("run/bin")).unwrap();
        let link = host.dir.path().join("run/bin/machine-config-daemon");
        symlink("/usr/bin/machine-config-daemon", &link).unwrap();
        let before = host.entries();
        assert_eq!(host.remove(), [""; 0]);
        assert_eq!(host.entries(), before);
    }

    #[test]
    fn kept_images_are_traces() {
        let host = Host::new();
        assert!(!has_traces(&host.root).unwrap());
        JournalStore::new(&host.root).lock(PATIENCE).unwrap();
        assert!(!has_traces(&host.root).unwrap(), "the lock alone is none");
        let images = host.dir.path().join("ostree/repo/refs/heads/slipway/image");
        fs::create_dir_all(images).unwrap();
        assert!(!has_traces(&host.root).unwrap(), "nor is a directory");
        host.put("ostree/repo/refs/heads/slipway/image/a/b", "");
        assert!(has_traces(&host.root).unwrap());
    }

    #[test]
    fn units_of_helpers_keep_it_from_beginning_and_an_earlier_removal_does_not() {
        let units = |names: &[&str]| -> Vec<String> {
            running(&names.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(units(&[]), [""; 0]);
        assert_eq!(units(&[REMOVAL_UNIT]), [""; 0]);
        assert_eq!(
            units(&["slipway-fetch-a-1.service", REMOVAL_UNIT]),
            ["unit slipway-fetch-a-1.service runs on this host"]
        );
    }

    fn journal(attempt: &str) -> Journal {
        let target = |config: &str| Target {
            config: config.to_owned(),
            image: None,
        };
        let plan = Plan {
            schema: PLAN_SCHEMA,
            attempt: Attempt(attempt.to_owned()),
            from: target("rendered-a"),
            to: target("rendered-b"),
            route: Route::Live,
            drain: false,
            origin: Vec::new(),
            post_config_actions: Vec::new(),
            because: Vec::new(),
            without_effect: Vec::new(),
            deploy: None,
            steps: Vec::new(),
            record: Digest::of(b""),
            expect: Vec::new(),
        };
        let origin = DeploymentId {
            checksum: "0".repeat(64),
            serial: 0,
        };
        Journal::open(plan, origin, false, &moment())
    }

    fn moment() -> Moment {
        Moment {
            boot_id: "boot".to_owned(),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn an_attempt_under_way_keeps_it_from_beginning() {
        let host = Host::new();
        assert_eq!(under_way(&host.root).unwrap(), None);
        let store = JournalStore::new(&host.root);
        let journal = journal("a-1");
        store.put_journal(&journal).unwrap();
        assert_eq!(
            under_way(&host.root).unwrap().as_deref(),
            Some("attempt a-1 is under way on this host")
        );
        assert!(!has_switched(&host.root).unwrap());
        let last = journal.end(AttemptOutcome::Verified, None, &moment());
        store.close(&journal, &last).unwrap();
        assert!(has_switched(&host.root).unwrap());
        // As where it was killed before it removed the journal.
        store.put_journal(&journal).unwrap();
        assert_eq!(under_way(&host.root).unwrap(), None);
    }

    #[test]
    fn a_journal_that_cannot_be_read_keeps_it_from_beginning() {
        let host = Host::new();
        host.put("var/lib/slipway/journal.json", "{");
        let why = under_way(&host.root).unwrap().unwrap();
        assert!(why.starts_with("it is unknown whether"), "{why}");
        host.put("var/lib/slipway/journal.json", "{\"schema\":99}");
        assert!(under_way(&host.root).is_err());
    }
}
