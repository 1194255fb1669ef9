//! The Job by which the container runtime of a node pulls a release image and copies its manifests
//! to a directory of the host.

use std::path::Path;
use std::time::Duration;

use cluster::access::Access;
use cluster::{objects, path, wire};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use md5::{Digest as _, Md5};
use release::{MANIFESTS, RELEASE_MANIFESTS};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::job::{self, JobError};

/// Label of the pods.
const LABEL: (&str, &str) = ("k8s-app", "retrieve-openshift-release");

/// Class of what users of OpenShift wait for.
const USER_CRITICAL: &str = "openshift-user-critical";

/// The one that each cluster has.
const CLUSTER_CRITICAL: &str = "system-cluster-critical";

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

/// Why the Job has not ended well.
#[derive(Debug, thiserror::Error)]
pub enum RetrievalJobError {
    /// Jobs of earlier attempts cannot be listed.
    #[error("cannot list Jobs")]
    List(#[source] wire::Error),
    /// One of them cannot be deleted.
    #[error("cannot delete Job {0}")]
    Delete(String, #[source] wire::Error),
    /// The priority that its pod may have cannot be read.
    #[error("cannot read a PriorityClass")]
    ReadPriority(#[source] wire::Error),
    #[error(transparent)]
    Run(JobError),
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

    fn object(
        &self,
        name: &str,
        image: &str,
        directory: &Path,
        (root, kept): (&Path, &Path),
        priority: &str,
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
                        "priorityClassName": priority,
                        "restartPolicy": "OnFailure",
                        // Whatever user the image names: the directory of the host is root's.
                        "securityContext": { "runAsUser": 0 },
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
    /// All of [`RetrievalJobError`].
    pub async fn run(
        &self,
        access: &Access,
        version: &str,
        image: &str,
        directory: &Path,
        roots: (&Path, &Path),
    ) -> Result<(), RetrievalJobError> {
        let jobs = path::namespace::<Job>(&self.namespace);
        let name = Self::name(version, image);
        let all: Value = access.get(&jobs).await.map_err(RetrievalJobError::List)?;
        let names = all.pointer("/items").and_then(Value::as_array);
        let names = names.into_iter().flatten();
        let names = names.filter_map(|job| job.pointer("/metadata/name")?.as_str());
        for old in names.filter(|name| name.starts_with("version-")) {
            let removed = objects::delete_in_background(access, &format!("{jobs}/{old}")).await;
            removed.map_err(|error| RetrievalJobError::Delete(old.to_owned(), error))?;
        }
        let priority = priority_class(access).await;
        let priority = priority.map_err(RetrievalJobError::ReadPriority)?;
        let object = self.object(&name, image, directory, roots, priority);
        let limit = Duration::from_secs(self.deadline_secs + 10);
        let ended = job::run(access, &self.namespace, &object, limit).await;
        let ended = ended.map_err(|failure| RetrievalJobError::Run(failure.error));
        ended.map(drop)
    }
}

/// The priority of the Job's pod: a class that does not exist has the pod refused.
async fn priority_class(access: &Access) -> Result<&'static str, wire::Error> {
    let path = path::object::<PriorityClass>(USER_CRITICAL);
    let found = access.find::<IgnoredAny>(&path).await?;
    Ok(found.map_or(CLUSTER_CRITICAL, |_| USER_CRITICAL))
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};

    use super::*;

    /// A cluster outside OpenShift has no class of users.
    #[tokio::test]
    async fn pod_has_a_priority_that_the_cluster_has() {
        let path = "/apis/scheduling.k8s.io/v1/priorityclasses/openshift-user-critical";
        let job = RetrievalJob {
            namespace: "n".to_owned(),
            node: "node".to_owned(),
            deadline_secs: 1,
        };
        for (reply, expected) in [
            (Reply::ok(json!({})), "openshift-user-critical"),
            (
                Reply::failure(404, "NotFound", "no"),
                "system-cluster-critical",
            ),
        ] {
            let (script, client) = Script::start(vec![Call::get(path, reply)]);
            let access = Access::of_client(client);
            let found = script
                .drive(Box::pin(priority_class(&access)))
                .await
                .unwrap();
            let roots = (Path::new("/r"), Path::new("/k"));
            let object = job.object("j", "q/r@sha256:1", Path::new("/d"), roots, found);
            let class = object.pointer("/spec/template/spec/priorityClassName");
            assert_eq!(class.and_then(Value::as_str), Some(expected));
        }
    }

    #[test]
    fn name_has_version_and_hash() {
        let name = RetrievalJob::name("4.16.0-rc.2+x", "q/r@sha256:1");
        assert!(name.starts_with("version-4.16.0-rc.2-x-"), "{name}");
        let unnamed = RetrievalJob::name("", "q/r@sha256:1");
        assert_eq!(name.rsplit('-').next(), unnamed.rsplit('-').next());
        assert_ne!(unnamed, RetrievalJob::name("", "q/r@sha256:2"));
        assert!(RetrievalJob::name(&"9".repeat(300), "i").len() <= 63);
    }
}
