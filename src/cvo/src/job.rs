//! A Job that this program makes, from its creation to the last message of its container.

use std::time::Duration;

use chassis::report::Chain;
use cluster::access::Access;
use cluster::objects::Objects;
use cluster::path;
use cluster::wire::{self, ObjectEvent, escape};
use futures::StreamExt as _;
use futures::stream::select;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

/// How long a watch lasts until it is opened again.
const WATCH_SECS: u32 = 60;

/// Time until a watch is opened again.
const REOPEN: Duration = Duration::from_secs(1);

/// Why a Job has not ended well.
#[derive(Debug)]
pub struct JobFailure {
    pub error: JobError,
    /// Exit code of its container, if that ended.
    pub exit_code: Option<i64>,
}

/// What went wrong with a Job.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("cannot make Job {0}")]
    Make(String, #[source] wire::Error),
    /// It has not ended in this time; the state of its pod.
    #[error("Job {0} has not ended within {secs} s; {2}", secs = .1.as_secs())]
    Await(String, Duration, String),
    #[error("Job {name} failed with reason {reason:?} and message {message:?}; {last}")]
    Failed {
        name: String,
        reason: String,
        message: String,
        /// The state of its pod.
        last: String,
    },
    /// A container cannot start; the state of its pod.
    #[error("Job {0}: {1}")]
    Start(String, String),
}

/// What was seen of a Job's pod.
#[derive(Debug, Default)]
struct Seen {
    /// What it waits for, or how it ended.
    last: String,
    /// The last message of the container that ended well.
    message: Option<String>,
    exit_code: Option<i64>,
}

/// Makes a Job and waits for its end: the last message of its container.
///
/// # Errors
/// It cannot be made, has failed, or has not ended within `limit`.
pub async fn run(
    access: &Access,
    namespace: &str,
    object: &Value,
    limit: Duration,
) -> Result<String, JobFailure> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    let name = name.unwrap_or_default();
    let jobs = Objects::<Job>::in_namespace(access, namespace).read_as::<Value>();
    let made = jobs.create(object).await;
    let made = made.map_err(|source| JobFailure {
        error: JobError::Make(name.to_owned(), source),
        exit_code: None,
    })?;
    let uid = made.pointer("/metadata/uid").and_then(Value::as_str);
    // A pod of an earlier Job of this name may still be there, and says how that one ended.
    let pods = format!("job-name={name},controller-uid={}", uid.unwrap_or_default());
    let mut seen = Seen::default();
    let ended =
        tokio::time::timeout(limit, follow(access, namespace, (name, &pods), &mut seen)).await;
    let Ok(ended) = ended else {
        if seen.last.is_empty() {
            "it has no pod".clone_into(&mut seen.last);
        }
        return Err(JobFailure {
            error: JobError::Await(name.to_owned(), limit, seen.last),
            exit_code: seen.exit_code,
        });
    };
    if seen.exit_code.is_none() {
        // The watch of the Job was ahead of that of its pod.
        let query = format!("labelSelector={}", escape(&pods));
        let pods = format!("{}?{query}", path::namespace::<Pod>(namespace));
        let listed = access.get(&pods).await;
        let listed: Value = listed.unwrap_or_else(|error| {
            tracing::debug!(error = %Chain(&error), "cannot read the pod of a Job");
            Value::Null
        });
        let pods = listed.pointer("/items").and_then(Value::as_array);
        for pod in pods.into_iter().flatten() {
            judge(name, pod, &mut seen);
        }
    }
    match ended {
        Ok(()) => Ok(seen.message.unwrap_or_default()),
        Err(error) => Err(JobFailure {
            error,
            exit_code: seen.exit_code,
        }),
    }
}

/// Waits for the end of the Job.
async fn follow(
    access: &Access,
    namespace: &str,
    (name, pods): (&str, &str),
    seen: &mut Seen,
) -> Result<(), JobError> {
    let query = |selector: &str, value: &str| {
        let selected = escape(value);
        format!("?watch=true&timeoutSeconds={WATCH_SECS}&{selector}={selected}")
    };
    let job = query("fieldSelector", &format!("metadata.name={name}"));
    let pods = query("labelSelector", pods);
    let job = path::namespace::<Job>(namespace) + &job;
    let pods = path::namespace::<Pod>(namespace) + &pods;
    loop {
        let opened = async {
            let jobs = access.watch::<Value>(&job).await?;
            let pods = access.watch::<Value>(&pods).await?;
            Ok::<_, wire::Error>(select(Box::pin(jobs), Box::pin(pods)))
        };
        match opened.await {
            Ok(mut events) => {
                while let Some(event) = events.next().await {
                    let Ok(ObjectEvent::Applied(object)) = event else {
                        continue;
                    };
                    if let Some(result) = judge(name, &object, seen) {
                        return result;
                    }
                }
            }
            Err(error) => tracing::debug!(error = %Chain(&error), "cannot watch a Job"),
        }
        tokio::time::sleep(REOPEN).await;
    }
}

/// What a Job or its pod says; none while it is under way.
fn judge(name: &str, object: &Value, seen: &mut Seen) -> Option<Result<(), JobError>> {
    if object.pointer("/spec/template").is_some() {
        let conditions = object.pointer("/status/conditions")?.as_array()?;
        let is_true = |one: &&Value| one.get("status").and_then(Value::as_str) == Some("True");
        for one in conditions.iter().filter(is_true) {
            let text = |key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default();
            match text("type") {
                "Complete" => return Some(Ok(())),
                "Failed" => {
                    let (reason, message) = (text("reason"), text("message"));
                    return Some(Err(JobError::Failed {
                        name: name.to_owned(),
                        reason: reason.to_owned(),
                        message: message.to_owned(),
                        last: seen.last.clone(),
                    }));
                }
                _ => {}
            }
        }
        return None;
    }
    for kind in ["initContainerStatuses", "containerStatuses"] {
        let statuses = object.pointer(&format!("/status/{kind}"));
        for status in statuses.and_then(Value::as_array).into_iter().flatten() {
            let is_main = kind == "containerStatuses";
            if let Some(last) = judge_container(status, is_main, seen) {
                return Some(Err(JobError::Start(name.to_owned(), last)));
            }
        }
    }
    None
}

/// Why a container cannot go on, if it cannot.
fn judge_container(status: &Value, is_main: bool, seen: &mut Seen) -> Option<String> {
    let container = status.get("name").and_then(Value::as_str);
    let container = container.unwrap_or_default();
    for state in ["waiting", "terminated"] {
        let field = |key: &str| status.pointer(&format!("/state/{state}/{key}"));
        let text = |key: &str| field(key).and_then(Value::as_str).unwrap_or_default();
        let (reason, message) = (text("reason"), text("message"));
        let exit_code = field("exitCode").and_then(Value::as_i64);
        if let Some(code) = exit_code.filter(|_| is_main) {
            seen.exit_code = Some(code);
            seen.message = (code == 0).then(|| message.to_owned());
        }
        if reason.is_empty() || ["PodInitializing", "Completed"].contains(&reason) {
            continue;
        }
        seen.last = format!("container {container} is {state}: {reason} {message}");
        let is_final = reason == "SignatureValidationFailed"
            || (reason == "ErrImagePull" && message.contains("manifest unknown"));
        if state == "waiting" && is_final {
            return Some(seen.last.clone());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The state of the pull is reported. Row 12 of `docs/reference/known-weaknesses.md`, "Version
    /// operator".
    #[test]
    fn state_of_the_pull_is_said() {
        let pod = |reason: &str, message: &str| {
            json!({ "status": { "initContainerStatuses": [{
            "name": "copy-manifests", "state": { "waiting": { "reason": reason, "message": message } } }] } })
        };
        let mut seen = Seen::default();
        assert!(judge("j", &pod("PodInitializing", ""), &mut seen).is_none());
        assert_eq!(seen.last, "");
        assert!(judge("j", &pod("ErrImagePull", "timeout"), &mut seen).is_none());
        assert_eq!(
            seen.last,
            "container copy-manifests is waiting: ErrImagePull timeout"
        );
        let unknown = judge("j", &pod("ErrImagePull", "manifest unknown"), &mut seen);
        assert!(
            unknown
                .unwrap()
                .unwrap_err()
                .to_string()
                .starts_with("Job j: container copy-manifests")
        );
        assert!(judge("j", &pod("SignatureValidationFailed", ""), &mut seen).is_some());
        let job = |r#type: &str| {
            json!({ "spec": { "template": {} }, "status": { "conditions": [
            { "type": r#type, "status": "True", "reason": "DeadlineExceeded", "message": "late" }] } })
        };
        assert!(judge("j", &job("Complete"), &mut seen).unwrap().is_ok());
        let failed = judge("j", &job("Failed"), &mut seen).unwrap();
        let failed = failed.unwrap_err().to_string();
        assert!(
            failed.contains("\"DeadlineExceeded\" and message \"late\"; container"),
            "{failed}"
        );
        assert!(judge("j", &job("Suspended"), &mut seen).is_none());
    }
    #[test]
    fn last_message_is_that_of_the_container_and_not_of_what_prepares_it() {
        let ended = |code: i64, message: &str| {
            json!({ "name": "c", "state": { "terminated": {
            "reason": if code == 0 { "Completed" } else { "Error" }, "exitCode": code, "message": message } } })
        };
        let pod = |main: Value| json!({ "status": { "initContainerStatuses": [ended(0, "prepared")], "containerStatuses": [main] } });
        let mut seen = Seen::default();
        let running = pod(json!({ "name": "c", "state": { "running": {} } }));
        assert!(judge("j", &running, &mut seen).is_none());
        assert_eq!((seen.exit_code, seen.message.as_deref()), (None, None));
        assert!(judge("j", &pod(ended(0, "said")), &mut seen).is_none());
        assert_eq!(
            (seen.exit_code, seen.message.as_deref()),
            (Some(0), Some("said"))
        );
        assert!(judge("j", &pod(ended(2, "usage")), &mut seen).is_none());
        assert_eq!((seen.exit_code, seen.message.as_deref()), (Some(2), None));
        assert_eq!(seen.last, "container c is terminated: Error usage");
    }
}
