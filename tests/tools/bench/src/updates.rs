//! The update service: what it holds and answers for the real graph, and how soon it knows what a
//! registry has.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use images::{Credentials, ImageLocation, Stores};
use lab::control_plane::Process;
use lab::registry::Registry;
use lab::{Lab, free_address};
use serde::Deserialize;
use testbed::Programs;

use crate::figure::{Figure, Unit};
use crate::http::{HttpAnswer, ask};
use crate::idle::{count, float};
use crate::memory;
use crate::release_images::{layout, metadata, real, release};
use crate::statistics::median;

const PROGRAM: &str = "update-service";

/// Connections that ask at once: one after the other is tried.
const CONNECTIONS: [u16; 6] = [1, 2, 4, 8, 16, 32];

/// How long each of them asks.
const LOAD_SECS: u64 = 3;

/// The most milliseconds that 99 of 100 responses may take.
const P99_MS: f64 = 5.0;

/// Releases in the registry.
const RELEASES: usize = 400;

/// Releases that are pushed while the service runs.
const PUSHES: usize = 5;

/// Seconds between two scrapes while releases are pushed.
const INTERVAL_SECS: u64 = 1;

/// What each step may take: many times what it takes.
const LIMIT: Duration = Duration::from_mins(5);

const POLL_EVERY: Duration = Duration::from_millis(10);

/// Memory with the whole real graph, after its second scrape.
///
/// Errors: there is no real graph beside the checkout, or the service does not start.
pub(crate) fn graph_memory(programs: &Programs, out: &Path) -> Result<Vec<Figure>> {
    let graph = RealGraph::write(&folder(out, "update-service-memory")?)?;
    let settings = format!("{}scrape: {{intervalSeconds: 5}}\n", graph.settings());
    let service = Service::start(programs, &graph.dir, &settings)?;
    service.ready()?;
    let first = service.scrape_ms()?;
    service.until_scrapes(2.0)?;
    // The responses before go, and the heap is trimmed.
    std::thread::sleep(Duration::from_secs(1));
    let held = memory::of(service.process.id())?;
    let peak = memory::peak_of(service.process.id())?;
    graph.remove()?;
    let figure = Figure::new("update_service_rss", float(held.resident))?
        .beside("anonymous", float(held.anonymous), Unit::Bytes)
        .beside("peak", float(peak), Unit::Bytes)
        .beside("images", count(graph.images), Unit::Count)
        .beside("the first scrape", first, Unit::Ms);
    Ok(vec![figure])
}

/// Responses a second for the largest channel, beside the least that a hyper server does. `load` is
/// the program `http-load`, as a release.
///
/// Errors: those of [`graph_memory`]; responses differ; none is in time.
pub(crate) fn graph_ratio(
    programs: &Programs,
    load: &Path,
    out: &Path,
    rounds: usize,
) -> Result<Vec<Figure>> {
    let graph = RealGraph::write(&folder(out, "update-service-load")?)?;
    // The next scrape is five minutes away: none while it serves.
    let mut service = Service::start(programs, &graph.dir, &graph.settings())?;
    service.ready()?;
    let path = service.largest(&graph.data.join("channels"))?;
    let body = service.get(&path)?.body;
    graph.remove()?;
    let content = graph.dir.join("answer.json");
    write(&content, &body)?;
    let address = free_address()?;
    let arguments = [
        "serve".to_owned(),
        address.to_string(),
        content.display().to_string(),
    ];
    let _peer = Process::start("peer", load, arguments, &graph.dir)?;
    until("the peer listens", || ask(address, "GET", "/", &[]).is_ok())?;
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    // In turn, so that what else the machine does meets both.
    for _ in 0..rounds {
        own.push(best(load, service.address, &path, body.len())?);
        peer.push(best(load, address, "/", body.len())?);
    }
    service.process.check()?;
    let loaded = memory::of(service.process.id())?;
    let own = median(&own).context("no round")?;
    let peer = median(&peer).context("no round")?;
    let figure = Figure::new("update_service_ratio", own / peer)?
        .of(rounds)
        .beside("answers a second", own, Unit::Count)
        .beside("a minimal hyper server", peer, Unit::Count)
        .beside("an answer", count(body.len()), Unit::Bytes)
        .beside("resident then", float(loaded.resident), Unit::Bytes);
    Ok(vec![figure])
}

/// All releases of the real graph as images in a directory.
struct RealGraph {
    dir: PathBuf,
    /// The graph data.
    data: PathBuf,
    images: usize,
}

impl RealGraph {
    fn write(dir: &Path) -> Result<Self> {
        let (what, absent) = ("the real graph", "the real graph data is not there");
        let data = lab::upstream_data("graph-data", what)?.context(absent)?;
        let data = data.canonicalize()?;
        let list = lab::upstream_data("graph-releases/releases-4.12-4.19.json", what)?;
        let (releases, architectures) = real(&list.context(absent)?);
        let this = Self {
            dir: dir.to_owned(),
            data,
            images: releases.len() * architectures.len(),
        };
        layout(&this.releases(), &releases, &architectures);
        Ok(this)
    }

    fn releases(&self) -> PathBuf {
        self.dir.join("releases")
    }

    fn settings(&self) -> String {
        format!(
            "releases: {{repository: registry.example/releases, directory: {}}}\n\
             graphData: {{directory: {}}}\n",
            self.releases().display(),
            self.data.display(),
        )
    }

    /// Removes the images, which are many files.
    fn remove(&self) -> Result<()> {
        fs::remove_dir_all(self.releases()).context("cannot remove the releases")
    }
}

/// A full scrape of a registry, by a service that knows nothing and by one that knows all; and the
/// time from a pushed release to a response with it.
///
/// Errors: a part does not start, or a release does not come.
pub(crate) async fn registry(programs: &Programs, out: &Path) -> Result<Vec<Figure>> {
    let dir = folder(out, "update-service-registry")?;
    let lab = Lab::create()?;
    let registry = Registry::start(&lab)?;
    let stores = Stores::new(Credentials::default(), true);
    let place = registry.location();
    let version = |number: usize| format!("1.0.{number}");
    let push = async |number: usize| -> Result<()> {
        let previous: Vec<String> = (0..number.min(RELEASES)).map(version).collect();
        let previous: Vec<&str> = previous.iter().map(String::as_str).collect();
        let version = version(number);
        let image = release(&version, "amd64", &metadata(&version, &previous, false));
        let location: ImageLocation = format!("{place}/releases:{version}").parse()?;
        Ok(stores.put(&image, &location).await?)
    };
    let pushed = stream::iter((0..RELEASES).map(&push)).buffer_unordered(8);
    pushed.try_collect::<Vec<_>>().await?;
    let versions: Vec<String> = (0..RELEASES + PUSHES).map(version).collect();
    let data = dir.join("data");
    fs::create_dir_all(data.join("channels"))?;
    fs::create_dir_all(data.join("raw"))?;
    write(&data.join("version"), b"1.1.0\n")?;
    write(&data.join("raw/metadata.json"), b"{}\n")?;
    let channel = format!("name: fast-1\nversions: [{}]\n", versions.join(", "));
    write(&data.join("channels/fast-1.yaml"), channel.as_bytes())?;
    let settings = format!(
        "releases: {{repository: {place}/releases, insecure: true}}\n\
         graphData: {{directory: {}}}\nscrape: {{intervalSeconds: {INTERVAL_SECS}}}\n",
        data.display()
    );
    let before = registry.requests()?.len();
    let mut service = Service::start(programs, &dir, &settings)?;
    service.ready()?;
    let cold = service.scrape_ms()?;
    let requests = registry.requests()?.len() - before;
    service.until_scrapes(3.0)?;
    let warm = service.scrape_ms()?;
    let mut took = Vec::new();
    for number in RELEASES..RELEASES + PUSHES {
        push(number).await?;
        let began = Instant::now();
        let wanted = format!("\"{}\"", version(number));
        until("a pushed release is served", || {
            let response = service.get("/graph?channel=fast-1");
            response.is_ok_and(|response| response.text().contains(&wanted))
        })?;
        took.push(began.elapsed().as_secs_f64() * 1e3);
    }
    service.process.check()?;
    let pushed = median(&took).context("nothing was pushed")?;
    let slowest = took.iter().copied().fold(0.0, f64::max);
    let interval = Duration::from_secs(INTERVAL_SECS).as_secs_f64();
    Ok(vec![
        Figure::new("update_service_scrape_cold_ms", cold)?
            .beside("releases", count(RELEASES), Unit::Count)
            .beside("requests to the registry", count(requests), Unit::Count),
        Figure::new("update_service_scrape_warm_ms", warm)?.beside(
            "releases",
            count(RELEASES),
            Unit::Count,
        ),
        Figure::new("update_service_push_ms", pushed)?
            .of(PUSHES)
            .beside("the slowest", slowest, Unit::Ms)
            .beside("between two scrapes", interval, Unit::Seconds),
    ])
}

/// What `http-load` prints.
#[derive(Debug, Deserialize)]
struct Loaded {
    per_second: f64,
    p99_ms: f64,
    bytes: usize,
}

/// The most responses a second of which 99 of 100 are in time, over all numbers of connections.
#[expect(
    clippy::disallowed_methods,
    reason = "a program of the benchmark's own"
)]
fn best(load: &Path, address: SocketAddr, path: &str, bytes: usize) -> Result<f64> {
    let mut best = 0.0_f64;
    for connections in CONNECTIONS {
        let output = Command::new(load)
            .args(["load", &address.to_string(), path])
            .arg(format!("--connections={connections}"))
            .arg(format!("--secs={LOAD_SECS}"))
            .output()
            .with_context(|| format!("cannot run {}", load.display()))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", errors.trim_end());
        let loaded: Loaded = serde_json::from_slice(&output.stdout)?;
        ensure!(
            loaded.bytes == bytes,
            "a response of {} bytes, not {bytes}",
            loaded.bytes
        );
        if loaded.p99_ms < P99_MS {
            best = best.max(loaded.per_second);
        }
    }
    ensure!(
        best > 0.0,
        "99 of 100 responses take more than {P99_MS} ms, however few ask"
    );
    Ok(best)
}

struct Service {
    address: SocketAddr,
    status: SocketAddr,
    process: Process,
}

impl Service {
    fn start(programs: &Programs, dir: &Path, settings: &str) -> Result<Self> {
        let (address, status) = (free_address()?, free_address()?);
        let file = dir.join("settings.yaml");
        let serve = format!("serve: {{listen: '{address}', status: '{status}'}}\n");
        write(&file, (serve + settings).as_bytes())?;
        let arguments = ["start".to_owned(), format!("--config={}", file.display())];
        let process = Process::start(PROGRAM, &programs.path(PROGRAM)?, arguments, dir)?;
        Ok(Self {
            address,
            status,
            process,
        })
    }

    fn get(&self, path: &str) -> Result<HttpAnswer> {
        let response = ask(self.address, "GET", path, &[])?;
        ensure!(
            response.status == 200,
            "{path}: {} {}",
            response.status,
            response.text()
        );
        Ok(response)
    }

    fn ready(&self) -> Result<()> {
        until("the update service is ready", || {
            ask(self.status, "GET", "/readyz", &[]).is_ok_and(|response| response.status == 200)
        })
    }

    fn metric(&self, name: &str) -> Result<f64> {
        let page = ask(self.status, "GET", "/metrics", &[])?.text();
        let value = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let rest = rest.strip_prefix("{}").unwrap_or(rest);
            rest.strip_prefix(' ')?.trim().parse().ok()
        };
        let found = page.lines().find_map(value);
        found.with_context(|| format!("there is no metric {name}"))
    }

    /// What the last scrape took.
    fn scrape_ms(&self) -> Result<f64> {
        Ok(1e3 * self.metric("cincinnati_gb_graph_upstream_scrapes_duration")?)
    }

    /// Waits until so many scrapes have ended, and none failed.
    fn until_scrapes(&self, scrapes: f64) -> Result<()> {
        until("scrapes end", || {
            let ended = self.metric("cincinnati_gb_graph_upstream_scrapes_total");
            ended.is_ok_and(|ended| ended >= scrapes)
        })?;
        let failed = self.metric("cincinnati_gb_graph_upstream_errors_total")?;
        ensure!(failed < 0.5, "{failed} scrapes failed");
        Ok(())
    }

    /// Path of the largest graph of all channels.
    fn largest(&self, channels: &Path) -> Result<String> {
        let mut largest = (0, String::new());
        for entry in fs::read_dir(channels).context("cannot list the channels")? {
            let file: PathBuf = entry?.path();
            let Some(name) = file.file_stem().and_then(|name| name.to_str()) else {
                continue;
            };
            for architecture in ["amd64", "multi"] {
                let path = format!("/graph?channel={name}&arch={architecture}");
                let length = self.get(&path)?.body.len();
                largest = largest.max((length, path));
            }
        }
        ensure!(largest.0 > 10_000, "no channel has a graph");
        Ok(largest.1)
    }
}

fn folder(out: &Path, name: &str) -> Result<PathBuf> {
    let dir = out.join(name);
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir.canonicalize()?)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a file that lasts as long as the run"
)]
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        ensure!(
            Instant::now() < deadline,
            "not within {} s: {what}",
            LIMIT.as_secs()
        );
        std::thread::sleep(POLL_EVERY);
    }
    Ok(())
}
