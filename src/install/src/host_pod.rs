//! Pods that check a host before the daemon's time, or clean it after.

use node_update::host_report::{HostReport, HostVerdict};
use serde_json::{Value, json};

use crate::survey::{HostProblem, NodeCheck};

/// Namespace of these pods: there while they are.
pub const NAMESPACE: &str = "slipway-hosts";

/// Seconds that a pod may take, its image included.
pub const LIMIT_SECS: u64 = 180;

/// What a pod does on its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostVerb {
    /// Checks it; its root is mounted read-only.
    Check,
    /// Takes Slipway off it.
    Remove,
}

impl HostVerb {
    /// The verb of `mcd`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "host-check",
            Self::Remove => "host-remove",
        }
    }
}

/// The namespace: its pods have the host's root.
pub fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "annotations": { "openshift.io/node-selector": "" },
            "labels": { "pod-security.kubernetes.io/enforce": "privileged" },
        },
    })
}

/// The pod for a node. Its name has the node's place in a list, as the node's own may be too long.
pub fn pod(verb: HostVerb, number: usize, node: &str, image: &str) -> Value {
    let verb_name = verb.name();
    // A report is read where the kubelet puts it, so that nothing has to reach the node.
    let command = format!("/usr/bin/mcd {verb_name} --root-mount /rootfs >/dev/termination-log");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{verb_name}-{number}"), "namespace": NAMESPACE,
            "labels": { "app": verb_name },
        },
        "spec": {
            "nodeName": node,
            "hostNetwork": true, "hostPID": true,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LIMIT_SECS,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "priorityClassName": "system-node-critical",
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": verb_name, "image": image,
                "command": ["/usr/bin/sh", "-c", command],
                "securityContext": {
                    "privileged": true, "runAsUser": 0, "readOnlyRootFilesystem": true,
                },
                "volumeMounts": [{
                    "name": "rootfs", "mountPath": "/rootfs",
                    "mountPropagation": "HostToContainer", "readOnly": verb == HostVerb::Check,
                }],
            }],
            "volumes": [{ "name": "rootfs", "hostPath": { "path": "/", "type": "Directory" } }],
        },
    })
}

/// How a pod ended, as far as it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPodEnd {
    /// It may still end.
    Runs,
    /// With what it wrote.
    Ended {
        /// Whether its program did all that it should.
        is_success: bool,
        /// Its report.
        report: String,
    },
    /// It never ran, for this reason.
    Failed(String),
}

/// Reads a pod. One whose image cannot be pulled fails at once: the next try takes minutes.
pub fn end_of(pod: &Value) -> HostPodEnd {
    let text = |pointer: &str| {
        let text = pod.pointer(pointer).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    };
    let state = "/status/containerStatuses/0/state";
    if let Some(reason) = text(&format!("{state}/waiting/reason"))
        && reason.contains("Image")
    {
        let message = text(&format!("{state}/waiting/message")).unwrap_or("no message");
        let image = text("/spec/containers/0/image").unwrap_or_default();
        return HostPodEnd::Failed(format!("it cannot pull {image}: {reason}: {message}"));
    }
    let message = text(&format!("{state}/terminated/message"));
    match text("/status/phase") {
        Some("Succeeded") => HostPodEnd::Ended {
            is_success: true,
            report: message.unwrap_or_default().to_owned(),
        },
        Some("Failed") => match (message, text("/status/reason"), text("/status/message")) {
            (Some(report), _, _) => HostPodEnd::Ended {
                is_success: false,
                report: report.to_owned(),
            },
            (None, Some(reason), message) => HostPodEnd::Failed(format!(
                "its pod failed: {reason}: {}",
                message.unwrap_or("no message")
            )),
            (None, None, _) => HostPodEnd::Failed("its pod failed and says nothing".to_owned()),
        },
        _ => HostPodEnd::Runs,
    }
}

/// State of a host by the end of the pod that checked it. A report without findings is
/// none.
pub fn judge(end: &HostPodEnd) -> NodeCheck {
    let report = match end {
        HostPodEnd::Runs => {
            return NodeCheck::Unknown(format!("no report came within {LIMIT_SECS} s"));
        }
        HostPodEnd::Failed(why) => return NodeCheck::Unknown(why.clone()),
        HostPodEnd::Ended { report, .. } => report,
    };
    let report = match HostReport::parse(report) {
        Ok(report) => report,
        Err(error) => {
            let first = report.lines().next().unwrap_or_default();
            return NodeCheck::Unknown(format!("{error}: {first:?}"));
        }
    };
    let problems = report.findings.iter();
    let problems = problems.filter(|it| it.result != HostVerdict::Ok);
    let problem = problems.map(|it| HostProblem {
        check: it.check.to_string(),
        is_missing: it.result == HostVerdict::Missing,
        message: it.message.clone(),
    });
    NodeCheck::Reported(problem.collect())
}

#[cfg(test)]
mod tests {
    use node_update::host_report::HostCheck;

    use super::*;

    fn waiting(reason: &str) -> Value {
        let state = json!({ "waiting": { "reason": reason, "message": "refused" } });
        json!({
            "spec": { "containers": [{ "image": "r/mcd" }] },
            "status": { "phase": "Pending", "containerStatuses": [{ "state": state }] },
        })
    }

    fn ended(phase: &str, message: &str) -> Value {
        let state = json!({ "terminated": { "message": message } });
        json!({ "status": { "phase": phase, "containerStatuses": [{ "state": state }] } })
    }

    #[test]
    fn what_became_of_a_pod_is_said() {
        let failed = |why: &str| HostPodEnd::Failed(why.to_owned());
        let with = |is_success, report: &str| HostPodEnd::Ended {
            is_success,
            report: report.to_owned(),
        };
        let evicted = json!({ "status": { "phase": "Failed", "reason": "DeadlineExceeded", "message": "late" } });
        for (pod, expected) in [
            (json!({}), HostPodEnd::Runs),
            (waiting("ContainerCreating"), HostPodEnd::Runs),
            (
                waiting("ErrImagePull"),
                failed("it cannot pull r/mcd: ErrImagePull: refused"),
            ),
            (ended("Succeeded", "{}"), with(true, "{}")),
            (ended("Failed", "no"), with(false, "no")),
            (
                ended("Failed", ""),
                failed("its pod failed and says nothing"),
            ),
            (evicted, failed("its pod failed: DeadlineExceeded: late")),
        ] {
            assert_eq!(end_of(&pod), expected, "{pod}");
        }
    }

    #[test]
    fn only_a_whole_report_is_one() {
        let of = |report: &Value| {
            judge(&HostPodEnd::Ended {
                is_success: true,
                report: report.to_string(),
            })
        };
        let findings = |of: &[HostCheck]| -> Vec<Value> {
            let finding = |check: &HostCheck| {
                let (result, message) = if *check == HostCheck::Skopeo {
                    ("missing", "gone")
                } else if *check == HostCheck::Room {
                    ("warning", "little")
                } else {
                    ("ok", "it is there")
                };
                json!({ "check": check, "result": result, "message": message })
            };
            of.iter().map(finding).collect()
        };
        let all = findings(&HostCheck::ALL);
        let problem = |check: &str, is_missing, message: &str| HostProblem {
            check: check.to_owned(),
            is_missing,
            message: message.to_owned(),
        };
        assert_eq!(
            of(&json!({ "schema": 1, "findings": all })),
            NodeCheck::Reported(vec![
                problem("skopeo", true, "gone"),
                problem("room", false, "little")
            ])
        );
        for (report, why) in [
            (
                json!({ "schema": 2, "findings": all }),
                "schema of the document of the host is 2, not 1",
            ),
            (
                json!({ "schema": 1, "findings": [] }),
                "findings of the host has none of check ostree",
            ),
            (
                json!({ "schema": 1, "findings": findings(&HostCheck::ALL[..10]) }),
                "findings of the host has none of check architecture",
            ),
            (json!({}), "cannot understand the document of the host"),
        ] {
            let first = report.to_string();
            let expected = format!("{why}: {first:?}");
            assert_eq!(of(&report), NodeCheck::Unknown(expected));
        }
        let why = |end| match judge(&end) {
            NodeCheck::Unknown(why) => why,
            other @ (NodeCheck::Reported(_) | NodeCheck::Away) => format!("{other:?}"),
        };
        assert_eq!(why(HostPodEnd::Runs), "no report came within 180 s");
        assert_eq!(why(HostPodEnd::Failed("x".to_owned())), "x");
    }

    #[test]
    fn only_a_check_has_the_root_read_only() {
        for (verb, expected) in [(HostVerb::Check, true), (HostVerb::Remove, false)] {
            let pod = pod(verb, 7, "n", "i");
            let mount = pod.pointer("/spec/containers/0/volumeMounts/0/readOnly");
            assert_eq!(mount, Some(&json!(expected)));
            assert_eq!(pod["metadata"]["name"], format!("{}-7", verb.name()));
        }
    }
}
