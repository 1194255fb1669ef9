//! Prometheus and Alertmanager of a run, with the alerts that are deployed with the components.
//!
//! Their files are in one folder: `deployed.yml` has the deployed alerts, `rules.yml` a run's own,
//! `consoles` pages that Prometheus serves.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use lab::control_plane::Process;
use lab::{Outpost, free_address, manifest};
use serde_json::{Value, json};

use crate::{SOON, http, until, workspace};

/// Ports of Prometheus and Alertmanager in a network namespace of their own, as upstream has them.
const PORTS: [u16; 2] = [9090, 9093];

/// What Prometheus does with the cluster.
#[derive(Clone, Debug)]
pub struct AlertSettings<'a> {
    /// Of the files `<name>-alerts.yaml` of `deploy/monitoring`, those whose alerts it evaluates.
    pub alerts: &'a [&'a str],
    /// What it reads: items of `scrape_configs`.
    pub scrapes: Vec<Value>,
    /// Seconds between two reads, and between two evaluations.
    pub interval_secs: u32,
}

/// Both servers, as far as they run. Dropped, they end.
#[derive(Debug)]
pub struct AlertServers {
    /// Where Prometheus listens.
    pub prometheus: SocketAddr,
    /// Where Alertmanager listens.
    pub alertmanager: SocketAddr,
    dir: PathBuf,
    /// Prometheus and Alertmanager.
    processes: [Option<Process>; 2],
    /// Where they run, if not on this machine. Dropped after what runs in it.
    outpost: Option<Outpost>,
}

impl AlertServers {
    /// Starts both, with files in the folder `dir`; on the loopback of this machine, or in an
    /// outpost of the lab.
    pub async fn start(
        dir: &Path,
        outpost: Option<Outpost>,
        settings: &AlertSettings<'_>,
    ) -> Result<Self> {
        let dir = dir.to_owned();
        let [prometheus, alertmanager] = match &outpost {
            Some(outpost) => PORTS.map(|port| (outpost.address(), port).into()),
            None => [free_address()?, free_address()?],
        };
        let mut this = Self {
            prometheus,
            alertmanager,
            dir,
            processes: [None, None],
            outpost,
        };
        this.configure(settings)?;
        this.start_prometheus().await?;
        this.start_alertmanager().await?;
        Ok(this)
    }

    /// Starts Prometheus, with what it stored before.
    pub async fn start_prometheus(&mut self) -> Result<()> {
        let arguments = [
            "--config.file=prometheus.yml".to_owned(),
            "--storage.tsdb.path=prometheus".to_owned(),
            "--web.console.templates=consoles".to_owned(),
            "--web.console.libraries=consoles".to_owned(),
            "--web.enable-lifecycle".to_owned(),
            format!("--web.listen-address={}", self.prometheus),
        ];
        self.processes[0] = Some(self.launch("prometheus", "prometheus", arguments)?);
        until_ready(self.prometheus).await
    }

    /// Starts Alertmanager, with the silences that it had.
    pub async fn start_alertmanager(&mut self) -> Result<()> {
        let arguments = [
            "--config.file=alertmanager.yml".to_owned(),
            "--storage.path=alertmanager".to_owned(),
            "--cluster.listen-address=".to_owned(),
            format!("--web.listen-address={}", self.alertmanager),
        ];
        let process = self.launch("alertmanager", "prometheus-alertmanager", arguments)?;
        self.processes[1] = Some(process);
        until_ready(self.alertmanager).await
    }

    /// Ends Prometheus.
    pub fn stop_prometheus(&mut self) {
        self.processes[0] = None;
    }

    /// Ends Alertmanager.
    pub fn stop_alertmanager(&mut self) {
        self.processes[1] = None;
    }

    /// The silences in force.
    pub fn silences(&self) -> Result<Vec<Silence>> {
        let url = format!("http://{}/api/v2/silences", self.alertmanager);
        let found: Vec<Value> = serde_json::from_str(&http::get(&url)?)?;
        let text = |silence: &Value, pointer| {
            let text = silence.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let active = found
            .iter()
            .filter(|silence| text(silence, "/status/state") == "active");
        Ok(active
            .map(|silence| Silence {
                creator: text(silence, "/createdBy"),
                comment: text(silence, "/comment"),
            })
            .collect())
    }

    #[expect(clippy::disallowed_methods, reason = "a run's own files")]
    fn configure(&self, settings: &AlertSettings<'_>) -> Result<()> {
        let consoles = self.dir.join("consoles");
        fs::create_dir_all(&consoles)
            .with_context(|| format!("cannot make {}", consoles.display()))?;
        let interval = format!("{}s", settings.interval_secs);
        let targets = json!([{ "targets": [self.alertmanager.to_string()] }]);
        let prometheus = json!({
            "global": { "scrape_interval": interval, "evaluation_interval": interval },
            "rule_files": ["deployed.yml", "rules.yml"],
            "alerting": { "alertmanagers": [{ "static_configs": targets }] },
            "scrape_configs": settings.scrapes,
        });
        let routes = json!({ "route": { "receiver": "none" }, "receivers": [{ "name": "none" }] });
        for (file, content) in [
            ("deployed.yml", deployed(settings.alerts)?),
            ("rules.yml", json!({ "groups": [] })),
            ("prometheus.yml", prometheus),
            ("alertmanager.yml", routes),
        ] {
            let path = self.dir.join(file);
            // JSON is YAML.
            fs::write(&path, content.to_string())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn launch(
        &self,
        name: &str,
        program: &str,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Process> {
        let enter = self.outpost.as_ref().map(Outpost::enter);
        let words = enter.into_iter().flatten().chain([program.to_owned()]);
        let words: Vec<String> = words.chain(arguments).collect();
        let (first, rest) = words.split_first().context("no command")?;
        Process::start(name, Path::new(first), rest, &self.dir)
    }
}

/// A silence in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Who made it.
    pub creator: String,
    /// Its comment.
    pub comment: String,
}

/// The groups of rules that are deployed with the components.
fn deployed(alerts: &[&str]) -> Result<Value> {
    let mut groups = Vec::new();
    for of in alerts {
        let file = format!("deploy/monitoring/{of}-alerts.yaml");
        for rules in manifest::load(&workspace().join(file))? {
            let found = rules.data.pointer("/spec/groups").and_then(Value::as_array);
            groups.extend(found.context("rules without groups")?.iter().cloned());
        }
    }
    Ok(json!({ "groups": groups }))
}

async fn until_ready(address: SocketAddr) -> Result<()> {
    let url = format!("http://{address}/-/ready");
    until("a server of alerts", SOON, async || {
        Ok(http::get(&url).map(drop).map_err(|error| error.to_string()))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployed_alerts_of_all_components_have_groups() {
        let all = ["controller", "daemon", "upgrade", "version"];
        let rules = deployed(&all).unwrap();
        assert!(rules["groups"].as_array().unwrap().len() >= all.len());
        deployed(&["nothing"]).unwrap_err();
    }
}
