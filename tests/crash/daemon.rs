//! The daemon, or its host, is killed at every point of an update and of adopting a new node, and
//! started again each time.
//!
//! All points, or a share of them that the commit chooses: each life that is killed costs a start
//! of the daemon.
//!
//! A point is where it changed a file or sent something: to the API server, or to systemd, which
//! runs `mcd-os`. Each life is traced from its first instruction and ends at the first point at
//! which no life was killed yet; so an update takes many lives. Updates follow each other until one
//! runs through without a kill: at each of its points an earlier life was killed. Before each life
//! the host is checked.
//!
//! - `coverage`: points, and at which of them a life was killed
//! - `snapshots`: what the host and its Node are between two lives
//! - `adoption`: the same while the node is adopted
//! - `rotation`: the same while certificates are brought to it

mod adoption;
mod coverage;
mod rotation;
mod snapshots;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use api::machineconfiguration::annotation;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use lab::host::Pod;
use lab::tree::Overlay;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use observer::host::Fact;
use serde_json::Value;
use testbed::config::{Config, File};
use testbed::logs;
use testbed::objects::{self, Objects};
use testbed::{Cluster, DONE_WITHIN, Image, NodeSpec, SOON, Testbed};

use self::adoption::Adoption;
pub(crate) use self::coverage::Share;
use self::coverage::{Course, Coverage};
use self::rotation::Rotation;
use self::snapshots::Snapshots;
use super::tracer::{self, Order};

const NODE: &str = "worker-0";
const POOL: &str = "worker";

/// How long a life may last. One without a kill lasts until the node is Done.
const LIFE_MAX: Duration = DONE_WITHIN;

/// How long what a kubelet starts again may take to be there; a reboot may be under way.
const BORN_WITHIN: Duration = SOON;

/// How long a node that is Done is left to what the daemon does after that.
const REST: Duration = Duration::from_secs(2);

/// A scenario has at most so many updates with kills. Another one runs through, and its points at
/// which no life was killed are printed.
///
/// What was done before a kill is not done again: towards its end a scenario has one new point in
/// an update. That of certificates is through after 33 on a quiet machine. On a busy one, requests
/// come in other orders, and a few more points have to be tried.
const UPDATES_MAX: usize = 64;

/// A scenario has at most so many kills; the rest as above.
const KILLS_MAX: usize = 300;

/// Pods that a drain evicts.
const PODS: usize = 3;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Daemon,
    /// The daemon where it stands, and its host with everything that runs there.
    Host,
}

impl Victim {
    /// Names its logs.
    const fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Host => "daemon-with-host",
        }
    }
}

/// An update from one configuration to another; before that, the node's first meeting with the
/// daemon; after it, certificates that are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    Adoption,
    WithReboot,
    Live,
    Certificates,
}

impl Scenario {
    const fn name(self) -> &'static str {
        match self {
            Self::Adoption => "mcd, on a new node",
            Self::WithReboot => "mcd, with a reboot",
            Self::Live => "mcd, without a reboot",
            Self::Certificates => "mcd, certificates",
        }
    }
}

/// Kills at these points of an adoption and of updates with a reboot and without; says how often.
pub(crate) async fn run(victim: Victim, share: Share) -> Result<String> {
    // The budget lets all of them go.
    let budget = objects::budget("evictable", "maxUnavailable: 100%");
    let pods = objects::deployment("evictable", PODS) + &budget;
    let testbed = Testbed::new(logs::folder("crash", victim.name())).objects(&pods);
    let cluster = testbed.node(NodeSpec::new(NODE)).start().await?;
    let image = |version: &str| cluster.image(&Overlay::version(version));
    let images = [image("crash-daemon-0")?, image("crash-daemon-1")?];
    let daemon = cluster.daemon(NODE)?;
    daemon.hold();
    daemon.signal(Signal::SIGTERM)?;
    let mut suite = Suite {
        cluster,
        images,
        victim,
        coverage: Coverage::new(share),
    };
    let since = Timestamp::now();
    // The last changes what a pool is rendered from.
    for scenario in [
        Scenario::Adoption,
        Scenario::WithReboot,
        Scenario::Live,
        Scenario::Certificates,
    ] {
        suite.scenario(scenario).await?;
    }
    let breaches = suite.cluster.record()?.judge(since);
    let breaches: Vec<_> = breaches.iter().map(ToString::to_string).collect();
    let report = suite.coverage.report();
    ensure!(breaches.is_empty(), "{report}\n{}", breaches.join("\n"));
    Ok(report)
}

struct Suite {
    cluster: Cluster,
    images: [Image; 2],
    victim: Victim,
    coverage: Coverage,
}

impl Suite {
    /// Updates until one runs through without a kill.
    async fn scenario(&mut self, scenario: Scenario) -> Result<()> {
        let name = scenario.name();
        for round in 0..=UPDATES_MAX {
            self.coverage.begin(name);
            self.pods_ready().await?;
            held(self.cluster.daemon(NODE)?).await?;
            let may_kill = round < UPDATES_MAX;
            match scenario {
                Scenario::Adoption => self.adopt(may_kill).await?,
                Scenario::WithReboot | Scenario::Live => {
                    self.update(scenario, round, may_kill).await?;
                }
                Scenario::Certificates => self.rotate(round, may_kill).await?,
            }
            let (kills, _) = self.coverage.kills(name);
            eprintln!("{name}: {kills} kills in update {round}");
            if kills == 0 {
                break;
            }
        }
        // A few exist in some lives only: what the bus is sent when, a line of a log. Those are
        // printed.
        let (missed, points) = (self.coverage.missed(name), self.coverage.points(name));
        ensure!(
            missed.len() * 20 <= points,
            "{name}: {} of {points} points were not tried:\n  {}",
            missed.len(),
            missed.join("\n  ")
        );
        let (requests, evictions) = self.coverage.requests(name);
        ensure!(requests > 0, "{name}: no point before a request");
        ensure!(
            scenario != Scenario::WithReboot || evictions > 0,
            "{name}: no pod was evicted"
        );
        Ok(())
    }

    async fn update(&mut self, scenario: Scenario, round: usize, may_kill: bool) -> Result<()> {
        let (config, spec, facts) = self.change(scenario, round)?;
        let node = self.cluster.objects().node(NODE).await?;
        let from = objects::annotation(&node, annotation::CURRENT_CONFIG).to_owned();
        let target = self.ask(config, &spec).await?;
        let reboots = scenario == Scenario::WithReboot;
        let host = self.cluster.host(NODE)?;
        let mut snapshots = Snapshots::begin(host, from, target.clone(), reboots)?;
        let end = is_done(target);
        while let Some((killed, node)) = self.killed(scenario, &end, may_kill).await? {
            snapshots
                .check(self.cluster.host(NODE)?, &node, &killed)
                .with_context(|| format!("killed at {killed}: {}", objects::says(&node)))?;
        }
        let host = self.cluster.host(NODE)?;
        snapshots.end(host)?;
        eprintln!("{}: {}", scenario.name(), snapshots.repeats);
        facts.iter().try_for_each(|fact| fact.check(host))
    }

    /// Has the daemon meet a node that is as an installer left it, but without a record.
    async fn adopt(&mut self, may_kill: bool) -> Result<()> {
        let mut adoption = Adoption::begin(&self.cluster, NODE, POOL).await?;
        let end = is_done(adoption.target.clone());
        while let Some((killed, node)) = self.killed(Scenario::Adoption, &end, may_kill).await? {
            adoption
                .check(self.cluster.host(NODE)?, &node, &killed)
                .with_context(|| format!("killed at {killed}: {}", objects::says(&node)))?;
        }
        eprintln!("{}: {}", Scenario::Adoption.name(), adoption.repeats);
        adoption.end(self.cluster.host(NODE)?)
    }

    /// Has the cluster rotate certificates under a node that is Done.
    async fn rotate(&mut self, round: usize, may_kill: bool) -> Result<()> {
        let mut rotation = Rotation::begin(&self.cluster, NODE, round).await?;
        let end = rotation.end_of_lives();
        while let Some((killed, _)) = self.killed(Scenario::Certificates, &end, may_kill).await? {
            rotation
                .check(self.cluster.host(NODE)?, &killed)
                .with_context(|| format!("killed at {killed}"))?;
        }
        rotation.end(self.cluster.host(NODE)?)
    }

    /// The MachineConfig of an update, its content, and what holds then.
    fn change(&self, scenario: Scenario, round: usize) -> Result<(&'static str, Value, Vec<Fact>)> {
        let word = format!("crash-{}", round % 2);
        if scenario == Scenario::Live {
            let key = format!("ssh-ed25519 AAAA {word}");
            let spec = Config::new().keys(&[&key]).spec();
            let fact = Fact::File {
                path: "/home/core/.ssh/authorized_keys.d/ignition".to_owned(),
                content: format!("{key}\n"),
                mode: 0o600,
                owner: "core:core".to_owned(),
            };
            return Ok(("60-keys", spec, vec![fact]));
        }
        let image = self.images.get(round % 2).context("no image")?;
        let spec = Config::new()
            .os(&image.reference)
            .argument(format!("slipway.test={word}"))
            .files([File::new("/etc/crash/file", word.as_str()).mode(0o600)])
            .spec();
        let facts = vec![
            Fact::Booted {
                content: image.content.clone(),
            },
            Fact::Argument(format!("slipway.test={word}")),
            Fact::File {
                path: "/etc/crash/file".to_owned(),
                content: word,
                mode: 0o600,
                owner: "root:root".to_owned(),
            },
        ];
        Ok(("50-crash", spec, facts))
    }

    /// Waits until there are all pods to evict.
    async fn pods_ready(&self) -> Result<()> {
        let objects = self.cluster.objects();
        objects.pods_ready(&[("evictable", PODS)]).await
    }

    /// Changes the configuration, and waits until the node is assigned it; the new target.
    async fn ask(&self, name: &str, spec: &Value) -> Result<String> {
        let target = self.cluster.change(name, POOL, spec).await?;
        let is_assigned =
            |node: &Node| objects::annotation(node, annotation::DESIRED_CONFIG) == target;
        let objects = self.cluster.objects();
        objects.node_is(NODE, "assigned", SOON, is_assigned).await?;
        Ok(target)
    }

    /// The same, with its host where that is the victim; and its Node, as it is read after that.
    async fn killed(
        &mut self,
        scenario: Scenario,
        end: &End,
        may_kill: bool,
    ) -> Result<Option<(String, Node)>> {
        let Some(killed) = self.live(scenario, end, may_kill).await? else {
            return Ok(None);
        };
        if self.victim == Victim::Host {
            self.cluster.kill(NODE)?;
        }
        let node = self.cluster.objects().node(NODE).await?;
        Ok(Some((killed, node)))
    }

    /// Lives of the daemon until one is killed, and where; none if it is at its end in one.
    async fn live(
        &mut self,
        scenario: Scenario,
        end: &End,
        may_kill: bool,
    ) -> Result<Option<String>> {
        loop {
            let objects = Objects::new(self.cluster.control_plane().client().await?);
            let pod = self.cluster.daemon(NODE)?;
            let pid = held(pod).await?;
            let watch = tokio::spawn(end_when_done(objects, Arc::clone(end), pid));
            let may_kill = may_kill && self.coverage.kills(scenario.name()).1 < KILLS_MAX;
            let (mut course, mut killed) = (Course::default(), None);
            let coverage = &mut self.coverage;
            tokio::task::block_in_place(|| {
                tracer::attach(pid, || pod.let_go(), &mut |point| {
                    let name = course.meets(point);
                    if !coverage.is_new(scenario.name(), &name) || !may_kill {
                        return Ok(Order::GoOn);
                    }
                    coverage.killed(scenario.name(), name.clone(), point.next);
                    killed = Some(name);
                    Ok(Order::Kill)
                })
            })?;
            watch.abort();
            if let Ok(ended) = watch.await {
                ended?;
            }
            if killed.is_some() {
                return Ok(killed);
            }
            let node = self.cluster.objects().node(NODE).await?;
            if end(&node) {
                return Ok(None);
            }
            // The host went down, and took it along.
        }
    }
}

/// Waits for the next life of the daemon; the process that waits to begin it.
async fn held(pod: &Pod) -> Result<Pid> {
    let until = Instant::now() + BORN_WITHIN;
    loop {
        if let Some(pid) = pod.held() {
            return Ok(pid);
        }
        ensure!(Instant::now() < until, "the daemon does not come back");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Whether nothing is left to do, by what the Node says.
type End = Arc<dyn Fn(&Node) -> bool + Send + Sync>;

fn is_done(target: String) -> End {
    Arc::new(move |node| objects::is_done_in(node, &target))
}

/// Ends a life that is not killed.
async fn end_when_done(objects: Objects, end: End, pid: Pid) -> Result<()> {
    let until = Instant::now() + LIFE_MAX;
    loop {
        if end(&objects.node(NODE).await?) {
            tokio::time::sleep(REST).await;
            // It may have been killed meanwhile.
            kill(pid, Signal::SIGTERM).ok();
            return Ok(());
        }
        if Instant::now() > until {
            let says = objects::says(&objects.node(NODE).await?);
            kill(pid, Signal::SIGKILL).ok();
            bail!("a daemon that is not killed does not come to an end: {says}");
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}
