//! What a host and its Node are while the daemon meets them for the first time.
//!
//! It brings files of its own, one after the other: each is there whole or not at all, and nothing
//! else is touched.

use std::fs;
use std::io::ErrorKind;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{NodeState, annotation};
use k8s_openapi::api::core::v1::Node;
use lab::host::Host;
use observer::host::Fact;
use serde_json::{Value, json};
use testbed::{Cluster, objects};

use super::super::points::TEMPORARY;
use super::super::state::Kept;
use super::snapshots::{Repeats, record, until_whole};
use testbed::files::{self, Files, Tree};

/// What it brings to `/etc`.
const OWN: [&str; 6] = [
    "/machine-config-daemon/currentconfig",
    "/systemd/system/slipway-guard.service",
    "/systemd/system/slipway-reboot@.service",
    "/systemd/system/sysinit.target.wants/slipway-guard.service",
    "/systemd/system/multi-user.target.wants/slipway-verify.service",
    "/systemd/system/slipway-verify.service",
];

/// What the config server gave the machine for its Node.
const GIVEN: &str = "machine-config-daemon/node-annotations.json";

/// The same once the daemon has used it.
const USED: &str = "machine-config-daemon/node-annotation.json.bak";

/// What it keeps on a host, in `/var`.
const KEPT: &str = "lib/slipway";

/// The helper there.
const HELPER: &str = "lib/slipway/bin/mcd-os";

/// Annotations that are its own begin with one of these.
const ANNOTATIONS: [&str; 2] = ["machineconfiguration.openshift.io/", "slipway.dev/"];

/// A node that is not adopted yet.
#[derive(Debug)]
pub(super) struct Adoption {
    /// Its initial configuration.
    pub(super) target: String,
    /// Its `/etc`.
    initial: Tree,
    /// What that was after each kill.
    seen: Vec<(String, Tree)>,
    pub(super) repeats: Repeats,
}

impl Adoption {
    /// Has a host and its Node forget the daemon, of which no life is under way.
    #[expect(clippy::disallowed_methods, reason = "a lab's own file")]
    pub(super) async fn begin(cluster: &Cluster, node: &str, pool: &str) -> Result<Self> {
        let host = cluster.host(node)?;
        let etc = host.etc_of_booted()?;
        for path in OWN {
            let file = etc.join(path.trim_start_matches('/'));
            gone(fs::remove_file(file), path)?;
        }
        gone(fs::remove_dir_all(host.var().join(KEPT)), KEPT)?;
        // That it is Done is the daemon's own word then, and its last.
        let given = etc.join(GIVEN);
        let used = etc.join(USED);
        if used.exists() {
            fs::rename(used, &given)?;
        }
        let mut annotations: serde_json::Map<String, Value> =
            serde_json::from_slice(&fs::read(&given).context(GIVEN)?).context(GIVEN)?;
        annotations.remove(annotation::STATE);
        fs::write(&given, serde_json::to_vec(&annotations)?)?;
        let known = cluster.objects().node(node).await?;
        let known = known.metadata.annotations.unwrap_or_default();
        let own = known
            .keys()
            .filter(|key| ANNOTATIONS.iter().any(|prefix| key.starts_with(prefix)));
        let none: serde_json::Map<_, _> = own.map(|key| (key.clone(), Value::Null)).collect();
        cluster
            .objects()
            .patch_node(node, &json!({ "metadata": { "annotations": none } }))
            .await?;
        Ok(Self {
            target: cluster.objects().target(pool).await?,
            initial: files::read(&etc, Files::Whole, &[])?,
            seen: Vec::new(),
            repeats: Repeats::default(),
        })
    }

    /// Checks the host after a kill, and its Node as it was read after that.
    pub(super) fn check(&mut self, host: &Host, node: &Node, killed: &str) -> Result<()> {
        let says = |key| objects::annotation(node, key);
        for key in [annotation::CURRENT_CONFIG, annotation::DESIRED_CONFIG] {
            let config = says(key);
            ensure!(
                config.is_empty() || config == self.target,
                "{key} is {config}"
            );
        }
        let state = says(annotation::STATE);
        let is_done = state == NodeState::Done.as_str();
        ensure!(is_done || state.is_empty(), "its state is {state}");
        let (etc, again) = until_whole(|| self.is_whole(host, is_done))?;
        self.repeats.count(again);
        self.seen.push((killed.to_owned(), etc));
        Ok(())
    }

    /// Nothing but its own was ever touched, and that was whole. The daemon has met the node now.
    pub(super) fn end(&self, host: &Host) -> Result<()> {
        let end = self.is_whole(host, true)?;
        for (killed, etc) in &self.seen {
            for path in OWN {
                let found = etc.get(path);
                ensure!(
                    found.is_none() || found == end.get(path),
                    "killed {killed}, {path} was torn"
                );
            }
        }
        let record = record(host)?;
        ensure!(record == self.target, "the record is of {record}");
        ensure!(host.var().join(HELPER).is_file(), "the helper is missing");
        let enabled = Fact::Enabled {
            unit: "slipway-guard.service".to_owned(),
            state: "enabled".to_owned(),
        };
        enabled.check(host)
    }

    /// Its `/etc`, in which nothing is other than at the start but what the daemon brings: all of
    /// it if it says so.
    fn is_whole(&self, host: &Host, is_done: bool) -> Result<Tree> {
        ensure!(!Kept::of(host)?.is_open, "an attempt is open");
        let etc = files::read(&host.etc_of_booted()?, Files::Whole, &[])?;
        let mut without = etc.clone();
        if !is_done {
            // One that was being written is written again, under the same name.
            without.retain(|path, _| !path.ends_with(TEMPORARY));
        }
        for path in OWN {
            let is_there = without.remove(path).is_some();
            ensure!(is_there || !is_done, "Done, and {path} is missing");
        }
        // Renamed once they are used.
        let mut initial = self.initial.clone();
        let first = initial.remove(&format!("/{GIVEN}"));
        let kept = [GIVEN, USED].map(|path| without.remove(&format!("/{path}")));
        ensure!(
            kept.iter().any(Option::is_some),
            "the first annotations are missing"
        );
        let is_same = |kept: &_| *kept == first;
        ensure!(
            kept.iter().filter(|kept| kept.is_some()).all(is_same),
            "the first annotations are torn"
        );
        let differences = files::differences("/etc", &without, &initial);
        ensure!(differences.is_empty(), "{}", differences.join("\n  "));
        Ok(etc)
    }
}

/// What is not there need not be removed.
fn gone(removed: std::io::Result<()>, what: &str) -> Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| format!("cannot remove {what}")),
    }
}
