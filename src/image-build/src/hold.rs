//! Why no pod of a Job runs.

use api::machineconfiguration::BuildHold;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use crate::objects::CONTAINER;
use crate::outcome::JobView;

/// Most bytes of a hold's message: that of a scheduler names each reason with its nodes' number,
/// that of a kubelet has what the registry responded.
const MAX_BYTES: usize = 1024;

/// How long the Job controller and the scheduler have before their silence is reported. Both take
/// seconds, in a busy cluster tens of them.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

/// What a container that is being started waits for. All else is a fault.
///
/// Source: kubelet, `ContainerStateWaiting.reason` before the first start.
const STARTING: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

/// The kubelet waits before it pulls again; why the last pull failed is in the reason before.
const BACK_OFF: &str = "ImagePullBackOff";
const PULL_FAILED: &str = "ErrImagePull";

const NOT_STARTED: &str = "its container does not start";

/// What keeps the pod of a Job from running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodHold {
    pub hold: BuildHold,
    /// Why, for people: one line.
    pub message: String,
}

impl PodHold {
    /// What keeps a Job that has not ended from its pod; none where one runs, where one is about to
    /// start, and while the Job controller waits before its next try.
    pub fn read(job: &JobView, pods: &[Pod], now: Timestamp) -> Option<Self> {
        let is_old = |since: Option<Timestamp>| {
            since.is_some_and(|since| now.duration_since(since) >= PATIENCE)
        };
        if pods.is_empty() {
            return if job.is_suspended {
                Some(Self::new(BuildHold::NoPod, "its Job is suspended", "", ""))
            } else if is_old(job.created) {
                let what = "its Job has no pod, and the Job's events say why";
                Some(Self::new(BuildHold::NoPod, what, "", ""))
            } else {
                None
            };
        }
        let live = pods.iter().filter(|pod| is_live(pod));
        let newest = live.max_by_key(|pod| created(pod))?;
        let status = newest.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref());
        let mut conditions = conditions.unwrap_or_default().iter();
        let scheduled = conditions.find(|it| it.type_ == "PodScheduled");
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        match scheduled {
            Some(it) if it.status == "False" => {
                let (reason, message) = (text(&it.reason), text(&it.message));
                let what = "no node takes its pod";
                let hold = BuildHold::PodNotScheduled;
                return Some(Self::new(hold, what, &reason, &message));
            }
            Some(_) => {}
            None => {
                let spec = newest.spec.as_ref();
                let node = spec.and_then(|spec| spec.node_name.as_deref());
                if node.unwrap_or_default().is_empty() && is_old(created(newest)) {
                    let what = "no scheduler has looked at its pod";
                    return Some(Self::new(BuildHold::PodNotScheduled, what, "", ""));
                }
            }
        }
        let statuses = status.and_then(|status| status.container_statuses.as_deref());
        let mut statuses = statuses.unwrap_or_default().iter();
        let container = statuses.find(|status| status.name == CONTAINER)?;
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = text(&waiting.reason);
        if STARTING.contains(&reason.as_str()) {
            return None;
        }
        let message = text(&waiting.message);
        let hold = BuildHold::ContainerWaits;
        Some(Self::new(hold, NOT_STARTED, &reason, &message))
    }

    fn new(hold: BuildHold, what: &str, reason: &str, message: &str) -> Self {
        // The text of a runtime may have lines of its own.
        let message: Vec<&str> = message.split_whitespace().collect();
        let message = message.join(" ");
        let parts = [what, reason, &message];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let mut message = parts.join(": ");
        let cut = (0..=MAX_BYTES.min(message.len())).rev();
        let cut = cut.into_iter().find(|at| message.is_char_boundary(*at));
        message.truncate(cut.unwrap_or_default());
        Self { hold, message }
    }

    /// Whether it says more than what is reported already.
    ///
    /// Shape: while a kubelet tries an image again, the fault of a pull and the wait before the
    /// next alternate. Only the fault has the cause, and it stays.
    pub fn is_news(&self, reported: Option<(BuildHold, &str)>) -> bool {
        let Some((hold, message)) = reported else {
            return true;
        };
        if hold != self.hold {
            return true;
        }
        let begins = |text: &str, reason: &str| {
            let rest = text.strip_prefix(NOT_STARTED);
            let rest = rest.and_then(|rest| rest.strip_prefix(": "));
            rest.is_some_and(|rest| rest.starts_with(reason))
        };
        let is_known = begins(&self.message, BACK_OFF) && begins(message, PULL_FAILED);
        self.message != message && !is_known
    }
}

/// Whether a pod has yet to run or runs.
fn is_live(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    !is_over && pod.metadata.deletion_timestamp.is_none()
}

fn created(pod: &Pod) -> Option<Timestamp> {
    let created = pod.metadata.creation_timestamp.as_ref();
    created.map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::Job;
    use serde_json::{Value, json};

    use super::*;

    const CREATED: &str = "2026-01-01T00:00:00Z";

    fn job(conditions: &Value) -> JobView {
        let job: Job = serde_json::from_value(json!({
            "metadata": { "creationTimestamp": CREATED }, "status": { "conditions": conditions },
        }))
        .unwrap();
        JobView::read(&job)
    }

    fn pod(created: &str, node: &str, status: &Value) -> Value {
        json!({
            "metadata": { "creationTimestamp": created },
            "spec": { "containers": [], "nodeName": node }, "status": status,
        })
    }

    fn scheduled(status: &str, reason: &str, message: &str) -> Value {
        json!({ "phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": status, "reason": reason, "message": message,
        }] })
    }

    fn waiting(name: &str, reason: &str, message: &str) -> Value {
        let mut status = scheduled("True", "", "");
        status["containerStatuses"] = json!([{
            "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": { "reason": reason, "message": message } },
        }]);
        status
    }

    /// So many seconds after the Job was made.
    fn at(seconds: i64, conditions: &Value, pods: &[Value]) -> Option<(&'static str, String)> {
        let now: Timestamp = CREATED.parse().unwrap();
        let now = now + SignedDuration::from_secs(seconds);
        let pods: Vec<Pod> = pods
            .iter()
            .map(|pod| serde_json::from_value(pod.clone()).unwrap())
            .collect();
        let held = PodHold::read(&job(conditions), &pods, now)?;
        Some((held.hold.as_str(), held.message))
    }

    #[test]
    fn what_keeps_a_pod_from_running_is_said_with_its_cause() {
        let of = |status: &Value| at(5, &json!([]), &[pod(CREATED, "", status)]);
        for (status, expected) in [
            (
                scheduled(
                    "False",
                    "Unschedulable",
                    "0/3 nodes are available: 3 Insufficient memory.",
                ),
                "PodNotScheduled no node takes its pod: Unschedulable: 0/3 nodes are available: 3 Insufficient memory.",
            ),
            (
                scheduled("False", "SchedulingGated", ""),
                "PodNotScheduled no node takes its pod: SchedulingGated",
            ),
            (
                scheduled("False", "", ""),
                "PodNotScheduled no node takes its pod",
            ),
            (
                waiting("build", "ErrImagePull", "rpc error:\n  not found"),
                "ContainerWaits its container does not start: ErrImagePull: rpc error: not found",
            ),
            (
                waiting("build", "ImagePullBackOff", "Back-off pulling image \"a\""),
                "ContainerWaits its container does not start: ImagePullBackOff: Back-off pulling image \"a\"",
            ),
            (
                waiting(
                    "build",
                    "CreateContainerConfigError",
                    "secret \"a\" not found",
                ),
                "ContainerWaits its container does not start: CreateContainerConfigError: secret \"a\" not found",
            ),
            (
                waiting("build", "InvalidImageName", ""),
                "ContainerWaits its container does not start: InvalidImageName",
            ),
        ] {
            let (hold, message) = of(&status).unwrap();
            assert_eq!(format!("{hold} {message}"), expected);
        }
        for status in [
            scheduled("True", "", ""),
            scheduled("Unknown", "", ""),
            waiting("build", "ContainerCreating", ""),
            waiting("build", "PodInitializing", ""),
            waiting("build", "", ""),
            waiting("sidecar", "ErrImagePull", ""),
            json!({ "phase": "Running" }),
        ] {
            assert_eq!(of(&status), None, "{status}");
        }
    }

    #[test]
    fn the_newest_pod_that_is_not_over_counts() {
        let unschedulable = scheduled("False", "Unschedulable", "");
        let older = pod("2025-12-31T00:00:00Z", "", &unschedulable);
        let newer = pod(CREATED, "w1", &scheduled("True", "", ""));
        let none = json!([]);
        assert_eq!(at(5, &none, &[newer.clone(), older.clone()]), None);
        for end in ["Failed", "Succeeded"] {
            let mut over = newer.clone();
            over["status"]["phase"] = json!(end);
            assert!(at(5, &none, &[over, older.clone()]).is_some(), "{end}");
        }
        let mut deleted = older;
        deleted["metadata"]["deletionTimestamp"] = json!(CREATED);
        // The Job controller waits before its next try.
        assert_eq!(at(500, &none, &[deleted]), None);
    }

    #[test]
    fn silence_is_reported_after_a_minute() {
        let none = json!([]);
        assert_eq!(at(59, &none, &[]), None);
        let text = "its Job has no pod, and the Job's events say why".to_owned();
        assert_eq!(at(60, &none, &[]), Some(("NoPod", text)));
        let suspended = json!([{ "type": "Suspended", "status": "True" }]);
        let text = "its Job is suspended".to_owned();
        assert_eq!(at(1, &suspended, &[]), Some(("NoPod", text)));
        let unseen = |node: &str| [pod(CREATED, node, &json!({ "phase": "Pending" }))];
        assert_eq!(at(59, &none, &unseen("")), None);
        assert_eq!(at(60, &none, &unseen("w1")), None);
        let text = "no scheduler has looked at its pod".to_owned();
        assert_eq!(at(60, &none, &unseen("")), Some(("PodNotScheduled", text)));
    }

    #[test]
    fn the_cause_of_a_failed_pull_stays_while_the_kubelet_waits() {
        let held = |reason: &str, message: &str| {
            PodHold::new(BuildHold::ContainerWaits, NOT_STARTED, reason, message)
        };
        let failed = held("ErrImagePull", "not found");
        let waits = held("ImagePullBackOff", "Back-off");
        let text = |held: &PodHold| (held.hold, held.message.clone());
        for (new, reported, is_news) in [
            (&failed, None, true),
            (&failed, Some(text(&failed)), false),
            (&failed, Some(text(&waits)), true),
            (&waits, Some(text(&failed)), false),
            (&waits, Some(text(&waits)), false),
            (&held("ErrImagePull", "refused"), Some(text(&failed)), true),
            (
                &waits,
                Some((BuildHold::NoPod, failed.message.clone())),
                true,
            ),
        ] {
            let reported = reported.as_ref().map(|(hold, text)| (*hold, text.as_str()));
            assert_eq!(new.is_news(reported), is_news, "{new:?} {reported:?}");
        }
    }

    #[test]
    fn a_long_message_is_cut() {
        let long = "ä".repeat(4000);
        let held = PodHold::new(BuildHold::NoPod, "text", "R", &long);
        assert!(held.message.len() <= MAX_BYTES && held.message.starts_with("text: R: ä"));
        assert!(held.message.len() > MAX_BYTES - 2);
    }
}
