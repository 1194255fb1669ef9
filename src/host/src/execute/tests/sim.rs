//! A host in a directory: deployments, a shared `/var`, a boot loader, units; and a fault on demand.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::panic;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use machineconfig::plan::{Action, Bundle, Deploy, Route, Undo};

use crate::accounts::Lost;
use crate::execute::boot::{self, Booted};
use crate::execute::{End, Error, Hands, Made, Perform, StepError, Sysroot, Units, live, reboot};
use crate::files::{Found, Labels, Root};
use crate::journal::{DeploymentId, Moment, Outcome, Stage, Store, tests as journal_tests};
use crate::systemd::{Enablement, Job, links};

/// Every path with what it holds.
pub(super) type Snapshot = BTreeMap<String, String>;

/// What a killed program leaves behind: this, unwinding.
pub(super) struct Crash;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The call fails.
    Error,
    /// The program is killed.
    Crash,
}

/// What is left until the fault, shared by all that acts.
#[derive(Debug, Default)]
struct Fuse {
    armed: Option<(Fault, u32)>,
    met: bool,
}

#[derive(Debug, Clone, Default)]
struct Point(Rc<RefCell<Fuse>>);

impl Point {
    /// A point at which the program may be killed or a call may fail.
    fn pass(&self) -> Result<(), StepError> {
        let mut fuse = self.0.borrow_mut();
        match &mut fuse.armed {
            Some((_, left)) if *left > 0 => *left -= 1,
            Some((fault, _)) => {
                let fault = *fault;
                fuse.armed = None;
                fuse.met = true;
                drop(fuse);
                if fault == Fault::Crash {
                    panic::panic_any(Crash);
                }
                return Err(StepError::Home {
                    path: "the fault of this test".to_owned(),
                });
            }
            None => {}
        }
        Ok(())
    }
}

impl Labels for Point {
    fn label(&self, _path: &str, _mode: u32) -> Result<Option<String>, String> {
        // Asked between the write of a temporary file and its rename.
        self.pass().map_err(|error| error.to_string())?;
        Ok(None)
    }
}

#[derive(Debug)]
pub(super) struct Host {
    dir: tempfile::TempDir,
    point: Point,
    bundle: Bundle,
    /// What the boot loader names, in order.
    entries: Vec<DeploymentId>,
    /// Boots that the first entry has left; none: the boot loader does not count.
    tries: Option<u32>,
    counts: bool,
    booted: DeploymentId,
    boots: u32,
    /// A commit that dies before the guard runs, and how often it was booted.
    dies: Option<(&'static str, u32)>,
    running: Rc<RefCell<BTreeSet<String>>>,
    refuse_proof: bool,
}

impl Host {
    pub(super) fn new(bundle: &Bundle) -> Self {
        // In memory: thousands of syncs are not what is tested here.
        let dir = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let origin = journal_tests::id("old");
        for image in ["old", "new"] {
            let image_dir = dir.path().join("images").join(image);
            put(&image_dir, "usr/etc/shipped.conf", image.as_bytes());
            put(&image_dir, "usr/etc/shadowed.conf", image.as_bytes());
            put(
                &image_dir,
                "usr/lib/systemd/system/old.service",
                b"[Service]\n",
            );
            put(
                &image_dir,
                "usr/lib/systemd/system/masked.service",
                b"[Service]\n",
            );
            put(
                &image_dir,
                "usr/etc/passwd",
                b"core:x:0:0::/home/core:/bin/sh\n",
            );
            put(&image_dir, "usr/etc/shadow", b"core:*:::::::\n");
            symlink("var/home", image_dir.join("home")).unwrap();
            fs::create_dir_all(image_dir.join("var")).unwrap();
        }
        let deployed = dir.path().join("deploy").join(origin.to_string());
        copy(&dir.path().join("images/old"), &deployed);
        copy(&deployed.join("usr/etc"), &deployed.join("etc"));
        put(&deployed, "etc/shadowed.conf", b"the old configuration's");
        put(&deployed, "etc/managed.d/only", b"the old configuration's");
        put(&deployed, "etc/unmanaged", b"an administrator's");
        put(
            &deployed,
            "etc/machine-config-daemon/currentconfig",
            br#"{"metadata":{"name":"rendered-old"}}"#,
        );
        let units = deployed.join("etc/systemd/system");
        fs::create_dir_all(units.join("multi-user.target.wants")).unwrap();
        symlink("/dev/null", units.join("unmasked.service")).unwrap();
        let wanted = units.join("multi-user.target.wants/old.service");
        symlink("/usr/lib/systemd/system/old.service", wanted).unwrap();
        fs::create_dir_all(dir.path().join("var/lib")).unwrap();
        fs::create_dir_all(dir.path().join("var/home/core")).unwrap();
        let running = ["kubelet.service", "old.service"].map(str::to_owned);
        let host = Self {
            dir,
            point: Point::default(),
            bundle: bundle.clone(),
            entries: vec![origin.clone()],
            tries: None,
            counts: true,
            booted: origin,
            boots: 1,
            dies: None,
            running: Rc::new(RefCell::new(BTreeSet::from(running))),
            refuse_proof: false,
        };
        host.store_bundle();
        host
    }

    pub(super) fn offer(&mut self, bundle: &Bundle) {
        self.bundle = bundle.clone();
        self.store_bundle();
    }

    pub(super) fn arm(&self, fault: Fault, after: u32) {
        *self.point.0.borrow_mut() = Fuse {
            armed: Some((fault, after)),
            met: false,
        };
    }

    pub(super) fn disarm(&self) -> bool {
        std::mem::take(&mut *self.point.0.borrow_mut()).met
    }

    pub(super) fn refuse_proof(&mut self) {
        self.refuse_proof = true;
    }

    /// As mcd-os does: what is asked is what is stored, and nothing else if nothing is.
    pub(super) fn apply(&mut self) -> Result<End, Error> {
        let live_root = self.live_root();
        let store = Store::new(&live_root);
        let plan = self.bundle.plan.clone();
        if store.journal()?.is_none() && store.plans()?.is_empty() {
            self.store_bundle();
        }
        let moment = self.moment();
        let booted = self.booted.clone();
        let mut running = Running {
            root: self.live_root(),
            of: self.parts(),
        };
        if plan.route == Route::Live {
            let mut hands = Faulty {
                hands: Hands::new(&live_root, &mut running, &store, plan.attempt.clone()),
                point: self.point.clone(),
            };
            let refuse = self.refuse_proof;
            let mut prove = |_: &mut dyn Perform| {
                if refuse {
                    return Err(Error::NotProved {
                        reasons: vec!["refused".to_owned()],
                    });
                }
                Ok(())
            };
            return live::apply(&store, &mut hands, plan, booted, &mut prove, &moment);
        }
        let point = self.point.clone();
        let var = self.dir.path().join("var");
        let units_of = move |made: &Made| -> Box<dyn Units> {
            let root = Root::open(made.root.path(), Some(&var)).unwrap();
            let root = root.with_labels(Some(Box::new(point.clone())));
            Box::new(Running {
                root,
                of: (point.clone(), Rc::default()),
            })
        };
        let mut host = reboot::Host {
            store: &store,
            sysroot: self,
            running: &mut running,
            units_of: &units_of,
            moment: &moment,
        };
        reboot::apply(&mut host, plan, false)
    }

    pub(super) fn guard(&mut self) -> Result<End, Error> {
        self.as_booted(boot::guard)
    }

    /// The checks, as the verify unit runs them.
    pub(super) fn prove(&mut self) -> Result<End, Error> {
        let refuse = self.refuse_proof;
        self.as_booted(|host| match host.store.settle()? {
            Some(journal) if journal.stage == Stage::Booted => {
                if refuse {
                    boot::failed(host, journal, "refused")
                } else {
                    boot::proved(host, &journal)
                }
            }
            Some(_) | None => Ok(End::Done),
        })
    }

    pub(super) fn roll_back(&mut self) -> Result<End, Error> {
        let parts = self.parts();
        let live = self.live_root();
        self.as_booted(|host| {
            let mut running = Running {
                root: live,
                of: parts,
            };
            let units_of = |_: &Made| -> Box<dyn Units> { Box::new(Nothing) };
            let mut take_back = |host: &mut Booted<'_>, journal, cause: &str| {
                let mut host = reboot::Host {
                    store: host.store,
                    sysroot: host.sysroot,
                    running: &mut running,
                    units_of: &units_of,
                    moment: host.moment,
                };
                reboot::take_back(&mut host, journal, cause)
            };
            boot::roll_back(host, &mut take_back, "an administrator asked")
        })
    }

    /// Has the boot loader be one that does not count.
    pub(super) fn never_count(&mut self) {
        self.counts = false;
    }

    /// Has deployments of a commit die before the guard runs.
    pub(super) fn have_die(&mut self, commit: &'static str) {
        self.dies = Some((commit, 0));
    }

    /// How often that one was booted.
    pub(super) fn deaths(&self) -> u32 {
        self.dies.map_or(0, |(_, deaths)| deaths)
    }

    /// Boots until something stays up.
    pub(super) fn reboot(&mut self) {
        loop {
            let entry = match &mut self.tries {
                Some(0) => 1.min(self.entries.len() - 1),
                Some(left) => {
                    *left -= 1;
                    0
                }
                None => 0,
            };
            self.booted = self.entries[entry].clone();
            self.boots += 1;
            match &mut self.dies {
                Some((commit, deaths))
                    if self.booted.checksum == journal_tests::id(commit).checksum =>
                {
                    *deaths += 1;
                    assert!(*deaths < 100, "it is booted for ever");
                }
                _ => break,
            }
        }
        let enabled = ["kubelet.service"].map(str::to_owned);
        *self.running.borrow_mut() = BTreeSet::from(enabled);
    }

    pub(super) fn is_under_way(&self) -> bool {
        Store::new(&self.plain_root()).journal().unwrap().is_some()
    }

    pub(super) fn last(&self) -> Option<Outcome> {
        Store::new(&self.plain_root())
            .last()
            .unwrap()
            .map(|last| last.outcome)
    }

    pub(super) fn held(&self) -> Option<String> {
        Store::new(&self.plain_root())
            .held()
            .unwrap()
            .map(|held| held.target.config)
    }

    pub(super) fn kubelet_runs(&self) -> bool {
        self.running.borrow().contains("kubelet.service")
    }

    pub(super) fn target_is_first(&self) -> bool {
        self.entries[0] != self.booted
    }

    /// Deployments on disk, those that nothing boots too.
    pub(super) fn deployments(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join("deploy")).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// What the booted system shows, but for what is ours.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut found = Snapshot::new();
        walk(&self.path_of(&self.booted), "", &mut found);
        walk(&self.dir.path().join("var"), "/var", &mut found);
        found.retain(|path, _| !path.starts_with("/var/lib/slipway"));
        found
    }

    fn parts(&self) -> (Point, Rc<RefCell<BTreeSet<String>>>) {
        (self.point.clone(), self.running.clone())
    }

    fn as_booted<T>(&mut self, act: impl FnOnce(&mut Booted<'_>) -> T) -> T {
        let live_root = self.live_root();
        let store = Store::new(&live_root);
        let moment = self.moment();
        let attempt = self.bundle.plan.attempt.clone();
        let mut running = Running {
            root: self.live_root(),
            of: self.parts(),
        };
        let mut hands = Faulty {
            hands: Hands::new(&live_root, &mut running, &store, attempt),
            point: self.point.clone(),
        };
        act(&mut Booted {
            store: &store,
            sysroot: self,
            hands: &mut hands,
            moment: &moment,
        })
    }

    fn moment(&self) -> Moment {
        journal_tests::moment(&format!("boot-{}", self.boots))
    }

    fn path_of(&self, id: &DeploymentId) -> PathBuf {
        self.dir.path().join("deploy").join(id.to_string())
    }

    fn plain_root(&self) -> Root {
        Root::open(
            &self.path_of(&self.booted),
            Some(&self.dir.path().join("var")),
        )
        .unwrap()
    }

    fn live_root(&self) -> Root {
        self.plain_root()
            .with_labels(Some(Box::new(self.point.clone())))
    }

    fn store_bundle(&self) {
        Store::new(&self.plain_root())
            .put_plan(&self.bundle)
            .unwrap();
    }

    fn pass(&self) -> Result<(), Error> {
        self.point
            .pass()
            .map_err(|error| Error::Sysroot(Box::new(error)))
    }
}

#[expect(
    clippy::unwrap_in_result,
    reason = "a failure of the simulation itself ends the test"
)]
impl Sysroot for Host {
    fn booted(&mut self) -> Result<DeploymentId, Error> {
        Ok(self.booted.clone())
    }

    fn first(&mut self) -> Result<DeploymentId, Error> {
        Ok(self.entries[0].clone())
    }

    fn refusals(&mut self, _deploy: &Deploy) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    fn make(&mut self, deploy: &Deploy) -> Result<Made, Error> {
        self.sweep()?;
        let id = journal_tests::id(deploy.image.as_deref().unwrap_or("old"));
        let path = self.path_of(&id);
        copy(&self.dir.path().join("images").join(&id.checksum), &path);
        self.pass()?;
        // The merge, narrow: what differs from what the old OS shipped is carried.
        copy(&path.join("usr/etc"), &path.join("etc"));
        self.pass()?;
        let origin = self.path_of(&self.booted);
        carry(
            &origin.join("etc"),
            &origin.join("usr/etc"),
            &path.join("etc"),
        );
        self.pass()?;
        let root = Root::open(&path, Some(&self.dir.path().join("var"))).unwrap();
        let root = root.with_labels(Some(Box::new(self.point.clone())));
        Ok(Made {
            id,
            root,
            lost: Lost::default(),
        })
    }

    fn make_first(&mut self, id: &DeploymentId, tries: Option<u32>) -> Result<(), Error> {
        self.pass()?;
        self.tries = tries.filter(|_| self.counts);
        self.pass()?;
        self.entries = vec![id.clone()];
        if *id != self.booted {
            self.entries.push(self.booted.clone());
        }
        self.pass()
    }

    fn keep_first(&mut self) -> Result<(), Error> {
        self.pass()?;
        self.tries = None;
        self.pass()
    }

    fn sweep(&mut self) -> Result<(), Error> {
        self.pass()?;
        for name in self.deployments() {
            if !self.entries.iter().any(|id| id.to_string() == name) {
                fs::remove_dir_all(self.dir.path().join("deploy").join(name)).unwrap();
            }
        }
        self.pass()
    }
}

/// Hands that may be struck before and after each step.
struct Faulty<'a> {
    hands: Hands<'a>,
    point: Point,
}

impl Faulty<'_> {
    fn pass(&self) -> Result<(), Error> {
        self.point.pass().map_err(|source| Error::Step {
            object: "point".to_owned(),
            source,
        })
    }
}

impl Perform for Faulty<'_> {
    fn perform(&mut self, action: &Action) -> Result<(), Error> {
        self.pass()?;
        self.hands.perform(action)?;
        self.pass()
    }

    fn observe(&mut self, action: &Action) -> Result<Undo, Error> {
        self.hands.observe(action)
    }

    fn restore(&mut self, action: &Action, undo: &Undo) -> Result<(), Error> {
        self.pass()?;
        self.hands.restore(action, undo)
    }

    fn is_of_deployment(&mut self, action: &Action) -> Result<bool, Error> {
        self.hands.is_of_deployment(action)
    }

    fn root(&self) -> &Root {
        self.hands.root()
    }

    fn units(&mut self) -> &mut dyn Units {
        self.hands.units()
    }
}

/// Units of a root, wanted by one target.
struct Running {
    root: Root,
    of: (Point, Rc<RefCell<BTreeSet<String>>>),
}

impl Units for Running {
    fn set_enablement(&mut self, change: Enablement, unit: &str) -> Result<(), StepError> {
        self.of.0.pass()?;
        let link = format!("{}/multi-user.target.wants/{unit}", links::UNITS);
        let at = self.root.locate(&link)?;
        if change == Enablement::Enable {
            self.root
                .symlink(&at, &format!("{}/{unit}", links::UNITS))?;
        } else {
            self.root.remove(&at)?;
            let wants = self
                .root
                .locate(&format!("{}/multi-user.target.wants", links::UNITS))?;
            self.root.remove_empty_directory(&wants)?;
        }
        self.of.0.pass()
    }

    fn file_state(&mut self, unit: &str) -> Result<String, StepError> {
        let link = format!("{}/multi-user.target.wants/{unit}", links::UNITS);
        let is_linked = self.root.look_at(&link)? != Found::Nothing;
        Ok(if is_linked { "enabled" } else { "disabled" }.to_owned())
    }

    fn reload_manager(&mut self) -> Result<(), StepError> {
        self.of.0.pass()
    }

    fn run(&mut self, job: Job, unit: &str) -> Result<(), StepError> {
        self.of.0.pass()?;
        let mut running = self.of.1.borrow_mut();
        if job == Job::Stop {
            running.remove(unit);
        } else {
            running.insert(unit.to_owned());
        }
        drop(running);
        self.of.0.pass()
    }

    fn active_state(&mut self, unit: &str) -> Result<Option<String>, StepError> {
        let is_active = self.of.1.borrow().contains(unit);
        Ok(Some(
            if is_active { "active" } else { "inactive" }.to_owned(),
        ))
    }
}

/// A root without units.
struct Nothing;

impl Units for Nothing {
    fn set_enablement(&mut self, _: Enablement, _: &str) -> Result<(), StepError> {
        Err(StepError::NotRunning)
    }
    fn file_state(&mut self, _: &str) -> Result<String, StepError> {
        Err(StepError::NotRunning)
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

fn put(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
    fs::write(path, bytes).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&from, &to);
        } else if kind.is_symlink() {
            symlink(fs::read_link(&from).unwrap(), &to).unwrap();
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// Carries what `etc` changed against `shipped` into `to`.
fn carry(etc: &Path, shipped: &Path, to: &Path) {
    for entry in fs::read_dir(etc).unwrap() {
        let entry = entry.unwrap();
        let (shipped, to) = (shipped.join(entry.file_name()), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            fs::create_dir_all(&to).unwrap();
            carry(&entry.path(), &shipped, &to);
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path()).unwrap(), &to).unwrap();
        } else if fs::read(entry.path()).ok() != fs::read(&shipped).ok() {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

fn walk(directory: &Path, shown: &str, found: &mut Snapshot) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let shown = format!("{shown}/{}", entry.file_name().display());
        let stat = fs::symlink_metadata(&path).unwrap();
        let what = if stat.is_dir() {
            walk(&path, &shown, found);
            "directory".to_owned()
        } else if stat.is_symlink() {
            format!("link {:?}", fs::read_link(&path).unwrap())
        } else {
            format!(
                "file {:?}",
                String::from_utf8_lossy(&fs::read(&path).unwrap())
            )
        };
        let mode = stat.permissions().mode();
        found.insert(
            shown,
            format!("{what} {mode:o} {}:{}", stat.uid(), stat.gid()),
        );
    }
}
