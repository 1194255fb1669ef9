//! The program, with a file of settings of the test.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use lab::control_plane::Process;
use lab::{PATIENCE, free_address, wait};
use testbed::{Programs, logs};

use crate::http::{HttpAnswer, ask};

/// A running service.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) status: SocketAddr,
    process: Process,
}

impl Service {
    /// Starts the program; `settings` are those of its sources, as YAML.
    pub(crate) fn start(name: &str, serve: &str, settings: &str) -> Result<Self> {
        let dir = logs::folder("update-service", name);
        logs::empty(&dir)?;
        let (address, status) = (free_address()?, free_address()?);
        let file = dir.join("settings.yaml");
        let text = format!("serve: {{listen: '{address}', status: '{status}'{serve}}}\n{settings}");
        std::fs::write(&file, text)?;
        let program = Programs::built()?.path("update-service")?;
        let arguments = [
            "start".into(),
            format!("--config={}", file.display()),
            "--v=4".into(),
        ];
        let process = Process::start("update-service", &program, arguments, &dir)?;
        let this = Self {
            address,
            status,
            process,
        };
        until("the service listens", || {
            ask(this.status, "GET", "/livez", &[]).is_ok()
        })?;
        Ok(this)
    }

    /// Waits until it is ready.
    pub(crate) fn ready(&self) -> Result<()> {
        until("the service is ready", || {
            ask(self.status, "GET", "/readyz", &[]).is_ok_and(|response| response.status == 200)
        })
    }

    /// Whether the process runs.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    pub(crate) fn get(&self, path: &str) -> HttpAnswer {
        ask(self.address, "GET", path, &[]).unwrap()
    }

    /// Versions of a channel's releases, of `amd64`.
    pub(crate) fn versions(&self, channel: &str) -> Vec<String> {
        let response = self.get(&format!("/graph?channel={channel}"));
        let graph = release::update_graph::UpdateGraph::parse(&response.body).unwrap();
        graph.nodes.keys().map(ToString::to_string).collect()
    }

    /// The problems that it lists: object, field, reason.
    pub(crate) fn problems(&self) -> Vec<String> {
        let response = self.get("/problems");
        let listed: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
        let listed = listed["problems"].as_array().unwrap().iter();
        let text =
            |problem: &serde_json::Value, key: &str| problem[key].as_str().unwrap().to_owned();
        listed
            .map(|problem| {
                ["object", "field", "reason"]
                    .map(|key| text(problem, key))
                    .join(" | ")
            })
            .collect()
    }

    /// A metric's value.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = ask(self.status, "GET", "/metrics", &[]).unwrap().text();
        // Those that are printed from the graph in service have an empty set of labels.
        let value = |line: &str| {
            let rest = line.strip_prefix(name)?;
            rest.strip_prefix("{}")
                .unwrap_or(rest)
                .strip_prefix(' ')
                .map(str::to_owned)
        };
        let line = page.lines().find_map(value);
        line.with_context(|| format!("no metric {name}"))
            .unwrap()
            .parse()
            .unwrap()
    }

    /// Bytes that the process has resident.
    pub(crate) fn resident(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    wait::until_blocking(what, PATIENCE, Duration::from_millis(50), || {
        Ok(if is_so() {
            Ok(())
        } else {
            Err("not yet".to_owned())
        })
    })
}

/// Writes a repository of graph data.
pub(crate) fn write_data(path: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = path.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}
