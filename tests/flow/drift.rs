//! A managed file that an administrator edits by hand: it is found at once, no update begins until
//! it is restored or the update is forced, and nothing is restarted meanwhile.

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{NodeState, annotation};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use testbed::config::{Config, File};
use testbed::objects::{self, annotation as value};
use testbed::{Cluster, DONE_WITHIN, NodeSpec, SOON, Testbed, logs, until};

const NODE: &str = "worker-0";
const POOL: &str = "worker";

/// The file that is edited: its policy restarts [`SERVICE`].
const FILE: &str = "/etc/iri-registry/managed";
const MANAGED: &str = "managed";
const EDITED: &str = "edited by hand";
const SERVICE: &str = "iri-registry.service";

/// Where each start of the service leaves a line.
const STARTS: &str = "/var/lib/lab-starts";

/// The host's record of its configuration.
const RECORD: &str = "/etc/machine-config-daemon/currentconfig";

const FORCE_FILE: &str = "/run/machine-config-daemon-force";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn a_file_edited_by_hand_is_found_and_never_overwritten_unasked() -> Result<()> {
    let logs = logs::folder("drift", "edited-by-hand");
    let cluster = Testbed::new(logs).node(NodeSpec::new(NODE)).start().await?;
    let env = Env { cluster };
    let origin = env.change("50-managed", &managed()).await?;
    env.cluster.all_done(POOL, &origin, DONE_WITHIN).await?;

    env.an_edit_is_found_at_once_and_so_is_its_repair(&origin)
        .await?;
    env.a_record_that_goes_comes_back_and_a_broken_one_shows(&origin)
        .await?;
    env.an_edit_stops_an_update_until_it_is_restored(&origin)
        .await?;
    env.an_edit_is_overwritten_where_it_is_forced().await
}

/// The cluster, and what tests do with its one node.
struct Env {
    cluster: Cluster,
}

impl Env {
    async fn an_edit_is_found_at_once_and_so_is_its_repair(&self, origin: &str) -> Result<()> {
        let watches = format!("Config Drift Monitor started, watching against {origin}");
        self.says("ConfigDriftMonitorStarted", &watches).await?;
        let drift = format!("content mismatch for file \"{FILE}\"");
        let edited = Timestamp::now();
        self.put(EDITED)?;
        self.is_degraded_by(&drift).await?;
        self.says("ConfigDriftDetected", &drift).await?;
        let detected = self.detected()?;
        let after = detected.duration_since(edited);
        ensure!(
            after <= SignedDuration::from_secs(1),
            "it was found after {after:#}"
        );
        // By a rename of the directory, which holds the same file again.
        let moves = "mv /etc/iri-registry /etc/iri && mv /etc/iri /etc/iri-registry";
        self.put(MANAGED)?;
        self.cluster.host(NODE)?.run(["sh", "-c", moves])?;
        self.cluster.all_done(POOL, origin, DONE_WITHIN).await
    }

    async fn a_record_that_goes_comes_back_and_a_broken_one_shows(
        &self,
        origin: &str,
    ) -> Result<()> {
        self.run("rm", RECORD)?;
        until("the record to be written again", SOON, async || {
            let found = self.cluster.host(NODE)?.exec(["test", "-s", RECORD])?;
            Ok(if found.code == Some(0) {
                Ok(())
            } else {
                Err("it is not there".to_owned())
            })
        })
        .await?;
        self.cluster.all_done(POOL, origin, DONE_WITHIN).await?;
        let script = format!("printf broken >{RECORD}");
        self.cluster.host(NODE)?.run(["sh", "-c", &script])?;
        self.is_degraded_by(&format!("broken record {RECORD}"))
            .await?;
        self.run("rm", RECORD)?;
        self.cluster.all_done(POOL, origin, DONE_WITHIN).await
    }

    /// When the API server was sent the first event of a manual change.
    fn detected(&self) -> Result<Timestamp> {
        let path = self.cluster.daemon(NODE)?.log();
        let log = std::fs::read_to_string(&path)?;
        let line = log
            .lines()
            .find(|line| line.contains("ConfigDriftDetected"))
            .context("the log has no ConfigDriftDetected")?;
        let time = line.split_whitespace().next().unwrap_or_default();
        time.parse().with_context(|| format!("no time: {line}"))
    }

    async fn an_edit_stops_an_update_until_it_is_restored(&self, origin: &str) -> Result<()> {
        let starts = self.starts()?;
        self.put(EDITED)?;
        let target = self.change("60-other", &other("one")).await?;
        let unexpected = format!(
            "unexpected on-disk state validating against {origin}: content mismatch for file \"{FILE}\""
        );
        self.is_degraded_by(&unexpected).await?;
        self.says("PreflightConfigDriftCheckFailed", &unexpected)
            .await?;
        // Each retry checks again, and restarts nothing.
        let retried = self.count("slipway-verify-")?;
        until("two more retries", SOON, async || {
            let count = self.count("slipway-verify-")?;
            Ok(if count >= retried + 2 {
                Ok(())
            } else {
                Err(format!("{count} checks"))
            })
        })
        .await?;
        ensure!(self.starts()? == starts, "the service was restarted");
        let text = self.run("cat", FILE)?;
        ensure!(text == EDITED, "the edit was overwritten: {text}");

        self.put(MANAGED)?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        let count = self.starts()?;
        ensure!(count == starts + 1, "the service was started {count} times");
        Ok(())
    }

    async fn an_edit_is_overwritten_where_it_is_forced(&self) -> Result<()> {
        let target = self.cluster.objects().target(POOL).await?;
        let boots = self.cluster.host(NODE)?.boots().len();
        self.put(EDITED)?;
        // Found at the start of a daemon, too, where nothing is to be updated.
        self.cluster.daemon(NODE)?.signal(Signal::SIGKILL)?;
        let unexpected = format!("content mismatch for file \"{FILE}\"");
        self.is_degraded_by(&unexpected).await?;
        self.says("OnDiskStateValidationFailed", &unexpected)
            .await?;

        self.run("touch", FORCE_FILE)?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        let text = self.run("cat", FILE)?;
        ensure!(text == MANAGED, "the edit was not overwritten: {text}");
        let booted = self.cluster.host(NODE)?.boots().len() - boots;
        ensure!(booted == 1, "the host was booted {booted} times");
        let left = self.cluster.host(NODE)?.exec(["test", "-e", FORCE_FILE])?;
        ensure!(left.code != Some(0), "the force file is still there");
        Ok(())
    }

    /// A new target, which the controller may not assign to a node that is Degraded.
    async fn change(&self, name: &str, spec: &Value) -> Result<String> {
        let target = self.cluster.change(name, POOL, spec).await?;
        self.cluster.objects().set_target(NODE, &target).await?;
        Ok(target)
    }

    fn put(&self, text: &str) -> Result<()> {
        let script = format!("printf '%s' '{text}' >{FILE}");
        self.cluster.host(NODE)?.run(["sh", "-c", &script])?;
        Ok(())
    }

    fn run(&self, program: &str, path: &str) -> Result<String> {
        self.cluster.host(NODE)?.run([program, path])
    }

    fn starts(&self) -> Result<usize> {
        Ok(self.run("cat", STARTS)?.lines().count())
    }

    /// How many lines of the daemon's log have these words.
    fn count(&self, words: &str) -> Result<usize> {
        let path = self.cluster.daemon(NODE)?.log();
        let log = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(log.lines().filter(|line| line.contains(words)).count())
    }

    async fn is_degraded_by(&self, why: &str) -> Result<()> {
        let holds = |node: &Node| {
            value(node, annotation::STATE) == NodeState::Degraded.as_str()
                && value(node, annotation::REASON).contains(why)
                && objects::is_in_service(node)
        };
        let objects = self.cluster.objects();
        objects
            .node_is(NODE, "Degraded by the edit, in service", SOON, holds)
            .await
            .map(drop)
    }

    /// Waits for an event of the node.
    async fn says(&self, reason: &str, text: &str) -> Result<()> {
        until(&format!("event {reason}"), SOON, async || {
            let events = self.cluster.objects().events().await?;
            let is_it = |message: &str| message.contains(text);
            let is_said = events.iter().any(|event| {
                event.reason.as_deref() == Some(reason)
                    && event.message.as_deref().is_some_and(is_it)
            });
            Ok(if is_said {
                Ok(())
            } else {
                Err(format!("{} events", events.len()))
            })
        })
        .await
    }
}

/// A file, and the service that its policy restarts.
fn managed() -> Value {
    let contents = format!(
        "[Service]\nType=oneshot\nRemainAfterExit=true\n\
         ExecStart=/bin/sh -c 'echo started >>{STARTS}'\n[Install]\nWantedBy=multi-user.target\n"
    );
    Config::new()
        .files([File::new(FILE, MANAGED)])
        .units([json!({ "name": SERVICE, "enabled": true, "contents": contents })])
        .spec()
}

/// Another file with the same policy.
fn other(text: &str) -> Value {
    Config::new()
        .files([File::new("/etc/iri-registry/other", text)])
        .spec()
}
