//! How the Job of a build is, and how its pods ended.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use crate::objects::CONTAINER;
use crate::push_spec::is_digest;

/// Most bytes of a build's log that are kept.
///
/// Source: Kubernetes documentation, "Determine the reason for pod failure": a message has at most
/// 4096 bytes.
pub const MAX_LOG_BYTES: usize = 4096;

/// How far a Job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEnd {
    Running,
    Complete,
    /// It failed, for this reason and with this message of the Job controller.
    Failed {
        reason: String,
        message: String,
    },
}

/// What is read of a Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    pub uid: String,
    /// Unique id of the MachineOSBuild that it belongs to; empty where it belongs to none.
    pub owner: String,
    pub created: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    pub is_deleted: bool,
    /// Whether it makes no pods, because someone suspended it.
    pub is_suspended: bool,
    /// Whether its pod runs.
    pub is_running: bool,
    pub end: JobEnd,
}

impl JobView {
    /// Reads a Job.
    pub fn read(job: &Job) -> Self {
        let status = job.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref());
        let holds = |r#type: &str| {
            let mut conditions = conditions.unwrap_or_default().iter();
            conditions.find(|it| it.type_ == r#type && it.status == "True")
        };
        let (end, ended) = match (holds("Failed"), holds("Complete")) {
            (Some(failed), _) => {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                let end = JobEnd::Failed {
                    reason: text(&failed.reason),
                    message: text(&failed.message),
                };
                (end, failed.last_transition_time.as_ref())
            }
            (None, Some(complete)) => (JobEnd::Complete, complete.last_transition_time.as_ref()),
            (None, None) => (JobEnd::Running, None),
        };
        let owners = job.metadata.owner_references.iter().flatten();
        let mut owners = owners.filter(|owner| owner.controller == Some(true));
        let owner = owners.next();
        Self {
            uid: job.metadata.uid.clone().unwrap_or_default(),
            owner: owner.map(|owner| owner.uid.clone()).unwrap_or_default(),
            created: job.metadata.creation_timestamp.as_ref().map(|time| time.0),
            ended: ended.map(|time| time.0),
            is_deleted: job.metadata.deletion_timestamp.is_some(),
            is_suspended: holds("Suspended").is_some(),
            is_running: status
                .and_then(|status| status.ready)
                .is_some_and(|pods| pods > 0),
            end,
        }
    }
}

/// How the newest pod that ended did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEnd {
    pub exit_code: i32,
    /// The digest after success; the end of the log after a failure.
    pub message: String,
}

impl PodEnd {
    /// The newest of the pods whose container ended; of a complete Job the one that succeeded.
    pub fn newest<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Option<Self> {
        let ends = pods.into_iter().filter_map(|pod| {
            let statuses = pod.status.as_ref()?.container_statuses.as_deref()?;
            let container = statuses.iter().find(|status| status.name == CONTAINER)?;
            let state = container.state.as_ref()?.terminated.as_ref()?;
            let end = Self {
                exit_code: state.exit_code,
                message: state.message.clone().unwrap_or_default(),
            };
            let finished = state.finished_at.as_ref().map(|time| time.0);
            Some(((end.exit_code == 0, finished), end))
        });
        ends.max_by_key(|(order, _)| *order).map(|(_, end)| end)
    }

    /// The digest of the image that was pushed; none where the pod did not report one.
    pub fn digest(&self) -> Option<&str> {
        let digest = self.message.trim();
        (self.exit_code == 0 && is_digest(digest)).then_some(digest)
    }
}

/// Why a build failed: what the Job's controller reports, and the end of the log, or what had kept
/// its pod from running.
///
/// Shape: at most [`MAX_LOG_BYTES`] bytes; of a longer text its end.
pub fn failure(reason: &str, message: &str, pod: Option<&PodEnd>, waited: Option<&str>) -> String {
    let log = pod
        .map(|pod| pod.message.trim())
        .filter(|log| !log.is_empty());
    let code = pod.map(|pod| format!("exit code {}", pod.exit_code));
    // A pod that ended had run.
    let waited = waited.filter(|_| pod.is_none());
    let parts = [Some(reason), Some(message), code.as_deref(), waited];
    let parts: Vec<&str> = parts
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect();
    let head = parts.join(": ");
    let Some(log) = log else {
        return tail(&head, MAX_LOG_BYTES).to_owned();
    };
    let head = tail(&head, MAX_LOG_BYTES / 4);
    let room = MAX_LOG_BYTES - head.len() - 1;
    format!("{head}\n{}", tail(log, room))
}

/// The end of a text, of at most so many bytes.
fn tail(text: &str, most: usize) -> &str {
    let from = text.len().saturating_sub(most);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at));
    text.get(from.unwrap_or(0)..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(conditions: &Value) -> JobView {
        let job: Job = serde_json::from_value(json!({
            "metadata": {
                "uid": "j", "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [
                    { "apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true },
                ],
            },
            "status": { "conditions": conditions },
        }))
        .unwrap();
        JobView::read(&job)
    }

    #[test]
    fn a_job_ends_by_its_final_conditions_alone() {
        let condition = |r#type: &str, status: &str| {
            json!({ "type": r#type, "status": status, "reason": "R", "message": "m",
                "lastTransitionTime": "2026-01-01T00:10:00Z" })
        };
        let failed = JobEnd::Failed {
            reason: "R".to_owned(),
            message: "m".to_owned(),
        };
        for (conditions, end) in [
            (json!([]), JobEnd::Running),
            (json!([condition("FailureTarget", "True")]), JobEnd::Running),
            (
                json!([condition("SuccessCriteriaMet", "True")]),
                JobEnd::Running,
            ),
            (json!([condition("Complete", "False")]), JobEnd::Running),
            (json!([condition("Complete", "True")]), JobEnd::Complete),
            (
                json!([
                    condition("FailureTarget", "True"),
                    condition("Failed", "True")
                ]),
                failed,
            ),
        ] {
            let job = job(&conditions);
            assert_eq!(job.end, end, "{conditions}");
            assert_eq!(job.ended.is_some(), end != JobEnd::Running);
            assert_eq!(job.owner, "u");
        }
    }

    #[test]
    fn the_newest_pod_counts_and_a_success_before_all() {
        let pod = |name: &str, code: i32, finished: &str, message: &str| -> Pod {
            let state = json!({ "terminated": {
                "exitCode": code, "finishedAt": finished, "message": message,
            } });
            serde_json::from_value(json!({ "status": { "containerStatuses": [
                { "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
                  "state": state },
            ] } }))
            .unwrap()
        };
        let old = pod("build", 1, "2026-01-01T00:00:00Z", "old");
        let new = pod("build", 2, "2026-01-01T00:01:00Z", "new");
        let other = pod("sidecar", 0, "2026-01-01T00:09:00Z", "other");
        let digest = format!("sha256:{}", "a".repeat(64));
        let done = pod("build", 0, "2026-01-01T00:00:30Z", &format!("{digest}\n"));
        let running: Pod = serde_json::from_value(json!({})).unwrap();
        let newest = |pods: &[&Pod]| PodEnd::newest(pods.iter().copied());
        assert_eq!(newest(&[&running, &other]), None);
        assert_eq!(newest(&[&new, &old, &running]).unwrap().message, "new");
        let end = newest(&[&new, &done, &old]).unwrap();
        assert_eq!(end.digest(), Some(digest.as_str()));
        assert_eq!(newest(&[&new]).unwrap().digest(), None);
        let lies = pod("build", 1, "2026-01-01T00:00:30Z", &digest);
        assert_eq!(newest(&[&lies]).unwrap().digest(), None);
    }

    #[test]
    fn a_failure_has_the_end_of_the_log() {
        let pod = |message: &str| PodEnd {
            exit_code: 65,
            message: message.to_owned(),
        };
        let late = "DeadlineExceeded";
        assert_eq!(failure(late, "", None, None), late);
        let held = Some("no node takes its pod");
        assert_eq!(
            failure(late, "late", None, held),
            "DeadlineExceeded: late: no node takes its pod"
        );
        let ended = pod("no such file\n");
        assert_eq!(
            failure("PodFailurePolicy", "no retry", Some(&ended), held),
            "PodFailurePolicy: no retry: exit code 65\nno such file"
        );
        let long = format!("{}end", "ä".repeat(5000));
        let text = failure("R", &long, Some(&pod(&long)), None);
        assert!(text.len() <= MAX_LOG_BYTES && text.ends_with("äend"));
    }
}
