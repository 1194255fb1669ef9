//! Fetching an image and making its deployment, on hosts without a cluster.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use lab::host::Host;
use lab::image::Image;
use lab::tree::{Commit, Overlay};
use serde_json::Value;
use testbed::single_host::MCD_BROUGHT;
use testbed::{HostLab, Programs};

use crate::figure::{Figure, Unit};
use crate::idle::{count, float};
use crate::memory::OnHost;
use crate::statistics::median;

/// Random bytes in the image besides the operating system, so that its layers, compressed, are more
/// than [`IMAGE_BYTES`].
const BALLAST_BYTES: u64 = 100 << 20;

/// The least that counts as an image of a node's size.
const IMAGE_BYTES: u64 = 150_000_000;

/// The same by the tools that every host has.
const PLAIN: &str = include_str!("fetch/plain.sh");

/// The helper's program, whose memory counts.
const HELPER: &str = "mcd-os";

/// With which `mcd pivot` ends when the host boots the image next.
const NEEDS_REBOOT: i32 = 4;

/// Fetches and deploys so many times by `mcd pivot`, and as many by plain tools, of the same image
/// and of one that has the same files and nothing else; each on a new host.
///
/// Errors: a host cannot be had, or does not have the deployment afterwards.
pub(crate) fn measure(programs: &Programs, samples: usize) -> Result<Vec<Figure>> {
    let host_lab = HostLab::new()?;
    let registry = &host_lab.registry;
    let base = host_lab.tree.base();
    let commit = host_lab.tree.commit(
        &Overlay::version("b3")
            .another_kernel()
            .ballast(BALLAST_BYTES, 1),
    )?;
    let image = Image::native(&commit)?;
    let layers = Layers::of(&image.layout)?;
    ensure!(
        layers.bytes >= IMAGE_BYTES,
        "the image has {} bytes only",
        layers.bytes
    );
    let reference = registry.push(&image, "os:b3")?;
    let rootfs = Image::rootfs(&commit)?;
    let rootfs_layers = Layers::of(&rootfs.layout)?;
    let rootfs = registry.push(&rootfs, "os:b3-rootfs")?;

    let (mut ours, mut peaks) = (Vec::new(), Vec::new());
    let (mut plain, mut of_rootfs) = (Vec::new(), Vec::new());
    let mut egress = 0;
    for number in 0..samples {
        let host = |kind: &str| {
            let name = format!("{kind}-{number}");
            host_lab.boot(host_lab.host(programs, &name, base)?)
        };
        let plainly = |kind, reference: &str, layers: &Layers| {
            let host = host(kind)?;
            let mut words = vec!["unshare", "--mount", "bash", "-euc", PLAIN, "plain"];
            words.push(reference);
            words.extend(layers.digests.iter().map(String::as_str));
            let ms = timed(&host, &words, 0)?;
            is_deployed(&host, &commit)?;
            anyhow::Ok(ms)
        };
        plain.push(plainly("plain", &reference, &layers)?);
        of_rootfs.push(plainly("rootfs", &rootfs, &rootfs_layers)?);

        let host = host("pivot")?;
        let words = [MCD_BROUGHT, "pivot", &reference];
        let (ms, peak) =
            OnHost::new(&host, HELPER)?.peak_resident(|| timed(&host, &words, NEEDS_REBOOT))?;
        is_deployed(&host, &commit)?;
        let sent = registry.requests()?.into_iter();
        let sent = sent.filter(|request| request.remote == host.address());
        egress += sent.map(|request| request.bytes).sum::<u64>();
        ours.push(ms);
        peaks.push(float(peak));
    }

    let ours = median(&ours).context("nothing was measured")?;
    let plain = median(&plain).context("nothing was measured")?;
    let of_rootfs = median(&of_rootfs).context("nothing was measured")?;
    let image_bytes = float(layers.bytes);
    Ok(vec![
        Figure::new(
            "mcd_egress_ratio",
            float(egress) / (image_bytes * count(samples)),
        )?
        .of(samples)
        .beside("nodes", count(samples), Unit::Count)
        .beside("sent by the registry", float(egress), Unit::Bytes)
        .beside("image", image_bytes, Unit::Bytes),
        Figure::new("mcd_os_peak_rss", peaks.into_iter().fold(0.0, f64::max))?
            .of(samples)
            .beside("image", image_bytes, Unit::Bytes),
        Figure::new("mcd_fetch_ratio", ours / plain)?
            .of(samples)
            .beside("mcd", ours, Unit::Ms)
            .beside("skopeo copy, ostree commit and deploy", plain, Unit::Ms)
            .beside("image", image_bytes, Unit::Bytes),
        Figure::new("mcd_fetch_rootfs_ratio", ours / of_rootfs)?
            .of(samples)
            .beside("mcd", ours, Unit::Ms)
            .beside("the same of a plain root file system", of_rootfs, Unit::Ms)
            .beside("its image", float(rootfs_layers.bytes), Unit::Bytes),
    ])
}

/// Milliseconds that a program takes on a host, which is to end with this code.
fn timed(host: &Host, words: &[&str], code: i32) -> Result<f64> {
    let begin = Instant::now();
    let output = host.exec(words.iter().copied())?;
    let elapsed = begin.elapsed();
    let program = words.first().copied().unwrap_or_default();
    ensure!(
        output.code == Some(code),
        "{program} ended with {:?}, not {code}: {}",
        output.code,
        output.stderr.trim_end()
    );
    Ok(elapsed.as_secs_f64() * 1e3)
}

/// Whether the host boots that content next.
fn is_deployed(host: &Host, commit: &Commit) -> Result<()> {
    let next = host
        .entries()?
        .into_iter()
        .next()
        .context("the host has no boot entry")?;
    let deployment = next.deployment(host.sysroot())?;
    let os_release = fs::read_to_string(deployment.join("usr/lib/os-release"))?;
    let version = format!("VERSION=\"{}\"", commit.version);
    ensure!(
        os_release.contains(&version),
        "the host does not boot {} next",
        commit.version
    );
    Ok(())
}

/// The layers of an image.
struct Layers {
    /// In hexadecimal, the lowest first.
    digests: Vec<String>,
    /// Of all, as they are fetched.
    bytes: u64,
}

impl Layers {
    /// Those of the only image of a layout.
    fn of(layout: &Path) -> Result<Self> {
        let index = json(&layout.join("index.json"))?;
        let manifest = index
            .pointer("/manifests/0")
            .context("the layout has no manifest")?;
        let manifest = digest(manifest)?;
        let manifest = json(&layout.join("blobs/sha256").join(manifest))?;
        let layers = manifest
            .get("layers")
            .and_then(Value::as_array)
            .context("the manifest has no layers")?;
        Ok(Self {
            digests: layers.iter().map(digest).collect::<Result<_>>()?,
            bytes: layers
                .iter()
                .filter_map(|layer| layer.get("size")?.as_u64())
                .sum(),
        })
    }
}

fn digest(descriptor: &Value) -> Result<String> {
    let digest = descriptor
        .get("digest")
        .and_then(Value::as_str)
        .and_then(|digest| digest.strip_prefix("sha256:"));
    Ok(digest
        .context("a descriptor has no SHA-256 digest")?
        .to_owned())
}

fn json(path: &Path) -> Result<Value> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))
}
