//! `slipway upgrade timeline`: when operators and nodes were updated, of the last update.
//!
//! Source: the history of ClusterVersion, the version operator's progress record, else the
//! conditions of ClusterOperators, and the events and annotations of Nodes. The API server keeps
//! events for some hours only; what is gone is not guessed.
//!
//! - `lanes`: operators and nodes, from objects
//! - `picture`: the timeline as SVG

mod lanes;
mod picture;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::status::control_plane::ControlPlaneView;
use super::status::ends::UpdateEnds;
use super::status::nodes::{NodesByPool, PoolUpgradeView};
use super::status::{ClusterSnapshot, IncompleteSnapshot};
use crate::decide::blocks::{columns, duration};
use crate::decide::object::{ClusterObject, text, time};

/// Characters of a bar of text.
const BAR: usize = 40;

/// What is read of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimelineInputs {
    pub(crate) cluster: ClusterSnapshot,
    /// Events about Nodes.
    pub(crate) events: Vec<ClusterObject>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdateTimeline {
    from: String,
    to: String,
    started: Timestamp,
    /// When the control plane ran the release.
    completed: Option<Timestamp>,
    /// The last moment that is shown.
    until: Timestamp,
    /// When it is over, in half of all cases and in nine of ten; none if it is, or
    /// without a forecast.
    #[serde(skip_serializing_if = "Option::is_none")]
    forecast: Option<(Timestamp, Timestamp)>,
    groups: Vec<LaneGroup>,
    /// Nodes of which no record is left.
    without_records: Vec<String>,
}

/// A run level of the release, its operators, or the nodes of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct LaneGroup {
    title: String,
    kind: LaneKind,
    /// Nodes that may be out at once; none of what is no pool, and where it cannot be read.
    at_once: Option<usize>,
    lanes: Vec<TimelineLane>,
}

/// An operator or a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct TimelineLane {
    name: String,
    /// What the spans are of, where they are of several things.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    spans: Vec<LaneSpan>,
    marks: Vec<LaneMark>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum LaneKind {
    Operator,
    Node,
}

/// A part of an update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct LaneSpan {
    part: UpdatePart,
    start: Timestamp,
    /// None while it goes on.
    end: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum UpdatePart {
    Progress,
    /// A node fetches and rehearses, in service.
    Fetch,
    /// A node is drained, and its plan applied.
    Drain,
    /// A node reboots and verifies.
    Reboot,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct LaneMark {
    at: Timestamp,
    text: String,
    is_warning: bool,
}

impl UpdatePart {
    const fn name(self) -> &'static str {
        match self {
            Self::Progress => "progress",
            Self::Fetch => "fetch",
            Self::Drain => "drain",
            Self::Reboot => "reboot",
        }
    }

    /// What it is in a bar of text.
    const fn letter(self) -> char {
        match self {
            Self::Progress => '=',
            Self::Fetch => 'f',
            Self::Drain => 'd',
            Self::Reboot => 'r',
        }
    }
}

impl UpdateTimeline {
    /// Reads the last update.
    ///
    /// # Errors
    /// There was none, or a field of it is missing.
    pub(crate) fn new(inputs: &TimelineInputs, now: Timestamp) -> Result<Self, IncompleteSnapshot> {
        let cluster = &inputs.cluster;
        let history = cluster.version.list("/status/history");
        let [last, before @ ..] = history else {
            return Err(IncompleteSnapshot::NoHistory);
        };
        if before.is_empty() {
            return Err(IncompleteSnapshot::NoUpdate);
        }
        let started = time(last, "/startedTime").ok_or(IncompleteSnapshot::NoStart)?;
        let to = text(last, "/version").to_owned();
        let is_completed = |entry: &&serde_json::Value| text(entry, "/state") == "Completed";
        let from = before.iter().find(is_completed).or_else(|| before.first());
        let completed = time(last, "/completionTime").filter(|_| is_completed(&last));

        let NodesByPool { pools, unread, .. } = NodesByPool::new(cluster, now);
        if let Some(unread) = unread.into_iter().next() {
            return Err(unread.into());
        }
        let mut groups = lanes::operators(cluster, &to, started);
        let (nodes, mut without_records) = lanes::nodes(inputs, &pools, started);
        groups.extend(nodes);
        groups.retain(|group| !group.lanes.is_empty());
        without_records.sort_unstable();
        let lanes = || groups.iter().flat_map(|group| &group.lanes);
        let is_open = completed.is_none() || lanes().any(TimelineLane::is_open);
        let last = lanes().filter_map(TimelineLane::ends).max();
        let until = if is_open {
            now
        } else {
            last.max(completed).unwrap_or(now)
        };
        Ok(Self {
            from: from.map_or("", |entry| text(entry, "/version")).to_owned(),
            to,
            started,
            completed,
            until: until.max(started),
            forecast: forecast(cluster, &pools, now).filter(|_| is_open),
            groups,
            without_records,
        })
    }

    /// Whether something of it goes on.
    fn is_open(&self) -> bool {
        let mut lanes = self.groups.iter().flat_map(|group| &group.lanes);
        self.completed.is_none() || lanes.any(TimelineLane::is_open)
    }

    pub(crate) fn svg(&self) -> String {
        picture::draw(self).to_string()
    }

    fn head(&self) -> String {
        let Self { from, to, .. } = self;
        let after = |at: Timestamp| duration(at.as_second() - self.started.as_second());
        let control_plane = match self.completed {
            Some(at) => format!("control plane done after {}", after(at)),
            None => "control plane not done".to_owned(),
        };
        format!(
            "{from} to {to}: {control_plane}, {} shown",
            after(self.until)
        )
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("Update {}\n", self.head());
        let mut rows = vec![
            ["NAME", "START", "TOOK", "", "WHAT"]
                .map(ToOwned::to_owned)
                .to_vec(),
        ];
        for group in &self.groups {
            rows.push(vec![group.title.clone()]);
            rows.extend(group.lanes.iter().map(|lane| self.row(lane)));
        }
        if rows.len() > 1 {
            text.push('\n');
            text.push_str(&columns(2, 2, 0, &rows));
            text.push_str(
                "\nIn bars: = progress, f fetch (in service), d drain and apply, r reboot and \
                 verify.\n",
            );
        }
        if !self.without_records.is_empty() {
            text.extend([format!(
                "\nNo record of this update is left of: {}\n",
                self.without_records.join(", ")
            )]);
        }
        text
    }

    fn row(&self, lane: &TimelineLane) -> Vec<String> {
        let since = |at: Timestamp| at.as_second() - self.started.as_second();
        let (begins, ends) = (lane.begins(), lane.ends().unwrap_or(self.until));
        let start = begins.map(|at| format!("+{}", duration(since(at)).replace("now", "0s")));
        let took = begins.map_or(0, |at| ends.as_second() - at.as_second());
        let parts = lane.spans.iter().map(|span| {
            let end = span.end.unwrap_or(self.until);
            let took = duration(end.as_second() - span.start.as_second());
            let open = if span.end.is_none() { ", goes on" } else { "" };
            format!("{} {took}{open}", span.part.name())
        });
        let marks = lane.marks.iter().map(|mark| mark.text.clone());
        let what: Vec<String> = match &lane.of {
            Some(names) => vec![names.clone()],
            None => parts.chain(marks).collect(),
        };
        vec![
            format!("  {}", lane.name),
            start.unwrap_or_default(),
            if lane.spans.is_empty() {
                String::new()
            } else {
                duration(took)
            },
            self.bar(lane),
            what.join(", "),
        ]
    }

    /// A character for each fortieth of the update.
    fn bar(&self, lane: &TimelineLane) -> String {
        let length = (self.until.as_second() - self.started.as_second()).max(1);
        let place = |at: Timestamp| {
            let passed = (at.as_second() - self.started.as_second()).clamp(0, length);
            let most = i64::try_from(BAR).unwrap_or(1) - 1;
            usize::try_from(passed * most / length).unwrap_or_default()
        };
        let mut bar = ['.'; BAR];
        for span in &lane.spans {
            let (first, last) = (place(span.start), place(span.end.unwrap_or(self.until)));
            for cell in bar.iter_mut().take(last + 1).skip(first) {
                *cell = span.part.letter();
            }
        }
        for mark in &lane.marks {
            if let Some(cell) = bar.get_mut(place(mark.at)) {
                *cell = if mark.is_warning { '!' } else { '|' };
            }
        }
        bar.into_iter().collect()
    }
}

impl TimelineLane {
    const fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.marks.is_empty()
    }

    fn is_open(&self) -> bool {
        self.spans.iter().any(|span| span.end.is_none())
    }

    fn begins(&self) -> Option<Timestamp> {
        let spans = self.spans.iter().map(|span| span.start);
        spans.chain(self.marks.iter().map(|mark| mark.at)).min()
    }

    /// When it was over; none while it goes on.
    fn ends(&self) -> Option<Timestamp> {
        if self.is_open() {
            return None;
        }
        let spans = self.spans.iter().filter_map(|span| span.end);
        spans.chain(self.marks.iter().map(|mark| mark.at)).max()
    }
}

/// When the update is over.
fn forecast(
    cluster: &ClusterSnapshot,
    pools: &[PoolUpgradeView],
    now: Timestamp,
) -> Option<(Timestamp, Timestamp)> {
    let control_plane = ControlPlaneView::new(cluster, now).ok()?;
    let (half, most) = UpdateEnds::of(&control_plane, pools)?.seconds();
    let after = |seconds| now.checked_add(SignedDuration::from_secs(seconds)).ok();
    Some((after(half)?, after(most)?))
}

#[cfg(test)]
mod tests;
