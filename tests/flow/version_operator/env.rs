//! A cluster that has another release, and the version operator in it.

use std::ops::Deref;

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use lab::audit::{Event, Verb};
use lab::control_plane::Process;
use serde_json::json;
use testbed::{Programs, VersionedCluster, objects};

use crate::payload::{IMAGE, Payload};

pub(crate) struct Cluster {
    pub(crate) base: VersionedCluster,
    pub(crate) maps: Api<ConfigMap>,
    pub(crate) payload: Payload,
    pub(crate) interval_secs: u64,
    /// Pull spec of its release.
    pub(crate) image: String,
    /// Arguments besides those of all tests.
    pub(crate) arguments: Vec<String>,
    /// Programs in the place of those under test.
    pub(crate) programs: Option<Programs>,
}

impl Deref for Cluster {
    type Target = VersionedCluster;

    fn deref(&self) -> &VersionedCluster {
        &self.base
    }
}

impl Cluster {
    /// A cluster that has another release, and its operator's log below `dir`.
    pub(crate) async fn start(name: &str, interval_secs: u64) -> Result<Self> {
        let image = "registry.example/release@sha256:1";
        let base = VersionedCluster::start("version-operator", name, "4.1.0", image).await?;
        let this = Self {
            maps: base.namespaced("default"),
            payload: Payload::make(base.dir.join("payload"))?,
            base,
            interval_secs,
            image: IMAGE.to_owned(),
            arguments: Vec::new(),
            programs: None,
        };
        for (name, value) in [("removed", "old"), ("once", "administrator's")] {
            let map = json!({ "metadata": { "name": name }, "data": { "a": value } });
            objects::create(&this.maps, map).await?;
        }
        Ok(this)
    }

    pub(crate) fn run(&self) -> Result<Process> {
        let mut arguments = vec![
            format!("--release-image={}", self.image),
            format!("--payload={}", self.payload.path().display()),
            format!("--interval-secs={}", self.interval_secs),
        ];
        let mut named = self.arguments.iter();
        if !named.any(|argument| argument.starts_with("--leader-elect")) {
            arguments.push("--leader-elect=false".to_owned());
        }
        arguments.extend(self.arguments.iter().cloned());
        match &self.programs {
            Some(programs) => self.base.run_of(programs, arguments),
            None => self.base.run(arguments),
        }
    }

    /// How often the version operator that was started last logged that all was applied.
    pub(crate) fn passes(&self) -> Result<usize> {
        Ok(self.log()?.matches(APPLIED).count())
    }

    pub(crate) async fn until_passes(&self, count: usize) -> Result<()> {
        self.until_logged(APPLIED, count).await
    }

    /// Reports as an operator does.
    pub(crate) async fn report(&self, operator: &str, version: &str) -> Result<()> {
        objects::report(&self.operators, operator, version, &WELL).await
    }
}

/// What the version operator logs at the end of a pass.
const APPLIED: &str = "applied the release";

/// Conditions of an operator that is well and works.
pub(crate) const WELL: [(&str, &str, &str); 3] = [
    ("Available", "True", ""),
    ("Progressing", "True", ""),
    ("Degraded", "False", ""),
];

/// Whether the version operator requested a change.
pub(crate) fn is_write(event: &Event) -> bool {
    event.user_agent.starts_with("cvo/")
        && !matches!(event.verb, Verb::Get | Verb::List | Verb::Watch)
}
