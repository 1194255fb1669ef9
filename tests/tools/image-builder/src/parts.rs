//! What an image has in common with those of other versions: packed once in a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use images::tree::NewLayer;

use crate::build::Options;
use crate::component::Component;
use crate::debian::Package;
use crate::sbom::Crate;

/// The parts of one component's image.
#[derive(Debug)]
pub(crate) struct Parts {
    /// What is below our programs.
    pub(crate) root: NewLayer,
    /// Our programs.
    pub(crate) programs: NewLayer,
    /// Debian packages in the first.
    pub(crate) packages: Vec<Package>,
    /// Crates in the second.
    pub(crate) crates: BTreeSet<Crate>,
}

/// Folder of the programs, which are for one processor, and name of the component.
type Key = (PathBuf, &'static str);

/// Parts of components. Copies share them.
///
/// Programs and archives of Debian are taken to stay the same as long as it lives.
#[derive(Clone, Debug, Default)]
pub struct PackedParts(Arc<Mutex<BTreeMap<Key, Arc<Parts>>>>);

impl PackedParts {
    /// Those of a component, packed if they are not yet.
    pub(crate) fn of(
        &self,
        options: &Options,
        component: &Component,
        pack: impl FnOnce() -> anyhow::Result<Parts>,
    ) -> anyhow::Result<Arc<Parts>> {
        let key = (options.programs.clone(), component.name);
        let cached = self.lock().get(&key).map(Arc::clone);
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let packed = Arc::new(pack()?);
        self.lock().insert(key, Arc::clone(&packed));
        Ok(packed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Parts>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
