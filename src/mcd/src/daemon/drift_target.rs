//! What the drift monitor watches against, as the phase of the node decides.

use node_update::phase::Phase;
use tokio::sync::watch;

/// What the monitor watches against.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriftTarget {
    /// Name of the configuration; nothing while the host is changed by an update.
    pub config: Option<String>,
    /// How often the host was verified: it is checked again after each time.
    pub round: u64,
    /// How often the node came into a configuration.
    pub arrivals: u64,
}

/// Starts the drift monitor of a node at rest, and stops it before the host is changed. A retry of
/// a node at rest leaves it as it is.
pub(super) fn follow_phase(watched: &watch::Sender<DriftTarget>, phase: &Phase) {
    match phase {
        Phase::Idle(it) => watch_against(watched, &it.at.config),
        Phase::Held(it) => watch_against(watched, &it.origin.target().config),
        Phase::Unreconcilable(it) => watch_against(watched, &it.origin.target().config),
        Phase::Draining(_) | Phase::Applying(_) | Phase::Rebooting(_) | Phase::RollingBack(_) => {
            watched.send_if_modified(|watched| watched.config.take().is_some());
        }
        Phase::Starting(_)
        | Phase::Fetching(_)
        | Phase::Verifying(_)
        | Phase::Finishing(_)
        | Phase::Degraded(_) => {}
    }
}

/// Has the host checked against this configuration, from now on.
pub(super) fn watch_against(watched: &watch::Sender<DriftTarget>, config: &str) {
    watched.send_modify(|watched| {
        watched.config = Some(config.to_owned());
        watched.round += 1;
    });
}
