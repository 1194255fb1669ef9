//! `slipway upgrade`: where the cluster is, which updates there are, and the request for one.
//!
//! What is printed and requested is decided in `decide::upgrade`; here are the requests.
//!
//! - `arguments`: verbs and options
//! - `requests`: requests to the cluster
//! - `preflight`: a release is checked before it is requested
//! - `control_plane_only`: the control plane alone, over two minor releases

pub mod arguments;
mod control_plane_only;
mod preflight;
mod requests;

use std::time::Duration;

use anyhow::bail;
use jiff::Timestamp;
use serde_json::json;

use self::arguments::{PreflightArgs, UpgradeArgs, UpgradeVerb};
use self::preflight::PreflightWish;
use self::requests::ClusterRequests;
use crate::decide::object::ClusterObject;
use crate::decide::upgrade::recommend::{PrecheckReport, RecommendView, RecommendWish};
use crate::decide::upgrade::request::{self, UpgradeDecision, UpgradeRefusal};
use crate::decide::upgrade::status::UpgradeStatus;
use crate::decide::upgrade::summary::{self, UpgradeSummary};
use crate::decide::upgrade::timeline::UpdateTimeline;
use crate::decide::upgrade::version::VersionView;
use crate::failure::{Ending, Usage};
use crate::output::{print_or_write, show, warn};
use crate::stopping;

pub(crate) async fn run(arguments: UpgradeArgs) -> anyhow::Result<Ending> {
    let access = &arguments.cluster;
    let Some(verb) = &arguments.verb else {
        if arguments.control_plane_only.control_plane_only {
            return control_plane_only::run(&arguments).await;
        }
        return update(&arguments).await;
    };
    match verb {
        UpgradeVerb::Status { details, alerts } => {
            let requests = ClusterRequests::new(access)?;
            let snapshot = requests.snapshot(alerts.as_deref()).await?;
            let status = UpgradeStatus::new(&snapshot, Timestamp::now())?;
            // Of a cluster at rest they are not needed.
            if let Some(why) = snapshot.alerts_unread.filter(|_| status.is_updating) {
                warn(&format!("alerts are not known: {why}"));
            }
            show(access.output, &status, || status.text(*details))?;
            Ok(if status.needs_attention() {
                Ending::NeedsAttention
            } else {
                Ending::Done
            })
        }
        UpgradeVerb::Recommend {
            version,
            show_outdated_releases,
            accept,
            quiet,
            alerts,
        } => {
            let wish = RecommendWish {
                version: version.as_ref().map(ToString::to_string),
                show_outdated: *show_outdated_releases,
                accept: accept.iter().cloned().collect(),
                quiet: *quiet,
            };
            wish.check().map_err(Usage::of)?;
            let requests = ClusterRequests::new(access)?;
            let object = requests.version().await?;
            let precheck = match requests.alerts(alerts.as_deref()).await {
                Ok(alerts) => PrecheckReport::of_alerts(&alerts),
                Err(error) => PrecheckReport::unknown("CannotReadAlerts", format!("{error:#}")),
            };
            let view = RecommendView::new(VersionView(&object), precheck, &wish);
            for warning in &view.warnings {
                warn(warning);
            }
            show(access.output, &view, || view.text.clone())?;
            match view.error {
                Some(error) => bail!(error),
                None => Ok(Ending::Done),
            }
        }
        UpgradeVerb::Channel {
            channel,
            allow_explicit_channel,
        } => {
            let channel = channel.as_deref().unwrap_or_default();
            change(&arguments, |version| {
                Ok(request::channel(version, channel, *allow_explicit_channel)?)
            })
            .await
        }
        UpgradeVerb::Accept {
            risks,
            replace,
            clear,
        } => {
            let requests = ClusterRequests::new(access)?;
            requests.check_accept_risks().await?;
            let object = requests.version().await?;
            let decided = request::accept(VersionView(&object), risks, *replace, *clear);
            apply(&arguments, &requests, decided.map_err(Usage::of)?).await
        }
        UpgradeVerb::Timeline { svg } => {
            if svg.is_some() && access.output.is_some() {
                bail!(Usage("-o cannot be used with --svg".to_owned()));
            }
            let inputs = ClusterRequests::new(access)?.timeline().await?;
            let timeline = UpdateTimeline::new(&inputs, Timestamp::now())?;
            match svg {
                Some(path) => print_or_write(path, &timeline.svg())?,
                None => show(access.output, &timeline, || timeline.text())?,
            }
            Ok(Ending::Done)
        }
        UpgradeVerb::Stop(reason) => {
            stopping::cluster(Some(reason), arguments.dry_run, access).await
        }
        UpgradeVerb::Go => stopping::cluster(None, arguments.dry_run, access).await,
        UpgradeVerb::Preflight(options) => check(&arguments, options).await,
        UpgradeVerb::Rollback { allow_minor } => {
            change(&arguments, |version| {
                Ok(request::rollback(version, *allow_minor)?)
            })
            .await
        }
    }
}

/// A preflight: its request, or what came of the last one.
async fn check(arguments: &UpgradeArgs, options: &PreflightArgs) -> anyhow::Result<Ending> {
    let access = &arguments.cluster;
    let wish = preflight::wish(options)?;
    let requests = ClusterRequests::new(access)?;
    let object = requests.version().await?;
    let Some(decision) = wish.decide(&object) else {
        return preflight::look(access, &object);
    };
    let PreflightWish::Check(request) = &wish else {
        return apply(arguments, &requests, decision).await;
    };
    if arguments.dry_run {
        return apply(arguments, &requests, decision).await;
    }
    if let Some(patch) = &decision.patch {
        requests.patch_version(patch, false).await?;
    }
    let limit = Duration::from_secs(options.timeout_secs);
    preflight::follow(access, &requests, request, limit).await
}

async fn update(arguments: &UpgradeArgs) -> anyhow::Result<Ending> {
    let wish = arguments.wish();
    // Options that contradict each other cost no request.
    wish.check().map_err(Usage::of)?;
    if wish.is_any() {
        return change(arguments, |version| wish.decide(version)).await;
    }
    let requests = ClusterRequests::new(&arguments.cluster)?;
    let object = requests.version().await?;
    let version = VersionView(&object);
    let printed = summary::text(version, arguments.include_not_recommended);
    for warning in &printed.warnings {
        warn(warning);
    }
    show(
        arguments.cluster.output,
        &UpgradeSummary::new(version),
        || printed.out.clone(),
    )?;
    Ok(Ending::Done)
}

/// Reads ClusterVersion, decides, and changes it.
async fn change(
    arguments: &UpgradeArgs,
    decide: impl FnOnce(VersionView<'_>) -> Result<UpgradeDecision, UpgradeRefusal>,
) -> anyhow::Result<Ending> {
    let requests = ClusterRequests::new(&arguments.cluster)?;
    let object: ClusterObject = requests.version().await?;
    match decide(VersionView(&object)) {
        Ok(decision) => apply(arguments, &requests, decision).await,
        Err(UpgradeRefusal { warnings, why }) => {
            for warning in &warnings {
                warn(warning);
            }
            bail!(why)
        }
    }
}

async fn apply(
    arguments: &UpgradeArgs,
    requests: &ClusterRequests,
    decision: UpgradeDecision,
) -> anyhow::Result<Ending> {
    for warning in &decision.warnings {
        warn(warning);
    }
    let is_dry = arguments.dry_run;
    if let Some(patch) = &decision.patch {
        requests.patch_version(patch, is_dry).await?;
    }
    let is_changed = decision.patch.is_some() && !is_dry;
    let done = json!({
        "changed": is_changed, "message": decision.message.trim_end(), "warnings": decision.warnings
    });
    show(arguments.cluster.output, &done, || {
        let mut message = decision.message.clone();
        if is_dry && decision.patch.is_some() {
            message.push_str("info: Dry run: nothing was changed\n");
        }
        message
    })?;
    Ok(Ending::Done)
}
