//! The version operator with a release of real size before a real API server: its first
//! application, an idle pass, and how soon it reports.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use api::ConditionStatus;
use api::config::{ClusterConditionType, ClusterOperator, ClusterVersion, cluster_version};
use futures::TryStreamExt as _;
use jiff::Timestamp;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use lab::audit::{self, Event, Verb};
use lab::control_plane::{ControlPlane, Options, Parts, Process};
use lab::{PATIENCE, manifest, wait};
use serde::de::DeserializeOwned;
use serde_json::json;
use testbed::{Programs, objects};
use tokio::sync::watch;

use crate::figure::{Figure, Unit};
use crate::idle::{count, float};
use crate::memory;
use crate::payload::{self, COMPONENTS, DEFINITIONS, GROUP, MANIFESTS, component};
use crate::traffic::{self, Window};

/// What the operator calls itself.
const PROGRAM: &str = "cvo";

const FIRST: &str = "4.2.0";
const SECOND: &str = "4.2.1";

/// Between two passes.
const INTERVAL_SECS: u64 = 15;

/// What each step may take: many times what it takes.
const LIMIT: Duration = Duration::from_mins(10);

/// Time between two looks at what was seen, short beside what is waited for. Nothing is requested:
/// polls of the API server would take a good part of its time.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// An API server with the operator's own kinds.
struct Server {
    control_plane: Arc<ControlPlane>,
    client: Client,
    dir: PathBuf,
}

/// All figures of the operator. The peer is `kubectl apply --server-side` of the same files, before
/// an API server of its own.
///
/// Errors: a part does not start, or a release is not applied.
pub(crate) async fn measure(programs: &Programs, out: &Path) -> Result<Vec<Figure>> {
    let dir = out.join("version-operator");
    fs::create_dir_all(&dir)?;
    let dir = dir.canonicalize()?;
    let first = dir.join("first");
    let bytes = payload::write(&first, FIRST)?;
    let by_hand = by_kubectl(&dir.join("kubectl"), &first.join("release-manifests")).await?;

    let server = Server::start(&dir.join("cvo")).await?;
    let operators = Api::<ClusterOperator>::all(server.client.clone());
    let versions = Api::<ClusterVersion>::all(server.client.clone());
    let (state, reported) = watch::channel((FIRST, COMPONENTS));
    let (seen_operators, operators_seen) = watch::channel(BTreeMap::new());
    let (seen_versions, seen) = watch::channel(BTreeMap::new());
    let measured = tokio::select! {
        failed = follow(&operators, seen_operators) => match failed? {},
        failed = follow(&versions, seen_versions) => match failed? {},
        failed = report(&operators, operators_seen, reported) => match failed? {},
        measured = applied(&server, programs, &first, &state, &seen) => measured?,
    };
    measured.into_figures(&by_hand, bytes)
}

/// What was measured of the operator.
struct Applied {
    first_ms: f64,
    /// Until all of the release's kinds are served.
    served_ms: f64,
    peak: u64,
    resident: u64,
    idle: IdlePass,
    report_ms: f64,
}

async fn applied(
    server: &Server,
    programs: &Programs,
    first: &Path,
    state: &watch::Sender<(&'static str, usize)>,
    seen: &Seen<ClusterVersion>,
) -> Result<Applied> {
    let versions = Api::<ClusterVersion>::all(server.client.clone());
    let object = || seen.borrow().get(cluster_version::NAME).cloned();
    let is_completed = |version: &str| -> Result<bool> {
        Ok(object().is_some_and(|object| is_completed(&object, version)))
    };
    let new = json!({
        "metadata": { "name": cluster_version::NAME },
        "spec": { "clusterID": "4f1d3c3e-2b3b-4c8e-9c1d-6a3b1e0f9a11" }
    });
    objects::create(&versions, new).await?;
    let began = Instant::now();
    let mut process = server.run(programs, "first", first)?;
    until(&mut process, "the first release is applied", || {
        is_completed(FIRST)
    })
    .await?;
    let first_ms = began.elapsed().as_secs_f64() * 1e3;
    let peak = memory::peak_of(process.id())?;
    let served_ms = server.until_served(began).await?;
    let idle = server.idle_pass(&mut process, "first").await?;
    let resident = memory::of(process.id())?.resident;
    process.stop()?;

    // Only the last operator is missing, until it reports.
    let second = server.dir.join("second");
    payload::write(&second, SECOND)?;
    state.send_replace((SECOND, COMPONENTS - 1));
    let mut process = server.run(programs, "second", &second)?;
    let last = component(COMPONENTS - 1);
    until(&mut process, "the last operator is waited for", || {
        let status = object().and_then(|object| object.status);
        let conditions = status.unwrap_or_default().conditions;
        let is_last = |message: &str| message.contains(&format!("waiting on {last}"));
        Ok(conditions
            .iter()
            .any(|one| one.r#type == ClusterConditionType::Progressing && is_last(&one.message)))
    })
    .await?;
    let began = Instant::now();
    set(&Api::all(server.client.clone()), &last, SECOND).await?;
    until(&mut process, "the second release is applied", || {
        is_completed(SECOND)
    })
    .await?;
    let report_ms = began.elapsed().as_secs_f64() * 1e3;
    Ok(Applied {
        first_ms,
        served_ms,
        peak,
        resident,
        idle,
        report_ms,
    })
}

impl Applied {
    fn into_figures(self, by_hand: &ByHand, bytes: usize) -> Result<Vec<Figure>> {
        let Self {
            first_ms,
            served_ms,
            peak,
            resident,
            idle,
            report_ms,
        } = self;
        let most = idle.requests.iter().max_by_key(|(_, requests)| **requests);
        let most = most.map_or(0, |(_, requests)| *requests);
        Ok(vec![
            Figure::new("cvo_first_apply_ms", first_ms)?
                .beside("kubectl apply --server-side", by_hand.applied_ms, Unit::Ms)
                .beside("until all kinds are served", served_ms, Unit::Ms)
                .beside("by kubectl", by_hand.served_ms, Unit::Ms)
                .beside("manifests", count(MANIFESTS), Unit::Count)
                .beside("definitions", count(DEFINITIONS), Unit::Count)
                .beside("components", count(COMPONENTS), Unit::Count)
                .beside("all", count(bytes), Unit::Bytes),
            Figure::new("cvo_peak_rss", float(peak))?.beside(
                "after an idle pass",
                float(resident),
                Unit::Bytes,
            ),
            Figure::new("cvo_idle_writes", count(idle.writes))?.beside(
                "manifests",
                count(MANIFESTS),
                Unit::Count,
            ),
            Figure::new("cvo_idle_requests_a_kind", count(most))?
                .beside("kinds", count(idle.requests.len()), Unit::Count)
                .beside(
                    "requests",
                    count(idle.requests.values().sum()),
                    Unit::Requests,
                ),
            Figure::new("cvo_report_ms", report_ms)?.beside(
                "components",
                count(COMPONENTS),
                Unit::Count,
            ),
        ])
    }
}

/// What one pass with nothing to do requested.
struct IdlePass {
    writes: usize,
    /// By group and resource; watches are none.
    requests: BTreeMap<(String, String), usize>,
}

impl Server {
    async fn start(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let options = Options {
            parts: Parts::Api,
            dir: Some(dir.to_owned()),
            ..Options::default()
        };
        let start = move || ControlPlane::start(&options);
        let control_plane = tokio::task::spawn_blocking(start).await??;
        let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/cvo/crds");
        let client = control_plane.client().await?;
        manifest::define(&client, &crds).await?;
        let operators = Api::<ClusterOperator>::all(client.clone());
        let versions = Api::<ClusterVersion>::all(client.clone());
        // New definitions are served a little later than they are established.
        wait::until("the operator's kinds are served", PATIENCE, async || {
            let params = ListParams::default();
            let listed = operators.list(&params).await.map(drop);
            let listed = listed.and(versions.list(&params).await.map(drop));
            Ok(listed.map_err(|error| error.to_string()))
        })
        .await?;
        Ok(Self {
            control_plane: Arc::new(control_plane),
            client,
            dir: dir.to_owned(),
        })
    }

    fn run(&self, programs: &Programs, name: &str, release: &Path) -> Result<Process> {
        let arguments = [
            "start".to_owned(),
            format!(
                "--kubeconfig={}",
                self.control_plane.admin_kubeconfig().display()
            ),
            format!("--release-image=registry.example/release@sha256:{name}"),
            format!("--payload={}", release.display()),
            "--leader-elect=false".to_owned(),
            format!("--interval-secs={INTERVAL_SECS}"),
            "--metrics-url=127.0.0.1:0".to_owned(),
        ];
        Process::start(name, &programs.path(PROGRAM)?, arguments, &self.dir)
    }

    /// Milliseconds from `began` until the kinds of all definitions are served. The API server
    /// establishes a definition after it has answered; nothing of the release waits for these.
    async fn until_served(&self, began: Instant) -> Result<f64> {
        let version = format!("{GROUP}/v1");
        wait::until("the release's kinds are served", LIMIT, async || {
            let served = self.client.list_api_group_resources(&version).await;
            let kinds: BTreeSet<String> = served
                .map(|list| list.resources.into_iter().map(|one| one.kind).collect())
                .unwrap_or_default();
            let count = kinds.len();
            Ok(if count == DEFINITIONS {
                Ok(())
            } else {
                Err(count.to_string())
            })
        })
        .await?;
        Ok(began.elapsed().as_secs_f64() * 1e3)
    }

    /// A pass after the one in which the process has read what it applied.
    async fn idle_pass(&self, process: &mut Process, name: &str) -> Result<IdlePass> {
        let log = self.dir.join(format!("{name}.log"));
        let passes = || -> Result<usize> {
            let text = fs::read_to_string(&log).context("cannot read the operator's log")?;
            Ok(text.matches("applied the release").count())
        };
        // One that began before the first was reported may be under way.
        let settled = passes()? + 2;
        until(process, "the operator is settled", || {
            Ok(passes()? >= settled)
        })
        .await?;
        let from = Timestamp::now();
        until(process, "another pass ends", || Ok(passes()? > settled)).await?;
        let window = Window {
            from,
            until: Timestamp::now(),
        };
        let events = audit::load(&self.control_plane.audit_log())?;
        let seen = traffic::requests(&events, PROGRAM, &window);
        let is_read = |event: &Event| matches!(event.verb, Verb::Get | Verb::List | Verb::Watch);
        let writes = seen.iter().filter(|event| !is_read(event)).count();
        let mut requests = BTreeMap::new();
        let sent = seen.iter().filter(|event| event.verb != Verb::Watch);
        for object in sent.filter_map(|event| event.object.as_ref()) {
            let kind = (object.api_group.clone(), object.resource.clone());
            *requests.entry(kind).or_default() += 1;
        }
        Ok(IdlePass { writes, requests })
    }
}

/// Milliseconds that kubectl takes for the same files.
struct ByHand {
    applied_ms: f64,
    /// Until all of the release's kinds are served.
    served_ms: f64,
}

async fn by_kubectl(dir: &Path, manifests: &Path) -> Result<ByHand> {
    let server = Server::start(dir).await?;
    let control_plane = Arc::clone(&server.control_plane);
    let manifests = manifests.to_str().context("a path of text")?.to_owned();
    let apply = move || {
        let began = Instant::now();
        control_plane.kubectl(&["apply", "--server-side", "-f", &manifests])?;
        anyhow::Ok((began, began.elapsed().as_secs_f64() * 1e3))
    };
    let (began, applied_ms) = tokio::task::spawn_blocking(apply).await??;
    let served_ms = server.until_served(began).await?;
    Ok(ByHand {
        applied_ms,
        served_ms,
    })
}

/// Objects of a kind by name.
type Seen<K> = watch::Receiver<BTreeMap<String, K>>;

/// Follows all objects of a kind by one watch. Ends only by an error.
async fn follow<K>(api: &Api<K>, seen: watch::Sender<BTreeMap<String, K>>) -> Result<Infallible>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    // What is there comes first.
    let mut version = "0".to_owned();
    loop {
        let params = WatchParams::default();
        let mut events = pin!(api.watch(&params, &version).await?);
        while let Some(event) = events.try_next().await? {
            let (object, is_there) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
                WatchEvent::Deleted(object) => (object, false),
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(error) => bail!("the watch ended: {error:?}"),
            };
            version = object.resource_version().unwrap_or_default();
            seen.send_modify(|all| {
                let name = object.name_any();
                if is_there {
                    all.insert(name, object);
                } else {
                    all.remove(&name);
                }
            });
        }
    }
}

/// Reports as all operators do whose number is below the one given, once they are there, with the
/// version given. Ends only by an error.
async fn report(
    operators: &Api<ClusterOperator>,
    mut operators_seen: Seen<ClusterOperator>,
    mut state: watch::Receiver<(&'static str, usize)>,
) -> Result<Infallible> {
    let mut reported = BTreeSet::new();
    loop {
        let (version, limit) = *state.borrow_and_update();
        let reporting: Vec<String> = {
            let operators_seen = operators_seen.borrow_and_update();
            let all = (0..limit).map(component);
            all.filter(|name| operators_seen.contains_key(name))
                .collect()
        };
        for name in reporting {
            if reported.insert((name.clone(), version)) {
                set(operators, &name, version).await?;
            }
        }
        tokio::select! {
            changed = operators_seen.changed() => changed?,
            changed = state.changed() => changed?,
        }
    }
}

/// Reports as one operator that runs this version.
async fn set(operators: &Api<ClusterOperator>, name: &str, version: &str) -> Result<()> {
    let condition = |r#type: &str, status: &str| json!({ "type": r#type, "status": status, "lastTransitionTime": Timestamp::now() });
    let status = json!({
        "conditions": [
            condition("Available", "True"), condition("Progressing", "False"),
            condition("Degraded", "False")
        ],
        "versions": [{ "name": "operator", "version": version }]
    });
    objects::set_status(operators, name, &status).await
}

/// Whether this version is applied and reported as such.
fn is_completed(object: &ClusterVersion, version: &str) -> bool {
    let status = object.status.clone().unwrap_or_default();
    let newest = status.history.first();
    let is_completed =
        newest.is_some_and(|entry| entry.version == version && entry.completion_time.is_some());
    let progressing = status
        .conditions
        .iter()
        .find(|one| one.r#type == ClusterConditionType::Progressing);
    is_completed && progressing.is_some_and(|one| one.status == ConditionStatus::False)
}

/// Polls until something is so, or the operator ends.
async fn until(
    process: &mut Process,
    what: &str,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    while !is_so()? {
        process.check()?;
        if Instant::now() >= deadline {
            bail!("not within {} s: {what}", LIMIT.as_secs());
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    Ok(())
}
