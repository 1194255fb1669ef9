//! What is reported of builds: events of their MachineOSConfig.

use api::machineconfiguration::{BuildConditionType, BuildPhase, MachineOSBuild};
use cluster::events::{EventSubject, Severity};
use image_build::step::DeletionCause;

use super::Building;
use crate::store::Snapshot;

/// A build was begun.
const STARTED: &str = "OSImageBuildStarted";
/// An image was built, or one of the same content was found.
const BUILT: &str = "OSImageBuilt";
/// A build failed.
const FAILED: &str = "OSImageBuildFailed";
/// The Job of a build was deleted.
const INTERRUPTED: &str = "OSImageBuildInterrupted";
/// No pod of a build runs.
const HELD: &str = "OSImageBuildHeld";
/// An image left its registry while a node needs it.
const MISSING: &str = "OSImageMissing";

impl Building<'_> {
    pub(super) fn say_started(&self, snapshot: &Snapshot, build: &str) {
        let message = format!("MachineOSBuild {build} is to build the pool's OS image");
        self.say(snapshot, Severity::Normal, STARTED, &message);
    }

    /// Reports a build that has ended, and one that is held by something else than before.
    pub(super) fn say_phase(
        &self,
        snapshot: &Snapshot,
        before: &MachineOSBuild,
        build: &MachineOSBuild,
    ) {
        let name = build.metadata.name.as_deref().unwrap_or_default();
        let why = |r#type: &BuildConditionType| {
            let condition = build.condition(r#type);
            condition.map(|it| it.message.as_str()).unwrap_or_default()
        };
        let (severity, reason, message) = match build.phase() {
            BuildPhase::Initial | BuildPhase::Prepared => return,
            BuildPhase::Building => {
                let was = before.hold().map(|(hold, _)| hold);
                match build.hold() {
                    Some((hold, why)) if Some(hold) != was => (
                        Severity::Warning,
                        HELD,
                        format!("MachineOSBuild {name} is held: {why}"),
                    ),
                    Some(_) | None => return,
                }
            }
            BuildPhase::Succeeded => {
                let status = build.status.as_ref();
                let image = status.and_then(|it| it.digested_image_push_spec.as_deref());
                let image = image.unwrap_or_default();
                let message = format!("MachineOSBuild {name} has image {image}");
                (Severity::Normal, BUILT, message)
            }
            BuildPhase::Failed => {
                let why = why(&BuildConditionType::Failed);
                (
                    Severity::Warning,
                    FAILED,
                    format!("MachineOSBuild {name} failed: {why}"),
                )
            }
            BuildPhase::Interrupted => {
                let why = why(&BuildConditionType::Interrupted);
                let message = format!("MachineOSBuild {name} was interrupted: {why}");
                (Severity::Warning, INTERRUPTED, message)
            }
        };
        self.say(snapshot, severity, reason, &message);
    }

    /// Reports a build that goes because its image is gone.
    pub(super) fn say_missing(&self, snapshot: &Snapshot, build: &str, why: DeletionCause) {
        match why {
            DeletionCause::ImageMissing => {
                let message = format!(
                    "the image of MachineOSBuild {build} is not in its registry any more, and is built again"
                );
                self.say(snapshot, Severity::Warning, MISSING, &message);
            }
            DeletionCause::Superseded
            | DeletionCause::Rebuild
            | DeletionCause::Unneeded
            | DeletionCause::ConfigGone => {}
        }
    }

    fn say(&self, snapshot: &Snapshot, severity: Severity, reason: &str, message: &str) {
        let Some(config) = snapshot.os_configs.get(self.name) else {
            return;
        };
        let subject = EventSubject {
            api_version: "machineconfiguration.openshift.io/v1".to_owned(),
            kind: "MachineOSConfig".to_owned(),
            name: self.name.to_owned(),
            uid: config.metadata.uid.clone().unwrap_or_default(),
        };
        match severity {
            Severity::Normal => tracing::info!(message_id = reason, message, "event"),
            Severity::Warning => tracing::warn!(message_id = reason, message, "event"),
        }
        let recorder = &self.context.recorder;
        recorder.say(&subject, severity, reason, message, self.now());
    }
}
