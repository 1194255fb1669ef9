//! `slipway release mirror`: a release and all of its images into one repository.
//!
//! Each image keeps its digest, lists stay whole, and signatures beside images come along. An image
//! whose tag names it already is not copied again, so that a mirror that was interrupted goes on
//! where it ended.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::{Args, ValueEnum};
use futures::StreamExt as _;
use images::copy::{ImageCopy, copy};
use images::{ImageLocation, Stores, attached};
use jiff::Timestamp;
use release::ImageDigest;
use serde_json::{Value, json};
use signatures::sigstore::{PulledImage, SigstorePolicy, demanding};

use crate::access::AccessArgs;
use crate::failure::{Several, Usage};
use crate::image_signatures;
use crate::output::{print, write};
use crate::payload;

/// The registry of names without one, and where such names are in it.
const HUB: &str = "docker.io";
const HUB_IMAGES: &str = "library/";

/// Images that are copied at once.
const AT_ONCE: usize = 4;

/// `slipway release mirror`.
#[derive(Debug, Args)]
pub struct MirrorArgs {
    /// Release image
    pub image: ImageLocation,
    /// Repository that all images are put into: registry/repository
    #[arg(long, value_name = "REPOSITORY")]
    pub to: ImageLocation,
    /// Of a release for several architectures, keep all; else that of this machine is mirrored
    #[arg(long)]
    pub keep_manifest_list: bool,
    /// Directory of signatures, as `release sign` writes it: those of the release become a
    /// ConfigMap
    #[arg(
        long,
        value_name = "DIRECTORY",
        requires = "release_image_signature_to_dir"
    )]
    pub store: Option<PathBuf>,
    /// Directory that the ConfigMap with the signatures is written to
    #[arg(long, value_name = "DIRECTORY", requires = "store")]
    pub release_image_signature_to_dir: Option<PathBuf>,
    /// Objects for the cluster that are printed at the end
    #[arg(long, value_name = "FORM", default_value = "idms")]
    pub print_mirror_instructions: MirrorObjects,
    /// Print what would be copied, and copy nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Objects that make a cluster use a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MirrorObjects {
    /// The mirror set of images by digest
    Idms,
    /// The content source policy of older clusters
    Icsp,
    /// None
    None,
}

/// One image and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MirrorStep {
    /// The image's name in the release.
    name: String,
    from: ImageLocation,
    to: ImageLocation,
}

pub(crate) async fn run(arguments: MirrorArgs) -> anyhow::Result<()> {
    let stores = arguments.access.stores()?;
    let repository = repository(&arguments.to)?;
    let release = payload::read(&stores, &arguments.image).await?;
    let version = release.payload.metadata.version.to_string();
    let is_list = arguments.keep_manifest_list && release.image.list().is_some();
    let (digest, architecture) = if is_list {
        (release.image.outer_digest(), "multi".to_owned())
    } else {
        let platform = release.image.platform();
        (release.image.digest(), machine(&platform.architecture))
    };
    let prefix = tag(&format!("{version}-{architecture}"));
    let target: ImageLocation = format!("{repository}:{prefix}").parse()?;
    let mut steps = vec![MirrorStep {
        name: "release".to_owned(),
        from: arguments.image.with_digest(digest),
        to: target.clone(),
    }];
    for (name, component) in &release.payload.references.tags {
        steps.push(MirrorStep {
            name: name.clone(),
            from: component_image(name, &component.from)?,
            to: format!("{repository}:{}", tag(&format!("{prefix}-{name}"))).parse()?,
        });
    }
    if arguments.dry_run {
        for step in &steps {
            print(format!("{} -> {}\n", step.from, step.to))?;
        }
        return Ok(());
    }
    let manifests = &release.payload.manifests;
    let policies = manifests
        .iter()
        .filter_map(|one| image_signatures::policy(one).transpose());
    let policies = policies.collect::<anyhow::Result<Vec<_>>>()?;
    carry_out(&stores, &steps, &policies).await?;
    let mut text = format!(
        "\nSuccess\nUpdate image:  {}\nMirror prefix: {repository}:{prefix}\n",
        target
            .pull_spec(digest)
            .map_or_else(|| target.to_string(), |spec| spec.to_string())
    );
    let sources = sources(&arguments.image, &release.payload.references.tags);
    text.push_str(&instructions(
        arguments.print_mirror_instructions,
        &repository,
        &sources,
    ));
    if let (Some(store), Some(directory)) =
        (&arguments.store, &arguments.release_image_signature_to_dir)
    {
        let signatures = signatures::store::read(store, digest)?;
        if signatures.is_empty() {
            bail!("{}: there is no signature of {digest}", store.display());
        }
        let (name, object) = signature_map(digest, &signatures);
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make directory {}", directory.display()))?;
        let path = directory.join(name);
        write(
            &path,
            (serde_json::to_string_pretty(&object)? + "\n").as_bytes(),
        )?;
        text.extend([format!("\nSignatures:    {}\n", path.display())]);
    }
    print(text)
}

/// Copies all; each failure has a line, and does not keep others from being copied. An image whose
/// signature is missing is one: nodes that follow the release's policy would not pull it.
async fn carry_out(
    stores: &Stores,
    steps: &[MirrorStep],
    policies: &[SigstorePolicy],
) -> anyhow::Result<()> {
    let copies = futures::stream::iter(steps).map(|step| async move {
        let copied = copy(stores, &step.from, &step.to).await;
        let copied = match copied {
            Ok(copied) => copied,
            Err(error) => return (step, Err(error)),
        };
        for digest in [&copied.digest].into_iter().chain(&copied.images) {
            if let Err(error) = attached::copy(stores, &step.from, &step.to, digest).await {
                return (step, Err(error));
            }
        }
        (step, Ok(copied))
    });
    let mut copies = copies.buffer_unordered(AT_ONCE);
    let (mut errors, mut failed) = (Vec::new(), 0);
    while let Some((step, copied)) = copies.next().await {
        match copied {
            Ok(ImageCopy {
                digest, was_there, ..
            }) => {
                let done = if was_there { "there already" } else { "copied" };
                print(format!("{} {digest} {done}\n", step.to))?;
                errors.extend(unsigned(stores, step, &digest, policies).await);
            }
            Err(error) => {
                failed += 1;
                errors.push(
                    anyhow::Error::new(error)
                        .context(format!("cannot copy {} to {}", step.from, step.to)),
                );
            }
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    if failed > 0 {
        errors.push(anyhow!(
            "{failed} of {} images are not mirrored; the same command goes on with them",
            steps.len()
        ));
    }
    Err(Several::new(errors).into())
}

/// Why nodes that follow the release's own policies would not pull an image from the mirror.
async fn unsigned(
    stores: &Stores,
    step: &MirrorStep,
    digest: &ImageDigest,
    policies: &[SigstorePolicy],
) -> Option<anyhow::Error> {
    let name = step.from.pull_spec(digest)?.to_string();
    let places = [step.to.clone()];
    let pulled = PulledImage {
        name: &name,
        digest,
        places: &places,
    };
    for policy in demanding(policies, &name) {
        if let Err(why) = pulled.verify(stores, policy, Timestamp::now()).await {
            let context = format!("nodes will not pull {} from the mirror", step.name);
            return Some(anyhow::Error::new(why).context(context));
        }
    }
    None
}

/// The image of a component, as the release names it. A release may come from a stranger, so that
/// a directory of this computer is none: its files would be copied to the mirror.
fn component_image(name: &str, from: &str) -> anyhow::Result<ImageLocation> {
    let field = || format!("image-references, tag {name}");
    match from.parse().with_context(field)? {
        location @ ImageLocation::Registry(_) => Ok(location),
        ImageLocation::Layout { .. } => {
            bail!("{}: {from:?} is no image in a registry", field())
        }
    }
}

/// The repository, without tag and digest.
fn repository(to: &ImageLocation) -> anyhow::Result<String> {
    let ImageLocation::Registry(reference) = to else {
        bail!(Usage(format!(
            "--to {to}: it is no repository of a registry"
        )));
    };
    // A name without a registry is read as one of Docker Hub's own images.
    if reference.registry() == HUB && reference.repository().starts_with(HUB_IMAGES) {
        bail!(Usage(format!(
            "--to {to}: it names no registry; a repository is written as registry/repository"
        )));
    }
    // A reference without tag is read as one with `latest`.
    if reference.digest().is_some() || reference.tag().is_some_and(|tag| tag != "latest") {
        bail!(Usage(format!(
            "--to {to}: a repository has no tag and no digest; the tags are made"
        )));
    }
    Ok(format!(
        "{}/{}",
        reference.registry(),
        reference.repository()
    ))
}

/// Repositories that the release's images come from, sorted.
fn sources(
    image: &ImageLocation,
    tags: &std::collections::BTreeMap<String, release::references::Tag>,
) -> Vec<String> {
    let components = tags.values().filter_map(|tag| tag.from.parse().ok());
    let all = components.chain([image.clone()]);
    let mut names: Vec<String> = all
        .filter_map(|location| match location {
            ImageLocation::Registry(reference) => Some(format!(
                "{}/{}",
                reference.registry(),
                reference.repository()
            )),
            ImageLocation::Layout { .. } => None,
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The name of an architecture as machines report it.
fn machine(architecture: &str) -> String {
    match architecture {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    }
    .to_owned()
}

/// A text as a tag: `+` of a version is not allowed in one.
fn tag(text: &str) -> String {
    text.replace('+', "_").chars().take(128).collect()
}

/// What the administrator gives to the installation and to the cluster.
fn instructions(objects: MirrorObjects, repository: &str, sources: &[String]) -> String {
    let (field, kind, api, list) = match objects {
        MirrorObjects::None => return String::new(),
        MirrorObjects::Idms => (
            "imageDigestSources",
            "ImageDigestMirrorSet",
            "config.openshift.io/v1",
            "imageDigestMirrors",
        ),
        MirrorObjects::Icsp => (
            "imageContentSources",
            "ImageContentSourcePolicy",
            "operator.openshift.io/v1alpha1",
            "repositoryDigestMirrors",
        ),
    };
    let entries = |indent: &str| -> String {
        let entry = |source: &String| {
            format!("{indent}- mirrors:\n{indent}  - {repository}\n{indent}  source: {source}\n")
        };
        sources.iter().map(entry).collect()
    };
    format!(
        "\nTo use the mirror in an installation, add this to install-config.yaml:\n\n\
         {field}:\n{}\n\nTo use it in a cluster, apply this:\n\n\
         apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: example\nspec:\n  {list}:\n{}",
        entries("").trim_end(),
        entries("  ")
    )
}

/// Name and content of the ConfigMap that a cluster reads signatures of.
fn signature_map(digest: &ImageDigest, signatures: &[Vec<u8>]) -> (String, Value) {
    let hex = digest.hex();
    let data: serde_json::Map<String, Value> = (1..)
        .zip(signatures)
        .map(|(number, signature)| {
            let text = BASE64_STANDARD.encode(signature);
            (format!("sha256-{hex}-{number}"), Value::from(text))
        })
        .collect();
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": format!("sha256-{hex}"),
            "namespace": "openshift-config-managed",
            "labels": { "release.openshift.io/verification-signatures": "" }
        },
        "binaryData": data
    });
    let short: String = hex.chars().take(16).collect();
    (format!("signature-sha256-{short}.json"), object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str) -> ImageLocation {
        text.parse().unwrap()
    }

    #[test]
    fn a_target_is_a_repository_of_a_registry() {
        let to = |text: &str| repository(&location(text)).map_err(|error| error.to_string());
        assert_eq!(
            to("mirror.example:5000/ocp/release").unwrap(),
            "mirror.example:5000/ocp/release"
        );
        assert!(
            to("mirror.example/ocp:v1")
                .unwrap_err()
                .contains("no tag and no digest")
        );
        for text in ["ocp", "mirror.example", "mirror.example:5000"] {
            let error = to(text).unwrap_err();
            assert!(error.contains("it names no registry"), "{text}: {error}");
        }
        assert_eq!(to("docker.io/team/ocp").unwrap(), "docker.io/team/ocp");
        assert!(
            to("oci:/tmp/x")
                .unwrap_err()
                .contains("no repository of a registry")
        );
    }

    #[test]
    fn a_component_is_an_image_in_a_registry() {
        let image = |from: &str| {
            let image = component_image("etcd", from);
            image.map_err(|error| error.to_string())
        };
        for from in ["quay.example/etcd:1", "docker://quay.example/etcd:1"] {
            assert_eq!(image(from).unwrap(), location("quay.example/etcd:1"));
        }
        for from in ["oci:/home/user/images", "oci:images:name"] {
            let expected =
                format!("image-references, tag etcd: {from:?} is no image in a registry");
            assert_eq!(image(from).unwrap_err(), expected);
        }
        let error = image("quay.example/ETCD").unwrap_err();
        assert_eq!(error, "image-references, tag etcd");
    }

    #[test]
    fn instructions_name_each_source_once() {
        let tags = [
            ("a", "quay.example/dev@sha256:1"),
            ("b", "quay.example/dev@sha256:2"),
        ];
        let tags = tags.map(|(name, from)| {
            let from = from.replace("sha256:", &format!("sha256:{}", "0".repeat(63)));
            (
                name.to_owned(),
                release::references::Tag {
                    from,
                    ..Default::default()
                },
            )
        });
        let sources = sources(
            &location("quay.example/release:1"),
            &tags.into_iter().collect(),
        );
        assert_eq!(sources, ["quay.example/dev", "quay.example/release"]);
        let text = instructions(MirrorObjects::Idms, "m.example/o", &sources[..1]);
        let expected = "
To use the mirror in an installation, add this to install-config.yaml:

imageDigestSources:
- mirrors:
  - m.example/o
  source: quay.example/dev

To use it in a cluster, apply this:

apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata:
  name: example
spec:
  imageDigestMirrors:
  - mirrors:
    - m.example/o
    source: quay.example/dev
";
        assert_eq!(text, expected);
        assert_eq!(instructions(MirrorObjects::None, "m", &sources), "");
        assert!(
            instructions(MirrorObjects::Icsp, "m", &sources).contains("repositoryDigestMirrors")
        );
    }

    #[test]
    fn signatures_become_a_config_map() {
        let digest: ImageDigest = format!("sha256:{}", "ab".repeat(32)).parse().unwrap();
        let (name, object) = signature_map(&digest, &[b"one".to_vec(), b"two".to_vec()]);
        assert_eq!(name, format!("signature-sha256-{}.json", "ab".repeat(8)));
        let key = format!("sha256-{}", "ab".repeat(32));
        assert_eq!(object["metadata"]["name"], json!(key));
        assert_eq!(object["binaryData"][format!("{key}-2")], json!("dHdv"));
    }

    #[test]
    fn names_are_those_of_machines_and_tags() {
        assert_eq!(machine("amd64"), "x86_64");
        assert_eq!(machine("s390x"), "s390x");
        assert_eq!(tag("4.18.9+build-x86_64"), "4.18.9_build-x86_64");
    }
}
