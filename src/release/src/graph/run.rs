//! One pass over a graph.

use super::{Graph, Task};

/// A pass: which tasks may be started, and how those went that were.
///
/// A chain whose task failed is given up; the other chains of its stage go on, and no later stage
/// begins. After [`Run::cancel`] nothing is started, and what runs ends by itself.
#[derive(Clone, Debug)]
pub struct Run {
    graph: Graph,
    workers: usize,
    stage: usize,
    chains: Vec<Chain>,
    is_cancelled: bool,
    tally: Tally,
}

/// How far a chain of the stage under way is.
#[derive(Clone, Copy, Debug, Default)]
struct Chain {
    /// Tasks that were started.
    started: usize,
    /// Whether the last of them still runs.
    is_running: bool,
    /// Whether it was given up.
    is_given_up: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Done, in the order of their ends.
    pub done: Vec<Task>,
    /// Failed, in the order of their ends.
    pub failed: Vec<Task>,
    /// Running, in the order of their starts.
    pub running: Vec<Task>,
}

impl Run {
    /// A pass with at most so many tasks at once; at least one.
    pub fn new(graph: Graph, workers: usize) -> Self {
        let chains = chains(&graph, 0);
        Self {
            graph,
            workers: workers.max(1),
            stage: 0,
            chains,
            is_cancelled: false,
            tally: Tally::default(),
        }
    }

    /// Starts the next task: none while all workers are busy, while what has to come before it
    /// runs, after a cancellation, and at the end.
    pub fn start(&mut self) -> Option<Task> {
        self.start_if(|_| true)
    }

    /// The same of those tasks that may begin now. A chain waits at one that may not.
    pub fn start_if(&mut self, may_begin: impl Fn(Task) -> bool) -> Option<Task> {
        if self.is_cancelled || self.tally.running.len() >= self.workers {
            return None;
        }
        self.advance();
        let stage = self.graph.stages.get(self.stage)?;
        for (chain, tasks) in self.chains.iter_mut().zip(stage) {
            if chain.is_running || chain.is_given_up {
                continue;
            }
            if let Some(task) = tasks.get(chain.started).filter(|task| may_begin(**task)) {
                chain.started += 1;
                chain.is_running = true;
                self.tally.running.push(*task);
                return Some(*task);
            }
        }
        None
    }

    /// Takes the end of a task that was started.
    pub fn finish(&mut self, task: Task, is_done: bool) {
        let Some(at) = self.tally.running.iter().position(|other| *other == task) else {
            return;
        };
        self.tally.running.remove(at);
        let stage = self
            .graph
            .stages
            .get(self.stage)
            .map_or(&[][..], Vec::as_slice);
        for (chain, tasks) in self.chains.iter_mut().zip(stage) {
            if tasks.contains(&task) {
                chain.is_running = false;
                chain.is_given_up = !is_done;
            }
        }
        if is_done {
            self.tally.done.push(task);
        } else {
            self.tally.failed.push(task);
        }
    }

    /// Has nothing more started.
    pub fn cancel(&mut self) {
        self.is_cancelled = true;
    }

    /// Whether nothing runs and nothing can be started.
    pub fn is_over(&mut self) -> bool {
        if !self.tally.running.is_empty() {
            return false;
        }
        self.advance();
        let stage = self.graph.stages.get(self.stage);
        let left = stage.is_some_and(|stage| {
            let mut chains = self.chains.iter().zip(stage);
            chains.any(|(chain, tasks)| !chain.is_given_up && chain.started < tasks.len())
        });
        self.is_cancelled || !left
    }

    /// How the tasks went so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Tasks that are neither done nor failed nor running, in the order of the graph.
    pub fn untried(&self) -> Vec<Task> {
        let Tally {
            done,
            failed,
            running,
        } = &self.tally;
        let is_tried = |task: &Task| [done, failed, running].iter().any(|all| all.contains(task));
        let all = self.graph.stages.iter().flatten().flatten();
        all.copied().filter(|task| !is_tried(task)).collect()
    }

    /// Goes to the next stage if all of this one is done.
    fn advance(&mut self) {
        while let Some(stage) = self.graph.stages.get(self.stage) {
            let is_done = self.chains.iter().zip(stage).all(|(chain, tasks)| {
                !chain.is_running && !chain.is_given_up && chain.started == tasks.len()
            });
            if !is_done {
                return;
            }
            self.stage += 1;
            self.chains = chains(&self.graph, self.stage);
        }
    }
}

fn chains(graph: &Graph, stage: usize) -> Vec<Chain> {
    let count = graph.stages.get(stage).map(Vec::len);
    vec![Chain::default(); count.unwrap_or_default()]
}
