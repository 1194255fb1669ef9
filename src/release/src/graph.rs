//! The order in which the manifests of a payload are applied, and which of them may be applied at
//! once.
//!
//! A [`Graph`] is a list of stages. The chains of a stage are applied in parallel, the tasks of a
//! chain one after another, and a stage begins when the one before it is done. [`Run`] is one pass
//! over a graph: it says what may be started next, and learns how that went.
//!
//! Source: `docs/reference/cvo.md`, "Order of application".

use sha2::{Digest as _, Sha256};

use crate::inventory::Entry;
use crate::manifest::{Manifest, ObjectId};
use crate::order::Place;

mod run;

pub use run::{Run, Tally};

/// How the tasks of a payload are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// To another release: run level by run level, the components of one run level in parallel.
    Updating,
    /// A new cluster: all components in parallel.
    Initializing,
    /// The release is applied, and drift is corrected: all components, in another order at each
    /// attempt, so that one that fails does not keep the same others waiting.
    Reconciling {
        /// Number of the pass, from 0.
        attempt: u64,
    },
}

/// A task: place of a manifest in its payload.
pub type Task = usize;

/// What the order asks of a manifest.
pub trait Ordered {
    fn file(&self) -> &str;

    fn id(&self) -> &ObjectId;
}

impl Ordered for Manifest {
    fn file(&self) -> &str {
        &self.file
    }

    fn id(&self) -> &ObjectId {
        &self.id
    }
}

impl<T: Ordered> Ordered for &T {
    fn file(&self) -> &str {
        (*self).file()
    }

    fn id(&self) -> &ObjectId {
        (*self).id()
    }
}

impl Ordered for Entry {
    fn file(&self) -> &str {
        &self.file
    }

    fn id(&self) -> &ObjectId {
        &self.id
    }
}

/// Stages of parallel chains of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    stages: Vec<Vec<Vec<Task>>>,
}

/// Shuffles are repeated for so many attempts, each of which starts at another place.
const SHIFTS: u64 = 8;

impl Graph {
    /// The graph of manifests in the order of their payload.
    pub fn of(manifests: &[impl Ordered], ordering: Ordering) -> Self {
        let tasks: Vec<Task> = (0..manifests.len()).collect();
        let is_job = |task: &Task| {
            manifests
                .get(*task)
                .map(Ordered::id)
                .is_some_and(|id| id.group == "batch" && id.kind == "Job")
        };
        let mut stages = Vec::new();
        // A Job stands alone: it may migrate what others use before and after it.
        for segment in tasks.chunk_by(|one, two| !is_job(one) && !is_job(two)) {
            let components = components(manifests, segment);
            match ordering {
                Ordering::Updating => stages.extend(by_run_level(&components)),
                Ordering::Initializing => stages.push(tasks_of(components)),
                Ordering::Reconciling { attempt } => {
                    stages.push(shifted(tasks_of(components), attempt));
                }
            }
        }
        Self { stages }
    }

    /// Stages, their parallel chains, and the tasks of these in order.
    pub fn stages(&self) -> &[Vec<Vec<Task>>] {
        &self.stages
    }

    /// Number of chains of the stage with most: more workers have nothing to do.
    pub fn width(&self) -> usize {
        self.stages.iter().map(Vec::len).max().unwrap_or_default()
    }
}

/// Adjacent tasks of one place.
struct Component<'a> {
    place: Option<Place<'a>>,
    tasks: Vec<Task>,
}

/// A segment by its components. A file that names no place is a component by itself.
fn components<'a>(manifests: &'a [impl Ordered], segment: &[Task]) -> Vec<Component<'a>> {
    let mut components: Vec<Component<'a>> = Vec::new();
    for task in segment {
        let file = manifests.get(*task).map(Ordered::file);
        let place = file.and_then(Place::of);
        match components.last_mut() {
            Some(last) if place.is_some() && last.place == place => last.tasks.push(*task),
            _ => components.push(Component {
                place,
                tasks: vec![*task],
            }),
        }
    }
    components
}

fn tasks_of(components: Vec<Component<'_>>) -> Vec<Vec<Task>> {
    components.into_iter().map(|one| one.tasks).collect()
}

/// Stages of a segment. A run level with one component, and a file that names no place, is joined
/// with the like of it before: nothing of them may be applied at once.
fn by_run_level(components: &[Component<'_>]) -> Vec<Vec<Vec<Task>>> {
    let is_one_level = |one: &Component<'_>, two: &Component<'_>| {
        let levels = one.place.zip(two.place);
        levels.is_some_and(|(one, two)| one.run_level == two.run_level)
    };
    let mut stages: Vec<Vec<Vec<Task>>> = Vec::new();
    for level in components.chunk_by(is_one_level) {
        let chains: Vec<Vec<Task>> = level.iter().map(|one| one.tasks.clone()).collect();
        match (stages.last_mut().map(Vec::as_mut_slice), chains.as_slice()) {
            (Some([chain]), [tasks]) => chain.extend(tasks),
            _ => stages.push(chains),
        }
    }
    stages
}

/// Chains in the order of an attempt: the same for the same attempt, wherever it is made.
fn shifted(mut chains: Vec<Vec<Task>>, attempt: u64) -> Vec<Vec<Task>> {
    let seed = (attempt / SHIFTS).to_be_bytes();
    chains.sort_by_cached_key(|chain| {
        let first = chain.first().copied().unwrap_or_default() as u64;
        Sha256::new()
            .chain_update(seed)
            .chain_update(first.to_be_bytes())
            .finalize()
    });
    let (count, shift) = (chains.len() as u64, attempt % SHIFTS);
    let by = if count < SHIFTS {
        shift.checked_rem(count).unwrap_or_default()
    } else {
        shift * count / SHIFTS
    };
    chains.rotate_left(usize::try_from(by).unwrap_or_default());
    chains
}

#[cfg(test)]
mod tests;
