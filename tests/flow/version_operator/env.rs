//! A cluster that has another release, and the version operator in it.

use std::path::PathBuf;

use anyhow::Result;
use api::config::{ClusterOperator, ClusterVersion};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lab::audit::{self, Event, Verb};
use lab::control_plane::{ControlPlane, Process};
use lab::{PATIENCE, wait};
use serde_json::json;
use testbed::{Programs, api_server, complete_release};

use crate::payload::{IMAGE, Payload};

pub(crate) struct Cluster {
    pub(crate) control_plane: ControlPlane,
    pub(crate) versions: Api<ClusterVersion>,
    pub(crate) operators: Api<ClusterOperator>,
    pub(crate) maps: Api<ConfigMap>,
    pub(crate) dir: PathBuf,
    pub(crate) payload: Payload,
    /// Starts of the version operator.
    pub(crate) starts: usize,
    pub(crate) interval_secs: u64,
    /// Pull spec of its release.
    pub(crate) image: String,
    /// Arguments besides those of all tests.
    pub(crate) arguments: Vec<String>,
}

impl Cluster {
    /// A cluster that has another release, and its operator's log below `dir`.
    pub(crate) async fn start(name: &str, interval_secs: u64) -> Result<Self> {
        let (control_plane, dir) = api_server("version-operator", name).await?;
        complete_release(&control_plane, "4.1.0", "registry.example/release@sha256:1").await?;
        let client = control_plane.client().await?;
        let this = Self {
            control_plane,
            versions: Api::all(client.clone()),
            operators: Api::all(client.clone()),
            maps: Api::default_namespaced(client),
            payload: Payload::make(dir.join("payload"))?,
            dir,
            starts: 0,
            interval_secs,
            image: IMAGE.to_owned(),
            arguments: Vec::new(),
        };
        for (name, value) in [("removed", "old"), ("once", "administrator's")] {
            let map = json!({ "metadata": { "name": name }, "data": { "a": value } });
            let map = serde_json::from_value(map)?;
            this.maps.create(&PostParams::default(), &map).await?;
        }
        Ok(this)
    }

    pub(crate) fn run(&mut self) -> Result<Process> {
        self.starts += 1;
        let mut arguments = vec![
            "start".to_owned(),
            format!(
                "--kubeconfig={}",
                self.control_plane.admin_kubeconfig().display()
            ),
            format!("--release-image={}", self.image),
            format!("--payload={}", self.payload.path().display()),
            format!("--interval-secs={}", self.interval_secs),
            "--metrics-url=127.0.0.1:0".to_owned(),
            "--v=4".to_owned(),
        ];
        let mut named = self.arguments.iter();
        if !named.any(|argument| argument.starts_with("--leader-elect")) {
            arguments.push("--leader-elect=false".to_owned());
        }
        arguments.extend(self.arguments.iter().cloned());
        let program = Programs::built()?.path("cvo")?;
        Process::start(
            &format!("cvo-{}", self.starts),
            &program,
            arguments,
            &self.dir,
        )
    }

    /// How often the version operator that was started last said that all was applied.
    pub(crate) fn passes(&self) -> Result<usize> {
        let log = std::fs::read_to_string(self.dir.join(format!("cvo-{}.log", self.starts)))?;
        Ok(log.matches("applied the release").count())
    }

    pub(crate) async fn until_passes(&self, count: usize) -> Result<()> {
        wait::until("passes", PATIENCE, async || {
            let passes = self.passes()?;
            Ok(if passes >= count {
                Ok(())
            } else {
                Err(passes.to_string())
            })
        })
        .await
    }

    /// Waits until a condition says something; its message.
    pub(crate) async fn until_said(&self, r#type: &str, words: &str) -> Result<String> {
        wait::until(&format!("{type}: {words}"), PATIENCE, async || {
            let object = self.versions.get("version").await?;
            let all = object.status.unwrap_or_default().conditions;
            let said: Vec<String> = all
                .iter()
                .map(|one| {
                    format!(
                        "{}={} {}: {}",
                        one.r#type, one.status, one.reason, one.message
                    )
                })
                .collect();
            let prefix = format!("{type}=");
            let mut found = said.iter().filter_map(|said| said.strip_prefix(&prefix));
            Ok(match found.find(|said| said.contains(words)) {
                Some(said) => Ok(said.to_owned()),
                None => Err(said.join("\n")),
            })
        })
        .await
    }

    /// Reports as an operator does.
    pub(crate) async fn report(&self, operator: &str, version: &str) -> Result<()> {
        report(&self.operators, operator, version).await
    }

    pub(crate) fn events(&self) -> Result<Vec<Event>> {
        audit::load(&self.control_plane.audit_log())
    }
}

/// Whether the version operator asked for a change.
pub(crate) fn is_write(event: &Event) -> bool {
    event.user_agent.starts_with("cvo/")
        && !matches!(event.verb, Verb::Get | Verb::List | Verb::Watch)
}

/// Reports as an operator does.
pub(crate) async fn report(
    operators: &Api<ClusterOperator>,
    operator: &str,
    version: &str,
) -> Result<()> {
    let condition = |r#type: &str, status: &str| json!({ "type": r#type, "status": status, "lastTransitionTime": "2025-01-01T00:00:00Z" });
    let status = json!({ "status": {
        "conditions": [condition("Available", "True"), condition("Progressing", "True"), condition("Degraded", "False")],
        "versions": [{ "name": "operator", "version": version }]
    } });
    let params = PatchParams::default();
    operators
        .patch_status(operator, &params, &Patch::Merge(status))
        .await?;
    Ok(())
}
