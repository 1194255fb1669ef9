//! The cluster's settings, and what is in force of them: the node disruption policies.
//!
//! Nodes read the status of MachineConfiguration `cluster`, never its spec: what a user wrote is
//! validated once, here. A policy that cannot be followed keeps the last good one in the status,
//! and `observedGeneration` with it, so that a node waits with an update instead of following an
//! outdated policy.

use std::sync::{Arc, Mutex};

use api::condition;
use api::operator::MachineConfiguration;
use api::operator::machine_configuration::{
    self, FilePolicySpec, MachineConfigurationConditionType as ConditionType,
    MachineConfigurationStatus, NodeDisruptionPolicy, NodeDisruptionPolicyStatus, PolicyAction,
    PolicyActionType, PolicyService, SshKeyPolicy, UnitPolicySpec,
};
use api::{Condition, ConditionStatus};
use cluster::cache::WatchEvent;
use cluster::events::{EventSubject, Recorder, Severity};
use cluster::wire;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use node_update::disruption::{Action, Error, Policies, merge};
use operator::Next;

use crate::context::{Context, lock};
use crate::decide::{boot_images, reporting};
use crate::requests::Requests;
use crate::store::SettingsMeta;

/// Reason of the condition while the policy is in force.
const AS_EXPECTED: &str = "AsExpected";

/// Reason of the condition and of the event for a policy that cannot be followed.
const INVALID: &str = "InvalidNodeDisruptionPolicy";

/// Reason of the condition about fields without effect.
const NOT_IMPLEMENTED: &str = "NotImplemented";

/// How many faults a message names before it only counts.
const FAULTS: usize = 10;

/// Makes the cluster's settings, where there are none, and puts the node disruption policies in
/// force.
pub(crate) async fn reconcile_kept(
    context: &Context,
    settled: &Mutex<Option<SettingsMeta>>,
) -> Result<Next, wire::Error> {
    let stored = match context.store.settings.get(machine_configuration::NAME) {
        Some(stored) => stored,
        None => match context.requests.create_settings().await? {
            Some(created) => {
                tracing::info!("made the cluster's settings");
                let event = WatchEvent::Applied(created.clone());
                context.store.settings.apply(event);
                Arc::new(created)
            }
            // The cluster has no such kind, or another one was faster: the watch tells.
            None => return Ok(Next::Gone),
        },
    };
    let settled = || lock(settled);
    if settled().as_ref() == Some(stored.as_ref()) {
        return Ok(Next::Settled);
    }
    let now = context.now();
    let after = reconcile(&context.requests, &context.recorder, now).await?;
    let Some(after) = after else {
        return Ok(Next::Gone);
    };
    settled().replace(after.clone());
    context.store.settings.refresh(after);
    Ok(Next::Settled)
}

/// Puts the policies in force into the status, where they differ, and reports a policy that cannot
/// be followed. The object as it is then; nothing where there is none.
///
/// # Errors
/// Those of the API server; 409 where the object changed meanwhile.
pub async fn reconcile(
    requests: &Requests,
    recorder: &Recorder,
    now: Timestamp,
) -> Result<Option<SettingsMeta>, wire::Error> {
    let Some(settings) = requests.read_settings().await? else {
        return Ok(None);
    };
    let after = status(&settings, now);
    let Some(changes) = reporting::changes(settings.status.as_ref(), &after) else {
        return Ok(Some(SettingsMeta::of(settings.metadata)));
    };
    let written = requests.set_settings_status(&settings, &changes).await?;
    tracing::info!("wrote the status of the node disruption policies");
    if let Some(message) = newly_degraded(settings.status.as_ref(), &after) {
        let subject = EventSubject {
            api_version: "operator.openshift.io/v1".to_owned(),
            kind: "MachineConfiguration".to_owned(),
            name: machine_configuration::NAME.to_owned(),
            uid: settings.metadata.uid.unwrap_or_default(),
        };
        tracing::warn!(message_id = INVALID, message, "event");
        recorder.say(&subject, Severity::Warning, INVALID, message, now);
    }
    Ok(Some(written))
}

/// Makes the status of the settings.
///
/// Shape: `nodeDisruptionPolicyStatus`, `observedGeneration` and the condition
/// `NodeDisruptionPolicyDegraded`, and `Unsupported` where a field has no effect; other fields and
/// conditions are kept. The first two stay as they are while the policy cannot be followed.
pub fn status(settings: &MachineConfiguration, now: Timestamp) -> MachineConfigurationStatus {
    let mut status = settings.status.clone().unwrap_or_default();
    let generation = settings.metadata.generation;
    let merged = merged(settings.spec.node_disruption_policy.as_ref());
    let mut degraded = Condition {
        r#type: ConditionType::NodeDisruptionPolicyDegraded,
        status: ConditionStatus::False,
        last_transition_time: Time(now),
        reason: AS_EXPECTED.to_owned(),
        message: String::new(),
        observed_generation: generation,
    };
    match merged {
        Ok(policies) => {
            let cluster_policies = in_force(policies);
            status.node_disruption_policy_status =
                Some(NodeDisruptionPolicyStatus { cluster_policies });
            status.observed_generation = generation;
        }
        Err(faults) => {
            degraded.status = ConditionStatus::True;
            INVALID.clone_into(&mut degraded.reason);
            degraded.message = sentence(&faults);
        }
    }
    condition::set(&mut status.conditions, degraded);
    set_unsupported(&mut status, settings, now);
    status
}

/// Names fields that have no effect. Without such a field, the condition is not added.
fn set_unsupported(
    status: &mut MachineConfigurationStatus,
    settings: &MachineConfiguration,
    now: Timestamp,
) {
    let r#type = ConditionType::Unsupported;
    let unhandled = boot_images::unhandled(&settings.spec);
    if unhandled.is_none() && condition::find(&status.conditions, &r#type).is_none() {
        return;
    }
    let reason = if unhandled.is_some() {
        NOT_IMPLEMENTED
    } else {
        AS_EXPECTED
    };
    let unsupported = Condition {
        r#type,
        status: ConditionStatus::from(unhandled.is_some()),
        last_transition_time: Time(now),
        reason: reason.to_owned(),
        message: unhandled.unwrap_or_default(),
        observed_generation: settings.metadata.generation,
    };
    condition::set(&mut status.conditions, unsupported);
}

fn merged(policy: Option<&NodeDisruptionPolicy>) -> Result<Policies, Vec<Error>> {
    let policy = serde_json::to_value(policy).map_err(|error| {
        let (field, why) = (String::new(), error.to_string());
        vec![Error { field, why }]
    })?;
    merge(&policy)
}

/// What is wrong, in one line.
fn sentence(faults: &[Error]) -> String {
    let named = faults.iter().take(FAULTS);
    let named: Vec<String> = named
        .map(|fault| format!("spec.nodeDisruptionPolicy.{fault}"))
        .collect();
    let named = named.join("; ");
    match faults.len().saturating_sub(FAULTS) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

/// The message of the condition where it has become another one.
fn newly_degraded<'a>(
    before: Option<&MachineConfigurationStatus>,
    after: &'a MachineConfigurationStatus,
) -> Option<&'a str> {
    let now = degraded(after)?;
    let before = before.and_then(degraded);
    (before != Some(now)).then_some(now)
}

fn degraded(status: &MachineConfigurationStatus) -> Option<&str> {
    let r#type = ConditionType::NodeDisruptionPolicyDegraded;
    condition::find(&status.conditions, &r#type)
        .filter(|condition| condition.status == ConditionStatus::True)
        .map(|condition| condition.message.as_str())
}

/// Policies in the form of the API.
fn in_force(policies: Policies) -> NodeDisruptionPolicy {
    let actions =
        |actions: Vec<Action>| -> Vec<PolicyAction> { actions.into_iter().map(action).collect() };
    let files = policies.files.into_iter().map(|policy| FilePolicySpec {
        path: policy.path,
        actions: actions(policy.actions),
    });
    let units = policies.units.into_iter().map(|policy| UnitPolicySpec {
        name: policy.name,
        actions: actions(policy.actions),
    });
    NodeDisruptionPolicy {
        files: files.collect(),
        units: units.collect(),
        sshkey: Some(SshKeyPolicy {
            actions: actions(policies.sshkey),
        }),
    }
}

fn action(action: Action) -> PolicyAction {
    let of = |r#type| PolicyAction {
        r#type,
        reload: None,
        restart: None,
    };
    let service = |service_name| Some(PolicyService { service_name });
    match action {
        Action::Reboot => of(PolicyActionType::Reboot),
        Action::Drain => of(PolicyActionType::Drain),
        Action::DaemonReload => of(PolicyActionType::DaemonReload),
        Action::None => of(PolicyActionType::None),
        Action::Special => of(PolicyActionType::Special),
        Action::Reload(name) => PolicyAction {
            reload: service(name),
            ..of(PolicyActionType::Reload)
        },
        Action::Restart(name) => PolicyAction {
            restart: service(name),
            ..of(PolicyActionType::Restart)
        },
    }
}

#[cfg(test)]
mod zeros;
