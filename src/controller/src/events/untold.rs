//! Assignments of a pool that wait for their event: one tells of many.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Announcement;

/// How often an event says which nodes of a pool were assigned: of many nodes some are in each
/// moment.
const TARGETED_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// Assignments of a pool that no event has told yet.
#[derive(Debug, Default)]
pub(crate) struct UntoldAssignments {
    config: String,
    nodes: Vec<String>,
    /// When an event told of some.
    told: Option<Timestamp>,
}

impl UntoldAssignments {
    /// Takes nodes that were assigned `config`. What is to be said now, and how long the rest
    /// waits.
    pub(crate) fn take(
        &mut self,
        nodes: &[String],
        config: &str,
        now: Timestamp,
    ) -> (Vec<Announcement>, Option<Duration>) {
        let mut said = Vec::new();
        if !nodes.is_empty() {
            if self.config != config {
                said.extend(self.tell(now));
                config.clone_into(&mut self.config);
                // Another configuration is news.
                self.told = None;
            }
            self.nodes.extend_from_slice(nodes);
        }
        let passed = self.told.map(|told| now.duration_since(told));
        // Where the clock was set back, the time has come.
        let waits = passed.filter(|passed| !passed.is_negative() && *passed < TARGETED_EVERY);
        match waits {
            Some(passed) if !self.nodes.is_empty() => {
                (said, Some((TARGETED_EVERY - passed).unsigned_abs()))
            }
            Some(_) | None => {
                said.extend(self.tell(now));
                (said, None)
            }
        }
    }

    fn tell(&mut self, now: Timestamp) -> Option<Announcement> {
        let nodes = std::mem::take(&mut self.nodes);
        (!nodes.is_empty()).then(|| {
            self.told = Some(now);
            let config = self.config.clone();
            Announcement::Targeted { nodes, config }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_said_at_once_and_then_together() {
        let mut untold = UntoldAssignments::default();
        let mut at = |second: i64, nodes: &[&str], config: &str| {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            let now = Timestamp::from_second(1000 + second).unwrap();
            let (said, left) = untold.take(&nodes, config, now);
            let said = said.iter().map(|said| said.message("worker")).collect();
            (said, left.map(|left| left.as_secs()))
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
        // What waits is said before the next configuration, which does not wait.
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
