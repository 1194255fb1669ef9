//! From two configurations and what is known of a host to the plan of an update, or to the
//! rejections.
//!
//! The order of steps is sound for any start: links of units that change or go are removed while
//! their files still name them; paths are restored, then files written, then masks; enablement
//! comes last, when every unit is what it will be; then accounts; and on a running system the
//! services that must know. A second run changes nothing, nor does one that was stopped anywhere
//! before.
//!
//! - [`plan`]: the decision
//! - [`describe`]: a plan for people

mod describe;
mod steps;
mod units;

pub use describe::describe;

use crate::decode::{decode, decode_old};
use crate::desired::Desired;
use crate::diff::{Diff, diff};
use crate::disruption::{Decision, Policies, decide};
use crate::packages::{self, NextSystem};
use crate::plan::{
    Attempt, Bundle, Deploy, Digest, Expectation, Plan, Route, SCHEMA, Step, Target, Undo,
};
use crate::reconcile::{self, Exempt};
use crate::rejection::{Member, Rejection, Rejections, Section, Subject};
use crate::verify;
use crate::well_known::KUBELET;
use machineconfig::kargs;
use machineconfig::spec::NodeConfig;
use steps::Steps;

/// What an update is planned from.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub attempt: &'a Attempt,
    /// Where the host is, as it was verified.
    pub from: Side<'a>,
    pub to: Side<'a>,
    /// What is known of the host.
    pub facts: &'a Facts,
    /// What the administrator says about changes.
    pub policies: &'a Policies,
    /// Changes that are let pass though they have no effect.
    pub exempt: Exempt,
    /// Whether an administrator asked for everything to be written and the node rebooted, whatever
    /// changes.
    pub force: bool,
}

/// A configuration and how it is named.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// Its name, and the layered image of the node if it has one.
    pub target: &'a Target,
    pub config: &'a NodeConfig,
}

/// What is known of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Pull spec of the image that is booted, without transport; absent where the deployment names
    /// none.
    pub booted_image: Option<String>,
    /// Arguments of the booted entry; absent where they cannot be known.
    pub kernel_arguments: Option<Vec<String>>,
    /// Whether the kernel runs in FIPS mode; absent where it does not say.
    pub fips: Option<bool>,
    /// Whether the cluster has this node only, so that nothing could take what it runs
    /// (`controlPlaneTopology: SingleReplica`).
    pub single_replica: bool,
    /// Whether the host is a Node, which it stays only with a kubelet.
    pub is_node: bool,
}

/// A plan, and what it is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The plan with its blobs.
    pub bundle: Bundle,
    pub diff: Diff,
}

/// Plans an update.
///
/// Source: `docs/reference/daemon.md`, "Rejected changes" to "SSH keys and password".
///
/// # Errors
/// [`Rejections`], all of them, each naming field and object.
pub fn plan(request: &Request<'_>) -> Result<Outcome, Rejections> {
    let (old, new) = (&request.from.config.spec, &request.to.config.spec);
    let changes = diff(old, new);
    let before = decode_old(old);
    let (after, undecodable) = decode(new);
    let has_image = request.to.target.image.is_some();
    let pair = (&before, &after);
    let mut rejections = reconcile::rejections_of(old, new, pair, request.exempt, has_image);
    // The comparison has rejected a source that is no `data:` URL already.
    let is_new = |rejected: &Rejection| {
        !rejections
            .iter()
            .any(|known| known.subject == rejected.subject && known.member == Some(Member::Source))
    };
    let undecodable: Vec<_> = undecodable.into_iter().filter(is_new).collect();
    rejections.extend(undecodable);
    if request.facts.fips.is_some_and(|fips| fips != new.fips) && old.fips == new.fips {
        rejections.push(reconcile::fips());
    }
    let image = os_image(request);
    let arguments = arguments(request, &mut rejections);
    let decided = decide(
        old,
        new,
        &changes,
        image.is_some(),
        request.force,
        request.policies,
    );
    let decision = match decided {
        Ok(decision) => decision,
        Err(rejection) => {
            // A file that cannot be read may be rejected with its line already.
            if !rejections
                .iter()
                .any(|known| known.subject == rejection.subject)
            {
                rejections.push(rejection);
            }
            return Err(Rejections(rejections));
        }
    };
    let decision = reboot_for_arguments(decision, &changes, arguments.as_ref());
    let next = if has_image {
        NextSystem::Built
    } else if image.is_some() {
        NextSystem::Another
    } else {
        NextSystem::Booted
    };
    rejections.extend(packages::rejections(old, new, next));
    if !rejections.is_empty() {
        return Err(Rejections(rejections));
    }
    let (delete_arguments, append_arguments) = arguments.unwrap_or_default();
    let deploy = Deploy {
        image,
        delete_arguments,
        append_arguments,
    };
    let steps = if decision.reboot {
        Steps::for_new_deployment(&before, &after)
    } else {
        Steps::for_running_system(&before, &after, &decision.actions)
    };
    let touched: Vec<&str> = changes.units.keys().collect();
    let live = if decision.reboot {
        &[]
    } else {
        decision.actions.as_slice()
    };
    let started = verify::started(&before, &after, &touched, live);
    Ok(Outcome {
        bundle: bundle(request, decision, deploy, steps, &after, started),
        diff: changes,
    })
}

/// The image to deploy, if it is another than the booted one.
fn os_image(request: &Request<'_>) -> Option<String> {
    let side = |side: &Side<'_>| {
        side.config
            .image(side.target.image.as_deref())
            .map(ToOwned::to_owned)
    };
    let booted = request
        .facts
        .booted_image
        .clone()
        .or_else(|| side(&request.from));
    side(&request.to).filter(|desired| booted.as_ref() != Some(desired))
}

/// The arguments to delete and to append; none where the booted entry has what is desired already.
fn arguments(
    request: &Request<'_>,
    rejections: &mut Vec<Rejection>,
) -> Option<(Vec<String>, Vec<String>)> {
    let delete = request.from.config.spec.split_kernel_arguments();
    let append = request.to.config.spec.split_kernel_arguments();
    let present = request.facts.kernel_arguments.as_deref();
    if let Some(present) = present {
        let changed = kargs::change(present, &delete, &append);
        if let Err(error) = kargs::check_length(&changed) {
            let subject = Subject::Section(Section::KernelArguments);
            rejections.push(Rejection::new(subject, error.to_string()));
        }
    }
    let lacks = present.is_some_and(|present| !kargs::missing(&append, present).is_empty());
    (delete != append || lacks).then_some((delete, append))
}

/// A reboot where the booted entry lacks arguments though the configurations do not differ in them.
fn reboot_for_arguments(
    mut decision: Decision,
    changes: &Diff,
    arguments: Option<&(Vec<String>, Vec<String>)>,
) -> Decision {
    if arguments.is_some() && !changes.kernel_arguments {
        if !decision.reboot {
            decision = Decision {
                reboot: true,
                drain: true,
                actions: vec![],
                words: vec!["Reboot".to_owned()],
                because: vec![],
            };
        }
        let why = "the host was booted without kernel arguments of its configuration";
        decision.because.push(why.to_owned());
    }
    decision
}

fn bundle(
    request: &Request<'_>,
    decision: Decision,
    deploy: Deploy,
    steps: Steps<'_>,
    desired: &Desired,
    started: Vec<Expectation>,
) -> Bundle {
    let to = request.to;
    let mut expect = verify::expectations_of(to.config, to.target.image.as_deref(), desired);
    expect.extend(started);
    if request.facts.is_node {
        let unit = KUBELET.to_owned();
        expect.push(Expectation::Runs { unit });
    }
    let mut blobs = steps.blobs;
    let record = request.to.config.record();
    let digest = Digest::of(&record);
    blobs.insert(digest.clone(), record);
    let step = |action| Step {
        action,
        undo: Undo::Nothing,
    };
    let plan = Plan {
        schema: SCHEMA,
        attempt: request.attempt.clone(),
        from: request.from.target.clone(),
        to: request.to.target.clone(),
        without_effect: reconcile::without_effect(
            &request.from.config.spec,
            &request.to.config.spec,
        ),
        origin: if request.force {
            Vec::new()
        } else {
            verify::files_and_units(request.from.config)
        },
        route: if decision.reboot {
            Route::Reboot
        } else {
            Route::Live
        },
        drain: decision.drain && !request.facts.single_replica,
        post_config_actions: decision.words,
        because: decision.because,
        deploy: decision.reboot.then_some(deploy),
        steps: steps.actions.into_iter().map(step).collect(),
        record: digest,
        expect,
    };
    Bundle { plan, blobs }
}

#[cfg(test)]
mod tests;
