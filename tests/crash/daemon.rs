//! The daemon is killed at every point of an update, and started again by its kubelet each time.
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
use serde_json::json;
use tests::cluster::objects::{self, Objects};
use tests::cluster::{Binaries, Cluster, NodeSpec};
use tests::observer::host::{self, Fact};

use super::points::Tally;
use super::tracer::{self, Order, Point};

const NODE: &str = "worker-0";
const POOL: &str = "worker";

/// How long a life may last. One without a kill lasts until the node is Done.
const LIFE_MAX: Duration = Duration::from_mins(3);

/// How long what a kubelet starts again may take to be there; a reboot may be under way.
const BORN_WITHIN: Duration = Duration::from_mins(1);

/// How long a node that is Done is left to what the daemon does after that.
const REST: Duration = Duration::from_secs(2);

/// Packets in a row are one request, or a few: each so many of them is a point.
const PACKETS: usize = 4;

/// Kills the daemon all the way through an update with a reboot and one without; says how often.
pub(crate) async fn run(logs: &Path) -> Result<String> {
    let cluster = Cluster::start(&Binaries::built()?, logs, "", &[NodeSpec::new(NODE)]).await?;
    let mut tally = Tally::default();

    let before = cluster.objects().target(POOL).await?;
    let image = cluster.image(&Overlay::version("crash-daemon"))?;
    let file =
        json!({ "path": "/etc/crash/file", "mode": 0o600, "contents": { "source": "data:,new" } });
    let spec = json!({
        "osImageURL": image.reference,
        "kernelArguments": ["slipway.test=crash"],
        "config": { "ignition": { "version": "3.4.0" }, "storage": { "files": [file] } },
    });
    cluster.configure("50-crash", POOL, &spec)?;
    let target = cluster.next_target(POOL, &before).await?;
    update(&cluster, &target, "mcd, with a reboot", &mut tally).await?;
    let facts = [
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
    ];
    hold(&cluster, &facts)?;

    let users =
        json!({ "users": [{ "name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA crash"] }] });
    let spec = json!({ "config": { "ignition": { "version": "3.4.0" }, "passwd": users } });
    cluster.configure("60-keys", POOL, &spec)?;
    let live = cluster.next_target(POOL, &target).await?;
    update(&cluster, &live, "mcd, without a reboot", &mut tally).await?;
    hold(
        &cluster,
        &[Fact::File {
            path: "/home/core/.ssh/authorized_keys.d/ignition".to_owned(),
            content: "ssh-ed25519 AAAA crash\n".to_owned(),
            mode: 0o600,
            owner: "core:core".to_owned(),
        }],
    )?;
    Ok(tally.report("killed daemons"))
}

async fn update(
    cluster: &Cluster,
    target: &str,
    way: &'static str,
    tally: &mut Tally,
) -> Result<()> {
    let origin = booted(cluster)?;
    let reboots = way.contains("with a");
    let before = etc(cluster)?;
    let (mut last, mut lives) = (0, 0);
    loop {
        lives += 1;
        let pid = born(cluster.daemon(NODE)?, last).await?;
        last = pid;
        let objects = Objects::new(cluster.control_plane().client().await?);
        let watch = tokio::spawn(end_when_done(objects, target.to_owned(), pid));
        let (mut all, mut points, mut packets) = (0, 0, 0);
        let mut call = "nothing";
        let ended = tokio::task::block_in_place(|| {
            tracer::attach(pid, &mut |point| {
                all += 1;
                if !is_tried(point, &mut packets) {
                    return Ok(Order::GoOn);
                }
                points += 1;
                call = point.done.last().map_or("nothing", |call| call.name);
                Ok(if points == lives {
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
        let node = cluster.objects().node(NODE).await?;
        let is_done = objects::is_done_in(&node, target);
        tally.saw(way, all);
        if !ended.is_killed {
            if is_done {
                return Ok(());
            }
            // The host went down, and took it along.
            lives = 0;
            continue;
        }
        tally.count(way, call);
        // A host on its way down is neither here nor there.
        let Ok(now) = booted(cluster) else { continue };
        if reboots && now == origin {
            ensure!(
                !is_done,
                "it says that it is done, and has not booted the target"
            );
            let differences = host::differences(&before, &etc(cluster)?);
            ensure!(
                differences.is_empty(),
                "killed after {call}, the origin changed:\n  {}",
                differences.join("\n  ")
            );
        }
    }
}

/// Whether a point is one of those that are tried.
fn is_tried(point: &Point<'_>, packets: &mut usize) -> bool {
    if point.done.iter().any(|call| !call.name.starts_with("send")) {
        *packets = 0;
        return true;
    }
    *packets += 1;
    *packets % PACKETS == 1
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

fn hold(cluster: &Cluster, facts: &[Fact]) -> Result<()> {
    for fact in facts {
        let doubt = fact.doubt(cluster.host(NODE)?)?;
        ensure!(doubt.is_none(), "{}", doubt.unwrap_or_default());
    }
    Ok(())
}
