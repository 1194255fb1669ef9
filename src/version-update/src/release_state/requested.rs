//! The transitions of the requested release.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::config::Release;

use super::command::{ReleaseCommand, ReleaseCommands, ReleaseTask, ReleaseWait};
use super::{AppliedRelease, ReleaseOnDisk, ReleaseStage, ReleaseState, SpecRead, Step};
use crate::acceptance::{Refusal, RequestedRelease, RetrievedRelease, TargetRelease, VersionEvent};
use crate::validation::WantedRelease;

/// The ClusterVersion was read. `before` is the request until now.
pub(super) fn turn(
    applied: AppliedRelease,
    before: Option<RequestedRelease>,
    spec: SpecRead,
) -> Step {
    let SpecRead {
        wanted,
        own,
        is_forced,
        generation,
        has_completed,
    } = spec;
    let image = match &wanted {
        WantedRelease::Own => &own.image,
        WantedRelease::Other(release) => &release.image,
    };
    if *image == applied.on_disk.image {
        let (applied, mut at_once) = applied.after_trial();
        at_once.push(ReleaseCommand::Report);
        let commands = wait(at_once, ReleaseWait::Change);
        return (ReleaseState::Alone(applied), commands);
    }
    let before = before.filter(|before| before.release.image == *image);
    let refusals = before
        .as_ref()
        .filter(|before| before.generation == generation)
        .map_or(0, |before| before.refusals);
    let request = |release| RequestedRelease {
        release,
        is_forced,
        generation,
        step: before.and_then(|before| before.step),
        refusals,
    };
    match wanted {
        wanted if !has_completed => {
            let release = match wanted {
                WantedRelease::Other(release) => release,
                WantedRelease::Own => Release {
                    image: own.image.clone(),
                    ..Release::default()
                },
            };
            hold(applied, request(release))
        }
        WantedRelease::Own => {
            let applied = AppliedRelease::begin(own, ReleaseStage::Applying);
            let commands = [
                ReleaseCommand::Restart,
                ReleaseCommand::Apply,
                ReleaseCommand::Report,
            ];
            let commands = wait(commands.to_vec(), ReleaseWait::Change);
            (ReleaseState::Alone(applied), commands)
        }
        WantedRelease::Other(release) => {
            let (request, event) = request(release).tried();
            let at_once = vec![ReleaseCommand::Say(event)];
            let commands = ReleaseCommands::then(at_once, ReleaseTask::Retrieve);
            (ReleaseState::Retrieving(applied, request), commands)
        }
    }
}

/// It waits for the first release of the cluster.
fn hold(applied: AppliedRelease, request: RequestedRelease) -> Step {
    let (applied, mut at_once) = applied.after_trial();
    at_once.push(ReleaseCommand::Report);
    let commands = wait(at_once, ReleaseWait::FirstRelease);
    (ReleaseState::Requested(applied, request), commands)
}

pub(super) fn retrieved(
    applied: AppliedRelease,
    request: RequestedRelease,
    on_disk: RetrievedRelease,
) -> Step {
    let unverified = on_disk.risk.clone().map(VersionEvent::Unverified);
    let events = unverified.into_iter().chain([request.loading()]);
    let at_once = events.map(ReleaseCommand::Say).collect();
    let commands = ReleaseCommands::then(at_once, ReleaseTask::Check);
    (ReleaseState::Checking(applied, request, on_disk), commands)
}

/// It is not accepted: the applied one goes on being applied.
pub(super) fn refuse(applied: AppliedRelease, request: RequestedRelease, why: Refusal) -> Step {
    let (request, event) = request.refused(why);
    let refusals = request.refusals;
    let (applied, woken) = applied.after_trial();
    let mut at_once = vec![ReleaseCommand::Say(event)];
    at_once.extend(woken);
    at_once.push(ReleaseCommand::Report);
    let commands = wait(at_once, ReleaseWait::Refused(refusals));
    (ReleaseState::Requested(applied, request), commands)
}

/// It is accepted, and takes the place of the applied one.
pub(super) fn switch(
    request: &RequestedRelease,
    on_disk: RetrievedRelease,
    implied: BTreeSet<String>,
    (accepted, events): (TargetRelease, [VersionEvent; 2]),
) -> Step {
    let on_disk = ReleaseOnDisk {
        root: on_disk.root,
        image: request.release.image.clone(),
        implied,
        accepted: Some(accepted),
    };
    let applied = AppliedRelease::begin(Arc::new(on_disk), ReleaseStage::Switching);
    let mut at_once: Vec<_> = events.into_iter().map(ReleaseCommand::Say).collect();
    at_once.extend([
        ReleaseCommand::Restart,
        ReleaseCommand::Apply,
        // Its files are read already.
        ReleaseCommand::Announce,
        ReleaseCommand::Report,
    ]);
    let commands = wait(at_once, ReleaseWait::Change);
    (ReleaseState::Alone(applied), commands)
}

fn wait(at_once: Vec<ReleaseCommand>, wait: ReleaseWait) -> ReleaseCommands {
    ReleaseCommands::then(at_once, ReleaseTask::Wait(wait))
}
