//! A cluster for the version operator: an API server whose ClusterVersion has completed a release.

use std::ops::Deref;

use anyhow::Result;
use api::config::{ClusterOperator, ClusterVersion, ClusterVersionStatus};
use kube::Api;
use lab::control_plane::Process;
use lab::wait;
use serde_json::Value;

use crate::{ApiServer, Programs, SOON, complete_release, objects};

/// The program.
const CVO: &str = "cvo";

/// The cluster. The test plays all of it but the version operator.
#[derive(Debug)]
pub struct VersionedCluster {
    /// Its API server.
    pub server: ApiServer,
    /// Those of the cluster: there is `version`.
    pub versions: Api<ClusterVersion>,
    /// What operators report.
    pub operators: Api<ClusterOperator>,
}

impl Deref for VersionedCluster {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.server
    }
}

impl VersionedCluster {
    /// Starts one for a test, at a release by version and pull spec.
    pub async fn start(suite: &str, test: &str, version: &str, image: &str) -> Result<Self> {
        let server = ApiServer::start(suite, test).await?;
        complete_release(&server.control_plane, version, image).await?;
        Ok(Self {
            versions: server.all(),
            operators: server.all(),
            server,
        })
    }

    /// Starts the version operator with these arguments besides those of all tests; its log is
    /// `cvo-<number of the start>.log`.
    pub fn run(&self, arguments: impl IntoIterator<Item = String>) -> Result<Process> {
        self.run_of(&Programs::built()?, arguments)
    }

    /// The same, of these programs.
    pub fn run_of(
        &self,
        programs: &Programs,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Process> {
        let kubeconfig = self.control_plane.admin_kubeconfig();
        let all = [
            "start".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            "--metrics-url=127.0.0.1:0".to_owned(),
            "--v=4".to_owned(),
        ];
        let arguments = all.into_iter().chain(arguments);
        Process::start(&self.next(CVO), &programs.path(CVO)?, arguments, &self.dir)
    }

    /// What the version operator that was started last has logged.
    pub fn log(&self) -> Result<String> {
        self.log_of(&self.last(CVO))
    }

    /// Waits until that log says something so often.
    pub async fn until_logged(&self, words: &str, count: usize) -> Result<()> {
        let read = async || Ok(self.log()?.matches(words).count());
        let found = wait::until_so(words, read, |found| *found >= count);
        found.await.map(drop)
    }

    /// The status of the ClusterVersion.
    pub async fn status(&self) -> Result<ClusterVersionStatus> {
        let object = self.versions.get("version").await?;
        Ok(object.status.unwrap_or_default())
    }

    /// Changes the ClusterVersion by a merge patch.
    pub async fn change(&self, change: &Value) -> Result<()> {
        objects::merge(&self.versions, "version", change).await
    }

    /// Waits until a condition's status, reason or message contains some words; all three.
    pub async fn until_condition(&self, r#type: &str, words: &str) -> Result<String> {
        wait::until(&format!("{type}: {words}"), SOON, async || {
            let all = self.status().await?.conditions;
            let conditions = all.iter().map(|one| {
                let (r#type, status, reason) = (&one.r#type, &one.status, &one.reason);
                format!("{type}={status} {reason}: {}", one.message)
            });
            Ok(objects::find_condition(
                &conditions.collect::<Vec<_>>(),
                r#type,
                words,
            ))
        })
        .await
    }

    /// Reports as an operator does, once its object is there: see [`objects::report`].
    pub async fn until_reported(
        &self,
        operator: &str,
        version: &str,
        conditions: &[(&str, &str, &str)],
    ) -> Result<()> {
        wait::until("the operator's object", SOON, async || {
            let reported = objects::report(&self.operators, operator, version, conditions).await;
            Ok(reported.map_err(|error| error.to_string()))
        })
        .await
    }
}
