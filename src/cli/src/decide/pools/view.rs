//! A pool and its nodes, from objects.
//!
//! - `image`: the OS image of a pool in image mode
//! - `pinned`: pinned image sets of a pool

mod image;
mod pinned;

use api::condition::ConditionStatus;
use api::machineconfiguration::MachineConfigPool;
use api::machineconfiguration::label::role;
use api::machineconfiguration::machine_config_pool::{
    PoolCondition, PoolConditionReason, PoolConditionType,
};
use api::machineconfiguration::node_status::Reading;
use jiff::Timestamp;
use pool::budget::budget;
use pool::membership::Membership;
use pool::node::NodeView;
use pool::view::PoolView;
use serde::Serialize;

use crate::decide::blocks::{columns, duration, first_line, rounded};
use crate::decide::forecast::{RollFacts, RollForecast, forecast};
use crate::decide::pools::objects::PoolObjects;

use self::image::PoolImageProgress;
use self::pinned::PoolPinProgress;

/// Conditions of a pool that name a fault, most important first.
const FAULTS: [PoolConditionType; 5] = [
    PoolConditionType::NodeDegraded,
    PoolConditionType::RenderDegraded,
    PoolConditionType::RolloutDegraded,
    PoolConditionType::ImageBuildDegraded,
    PoolConditionType::PinnedImageSetsDegraded,
];

/// A pool: what it runs and wants, and what its nodes wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolDetails {
    name: String,
    is_paused: bool,
    /// Who stopped it by its own switch, since when and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    max_unavailable: String,
    /// The rendered configuration that nodes are to reach.
    target: Option<String>,
    /// The rendered configuration that all nodes run.
    current: Option<String>,
    /// The stream of OS images that it is to have, and the last one that all nodes had.
    stream: Option<String>,
    reached_stream: Option<String>,
    /// How far its OS image is; none for a pool that is not in image mode.
    image: Option<PoolImageProgress>,
    nodes: usize,
    updated: usize,
    out_of_service: usize,
    failed: usize,
    /// Nodes that a person keeps out of the rollout.
    on_hold: usize,
    /// Whether its status is of an older generation of the pool.
    is_behind: bool,
    faults: Vec<PoolFinding>,
    /// How far its nodes are with pinned image sets; none for a pool without sets.
    pinned_images: Option<PoolPinProgress>,
    /// Which nodes wait for their assignment, and for what: the controller's decision.
    waiting: Option<PoolFinding>,
    /// When its roll is over; none while it rolls nothing, or without a forecast.
    forecast: Option<RollForecast>,
    /// Why there is no forecast of its roll.
    no_forecast: Option<String>,
    members: Vec<NodeRow>,
}

/// What a condition of a pool reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PoolFinding {
    r#type: String,
    reason: String,
    message: String,
    since_seconds: Option<i64>,
}

/// A node in the table of its pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeRow {
    name: String,
    state: &'static str,
    phase: Option<String>,
    /// Seconds since when it is in that phase.
    since_seconds: Option<i64>,
    /// Why it cannot take work.
    unready: Vec<String>,
    current: Option<String>,
    desired: Option<String>,
    is_updated: bool,
    waits_for: Option<String>,
    /// Why a person keeps it out of the rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<String>,
    reason: String,
}

/// All pools, by name with the control plane's first, and a sentence for each node that none
/// manages.
pub(crate) fn pools(
    objects: &PoolObjects,
    nodes: &[NodeView],
    now: Timestamp,
) -> (Vec<PoolDetails>, Vec<String>) {
    let views = objects.views();
    let sorted = Membership::sort(nodes, &views);
    let paired = objects.pools.iter().zip(&views);
    let mut details: Vec<PoolDetails> = paired
        .map(|(pool, view)| {
            let mut details = PoolDetails::new(pool, view, sorted.of(&view.name), now);
            let image = view.image.as_ref();
            details.image = image.map(|image| PoolImageProgress::of(image, objects, now));
            details.stream = objects.stream(pool);
            details
        })
        .collect();
    details.sort_by(|one, other| {
        let key = |pool: &PoolDetails| (pool.name != role::MASTER, pool.name.clone());
        key(one).cmp(&key(other))
    });
    let conflicts = sorted.conflicts.iter().map(ToString::to_string);
    let orphans = sorted
        .orphans
        .iter()
        .map(|node| format!("node {node} was managed, and no pool selects it any more"));
    (details, conflicts.chain(orphans).collect())
}

pub(crate) fn text(pools: &[PoolDetails], unmanaged: &[String]) -> String {
    let mut blocks: Vec<String> = pools.iter().map(PoolDetails::text).collect();
    if !unmanaged.is_empty() {
        blocks.push(unmanaged.join("\n") + "\n");
    }
    blocks.join("\n")
}

/// Seconds from then to now.
pub(crate) fn seconds_since(now: Timestamp, then: Timestamp) -> i64 {
    now.as_second() - then.as_second()
}

impl PoolDetails {
    fn new(
        pool: &MachineConfigPool,
        view: &PoolView,
        members: &[&NodeView],
        now: Timestamp,
    ) -> Self {
        let status = pool.status.clone().unwrap_or_default();
        let holds = |r#type: &PoolConditionType| {
            status
                .condition(r#type)
                .filter(|condition| condition.status == ConditionStatus::True)
                .map(|condition| PoolFinding::new(condition, now))
        };
        let target = view.target_config().map(ToOwned::to_owned);
        let faults: Vec<PoolFinding> = FAULTS.iter().filter_map(holds).collect();
        let updating = status.condition(&PoolConditionType::Updating);
        let rolls = !view.is_paused
            && updating.is_some_and(|updating| updating.status == ConditionStatus::True);
        let began = updating.and_then(|updating| updating.last_transition_time.clone());
        let forecast = (began.filter(|_| rolls)).and_then(|began| {
            let facts = roll(view, members, began.0)?;
            Some(forecast(&facts, now))
        });
        let (forecast, no_forecast) = match forecast {
            Some(Ok(forecast)) => (Some(forecast), None),
            Some(Err(why)) => (None, Some(why.to_string())),
            None => (None, None),
        };
        let pinned_images = PoolPinProgress::of(pool, members);
        let mut members: Vec<NodeRow> = members
            .iter()
            .map(|node| NodeRow::new(node, view, now))
            .collect();
        members.sort_by(|one, other| one.name.cmp(&other.name));
        let count = |count: i32| usize::try_from(count).unwrap_or_default();
        Self {
            name: view.name.clone(),
            is_paused: view.is_paused,
            stopped: view.stops.pool.as_ref().map(|it| format!("stopped {it}")),
            max_unavailable: view
                .max_unavailable
                .as_ref()
                .map_or_else(|| "1".to_owned(), |max| max.to_string().replace('"', "")),
            current: status.configuration.name().map(ToOwned::to_owned),
            target,
            stream: None,
            reached_stream: status.os_image_stream.clone().map(|stream| stream.name),
            image: None,
            nodes: members.len(),
            updated: members.iter().filter(|node| node.is_updated).count(),
            out_of_service: count(status.unavailable_machine_count),
            failed: count(status.degraded_machine_count),
            on_hold: members.iter().filter(|node| node.hold.is_some()).count(),
            is_behind: status.observed_generation != view.generation,
            faults,
            pinned_images,
            waiting: holds(&PoolConditionType::Waiting),
            forecast,
            no_forecast,
            members,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a person should read it: the pool reports a fault, or a person stopped it or the
    /// cluster.
    pub(crate) fn needs_attention(&self) -> bool {
        !self.faults.is_empty() || self.stopped.is_some() || self.is_stopped()
    }

    /// Whether the controller waits for a switch.
    fn is_stopped(&self) -> bool {
        let stopped = PoolConditionReason::Stopped.to_string();
        let mut waiting = self.waiting.iter();
        waiting.any(|waiting| waiting.reason == stopped)
    }

    /// What the pool reports: a stop before all else.
    fn findings(&self) -> Vec<&PoolFinding> {
        if self.is_stopped() {
            self.waiting.iter().chain(&self.faults).collect()
        } else {
            self.faults.iter().chain(&self.waiting).collect()
        }
    }

    /// What is shown of it above nodes that change: counts, what is wrong or waited for, then the
    /// OS image of a pool in image mode, and pinned images while nodes lack some. A fault that
    /// these two name is left out.
    pub(crate) fn notes(&self) -> Vec<String> {
        let paused = if self.is_paused { ", paused" } else { "" };
        let stopped = self.stopped.as_ref();
        let stopped = stopped.map_or_else(String::new, |stopped| format!(", {stopped}"));
        let head = format!("{}: {}{paused}{stopped}", self.name, self.counts());
        let image = self.image.as_ref();
        let pinned = self.pinned_images.as_ref();
        let pinned = pinned.filter(|pinned| pinned.is_under_way());
        let is_said = |fault: &&PoolFinding| {
            let build = PoolConditionType::ImageBuildDegraded.to_string();
            let pins = PoolConditionType::PinnedImageSetsDegraded.to_string();
            (fault.r#type == build && image.is_some_and(PoolImageProgress::has_cause))
                || (fault.r#type == pins && pinned.is_some_and(PoolPinProgress::has_failed))
        };
        let findings = self.findings().into_iter();
        let findings = findings.filter(|finding| !is_said(finding)).map(|finding| {
            let (kind, message) = (&finding.r#type, first_line(&finding.message));
            format!("{}: {kind}: {message}", self.name)
        });
        let image = image.map(|image| format!("{}: OS image: {}", self.name, image.note()));
        let pinned = pinned.map(|pins| format!("{}: pinned images: {}", self.name, pins.text()));
        let notes = std::iter::once(head).chain(findings);
        notes.chain(image).chain(pinned).collect()
    }

    fn counts(&self) -> String {
        let mut counts = format!(
            "{} of {} nodes updated, {} out of service, {} failed",
            self.updated, self.nodes, self.out_of_service, self.failed
        );
        if self.on_hold > 0 {
            counts = format!("{counts}, {} on hold", self.on_hold);
        }
        counts
    }

    /// The stream of OS images that the pool is to have, and the last one that all nodes had; none
    /// in a cluster without streams.
    fn stream_text(&self) -> Option<String> {
        let wanted = self.stream.as_ref()?;
        Some(match &self.reached_stream {
            None => format!("{wanted} (not on all nodes)"),
            Some(reached) if wanted != reached => format!("{wanted} (from {reached})"),
            Some(reached) => reached.clone(),
        })
    }

    fn text(&self) -> String {
        let mut rows = Vec::new();
        let mut row = |key: &str, value: String| rows.push(vec![format!("{key}:"), value]);
        let none = || "none yet".to_owned();
        let target = self.target.clone().unwrap_or_else(none);
        if let Some(stopped) = &self.stopped {
            row("Stopped", stopped.trim_start_matches("stopped ").to_owned());
        }
        if self.target == self.current || self.current.is_none() {
            row("Configuration", target);
        } else {
            let current = self.current.clone().unwrap_or_default();
            row("Configuration", format!("{target} (from {current})"));
        }
        if let Some(stream) = self.stream_text() {
            row("OS stream", stream);
        }
        if let Some(image) = &self.image {
            row("OS image", image.text());
        }
        row("maxUnavailable", self.max_unavailable.clone());
        if self.is_paused {
            row("Paused", "no node is assigned a configuration".to_owned());
        }
        if self.is_behind {
            let behind = "the controller has not seen the last change of the pool";
            row("Status", behind.to_owned());
        }
        for finding in self.findings() {
            row(&finding.r#type, finding.text());
        }
        if let Some(pinned) = &self.pinned_images {
            row("Pinned images", pinned.text());
        }
        if let Some(forecast) = &self.forecast {
            row("Forecast", forecast.text());
        } else if let Some(why) = &self.no_forecast {
            row("Forecast", why.clone());
        }
        let head = format!("Pool {}: {}\n", self.name, self.counts());
        let mut text = head + &columns(2, 1, 0, &rows);
        if !self.members.is_empty() {
            let heads = [
                "NAME",
                "STATE",
                "PHASE",
                "SINCE",
                "CONFIGURATION",
                "WAITS FOR",
            ];
            let mut table = vec![heads.map(ToOwned::to_owned).to_vec()];
            table.extend(self.members.iter().map(NodeRow::cells));
            text.push('\n');
            text.push_str(&columns(2, 3, 0, &table));
        }
        text
    }
}

/// Facts about the roll of a pool to its target; none if all of its nodes are there.
fn roll(view: &PoolView, members: &[&NodeView], began: Timestamp) -> Option<RollFacts> {
    let target = view.target.as_ref()?;
    let at_once = budget(&view.name, view.max_unavailable.as_ref(), members.len()).ok()?;
    let mut facts = RollFacts::of_none(began, at_once.get());
    for node in members {
        let status = &node.status;
        let since = status.since.as_ref().and_then(Reading::known);
        if view.is_reached_by(node) {
            facts.done.extend(since);
        } else if status.state().is_failed() {
            // It is repaired by a person, at a time that no one knows.
        } else if status.is_assigned_to(target) {
            facts.under_way += 1;
        } else {
            facts.waiting += 1;
            facts.earlier.extend(since);
        }
    }
    (facts.under_way + facts.waiting > 0).then_some(facts)
}

impl RollForecast {
    fn text(self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "a roll takes less than years")]
        let shown = |seconds: i64| duration(rounded(seconds as f64));
        format!(
            "all nodes updated in {} (p50) to {} (p90), {}",
            shown(self.p50_seconds),
            shown(self.p90_seconds),
            self.certainty()
        )
    }
}

impl PoolFinding {
    fn new(condition: &PoolCondition, now: Timestamp) -> Self {
        let since = condition.last_transition_time.as_ref();
        Self {
            r#type: condition.r#type.to_string(),
            reason: condition.reason.to_string(),
            message: condition.message.clone(),
            since_seconds: since.map(|since| seconds_since(now, since.0)),
        }
    }

    /// Message, with the reason and since when.
    fn text(&self) -> String {
        let since = self
            .since_seconds
            .map(|since| format!("for {}", duration(since)));
        let reason = Some(self.reason.clone()).filter(|reason| !reason.is_empty());
        let notes: Vec<String> = reason.into_iter().chain(since).collect();
        let message = first_line(&self.message);
        if notes.is_empty() {
            message
        } else {
            format!("{message} ({})", notes.join(", "))
        }
    }
}

impl NodeRow {
    fn new(node: &NodeView, view: &PoolView, now: Timestamp) -> Self {
        let status = &node.status;
        let since = status.since.as_ref().and_then(Reading::known);
        Self {
            name: node.name.clone(),
            state: status.state().as_str(),
            phase: status.phase.as_ref().map(|phase| match phase {
                Reading::Known(phase) => phase.to_string(),
                Reading::Unknown(text) => text.clone(),
            }),
            since_seconds: since.map(|since| seconds_since(now, *since)),
            unready: node.unready.iter().map(ToString::to_string).collect(),
            current: status.current_config.clone(),
            desired: status.desired_config.clone(),
            is_updated: view.is_reached_by(node),
            waits_for: status.waits_for.clone(),
            hold: node.hold.as_ref().map(ToString::to_string),
            reason: status.reason.clone(),
        }
    }

    fn cells(&self) -> Vec<String> {
        let state = std::iter::once(self.state.to_owned());
        let state: Vec<String> = state.chain(self.unready.iter().cloned()).collect();
        let configuration = match (&self.current, &self.desired) {
            (Some(current), Some(desired)) if current != desired => {
                format!("{current} -> {desired}")
            }
            (Some(current), _) => current.clone(),
            (None, Some(desired)) => format!("-> {desired}"),
            (None, None) => "not reported".to_owned(),
        };
        let hold = Some(&self.reason).filter(|reason| !reason.is_empty());
        let hold = hold.or(self.hold.as_ref()).map_or("", String::as_str);
        let waits_for = self.waits_for.as_deref().unwrap_or(hold);
        vec![
            self.name.clone(),
            state.join(", "),
            self.phase.clone().unwrap_or_default(),
            self.since_seconds.map(duration).unwrap_or_default(),
            configuration,
            first_line(waits_for),
        ]
    }
}

#[cfg(test)]
pub(crate) mod tests;
