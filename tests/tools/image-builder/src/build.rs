//! Images of components.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use images::tree::{EntryContent, NewLayer, Packing};
use images::{Credentials, Draft, ImageLocation, Stores, Tree};
use release::payload::Files;
use release::references::annotation::{COMMIT_ID, SOURCE_LOCATION};
use release::verification::{self, SignatureTrust};
use release::{ImageDigest, MANIFESTS, OPERATOR_LABEL};

use crate::architecture::Architecture;
use crate::checkout::Checkout;
use crate::component::{COMPONENTS, Component, KEYS, NON_ROOT, ReleaseRole, file_name};
use crate::debian::{self, Package};
use crate::parts::{PackedParts, Parts};
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
    /// What the images are for.
    pub architecture: Architecture,
    /// Directory with the programs, which are for that.
    pub programs: PathBuf,
    /// Directory of Debian packages that were fetched.
    pub packages: PathBuf,
    /// Layout directory that the images are put into; emptied first.
    pub out: PathBuf,
    /// Version that the images are labelled with, in place of the workspace's.
    pub version: Option<String>,
    /// How their layers are packed.
    pub packing: Packing,
    /// What is packed already.
    pub parts: PackedParts,
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
    store(options, checkout, component.name, draft).await
}

async fn store(
    options: &Options,
    checkout: &Checkout,
    name: &'static str,
    draft: Draft,
) -> anyhow::Result<BuiltImage> {
    let built = draft.build()?;
    let location: ImageLocation = location(&options.out, name).parse()?;
    let stores = Stores::new(Credentials::default(), false);
    stores.put(&built, &location).await?;
    Ok(BuiltImage {
        name,
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
    let parts = options
        .parts
        .of(options, component, || pack(options, checkout, component))?;
    let mut draft = Draft::new(options.architecture.platform(), checkout.time);
    component.user.clone_into(&mut draft.user);
    draft.entrypoint = vec![component.entrypoint().context("it has nothing to run")?];
    draft.labels = labels(checkout, component.name, component.title);

    draft.push(
        parts.root.clone(),
        &format!("Debian packages {}", component.packages.join(" ")),
    );
    draft.push(parts.programs.clone(), "programs");
    draft.push(bill(options, checkout, component, &parts)?, "SBOM");
    if let Some(files) = manifests {
        // The last layer: of an operator's image only that one's manifests count.
        push_manifests(options, checkout, &mut draft, files)?;
        if component.role == ReleaseRole::Operator {
            mark_operator(&mut draft);
        }
    }
    Ok(draft)
}

fn labels(checkout: &Checkout, name: &str, title: &str) -> BTreeMap<String, String> {
    let labels = [
        ("org.opencontainers.image.title", Some(name)),
        ("org.opencontainers.image.description", Some(title)),
        ("org.opencontainers.image.version", Some(&checkout.version)),
        (
            "org.opencontainers.image.revision",
            Some(&checkout.revision),
        ),
        ("org.opencontainers.image.licenses", Some("Apache-2.0")),
        (COMMIT_ID, Some(&checkout.revision)),
        // Clients show commits and changelogs of images that have both.
        (SOURCE_LOCATION, checkout.source.as_deref()),
    ];
    let present = labels.into_iter();
    present
        .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
        .collect()
}

fn push_manifests(
    options: &Options,
    checkout: &Checkout,
    draft: &mut Draft,
    files: Files,
) -> anyhow::Result<()> {
    let mut tree = Tree::new();
    for (name, bytes) in files {
        let path = format!("{MANIFESTS}/{name}");
        tree.put(&path, 0o644, EntryContent::Bytes(bytes))?;
    }
    draft.push(
        tree.layer_packed(checkout.time, options.packing)?,
        "manifests",
    );
    Ok(())
}

fn mark_operator(draft: &mut Draft) {
    let (label, value) = (OPERATOR_LABEL.to_owned(), "true".to_owned());
    draft.labels.insert(label, value);
}

/// Makes the image that carries the keys by which clusters verify releases, beside those that are
/// there.
///
/// A release that is made from another one takes its manifests from the images again, and would
/// lose what no image carries.
///
/// # Errors
/// No key, no store, or one that clusters could not use.
pub async fn build_keys(options: &Options, trust: &SignatureTrust) -> anyhow::Result<BuiltImage> {
    let checkout = checkout(options)?;
    let draft = keys_draft(options, &checkout, trust);
    let draft = draft.with_context(|| format!("image {KEYS}"))?;
    store(options, &checkout, KEYS, draft).await
}

fn keys_draft(
    options: &Options,
    checkout: &Checkout,
    trust: &SignatureTrust,
) -> anyhow::Result<Draft> {
    let mut draft = Draft::new(options.architecture.platform(), checkout.time);
    NON_ROOT.clone_into(&mut draft.user);
    let title = "Slipway: keys by which clusters verify releases";
    draft.labels = labels(checkout, KEYS, title);
    let files = [(verification::FILE.to_owned(), trust.print()?)].into();
    push_manifests(options, checkout, &mut draft, files)?;
    mark_operator(&mut draft);
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

fn programs(options: &Options, component: &Component) -> anyhow::Result<Tree> {
    let mut tree = Tree::new();
    for program in component.programs {
        let file = options.programs.join(program.name);
        ensure!(
            file.exists(),
            "there is no {}: `make binaries` builds it",
            file.display()
        );
        let mut header = [0; 20];
        File::open(&file)?
            .read_exact(&mut header)
            .unwrap_or_default();
        ensure!(
            options.architecture.has_program(&header),
            "{} is no program for {}",
            file.display(),
            options.architecture.platform()
        );
        tree.put(
            &format!("usr/bin/{}", program.name),
            0o755,
            EntryContent::File(file),
        )?;
    }
    for script in component.scripts {
        tree.put(
            &format!("usr/bin/{}", file_name(script)),
            0o755,
            EntryContent::File(options.checkout.join(script)),
        )?;
    }
    Ok(tree)
}

fn pack(options: &Options, checkout: &Checkout, component: &Component) -> anyhow::Result<Parts> {
    let packages = debian::fetch(component.packages, options.architecture, &options.packages)?;
    let root = root(&packages, component)?;
    let programs = programs(options, component)?;
    let mut crates = BTreeSet::new();
    for program in component.programs {
        crates.extend(sbom::crates(
            &options.checkout,
            program,
            options.architecture,
        )?);
    }
    Ok(Parts {
        root: root.layer_packed(checkout.time, options.packing)?,
        programs: programs.layer_packed(checkout.time, options.packing)?,
        packages,
        crates,
    })
}

/// The layer with the bill of materials. It names the version, so that all below it is the same in
/// each version.
fn bill(
    options: &Options,
    checkout: &Checkout,
    component: &Component,
    parts: &Parts,
) -> anyhow::Result<NewLayer> {
    let document = sbom::document(component, checkout, options.architecture, parts);
    let mut bytes = serde_json::to_vec_pretty(&document)?;
    bytes.push(b'\n');
    let mut tree = Tree::new();
    let path = format!("usr/share/sbom/{}.spdx.json", component.name);
    tree.put(&path, 0o644, EntryContent::Bytes(bytes))?;
    Ok(tree.layer_packed(checkout.time, options.packing)?)
}

/// Location of an image in a layout directory.
pub(crate) fn location(out: &Path, name: &str) -> String {
    format!("oci:{}:{name}", out.display())
}

#[cfg(test)]
mod tests {
    use release::Payload;
    use release::assembly::{ComponentImage, ReleaseRequest, assemble, is_operator};
    use release::{Metadata, PullSpec};

    use super::*;
    use crate::component::Program;

    fn checkout(source: Option<&str>) -> Checkout {
        Checkout {
            revision: "c0ffee".to_owned(),
            time: jiff::Timestamp::UNIX_EPOCH,
            version: "1.2.3".to_owned(),
            source: source.map(str::to_owned),
        }
    }

    fn options(out: &Path) -> Options {
        Options {
            checkout: PathBuf::new(),
            architecture: Architecture::Amd64,
            programs: PathBuf::new(),
            packages: PathBuf::new(),
            out: out.to_owned(),
            version: None,
            packing: Packing::Small,
            parts: PackedParts::default(),
        }
    }

    #[test]
    fn an_image_names_its_sources_where_they_are_known() {
        let labels = labels(&checkout(Some("https://forge.example/a")), "n", "t");
        assert_eq!(
            labels["io.openshift.build.source-location"],
            "https://forge.example/a"
        );
        assert_eq!(labels["io.openshift.build.commit.id"], "c0ffee");
        let labels = super::labels(&checkout(None), "n", "t");
        assert!(!labels.contains_key("io.openshift.build.source-location"));
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    async fn versions_differ_in_their_bill_of_materials_only() {
        let directory = tempfile::tempdir().unwrap();
        let program = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0";
        std::fs::write(directory.path().join("small"), program).unwrap();
        let component = Component {
            name: "small",
            programs: &[Program {
                name: "small",
                cargo: &["-p", "image-builder"],
            }],
            scripts: &[],
            packages: &[],
            links: &[],
            ..COMPONENTS[0]
        };
        let options = Options {
            checkout: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.."),
            programs: directory.path().to_owned(),
            ..options(&directory.path().join("images"))
        };
        let stores = Stores::new(Credentials::default(), false);
        let mut layers = Vec::new();
        for version in ["1.0.0", "1.0.1"] {
            let checkout = Checkout {
                version: version.to_owned(),
                ..checkout(None)
            };
            put(&options, &checkout, &component, None).await.unwrap();
            let location: ImageLocation = location(&options.out, "small").parse().unwrap();
            let platform = options.architecture.platform();
            let image = images::Image::open(&stores, &location, &platform);
            let image = image.await.unwrap();
            let digests = image.layers().iter().map(|layer| layer.digest().clone());
            layers.push(digests.collect::<Vec<_>>());
        }
        assert_eq!(layers[0].len(), 3);
        assert_eq!(layers[0][..2], layers[1][..2]);
        assert_ne!(layers[0][2], layers[1][2]);
        // Programs for another processor are refused.
        let other = Options {
            architecture: Architecture::Arm64,
            parts: PackedParts::default(),
            ..options.clone()
        };
        let error = put(&other, &checkout(None), &component, None).await;
        let error = format!("{:#}", error.unwrap_err());
        assert!(
            error.ends_with("small is no program for linux/arm64"),
            "{error}"
        );
        // What is packed is not packed again.
        std::fs::remove_file(directory.path().join("small")).unwrap();
        put(&options, &checkout(None), &component, None)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_release_takes_its_keys_from_an_image() {
        let directory = tempfile::tempdir().unwrap();
        let options = options(&directory.path().join("images"));
        let trust = SignatureTrust {
            keyrings: [("test".to_owned(), b"key".to_vec())].into(),
            stores: [("1".to_owned(), "https://example.com/signatures".to_owned())].into(),
        };
        let checkout = checkout(None);
        let draft = keys_draft(&options, &checkout, &trust).unwrap();
        store(&options, &checkout, KEYS, draft).await.unwrap();

        let location: ImageLocation = location(&options.out, KEYS).parse().unwrap();
        let stores = Stores::new(Credentials::default(), false);
        let platform = options.architecture.platform();
        let image = images::Image::open(&stores, &location, &platform);
        let image = image.await.unwrap();
        assert!(is_operator(&image.labels()));
        let layers = images::content::Layers::Last;
        let files = images::content::directory(&stores, &image, MANIFESTS, layers, 1 << 20);
        let component = ComponentImage {
            pull_spec: PullSpec::new("registry.example/keys", image.digest()).unwrap(),
            annotations: BTreeMap::new(),
            labels: image.labels(),
            manifests: Some(files.await.unwrap()),
            is_override: false,
        };
        let assembly = assemble(&ReleaseRequest {
            metadata: Metadata::new("1.2.3".parse().unwrap()),
            annotations: BTreeMap::new(),
            images: [(KEYS.to_owned(), component)].into(),
            include: BTreeSet::new(),
            component_versions: BTreeMap::new(),
            verification: None,
            allow_missing_images: false,
            image_policy: None,
            os_streams: false,
        });
        let payload = Payload::parse(&assembly.unwrap().files).unwrap();
        let found = SignatureTrust::of(&payload.manifests).unwrap().unwrap();
        assert_eq!(found, trust);
    }

    #[test]
    fn keys_without_a_store_are_refused() {
        let trust = SignatureTrust {
            keyrings: [("test".to_owned(), b"key".to_vec())].into(),
            stores: BTreeMap::new(),
        };
        let error = keys_draft(&options(Path::new("x")), &checkout(None), &trust).unwrap_err();
        assert!(error.to_string().contains("store-"), "{error}");
    }
}
