//! The last roll: the cluster is updated to another release, from the change on ClusterVersion to
//! the OS of all nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::config::{ClusterOperator, ClusterVersion, ClusterVersionStatus};
use display::live::LiveHeading;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use observer::host::Fact;
use observer::release::{self, ReleaseUpdate};
use observer::rollout;
use serde_json::json;
use testbed::objects;
use testbed::{Cluster, Image, Programs, until};

use crate::levels::{self, LevelRow};
use crate::live::Screen;
use crate::managed::Managed;
use crate::releases::{DemoRelease, OPERATORS, Releases};
use crate::rolls::Roll;
use crate::run::{self, CONTROL_PLANE, WORKERS};
use crate::steps::StepSpan;

/// Namespace and name of the version operator.
const VERSION_OPERATOR: (&str, &str) = ("openshift-cluster-version", "cluster-version-operator");

/// Those of the controller.
const CONTROLLER: (&str, &str) = (
    "openshift-machine-config-operator",
    "machine-config-controller",
);

/// What an installer leaves besides `deploy/cvo`.
const INSTALLED: &str = include_str!("objects/installed.yaml");

/// How the update went.
pub(crate) struct Updated {
    pub(crate) workers: rollout::Roll,
    pub(crate) control_plane: rollout::Roll,
    pub(crate) release: ReleaseUpdate,
    /// Of the managed upgrade, where one caused it.
    pub(crate) steps: Vec<StepSpan>,
}

/// How the second release is asked for.
pub(crate) struct Ask<'a> {
    /// Of the roll.
    pub(crate) number: usize,
    pub(crate) releases: &'a Releases,
    /// Else an administrator changes ClusterVersion.
    pub(crate) managed: Option<&'a mut Managed>,
}

/// How long the roll may take where a managed upgrade asks for it: besides the roll itself two
/// minutes until it starts, and a machine that comes and goes.
const MANAGED_WITHIN: Duration = run::ROLL_WITHIN.saturating_mul(3);

/// Makes the releases, and has the version operator apply the first: the cluster is at it. Then no
/// MachineConfig names an OS: nodes run the release's, `os`, which changes nothing.
pub(crate) async fn install(
    cluster: &Cluster,
    programs: &Programs,
    out: &std::path::Path,
    screen: &mut Screen,
    (os, last, next): (&Image, &Roll, &Image),
) -> Result<Releases> {
    screen.say("making and signing two releases, installing the first")?;
    let references = [os.reference.as_str(), &next.reference];
    let releases = Releases::make(cluster, programs, out, references, None).await?;
    start_at(cluster, &releases.first).await?;
    let none = json!({ "osImageURL": "" });
    cluster.configure("00-worker", WORKERS, &none).await?;
    cluster.configure("00-master", CONTROL_PLANE, &none).await?;
    cluster
        .configure("50-demo-worker", WORKERS, &last.spec(""))
        .await?;
    Ok(releases)
}

/// Does what an installer does for a version operator, and waits until it has applied its release.
pub(crate) async fn start_at(cluster: &Cluster, release: &DemoRelease) -> Result<()> {
    let authority = String::from_utf8(cluster.control_plane().ca_pem().to_vec())?;
    cluster
        .publish_certificates(&[&authority, &authority], &[], false)
        .await?;
    for file in ["crds/clusteroperators.yaml", "crds/clusterversions.yaml"] {
        cluster.apply(&deployed(file)?).await?;
    }
    let versions = versions(cluster);
    until("ClusterVersion to be served", testbed::SOON, async || {
        let answer = versions.list(&ListParams::default()).await;
        Ok(answer.map(drop).map_err(|error| error.to_string()))
    })
    .await?;
    cluster.apply(INSTALLED).await?;
    for file in [
        "namespace.yaml",
        "admin-gates.yaml",
        "rbac.yaml",
        "deployment.yaml",
    ] {
        let text = deployed(file)?.replace("{{.ReleaseImage}}", &release.image);
        cluster.apply(&text).await?;
    }
    completed(cluster, release).await
}

/// A file of `deploy/cvo`.
fn deployed(file: &str) -> Result<String> {
    let path = testbed::workspace().join("deploy/cvo").join(file);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn versions(cluster: &Cluster) -> Api<ClusterVersion> {
    Api::all(cluster.objects().client().clone())
}

/// Waits until a release is completed, and every operator at it: a first release does not wait for
/// versions.
async fn completed(cluster: &Cluster, release: &DemoRelease) -> Result<()> {
    let versions = versions(cluster);
    let operators = Api::<ClusterOperator>::all(cluster.objects().client().clone());
    let what = format!("release {} to be completed", release.version);
    until(&what, testbed::DONE_WITHIN, async || {
        let (status, operators) = match reported(&versions, &operators).await {
            Ok(reported) => reported,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let is_late = |operator: &&ClusterOperator| !levels::is_at(operator, release.version);
        Ok(match operators.iter().find(is_late) {
            None if levels::is_completed(&status, release.version) => Ok(()),
            None => Err(levels::progress(&status).to_owned()),
            Some(late) => {
                let name = late.metadata.name.as_deref().unwrap_or_default();
                Err(format!("ClusterOperator {name} is not at it"))
            }
        })
    })
    .await
}

/// Asks for the second release and shows run levels and nodes until it is completed and all nodes
/// run its OS, then checks pods and hosts.
pub(crate) async fn roll(
    cluster: &mut Cluster,
    screen: &mut Screen,
    mut ask: Ask<'_>,
    (roll, image): (&Roll, &Image),
) -> Result<Updated> {
    let to = &ask.releases.second;
    let start = Timestamp::now();
    let mut release = ask.releases.update(start);
    let (targets, mut late) = follow(cluster, screen, &mut ask, &release).await?;
    if late.is_none()
        && let Err(error) = run::wait_for_pods(cluster.objects()).await
    {
        late = Some(format!("{error:#}"));
    }
    let end = Timestamp::now();

    let mut facts = roll.facts.clone();
    facts.push(Fact::Booted {
        content: image.content.clone(),
    });
    let found = |pool: &str, facts: &[Fact]| match &late {
        Some(late) => Ok(vec![late.clone()]),
        None => run::doubts(cluster, pool, facts),
    };
    let of_pool = |pool: &str, doubts| rollout::Roll {
        title: roll.title.to_owned(),
        config: targets.get(pool).cloned().unwrap_or_default(),
        content: image.content.clone(),
        reboots: true,
        start,
        end,
        doubts,
    };
    let booted = facts.last().cloned();
    let mut of_control_plane = found(CONTROL_PLANE, booted.as_slice())?;
    let mut steps = Vec::new();
    if late.is_none() {
        of_control_plane.extend(pods_elsewhere(cluster, to).await?);
        of_control_plane.extend(undrained(cluster, start)?);
    }
    if let Some(managed) = &ask.managed {
        steps = managed.steps();
        let commenced = steps.iter().find(|step| step.step == "CommenceUpgrade");
        release.start = commenced.map_or(start, |step| step.start);
        of_control_plane.extend(managed.doubts().await?);
    }
    Ok(Updated {
        workers: of_pool(WORKERS, found(WORKERS, &facts)?),
        control_plane: of_pool(CONTROL_PLANE, of_control_plane),
        release,
        steps,
    })
}

/// Asks for the release, and shows run levels and nodes until all is there; the targets of the
/// pools then, and what was late.
async fn follow(
    cluster: &mut Cluster,
    screen: &mut Screen,
    ask: &mut Ask<'_>,
    release: &ReleaseUpdate,
) -> Result<(BTreeMap<&'static str, String>, Option<String>)> {
    let (from, to) = (ask.releases.first.version, &ask.releases.second);
    let before = targets(cluster).await?;
    let versions = versions(cluster);
    let within = if let Some(managed) = &mut ask.managed {
        managed.schedule(to).await?;
        MANAGED_WITHIN
    } else {
        let desired = json!({ "version": to.version, "image": to.image });
        let patch = Patch::Merge(json!({ "spec": { "desiredUpdate": desired } }));
        let params = PatchParams::default();
        versions.patch("version", &params, &patch).await?;
        run::ROLL_WITHIN
    };
    let operators = Api::<ClusterOperator>::all(cluster.objects().client().clone());
    let deadline = tokio::time::Instant::now() + within;
    loop {
        // A definition that is applied again is not served for a moment.
        let Ok((status, reports)) = reported(&versions, &operators).await else {
            ensure!(
                tokio::time::Instant::now() < deadline,
                "ClusterVersion and ClusterOperators cannot be read"
            );
            tokio::time::sleep(run::POLL_EVERY).await;
            continue;
        };
        let targets = targets(cluster).await?;
        let nodes = cluster.objects().nodes().await?;
        let now = Timestamp::now();
        let mut remarks = vec![run::ready(cluster).await?, String::new()];
        let mut is_over = true;
        if let Some(managed) = &mut ask.managed {
            managed.advance(cluster).await?;
            remarks.extend(managed.notes(now)?);
            is_over = managed.is_over();
        }
        let rows = levels::rows(release, &status, &reports);
        remarks.extend(rows.iter().map(LevelRow::note));
        let number = ask.number;
        let heading = LiveHeading {
            title: format!("Roll {number}: release {from} to {}", to.version),
            notes: remarks,
        };
        let shown = nodes.iter().map(|(name, node)| run::live_node(name, node));
        screen.show(&heading, shown.collect(), now)?;
        let is_late = |(name, node): (&String, &Node)| {
            let of_pool = |(pool, target): (&&str, &String)| {
                name.starts_with(pool)
                    && (before.get(pool) == Some(target) || !objects::is_done_in(node, target))
            };
            targets.iter().any(of_pool)
        };
        let is_over = is_over && levels::is_completed(&status, to.version);
        if is_over && !nodes.iter().any(is_late) {
            return Ok((targets, None));
        }
        if tokio::time::Instant::now() >= deadline {
            let says =
                |(name, node): (&String, &Node)| format!("\n  {name}: {}", objects::says(node));
            let late = format!(
                "the release is not there within {} s: {}{}",
                within.as_secs(),
                levels::progress(&status),
                nodes.iter().map(says).collect::<String>()
            );
            return Ok((targets, Some(late)));
        }
        tokio::time::sleep(run::POLL_EVERY).await;
    }
}

/// What ClusterVersion and all ClusterOperators say.
async fn reported(
    versions: &Api<ClusterVersion>,
    operators: &Api<ClusterOperator>,
) -> kube::Result<(ClusterVersionStatus, Vec<ClusterOperator>)> {
    let version = versions.get("version").await?;
    let operators = operators.list(&ListParams::default()).await?;
    Ok((version.status.unwrap_or_default(), operators.items))
}

/// Targets of both pools.
async fn targets(cluster: &Cluster) -> Result<BTreeMap<&'static str, String>> {
    let mut targets = BTreeMap::new();
    for pool in [WORKERS, CONTROL_PLANE] {
        targets.insert(pool, cluster.objects().target(pool).await?);
    }
    Ok(targets)
}

/// Pods of the release's components that do not run its images.
async fn pods_elsewhere(cluster: &Cluster, release: &DemoRelease) -> Result<Vec<String>> {
    let images: BTreeSet<String> = release.images().collect();
    let small = OPERATORS
        .iter()
        .map(|operator| format!("demo-{}", operator.name));
    let namespaces = [VERSION_OPERATOR.0, CONTROLLER.0].map(ToOwned::to_owned);
    let mut doubts = Vec::new();
    for namespace in namespaces.into_iter().chain(small) {
        let pods = Api::<Pod>::namespaced(cluster.objects().client().clone(), &namespace);
        let pods = pods.list(&ListParams::default()).await?.items;
        if !pods.iter().any(objects::is_ready) {
            doubts.push(format!("no pod of namespace {namespace} is ready"));
        }
        let others = pods.iter().filter(|pod| !release::is_on(&images, pod));
        doubts.extend(others.map(|pod| {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            format!(
                "pod {namespace}/{name} does not run an image of release {}",
                release.version
            )
        }));
    }
    Ok(doubts)
}

/// What was not drained in the middle of the update, of what works on it.
fn undrained(cluster: &Cluster, since: Timestamp) -> Result<Vec<String>> {
    let events = cluster.events()?;
    let stayed = [VERSION_OPERATOR, CONTROLLER].into_iter();
    let stayed = stayed.filter(|of| !release::was_evicted(&events, *of, since));
    Ok(stayed
        .map(|(namespace, name)| format!("no pod of {namespace}/{name} was drained"))
        .collect())
}
