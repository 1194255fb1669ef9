//! A fault on demand: the program is killed, a call fails, or the disk fills up, at the nth point.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::{fs, panic};

use node_update::plan::{Action, Undo};
use rustix::io::Errno;

use crate::execute::{Error, StepError, StepExecutor, Steps, Units};
use crate::files::{self, LabelError, Labels, Root};

/// The panic payload of a killed program.
pub(in crate::execute::tests) struct Crash;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::execute::tests) enum Fault {
    Error,
    Crash,
    /// The disk is full: each write fails until as much is freed as it needs.
    Full,
    /// The disk takes no more writes, with this error.
    Broken(Errno),
}

/// Points left until the fault, shared by all parts of the simulation.
#[derive(Debug, Default)]
struct Fuse {
    armed: Option<(Fault, u32)>,
    met: bool,
    disk: Disk,
}

/// What a file system gives out at once, on most hosts.
const BLOCK_BYTES: u64 = 4096;

/// What writes to the disk meet.
#[derive(Debug, Default)]
enum Disk {
    #[default]
    Sound,
    /// It holds this many blocks.
    Full(u64),
    Broken(Errno),
}

#[derive(Debug, Clone)]
pub(super) struct Point {
    fuse: Rc<RefCell<Fuse>>,
    disk: PathBuf,
}

impl Point {
    /// Sets a fault after `after` points.
    pub(super) fn of(disk: PathBuf) -> Self {
        Self {
            fuse: Rc::default(),
            disk,
        }
    }

    pub(super) fn arm(&self, fault: Fault, after: u32) {
        *self.fuse.borrow_mut() = Fuse {
            armed: Some((fault, after)),
            ..Fuse::default()
        };
    }

    /// Clears the fault; whether it occurred.
    pub(super) fn disarm(&self) -> bool {
        std::mem::take(&mut *self.fuse.borrow_mut()).met
    }

    /// Whether the fault occurred; a disk stays as it is.
    pub(super) fn is_met(&self) -> bool {
        self.fuse.borrow().met
    }

    /// A point at which the program may be killed or a call may fail.
    pub(super) fn hit(&self) -> Result<(), StepError> {
        let mut fuse = self.fuse.borrow_mut();
        match &mut fuse.armed {
            Some((_, left)) if *left > 0 => *left -= 1,
            Some((fault, _)) => {
                let fault = *fault;
                fuse.armed = None;
                fuse.met = true;
                match fault {
                    Fault::Crash => {
                        drop(fuse);
                        panic::panic_any(Crash);
                    }
                    Fault::Error => {
                        return Err(StepError::Home {
                            path: "the fault of this test".to_owned(),
                        });
                    }
                    // What is written at this point does not fit any more.
                    Fault::Full => fuse.disk = Disk::Full(used(&self.disk).saturating_sub(1)),
                    Fault::Broken(errno) => fuse.disk = Disk::Broken(errno),
                }
            }
            None => {}
        }
        Ok(())
    }

    /// The same, where something is written to the disk.
    pub(super) fn write(&self) -> Result<(), StepError> {
        self.hit()?;
        let errno = match self.fuse.borrow().disk {
            Disk::Sound => return Ok(()),
            Disk::Full(room) if used(&self.disk) <= room => return Ok(()),
            Disk::Full(_) => Errno::NOSPC,
            Disk::Broken(errno) => errno,
        };
        Err(StepError::Files(files::Error::Write {
            path: "a path of this test".to_owned(),
            source: errno.into(),
        }))
    }
}

/// Blocks that the files below a directory take.
fn used(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let size = |entry: fs::DirEntry| {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            used(&entry.path())
        } else if kind.is_file() {
            entry.metadata().unwrap().len().div_ceil(BLOCK_BYTES)
        } else {
            0
        }
    };
    entries.map(size).sum()
}

impl Labels for Point {
    fn label(&self, _path: &str, _mode: u32) -> Result<Option<String>, LabelError> {
        // Asked between the write of a temporary file and its rename.
        self.write()?;
        Ok(None)
    }
}

/// Steps that may fail before and after each of them.
pub(super) struct Faulty<'a> {
    pub(super) executor: StepExecutor<'a>,
    pub(super) point: Point,
}

impl Faulty<'_> {
    fn crash_point(&self) -> Result<(), Error> {
        self.point.hit().map_err(|source| Error::Step {
            object: "point".to_owned(),
            source,
        })
    }
}

impl Steps for Faulty<'_> {
    fn perform(&mut self, action: &Action) -> Result<(), Error> {
        self.crash_point()?;
        self.executor.perform(action)?;
        self.crash_point()
    }

    fn observe(&mut self, action: &Action) -> Result<Undo, Error> {
        self.executor.observe(action)
    }

    fn restore(&mut self, action: &Action, undo: &Undo) -> Result<(), Error> {
        self.crash_point()?;
        self.executor.restore(action, undo)
    }

    fn is_of_deployment(&mut self, action: &Action) -> Result<bool, Error> {
        self.executor.is_of_deployment(action)
    }

    fn root(&self) -> &Root {
        self.executor.root()
    }

    fn units(&mut self) -> &mut dyn Units {
        self.executor.units()
    }
}
