//! The request to stop the process.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Tells every loop of the process that it should end. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// The one who may ask for the end.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

/// Makes a pair: the holder of the [`Trigger`] ends all clones of the [`Shutdown`]. Dropping the
/// trigger ends them too.
pub fn pair() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

/// A [`Shutdown`] that SIGTERM and SIGINT trigger. Must be called in a tokio runtime with signals
/// enabled.
///
/// # Errors
/// When a signal handler cannot be installed.
pub fn on_signals() -> std::io::Result<Shutdown> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (trigger, shutdown) = pair();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "asked to stop");
        trigger.fire();
        // The trigger lives until everyone has seen it.
        trigger.0.closed().await;
    });
    Ok(shutdown)
}

impl Trigger {
    /// Asks for the end.
    pub fn fire(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Waits until the end is requested. Can be waited for again and again.
    pub async fn requested(&mut self) {
        // An error means that the trigger is gone, and with it the process's purpose.
        if self.0.wait_for(|requested| *requested).await.is_err() {
            tracing::debug!("shutdown trigger dropped");
        }
    }

    /// Whether the end was requested.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_hears_the_trigger() {
        let (trigger, mut first) = pair();
        let mut second = first.clone();
        assert!(!first.is_requested());
        trigger.fire();
        first.requested().await;
        second.requested().await;
        second.requested().await;
        assert!(second.is_requested());
    }

    #[tokio::test]
    async fn a_lost_trigger_ends_the_wait() {
        let (trigger, mut shutdown) = pair();
        drop(trigger);
        shutdown.requested().await;
        assert!(shutdown.is_requested());
    }
}
