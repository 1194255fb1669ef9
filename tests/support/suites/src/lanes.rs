//! Which job starts next: jobs side by side, as far as the lanes and what each waits for allow.

/// Of two cores. Suites wait for boots and timers more than for processors.
pub(crate) const LANES: u8 = 3;

/// What the decision needs to know of a job.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) lanes: u8,
    /// Names of the jobs that must have passed before.
    pub(crate) after: Vec<&'static str>,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Running,
    Passed,
    Failed,
    /// Something that it waits for did not pass.
    Dropped,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Start the job of this index.
    Start(usize),
    /// The job of this index can no longer start.
    Drop(usize),
    /// Wait until a running job ends.
    Wait,
    /// All jobs have ended.
    End,
}

/// A job that waits for one that is not among them; none where all names match.
pub(crate) fn stray(plans: &[Plan]) -> Option<(&'static str, &'static str)> {
    let is_there = |name: &str| plans.iter().any(|plan| plan.name == name);
    plans.iter().find_map(|plan| {
        let missing = plan.after.iter().find(|name| !is_there(name))?;
        Some((plan.name, *missing))
    })
}

/// Decides by the jobs in order of preference. A wide job that stands first is not overtaken for
/// ever: while it waits for lanes, only jobs that fit beside what runs already start, and these are
/// finite.
pub(crate) fn next(plans: &[Plan], states: &[State]) -> Next {
    let jobs = || plans.iter().zip(states.iter().copied());
    let state_of = |name: &str| {
        jobs()
            .find(|(plan, _)| plan.name == name)
            .map(|(_, state)| state)
    };
    let is_lost = |plan: &Plan| {
        plan.after.iter().any(|name| {
            !matches!(
                state_of(name),
                Some(State::Waiting | State::Running | State::Passed)
            )
        })
    };
    let waiting = || {
        jobs()
            .enumerate()
            .filter(|(_, (_, state))| *state == State::Waiting)
            .map(|(index, (plan, _))| (index, plan))
    };
    if let Some((index, _)) = waiting().find(|(_, plan)| is_lost(plan)) {
        return Next::Drop(index);
    }
    let used: u8 = jobs()
        .filter(|(_, state)| *state == State::Running)
        .map(|(plan, _)| plan.lanes)
        .sum();
    let is_ready = |plan: &Plan| {
        plan.after
            .iter()
            .all(|name| state_of(name) == Some(State::Passed))
    };
    let found = waiting().find(|(_, plan)| is_ready(plan) && used + plan.lanes <= LANES);
    match found {
        Some((index, _)) => Next::Start(index),
        None if used > 0 => Next::Wait,
        // Only a circle of jobs that wait for each other is left: none of them can start.
        None => waiting()
            .next()
            .map_or(Next::End, |(index, _)| Next::Drop(index)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &'static str, lanes: u8, after: &[&'static str]) -> Plan {
        Plan {
            name,
            lanes,
            after: after.to_vec(),
        }
    }

    /// Runs all jobs, ending the oldest running one whenever there is nothing to start; the order
    /// in which they started.
    fn order(plans: &[Plan], fails: &[&str]) -> (Vec<&'static str>, Vec<State>) {
        let mut states = vec![State::Waiting; plans.len()];
        let mut running = Vec::new();
        let mut started = Vec::new();
        loop {
            match next(plans, &states) {
                Next::Start(index) => {
                    states[index] = State::Running;
                    running.push(index);
                    started.push(plans[index].name);
                    let used: u8 = running
                        .iter()
                        .map(|index: &usize| plans[*index].lanes)
                        .sum();
                    assert!(used <= LANES);
                }
                Next::Drop(index) => states[index] = State::Dropped,
                Next::Wait => {
                    let index = running.remove(0);
                    let failed = fails.contains(&plans[index].name);
                    states[index] = if failed { State::Failed } else { State::Passed };
                }
                Next::End => return (started, states),
            }
        }
    }

    #[test]
    fn jobs_start_in_order_as_far_as_lanes_allow() {
        let plans = [
            plan("wide", 2, &[]),
            plan("wider", 3, &[]),
            plan("a", 1, &[]),
            plan("b", 1, &[]),
        ];
        let (started, states) = order(&plans, &[]);
        assert_eq!(started, ["wide", "a", "b", "wider"]);
        assert_eq!(states, [State::Passed; 4]);
    }

    #[test]
    fn a_job_waits_for_what_it_needs() {
        let plans = [plan("suite", 1, &["build"]), plan("build", 1, &[])];
        assert_eq!(order(&plans, &[]).0, ["build", "suite"]);
    }

    #[test]
    fn a_failure_drops_what_waits_for_it_and_nothing_else() {
        let plans = [
            plan("build", 1, &[]),
            plan("suite", 1, &["build"]),
            plan("later", 1, &["suite"]),
            plan("other", 1, &[]),
        ];
        let (started, states) = order(&plans, &["build"]);
        assert_eq!(started, ["build", "other"]);
        assert_eq!(
            states,
            [State::Failed, State::Dropped, State::Dropped, State::Passed]
        );
    }

    #[test]
    fn jobs_that_can_never_start_are_dropped() {
        let plans = [
            plan("a", 1, &["b"]),
            plan("b", 1, &["a"]),
            plan("c", 1, &["none"]),
        ];
        let (started, states) = order(&plans, &[]);
        assert!(started.is_empty());
        assert_eq!(states, [State::Dropped; 3]);
        assert_eq!(stray(&plans), Some(("c", "none")));
        assert_eq!(stray(&plans[..2]), None);
    }
}
