//! A fault on demand: the program is killed, or a call fails, at the nth point.

use std::cell::RefCell;
use std::panic;
use std::rc::Rc;

use node_update::plan::{Action, Undo};

use crate::execute::{Error, StepError, StepExecutor, Steps, Units};
use crate::files::{Labels, Root};

/// The panic payload of a killed program.
pub(in crate::execute::tests) struct Crash;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::execute::tests) enum Fault {
    /// The call fails.
    Error,
    /// The program is killed.
    Crash,
}

/// Points left until the fault, shared by all parts of the simulation.
#[derive(Debug, Default)]
struct Fuse {
    armed: Option<(Fault, u32)>,
    met: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Point(Rc<RefCell<Fuse>>);

impl Point {
    /// Sets a fault after `after` points.
    pub(super) fn arm(&self, fault: Fault, after: u32) {
        *self.0.borrow_mut() = Fuse {
            armed: Some((fault, after)),
            met: false,
        };
    }

    /// Clears the fault; whether it occurred.
    pub(super) fn disarm(&self) -> bool {
        std::mem::take(&mut *self.0.borrow_mut()).met
    }

    /// A point at which the program may be killed or a call may fail.
    pub(super) fn hit(&self) -> Result<(), StepError> {
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
        self.hit().map_err(|error| error.to_string())?;
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
