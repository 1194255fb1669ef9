//! What a host is, by its bytes: what boots, what all deployments share, and what should not be
//! there.
//!
//! It is read from this machine, and nothing of the program under test is asked.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, Result};
use lab::host::{DeploymentId, Entry, Host, STATEROOT};

use testbed::files::{self, Files, Tree};

/// What a host itself writes into `/var`, and the folder that [`Kept`] is about.
const OF_THE_HOST: &[&str] = &[
    "/log",
    "/tmp",
    "/cache",
    "/lib/systemd",
    "/lib/slipway",
    "/lib/private",
    // What skopeo knows of registries.
    "/lib/containers",
];

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// What boots next. What the boot menu has behind it is not compared: a target that was given
    /// up may stay there.
    pub(crate) first: Deployment,
    /// `/var`.
    pub(crate) shared: Tree,
}

/// What boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deployment {
    commit: String,
    /// Of the kernel, but for the one that names the deployment.
    arguments: Vec<String>,
    origin: String,
    etc: Tree,
    /// Everything but `/etc`.
    os: Tree,
    /// Kernel and initramfs in `/boot` are those of the deployment.
    has_its_kernel: bool,
}

/// What `mcd-os` keeps on a host.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Whether an attempt is under way.
    pub(crate) is_open: bool,
    /// The last attempt, and how it ended.
    pub(crate) last: Option<(String, String)>,
    /// The configuration that is not tried again.
    pub(crate) held: Option<String>,
    /// Attempts with a plan.
    pub(crate) plans: Vec<String>,
}

impl State {
    /// What a host is now, up or down.
    pub(crate) fn of(host: &Host) -> Result<Self> {
        Ok(Self {
            first: Deployment::next(host)?,
            shared: files::read(&host.var(), Files::Whole, OF_THE_HOST)?,
        })
    }

    /// What speaks against being in a wanted state; nothing if it is that.
    pub(crate) fn doubts(&self, wanted: &Self) -> Vec<String> {
        let mut doubts = self.first.doubts(&wanted.first);
        doubts.extend(files::differences("/var", &self.shared, &wanted.shared));
        doubts
    }
}

impl Deployment {
    /// What a host boots next.
    pub(crate) fn next(host: &Host) -> Result<Self> {
        let entries = host.entries()?;
        Self::of(entries.first().context("nothing boots")?, host)
    }

    fn of(entry: &Entry, host: &Host) -> Result<Self> {
        let sysroot = host.sysroot();
        let dir = entry.deployment(sysroot)?;
        let origin = format!("{}.origin", dir.display());
        Ok(Self {
            commit: id(entry, host)?.checksum,
            arguments: arguments(entry),
            origin: fs::read_to_string(&origin).with_context(|| format!("cannot read {origin}"))?,
            etc: files::read(&dir.join("etc"), Files::Whole, &[])?,
            os: files::read(&dir, Files::Objects, &["/etc", "/var", "/boot", "/sysroot"])?,
            has_its_kernel: has_its_kernel(entry, host, &dir)?,
        })
    }

    /// What speaks against being another one.
    pub(crate) fn doubts(&self, wanted: &Self) -> Vec<String> {
        let mut doubts = Vec::new();
        let mut compare = |what: &str, is: &dyn std::fmt::Debug, wanted: &dyn std::fmt::Debug| {
            let (is, wanted) = (format!("{is:?}"), format!("{wanted:?}"));
            if is != wanted {
                doubts.push(format!("{what} is {is}, not {wanted}"));
            }
        };
        compare("what boots", &self.commit, &wanted.commit);
        compare("its command line", &self.arguments, &wanted.arguments);
        compare("its origin", &self.origin, &wanted.origin);
        compare(
            "having its kernel",
            &self.has_its_kernel,
            &wanted.has_its_kernel,
        );
        doubts.extend(files::differences("/etc", &self.etc, &wanted.etc));
        doubts.extend(files::differences("its OS: ", &self.os, &wanted.os));
        doubts
    }
}

impl Kept {
    /// What is kept on a host.
    pub(crate) fn of(host: &Host) -> Result<Self> {
        let dir = host.var().join("lib/slipway");
        let text = |name: &str, keys: &[&str]| -> Result<Option<Vec<String>>> {
            let Some(bytes) = read(&dir.join(name))? else {
                return Ok(None);
            };
            let value: serde_json::Value =
                serde_json::from_slice(&bytes).with_context(|| format!("{name} is damaged"))?;
            let texts = keys.iter().map(|key| {
                value
                    .get(*key)
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            });
            Ok(Some(texts.collect()))
        };
        let mut plans = Vec::new();
        if let Ok(entries) = fs::read_dir(dir.join("plans")) {
            for entry in entries {
                plans.push(entry?.file_name().to_string_lossy().into_owned());
            }
        }
        let pair = |texts: Vec<String>| texts.try_into().ok().map(|[a, b]: [String; 2]| (a, b));
        Ok(Self {
            is_open: read(&dir.join("journal.json"))?.is_some(),
            last: text("last.json", &["attempt", "outcome"])?.and_then(pair),
            held: text("held.json", &["config"])?.and_then(|texts| texts.into_iter().next()),
            plans,
        })
    }
}

/// Deployments and kernels that no boot entry names.
pub(crate) fn strays(host: &Host) -> Result<Vec<String>> {
    let entries = host.entries()?;
    let mut strays = Vec::new();
    let mut find = |dir: &Path, names: &dyn Fn(&str) -> bool| -> Result<()> {
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !names(&name) {
                strays.push(name);
            }
        }
        Ok(())
    };
    let ids: Vec<String> = entries
        .iter()
        .map(|entry| Ok(id(entry, host)?.to_string()))
        .collect::<Result<_>>()?;
    let deployments = host
        .sysroot()
        .join("ostree/deploy")
        .join(STATEROOT)
        .join("deploy");
    find(&deployments, &|name| {
        ids.iter().any(|id| id == name.trim_end_matches(".origin"))
    })?;
    let kernels = host.sysroot().join("boot/ostree");
    find(&kernels, &|name| {
        entries.iter().any(|entry| entry.linux.contains(name))
    })?;
    Ok(strays)
}

fn id(entry: &Entry, host: &Host) -> Result<DeploymentId> {
    let dir = entry.deployment(host.sysroot())?;
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let (checksum, serial) = name
        .split_once('.')
        .with_context(|| format!("{name} names no deployment"))?;
    Ok(DeploymentId {
        checksum: checksum.to_owned(),
        serial: serial.parse()?,
    })
}

fn arguments(entry: &Entry) -> Vec<String> {
    let words = entry.options.split_whitespace();
    words
        .filter(|word| !word.starts_with("ostree="))
        .map(ToOwned::to_owned)
        .collect()
}

/// Whether kernel and initramfs in `/boot` are, byte for byte, those of the deployment.
fn has_its_kernel(entry: &Entry, host: &Host, deployment: &Path) -> Result<bool> {
    let mut versions = fs::read_dir(deployment.join("usr/lib/modules"))?;
    let own = versions.next().context("it has no kernel")??.path();
    let kernel = host
        .sysroot()
        .join("boot")
        .join(entry.linux.trim_start_matches('/'));
    let mut same = 0;
    for file in fs::read_dir(kernel.parent().context("its kernel is in no folder")?)? {
        let file = file?.path();
        let is_kernel = file == kernel;
        let original = own.join(if is_kernel {
            "vmlinuz"
        } else {
            "initramfs.img"
        });
        if read(&original)? != read(&file)? {
            return Ok(false);
        }
        same += 1;
    }
    Ok(same == 2)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        bytes => {
            Ok(Some(bytes.with_context(|| {
                format!("cannot read {}", path.display())
            })?))
        }
    }
}
