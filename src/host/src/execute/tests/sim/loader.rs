//! A boot loader that counts, as GRUB does with the environment block of `host::boot_loader`.

use crate::journal::{DeploymentId, tests as journal_tests};

#[derive(Debug)]
pub(super) struct BootLoader {
    /// What it names, in order.
    entries: Vec<DeploymentId>,
    /// Boots that the first entry has left; none: it does not count them.
    tries: Option<u32>,
    counts: bool,
    /// A commit that dies before the guard runs, and how often it was booted.
    dies: Option<(&'static str, u32)>,
}

impl BootLoader {
    pub(super) fn new(entry: DeploymentId) -> Self {
        Self {
            entries: vec![entry],
            tries: None,
            counts: true,
            dies: None,
        }
    }

    pub(super) fn never_count(&mut self) {
        self.counts = false;
    }

    pub(super) fn have_die(&mut self, commit: &'static str) {
        self.dies = Some((commit, 0));
    }

    pub(super) const fn tries(&self) -> Option<u32> {
        self.tries
    }

    pub(super) fn deaths(&self) -> u32 {
        self.dies.map_or(0, |(_, deaths)| deaths)
    }

    pub(super) fn first(&self) -> &DeploymentId {
        &self.entries[0]
    }

    pub(super) fn names(&self, deployment: &str) -> bool {
        self.entries.iter().any(|id| id.to_string() == deployment)
    }

    pub(super) fn count(&mut self, tries: Option<u32>) {
        self.tries = tries.filter(|_| self.counts);
    }

    /// Names a deployment first, and what runs behind it.
    pub(super) fn set(&mut self, first: &DeploymentId, booted: &DeploymentId) {
        self.entries = vec![first.clone()];
        if first != booted {
            self.entries.push(booted.clone());
        }
    }

    /// What it boots now, and whether that stays up.
    pub(super) fn boot(&mut self) -> (DeploymentId, bool) {
        let entry = match &mut self.tries {
            Some(0) => 1.min(self.entries.len() - 1),
            Some(left) => {
                *left -= 1;
                0
            }
            None => 0,
        };
        let booted = self.entries[entry].clone();
        if let Some((commit, deaths)) = &mut self.dies
            && booted.checksum == journal_tests::id(commit).checksum
        {
            *deaths += 1;
            assert!(*deaths < 100, "it is booted for ever");
            return (booted, false);
        }
        (booted, true)
    }
}
