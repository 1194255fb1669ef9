//! What a host and its Node are between a kill and the next life.
//!
//! The host's helper may still be working. What it has not reported as begun must be whole, and
//! what boots next always.

use std::time::{Duration, Instant};
use std::{fmt, fs};

use anyhow::{Context as _, Result, bail, ensure};
use api::machineconfiguration::{NodeState, annotation};
use k8s_openapi::api::core::v1::Node;
use lab::host::{DeploymentId, Host};
use testbed::objects;

use super::super::state::{Deployment, Kept};
use testbed::files::{self, Files, Tree};

/// How long what is looked at may be in motion: a file is read while the helper takes it away.
const STILL_WITHIN: Duration = Duration::from_secs(10);

/// Time between two polls.
const PAUSE: Duration = Duration::from_millis(100);

/// What of a host an update changes, by its bytes.
#[derive(Debug)]
pub(super) struct Bytes {
    /// What boots next.
    next: Deployment,
    /// Home directories, where keys are.
    homes: Tree,
}

/// All snapshots of one update.
#[derive(Debug)]
pub(super) struct Snapshots {
    reboots: bool,
    /// The configuration that it comes from.
    from: String,
    /// The one that it leads to.
    to: String,
    booted: DeploymentId,
    etc: Tree,
    origin: Bytes,
    /// What the host was besides that, and when: the target, as the end will show.
    others: Vec<(String, Bytes)>,
    /// Whether the Node has shown that the update began.
    has_begun: bool,
    pub(super) repeats: Repeats,
}

/// How many snapshots found the host in motion, and were repeated.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    repeated: usize,
    snapshots: usize,
}

impl Repeats {
    pub(super) fn count(&mut self, is_repeated: bool) {
        self.snapshots += 1;
        self.repeated += usize::from(is_repeated);
    }
}

impl fmt::Display for Repeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            repeated,
            snapshots,
        } = self;
        write!(
            f,
            "{repeated} of {snapshots} snapshots were repeated, as the helper was working"
        )
    }
}

/// Takes snapshots until what is found is whole; that, and whether it was in motion at first.
///
/// Only the helper moves anything: what is torn and left alone stays torn.
pub(super) fn until_whole<T>(mut take: impl FnMut() -> Result<T>) -> Result<(T, bool)> {
    let until = Instant::now() + STILL_WITHIN;
    let mut is_repeated = false;
    loop {
        match take() {
            Ok(found) => return Ok((found, is_repeated)),
            Err(_) if Instant::now() < until => {
                is_repeated = true;
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

impl Bytes {
    fn of(host: &Host) -> Result<Self> {
        Ok(Self {
            next: Deployment::next(host)?,
            homes: files::read(&host.var().join("home"), Files::Whole, &[])?,
        })
    }

    fn doubts(&self, wanted: &Self) -> Vec<String> {
        let mut doubts = self.next.doubts(&wanted.next);
        doubts.extend(files::differences("/var/home", &self.homes, &wanted.homes));
        doubts
    }

    fn is(&self, other: &Self) -> bool {
        self.doubts(other).is_empty()
    }
}

impl Snapshots {
    /// Of a host at rest that is about to leave `from` for `to`.
    pub(super) fn begin(host: &Host, from: String, to: String, reboots: bool) -> Result<Self> {
        ensure!(
            !Kept::of(host)?.is_open,
            "an attempt is open in a host at rest"
        );
        Ok(Self {
            reboots,
            from,
            to,
            booted: booted(host)?,
            etc: files::read(&host.etc_of_booted()?, Files::Whole, &[])?,
            origin: Bytes::of(host)?,
            others: Vec::new(),
            has_begun: false,
            repeats: Repeats::default(),
        })
    }

    /// Checks the host after a kill. `node` was read after that, and before.
    pub(super) fn check(&mut self, host: &Host, node: &Node, killed: &str) -> Result<()> {
        self.claims(host, node)?;
        let ((), again) = until_whole(|| self.is_whole(host, killed))?;
        self.repeats.count(again);
        Ok(())
    }

    /// What was neither origin nor target. The host is Done in the target now.
    pub(super) fn end(&self, host: &Host) -> Result<()> {
        let target = Bytes::of(host)?;
        ensure!(!target.is(&self.origin), "nothing was changed");
        for (killed, other) in &self.others {
            let (origin, doubts) = (other.doubts(&self.origin), other.doubts(&target));
            ensure!(
                doubts.is_empty(),
                "killed {killed}, the host is neither the target:\n  {}\nnor the origin:\n  {}",
                doubts.join("\n  "),
                origin.join("\n  ")
            );
        }
        Ok(())
    }

    fn is_whole(&mut self, host: &Host, killed: &str) -> Result<()> {
        let was_open = Kept::of(host)?.is_open;
        let now = Bytes::of(host)?;
        let is_open = was_open || Kept::of(host)?.is_open;
        // Without a reboot it is the running system that is changed, file by file.
        if !is_open || self.reboots {
            let is_known = self.others.iter().any(|(_, other)| now.is(other));
            if !is_known && !now.is(&self.origin) {
                std::thread::sleep(PAUSE);
                ensure!(now.is(&Bytes::of(host)?), "the host is in motion");
                self.others.push((killed.to_owned(), now));
            }
        }
        // A host going down runs neither.
        let runs_origin = booted(host).is_ok_and(|booted| booted == self.booted);
        if self.reboots && runs_origin {
            let etc = files::read(&host.etc_of_booted()?, Files::Whole, &[])?;
            let differences = files::differences("/etc", &etc, &self.etc);
            ensure!(
                differences.is_empty(),
                "the origin changed:\n  {}",
                differences.join("\n  ")
            );
        }
        Ok(())
    }

    /// What the Node says is so.
    fn claims(&mut self, host: &Host, node: &Node) -> Result<()> {
        let says = |key| objects::annotation(node, key);
        let (current, desired) = (
            says(annotation::CURRENT_CONFIG),
            says(annotation::DESIRED_CONFIG),
        );
        let is_done = says(annotation::STATE) == NodeState::Done.as_str();
        let kept = Kept::of(host)?;
        let runs = booted(host);
        if current == self.to {
            // Reported only when verified, which closes the journal.
            ensure!(
                !kept.is_open,
                "{} is in force, and its attempt is open",
                self.to
            );
            let record = record(host)?;
            ensure!(
                record == self.to,
                "{} is in force, and the record is of {record}",
                self.to
            );
            let is_origin = runs.is_ok_and(|booted| booted == self.booted);
            ensure!(
                !(self.reboots && is_origin),
                "{} is in force, and the origin is booted",
                self.to
            );
            let outcome = kept.last.map(|(_, outcome)| outcome).unwrap_or_default();
            ensure!(
                outcome == "proved",
                "{} is in force, and came to: {outcome}",
                self.to
            );
        } else if current != self.from {
            bail!("{current} is in force, which is neither origin nor target");
        } else if is_done {
            ensure!(current != desired, "{} is not asked for", self.to);
            ensure!(
                !self.has_begun,
                "Done in {} after the update began",
                self.from
            );
            ensure!(
                !kept.is_open,
                "Done in {}, and an attempt is open",
                self.from
            );
        }
        self.has_begun |= !is_done;
        Ok(())
    }
}

/// The configuration that the booted deployment's record names.
pub(super) fn record(host: &Host) -> Result<String> {
    let path = host
        .etc_of_booted()?
        .join("machine-config-daemon/currentconfig");
    let record: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
    let name = record
        .pointer("/metadata/name")
        .and_then(serde_json::Value::as_str);
    Ok(name.context("the record names nothing")?.to_owned())
}

fn booted(host: &Host) -> Result<DeploymentId> {
    let boots = host.boots();
    let last = boots.last().context("the host was never booted")?;
    ensure!(last.ended.is_none(), "the host is down");
    Ok(last.deployment.clone())
}
