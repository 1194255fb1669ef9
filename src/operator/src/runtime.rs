//! The runtime of a controller: one thread, which wakes seldom for heartbeats.
//!
//! Most events of large clusters are heartbeats of kubelets, which change nothing that is kept. To
//! wake for each of them costs more than to read it. So the thread sleeps for a moment after one:
//! those that arrive meanwhile are read together.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// The longest time for which an event or a response is left unread.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether a heartbeat was read since the last pause.
static HEARTBEAT: AtomicBool = AtomicBool::new(false);

/// Makes the runtime of a program whose watches are an [`crate::Operator`]'s.
///
/// # Errors
/// The system has no resources for one.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .on_thread_park(pause)
        .build()
}

/// Notes that a watch has brought an object of which only the version is new.
pub(crate) fn note_heartbeat() {
    HEARTBEAT.store(true, Ordering::Relaxed);
}

/// Called when nothing is left to be done until something arrives.
fn pause() {
    if HEARTBEAT.swap(false, Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_thread_sleeps_once_for_heartbeats() {
        let runtime = runtime().unwrap();
        let began = Instant::now();
        runtime.block_on(async {
            note_heartbeat();
            note_heartbeat();
            tokio::time::sleep(Duration::from_millis(1)).await;
        });
        assert!(began.elapsed() >= PAUSE);
    }
}
