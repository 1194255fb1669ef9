//! What a MachineOSConfig reports: its build, its image, and why it has none.

use api::ConditionStatus;
use api::condition::{self, Condition};
use api::machineconfiguration::machine_os_config::{BuildReference, REFUSED};
use api::machineconfiguration::{
    BuildPhase, MachineOSBuild, MachineOSConfig, MachineOsConfigStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{image_of, name_of};
use crate::refusal::BuildRefusal;

/// Reason of condition [`REFUSED`] while it is True.
const REFUSED_REASON: &str = "BuildRefused";

/// Its reason once it is False.
const ACCEPTED_REASON: &str = "Accepted";

/// The merge patch of the status of a MachineOSConfig whose wanted build is `build`; nothing where
/// it reports that already.
///
/// Shape: without a build `machineOSBuild` goes, because the one that it names is of older inputs.
/// The last image that was built stays.
pub(super) fn change(
    config: &MachineOSConfig,
    build: Option<&MachineOSBuild>,
    refusal: Option<&BuildRefusal>,
    now: Timestamp,
) -> Option<Value> {
    let before = config.status.clone().unwrap_or_default();
    let mut after = before.clone();
    after.observed_generation = config.metadata.generation.max(before.observed_generation);
    after.machine_os_build = build.map(|build| BuildReference {
        group: "machineconfiguration.openshift.io".to_owned(),
        resource: "machineosbuilds".to_owned(),
        namespace: None,
        name: name_of(build).to_owned(),
    });
    let succeeded = build.filter(|build| build.phase() == BuildPhase::Succeeded);
    if let Some(image) = succeeded.and_then(image_of) {
        after.current_image_pull_spec = Some(image.to_owned());
    }
    note_refusal(&mut after, config, refusal, now);
    (after != before).then(|| {
        json!({
            "observedGeneration": after.observed_generation,
            "machineOSBuild": after.machine_os_build,
            "currentImagePullSpec": after.current_image_pull_spec,
            "conditions": after.conditions,
        })
    })
}

fn note_refusal(
    status: &mut MachineOsConfigStatus,
    config: &MachineOSConfig,
    refusal: Option<&BuildRefusal>,
    now: Timestamp,
) {
    let was_refused = condition::find(&status.conditions, &REFUSED.to_owned()).is_some();
    if refusal.is_none() && !was_refused {
        return;
    }
    let reason = if refusal.is_some() {
        REFUSED_REASON
    } else {
        ACCEPTED_REASON
    };
    let name = config.metadata.name.as_deref().unwrap_or_default();
    let own = format!("MachineOSConfig {name}: ");
    let text = refusal.map(ToString::to_string).unwrap_or_default();
    // Readers know whose condition it is.
    let message = text.strip_prefix(&own).unwrap_or(&text).to_owned();
    let condition = Condition {
        r#type: REFUSED.to_owned(),
        status: ConditionStatus::from(refusal.is_some()),
        last_transition_time: Time(now),
        reason: reason.to_owned(),
        message,
        observed_generation: config.metadata.generation,
    };
    condition::set(&mut status.conditions, condition);
}
