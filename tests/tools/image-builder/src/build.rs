//! Images of components.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use images::image::Platform;
use images::tree::{EntryContent, Packing};
use images::{Credentials, Draft, ImageLocation, Stores, Tree};
use release::payload::Files;
use release::{ImageDigest, MANIFESTS, OPERATOR_LABEL};

use crate::checkout::Checkout;
use crate::component::{COMPONENTS, Component, ReleaseRole};
use crate::debian::{self, Package};
use crate::run::text;
use crate::{manifests, sbom};

/// Accounts of an image: its programs' names in listings, and a home that exists.
const PASSWD: &str =
    "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nnonroot:x:65532:\n";

/// Without it glibc would ask name servers before `/etc/hosts`.
const NSSWITCH: &str = "hosts: files dns\n";

/// Where everything is.
#[derive(Clone, Debug)]
pub struct Options {
    /// The checkout.
    pub checkout: PathBuf,
    /// Directory with the programs.
    pub programs: PathBuf,
    /// Directory of Debian packages that were fetched.
    pub packages: PathBuf,
    /// Layout directory that the images are put into; emptied first.
    pub out: PathBuf,
    /// Version that the images are labelled with, in place of the workspace's.
    pub version: Option<String>,
    /// How their layers are packed.
    pub packing: Packing,
}

/// An image that was made.
#[derive(Clone, Debug)]
pub struct BuiltImage {
    /// Its name, in the layout directory too.
    pub name: &'static str,
    /// Version of the workspace.
    pub version: String,
    /// Its digest.
    pub digest: ImageDigest,
}

/// Makes all images.
///
/// # Errors
/// Something that they are made of is not there.
pub async fn build_all(options: &Options) -> anyhow::Result<Vec<BuiltImage>> {
    build(options, |_| true).await
}

/// Makes the images of these names.
///
/// # Errors
/// Something that they are made of is not there.
pub async fn build_named(options: &Options, names: &[&str]) -> anyhow::Result<Vec<BuiltImage>> {
    build(options, |component| names.contains(&component.name)).await
}

async fn build(
    options: &Options,
    is_wanted: impl Fn(&Component) -> bool,
) -> anyhow::Result<Vec<BuiltImage>> {
    let checkout = checkout(options)?;
    check_sources(options)?;
    let mut all = Vec::new();
    empty(&options.out)?;
    for component in COMPONENTS.iter().filter(|component| is_wanted(component)) {
        let manifests = manifests::read(&options.checkout.join("deploy"), component)?;
        all.push(put(options, &checkout, component, manifests).await?);
    }
    Ok(all)
}

/// Makes the image of a component that is in no table, with these manifests.
///
/// # Errors
/// Something that it is made of is not there.
pub async fn build_component(
    options: &Options,
    component: &Component,
    manifests: Option<Files>,
) -> anyhow::Result<BuiltImage> {
    let checkout = checkout(options)?;
    empty(&options.out)?;
    put(options, &checkout, component, manifests).await
}

fn checkout(options: &Options) -> anyhow::Result<Checkout> {
    let mut checkout = Checkout::read(&options.checkout)?;
    if let Some(version) = &options.version {
        checkout.version.clone_from(version);
    }
    Ok(checkout)
}

fn empty(out: &Path) -> anyhow::Result<()> {
    if !out.exists() {
        return Ok(());
    }
    let is_layout = out.join("oci-layout").exists();
    ensure!(
        is_layout,
        "{} is no layout directory: it is not emptied",
        out.display()
    );
    std::fs::remove_dir_all(out).with_context(|| format!("cannot empty {}", out.display()))
}

async fn put(
    options: &Options,
    checkout: &Checkout,
    component: &Component,
    manifests: Option<Files>,
) -> anyhow::Result<BuiltImage> {
    let draft = draft(options, checkout, component, manifests);
    let draft = draft.with_context(|| format!("image {}", component.name))?;
    let built = draft.build()?;
    let location: ImageLocation = location(&options.out, component.name).parse()?;
    let stores = Stores::new(Credentials::default(), false);
    stores.put(&built, &location).await?;
    Ok(BuiltImage {
        name: component.name,
        version: checkout.version.clone(),
        digest: built.digest().clone(),
    })
}

/// Fails unless the programs are built from the sources of the checkout.
fn check_sources(options: &Options) -> anyhow::Result<()> {
    let file = options.programs.join("sources");
    let built = std::fs::read_to_string(&file).unwrap_or_default();
    let sources = text(
        &options.checkout,
        &["sh", "tests/support/suites/sources.sh"],
    )?;
    ensure!(
        built.trim() == sources,
        "the programs in {} are built from other sources: `make binaries` builds them",
        options.programs.display()
    );
    Ok(())
}

fn draft(
    options: &Options,
    checkout: &Checkout,
    component: &Component,
    manifests: Option<Files>,
) -> anyhow::Result<Draft> {
    let packages = debian::fetch(component.packages, &options.packages)?;
    let mut draft = Draft::new(Platform::of_this_machine(), checkout.time);
    component.user.clone_into(&mut draft.user);
    let entrypoint = component.programs.first().context("it has no program")?;
    draft.entrypoint = vec![format!("/usr/bin/{}", entrypoint.name)];
    let labels = [
        ("org.opencontainers.image.title", component.name),
        ("org.opencontainers.image.description", component.title),
        ("org.opencontainers.image.version", &checkout.version),
        ("org.opencontainers.image.revision", &checkout.revision),
        ("org.opencontainers.image.licenses", "Apache-2.0"),
        ("io.openshift.build.commit.id", &checkout.revision),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    draft.labels = labels.into();

    let root = root(&packages, component)?.layer_packed(checkout.time, options.packing)?;
    draft.push(
        root,
        &format!("Debian packages {}", component.packages.join(" ")),
    );
    let programs = programs(options, checkout, component, &packages)?;
    draft.push(
        programs.layer_packed(checkout.time, options.packing)?,
        "programs",
    );
    if let Some(files) = manifests {
        let mut tree = Tree::new();
        for (name, bytes) in files {
            tree.put(
                &format!("{MANIFESTS}/{name}"),
                0o644,
                EntryContent::Bytes(bytes),
            )?;
        }
        // The last layer: of an operator's image only that one's manifests count.
        draft.push(
            tree.layer_packed(checkout.time, options.packing)?,
            "manifests",
        );
        if component.role == ReleaseRole::Operator {
            draft
                .labels
                .insert(OPERATOR_LABEL.to_owned(), "true".to_owned());
        }
    }
    Ok(draft)
}

/// What is below our programs.
fn root(packages: &[Package], component: &Component) -> anyhow::Result<Tree> {
    let mut tree = Tree::new();
    for package in packages {
        package.unpack(&mut tree)?;
    }
    for (path, target) in component.links {
        tree.put(path, 0o777, EntryContent::Link((*target).to_owned()))?;
    }
    for (path, text) in [
        ("etc/group", GROUP),
        ("etc/nsswitch.conf", NSSWITCH),
        ("etc/passwd", PASSWD),
    ] {
        tree.put(path, 0o644, EntryContent::Bytes(text.into()))?;
    }
    tree.put_directory("tmp", 0o1777)?;
    Ok(tree)
}

fn programs(
    options: &Options,
    checkout: &Checkout,
    component: &Component,
    packages: &[Package],
) -> anyhow::Result<Tree> {
    let mut tree = Tree::new();
    let mut crates = BTreeSet::new();
    for program in component.programs {
        let file = options.programs.join(program.name);
        ensure!(
            file.exists(),
            "there is no {}: `make binaries` builds it",
            file.display()
        );
        tree.put(
            &format!("usr/bin/{}", program.name),
            0o755,
            EntryContent::File(file),
        )?;
        crates.extend(sbom::crates(&options.checkout, program)?);
    }
    let document = sbom::document(component, checkout, &crates, packages);
    let mut bytes = serde_json::to_vec_pretty(&document)?;
    bytes.push(b'\n');
    let path = format!("usr/share/sbom/{}.spdx.json", component.name);
    tree.put(&path, 0o644, EntryContent::Bytes(bytes))?;
    Ok(tree)
}

/// Location of an image in a layout directory.
pub(crate) fn location(out: &Path, name: &str) -> String {
    format!("oci:{}:{name}", out.display())
}
