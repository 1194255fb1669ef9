//! `timeline.json`: what each node did when, and what the observer found.

use observer::phases::Span;
use observer::release::RunLevel;
use serde::Serialize;

use crate::steps::StepSpan;

/// The run in numbers.
///
/// Shape: this is the file's, times RFC 3339.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Timeline {
    /// Of the managed upgrade that the last roll is, in order; none where an administrator asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) steps: Vec<StepSpan>,
    /// Of the release in the last roll, in order.
    pub(crate) run_levels: Vec<RunLevel>,
    /// The share of that update in which nothing was waited for.
    pub(crate) unwaited_share: Option<f64>,
    /// In order of names.
    pub(crate) nodes: Vec<Lane>,
    /// Most nodes out of service at once.
    pub(crate) max_out: usize,
    /// Fewest replicas that were ready.
    pub(crate) min_ready_replicas: usize,
    /// Bytes that hosts took from the registry between cordon and uncordon.
    pub(crate) fetched_while_out_bytes: u64,
    /// Whether every node is proven updated and every law held.
    pub(crate) proven: bool,
}

/// What one node did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Lane {
    pub(crate) name: String,
    /// In order, of all rolls.
    pub(crate) phases: Vec<Span>,
}

#[cfg(test)]
mod tests {
    use observer::phases::Phase;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_timeline_is_written_as_its_readers_expect() {
        let span = Span {
            phase: Phase::Drain,
            start: "2026-01-02T03:04:05.5Z".parse().unwrap(),
            end: "2026-01-02T03:04:07Z".parse().unwrap(),
            waits_for: "pod default/web-0: budget default/web".to_owned(),
        };
        let timeline = Timeline {
            steps: vec![StepSpan {
                step: "CommenceUpgrade".to_owned(),
                condition: "UpgradeCommenced".to_owned(),
                start: "2026-01-02T03:04:00Z".parse().unwrap(),
                end: "2026-01-02T03:04:01Z".parse().unwrap(),
            }],
            run_levels: vec![RunLevel {
                level: "50".to_owned(),
                components: vec!["beta".to_owned(), "gamma".to_owned()],
                start: "2026-01-02T03:04:01Z".parse().unwrap(),
                end: "2026-01-02T03:04:05Z".parse().unwrap(),
                waits_for: "gamma: working towards 1.0.1".to_owned(),
            }],
            unwaited_share: Some(0.25),
            nodes: vec![Lane {
                name: "worker-0".to_owned(),
                phases: vec![span],
            }],
            max_out: 1,
            min_ready_replicas: 5,
            fetched_while_out_bytes: 0,
            proven: true,
        };
        assert_eq!(
            serde_json::to_value(timeline).unwrap(),
            json!({
                "steps": [{
                    "step": "CommenceUpgrade",
                    "condition": "UpgradeCommenced",
                    "start": "2026-01-02T03:04:00Z",
                    "end": "2026-01-02T03:04:01Z",
                }],
                "run_levels": [{
                    "level": "50",
                    "components": ["beta", "gamma"],
                    "start": "2026-01-02T03:04:01Z",
                    "end": "2026-01-02T03:04:05Z",
                    "waits_for": "gamma: working towards 1.0.1",
                }],
                "unwaited_share": 0.25,
                "nodes": [{
                    "name": "worker-0",
                    "phases": [{
                        "phase": "drain",
                        "start": "2026-01-02T03:04:05.5Z",
                        "end": "2026-01-02T03:04:07Z",
                        "waits_for": "pod default/web-0: budget default/web",
                    }],
                }],
                "max_out": 1,
                "min_ready_replicas": 5,
                "fetched_while_out_bytes": 0,
                "proven": true,
            })
        );
    }
}
