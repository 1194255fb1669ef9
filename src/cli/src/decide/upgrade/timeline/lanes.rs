//! The lanes of a timeline, from objects.

use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{NodeStatus, PhaseName};
use jiff::Timestamp;
use release::progress::{ProgressRecord, StepRecord};

use super::{
    LaneGroup, LaneKind, LaneMark, LaneSpan, TimelineInputs, TimelineLane, UpdatePart, text, time,
};
use crate::decide::object::ClusterObject;
use crate::decide::upgrade::status::ClusterSnapshot;
use crate::decide::upgrade::status::control_plane::is_of_release;
use crate::decide::upgrade::status::nodes::PoolUpgradeView;

/// Steps that took less than such a part of the whole share a lane with others of their run level.
const SHORT_PART: i64 = 50;

/// What happened to operators: by the version operator's record, a group for each run level, else
/// by what the operators themselves keep.
pub(crate) fn operators(
    cluster: &ClusterSnapshot,
    target: &str,
    started: Timestamp,
) -> Vec<LaneGroup> {
    let record = cluster.record.as_ref();
    let record = record.filter(|record| record.version == target && record.started >= started);
    if let Some(record) = record {
        return run_levels(record);
    }
    let operators = cluster.operators.iter();
    let of_release = operators.filter(|operator| is_of_release(operator));
    let mut lanes: Vec<TimelineLane> = of_release
        .map(|operator| operator_lane(operator, target, started))
        .collect();
    lanes.retain(|lane| !lane.is_empty());
    sort(&mut lanes);
    vec![LaneGroup {
        title: "Operators".to_owned(),
        kind: LaneKind::Operator,
        at_once: None,
        lanes,
    }]
}

fn run_levels(record: &ProgressRecord) -> Vec<LaneGroup> {
    let seconds = |step: &StepRecord| {
        let (from, to) = (step.started?, step.ended?);
        Some(to.as_second() - from.as_second())
    };
    let ends = record.steps.iter().filter_map(|step| step.ended).max();
    let ends = ends.unwrap_or(record.started).as_second();
    let short = (ends - record.started.as_second()) / SHORT_PART;
    let levels = record
        .steps
        .chunk_by(|one, other| one.run_level == other.run_level);
    levels
        .map(|steps| {
            let (mut lanes, mut others) = (Vec::new(), Vec::new());
            for step in steps {
                let Some(start) = step.started else { continue };
                let span = LaneSpan {
                    part: UpdatePart::Progress,
                    start,
                    end: step.ended,
                };
                if seconds(step).is_some_and(|took| took <= short) {
                    others.push((step.component.as_str(), span));
                } else {
                    lanes.push(lane(&step.component, vec![span]));
                }
            }
            sort(&mut lanes);
            match others.as_slice() {
                [] => {}
                [(component, span)] => lanes.push(lane(component, vec![span.clone()])),
                _ => {
                    let name = format!("{} short ones", others.len());
                    let (names, spans): (Vec<&str>, Vec<LaneSpan>) = others.into_iter().unzip();
                    lanes.push(TimelineLane {
                        of: Some(names.join(", ")),
                        ..lane(&name, spans)
                    });
                }
            }
            let level = steps.first().map_or("", |step| step.run_level.as_str());
            LaneGroup {
                title: if level.is_empty() {
                    "Without run level".to_owned()
                } else {
                    format!("Run level {level}")
                },
                kind: LaneKind::Operator,
                at_once: None,
                lanes,
            }
        })
        .collect()
}

/// What happened to nodes, a group for each pool; and the nodes of which no record is left.
pub(crate) fn nodes(
    inputs: &TimelineInputs,
    pools: &[PoolUpgradeView],
    started: Timestamp,
) -> (Vec<LaneGroup>, Vec<String>) {
    let mut groups: Vec<LaneGroup> = pools
        .iter()
        .map(|pool| LaneGroup {
            title: format!("Pool {}", pool.name),
            kind: LaneKind::Node,
            at_once: pool.at_once,
            lanes: Vec::new(),
        })
        .collect();
    // Nodes of no pool come last.
    groups.push(LaneGroup {
        title: "Nodes".to_owned(),
        kind: LaneKind::Node,
        at_once: None,
        lanes: Vec::new(),
    });
    let mut without_records = Vec::new();
    for node in &inputs.cluster.nodes {
        let lane = node_lane(node, &inputs.events, started);
        let is_of =
            |pool: &PoolUpgradeView| pool.nodes.iter().any(|member| member.name == lane.name);
        let place = pools.iter().position(is_of).unwrap_or(pools.len());
        if lane.is_empty() {
            without_records.push(lane.name);
        } else if let Some(group) = groups.get_mut(place) {
            group.lanes.push(lane);
        }
    }
    for group in &mut groups {
        sort(&mut group.lanes);
    }
    (groups, without_records)
}

fn sort(lanes: &mut [TimelineLane]) {
    lanes.sort_by(|one, other| {
        let key = |lane: &TimelineLane| (lane.begins(), lane.name.clone());
        key(one).cmp(&key(other))
    });
}

fn lane(name: &str, spans: Vec<LaneSpan>) -> TimelineLane {
    TimelineLane {
        name: name.to_owned(),
        of: None,
        spans,
        marks: Vec::new(),
    }
}

/// An operator keeps when it last began or ended to change, and no more.
fn operator_lane(operator: &ClusterObject, target: &str, started: Timestamp) -> TimelineLane {
    let mut lane = lane(operator.name(), Vec::new());
    let progressing = operator.condition("Progressing");
    let since = progressing.as_ref().and_then(|condition| condition.since);
    let Some(since) = since.filter(|since| *since >= started) else {
        return lane;
    };
    let is_changing = progressing.is_some_and(|condition| condition.is_true());
    if is_changing {
        lane.spans.push(LaneSpan {
            part: UpdatePart::Progress,
            start: since,
            end: None,
        });
    } else if runs_version(operator, target) {
        lane.marks.push(LaneMark {
            at: since,
            text: "updated".to_owned(),
            is_warning: false,
        });
    }
    lane
}

/// Whether an operator reports that it runs a release.
fn runs_version(operator: &ClusterObject, version: &str) -> bool {
    let versions = operator.list("/status/versions").iter();
    let mut own = versions.filter(|one| text(one, "/name") == "operator");
    own.next()
        .is_some_and(|own| text(own, "/version") == version)
}

/// What the events of a node tell, and its annotations where no event is left.
fn node_lane(node: &ClusterObject, events: &[ClusterObject], started: Timestamp) -> TimelineLane {
    let mut lane = lane(node.name(), Vec::new());
    let mut of_node: Vec<(Timestamp, &ClusterObject)> = events
        .iter()
        .filter(|event| event.text("/involvedObject/name") == lane.name)
        .filter_map(|event| Some((moment(event)?, event)))
        .filter(|(at, _)| *at >= started)
        .collect();
    of_node.sort_by_key(|(at, _)| *at);
    for (at, event) in of_node {
        let reason = event.text("/reason");
        let next = match reason {
            "OSUpdateStarted" => Some(Some(UpdatePart::Fetch)),
            "Drain" => Some(Some(UpdatePart::Drain)),
            "Reboot" => Some(Some(UpdatePart::Reboot)),
            "SkipReboot" | "ServiceReload" | "ServiceRestart" | "NodeDone" | "RolledBack"
            | "FailedToReconcile" => Some(None),
            // It begins and ends nothing.
            _ => None,
        };
        if let Some(part) = next {
            lane.close(at);
            lane.spans.extend(part.map(|part| LaneSpan {
                part,
                start: at,
                end: None,
            }));
        }
        if event.text("/type") == "Warning" {
            lane.marks.push(LaneMark {
                at,
                text: reason.to_owned(),
                is_warning: true,
            });
        }
    }
    let status = NodeStatus::read(&node.annotations());
    let since = status.since.as_ref().and_then(Reading::known).copied();
    let is_idle = status.phase() == Some(PhaseName::Idle);
    if let Some(since) = since.filter(|since| is_idle && *since >= started) {
        if lane.is_open() {
            lane.close(since);
        } else if lane.is_empty() {
            lane.marks.push(LaneMark {
                at: since,
                text: "done".to_owned(),
                is_warning: false,
            });
        }
    }
    lane
}

impl TimelineLane {
    fn close(&mut self, at: Timestamp) {
        if let Some(span) = self.spans.last_mut() {
            span.end.get_or_insert(at);
        }
    }
}

/// When an event was: recorders write different fields.
fn moment(event: &ClusterObject) -> Option<Timestamp> {
    let fields = ["/eventTime", "/firstTimestamp", "/lastTimestamp"];
    let mut times = fields.into_iter().filter_map(|field| time(&event.0, field));
    times.next()
}
