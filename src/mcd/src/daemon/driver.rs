//! The loop around the state machine: events in, commands out, one at a time.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use chassis::shutdown::Shutdown;
use futures::FutureExt as _;
use futures::future::{Fuse, FusedFuture as _};
use node_update::phase::{Command, Event, Machine, Unexpected};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// How long the first reading of the host waits for the Node. With its target read, a plan that is
/// under way is finished or reverted as that asks; without, the plan is still brought to an end.
const NODE_FIRST: Duration = Duration::from_secs(30);

pub trait Executor {
    /// Runs a command to its answer. What happens on the way goes to `events`. No answer: another
    /// command gives one.
    ///
    /// Dropping the future abandons the command; [`Self::cancel`] then ends what it left running.
    fn run(&self, command: Command, events: EventSink) -> impl Future<Output = Option<Event>>;

    /// Ends what an abandoned command left running.
    fn cancel(&self) -> impl Future<Output = ()>;

    /// Shows the machine to the outside. Called after each step; must not wait.
    fn show(&self, machine: &Machine);
}

/// Takes the events of a command under way. Once the command is abandoned, they are dropped.
#[derive(Debug, Clone)]
pub struct EventSink(mpsc::UnboundedSender<Event>);

impl EventSink {
    /// A sink of events and its receiver.
    pub fn channel() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    pub fn send(&self, event: Event) {
        if self.0.send(event).is_err() {
            tracing::debug!("an event of an abandoned command was dropped");
        }
    }
}

/// Drives one node until the shutdown. `looked` ends once the Node was read and what it asks for is
/// among the `inputs`.
///
/// # Errors
/// [`Unexpected`]: an event that the state machine has no transition for. The process ends then and
/// starts over from what the host says.
pub async fn drive<E: Executor>(
    executor: &E,
    mut inputs: mpsc::Receiver<Event>,
    looked: impl Future,
    mut shutdown: Shutdown,
) -> Result<(), Unexpected> {
    let mut work = Work::new(executor);
    tokio::select! {
        () = shutdown.requested() => return Ok(()),
        _ = timeout(NODE_FIRST, looked) => {}
    }
    while let Ok(event) = inputs.try_recv() {
        work.step(event).await?;
    }
    work.queue.push_back(Command::Observe);
    loop {
        work.begin_next();
        let event = tokio::select! {
            biased;
            () = shutdown.requested() => return Ok(()),
            Some(event) = work.events.recv() => event,
            answer = &mut work.running => match answer {
                Some(event) => event,
                None => continue,
            },
            Some(event) = inputs.recv() => event,
            () = sleep_until(work.retry_at.unwrap_or_else(Instant::now)), if work.retry_at.is_some() => {
                work.retry_at = None;
                Event::Retry
            }
        };
        work.step(event).await?;
    }
}

type Running<'e> = Fuse<Pin<Box<dyn Future<Output = Option<Event>> + 'e>>>;

struct Work<'e, E> {
    executor: &'e E,
    machine: Machine,
    queue: VecDeque<Command>,
    running: Running<'e>,
    events: mpsc::UnboundedReceiver<Event>,
    retry_at: Option<Instant>,
}

impl<'e, E: Executor> Work<'e, E> {
    fn new(executor: &'e E) -> Self {
        Self {
            executor,
            machine: Machine::new(),
            queue: VecDeque::new(),
            running: Fuse::terminated(),
            events: EventSink::channel().1,
            retry_at: None,
        }
    }

    /// Begins the next command, if none is under way. A wait begins when the commands before
    /// it are done.
    fn begin_next(&mut self) {
        while self.running.is_terminated() {
            let Some(command) = self.queue.pop_front() else {
                return;
            };
            tracing::debug!(?command, "command");
            if let Command::RetryAfter(delay) = command {
                self.retry_at = Some(Instant::now() + delay);
                continue;
            }
            // A channel of its own: the events of an abandoned command are dropped with it.
            let (sink, events) = EventSink::channel();
            self.events = events;
            let future: Pin<Box<dyn Future<Output = Option<Event>> + 'e>> =
                Box::pin(self.executor.run(command, sink));
            self.running = future.fuse();
        }
    }

    async fn step(&mut self, event: Event) -> Result<(), Unexpected> {
        let before = self.machine.phase().name();
        tracing::debug!(phase = before.as_str(), ?event, "event");
        let commands = self.machine.step(event)?;
        let after = self.machine.phase().name();
        if before != after {
            tracing::info!(
                phase = after.as_str(),
                waits_for = self.machine.phase().waits_for(),
                reason = self.machine.phase().reason(),
                "phase"
            );
            // A wait is its phase's.
            self.retry_at = None;
            self.queue
                .retain(|command| !matches!(command, Command::RetryAfter(_)));
        }
        for command in commands {
            if command == Command::Cancel {
                self.cancel().await;
            } else {
                self.queue.push_back(command);
            }
        }
        self.executor.show(&self.machine);
        Ok(())
    }

    async fn cancel(&mut self) {
        self.queue.clear();
        self.running = Fuse::terminated();
        self.events = EventSink::channel().1;
        self.executor.cancel().await;
    }
}

#[cfg(test)]
mod tests;
