//! A host in a directory: deployments, a shared `/var`, and around them
//!
//! - `fault`: a fault on demand
//! - `loader`: the boot loader
//! - `services`: what systemd does
//! - `tree`: directories that are copied and compared

mod fault;
mod loader;
mod services;
mod tree;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::rc::Rc;

use node_update::plan::{Bundle, Deploy, Route};

pub(super) use self::fault::{Crash, Fault};
use self::fault::{Faulty, Point};
use self::loader::BootLoader;
use self::services::{NoUnits, SimulatedUnits};
pub(super) use self::tree::Snapshot;
use self::tree::{carry, copy, put, walk};
use crate::accounts::MissingAccounts;
use crate::execute::boot::{self, Booted};
use crate::execute::{
    End, Error, NewDeployment, StepExecutor, Steps, Sysroot, Units, live, reboot,
};
use crate::files::Root;
use crate::journal::{
    AttemptOutcome, DeploymentId, JournalStage, JournalStore, Moment, tests as journal_tests,
};

#[derive(Debug)]
pub(super) struct Host {
    dir: tempfile::TempDir,
    point: Point,
    bundle: Bundle,
    loader: BootLoader,
    booted: DeploymentId,
    boots: u32,
    running: Rc<RefCell<BTreeSet<String>>>,
    refuse_verification: bool,
    stays: bool,
}

impl Host {
    pub(super) fn new(bundle: &Bundle) -> Self {
        // In memory: the tests need no thousands of syncs.
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
        let text = b"[Service]\nExecStart=/bin/true\n[Install]\nAlso=along.socket\n";
        put(&deployed, "etc/systemd/system/leaves.service", text);
        for unit in ["leaves.service", "along.socket"] {
            let wanted = units.join("multi-user.target.wants").join(unit);
            symlink(format!("/etc/systemd/system/{unit}"), wanted).unwrap();
        }
        fs::create_dir_all(dir.path().join("var/lib")).unwrap();
        fs::create_dir_all(dir.path().join("var/home/core")).unwrap();
        let running = ["kubelet.service", "old.service"].map(str::to_owned);
        let host = Self {
            point: Point::of(dir.path().to_owned()),
            dir,
            bundle: bundle.clone(),
            loader: BootLoader::new(origin.clone()),
            booted: origin,
            boots: 1,
            running: Rc::new(RefCell::new(BTreeSet::from(running))),
            refuse_verification: false,
            stays: false,
        };
        host.store_bundle();
        host
    }

    pub(super) fn offer(&mut self, bundle: &Bundle) {
        self.bundle = bundle.clone();
        self.store_bundle();
    }

    pub(super) fn arm(&self, fault: Fault, after: u32) {
        self.point.arm(fault, after);
    }

    /// Cuts the journal off, and if asked its copy.
    pub(super) fn spoil_journal(&self, with_copy: bool) {
        let copy = with_copy.then_some("journal.json.good");
        for name in ["journal.json"].into_iter().chain(copy) {
            put(self.dir.path(), &format!("var/lib/slipway/{name}"), b"{");
        }
    }

    /// Whether the fault occurred. A full or broken disk stays so.
    pub(super) fn is_faulty(&self) -> bool {
        self.point.is_met()
    }

    /// Applies as to a control-plane node: a target whose verification fails stays booted.
    pub(super) fn stay(&mut self) {
        self.stays = true;
    }

    pub(super) fn disarm(&self) -> bool {
        self.point.disarm()
    }

    pub(super) fn refuse_verification(&mut self) {
        self.refuse_verification = true;
    }

    /// Boots that the boot loader still counts.
    pub(super) fn tries(&self) -> Option<u32> {
        self.loader.tries()
    }

    /// Applies as mcd-os does: the stored plan, or the offered one if none is stored.
    pub(super) fn apply(&mut self) -> Result<End, Error> {
        let live_root = self.live_root();
        let store = JournalStore::new(&live_root);
        let plan = self.bundle.plan.clone();
        if store.journal()?.is_none() && store.plans()?.is_empty() {
            self.store_bundle();
        }
        let moment = self.moment();
        let booted = self.booted.clone();
        let stays = self.stays;
        let mut running = SimulatedUnits {
            root: self.live_root(),
            of: self.parts(),
        };
        if plan.route == Route::Live {
            let mut executor = Faulty {
                executor: StepExecutor::new(&live_root, &mut running, &store, plan.attempt.clone()),
                point: self.point.clone(),
            };
            let refuse = self.refuse_verification;
            let mut verify = |_: &mut dyn Steps| {
                if refuse {
                    return Err(Error::NotVerified {
                        reasons: vec!["refused".to_owned()],
                    });
                }
                Ok(())
            };
            return live::apply(&store, &mut executor, plan, booted, &mut verify, &moment);
        }
        let point = self.point.clone();
        let var = self.dir.path().join("var");
        let units_of = move |made: &NewDeployment| -> Box<dyn Units> {
            let root = Root::open(made.root.path(), Some(&var)).unwrap();
            let root = root.with_labels(Some(Box::new(point.clone())));
            Box::new(SimulatedUnits {
                root,
                of: (point.clone(), Rc::default()),
            })
        };
        let mut host = reboot::RunningHost {
            store: &store,
            sysroot: self,
            running: &mut running,
            units_of: &units_of,
            moment: &moment,
        };
        reboot::apply(&mut host, plan, stays)
    }

    pub(super) fn guard(&mut self) -> Result<End, Error> {
        self.as_booted(boot::guard)
    }

    /// The guard's work, as the verify unit does it where the guard failed.
    pub(super) fn guard_late(&mut self) -> Result<End, Error> {
        self.as_booted(boot::guard_late)
    }

    /// Ends the attempt as mcd-os does for a target that cannot be checked.
    pub(super) fn fail_if_booted(&mut self, cause: &str) -> Result<Option<End>, Error> {
        self.as_booted(|host| boot::fail_if_booted(host, cause))
    }

    /// The checks, as the verify unit runs them.
    pub(super) fn verify(&mut self) -> Result<End, Error> {
        let refuse = self.refuse_verification;
        self.as_booted(|host| match host.store.journal_under_way()? {
            Some(journal) if journal.stage == JournalStage::Booted => {
                if refuse {
                    boot::failed(host, journal, "refused")
                } else {
                    boot::verified(host, &journal)
                }
            }
            Some(_) | None => Ok(End::Done),
        })
    }

    pub(super) fn revert_or_roll_back(&mut self) -> Result<End, Error> {
        let parts = self.parts();
        let live = self.live_root();
        self.as_booted(|host| {
            let mut running = SimulatedUnits {
                root: live,
                of: parts,
            };
            let units_of = |_: &NewDeployment| -> Box<dyn Units> { Box::new(NoUnits) };
            let mut revert = |host: &mut Booted<'_>, journal, cause: &str| {
                let mut host = reboot::RunningHost {
                    store: host.store,
                    sysroot: host.sysroot,
                    running: &mut running,
                    units_of: &units_of,
                    moment: host.moment,
                };
                reboot::revert(&mut host, journal, cause)
            };
            boot::revert_or_roll_back(host, &mut revert, "an administrator asked")
        })
    }

    /// Makes the boot loader one that does not count.
    pub(super) fn never_count(&mut self) {
        self.loader.never_count();
    }

    /// Makes deployments of a commit fail before the guard runs.
    pub(super) fn have_die(&mut self, commit: &'static str) {
        self.loader.have_die(commit);
    }

    /// How often such a deployment was booted.
    pub(super) fn deaths(&self) -> u32 {
        self.loader.deaths()
    }

    /// Boots until a deployment stays up.
    pub(super) fn reboot(&mut self) {
        let mut stays_up = false;
        while !stays_up {
            (self.booted, stays_up) = self.loader.boot();
            self.boots += 1;
        }
        let enabled = ["kubelet.service"].map(str::to_owned);
        *self.running.borrow_mut() = BTreeSet::from(enabled);
    }

    pub(super) fn is_under_way(&self) -> bool {
        JournalStore::new(&self.plain_root())
            .journal()
            .unwrap()
            .is_some()
    }

    pub(super) fn last(&self) -> Option<AttemptOutcome> {
        JournalStore::new(&self.plain_root())
            .last()
            .unwrap()
            .map(|last| last.outcome)
    }

    pub(super) fn held(&self) -> Option<String> {
        JournalStore::new(&self.plain_root())
            .held()
            .unwrap()
            .map(|held| held.target.config)
    }

    pub(super) fn kubelet_runs(&self) -> bool {
        self.running.borrow().contains("kubelet.service")
    }

    /// Whether a timer to start the kubelet is set.
    pub(super) fn is_timed(&self) -> bool {
        let running = self.running.borrow();
        running
            .iter()
            .any(|unit| unit.starts_with("slipway-kubelet-"))
    }

    pub(super) fn target_is_default(&self) -> bool {
        *self.loader.first() != self.booted
    }

    /// Deployments on disk, also those without a boot entry.
    pub(super) fn deployments(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join("deploy")).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// The files of the booted system, except Slipway's own.
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
        let store = JournalStore::new(&live_root);
        let moment = self.moment();
        let attempt = self.bundle.plan.attempt.clone();
        let mut running = SimulatedUnits {
            root: self.live_root(),
            of: self.parts(),
        };
        let mut executor = Faulty {
            executor: StepExecutor::new(&live_root, &mut running, &store, attempt),
            point: self.point.clone(),
        };
        act(&mut Booted {
            store: &store,
            sysroot: self,
            executor: &mut executor,
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
        JournalStore::new(&self.plain_root())
            .put_plan(&self.bundle)
            .unwrap();
    }

    fn crash_point(&self) -> Result<(), Error> {
        self.point
            .hit()
            .map_err(|error| Error::Sysroot(Box::new(error)))
    }

    /// The same, where something was written to the disk. The boot loader has its own.
    fn write_point(&self) -> Result<(), Error> {
        self.point
            .write()
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

    fn default_deployment(&mut self) -> Result<DeploymentId, Error> {
        Ok(self.loader.first().clone())
    }

    fn rejections(&mut self, _deploy: &Deploy) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    fn deploy(&mut self, deploy: &Deploy) -> Result<NewDeployment, Error> {
        self.cleanup()?;
        let id = journal_tests::id(deploy.image.as_deref().unwrap_or("old"));
        let path = self.path_of(&id);
        copy(&self.dir.path().join("images").join(&id.checksum), &path);
        self.write_point()?;
        // A simple merge: files that differ from the origin's shipped ones are copied.
        copy(&path.join("usr/etc"), &path.join("etc"));
        self.write_point()?;
        let origin = self.path_of(&self.booted);
        carry(
            &origin.join("etc"),
            &origin.join("usr/etc"),
            &path.join("etc"),
        );
        self.write_point()?;
        let root = Root::open(&path, Some(&self.dir.path().join("var"))).unwrap();
        let root = root.with_labels(Some(Box::new(self.point.clone())));
        Ok(NewDeployment {
            id,
            root,
            missing_accounts: MissingAccounts::default(),
        })
    }

    fn set_default(&mut self, id: &DeploymentId, tries: Option<u32>) -> Result<(), Error> {
        self.crash_point()?;
        self.loader.count(tries);
        self.crash_point()?;
        self.loader.set(id, &self.booted);
        self.crash_point()
    }

    fn stop_boot_counting(&mut self) -> Result<(), Error> {
        self.crash_point()?;
        self.loader.count(None);
        self.crash_point()
    }

    fn cleanup(&mut self) -> Result<(), Error> {
        self.crash_point()?;
        for name in self.deployments() {
            if !self.loader.names(&name) {
                fs::remove_dir_all(self.dir.path().join("deploy").join(name)).unwrap();
            }
        }
        self.crash_point()
    }
}
