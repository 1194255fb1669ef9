//! A host with the programs under test on it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use host::files::Root;
use host::journal::Store;
use lab::host::{BOOTED_WITHIN, Host, HostSpec, Output};
use lab::image::Image;
use lab::registry::Registry;
use lab::tree::{Commit, Overlay, Tree};
use lab::{Lab, PATIENCE};
use node_update::plan::Bundle;
use serde_json::Value;
use testbed::bare::{self, MCD_OS};

/// Where a verb leaves its report on the host.
const REPORT: &str = "/run/slipway/report.json";

pub(crate) struct Site {
    pub(crate) host: Host,
    pub(crate) registry: Registry,
    pub(crate) tree: Tree,
    // Dropped last.
    _lab: Lab,
}

/// How a verb ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) report: Value,
    #[expect(dead_code, reason = "printed where a test fails")]
    pub(crate) stderr: String,
}

impl Ran {
    /// The reasons of its report, in one line.
    pub(crate) fn reasons(&self) -> String {
        let reasons = self.report["reasons"].as_array().into_iter().flatten();
        reasons
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("; ")
    }
}

/// Everything that an update may touch, by path: what it is, its bytes, mode and owner.
pub(crate) type Snapshot = BTreeMap<String, String>;

impl Site {
    /// A booted host of the base OS, with the guard installed.
    pub(crate) fn new() -> Result<Self> {
        Self::with(|spec, _| spec)
    }

    /// The same, from a changed specification.
    pub(crate) fn with(change: impl FnOnce(HostSpec, &Registry) -> HostSpec) -> Result<Self> {
        let tree = Tree::ready()?;
        let base = tree.base().clone();
        Self::of(tree, &base, change)
    }

    /// The same, of another OS.
    pub(crate) fn of(
        tree: Tree,
        os: &Commit,
        change: impl FnOnce(HostSpec, &Registry) -> HostSpec,
    ) -> Result<Self> {
        let site = Self::boot(tree, os, change)?;
        site.host
            .run([bare::MCD_OS_BROUGHT, "guard", "--install"])?;
        Ok(site)
    }

    /// A booted host of the base OS, on which nothing was ever done.
    pub(crate) fn untouched() -> Result<Self> {
        let tree = Tree::ready()?;
        let base = tree.base().clone();
        Self::boot(tree, &base, |spec, _| spec)
    }

    fn boot(
        tree: Tree,
        os: &Commit,
        change: impl FnOnce(HostSpec, &Registry) -> HostSpec,
    ) -> Result<Self> {
        let lab = Lab::create()?;
        let registry = Registry::start(&lab)?;
        let bin = bare::programs(&lab.dir().join("bin"))?;
        let spec = HostSpec::new("node", os)
            .bin(&bin)
            .registry(&registry.location());
        let spec = bare::kubelet(spec);
        let mut host = Host::create(&lab, change(spec, &registry))?;
        host.start()?;
        host.wait_booted(BOOTED_WITHIN)?;
        Ok(Self {
            host,
            registry,
            tree,
            _lab: lab,
        })
    }

    /// Puts an OS into the registry, as a native container image; its pull spec.
    pub(crate) fn push(&self, overlay: &Overlay) -> Result<String> {
        let name = format!("os:{}", self.registry.requests()?.len());
        self.registry
            .push(&Image::native(&self.tree.commit(overlay)?)?, &name)
    }

    /// Runs a verb to its end.
    pub(crate) fn mcd_os(&self, words: &[&str]) -> Result<Ran> {
        self.host.run(["rm", "-f", REPORT])?;
        let command = [&[MCD_OS, "--report", REPORT], words].concat();
        let Output { code, stderr, .. } = self.host.exec(command)?;
        let report = self.host.exec(["cat", REPORT])?.stdout;
        let report = serde_json::from_str(&report).unwrap_or(Value::Null);
        Ok(Ran {
            code,
            report,
            stderr,
        })
    }

    /// Runs a verb that has to end with this code.
    pub(crate) fn expect(&self, code: i32, words: &[&str]) -> Result<Ran> {
        let ran = self.mcd_os(words)?;
        anyhow::ensure!(
            ran.code == Some(code),
            "mcd-os {}: {ran:?}",
            words.join(" ")
        );
        Ok(ran)
    }

    /// Stores a plan on the host as the daemon does; its directory.
    pub(crate) fn put(&self, bundle: &Bundle) -> Result<String> {
        let root = self.root()?;
        Store::new(&root).put_plan(bundle)?;
        Ok(Store::plan_directory(&bundle.plan.attempt)?)
    }

    /// Fetches, rehearses and applies; the host waits for a reboot then.
    pub(crate) fn switch(&self, bundle: &Bundle) -> Result<()> {
        if let Some(image) = bundle
            .plan
            .deploy
            .as_ref()
            .and_then(|deploy| deploy.image.as_ref())
        {
            self.expect(0, &["fetch", image])?;
        }
        let directory = self.put(bundle)?;
        self.expect(0, &["rehearse", &directory])?;
        self.expect(4, &["apply", &directory])?;
        Ok(())
    }

    /// What the host says of itself.
    pub(crate) fn view(&self) -> Result<Value> {
        let text = self.host.run([MCD_OS, "deployments", "--json"])?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Waits until nothing is under way; how the last attempt ended.
    pub(crate) fn wait_ended(&self) -> Result<Value> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let view = self.view()?;
            if view["journal"].is_null() {
                return Ok(view["last"].clone());
            }
            std::thread::sleep(Duration::from_millis(250));
        }
        let units = ["-u", "slipway-guard", "-u", "slipway-verify"];
        let log = self
            .host
            .run([&["journalctl", "-b", "--no-pager", "-o", "cat"], &units[..]].concat())?;
        anyhow::bail!("still under way: {}\n{log}", self.view()?);
    }

    /// Boots what the boot entries name, and waits for the checks to be done.
    pub(crate) fn reboot(&self) -> Result<Value> {
        self.host.reboot()?;
        self.wait_ended()
    }

    /// The booted deployment's `/etc` and the state root's `/var`, from outside, but for what is
    /// ours and what a running system writes itself.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let mut found = Snapshot::new();
        walk(&self.host.etc_of_booted()?, "/etc", &mut found)?;
        for path in ["home", "usrlocal", "lib/managed"] {
            let directory = self.host.var().join(path);
            if directory.exists() {
                walk(&directory, &format!("/var/{path}"), &mut found)?;
            }
        }
        Ok(found)
    }

    /// What the boot entries say, in order.
    pub(crate) fn entries(&self) -> Result<Vec<String>> {
        let entries = self.host.entries()?;
        entries
            .iter()
            .map(|entry| Ok(entry.deployment(self.host.sysroot())?.display().to_string()))
            .collect()
    }

    /// A file of the booted system: bytes, mode, owner.
    pub(crate) fn stat(&self, path: &str) -> Result<(String, String)> {
        let stat = self.host.run(["stat", "--format=%a %U:%G", path])?;
        Ok((stat, self.host.run(["cat", path])?))
    }

    /// Whether a deployment directory is there that no entry names.
    pub(crate) fn deployments_on_disk(&self) -> Result<usize> {
        let id = self
            .host
            .boots()
            .pop()
            .context("the host was never started")?
            .deployment;
        let directory = self.host.deployment_dir(&id);
        let directory = directory
            .parent()
            .context("a deployment lies in a directory")?;
        let entries = fs::read_dir(directory)?;
        Ok(entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().is_dir())
            .count())
    }

    fn root(&self) -> Result<Root> {
        let etc = self.host.etc_of_booted()?;
        let tree = etc.parent().context("/etc lies in a root")?;
        Ok(Root::open(tree, Some(&self.host.var()))?)
    }
}

fn walk(directory: &Path, shown: &str, found: &mut Snapshot) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        let shown = format!("{shown}/{}", entry.file_name().display());
        let stat = fs::symlink_metadata(&path)?;
        let what = if stat.is_dir() {
            walk(&path, &shown, found)?;
            "directory".to_owned()
        } else if stat.is_symlink() {
            format!("link {}", fs::read_link(&path)?.display())
        } else if stat.is_file() {
            format!("file {:?}", String::from_utf8_lossy(&fs::read(&path)?))
        } else {
            "other".to_owned()
        };
        found.insert(
            shown,
            format!("{what} {:o} {}:{}", stat.mode(), stat.uid(), stat.gid()),
        );
    }
    Ok(())
}

/// The paths in which two snapshots differ.
pub(crate) fn differences(one: &Snapshot, other: &Snapshot) -> Vec<String> {
    let paths: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    paths
        .into_iter()
        .filter(|path| one.get(*path) != other.get(*path))
        .map(|path| format!("{path}: {:?} and {:?}", one.get(path), other.get(path)))
        .collect()
}
