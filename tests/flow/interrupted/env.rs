//! A cluster of one node, and what scenarios do with it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::annotation;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use lab::audit::{self, Verb, nodes};
use lab::host::{Boot, Host};
use lab::tree::Overlay;
use nix::sys::signal::Signal;
use observer::host::{self, Fact};
use serde_json::{Value, json};
use testbed::config::Config;
use testbed::logs;
use testbed::objects::{self, budget, deployment};
use testbed::{Cluster, DONE_WITHIN, Image, NodeSpec, SOON, Testbed, until};

use crate::hold::{Hold, holdable};

pub(crate) const NODE: &str = "worker-0";
pub(crate) const POOL: &str = "worker";

/// The daemon's name in its user agent.
const DAEMON: &str = "mcd/";

/// Name of the MachineConfig that is changed.
const CONFIG: &str = "60-change";

/// How long a node is left to what must not happen, after all is recorded that could lead to it:
/// many times what a daemon takes from a decision to its first request.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// Size of an image, and the speed at which it takes a minute to fetch.
pub(crate) const BALLAST_BYTES: u64 = 30 << 20;
const SLOW_KBIT: u32 = 4_000;

/// A cluster of one node, and the configuration that it started in.
pub(crate) struct Env {
    pub(crate) cluster: Cluster,
    /// The initial configuration of the node.
    pub(crate) origin: String,
    is_slow: Cell<bool>,
}

impl Env {
    pub(crate) async fn start(test: &str) -> Result<Self> {
        let testbed =
            Testbed::new(logs::folder("interrupted", test)).objects(&deployment("held", 1));
        let node = holdable(NodeSpec::new(NODE));
        let cluster = testbed.node(node).start().await?;
        let origin = cluster.objects().target(POOL).await?;
        Ok(Self {
            cluster,
            origin,
            is_slow: Cell::new(false),
        })
    }

    /// Reverts all that a scenario may have set, and waits until the node is Done in its initial
    /// configuration.
    pub(crate) async fn restore(&self) -> Result<()> {
        for hold in Hold::ALL {
            hold.let_go(self.host()?)?;
        }
        self.no_budget()?;
        self.in_control_plane(false).await?;
        self.of_topology(None).await?;
        self.layered_in(None).await?;
        self.pause(false).await?;
        self.cluster.remove_config(CONFIG).await?;
        // Only then does it stop a fetch.
        self.node_is("assigned its origin", DONE_WITHIN, |node| {
            objects::annotation(node, annotation::DESIRED_CONFIG) == self.origin
        })
        .await?;
        self.fast()?;
        self.back_to_origin().await
    }

    /// Changes the configuration; the new target.
    pub(crate) async fn ask(&self, spec: &Value) -> Result<String> {
        self.cluster.change(CONFIG, POOL, spec).await
    }

    /// The target that changing the OS leads to.
    pub(crate) async fn target_of(&self, image: &Image) -> Result<String> {
        self.ask(&Config::new().os(&image.reference).spec()).await
    }

    /// Asks for an image, and waits until the node fetches it.
    pub(crate) async fn fetches_slowly(&self, image: &Image) -> Result<()> {
        let seen = self.cluster.fetches()?.get(NODE).map_or(0, Vec::len);
        self.slow()?;
        self.target_of(image).await?;
        self.phase("Fetching").await?;
        until("the download to begin", SOON, async || {
            let count = self.cluster.fetches()?.get(NODE).map_or(0, Vec::len);
            Ok(if count > seen {
                Ok(())
            } else {
                Err(format!("{count} requests so far"))
            })
        })
        .await
    }

    /// Lets the host download so slowly that a fetch lasts as long as a test needs.
    pub(crate) fn slow(&self) -> Result<()> {
        self.host()?.limit(Some(SLOW_KBIT))?;
        self.is_slow.set(true);
        Ok(())
    }

    pub(crate) fn fast(&self) -> Result<()> {
        if self.is_slow.take() {
            self.host()?.limit(None)?;
        }
        Ok(())
    }

    /// Assigns the node another target by hand, and waits until its daemon has read it.
    ///
    /// Outside of Held there is nothing to try again: the daemon takes `slipway.dev/retry` away.
    /// When it has, it has seen what came with it.
    pub(crate) async fn daemon_sees(&self, target: &str) -> Result<()> {
        let annotations = json!({
            (annotation::DESIRED_CONFIG): target,
            (annotation::RETRY): "is it seen?",
        });
        self.cluster.objects().annotate(NODE, &annotations).await?;
        let is_taken_away = |node: &Node| objects::annotation(node, annotation::RETRY).is_empty();
        self.node_is("seen by its daemon", SOON, is_taken_away)
            .await
    }

    /// What the controller says of the control plane.
    pub(crate) async fn of_topology(&self, topology: Option<&str>) -> Result<()> {
        let annotations = json!({ (annotation::CONTROL_PLANE_TOPOLOGY): topology });
        self.cluster.objects().annotate(NODE, &annotations).await
    }

    /// A layered image of the node, or none.
    pub(crate) async fn layered_in(&self, image: Option<&str>) -> Result<()> {
        let annotations = json!({ (annotation::DESIRED_IMAGE): image });
        self.cluster.objects().annotate(NODE, &annotations).await
    }

    /// Whether the node is one of the control plane.
    pub(crate) async fn in_control_plane(&self, is_there: bool) -> Result<()> {
        let objects = self.cluster.objects();
        objects.set_role(NODE, "control-plane", is_there).await
    }

    pub(crate) async fn pause(&self, is_paused: bool) -> Result<()> {
        self.cluster.objects().pause(POOL, is_paused).await
    }

    /// Asks for the node's initial configuration, and waits until it is Done in that.
    pub(crate) async fn back_to_origin(&self) -> Result<()> {
        self.cluster.remove_config(CONFIG).await?;
        self.cluster.all_done(POOL, &self.origin, DONE_WITHIN).await
    }

    pub(crate) fn os(&self, version: &str) -> Result<Image> {
        self.cluster.image(&Overlay::version(version))
    }

    /// Waits for the pod, and forbids that it is evicted.
    pub(crate) async fn hold_on(&self) -> Result<()> {
        self.cluster.objects().pods_ready(&[("held", 1)]).await?;
        self.cluster.apply(&budget("held", "minAvailable: 1")).await
    }

    pub(crate) fn no_budget(&self) -> Result<()> {
        let delete = [
            "delete",
            "poddisruptionbudget",
            "held",
            "--ignore-not-found",
        ];
        self.cluster.control_plane().kubectl(&delete)?;
        Ok(())
    }

    /// Reboots the host as another program would; it comes back as it was.
    pub(crate) async fn reboots_into_the_same(
        &self,
        before: &BTreeMap<String, String>,
    ) -> Result<()> {
        let booted = self.boots()?.pop().context("the host was never booted")?;
        let again = self.host()?.reboot()?;
        let of = |boot: &Boot| format!("{} with {}", boot.deployment, arguments(&boot.options));
        let (again, booted) = (of(&again), of(&booted));
        ensure!(
            again == booted,
            "the host booted {again} instead of {booted}"
        );
        // What is rehearsed again is there for a moment.
        until("the host to be what it was", SOON, async || {
            let differences = host::differences(before, &host::snapshot(self.host()?)?);
            Ok(if differences.is_empty() {
                Ok(())
            } else {
                Err(differences.join("\n  "))
            })
        })
        .await
    }

    /// No eviction was requested since.
    pub(crate) fn evicted_none(&self, since: Timestamp) -> Result<()> {
        let events = self.cluster.events()?;
        let evictions = audit::pods::evictions(&events);
        let evicted = evictions.iter().find(|eviction| eviction.received > since);
        ensure!(evicted.is_none(), "a pod was to be evicted: {evicted:?}");
        Ok(())
    }

    /// How many lines of the daemon's log have these words, of all its lives.
    pub(crate) fn lines(&self, words: &str) -> Result<usize> {
        let log = fs::read_to_string(self.cluster.daemon(NODE)?.log())?;
        Ok(log.lines().filter(|line| line.contains(words)).count())
    }

    /// Whether the Node's annotations were ever so, as the API server recorded them.
    pub(crate) fn showed_since(
        &self,
        since: Timestamp,
        shown: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Result<bool> {
        let events = self.cluster.events()?;
        let histories = nodes::histories(&events);
        let history = histories.get(NODE).context("the node has no history")?;
        Ok(history
            .iter()
            .any(|state| state.at > since && shown(&state.annotations)))
    }

    /// Whether the daemon has begun to watch its Node since.
    pub(crate) fn watched_since(&self, since: Timestamp) -> Result<bool> {
        let events = self.cluster.events()?;
        Ok(events.iter().any(|event| {
            event.user_agent.starts_with(DAEMON)
                && event.verb == Verb::Watch
                && event.concerns("", "nodes")
                && event.received > since
        }))
    }

    /// Ends the daemon in order, and waits until the one after it has read the Node; when it was
    /// ended.
    pub(crate) async fn replace_daemon(&self) -> Result<Timestamp> {
        let daemon = self.cluster.daemon(NODE)?;
        let (at, starts) = (Timestamp::now(), daemon.starts());
        daemon.signal(Signal::SIGTERM)?;
        until("another daemon to read the Node", SOON, async || {
            let is_another = daemon.starts() > starts && daemon.pid().is_some();
            Ok(if is_another && self.watched_since(at)? {
                Ok(())
            } else {
                Err(format!("started {} times", daemon.starts()))
            })
        })
        .await?;
        Ok(at)
    }

    /// Waits until a line of the daemon's log has these words.
    pub(crate) async fn daemon_says(&self, words: &str) -> Result<()> {
        let log = self.cluster.daemon(NODE)?.log();
        until("the daemon's log", SOON, async || {
            let text = std::fs::read_to_string(&log)?;
            let is_said = text.contains(words);
            Ok(is_said
                .then_some(())
                .ok_or_else(|| format!("it does not say: {words}")))
        })
        .await
    }

    /// The daemon has begun no update since: it read no configuration, evicted no pod, fetched
    /// nothing.
    pub(crate) fn asked_nothing_since(&self, since: Timestamp) -> Result<()> {
        let events = self.cluster.events()?;
        let begins = |event: &&audit::Event| {
            let object = event.object.as_ref();
            event.user_agent.starts_with(DAEMON)
                && event.received > since
                && object.is_some_and(|object| {
                    object.resource == "machineconfigs" || object.subresource == "eviction"
                })
        };
        let began = events.iter().find(begins);
        ensure!(began.is_none(), "the daemon began {began:?}");
        let fetches = self.cluster.fetches()?.remove(NODE).unwrap_or_default();
        let fetch = fetches.iter().find(|request| request.started > since);
        ensure!(fetch.is_none(), "the host fetched {fetch:?}");
        Ok(())
    }

    /// How often the host was booted after the first `before` boots.
    pub(crate) fn booted_since(&self, before: usize, expected: usize) -> Result<()> {
        let booted = self.boots()?.len() - before;
        ensure!(
            booted == expected,
            "the host was booted {booted} times instead of {expected}"
        );
        Ok(())
    }

    pub(crate) async fn draining_names_what_blocks(&self) -> Result<()> {
        let blocked = |node: &Node| {
            let reason = objects::annotation(node, annotation::REASON);
            objects::annotation(node, annotation::PHASE) == "Draining"
                && reason.contains("default/held-")
                && reason.contains("PodDisruptionBudget default/held")
        };
        self.node_is("Draining, with the pod and its budget named", SOON, blocked)
            .await
    }

    pub(crate) async fn phase(&self, name: &str) -> Result<()> {
        self.phase_within(name, SOON).await
    }

    pub(crate) async fn phase_within(&self, name: &str, within: Duration) -> Result<()> {
        let is_in = |node: &Node| objects::annotation(node, annotation::PHASE) == name;
        self.node_is(name, within, is_in).await
    }

    /// Waits for an event about the node for each of these reasons.
    pub(crate) async fn says(&self, reasons: &[&str]) -> Result<()> {
        until("the events of the node", SOON, async || {
            let events = self.cluster.objects().events().await?;
            let about: Vec<_> = events
                .iter()
                .filter(|event| event.involved_object.name.as_deref() == Some(NODE))
                .filter_map(|event| event.reason.as_deref())
                .collect();
            let missing = reasons.iter().find(|reason| !about.contains(reason));
            Ok(missing.map_or(Ok(()), |reason| Err(format!("no {reason} among {about:?}"))))
        })
        .await
    }

    pub(crate) async fn node_is(
        &self,
        what: &str,
        within: Duration,
        holds: impl Fn(&Node) -> bool,
    ) -> Result<()> {
        let objects = self.cluster.objects();
        objects.node_is(NODE, what, within, holds).await.map(drop)
    }

    pub(crate) fn runs(&self, image: &Image) -> Result<()> {
        let content = image.content.clone();
        Fact::Booted { content }.check(self.host()?)
    }

    pub(crate) fn host(&self) -> Result<&Host> {
        self.cluster.host(NODE)
    }

    pub(crate) fn boots(&self) -> Result<Vec<Boot>> {
        Ok(self.host()?.boots())
    }
}

/// The kernel's arguments without the number of the boot directory, of which libostree has two: a
/// write of the boot entries, such as the one that drops an old deployment, takes the other.
fn arguments(options: &str) -> String {
    options
        .replace("ostree=/ostree/boot.0/", "ostree=/ostree/boot/")
        .replace("ostree=/ostree/boot.1/", "ostree=/ostree/boot/")
}
