//! All parts of a release, in one directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use image_builder::build::BuiltImage;
use image_builder::checkout::Checkout;
use image_builder::component::KEYS;
use image_builder::run::text;
use image_builder::{Architecture, PackedParts, Packing, build_all, build_keys};
use jiff::Timestamp;
use release::PullSpec;
use release::verification::SignatureTrust;
use signatures::Signer;

use crate::release_image::{ReleaseImage, SigningKey};
use crate::{archive, bundle, chart, checksums, command_line, files, manifests, notes};

/// Folders of a release.
const IMAGES: &str = "images";
const SBOMS: &str = "sbom";
const SIGNATURES: &str = "signatures";

/// What a release is for.
const ARCHITECTURE: Architecture = Architecture::Amd64;

/// The notes, and the public key of the signatures.
const NOTES: &str = "NOTES.md";
const PUBLIC_KEY: &str = "slipway-key.asc";

/// What a release is made of, and where.
#[derive(Debug, Clone)]
pub struct ReleaseOptions {
    pub checkout: PathBuf,
    /// Directory with the programs, as `make binaries` leaves it.
    pub programs: PathBuf,
    /// Directory of Debian packages that were fetched.
    pub packages: PathBuf,
    /// Directory that the release is put into; one of a former run is replaced.
    pub out: PathBuf,
    /// Version, as `Cargo.toml` names it.
    pub version: String,
    /// Repository below which the images are published.
    pub registry: String,
    /// The OS of hosts in the release image; without it there is no release image.
    pub os: Option<PullSpec>,
    /// The key that signs the release image and the checksums.
    pub key: Option<SigningKey>,
    /// Whether registries may have no TLS, or an unknown certificate.
    pub is_insecure: bool,
    /// Where clusters find signatures; with it the release carries the public key.
    pub stores: Vec<String>,
}

impl ReleaseOptions {
    fn images(&self) -> PathBuf {
        self.out.join(IMAGES)
    }

    fn slipway(&self) -> PathBuf {
        self.programs.join("slipway")
    }
}

/// Makes a release; its images, the release image last.
///
/// # Errors
/// The version is not the workspace's, the directory is none of a release, or a part cannot be
/// made.
pub async fn make(options: &ReleaseOptions) -> anyhow::Result<Vec<BuiltImage>> {
    let checkout = Checkout::read(&options.checkout)?;
    ensure!(
        checkout.version == options.version,
        "VERSION is {}, and workspace.package.version of Cargo.toml {}: programs would report the \
         latter",
        options.version,
        checkout.version
    );
    let signer = options.key.as_ref().map(signer).transpose()?;
    let changelog = files::read_text(&options.checkout.join("CHANGELOG.md"))?;
    let notes = notes::of(&changelog, &options.version)?;
    empty(&options.out)?;

    let (mut images, trust) = make_images(options, signer.as_ref()).await?;
    for image in images.iter().filter(|image| image.name != KEYS) {
        extract_sbom(options, image.name)?;
    }
    if let Some(os) = &options.os {
        images.push(make_release_image(options, os, trust.is_some())?);
    }
    let time = u64::try_from(checkout.time.as_second()).context("time of the commit")?;
    let manifests = pack_manifests(options, &images, time)?;
    command_line::write(
        &command_line::Input {
            program: &options.slipway(),
            version: &options.version,
            architecture: ARCHITECTURE,
            manifests: &manifests,
            time,
        },
        &options.out,
    )?;
    files::write(&options.out.join(NOTES), notes)?;
    if let Some(signer) = &signer {
        let key = signer.public_key()?;
        files::write(&options.out.join(PUBLIC_KEY), key)?;
    }
    checksums::write(&options.out)?;
    if let Some(signer) = &signer {
        let sums = options.out.join(checksums::NAME);
        let signature = signer.sign_file(&files::read(&sums)?, Timestamp::now())?;
        files::write(&sums.with_extension("asc"), signature)?;
    }
    Ok(images)
}

async fn make_images(
    options: &ReleaseOptions,
    signer: Option<&Signer>,
) -> anyhow::Result<(Vec<BuiltImage>, Option<SignatureTrust>)> {
    let image_options = image_builder::Options {
        checkout: options.checkout.clone(),
        architecture: ARCHITECTURE,
        programs: options.programs.clone(),
        packages: options.packages.clone(),
        out: options.images(),
        version: None,
        packing: Packing::Small,
        parts: PackedParts::default(),
    };
    let mut images = build_all(&image_options).await?;
    let trust = match signer {
        Some(signer) if !options.stores.is_empty() => {
            let key = signer.public_key()?.into_bytes();
            let numbers = (1..).map(|number: usize| number.to_string());
            let stores = options.stores.iter();
            let stores = stores.map(|address| address.trim_end_matches('/').to_owned());
            Some(SignatureTrust {
                keyrings: BTreeMap::from([("slipway".to_owned(), key)]),
                stores: numbers.zip(stores).collect(),
            })
        }
        _ => None,
    };
    if let Some(trust) = &trust {
        images.push(build_keys(&image_options, trust).await?);
    }
    Ok((images, trust))
}

/// Packs the bundle for kustomize and the chart for Helm, which name the images by digest; returns
/// the same objects for `slipway install`.
fn pack_manifests(
    options: &ReleaseOptions,
    images: &[BuiltImage],
    time: u64,
) -> anyhow::Result<Vec<u8>> {
    let mut pull_specs = BTreeMap::new();
    for image in images {
        let repository = format!("{}/{}", options.registry, image.name);
        pull_specs.insert(image.name, PullSpec::new(&repository, &image.digest)?);
    }
    let deploy = options.checkout.join("deploy");
    let folder = tempfile::tempdir().context("cannot make a directory")?;
    let version = &options.version;
    for (written, ending) in [
        (
            bundle::write(&deploy, version, &pull_specs, folder.path())?,
            "tar.gz",
        ),
        (
            chart::write(&deploy, version, &pull_specs, folder.path())?,
            "tgz",
        ),
    ] {
        let name = format!("slipway-{version}.{ending}");
        archive::pack(&written, time, &options.out.join(name))?;
    }
    let manifests = manifests::of(&deploy, version, &pull_specs)?;
    let manifests = serde_json::to_vec_pretty(&manifests)?;
    files::write(&options.out.join(manifests::name(version)), &manifests)?;
    Ok(manifests)
}

/// Copies what an image is made of out of it.
fn extract_sbom(options: &ReleaseOptions, image: &str) -> anyhow::Result<()> {
    let target = options.out.join(SBOMS);
    std::fs::create_dir_all(&target)
        .with_context(|| format!("cannot make {}", target.display()))?;
    let (program, layout) = (options.slipway(), options.images());
    let words = [
        &program.display().to_string(),
        "image",
        "extract",
        &format!("oci:{}:{image}", layout.display()),
        "--confirm",
        "--path",
        &format!("usr/share/sbom/{image}.spdx.json:{}", target.display()),
    ];
    text(Path::new("."), &words).map(drop)
}

fn make_release_image(
    options: &ReleaseOptions,
    os: &PullSpec,
    has_keys: bool,
) -> anyhow::Result<BuiltImage> {
    let (program, layout) = (options.slipway(), options.images());
    let image = ReleaseImage {
        program: &program,
        layout: &layout,
        registry: &options.registry,
        version: &options.version,
        os,
        has_keys,
        is_insecure: options.is_insecure,
    };
    let built = image.make()?;
    if let Some(key) = &options.key {
        image.sign(key, &options.out.join(SIGNATURES))?;
    }
    Ok(built)
}

fn signer(key: &SigningKey) -> anyhow::Result<Signer> {
    let passphrase = match &key.passphrase {
        Some(file) => files::read_text(file)?
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
        None => String::new(),
    };
    let bytes = files::read(&key.file)?;
    Signer::parse(&bytes, &passphrase).with_context(|| format!("key {}", key.file.display()))
}

/// Removes the release of a former run; nothing else.
fn empty(out: &Path) -> anyhow::Result<()> {
    if out.exists() {
        let is_release = out.join(IMAGES).join("oci-layout").exists();
        // A run that broke off before its first image leaves it so.
        let is_empty = std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
        ensure!(
            is_release || is_empty,
            "{} holds no release: it is not replaced",
            out.display()
        );
        std::fs::remove_dir_all(out).with_context(|| format!("cannot empty {}", out.display()))?;
    }
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_release_or_nothing_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        // Neither an absent directory nor an empty one.
        empty(&out).unwrap();
        empty(&out).unwrap();
        files::write(&out.join("a"), "of a person").unwrap();
        let error = empty(&out).unwrap_err().to_string();
        assert!(
            error.ends_with("holds no release: it is not replaced"),
            "{error}"
        );
        files::write(&out.join(IMAGES).join("oci-layout"), "{}").unwrap();
        empty(&out).unwrap();
        assert!(!out.join("a").exists());
    }
}
