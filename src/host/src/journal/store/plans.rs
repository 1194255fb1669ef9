//! Plans on disk, each in a directory of its own with the blobs that it names.

use std::collections::{BTreeMap, BTreeSet};

use node_update::plan::{Action, Attempt, Bundle, Digest, Plan, Prior, Undo};

use super::{Error, Journal, JournalStore, Result};
use crate::files::Found;

const PLANS: &str = "/var/lib/slipway/plans";

impl JournalStore<'_> {
    /// The directory of a plan on a host.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a name that is not an attempt's.
    pub fn plan_directory(attempt: &Attempt) -> Result<String> {
        let name = attempt.0.as_str();
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > 128 || !name.bytes().all(plain) {
            return Err(Error::Damaged {
                path: format!("{name:?}"),
                why: "is no attempt's name",
            });
        }
        Ok(format!("{PLANS}/{name}"))
    }

    /// Stores a plan with its blobs; `plan.json` last, so that a directory that has one is
    /// complete.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Damaged`].
    pub fn put_plan(&self, bundle: &Bundle) -> Result<()> {
        let attempt = &bundle.plan.attempt;
        let plans = self.root.locate(PLANS)?;
        for name in self.root.list(&plans)? {
            // Left by a run that was killed before it stored a plan.
            if is_temporary(&name) {
                self.root.remove_empty_directory(&plans.below(&name))?;
            }
        }
        for (digest, bytes) in &bundle.blobs {
            self.put_blob(attempt, digest, bytes)?;
        }
        self.save(
            &format!("{}/plan.json", Self::plan_directory(attempt)?),
            &bundle.plan,
        )
    }

    /// Reads a plan from any directory of the host, and checks every blob against its digest.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Parse`], [`Error::Schema`], [`Error::Damaged`].
    pub fn read_plan(&self, directory: &str) -> Result<Bundle> {
        let directory = directory.trim_end_matches('/');
        let path = format!("{directory}/plan.json");
        let Some(plan) = self.load::<Plan>(&path)? else {
            return Err(Error::Damaged {
                path,
                why: "is not there",
            });
        };
        Self::plan_directory(&plan.attempt)?;
        let mut bundle = Bundle {
            plan,
            blobs: BTreeMap::new(),
        };
        for digest in blobs_of(&bundle.plan) {
            let bytes = self.read_blob(directory, &digest)?;
            bundle.blobs.insert(digest, bytes);
        }
        Ok(bundle)
    }

    /// A blob of a stored plan.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Damaged`].
    pub fn blob(&self, attempt: &Attempt, digest: &Digest) -> Result<Vec<u8>> {
        self.read_blob(&Self::plan_directory(attempt)?, digest)
    }

    /// Stores a blob beside a plan.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Damaged`].
    pub fn put_blob(&self, attempt: &Attempt, digest: &Digest, bytes: &[u8]) -> Result<()> {
        let path = format!(
            "{}/blobs/{}",
            Self::plan_directory(attempt)?,
            digest.as_str()
        );
        self.write(&path, bytes)
    }

    /// Removes a plan and its blobs.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Damaged`].
    pub fn discard_plan(&self, attempt: &Attempt) -> Result<()> {
        let directory = Self::plan_directory(attempt)?;
        self.root
            .remove(&self.root.locate(&format!("{directory}/plan.json"))?)?;
        let blobs = self.root.locate(&format!("{directory}/blobs"))?;
        for name in self.root.list(&blobs)? {
            self.root.remove(&blobs.below(&name))?;
        }
        self.root.remove_empty_directory(&blobs)?;
        self.root
            .remove_empty_directory(&self.root.locate(&directory)?)?;
        Ok(())
    }

    /// Removes the blobs of an attempt, except those that restore its prior state.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Damaged`].
    pub fn discard_target(&self, journal: &Journal) -> Result<()> {
        let of_steps = journal
            .plan
            .steps
            .iter()
            .filter_map(|step| match &step.undo {
                Undo::Restore { paths } => Some(paths),
                Undo::Nothing | Undo::Again => None,
            });
        let priors = of_steps.chain([&journal.unit_links, &journal.records]);
        let kept: BTreeSet<&str> = priors
            .flat_map(BTreeMap::values)
            .filter_map(kept_blob)
            .map(Digest::as_str)
            .collect();
        let directory = Self::plan_directory(&journal.plan.attempt)?;
        let blobs = self.root.locate(&format!("{directory}/blobs"))?;
        for name in self.root.list(&blobs)? {
            if !kept.contains(name.as_str()) {
                self.root.remove(&blobs.below(&name))?;
            }
        }
        Ok(())
    }

    /// The attempts whose plans are stored.
    ///
    /// # Errors
    /// [`Error::Files`].
    pub fn plans(&self) -> Result<Vec<Attempt>> {
        let names = self.root.list(&self.root.locate(PLANS)?)?;
        let attempts = names.into_iter().filter(|name| !is_temporary(name));
        Ok(attempts.map(Attempt).collect())
    }

    fn read_blob(&self, directory: &str, digest: &Digest) -> Result<Vec<u8>> {
        let path = format!("{directory}/blobs/{}", digest.as_str());
        let Found::File { bytes, .. } = self.root.inspect(&path)? else {
            return Err(Error::Damaged {
                path,
                why: "is not there",
            });
        };
        if Digest::of(&bytes) != *digest {
            return Err(Error::Damaged {
                path,
                why: "is not what its name says",
            });
        }
        Ok(bytes)
    }
}

/// Whether a name is that of an unfinished plan directory. No attempt's name begins with a dot.
fn is_temporary(name: &str) -> bool {
    name.starts_with('.')
}

/// Digests of all blobs that a plan names.
fn blobs_of(plan: &Plan) -> Vec<Digest> {
    let mut blobs = vec![plan.record.clone()];
    for step in &plan.steps {
        match &step.action {
            Action::WriteFile { file, .. } => blobs.push(file.digest.clone()),
            Action::WriteAuthorizedKeys { blob, .. } | Action::SetPassword { blob, .. } => {
                blobs.push(blob.clone());
            }
            Action::ReleaseFile { .. }
            | Action::MaskUnit { .. }
            | Action::UnmaskUnit { .. }
            | Action::EnableUnit { .. }
            | Action::KeepUnitEnabled { .. }
            | Action::DisableUnit { .. }
            | Action::PresetUnit { .. }
            | Action::DaemonReload
            | Action::RestartUnit { .. }
            | Action::ReloadUnit { .. } => {}
        }
        if let Undo::Restore { paths } = &step.undo {
            blobs.extend(paths.values().filter_map(kept_blob).cloned());
        }
    }
    blobs
}

/// The blob that restores a path.
const fn kept_blob(prior: &Prior) -> Option<&Digest> {
    match prior {
        Prior::File { state, .. } => Some(&state.digest),
        Prior::Absent | Prior::Link { .. } | Prior::Directory { .. } => None,
    }
}
