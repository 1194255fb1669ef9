//! What is done next for a MachineOSConfig: one thing at a time, so that a controller that stops
//! after any of them goes on from what is stored.
//!
//! - `config_status`: what the MachineOSConfig reports
//! - `unneeded`: builds and images that nothing needs
//!
//! Source: `docs/reference/image-mode.md`, "States of a build" and "What is kept".

mod config_status;
mod unneeded;

use std::time::Duration;

use api::machineconfiguration::{
    BuildPhase, MachineOSBuild, MachineOSConfig, MachineOsBuildStatus, annotation,
};
use serde_json::Value;

use crate::hold::PodHold;
use crate::observed::{BuildObserved, JobState, PlannedBuild, RegistryReply, WantedBuild};
use crate::outcome::{JobEnd, JobView, failure};
use crate::push_spec::PushSpec;
use crate::refusal::BuildRefusal;
use crate::status::{BuildChange, changed, start_of};

/// How soon a Job that runs is read again: nothing watches it.
const POLL: Duration = Duration::from_secs(10);

/// How soon something that others have to do first is read again.
const SOON: Duration = Duration::from_secs(2);

/// How soon an obstacle outside of the watched objects is checked again: a Secret, a registry.
const AGAIN: Duration = Duration::from_mins(1);

/// How soon it is checked again whether nodes still find their image, and which are unneeded.
pub const CHECK: Duration = Duration::from_mins(10);

/// What is done next.
#[derive(Debug, Clone, PartialEq)]
pub enum BuildStep {
    /// Nothing, until a watched object changes.
    Settled,
    /// Nothing, until then; with what is in the way, if it has to be reported.
    Wait {
        after: Duration,
        why: Option<String>,
    },
    /// Something has to be known first.
    Query(BuildQuery),
    Act(BuildAction),
}

/// What has to be known: it becomes part of [`crate::observed::RequestedFacts`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildQuery {
    /// The Job of the wanted build, and how its pods ended.
    Job,
    /// Whether the Secrets of the wanted build can be read.
    Logins,
    /// Whether an image is in its registry.
    Image { image: String },
    /// Which digest a tag names.
    Tag { spec: String },
    /// Has an image removed from its registry, with the credentials of this Secret.
    Removal { image: String, push_secret: String },
}

/// What changes something. Each can be done twice.
#[derive(Debug, Clone, PartialEq)]
pub enum BuildAction {
    /// Removes the request for a rebuild.
    AcceptRebuild,
    /// Writes which build is current to the MachineOSConfig's annotation.
    NameCurrent { build: String },
    /// Creates the MachineOSBuild that is wanted.
    Create,
    /// Deletes a build after its Job and its other objects.
    Delete {
        build: String,
        uid: String,
        why: DeletionCause,
    },
    /// Creates the ConfigMap and the Secrets of the wanted build.
    Prepare { build: String },
    /// Creates its Job.
    StartJob { build: String },
    /// Deletes a Job of its name that belongs to another.
    DeleteForeignJob { job_uid: String },
    /// Writes a build's status.
    Report {
        build: String,
        status: Box<MachineOsBuildStatus>,
    },
    /// Writes these members of the MachineOSConfig's status.
    ReportConfig { status: Value },
    /// Removes what was made for a build that succeeded.
    Clean { build: String, uid: String },
}

/// Why a build is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionCause {
    /// Others inputs are wanted.
    Superseded,
    /// A rebuild was requested.
    Rebuild,
    /// Its image left the registry.
    ImageMissing,
    /// Nothing needs its image.
    Unneeded,
    /// Its MachineOSConfig is gone.
    ConfigGone,
}

/// The next step.
pub fn step(observed: &BuildObserved<'_>) -> BuildStep {
    let Some(config) = observed.config else {
        return unneeded::without_config(observed);
    };
    match observed.wanted {
        WantedBuild::NotYet => BuildStep::Settled,
        WantedBuild::Refused(refusal) => refused(observed, config, refusal),
        WantedBuild::Image(plan) => wanted(observed, config, plan),
    }
}

/// The inputs are refused: what was built of older ones stays, and what is under way ends.
fn refused(
    observed: &BuildObserved<'_>,
    config: &MachineOSConfig,
    refusal: &BuildRefusal,
) -> BuildStep {
    if let Some(action) = end_others(observed, None) {
        return BuildStep::Act(action);
    }
    match config_status::change(config, None, Some(refusal), observed.now) {
        Some(status) => BuildStep::Act(BuildAction::ReportConfig { status }),
        None => BuildStep::Settled,
    }
}

fn wanted(
    observed: &BuildObserved<'_>,
    config: &MachineOSConfig,
    plan: &PlannedBuild,
) -> BuildStep {
    if let Some(action) = rebuild(observed, config, plan) {
        return BuildStep::Act(action);
    }
    if let Some(action) = end_others(observed, Some(plan)) {
        return BuildStep::Act(action);
    }
    let Some(build) = find(observed, &plan.name) else {
        return BuildStep::Act(BuildAction::Create);
    };
    if build.metadata.deletion_timestamp.is_some() {
        return after(SOON);
    }
    let phase = build.phase();
    let is_startable = phase == BuildPhase::Initial && reusable(observed, plan).is_none();
    if is_startable && plan.obstacle.is_none() && observed.facts.logins.is_none() {
        return BuildStep::Query(BuildQuery::Logins);
    }
    let obstacle = match phase {
        BuildPhase::Initial if is_startable => {
            let logins = observed.facts.logins.as_ref();
            let login = logins.and_then(|logins| logins.as_ref().err());
            plan.obstacle.as_ref().or(login)
        }
        BuildPhase::Prepared => plan.obstacle.as_ref(),
        BuildPhase::Initial
        | BuildPhase::Building
        | BuildPhase::Failed
        | BuildPhase::Interrupted
        | BuildPhase::Succeeded => None,
    };
    if let Some(status) = config_status::change(config, Some(build), obstacle, observed.now) {
        return BuildStep::Act(BuildAction::ReportConfig { status });
    }
    if annotation_of(config, annotation::CURRENT_MACHINE_OS_BUILD) != Some(&plan.name) {
        let build = plan.name.clone();
        return BuildStep::Act(BuildAction::NameCurrent { build });
    }
    match phase {
        BuildPhase::Initial => begin(observed, plan, build, obstacle),
        BuildPhase::Prepared => start(observed, plan, build, obstacle),
        BuildPhase::Building => follow(observed, build),
        BuildPhase::Failed | BuildPhase::Interrupted => BuildStep::Settled,
        BuildPhase::Succeeded => succeeded(observed, plan, build),
    }
}

/// All builds of the wanted content go, and then the request; the next step builds again.
fn rebuild(
    observed: &BuildObserved<'_>,
    config: &MachineOSConfig,
    plan: &PlannedBuild,
) -> Option<BuildAction> {
    annotation_of(config, annotation::REBUILD)?;
    let mut same = of_content(observed, &plan.content).chain(find(observed, &plan.name));
    let delete = same.find_map(|build| delete(build, DeletionCause::Rebuild));
    Some(delete.unwrap_or(BuildAction::AcceptRebuild))
}

/// Builds of other inputs end: those under way, and those that came to nothing.
fn end_others(observed: &BuildObserved<'_>, plan: Option<&PlannedBuild>) -> Option<BuildAction> {
    let mut others = observed.builds.iter().filter(|build| {
        let is_wanted = plan.is_some_and(|plan| name_of(build) == plan.name);
        let is_kept = match build.phase() {
            BuildPhase::Succeeded => true,
            BuildPhase::Initial
            | BuildPhase::Prepared
            | BuildPhase::Building
            | BuildPhase::Failed
            | BuildPhase::Interrupted => false,
        };
        !is_wanted && !is_kept
    });
    others.find_map(|build| delete(build, DeletionCause::Superseded))
}

/// A build without a beginning: the image of another of its content, else its objects.
fn begin(
    observed: &BuildObserved<'_>,
    plan: &PlannedBuild,
    build: &MachineOSBuild,
    obstacle: Option<&BuildRefusal>,
) -> BuildStep {
    if let Some(other) = reusable(observed, plan) {
        let image = image_of(other).unwrap_or_default().to_owned();
        match observed.facts.images.get(&image) {
            None => return BuildStep::Query(BuildQuery::Image { image }),
            Some(reply) if reply.is_absent() => {
                let gone = delete(other, DeletionCause::ImageMissing);
                return gone.map_or_else(|| after(SOON), BuildStep::Act);
            }
            // What is not certain is checked again once a node needs it.
            Some(_) => {}
        }
        let of = name_of(other).to_owned();
        return report(build, &BuildChange::Reused { image, of }, observed);
    }
    if let Some(why) = obstacle {
        return blocked(AGAIN, why.to_string());
    }
    BuildStep::Act(BuildAction::Prepare {
        build: plan.name.clone(),
    })
}

/// A build that is prepared: its Job.
fn start(
    observed: &BuildObserved<'_>,
    plan: &PlannedBuild,
    build: &MachineOSBuild,
    obstacle: Option<&BuildRefusal>,
) -> BuildStep {
    match &observed.facts.job {
        None => BuildStep::Query(BuildQuery::Job),
        Some(JobState::Present(job, _)) if Some(&job.owner) != build.metadata.uid.as_ref() => {
            if job.is_deleted {
                return after(SOON);
            }
            let job_uid = job.uid.clone();
            BuildStep::Act(BuildAction::DeleteForeignJob { job_uid })
        }
        Some(JobState::Present(job, _)) => report(build, &start_of(job), observed),
        Some(JobState::Absent) => match obstacle {
            Some(why) => blocked(AGAIN, why.to_string()),
            None => BuildStep::Act(BuildAction::StartJob {
                build: plan.name.clone(),
            }),
        },
    }
}

/// A build whose Job was made: how it ends.
fn follow(observed: &BuildObserved<'_>, build: &MachineOSBuild) -> BuildStep {
    let (job, pods) = match &observed.facts.job {
        None => return BuildStep::Query(BuildQuery::Job),
        Some(JobState::Present(job, pods))
            if Some(&job.owner) == build.metadata.uid.as_ref() && !job.is_deleted =>
        {
            (job, pods)
        }
        // Gone, or about to go.
        Some(JobState::Absent | JobState::Present(..)) => {
            return report(build, &BuildChange::Interrupted, observed);
        }
    };
    let ended = job.ended;
    match &job.end {
        JobEnd::Running => wait_for(observed, build, job, pods.held.as_ref()),
        JobEnd::Failed { reason, message } => {
            let held = build.hold().map(|(_, why)| why);
            let message = failure(reason, message, pods.ended.as_ref(), held);
            report(build, &BuildChange::Failed { message, ended }, observed)
        }
        JobEnd::Complete => {
            let spec = &build.spec.rendered_image_push_spec;
            let digest = match pods.ended.as_ref().and_then(|pod| pod.digest()) {
                Some(digest) => digest.to_owned(),
                // The pod is gone: the registry knows what it pushed.
                None => match observed.facts.tags.get(spec) {
                    None => return BuildStep::Query(BuildQuery::Tag { spec: spec.clone() }),
                    Some(RegistryReply::Present(digest)) => digest.clone(),
                    Some(RegistryReply::Absent | RegistryReply::NoRepository) => {
                        let message = format!("the Job is complete, and {spec} is not there");
                        let change = BuildChange::Failed { message, ended };
                        return report(build, &change, observed);
                    }
                    Some(
                        RegistryReply::NotAllowed(why)
                        | RegistryReply::NotSupported(why)
                        | RegistryReply::Unreachable(why),
                    ) => {
                        return blocked(AGAIN, format!("the digest of {spec} is not known: {why}"));
                    }
                },
            };
            match PushSpec::parse(spec) {
                Ok(push) => {
                    let image = push.digested(&digest);
                    report(build, &BuildChange::Succeeded { image, ended }, observed)
                }
                Err(message) => {
                    let message = format!("spec.renderedImagePushSpec: {message}");
                    report(build, &BuildChange::Failed { message, ended }, observed)
                }
            }
        }
    }
}

/// A Job that has not ended: what keeps its pod from running is reported, and that nothing does any
/// more.
fn wait_for(
    observed: &BuildObserved<'_>,
    build: &MachineOSBuild,
    job: &JobView,
    held: Option<&PodHold>,
) -> BuildStep {
    let reported = build.hold();
    match held {
        Some(held) if held.is_news(reported) => {
            report(build, &BuildChange::Held(held.clone()), observed)
        }
        None if reported.is_some() => report(build, &start_of(job), observed),
        Some(_) | None => after(POLL),
    }
}

/// A build that has its image: what it needed goes, its image has to stay, and others may go.
fn succeeded(
    observed: &BuildObserved<'_>,
    plan: &PlannedBuild,
    build: &MachineOSBuild,
) -> BuildStep {
    let uid = build.metadata.uid.clone().unwrap_or_default();
    if !observed.cleaned.contains(&uid) {
        let build = plan.name.clone();
        return BuildStep::Act(BuildAction::Clean { build, uid });
    }
    let image = image_of(build).unwrap_or_default();
    let is_awaited = observed
        .images_of_members
        .iter()
        .any(|current| *current != Some(image));
    let mut wait = None;
    if is_awaited {
        match observed.facts.images.get(image) {
            None => {
                let image = image.to_owned();
                return BuildStep::Query(BuildQuery::Image { image });
            }
            Some(reply) if reply.is_absent() => {
                // Those of the same image go first: the wanted one would get it from them.
                let same = observed.builds.iter().copied();
                let same =
                    same.filter(|it| image_of(it) == Some(image) && name_of(it) != plan.name);
                let gone = same
                    .chain([build])
                    .find_map(|it| delete(it, DeletionCause::ImageMissing));
                return gone.map_or_else(|| after(SOON), BuildStep::Act);
            }
            Some(RegistryReply::NotAllowed(why) | RegistryReply::Unreachable(why)) => {
                wait = Some(blocked(
                    AGAIN,
                    format!("whether {image} is there is not known: {why}"),
                ));
            }
            Some(_) => wait = Some(after(CHECK)),
        }
    }
    match unneeded::next(observed, build) {
        BuildStep::Settled => wait.unwrap_or(BuildStep::Settled),
        other @ BuildStep::Wait { .. } => wait.unwrap_or(other),
        other @ (BuildStep::Query(_) | BuildStep::Act(_)) => other,
    }
}

/// A build of the wanted content that has its image already.
fn reusable<'a>(observed: &BuildObserved<'a>, plan: &PlannedBuild) -> Option<&'a MachineOSBuild> {
    let mut same = of_content(observed, &plan.content);
    same.find(|build| name_of(build) != plan.name && build.phase() == BuildPhase::Succeeded)
}

/// Builds of a content, without those that are being deleted.
fn of_content<'a>(
    observed: &BuildObserved<'a>,
    content: &str,
) -> impl Iterator<Item = &'a MachineOSBuild> {
    let builds = observed.builds.iter().copied();
    builds.filter(move |build| {
        let annotations = build.metadata.annotations.as_ref();
        let found = annotations.and_then(|it| it.get(annotation::IMAGE_CONTENT));
        found.is_some_and(|found| found == content) && build.metadata.deletion_timestamp.is_none()
    })
}

fn find<'a>(observed: &BuildObserved<'a>, name: &str) -> Option<&'a MachineOSBuild> {
    observed
        .builds
        .iter()
        .copied()
        .find(|build| name_of(build) == name)
}

fn name_of(build: &MachineOSBuild) -> &str {
    build.metadata.name.as_deref().unwrap_or_default()
}

/// The image of a build that has one.
fn image_of(build: &MachineOSBuild) -> Option<&str> {
    build.status.as_ref()?.digested_image_push_spec.as_deref()
}

fn annotation_of<'a>(config: &'a MachineOSConfig, key: &str) -> Option<&'a String> {
    config.metadata.annotations.as_ref()?.get(key)
}

/// The deletion of a build; none where it is under way.
fn delete(build: &MachineOSBuild, why: DeletionCause) -> Option<BuildAction> {
    if build.metadata.deletion_timestamp.is_some() {
        return None;
    }
    Some(BuildAction::Delete {
        build: name_of(build).to_owned(),
        uid: build.metadata.uid.clone().unwrap_or_default(),
        why,
    })
}

fn report(build: &MachineOSBuild, change: &BuildChange, observed: &BuildObserved<'_>) -> BuildStep {
    match changed(build, change, observed.now) {
        Some(status) => BuildStep::Act(BuildAction::Report {
            build: name_of(build).to_owned(),
            status: Box::new(status),
        }),
        None => BuildStep::Settled,
    }
}

const fn after(after: Duration) -> BuildStep {
    BuildStep::Wait { after, why: None }
}

const fn blocked(after: Duration, why: String) -> BuildStep {
    BuildStep::Wait {
        after,
        why: Some(why),
    }
}

#[cfg(test)]
mod tests;
