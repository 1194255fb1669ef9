//! The daemon, or its host, is killed at every point of an update, and started again each time.
//!
//! Its *n*th life ends at its *n*th point, so that each life comes one point further than the one before;
//! after a reboot it begins anew. A point is where it changed a file or sent something: to the API server,
//! or to systemd, which runs `mcd-os`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use lab::host::{DeploymentId, Pod};
use lab::tree::Overlay;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tests::cluster::objects::{self, Objects};
use tests::cluster::{Binaries, Cluster, NodeSpec};
use tests::observer::host::{self, Fact};

use super::points::Tally;
use super::tracer::{self, Order};

const NODE: &str = "worker-0";
const POOL: &str = "worker";

/// How long a life may last. One without a kill lasts until the node is Done.
const LIFE_MAX: Duration = Duration::from_mins(3);

/// How long what a kubelet starts again may take to be there; a reboot may be under way.
const BORN_WITHIN: Duration = Duration::from_mins(1);

/// How long a node that is Done is left to what the daemon does after that.
const REST: Duration = Duration::from_secs(2);

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Daemon,
    /// The daemon where it stands, and its host with everything that runs there.
    Host,
}

/// Kills all the way through an update with a reboot and one without; says how often. Logs are in
/// `target/<logs>`.
pub(crate) async fn run(logs: &str, victim: Victim) -> Result<String> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let nodes = [NodeSpec::new(NODE)];
    let cluster = Cluster::start(&Binaries::built()?, &target.join(logs), "", &nodes).await?;
    let mut suite = Suite {
        cluster,
        victim,
        tally: Tally::default(),
    };
    suite.with_a_reboot().await?;
    suite.without_one().await?;
    Ok(suite.tally.report("killed daemons"))
}

struct Suite {
    cluster: Cluster,
    victim: Victim,
    tally: Tally,
}

impl Suite {
    async fn with_a_reboot(&mut self) -> Result<()> {
        let image = self.cluster.image(&Overlay::version("crash-daemon"))?;
        let file = json!({ "path": "/etc/crash/file", "mode": 0o600, "contents": { "source": "data:,new" } });
        let spec = json!({
            "osImageURL": image.reference,
            "kernelArguments": ["slipway.test=crash"],
            "config": { "ignition": { "version": "3.4.0" }, "storage": { "files": [file] } },
        });
        let target = self.ask("50-crash", &spec).await?;
        self.update(&target, "mcd, with a reboot", true).await?;
        self.hold(&[
            Fact::Booted {
                content: image.content.clone(),
            },
            Fact::Argument("slipway.test=crash".to_owned()),
            Fact::File {
                path: "/etc/crash/file".to_owned(),
                content: "new".to_owned(),
                mode: 0o600,
                owner: "root:root".to_owned(),
            },
        ])
    }

    async fn without_one(&mut self) -> Result<()> {
        let users = json!({ "users": [{ "name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA crash"] }] });
        let spec = json!({ "config": { "ignition": { "version": "3.4.0" }, "passwd": users } });
        let target = self.ask("60-keys", &spec).await?;
        self.update(&target, "mcd, without a reboot", false).await?;
        self.hold(&[Fact::File {
            path: "/home/core/.ssh/authorized_keys.d/ignition".to_owned(),
            content: "ssh-ed25519 AAAA crash\n".to_owned(),
            mode: 0o600,
            owner: "core:core".to_owned(),
        }])
    }

    /// Changes the configuration; the new target.
    async fn ask(&self, name: &str, spec: &Value) -> Result<String> {
        let before = self.cluster.objects().target(POOL).await?;
        self.cluster.configure(name, POOL, spec)?;
        self.cluster.next_target(POOL, &before).await
    }

    async fn update(&mut self, target: &str, way: &'static str, reboots: bool) -> Result<()> {
        let origin = booted(&self.cluster)?;
        let mut at = Some(origin.clone());
        let before = etc(&self.cluster)?;
        let (mut last, mut lives) = (0, 0);
        loop {
            lives += 1;
            let life = self.live(last, lives, target).await?;
            last = life.pid;
            self.tally.saw(way, life.points);
            let node = self.cluster.objects().node(NODE).await?;
            let is_done = objects::is_done_in(&node, target);
            let Some(call) = life.killed_after else {
                if is_done {
                    return Ok(());
                }
                // The host went down, and took it along.
                (at, lives) = (None, 0);
                continue;
            };
            self.tally.count(way, call);
            if self.victim == Victim::Host {
                self.cluster.kill(NODE)?;
            }
            // A host on its way down is neither here nor there.
            let Ok(now) = booted(&self.cluster) else {
                continue;
            };
            if at.replace(now.clone()).is_some_and(|at| at != now) {
                // Killed after its switch, the host booted the other one.
                lives = 0;
            }
            if reboots && now == origin {
                ensure!(
                    !is_done,
                    "it says that it is done, and has not booted the target"
                );
                let differences = host::differences(&before, &etc(&self.cluster)?);
                ensure!(
                    differences.is_empty(),
                    "killed after {call}, the origin changed:\n  {}",
                    differences.join("\n  ")
                );
            }
        }
    }

    /// One life of the daemon, until its point of that number or until the node is Done; `last` was the
    /// process of the one before.
    async fn live(&self, last: i32, number: usize, target: &str) -> Result<Life> {
        let objects = Objects::new(self.cluster.control_plane().client().await?);
        let pid = born(self.cluster.daemon(NODE)?, last).await?;
        let watch = tokio::spawn(end_when_done(objects, target.to_owned(), pid));
        let mut points = 0;
        let mut call = "nothing";
        let ended = tokio::task::block_in_place(|| {
            tracer::attach(pid, &mut |point| {
                points += 1;
                call = point.done.last().map_or("nothing", |call| call.name);
                Ok(if points == number {
                    Order::Kill
                } else {
                    Order::GoOn
                })
            })
        })?;
        watch.abort();
        if let Ok(end) = watch.await {
            end?;
        }
        Ok(Life {
            pid,
            points,
            killed_after: ended.is_killed.then_some(call),
        })
    }

    fn hold(&self, facts: &[Fact]) -> Result<()> {
        for fact in facts {
            let doubt = fact.doubt(self.cluster.host(NODE)?)?;
            ensure!(doubt.is_none(), "{}", doubt.unwrap_or_default());
        }
        Ok(())
    }
}

/// What a daemon came to.
struct Life {
    pid: i32,
    /// Points that it had.
    points: usize,
    /// Its last call, if it was killed at its point.
    killed_after: Option<&'static str>,
}

/// Waits for the next life of the daemon; its process.
async fn born(pod: &Pod, last: i32) -> Result<i32> {
    let until = Instant::now() + BORN_WITHIN;
    loop {
        if let Some(pid) = pod.pid() {
            let pid = pid.as_raw_nonzero().get();
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if pid != last && name.trim_end() == "mcd" {
                return Ok(pid);
            }
        }
        ensure!(Instant::now() < until, "the daemon does not come back");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Ends a life that nobody ends any more.
async fn end_when_done(objects: Objects, target: String, pid: i32) -> Result<()> {
    let until = Instant::now() + LIFE_MAX;
    let pid = Pid::from_raw(pid).context("no process")?;
    loop {
        if objects::is_done_in(&objects.node(NODE).await?, &target) {
            tokio::time::sleep(REST).await;
            // It may have been killed meanwhile.
            kill_process(pid, Signal::TERM).ok();
            return Ok(());
        }
        if Instant::now() > until {
            let says = objects::says(&objects.node(NODE).await?);
            kill_process(pid, Signal::KILL).ok();
            bail!("a daemon that nobody kills does not come to an end: {says}");
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// The running system's `/etc`: what `mcd-os` does meanwhile is elsewhere.
fn etc(cluster: &Cluster) -> Result<BTreeMap<String, String>> {
    let mut found = host::snapshot(cluster.host(NODE)?)?;
    found.retain(|path, _| path.starts_with("/etc"));
    Ok(found)
}

fn booted(cluster: &Cluster) -> Result<DeploymentId> {
    let boots = cluster.host(NODE)?.boots();
    let last = boots.last().context("the host was never booted")?;
    ensure!(last.ended.is_none(), "the host is down");
    Ok(last.deployment.clone())
}
