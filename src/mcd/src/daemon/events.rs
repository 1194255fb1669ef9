//! Events and the log lines that people search for.
//!
//! Source: `docs/reference/daemon.md`, "Events and metrics" for reasons and words. Few are sent:
//! each is a request, and the annotations hold the rest.

use std::sync::Mutex;

use api::machineconfiguration::node_status::{DrainRequest, Reading};
use api::machineconfiguration::{NodeState, NodeStatus, NotPinned, PhaseName};
use cluster::events::{EventSubject, Recorder, Severity};
use jiff::Timestamp;
use node::watch::ObservedNode;
use node_update::phase::{Applying, Kind, Phase, Rebooting};
use tokio::sync::watch;

use crate::protocol::ServiceAction;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    severity: Severity,
    reason: &'static str,
    message: String,
}

impl NodeEvent {
    const fn new(severity: Severity, reason: &'static str, message: String) -> Self {
        Self {
            severity,
            reason,
            message,
        }
    }

    /// The OS is being changed.
    pub fn os_update_started(image: &str) -> Self {
        Self::new(
            Severity::Normal,
            "OSUpdateStarted",
            format!("Upgrading OS to {image}"),
        )
    }

    /// The target asks for changes that no installed host can follow, and that an administrator let
    /// through.
    pub fn changes_without_effect(config: &str, what: &[String]) -> Self {
        let text = format!("MachineConfig {config}: {}", what.join("; "));
        Self::new(Severity::Warning, "ChangesWithoutEffect", text)
    }

    /// The update is through without a reboot: one event for what was reloaded and one for what was
    /// restarted, or one that says that there was nothing to do.
    pub fn applied_live(services: &[ServiceAction]) -> Vec<Self> {
        let names = |pick: fn(&ServiceAction) -> Option<&str>| -> Vec<&str> {
            services.iter().filter_map(pick).collect()
        };
        let reloaded = names(|service| match service {
            ServiceAction::Reload(unit) => Some(unit),
            ServiceAction::Restart(_) => None,
        });
        let restarted = names(|service| match service {
            ServiceAction::Restart(unit) => Some(unit),
            ServiceAction::Reload(_) => None,
        });
        let no_reboot = "Config changes do not require reboot.";
        let mut events = Vec::new();
        for (reason, verb, units) in [
            ("ServiceReload", "reloaded", reloaded),
            ("ServiceRestart", "restarted", restarted),
        ] {
            let text = match units.as_slice() {
                [] => continue,
                [unit] => format!("{no_reboot} Service {unit} was {verb}."),
                units => format!("{no_reboot} Services {} were {verb}.", units.join(", ")),
            };
            events.push(Self::new(Severity::Normal, reason, text));
        }
        if events.is_empty() {
            let text = no_reboot.to_owned();
            events.push(Self::new(Severity::Normal, "SkipReboot", text));
        }
        events
    }

    /// A service could not be reloaded or restarted; what the update changed is undone.
    pub fn service_failed(service: &ServiceAction, text: &str) -> Self {
        let reason = match service {
            ServiceAction::Reload(_) => "FailedServiceReload",
            ServiceAction::Restart(_) => "FailedServiceRestart",
        };
        Self::new(Severity::Warning, reason, text.to_owned())
    }

    /// The pods of a cluster's only node stay.
    pub fn drain_skipped() -> Self {
        let text = "Drain not required, skipping".to_owned();
        Self::new(Severity::Normal, "Drain", text)
    }

    pub fn drain_threshold_exceeded(blocked: &str) -> Self {
        let text = format!(
            "Drain failed. Drain has been failing for more than 10 minutes. Waiting 5 minutes then retrying. Error message from drain: {blocked}"
        );
        Self::new(Severity::Warning, "DrainThresholdExceeded", text)
    }

    /// A drain takes too long.
    pub fn failed_to_drain(text: &str) -> Self {
        Self::new(Severity::Warning, "FailedToDrain", text.to_owned())
    }

    /// A drain takes too long, as OpenShift's controller says it.
    pub fn drain_failed(node: &str) -> Self {
        let text = format!("node {node}: drain exceeded timeout: 1h0m0s. Will continue to retry.");
        Self::new(Severity::Warning, "DrainFailed", text)
    }

    /// The node is not Ready in time.
    pub fn failed_to_uncordon(text: &str) -> Self {
        Self::new(Severity::Warning, "FailedToUncordon", text.to_owned())
    }

    /// Certificates of the cluster cannot be used.
    pub fn certificates_refused(text: &str) -> Self {
        Self::new(Severity::Warning, "CertificatesRefused", text.to_owned())
    }

    /// The node does not have its pinned images.
    pub fn not_pinned(not_pinned: &NotPinned) -> Self {
        let text = not_pinned.to_string();
        Self::new(Severity::Warning, "NotPinned", text)
    }

    /// SELinux enforces a policy without Slipway's module.
    pub fn selinux_module_missing() -> Self {
        let text = "SELinux is enforcing without Slipway's policy module: install selinux/slipway.te, or systemd may start neither the helper nor the guard";
        Self::new(Severity::Warning, "SELinuxModuleMissing", text.to_owned())
    }

    pub fn drift_monitor_started(config: &str) -> Self {
        Self::new(
            Severity::Normal,
            "ConfigDriftMonitorStarted",
            format!("Config Drift Monitor started, watching against {config}"),
        )
    }

    pub fn drift_monitor_stopped() -> Self {
        Self::new(
            Severity::Normal,
            "ConfigDriftMonitorStopped",
            "Config Drift Monitor stopped".to_owned(),
        )
    }

    /// A managed file or unit was changed by hand on a node at rest.
    pub fn drift_detected(text: &str) -> Self {
        Self::new(Severity::Warning, "ConfigDriftDetected", text.to_owned())
    }

    /// A managed file or unit was changed by hand: no update begins.
    pub fn preflight_failed(text: &str) -> Self {
        Self::new(
            Severity::Warning,
            "PreflightConfigDriftCheckFailed",
            text.to_owned(),
        )
    }

    /// The host is not what its record says.
    pub fn validation_failed(text: &str) -> Self {
        Self::new(
            Severity::Warning,
            "OnDiskStateValidationFailed",
            text.to_owned(),
        )
    }
}

/// Whether the node comes to what it finishes, given what its Node shows: one that is Done in it
/// already was only checked.
pub fn arrives(phase: &Phase, status: Option<&NodeStatus>) -> bool {
    let Phase::Finishing(it) = phase else {
        return false;
    };
    status.is_some_and(|status| {
        status.state() != NodeState::Done || status.current().as_ref() != Some(&it.to)
    })
}

/// What entering `after` is worth saying on the node `node`, which `arrives` in it or was in it
/// before.
pub fn of_phase(node: &str, after: &Phase, arrives: bool) -> Option<NodeEvent> {
    let (severity, reason, message) = match after {
        Phase::Draining(_) => (
            Severity::Normal,
            "Drain",
            "Draining node to update config.".to_owned(),
        ),
        Phase::Rebooting(it) => (
            Severity::Normal,
            "Reboot",
            format!("Node will reboot into config {}", it.to),
        ),
        Phase::Finishing(it) if arrives => (
            Severity::Normal,
            "NodeDone",
            format!(
                "Setting node {node}, currentConfig {} to Done",
                it.to.config
            ),
        ),
        Phase::Unreconcilable(it) if it.failures.kind == Kind::Rejection => (
            Severity::Warning,
            "FailedToReconcile",
            format!(
                "cannot reconcile to {}: {}",
                it.target,
                it.reasons.join("; ")
            ),
        ),
        Phase::Held(it) => (
            Severity::Warning,
            "RolledBack",
            format!(
                "{} failed on this node and was rolled back: {}",
                it.target, it.cause
            ),
        ),
        Phase::Starting(_)
        | Phase::Idle(_)
        | Phase::Fetching(_)
        | Phase::Applying(_)
        | Phase::Verifying(_)
        | Phase::Finishing(_)
        | Phase::RollingBack(_)
        | Phase::Unreconcilable(_)
        | Phase::Degraded(_) => return None,
    };
    Some(NodeEvent::new(severity, reason, message))
}

/// Logs the milestones that clients of OpenShift's MCO look for, word by word; `status` is what the
/// Node shows.
pub fn log_phase(before: Option<PhaseName>, after: &Phase, status: Option<&NodeStatus>) {
    if before == Some(PhaseName::Starting) && status.is_some_and(|it| is_drained_for(it, after)) {
        tracing::info!("drain is already completed on this node");
    }
    match after {
        Phase::Rebooting(it) => {
            tracing::info!(
                "initiating reboot: Node will reboot into config {}",
                it.to.config
            );
        }
        Phase::Finishing(it) => {
            tracing::info!("Validated on-disk state");
            tracing::info!("In desired state MachineConfig: {}", it.to);
        }
        Phase::Degraded(it) => {
            tracing::error!("Marking Degraded due to: {:?}", it.failures.cause);
        }
        Phase::Unreconcilable(it) => {
            let state = match it.failures.kind {
                Kind::Rejection => "Unreconcilable",
                Kind::Failure => "Degraded",
            };
            tracing::error!("Marking {state} due to: {:?}", it.reasons.join("; "));
        }
        Phase::Held(it) => {
            tracing::error!(config = %it.target, reason = it.cause, "rolled back; the target is held");
        }
        Phase::Starting(_)
        | Phase::Idle(_)
        | Phase::Fetching(_)
        | Phase::Draining(_)
        | Phase::Applying(_)
        | Phase::Verifying(_)
        | Phase::RollingBack(_) => {}
    }
}

/// Whether a restarted daemon goes on with an update behind the drain that the Node shows.
fn is_drained_for(status: &NodeStatus, phase: &Phase) -> bool {
    let (Phase::Applying(Applying { to, .. }) | Phase::Rebooting(Rebooting { to, .. })) = phase
    else {
        return false;
    };
    let drained = DrainRequest::Drain(to.config.clone());
    status.last_applied_drain == Some(Reading::Known(drained))
}

/// Speaks for one node, and says the same thing only once: a failure that is tried again each
/// minute is one event.
#[derive(Debug)]
pub struct EventReporter {
    recorder: Recorder,
    node: String,
    seen: watch::Receiver<ObservedNode>,
    now: fn() -> Timestamp,
    last: Mutex<Vec<NodeEvent>>,
}

/// How many different words are remembered as reported: more than one failure has on its way round.
const REMEMBERED: usize = 4;

impl EventReporter {
    /// Speaks about the Node `node` through `recorder`.
    pub const fn new(
        recorder: Recorder,
        node: String,
        seen: watch::Receiver<ObservedNode>,
        now: fn() -> Timestamp,
    ) -> Self {
        Self {
            recorder,
            node,
            seen,
            now,
            last: Mutex::new(Vec::new()),
        }
    }

    /// Says a word, unless it is a warning that was reported already.
    pub fn report(&self, event: &NodeEvent) {
        if let Ok(mut last) = self.last.lock() {
            if event.severity == Severity::Normal {
                last.clear();
            } else if last.contains(event) {
                return;
            } else {
                last.truncate(REMEMBERED - 1);
                last.insert(0, event.clone());
            }
        }
        let (message_id, message) = (event.reason, &event.message);
        match event.severity {
            Severity::Normal => tracing::info!(message_id, message, "event"),
            Severity::Warning => tracing::warn!(message_id, message, "event"),
        }
        let uid = self.seen.borrow().as_ref().map(|node| node.uid.clone());
        let subject = EventSubject {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            uid: uid.unwrap_or_else(|| self.node.clone()),
        };
        self.recorder.say(
            &subject,
            event.severity,
            event.reason,
            &event.message,
            (self.now)(),
        );
    }

    /// Waits until every report is sent or given up.
    pub async fn flush(&self) {
        self.recorder.flush().await;
    }
}

#[cfg(test)]
mod tests {
    use api::machineconfiguration::annotation;
    use node_update::phase::Origin;
    use node_update::plan::Target;

    use super::*;

    #[test]
    fn drain_of_the_process_before_is_known_by_its_configuration() {
        let target = |config: &str| Target {
            config: config.to_owned(),
            image: None,
        };
        let applying = |config: &str| {
            Phase::Applying(Applying {
                origin: Origin::Read(target("a")),
                to: target(config),
                is_drained: false,
                failures: None,
            })
        };
        let status = |drained: &str| {
            let annotations = [(
                annotation::LAST_APPLIED_DRAIN.to_owned(),
                drained.to_owned(),
            )];
            NodeStatus::read(&annotations.into())
        };
        for (drained, phase, expected) in [
            ("drain-b", applying("b"), true),
            ("drain-c", applying("b"), false),
            ("uncordon-b", applying("b"), false),
        ] {
            assert_eq!(
                is_drained_for(&status(drained), &phase),
                expected,
                "{drained}"
            );
        }
    }

    #[test]
    fn a_node_arrives_unless_it_shows_that_it_is_there() {
        let finishing = Phase::Finishing(node_update::phase::Finishing {
            to: Target {
                config: "b".to_owned(),
                image: None,
            },
            failures: None,
        });
        let status = |config: &str, state: &str| {
            let annotations = [
                (annotation::CURRENT_CONFIG, config),
                (annotation::STATE, state),
            ];
            let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
            NodeStatus::read(&annotations.into())
        };
        for (config, state, expected) in [
            ("b", "Done", false),
            ("b", "Working", true),
            ("a", "Working", true),
            // A step that passed at once was never written.
            ("a", "Done", true),
        ] {
            let status = status(config, state);
            assert_eq!(
                arrives(&finishing, Some(&status)),
                expected,
                "{config} {state}"
            );
        }
        assert!(!arrives(&finishing, None));
    }

    #[test]
    fn a_live_update_says_what_it_did_to_services() {
        let reload = |unit: &str| ServiceAction::Reload(unit.to_owned());
        let restart = |unit: &str| ServiceAction::Restart(unit.to_owned());
        let said = |services: &[ServiceAction]| -> Vec<(&str, String)> {
            let events = NodeEvent::applied_live(services).into_iter();
            events.map(|event| (event.reason, event.message)).collect()
        };
        let text = |rest: &str| format!("Config changes do not require reboot.{rest}");
        assert_eq!(said(&[]), [("SkipReboot", text(""))]);
        assert_eq!(
            said(&[reload("crio.service")]),
            [("ServiceReload", text(" Service crio.service was reloaded."))]
        );
        assert_eq!(
            said(&[
                restart("a.service"),
                reload("c.service"),
                restart("b.service")
            ]),
            [
                ("ServiceReload", text(" Service c.service was reloaded.")),
                (
                    "ServiceRestart",
                    text(" Services a.service, b.service were restarted.")
                ),
            ]
        );
        let failed = NodeEvent::service_failed(&restart("a.service"), "could not");
        assert_eq!(failed.reason, "FailedServiceRestart");
    }
}
