//! Builds and images that nothing needs any more.

use std::time::Duration;

use api::machineconfiguration::{BuildPhase, MachineOSBuild, annotation};

use super::{
    BuildQuery, BuildStep, CHECK, DeletionCause, after, blocked, delete, image_of, name_of,
};
use crate::observed::{BuildObserved, ImageRemoval};

/// How soon a registry that refused is asked again to remove an image.
const LATER: Duration = Duration::from_hours(1);

/// The builds of a MachineOSConfig that is gone: all but those whose image a node has.
pub(super) fn without_config(observed: &BuildObserved<'_>) -> BuildStep {
    let mut unfinished = observed.builds.iter().filter(|build| !is_built(build));
    if let Some(action) = unfinished.find_map(|build| delete(build, DeletionCause::ConfigGone)) {
        return BuildStep::Act(action);
    }
    remove(observed, None, DeletionCause::ConfigGone)
}

/// The builds beside the wanted one, which has its image.
pub(super) fn next(observed: &BuildObserved<'_>, wanted: &MachineOSBuild) -> BuildStep {
    remove(observed, Some(wanted), DeletionCause::Unneeded)
}

fn is_built(build: &MachineOSBuild) -> bool {
    build.phase() == BuildPhase::Succeeded
}

fn remove(
    observed: &BuildObserved<'_>,
    wanted: Option<&MachineOSBuild>,
    cause: DeletionCause,
) -> BuildStep {
    let mut wait = None;
    let is_wanted = |build: &MachineOSBuild| wanted.is_some_and(|it| name_of(it) == name_of(build));
    let built = observed.builds.iter().copied();
    let built: Vec<&MachineOSBuild> = built
        .filter(|build| build.metadata.deletion_timestamp.is_none() && is_built(build))
        .collect();
    for build in built.iter().copied().filter(|build| !is_wanted(build)) {
        let image = image_of(build).unwrap_or_default();
        if observed.images_in_use.contains(image) {
            // Nodes that leave an image wake nothing.
            wait.get_or_insert(after(CHECK));
            continue;
        }
        let is_shared = built
            .iter()
            .any(|other| name_of(other) != name_of(build) && image_of(other) == Some(image));
        if is_shared {
            return delete(build, cause).map_or(BuildStep::Settled, BuildStep::Act);
        }
        match observed.facts.removals.get(image) {
            None => {
                let annotations = build.metadata.annotations.as_ref();
                let push_secret = annotations.and_then(|it| it.get(annotation::PUSH_SECRET));
                return BuildStep::Query(BuildQuery::Removal {
                    image: image.to_owned(),
                    push_secret: push_secret.cloned().unwrap_or_default(),
                });
            }
            Some(ImageRemoval::Gone | ImageRemoval::Stays(_)) => {
                return delete(build, cause).map_or(BuildStep::Settled, BuildStep::Act);
            }
            Some(ImageRemoval::Later(why)) => {
                wait = Some(blocked(LATER, format!("{image} is not removed: {why}")));
            }
        }
    }
    wait.unwrap_or(BuildStep::Settled)
}
