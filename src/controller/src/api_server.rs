//! The minor release of the API server, by which the kubelets of pools are compared with the next
//! one. A process reads it at its start and every ten minutes: a release of the cluster changes it,
//! and restarts this program later.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use cluster::access::Access;
use cluster::wire;
use pool::kubelet_skew::KubernetesMinor;
use serde::Deserialize;

/// Where an API server reports its version. Any authenticated client may read it.
const PATH: &str = "/version";

/// Time between two reads.
const EVERY: Duration = Duration::from_mins(10);

/// The same while it is not known.
const EVERY_UNKNOWN: Duration = Duration::from_secs(30);

/// What is read of the response.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportedVersion {
    #[serde(default)]
    git_version: String,
}

/// The minor release of the API server as it was last read. Its clones are one.
#[derive(Debug, Clone, Default)]
pub struct ApiServerVersion(Arc<Mutex<Option<Result<KubernetesMinor, String>>>>);

impl ApiServerVersion {
    /// The minor release, or why it is not known; nothing before the first read.
    pub fn read(&self) -> Option<Result<KubernetesMinor, String>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Result<KubernetesMinor, String>>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what was read. Whether it is known then.
    fn learn(&self, reported: Result<ReportedVersion, wire::Error>) -> bool {
        let version = match reported {
            Ok(ReportedVersion { git_version }) => KubernetesMinor::parse(&git_version)
                .ok_or_else(|| format!("{PATH}: gitVersion {git_version:?} is no version")),
            Err(error) => Err(format!("{PATH}: {}", Chain(&error))),
        };
        if let Err(why) = &version {
            tracing::warn!(%why, "the version of the API server is not known");
        }
        let is_known = version.is_ok();
        *self.lock() = Some(version);
        is_known
    }
}

/// Reads it until the shutdown.
pub(crate) async fn follow(access: Arc<Access>, version: ApiServerVersion, mut shutdown: Shutdown) {
    loop {
        let pause = if version.learn(access.get(PATH).await) {
            EVERY
        } else {
            EVERY_UNKNOWN
        };
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_version_that_cannot_be_read_is_not_known_and_the_next_one_counts() {
        let version = ApiServerVersion::default();
        assert_eq!(version.read(), None);
        for (reply, expected) in [
            (
                Reply::ok(json!({ "major": "1", "minor": "34", "gitVersion": "v1.34.2" })),
                Ok("1.34"),
            ),
            (Reply::failure(403, "Forbidden", "no"), Err("/version: ")),
            (
                Reply::ok(json!({ "gitVersion": "1.34" })),
                Err("/version: gitVersion \"1.34\" is no version"),
            ),
            (
                Reply::ok(json!({})),
                Err("/version: gitVersion \"\" is no version"),
            ),
            (
                Reply::ok(json!({ "gitVersion": "v1.35.0+a1b2" })),
                Ok("1.35"),
            ),
        ] {
            let (script, client) = Script::start(vec![Call::get(PATH, reply)]);
            let access = Access::of_client(client);
            let is_known = version.learn(script.drive(access.get(PATH)).await);
            assert_eq!(is_known, expected.is_ok());
            match (version.read().unwrap(), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.to_string(), expected),
                (Err(why), Err(expected)) => assert!(why.starts_with(expected), "{why}"),
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        }
    }
}
