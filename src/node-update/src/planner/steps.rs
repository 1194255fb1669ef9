//! The steps of an update, in their order, with the bytes they need.

use std::collections::BTreeMap;

use super::units;
use crate::desired::{Desired, DesiredFile, LOCKED};
use crate::disruption::Live;
use crate::paths;
use crate::plan::{Action, Digest};
use crate::well_known::CORE;

/// The steps of a plan.
#[derive(Debug)]
pub(super) struct Steps<'a> {
    before: &'a Desired,
    after: &'a Desired,
    /// In order.
    pub actions: Vec<Action>,
    pub blobs: BTreeMap<Digest, Vec<u8>>,
}

impl<'a> Steps<'a> {
    /// Everything the target holds, for a deployment that starts from the merge of the old `/etc`
    /// and a perhaps new OS.
    ///
    /// All files are written and all that is desired of units is said again, which also heals what
    /// someone else changed: what does not hold in the end is found out after the reboot, and
    /// blamed on the target.
    pub(super) fn for_new_deployment(before: &'a Desired, after: &'a Desired) -> Self {
        let mut steps = Self::new(before, after);
        steps.files_and_units(|_| true, true);
        steps.account(true);
        steps
    }

    /// Only what differs, then what services must do.
    pub(super) fn for_running_system(
        before: &'a Desired,
        after: &'a Desired,
        live: &[Live],
    ) -> Self {
        let mut steps = Self::new(before, after);
        steps.files_and_units(|file| differs(before, file), false);
        let touches_units = steps.actions.iter().any(units::is_about_units);
        steps.account(false);
        if touches_units && live.first() != Some(&Live::DaemonReload) {
            steps.actions.push(Action::DaemonReload);
        }
        steps.actions.extend(live.iter().map(|action| match action {
            Live::DaemonReload => Action::DaemonReload,
            Live::Reload(unit) => Action::ReloadUnit { unit: unit.clone() },
            Live::Restart(unit) => Action::RestartUnit { unit: unit.clone() },
        }));
        steps
    }

    const fn new(before: &'a Desired, after: &'a Desired) -> Self {
        Self {
            before,
            after,
            actions: Vec::new(),
            blobs: BTreeMap::new(),
        }
    }

    fn files_and_units(&mut self, is_written: impl Fn(&DesiredFile) -> bool, all_units: bool) {
        let changes = units::Changes::between(self.before, self.after, all_units);
        self.actions.extend(changes.before_files);
        self.release();
        for file in &self.after.files {
            // What is kept up to date by something else is written the first time only.
            let is_left_alone =
                paths::is_written_once(&file.path) && self.before.file(&file.path).is_some();
            // A new deployment has what its image brings.
            let is_built_in = paths::belongs_to_image(&file.path);
            if is_written(file) && !is_left_alone && !is_built_in {
                self.write(file);
            }
        }
        self.actions.extend(changes.after_files);
    }

    /// Restores the paths that the old configuration held and the new one does not, unless
    /// something else keeps them up to date. Where a mask comes, it takes the place of the file.
    fn release(&mut self) {
        let (before, after) = (self.before, self.after);
        let masked = |path: &str| {
            after
                .units
                .iter()
                .any(|unit| unit.is_masked() && unit.path == path)
        };
        let gone = before.files.iter().map(|file| &file.path).filter(|path| {
            after.file(path).is_none()
                && !masked(path)
                && !paths::is_never_released(path)
                && paths::why_not_writable(path).is_none()
        });
        self.actions
            .extend(gone.map(|path| Action::ReleaseFile { path: path.clone() }));
    }

    fn write(&mut self, file: &DesiredFile) {
        let digest = &file.state.digest;
        if let Some(bytes) = self.after.blobs.get(digest) {
            self.blobs.insert(digest.clone(), bytes.clone());
        }
        self.actions.push(Action::WriteFile {
            path: file.path.clone(),
            file: file.state.clone(),
        });
    }

    /// Keys and password of `core`. A user that goes leaves no keys and no password behind.
    fn account(&mut self, always: bool) {
        let (before, after) = (self.before, self.after);
        let none = before.keys.is_some().then(Vec::new);
        if let Some(keys) = after.keys.clone().or(none)
            && (always || before.keys.as_ref() != Some(&keys))
        {
            let blob = self.keep(keys);
            self.actions.push(Action::WriteAuthorizedKeys {
                user: CORE.to_owned(),
                blob,
            });
        }
        let locked = before.password.is_some().then(|| LOCKED.to_owned());
        if let Some(hash) = after.password.clone().or(locked)
            && (always || before.password.as_ref() != Some(&hash))
        {
            let blob = self.keep(hash.into_bytes());
            self.actions.push(Action::SetPassword {
                user: CORE.to_owned(),
                blob,
            });
        }
    }

    fn keep(&mut self, bytes: Vec<u8>) -> Digest {
        let digest = Digest::of(&bytes);
        self.blobs.insert(digest.clone(), bytes);
        digest
    }
}

fn differs(before: &Desired, file: &DesiredFile) -> bool {
    before
        .file(&file.path)
        .is_none_or(|old| old.state != file.state)
}
