//! The order of measurements, and what is left of each: figures, or why there are none.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use testbed::Programs;

use crate::figure::{ALL, Figure, Spec};
use crate::idle::float;
use crate::report::Report;
use crate::session::Session;
use crate::table::Failure;
use crate::{
    config_server, controller, decision, evictions, fetch, idle, large, managed, rebootless,
    released, roll, rounds, service, updates, version_operator,
};

/// Figures that are measured together.
const BINARIES: [&str; 4] = [
    "mcd_binary_bytes",
    "mcd_os_binary_bytes",
    "cvo_binary_bytes",
    "muo_binary_bytes",
];
const MEMORY: [&str; 4] = [
    "mcd_idle_anon_3",
    "mcd_idle_anon_300",
    "mcd_idle_anon_growth",
    "mcd_idle_rss_300",
];
const TRAFFIC: [&str; 2] = ["mcd_api_idle_hour_requests", "mcd_api_idle_hour_bytes"];
const FETCH: [&str; 4] = [
    "mcd_os_peak_rss",
    "mcd_fetch_ratio",
    "mcd_fetch_rootfs_ratio",
    "mcd_egress_ratio",
];
const REBOOTLESS: [&str; 2] = ["mcd_rebootless_ms", "mcd_rebootless_p95_ms"];
const SERVICE: [&str; 6] = [
    "mcd_out_of_service_ms",
    "mcd_out_of_service_ratio",
    "mcd_api_start_requests",
    "mcd_api_start_bytes",
    "mcd_api_update_requests",
    "mcd_api_update_bytes",
];
const CONTROLLER: [&str; 4] = [
    "mcc_2000_nodes_anon_bytes",
    "mcc_lists_after_first",
    "mcc_heartbeats_core_ratio",
    "mcc_heartbeats_ratio",
];
const ROLL: [&str; 4] = [
    "mcc_first_told_ms",
    "mcc_requests_per_node",
    "mcc_rss",
    "pool_makespan_ratio",
];
const LARGE: [&str; 1] = ["mcc_large_peak_rss"];
const CONFIG_SERVER: [&str; 1] = ["mcs_p99_ratio"];
const DECISION: [&str; 2] = ["pool_decide_ms", "pool_decide_peak_bytes"];
const ROUNDS: [&str; 1] = ["first_round_ms"];
const DRAIN: [&str; 1] = ["drain_ratio"];
const VERSION_OPERATOR: [&str; 5] = [
    "cvo_first_apply_ms",
    "cvo_peak_rss",
    "cvo_idle_writes",
    "cvo_idle_requests_a_kind",
    "cvo_report_ms",
];
const RELEASE: [&str; 1] = ["ota_unwaited_ratio"];
const GRAPH: [&str; 2] = ["update_service_rss", "update_service_ratio"];
const REGISTRY: [&str; 3] = [
    "update_service_scrape_cold_ms",
    "update_service_scrape_warm_ms",
    "update_service_push_ms",
];
const MANAGED: [&str; 3] = ["muo_rss", "muo_idle_requests", "muo_start_ms"];

/// Measurements that a median is taken of, where the command line names no other number.
const FETCHES: usize = 5;
const CHANGES: usize = 20;
const OUTAGES: usize = 10;
const DECISIONS: usize = 20;
const DRAINS: usize = 6;
const LOADS: usize = 3;

/// What is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    names: Vec<&'static str>,
    samples: Option<usize>,
    idle: Duration,
    http_load: PathBuf,
}

impl Wanted {
    /// These figures, or all if none is named. `samples` takes the place of each median's own
    /// number; `idle` is how long the idle hour is watched; `http_load` is the program of that
    /// name.
    pub(crate) fn new(
        only: &[&'static Spec],
        samples: Option<usize>,
        idle: Duration,
        http_load: PathBuf,
    ) -> Self {
        let names = if only.is_empty() {
            ALL.iter().map(|spec| spec.name).collect()
        } else {
            only.iter().map(|spec| spec.name).collect()
        };
        Self {
            names,
            samples,
            idle,
            http_load,
        }
    }

    fn any(&self, of: &[&str]) -> bool {
        of.iter().any(|name| self.names.contains(name))
    }
}

/// Measures what is wanted. `out` keeps the control plane's logs.
#[expect(clippy::too_many_lines, reason = "one measurement after another")]
pub(crate) async fn run(programs: &Programs, out: &Path, wanted: &Wanted) -> Report {
    let mut bench = Bench {
        wanted,
        report: Report::default(),
    };
    if wanted.any(&BINARIES) {
        bench.take(&BINARIES, lengths(programs));
    }
    if wanted.any(&DECISION) {
        let samples = wanted.samples.unwrap_or(DECISIONS);
        bench.take(&DECISION, decision::measure(samples));
    }
    if wanted.any(&ROUNDS) {
        say("the first round of 20 pools");
        bench.take(&ROUNDS, rounds::measure(programs, out).await);
    }
    if wanted.any(&ROLL) {
        say("a rollout of 2,000 nodes in 10 pools");
        bench.take(&ROLL, roll::measure(programs, out).await);
    }
    if wanted.any(&LARGE) {
        say("the controller with 500 configurations of 1 MB");
        bench.take(&LARGE, large::measure(programs, out).await);
    }
    if wanted.any(&CONFIG_SERVER) {
        say("500 new machines at once");
        let measured = config_server::measure(programs, out).await;
        bench.take(&CONFIG_SERVER, measured);
    }
    if wanted.any(&DRAIN) {
        say("drains of three pods under a budget");
        let samples = wanted.samples.unwrap_or(DRAINS);
        bench.take(&DRAIN, evictions::measure(programs, out, samples).await);
    }
    if wanted.any(&CONTROLLER) {
        say("the controller with 2,000 nodes, for a minute");
        bench.take(&CONTROLLER, controller::measure(programs, out).await);
    }
    if wanted.any(&VERSION_OPERATOR) {
        say("the version operator with 901 manifests, and kubectl with the same");
        let measured = version_operator::measure(programs, out).await;
        bench.take(&VERSION_OPERATOR, measured);
    }
    if wanted.any(&RELEASE) {
        say("the demo, whose last roll is a release");
        let (programs, out) = (programs.clone(), out.to_owned());
        let run = move || released::measure(&programs, &out);
        let measured = tokio::task::spawn_blocking(run).await;
        let measured = measured.unwrap_or_else(|panic| Err(panic.into()));
        bench.take(&RELEASE, measured);
    }
    if wanted.any(&GRAPH) {
        say("the update service with the real graph");
        let rounds = wanted.samples.unwrap_or(LOADS);
        bench.take(&GRAPH[..1], updates::graph_memory(programs, out));
        let measured = updates::graph_ratio(programs, &wanted.http_load, out, rounds);
        bench.take(&GRAPH[1..], measured);
    }
    if wanted.any(&REGISTRY) {
        say("the update service with 400 releases in a registry");
        bench.take(&REGISTRY, updates::registry(programs, out).await);
    }
    if wanted.any(&MANAGED) {
        let minutes = wanted.idle.as_secs() / 60;
        say(&format!(
            "managed upgrades: {minutes} minutes in which nothing happens, then a start"
        ));
        let measured = managed::measure(programs, out, wanted.idle).await;
        bench.take(&MANAGED, measured);
    }
    let on_node = [&MEMORY[..], &TRAFFIC, &REBOOTLESS, &SERVICE].concat();
    let mut session = None;
    if wanted.any(&on_node) {
        say("starting a control plane and a host, giving its node a configuration of 150 kB");
        match Session::start(programs, out).await {
            Ok(started) => session = Some(started),
            Err(error) => bench.take(&on_node, Err(error)),
        }
    }

    if let Some(session) = session.as_mut().filter(|_| wanted.any(&MEMORY)) {
        say("memory: two updates, and a minute after each");
        bench.take(&MEMORY, idle::memory(session).await);
    }
    // One needs the node to be left alone for minutes, the other no node.
    let (traffic, fetch) = tokio::join!(
        async {
            let session = session.as_ref().filter(|_| wanted.any(&TRAFFIC))?;
            let minutes = wanted.idle.as_secs() / 60;
            say(&format!(
                "traffic: {minutes} minutes in which nothing happens on the node"
            ));
            Some(idle::traffic(session, wanted.idle).await)
        },
        async {
            let samples = wanted.samples.unwrap_or(FETCHES);
            let programs = programs.clone();
            let measure = move || fetch::measure(&programs, samples);
            wanted
                .any(&FETCH)
                .then(|| say("fetching: an image of 200 MB on new hosts"))?;
            let done = tokio::task::spawn_blocking(measure).await;
            Some(done.unwrap_or_else(|panic| Err(panic.into())))
        }
    );
    for (names, outcome) in [(&TRAFFIC[..], traffic), (&FETCH[..], fetch)] {
        if let Some(outcome) = outcome {
            bench.take(names, outcome);
        }
    }
    if let Some(session) = session.as_mut().filter(|_| wanted.any(&REBOOTLESS)) {
        say("changes without a reboot");
        let samples = wanted.samples.unwrap_or(CHANGES);
        bench.take(&REBOOTLESS, rebootless::measure(session, samples).await);
    }
    if let Some(session) = session.as_mut().filter(|_| wanted.any(&SERVICE)) {
        say("updates with a reboot, and reboots by hand");
        let samples = wanted.samples.unwrap_or(OUTAGES);
        bench.take(&SERVICE, service::measure(session, samples).await);
    }
    bench.report()
}

struct Bench<'a> {
    wanted: &'a Wanted,
    report: Report,
}

impl Bench<'_> {
    /// Keeps the wanted ones of the figures, or the reason why these are not there.
    fn take(&mut self, names: &[&'static str], outcome: Result<Vec<Figure>>) {
        let is_wanted = |name: &str| self.wanted.names.contains(&name);
        match outcome {
            Ok(figures) => {
                let figures = figures.into_iter().filter(|figure| is_wanted(figure.name));
                self.report.figures.extend(figures);
            }
            Err(error) => {
                let why = format!("{error:#}");
                let names = names.iter().filter(|name| is_wanted(name));
                let failure = |name: &&'static str| Failure {
                    name,
                    why: why.clone(),
                };
                self.report.failures.extend(names.map(failure));
            }
        }
    }

    fn report(mut self) -> Report {
        let place = |name: &str| ALL.iter().position(|spec| spec.name == name);
        self.report.figures.sort_by_key(|figure| place(figure.name));
        self.report
            .failures
            .sort_by_key(|failure| place(failure.name));
        self.report
    }
}

fn lengths(paths: &Programs) -> Result<Vec<Figure>> {
    let length = |path: &Path| -> Result<f64> {
        let metadata = fs::metadata(path);
        Ok(float(
            metadata
                .with_context(|| format!("cannot read {}", path.display()))?
                .len(),
        ))
    };
    let programs = BINARIES.iter().zip(["mcd", "mcd-os", "cvo", "muo"]);
    programs
        .map(|(name, program)| Figure::new(name, length(&paths.path(program)?)?))
        .collect()
}

/// Says on standard error what is going on.
fn say(text: &str) {
    // Nowhere is left to report that it is closed.
    drop(writeln!(std::io::stderr(), "{text}"));
}
