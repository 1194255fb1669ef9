//! systemd refuses to follow presets, which are the OS's and not the configuration's.

use node_update::plan::{Action, Attempt};

use crate::execute::{StepError, StepExecutor, Steps as _, Units};
use crate::files::Root;
use crate::journal::JournalStore;
use crate::systemd::{self, Enablement, Job};

/// Unit files that cannot be changed.
struct Refuses;

impl Units for Refuses {
    fn set_enablement(&mut self, _: Enablement, _: &str) -> Result<(), StepError> {
        Err(systemd::Error::Unreached.into())
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

#[test]
fn a_failing_preset_does_not_fail_the_update() {
    let tree = tempfile::tempdir().unwrap();
    let directory = tree.path().join("etc/systemd/system");
    std::fs::create_dir_all(&directory).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
    std::fs::write(directory.join("a.service"), "[Service]\n").unwrap();
    let root = Root::open(tree.path(), None).unwrap();
    let store = JournalStore::new(&root);
    let mut units = Refuses;
    let attempt = Attempt("a1".to_owned());
    let mut executor = StepExecutor::new(&root, &mut units, &store, attempt);
    let unit = || "a.service".to_owned();
    let preset = Action::PresetUnit { unit: unit() };
    executor.perform(&preset).unwrap();
    let enable = Action::EnableUnit { unit: unit() };
    executor.perform(&enable).unwrap_err();
}
