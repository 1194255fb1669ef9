//! The Job by which the container runtime of a node pulls a release image and copies its manifests
//! to a directory of the host.

use std::path::Path;

use chassis::report::Chain;
use cluster::access::Access;
use cluster::wire::{self, ObjectEvent, RequestBody, escape};
use futures::StreamExt as _;
use futures::stream::select;
use http::Method;
use md5::{Digest as _, Md5};
use release::{MANIFESTS, RELEASE_MANIFESTS};
use serde_json::{Value, json};

/// Label of the pods.
const LABEL: (&str, &str) = ("k8s-app", "retrieve-openshift-release");

/// How long a watch lasts until it is opened again.
const WATCH_SECS: u32 = 60;

/// Where and for how long the Job runs.
#[derive(Debug, Clone)]
pub struct RetrievalJob {
    /// Namespace of the version operator.
    pub namespace: String,
    /// Node of the version operator.
    pub node: String,
    /// After so many seconds it is given up.
    pub deadline_secs: u64,
}

impl RetrievalJob {
    /// Name of the Job of a release.
    ///
    /// Shape: `version-<version>-<hash>`, where other characters than those of names are `-`.
    fn name(version: &str, image: &str) -> String {
        let hash = hex::encode(Md5::digest(image.as_bytes()));
        let hash: String = hash.chars().take(10).collect();
        let is_plain = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '.';
        let version: String = version
            .to_ascii_lowercase()
            .chars()
            .map(|one| if is_plain(one) { one } else { '-' })
            .take(40)
            .collect();
        let version = version.trim_matches(['-', '.']);
        if version.is_empty() {
            format!("version-{hash}")
        } else {
            format!("version-{version}-{hash}")
        }
    }

    /// The Job.
    fn object(
        &self,
        name: &str,
        image: &str,
        directory: &Path,
        (root, kept): (&Path, &Path),
    ) -> Value {
        let base = directory.to_string_lossy();
        let temporary = format!("{base}/{name}.tmp");
        let container = |name: &str, command: &[&str]| {
            json!({
                "name": name,
                "image": image,
                "command": command,
                "volumeMounts": [{ "name": "payloads", "mountPath": base }],
                "securityContext": { "privileged": true, "readOnlyRootFilesystem": true },
                "resources": { "requests": { "cpu": "10m", "memory": "50Mi" } },
                "terminationMessagePolicy": "FallbackToLogsOnError",
            })
        };
        // Arguments: the directory, and the release that is kept.
        let tidy = "for one in \"$0\"/*; do [ \"$one\" = \"$1\" ] || rm -rf \"$one\"; done";
        let kept = kept.to_string_lossy();
        let source = |name: &str| format!("/{name}");
        let final_name = root.to_string_lossy();
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": { "name": name, "namespace": self.namespace, "labels": { LABEL.0: LABEL.1 } },
            "spec": {
                "activeDeadlineSeconds": self.deadline_secs,
                "backoffLimit": 0,
                "template": {
                    "metadata": {
                        "labels": { LABEL.0: LABEL.1 },
                        "annotations": { "openshift.io/required-scc": "privileged" },
                    },
                    "spec": {
                        "serviceAccountName": "update-payload",
                        "nodeName": self.node,
                        "nodeSelector": { "node-role.kubernetes.io/master": "" },
                        "tolerations": [{ "key": "node-role.kubernetes.io/master" }],
                        "priorityClassName": "openshift-user-critical",
                        "restartPolicy": "OnFailure",
                        "volumes": [{ "name": "payloads", "hostPath": { "path": base } }],
                        "initContainers": [
                            container("remove-stale-releases", &["sh", "-c", tidy, &base, &kept]),
                            container("make-temporary-directory", &["mkdir", "-p", &temporary]),
                            container("copy-manifests", &["cp", "-r", &source(MANIFESTS), &temporary]),
                            container(
                                "copy-release-manifests",
                                &["cp", "-r", &source(RELEASE_MANIFESTS), &temporary],
                            ),
                        ],
                        "containers": [container(
                            "rename-to-final-location",
                            &["mv", "-T", &temporary, &final_name],
                        )],
                    },
                },
            },
        })
    }

    /// Runs the Job to its end. Jobs of earlier attempts are deleted first.
    ///
    /// Shape: `roots` are the directories of the release and of the one that is kept.
    ///
    /// # Errors
    /// Why it has not ended well, with the state of its pod.
    pub async fn run(
        &self,
        access: &Access,
        version: &str,
        image: &str,
        directory: &Path,
        roots: (&Path, &Path),
    ) -> Result<(), String> {
        let failed = |what: &str, error: &wire::Error| format!("cannot {what}: {}", Chain(error));
        let namespace = &self.namespace;
        let jobs = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
        let name = Self::name(version, image);
        let all: Value = access
            .get(&jobs)
            .await
            .map_err(|error| failed("list Jobs", &error))?;
        let names = all.pointer("/items").and_then(Value::as_array);
        let names = names.into_iter().flatten();
        let names = names.filter_map(|job| job.pointer("/metadata/name")?.as_str());
        for old in names.filter(|name| name.starts_with("version-")) {
            let options = json!({ "propagationPolicy": "Background" });
            let body = RequestBody::Object(&options);
            let path = format!("{jobs}/{old}");
            match access.send::<Value>(Method::DELETE, &path, body).await {
                Ok(_) => {}
                Err(error) if error.code() == Some(404) => {}
                Err(error) => return Err(failed(&format!("delete Job {old}"), &error)),
            }
        }
        let object = self.object(&name, image, directory, roots);
        let body = RequestBody::Object(&object);
        access
            .send::<Value>(Method::POST, &jobs, body)
            .await
            .map_err(|error| failed(&format!("make Job {name}"), &error))?;
        let limit = std::time::Duration::from_secs(self.deadline_secs + 10);
        let mut last = String::new();
        let ended = tokio::time::timeout(limit, self.follow(access, &name, &mut last)).await;
        match ended {
            Ok(result) => result,
            Err(_) => Err(format!(
                "Job {name} has not ended within {} s; {}",
                limit.as_secs(),
                if last.is_empty() {
                    "it has no pod"
                } else {
                    &last
                }
            )),
        }
    }

    /// Waits for the end of the Job; `last` is what its pod waits for.
    async fn follow(&self, access: &Access, name: &str, last: &mut String) -> Result<(), String> {
        let namespace = &self.namespace;
        let query = |selector: &str, value: &str| {
            let selected = escape(value);
            format!("?watch=true&timeoutSeconds={WATCH_SECS}&{selector}={selected}")
        };
        let job = query("fieldSelector", &format!("metadata.name={name}"));
        let pods = query("labelSelector", &format!("job-name={name}"));
        let job = format!("/apis/batch/v1/namespaces/{namespace}/jobs{job}");
        let pods = format!("/api/v1/namespaces/{namespace}/pods{pods}");
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
                        if let Some(result) = judge(name, &object, last) {
                            return result;
                        }
                    }
                }
                Err(error) => tracing::debug!(error = %Chain(&error), "cannot watch a Job"),
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    }
}

/// What a Job or its pod says; none while it is under way.
fn judge(name: &str, object: &Value, last: &mut String) -> Option<Result<(), String>> {
    if object.pointer("/spec/template").is_some() {
        let conditions = object.pointer("/status/conditions")?.as_array()?;
        let is_true = |one: &&Value| one.get("status").and_then(Value::as_str) == Some("True");
        for one in conditions.iter().filter(is_true) {
            let text = |key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default();
            match text("type") {
                "Complete" => return Some(Ok(())),
                "Failed" => {
                    let (reason, message) = (text("reason"), text("message"));
                    return Some(Err(format!(
                        "Job {name} failed with reason {reason:?} and message {message:?}; {last}"
                    )));
                }
                _ => {}
            }
        }
        return None;
    }
    let kinds = ["initContainerStatuses", "containerStatuses"];
    let statuses = kinds
        .iter()
        .filter_map(|kind| object.pointer(&format!("/status/{kind}"))?.as_array());
    for status in statuses.flatten() {
        let container = status
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        for state in ["waiting", "terminated"] {
            let text = |key: &str| {
                let value = status.pointer(&format!("/state/{state}/{key}"));
                value.and_then(Value::as_str).unwrap_or_default()
            };
            let (reason, message) = (text("reason"), text("message"));
            if reason.is_empty() || ["PodInitializing", "Completed"].contains(&reason) {
                continue;
            }
            *last = format!("container {container} is {state}: {reason} {message}");
            let is_final = reason == "SignatureValidationFailed"
                || (reason == "ErrImagePull" && message.contains("manifest unknown"));
            if state == "waiting" && is_final {
                return Some(Err(format!("Job {name}: {last}")));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_version_and_hash() {
        let name = RetrievalJob::name("4.16.0-rc.2+x", "q/r@sha256:1");
        assert!(name.starts_with("version-4.16.0-rc.2-x-"), "{name}");
        let unnamed = RetrievalJob::name("", "q/r@sha256:1");
        assert_eq!(name.rsplit('-').next(), unnamed.rsplit('-').next());
        assert_ne!(unnamed, RetrievalJob::name("", "q/r@sha256:2"));
        assert!(RetrievalJob::name(&"9".repeat(300), "i").len() <= 63);
    }

    /// Requirement 12 of the known weaknesses: the state of the pull is said.
    #[test]
    fn state_of_the_pull_is_said() {
        let pod = |reason: &str, message: &str| {
            json!({ "status": { "initContainerStatuses": [{
            "name": "copy-manifests", "state": { "waiting": { "reason": reason, "message": message } } }] } })
        };
        let mut last = String::new();
        assert_eq!(judge("j", &pod("PodInitializing", ""), &mut last), None);
        assert_eq!(last, "");
        assert_eq!(judge("j", &pod("ErrImagePull", "timeout"), &mut last), None);
        assert_eq!(
            last,
            "container copy-manifests is waiting: ErrImagePull timeout"
        );
        let unknown = judge("j", &pod("ErrImagePull", "manifest unknown"), &mut last);
        assert!(
            unknown
                .unwrap()
                .unwrap_err()
                .starts_with("Job j: container copy-manifests")
        );
        assert!(judge("j", &pod("SignatureValidationFailed", ""), &mut last).is_some());
        let job = |r#type: &str| {
            json!({ "spec": { "template": {} }, "status": { "conditions": [
            { "type": r#type, "status": "True", "reason": "DeadlineExceeded", "message": "late" }] } })
        };
        assert_eq!(judge("j", &job("Complete"), &mut last), Some(Ok(())));
        let failed = judge("j", &job("Failed"), &mut last).unwrap().unwrap_err();
        assert!(
            failed.contains("\"DeadlineExceeded\" and message \"late\"; container"),
            "{failed}"
        );
        assert_eq!(judge("j", &job("Suspended"), &mut last), None);
    }
}
