//! `slipway upgrade`: where the cluster is, which updates there are, and the request for one.
//!
//! What is printed and asked for is decided from values; only this module and `hands` ask the
//! cluster.
//!
//! - `arguments`: verbs and options
//! - `hands`: requests
//! - `object`, `version`: what is read of objects
//! - `summary`, `recommend`, `status`: views
//! - `request`: what is changed
//! - `blocks`: pieces of text

pub mod arguments;
pub(crate) mod blocks;
mod hands;
mod object;
mod recommend;
mod request;
pub mod status;
mod summary;
mod version;

use anyhow::{anyhow, bail};
use jiff::Timestamp;
use serde_json::json;

use self::arguments::{UpgradeArgs, UpgradeVerb};
use self::hands::ClusterHands;
use self::object::ClusterObject;
use self::recommend::{PrecheckReport, RecommendView, RecommendWish};
use self::request::UpgradeDecision;
use self::status::UpgradeStatus;
use self::summary::UpgradeSummary;
use self::version::VersionView;
use crate::failure::{Ending, Usage};
use crate::kubeconfig::ClusterArgs;
use crate::output::{show, warn};

pub(crate) async fn run(arguments: UpgradeArgs) -> anyhow::Result<Ending> {
    let access = &arguments.cluster;
    let Some(verb) = &arguments.verb else {
        return update(&arguments).await;
    };
    match verb {
        UpgradeVerb::Status { details, alerts } => {
            let hands = ClusterHands::new(access)?;
            let snapshot = hands.snapshot(alerts.as_deref()).await?;
            let status =
                UpgradeStatus::new(&snapshot, Timestamp::now()).map_err(|why| anyhow!(why))?;
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
            let hands = ClusterHands::new(access)?;
            let object = hands.version().await?;
            let precheck = match hands.alerts(alerts.as_deref()).await {
                Ok(alerts) => PrecheckReport::of_alerts(&alerts),
                Err(error) => PrecheckReport::unknown("CannotReadAlerts", format!("{error:#}")),
            };
            let wish = RecommendWish {
                version: version.as_ref().map(ToString::to_string),
                show_outdated: *show_outdated_releases,
                accept: accept.iter().cloned().collect(),
                quiet: *quiet,
            };
            let view = RecommendView::new(VersionView(&object), precheck, &wish);
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
            change(access, |version| {
                request::channel(version, channel, *allow_explicit_channel)
            })
            .await
        }
        UpgradeVerb::Accept {
            risks,
            replace,
            clear,
        } => {
            let hands = ClusterHands::new(access)?;
            hands.check_accept_risks().await?;
            let object = hands.version().await?;
            let decided = request::accept(VersionView(&object), risks, *replace, *clear);
            apply(access, &hands, decided.map_err(Usage)?).await
        }
        UpgradeVerb::Rollback => change(access, request::rollback).await,
    }
}

async fn update(arguments: &UpgradeArgs) -> anyhow::Result<Ending> {
    let wish = arguments.wish();
    // Options that contradict each other cost no request.
    wish.check().map_err(Usage)?;
    if wish.is_any() {
        return change(&arguments.cluster, |version| wish.decide(version)).await;
    }
    let hands = ClusterHands::new(&arguments.cluster)?;
    let object = hands.version().await?;
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
    access: &ClusterArgs,
    decide: impl FnOnce(VersionView<'_>) -> Result<UpgradeDecision, String>,
) -> anyhow::Result<Ending> {
    let hands = ClusterHands::new(access)?;
    let object: ClusterObject = hands.version().await?;
    let decision = decide(VersionView(&object)).map_err(|why| anyhow!(why))?;
    apply(access, &hands, decision).await
}

async fn apply(
    access: &ClusterArgs,
    hands: &ClusterHands,
    decision: UpgradeDecision,
) -> anyhow::Result<Ending> {
    for warning in &decision.warnings {
        warn(warning);
    }
    if let Some(patch) = &decision.patch {
        hands.patch_version(patch).await?;
    }
    let done = json!({
        "changed": decision.patch.is_some(), "message": decision.said.trim_end(), "warnings": decision.warnings
    });
    show(access.output, &done, || decision.said.clone())?;
    Ok(Ending::Done)
}
