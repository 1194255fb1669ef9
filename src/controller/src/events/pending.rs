//! Assignments of a pool that wait for their event: one names many.

use std::time::Duration;

use api::machineconfiguration::Target;
use jiff::{SignedDuration, Timestamp};

use super::PoolEvent;

/// How often an event names the nodes of a pool that were assigned: of many nodes some are in each
/// moment.
const TARGETED_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// Assignments of a pool that are in no event yet.
#[derive(Debug, Default)]
pub(crate) struct PendingAssignments {
    /// What they were assigned, as text.
    target: String,
    nodes: Vec<String>,
    /// When the last event was recorded.
    recorded: Option<Timestamp>,
}

impl PendingAssignments {
    /// Takes nodes that were assigned `target`, one as text. The events to record now, and how long
    /// the rest waits.
    pub(crate) fn take(
        &mut self,
        nodes: &[String],
        target: &str,
        now: Timestamp,
    ) -> (Vec<PoolEvent>, Option<Duration>) {
        let mut events = Vec::new();
        if !nodes.is_empty() {
            if self.target != target {
                events.extend(self.flush(now));
                target.clone_into(&mut self.target);
                // An event about another target does not wait.
                self.recorded = None;
            }
            self.nodes.extend_from_slice(nodes);
        }
        let passed = self.recorded.map(|at| now.duration_since(at));
        // Where the clock was set back, the time has come.
        let waits = passed.filter(|passed| !passed.is_negative() && *passed < TARGETED_EVERY);
        match waits {
            Some(passed) if !self.nodes.is_empty() => {
                (events, Some((TARGETED_EVERY - passed).unsigned_abs()))
            }
            Some(_) | None => {
                events.extend(self.flush(now));
                (events, None)
            }
        }
    }

    fn flush(&mut self, now: Timestamp) -> Option<PoolEvent> {
        let nodes = std::mem::take(&mut self.nodes);
        let target = Target::parse(&self.target).filter(|_| !nodes.is_empty())?;
        self.recorded = Some(now);
        Some(PoolEvent::Targeted { nodes, target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_recorded_at_once_and_then_together() {
        let mut pending = PendingAssignments::default();
        let mut at = |second: i64, nodes: &[&str], config: &str| {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            let now = Timestamp::from_second(1000 + second).unwrap();
            let (events, left) = pending.take(&nodes, config, now);
            let events = events.iter().map(|event| event.message("worker")).collect();
            (events, left.map(|left| left.as_secs()))
        };
        let nothing = Vec::<String>::new;
        let of = |what: &str| vec![what.to_owned()];
        assert_eq!(at(0, &[], "m1"), (nothing(), None));
        let first = of("Targeted node a to MachineConfig: m1");
        assert_eq!(at(0, &["a"], "m1"), (first, None));
        assert_eq!(at(2, &["b"], "m1"), (nothing(), Some(8)));
        assert_eq!(at(3, &[], "m1"), (nothing(), Some(7)));
        assert_eq!(at(9, &["c"], "m1"), (nothing(), Some(1)));
        let both = of("Set target for 2 nodes to MachineConfig: m1");
        assert_eq!(at(10, &[], "m1"), (both, None));
        assert_eq!(at(11, &[], "m1"), (nothing(), None));
        // What waits is recorded before the next configuration, which does not wait.
        assert_eq!(at(12, &["d"], "m1"), (nothing(), Some(8)));
        let news = vec![
            "Targeted node d to MachineConfig: m1".to_owned(),
            "Targeted node a to MachineConfig: m2".to_owned(),
        ];
        assert_eq!(at(13, &["a"], "m2"), (news, None));
        // The clock was set back.
        let late = of("Targeted node b to MachineConfig: m2");
        assert_eq!(at(1, &["b"], "m2"), (late, None));
    }
}
