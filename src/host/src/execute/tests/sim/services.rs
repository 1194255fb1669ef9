//! The parts of systemd that an update uses.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use node_update::well_known::UNITS;

use super::fault::Point;
use crate::execute::{StepError, Units};
use crate::files::{Found, Root};
use crate::systemd::{Enablement, Job, links};

/// Units of a root, wanted by one target.
pub(super) struct SimulatedUnits {
    pub(super) root: Root,
    pub(super) of: (Point, Rc<RefCell<BTreeSet<String>>>),
}

impl Units for SimulatedUnits {
    fn set_enablement(&mut self, change: Enablement, unit: &str) -> Result<(), StepError> {
        self.of.0.hit()?;
        let wants = format!("{UNITS}/multi-user.target.wants");
        // With the units that its file names in `Also=`.
        for unit in links::closure(&self.root, &BTreeSet::from([unit.to_owned()]))? {
            let at = self.root.locate(&format!("{wants}/{unit}"))?;
            if change == Enablement::Enable {
                let file = format!("{UNITS}/{unit}");
                self.root.symlink(&at, &file.as_str().into())?;
            } else {
                self.root.remove(&at)?;
            }
        }
        if change != Enablement::Enable {
            self.root
                .remove_empty_directory(&self.root.locate(&wants)?)?;
        }
        self.of.0.hit()
    }

    fn file_state(&mut self, unit: &str) -> Result<String, StepError> {
        let link = format!("{UNITS}/multi-user.target.wants/{unit}");
        let is_linked = self.root.inspect(&link)? != Found::Nothing;
        Ok(if is_linked { "enabled" } else { "disabled" }.to_owned())
    }

    fn reload_manager(&mut self) -> Result<(), StepError> {
        self.of.0.hit()
    }

    fn extend_boot(&mut self) -> Result<(), StepError> {
        self.of.0.hit()
    }

    fn run(&mut self, job: Job, unit: &str) -> Result<(), StepError> {
        self.of.0.hit()?;
        let mut running = self.of.1.borrow_mut();
        match job {
            Job::Stop => {
                running.remove(unit);
            }
            Job::TryRestart => {}
            Job::Start | Job::Restart | Job::Reload => {
                running.insert(unit.to_owned());
            }
        }
        drop(running);
        self.of.0.hit()
    }

    fn start_later(&mut self, _: &str, name: &str, _: Duration) -> Result<(), StepError> {
        self.of.0.hit()?;
        self.of.1.borrow_mut().insert(format!("{name}.timer"));
        self.of.0.hit()
    }

    fn active_state(&mut self, unit: &str) -> Result<Option<String>, StepError> {
        let is_active = self.of.1.borrow().contains(unit);
        Ok(Some(
            if is_active { "active" } else { "inactive" }.to_owned(),
        ))
    }
}

pub(super) struct NoUnits;

impl Units for NoUnits {
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
