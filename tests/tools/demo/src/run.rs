//! The demo, from an empty lab to the verdict.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::annotation;
use display::live::{LiveHeading, LiveNode};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use lab::host::Host;
use observer::host::Fact;
use observer::rollout::{self, Rollout};
use testbed::objects::{self, Objects};
use testbed::{CONTROL_PLANE_POOL, Cluster, Image, NodeSpec, Programs, Testbed, logs};

use crate::judge;
use crate::live::Screen;
use crate::machines;
use crate::managed::Managed;
use crate::rest;
use crate::rolls::{self, Roll};
use crate::timeline::Timeline;
use crate::update::{self, Ask, Updated};
use crate::workload;

/// How long one roll may take.
pub(crate) const ROLL_WITHIN: Duration = Duration::from_mins(4);

/// Time between two polls at the nodes.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(250);

/// Pool of the workers, with which their names begin.
pub(crate) const WORKERS: &str = "worker";

/// Pool of the control plane's nodes, with which their names begin.
pub(crate) const CONTROL_PLANE: &str = CONTROL_PLANE_POOL;

/// Nodes of each pool.
const NODES: [(&str, usize); 2] = [(WORKERS, 3), (CONTROL_PLANE, 2)];

/// What the demo shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Course {
    /// So many of the workers' rolls; an administrator asks for the release after the third.
    Rolls(usize),
    /// One roll of the workers, then the release by a managed upgrade.
    Managed,
}

impl Course {
    fn rolls(self) -> Vec<Roll> {
        match self {
            Self::Rolls(count) => rolls::all().into_iter().take(count).collect(),
            Self::Managed => vec![rolls::before_managed()],
        }
    }

    /// Whether the release follows.
    fn has_release(self) -> bool {
        match self {
            Self::Rolls(count) => count >= rolls::all().len(),
            Self::Managed => true,
        }
    }
}

/// Runs the demo; whether every node is proven updated and every law held.
pub(crate) async fn run(
    programs: &Programs,
    out: &Path,
    record: Option<&Path>,
    course: Course,
) -> Result<bool> {
    let mut screen = Screen::new();
    logs::empty(out)?;
    let machine = match course {
        Course::Managed => Some(machines::host()),
        Course::Rolls(_) => None,
    };
    let mut cluster = start(programs, out, &mut screen, machine).await?;
    let mut planned = Vec::new();
    for roll in course.rolls() {
        let image = roll.os.as_ref().map(|os| cluster.image(os)).transpose()?;
        planned.push((roll, image));
    }
    wait_for_pods(cluster.objects()).await?;

    let mut ran = Vec::new();
    let mut running = None;
    for (number, (roll, image)) in (1..).zip(planned) {
        running = image.or(running);
        let image = running.as_ref().context("the first roll brings an image")?;
        let went = one_roll(&cluster, &mut screen, number, WORKERS, &roll, image).await?;
        let took = clock(went.end.duration_since(went.start));
        let became = if went.doubts.is_empty() {
            "every node is there"
        } else {
            "given up"
        };
        screen.say(&format!(
            "roll {number}, {}: {became} after {took}",
            roll.title
        ))?;
        let is_over = !went.doubts.is_empty();
        ran.push(went);
        // What led there is judged all the same.
        if is_over {
            break;
        }
    }

    let of_workers = Rollout {
        record: cluster.record()?.of_nodes(WORKERS),
        rolls: ran,
        workload: judge::workload(),
        is_over: true,
    };
    if let Some(record) = record {
        of_workers.keep(record)?;
    }
    let mut updated = None;
    if course.has_release() && of_workers.rolls.iter().all(|roll| roll.doubts.is_empty()) {
        let number = of_workers.rolls.len() + 1;
        let parts = (programs, out);
        updated = Some(roll_release(&mut cluster, parts, &mut screen, number, course).await?);
    }
    let is_updated = updated.is_some();
    let recorded = cluster.record()?;
    let judged = judge::Judged::of(of_workers.rolls, updated, &recorded);
    let timeline = judged.timeline();
    write(out, &timeline)?;
    report(&mut screen, out, &judged.breaches, &timeline)?;
    if is_updated {
        let picture = out.join("timeline.svg");
        draw(&cluster, programs, &picture)?;
        screen.say(&format!("the update as a picture: {}", picture.display()))?;
    }
    Ok(judged.breaches.is_empty())
}

/// Updates the cluster to another release.
async fn roll_release(
    cluster: &mut Cluster,
    (programs, out): (&Programs, &Path),
    screen: &mut Screen,
    number: usize,
    course: Course,
) -> Result<Updated> {
    let before = course.rolls().pop().context("a roll comes before")?;
    let roll = match course {
        Course::Rolls(_) => rolls::release(before),
        Course::Managed => rolls::managed_release(before),
    };
    screen.say("making images of the release's operating systems")?;
    let os = roll.os.as_ref().context("the roll brings an image")?;
    let (before, image) = (cluster.image(&rolls::third_os())?, cluster.image(os)?);
    let images = (&before, &roll, &image);
    rest::wait_built(programs, screen).await?;
    let releases = update::install(cluster, programs, out, screen, images).await?;
    let mut managed = None;
    if let Course::Managed = course {
        screen.say(
            "starting the managed upgrade operator, the config server, the update service, \
             Prometheus and Alertmanager; the machine API is played",
        )?;
        managed = Some(Managed::start(cluster, programs, out, &releases).await?);
    }
    let ask = Ask {
        number,
        releases: &releases,
        managed: managed.as_mut(),
    };
    let went = update::roll(cluster, screen, ask, (&roll, &image)).await?;
    if let Some(managed) = &managed {
        screen.say(&format!(
            "reported: {}",
            managed.reported().await?.join(", ")
        ))?;
    }
    screen.say(&format!(
        "roll {number}, {}: over after {}",
        roll.title,
        clock(went.workers.end.duration_since(went.workers.start))
    ))?;
    Ok(went)
}

/// Starts three workers and two nodes of the control plane, with the workload. `machine` is a host
/// that may join later.
async fn start(
    programs: &Programs,
    out: &Path,
    screen: &mut Screen,
    machine: Option<NodeSpec>,
) -> Result<Cluster> {
    screen
        .say("starting an API server, a registry, five hosts and the components in their pods")?;
    let nodes = nodes().chain(machine);
    let cluster = testbed(programs, out, nodes).start().await?;
    screen.say("starting pods, making images of the next operating systems")?;
    cluster.apply(workload::OBJECTS).await?;
    Ok(cluster)
}

/// The cluster to be, with these nodes.
pub(crate) fn testbed(
    programs: &Programs,
    out: &Path,
    nodes: impl Iterator<Item = NodeSpec>,
) -> Testbed {
    let testbed = Testbed::new(out)
        .programs(programs)
        .control_plane_os(rolls::third_os());
    nodes.fold(testbed, Testbed::node)
}

/// Three workers and two nodes of the control plane.
pub(crate) fn nodes() -> impl Iterator<Item = NodeSpec> {
    let node = |(pool, number)| {
        let name = format!("{pool}-{number}");
        if pool == CONTROL_PLANE {
            return NodeSpec::control_plane(&name);
        }
        let node = NodeSpec::new(&name).containers();
        node.static_pod(workload::STATIC_POD)
    };
    let of_pool = |(pool, count)| (0..count).map(move |number| (pool, number));
    NODES.into_iter().flat_map(of_pool).map(node)
}

/// Changes the configuration and shows the nodes until all are in it, then checks the hosts. A roll
/// that does not come to its end has a doubt.
async fn one_roll(
    cluster: &Cluster,
    screen: &mut Screen,
    number: usize,
    pool: &str,
    roll: &Roll,
    image: &Image,
) -> Result<rollout::Roll> {
    let title = format!("Roll {number}: {}", roll.title);
    let before = cluster.objects().target(pool).await?;
    let start = Timestamp::now();
    cluster
        .configure(
            &format!("50-demo-{pool}"),
            pool,
            &roll.spec(&image.reference),
        )
        .await?;

    let deadline = tokio::time::Instant::now() + ROLL_WITHIN;
    let mut late = None;
    let config = loop {
        let config = cluster.objects().target(pool).await?;
        let mut nodes = cluster.objects().nodes().await?;
        let heading = LiveHeading {
            title: title.clone(),
            notes: vec![ready(cluster).await?],
        };
        let shown = nodes.iter().map(|(name, node)| live_node(name, node));
        screen.show(&heading, shown.collect(), Timestamp::now())?;
        nodes.retain(|name, _| name.starts_with(pool));
        if config != before
            && nodes
                .values()
                .all(|node| objects::is_done_in(node, &config))
        {
            break config;
        }
        if tokio::time::Instant::now() >= deadline {
            let said = nodes
                .iter()
                .map(|(name, node)| format!("\n  {name}: {}", objects::says(node)));
            late = Some(format!(
                "not every node is there within {} s:{}",
                ROLL_WITHIN.as_secs(),
                said.collect::<String>()
            ));
            break config;
        }
        tokio::time::sleep(POLL_EVERY).await;
    };
    if late.is_none()
        && let Err(error) = wait_for_pods(cluster.objects()).await
    {
        late = Some(format!("{error:#}"));
    }
    let end = Timestamp::now();

    let mut facts = roll.facts.clone();
    facts.push(Fact::Booted {
        content: image.content.clone(),
    });
    Ok(rollout::Roll {
        title: roll.title.to_owned(),
        config,
        content: image.content.clone(),
        reboots: roll.os.is_some(),
        start,
        end,
        doubts: match late {
            Some(late) => vec![late],
            None => doubts(cluster, pool, &facts)?,
        },
    })
}

/// How many replicas of the workload are ready, as a note.
pub(crate) async fn ready(cluster: &Cluster) -> Result<String> {
    let pods = cluster.objects().pods(workload::LABEL).await?;
    let ready = pods.iter().filter(|pod| objects::is_ready(pod)).count();
    Ok(format!("ready: {ready} of {} replicas", workload::REPLICAS))
}

/// What speaks against the facts, on each host of a pool.
pub(crate) fn doubts(cluster: &Cluster, pool: &str, facts: &[Fact]) -> Result<Vec<String>> {
    let mut doubts = Vec::new();
    let hosts = cluster.hosts().iter();
    // A machine that was added for a while is gone.
    let stays = |host: &&Host| host.name().starts_with(pool) && host.name() != machines::EXTRA;
    for host in hosts.filter(stays) {
        for fact in facts {
            let doubt = fact.doubt(host)?;
            doubts.extend(doubt.map(|doubt| format!("{}: {doubt}", host.name())));
        }
    }
    Ok(doubts)
}

pub(crate) fn live_node(name: &str, node: &Node) -> LiveNode {
    LiveNode {
        name: name.to_owned(),
        pool: String::new(),
        phase: objects::annotation(node, annotation::PHASE).to_owned(),
        waits_for: objects::annotation(node, annotation::WAITS_FOR).to_owned(),
        reason: String::new(),
        since: objects::annotation(node, annotation::SINCE).parse().ok(),
        is_out: !objects::is_in_service(node),
    }
}

/// Waits until all replicas are there, and the pods of each node: of the DaemonSet, with an
/// emptyDir, and static.
pub(crate) async fn wait_for_pods(objects: &Objects) -> Result<()> {
    let wanted = [
        ("web", workload::REPLICAS),
        ("agent", 5),
        ("scratch", 3),
        ("static", 3),
    ];
    objects.pods_ready(&wanted).await
}

#[expect(
    clippy::disallowed_methods,
    reason = "what a run leaves is made again by the next"
)]
fn write(out: &Path, timeline: &Timeline) -> Result<()> {
    let timeline = serde_json::to_string_pretty(timeline)?;
    fs::write(out.join("timeline.json"), timeline + "\n")?;
    Ok(())
}

/// Draws the update to the release, as an administrator does.
#[expect(clippy::disallowed_methods, reason = "the program that draws updates")]
fn draw(cluster: &Cluster, programs: &Programs, picture: &Path) -> Result<()> {
    let output = Command::new(programs.path("slipway")?)
        .args(["upgrade", "timeline", "--svg"])
        .arg(picture)
        .env("KUBECONFIG", cluster.control_plane().admin_kubeconfig())
        .output()
        .context("cannot run slipway")?;
    ensure!(
        output.status.success(),
        "slipway upgrade timeline failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// `m:ss`
fn clock(length: SignedDuration) -> String {
    let secs = length.as_secs();
    format!("{}:{:02}", secs / 60, secs % 60)
}

fn report(screen: &mut Screen, out: &Path, breaches: &[String], timeline: &Timeline) -> Result<()> {
    for breach in breaches {
        screen.say(breach)?;
    }
    screen.say(&format!(
        "most nodes out at once {}, fewest ready replicas {}, bytes fetched while out {}",
        timeline.max_out, timeline.min_ready_replicas, timeline.fetched_while_out_bytes
    ))?;
    screen.say(&format!(
        "timeline: {}",
        out.join("timeline.json").display()
    ))?;
    screen.say(if timeline.proven {
        "every node is proven updated, and every law held"
    } else {
        "NOT proven"
    })?;
    Ok(())
}
