//! The steps by which a cluster gets to a release, in their order, and how far the first of them is
//! that is not done.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use api::machineconfiguration::{
    ControllerConfig, MachineConfigPool, OSImageStream, controller_config,
};
use chassis::report::Chain;
use cluster::cache::Table;
use jiff::Timestamp;
use serde_json::Value;

use super::daemons;
use super::images::{DAEMON, Error as ImagesError, ReleaseImages, completed};
use super::required::{self, Shortfall, Wanted};
use crate::store::Configs;
use crate::store::daemons::DaemonRollout;

/// How long a rollout may take before the operator is degraded; upstream's.
const ROLLOUT: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseStep {
    /// The release's images are in the ControllerConfig.
    RenderConfig,
    MachineConfigDaemon,
    /// The required pools are at it.
    RequiredPools,
}

impl fmt::Display for ReleaseStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RenderConfig => "RenderConfig",
            Self::MachineConfigDaemon => "MachineConfigDaemon",
            Self::RequiredPools => "RequiredPools",
        })
    }
}

/// How far the cluster is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseProgress {
    /// At the release.
    Done,
    /// A step is under way.
    Waiting { step: ReleaseStep, why: String },
    /// A step does not get to its end by itself, or takes too long.
    Failed { step: ReleaseStep, why: String },
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    /// The ControllerConfig is changed so.
    Configure(Value),
    /// Its status is changed so.
    Complete(Value),
    /// Nothing; the cluster is so far.
    Report(ReleaseProgress),
}

/// What a step depends on.
#[derive(Debug)]
pub struct ReleaseFacts<'a> {
    /// Version of this controller's release.
    pub version: &'a str,
    /// What its `ConfigMap`s say, or what is wrong with them.
    pub images: &'a Result<ReleaseImages, ImagesError>,
    /// Pull spec of the release, if it was read.
    pub release_image: Option<&'a str>,
    pub config: Option<&'a ControllerConfig>,
    pub daemons: Option<&'a DaemonRollout>,
    pub pools: &'a [&'a MachineConfigPool],
    /// The streams that pools choose from, where the cluster has them.
    pub streams: Option<&'a OSImageStream>,
    /// Metadata of the MachineConfigs.
    pub configs: &'a Table<Configs>,
    /// OS images of rendered configurations, as far as they were read.
    pub os_images: &'a BTreeMap<String, String>,
    /// The step that is under way, and since when.
    pub clock: Option<(ReleaseStep, Timestamp)>,
    pub now: Timestamp,
}

impl ReleaseFacts<'_> {
    /// How a step is that is not done: it waits until its time is over.
    fn unfinished(&self, step: ReleaseStep, why: String) -> ReleaseProgress {
        if self.is_overdue(step) {
            ReleaseProgress::Failed { step, why }
        } else {
            ReleaseProgress::Waiting { step, why }
        }
    }

    fn is_overdue(&self, step: ReleaseStep) -> bool {
        let Some((_, since)) = self.clock.filter(|(clocked, _)| *clocked == step) else {
            return false;
        };
        let limit = match step {
            ReleaseStep::RenderConfig | ReleaseStep::MachineConfigDaemon => ROLLOUT,
            ReleaseStep::RequiredPools => ROLLOUT * required::required_nodes(self.pools).max(1),
        };
        let elapsed = Duration::try_from(self.now.duration_since(since));
        elapsed.is_ok_and(|elapsed| elapsed >= limit)
    }
}

/// What is next.
///
/// The daemons come before the nodes' OS, because those of a release know how it is applied. If
/// they are not there in time, the images are taken over all the same: a broken node must not keep
/// all others from the release. Source: `docs/reference/controller.md`, "Operator status".
pub fn next(facts: &ReleaseFacts<'_>) -> NextStep {
    use ReleaseStep::{MachineConfigDaemon, RenderConfig, RequiredPools};
    let report = |step, why| NextStep::Report(facts.unfinished(step, why));
    let images = match facts.images {
        Ok(images) => images,
        // The other release's controller takes this one's place, or its ConfigMap follows.
        Err(error) => return report(RenderConfig, Chain(error).to_string()),
    };
    let Some(config) = facts.config else {
        return NextStep::Report(ReleaseProgress::Failed {
            step: RenderConfig,
            why: format!(
                "ControllerConfig {} is missing: it must be created with the cluster",
                controller_config::NAME
            ),
        });
    };
    let image = images.components.get(DAEMON).map(String::as_str);
    let pending = daemons::pending(facts.daemons, image);
    let change = images.change(config, facts.release_image);
    match (&pending, change) {
        (Some(why), Some(_)) if !facts.is_overdue(MachineConfigDaemon) => {
            return report(MachineConfigDaemon, why.clone());
        }
        (_, Some(change)) => return NextStep::Configure(change),
        (_, None) => {}
    }
    if let Some(change) = completed(config, facts.version, facts.now) {
        return NextStep::Complete(change);
    }
    if let Some(why) = pending {
        return report(MachineConfigDaemon, why);
    }
    let wanted = Wanted {
        version: facts.version,
        os_image: &images.os,
        streams: facts.streams,
        configs: facts.configs,
        os_images: facts.os_images,
    };
    match required::shortfall(facts.pools, &wanted) {
        None => NextStep::Report(ReleaseProgress::Done),
        Some(Shortfall::Waiting(why)) => report(RequiredPools, why),
        Some(Shortfall::Failed(why)) => NextStep::Report(ReleaseProgress::Failed {
            step: RequiredPools,
            why,
        }),
    }
}

/// The clock of the next look: a step keeps its start until another one is under way.
pub fn clock(
    before: Option<(ReleaseStep, Timestamp)>,
    progress: &ReleaseProgress,
    now: Timestamp,
) -> Option<(ReleaseStep, Timestamp)> {
    match progress {
        ReleaseProgress::Done => None,
        ReleaseProgress::Waiting { step, .. } | ReleaseProgress::Failed { step, .. } => {
            let kept = before.filter(|(clocked, _)| clocked == step);
            Some(kept.unwrap_or((*step, now)))
        }
    }
}

#[cfg(test)]
mod tests;
