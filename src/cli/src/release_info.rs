//! `slipway release info`: what a release image holds.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use futures::StreamExt as _;
use images::{ImageLocation, Stores};
use jiff::Timestamp;
use signatures::sigstore::SignedImage;

use crate::access::{AccessArgs, open};
use crate::decide::json_template::{JsonTemplate, TemplateError};
use crate::failure::{Several, Usage};
use crate::image_signatures;
use crate::kubeconfig::ClusterArgs;
use crate::output::{print, print_data};
use crate::payload;
use crate::release_name::{ReleaseLookup, ReleaseName};
use crate::release_os;
use crate::update_service::ServiceArgs;
use crate::view::info::{Head, Images, Info, contents, text};
use crate::view::parts::{Part, PartLayer, sizes, verified};
use crate::view::{difference, json};

/// Images that are opened at once.
const AT_ONCE: usize = 8;

/// `slipway release info`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("variant").args(["pullspecs", "commits", "commit_urls", "size", "contents", "verify", "image_for", "packages", "output"]))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of the command line, of which one may be set"
)]
pub struct InfoArgs {
    /// Release image, or a version, which is looked for in ClusterVersion, then in channels of the
    /// update service [default: the release that the cluster is to run]
    #[arg(value_name = "RELEASE")]
    pub release: Option<ReleaseName>,
    /// Another one: how the two differ is printed
    pub other: Option<ReleaseName>,
    /// Pull specs of the images, instead of digests
    #[arg(long)]
    pub pullspecs: bool,
    /// Source and commit of the images
    #[arg(long)]
    pub commits: bool,
    /// Addresses of the images' commits
    #[arg(long)]
    pub commit_urls: bool,
    /// Age, layers and compressed size of the images, and what they share
    #[arg(long)]
    pub size: bool,
    /// All files, each after a line with its name
    #[arg(long)]
    pub contents: bool,
    /// Check that all images are there and are what the release says: digest, time and name of each
    #[arg(long)]
    pub verify: bool,
    /// With --verify: ClusterImagePolicy, in YAML or JSON, that signatures beside the release and
    /// its images have to fulfil
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub policy: Vec<PathBuf>,
    /// Pull spec of one image
    #[arg(long, value_name = "NAME")]
    pub image_for: Option<String>,
    /// Packages, kernel and size of the OS images, or with two releases how these differ; all
    /// layers of the images are fetched
    #[arg(long, visible_aliases = ["rpmdb", "rpmdb-diff"])]
    pub packages: bool,
    /// With --packages: the image of this tag, instead of the OS images
    #[arg(
        long,
        value_name = "NAME",
        requires = "packages",
        visible_alias = "rpmdb-image"
    )]
    pub packages_of: Option<String>,
    /// json, name, digest, pullspec, or jsonpath=TEMPLATE with paths in braces, as kubectl takes it
    #[arg(long, short = 'o', value_name = "FORM", value_parser = form)]
    pub output: Option<Form>,
    /// Kubeconfig [default: $KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Update service.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `slipway release diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Release image
    pub from: ImageLocation,
    /// Release image that it is compared with
    pub to: ImageLocation,
    /// Packages, kernel and size of the OS images, too; all layers of the images are fetched
    #[arg(long)]
    pub packages: bool,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Forms of `slipway release info` for programs.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// All that is known
    Json,
    /// The version
    Name,
    /// The image's digest
    Digest,
    /// The image's pull spec by digest
    Pullspec,
    /// A template, filled in with all that is known
    JsonPath(JsonTemplate),
}

pub(crate) async fn run(arguments: InfoArgs) -> anyhow::Result<()> {
    let stores = arguments.access.stores()?;
    let cluster = ClusterArgs {
        kubeconfig: arguments.kubeconfig.clone(),
        output: None,
    };
    let lookup = ReleaseLookup {
        cluster: &cluster,
        service: &arguments.service,
    };
    let location = lookup.locate(arguments.release.as_ref()).await?;
    let info = read(&stores, &location).await?;
    if let Some(other) = &arguments.other {
        if arguments.size || arguments.verify {
            bail!(Usage(
                "--size and --verify are about one release, not two".to_owned()
            ));
        }
        let other = lookup.locate(Some(other)).await?;
        let other = read(&stores, &other).await?;
        let only = arguments.packages_of.as_deref();
        return differ(&stores, &info, &other, arguments.packages, only).await;
    }
    if let Some(name) = &arguments.image_for {
        let missing = || anyhow!("no image tag {name:?} exists in the release image {location}");
        let pull_spec = info.image(name).ok_or_else(missing)?;
        return print(format!("{pull_spec}\n"));
    }
    if arguments.contents {
        return print(String::from_utf8_lossy(&contents(&info.files)));
    }
    if arguments.verify {
        print(verified(&parts(&stores, &info).await?))?;
        return signed(&stores, &arguments, &location, &info).await;
    }
    if arguments.size {
        return print(sizes(&parts(&stores, &info).await?, Timestamp::now()));
    }
    let json = || json::json(&info, &location.to_string());
    match &arguments.output {
        Some(Form::Json) => print_data(serde_json::to_string_pretty(&json())? + "\n"),
        Some(Form::JsonPath(template)) => print_data(template.print(&json())),
        Some(Form::Name) => print(format!("{}\n", info.version())),
        Some(Form::Digest) => print(format!("{}\n", info.head.digest)),
        Some(Form::Pullspec) => print(format!("{}\n", info.head.pull_from)),
        None => {
            print(text(&info, images(&arguments)))?;
            if arguments.packages {
                return release_os::list(&stores, &info, arguments.packages_of.as_deref()).await;
            }
            Ok(())
        }
    }
}

/// Prints how two releases differ; last, because it may take minutes, what changes in their OS
/// images.
async fn differ(
    stores: &Stores,
    from: &Info,
    to: &Info,
    has_packages: bool,
    only: Option<&str>,
) -> anyhow::Result<()> {
    let text = difference::text(from, to);
    if has_packages {
        print(text)?;
        return release_os::compare(stores, from, to, only).await;
    }
    print(text + &release_os::hint(from, to))
}

/// Prints how two releases differ.
pub(crate) async fn diff(arguments: DiffArgs) -> anyhow::Result<()> {
    let stores = arguments.access.stores()?;
    let (from, to) = (
        read(&stores, &arguments.from).await?,
        read(&stores, &arguments.to).await?,
    );
    differ(&stores, &from, &to, arguments.packages, None).await
}

fn images(arguments: &InfoArgs) -> Images {
    if arguments.pullspecs {
        Images::PullSpecs
    } else if arguments.commits {
        Images::Commits
    } else if arguments.commit_urls {
        Images::CommitUrls
    } else {
        Images::Digests
    }
}

async fn read(stores: &Stores, location: &ImageLocation) -> anyhow::Result<Info> {
    let release = payload::read(stores, location).await?;
    let head = Head::of(&release.image);
    Ok(Info::new(head, release.payload, release.files))
}

/// Holds the signatures beside the release and its images against the policies that are named.
///
/// # Errors
/// All images whose policy is not fulfilled, by name; no policy is about the release itself.
async fn signed(
    stores: &Stores,
    arguments: &InfoArgs,
    location: &ImageLocation,
    info: &Info,
) -> anyhow::Result<()> {
    if arguments.policy.is_empty() {
        return Ok(());
    }
    let policies = image_signatures::policies(&arguments.policy)?;
    let tags = info.payload.references.tags.iter();
    let images = tags.map(|(name, tag)| (name.clone(), tag.from.parse()));
    let release = ("release".to_owned(), Ok(location.clone()));
    let checks = [release].into_iter().chain(images).map(|(name, image)| {
        let policies = &policies;
        async move {
            let checked = async {
                let image: ImageLocation = image?;
                let digest = match image.digest()? {
                    Some(digest) => digest,
                    None => open(stores, &image).await?.outer_digest().clone(),
                };
                image_signatures::verify(stores, policies, &image, &digest).await
            };
            (name, checked.await)
        }
    });
    let mut checks = futures::stream::iter(checks).buffered(AT_ONCE);
    let mut errors = Vec::new();
    while let Some((name, checked)) = checks.next().await {
        match checked {
            Ok(signed) if signed.is_empty() && name == "release" => errors.push(anyhow!(
                "release: no policy of --policy is about {location}: its scopes leave it out"
            )),
            Ok(signed) => {
                for image in signed {
                    let SignedImage {
                        policy, reference, ..
                    } = image;
                    print(format!(
                        "{name} signed as {reference} by ClusterImagePolicy {policy}\n"
                    ))?;
                }
            }
            Err(error) => errors.push(error.context(name)),
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Several::new(errors).into())
}

/// Opens every image of a release, which checks the digests of its manifest and configuration.
///
/// # Errors
/// All images that are not there or damaged, by name.
async fn parts(stores: &Stores, info: &Info) -> anyhow::Result<Vec<Part>> {
    let tags = info.payload.references.tags.iter();
    let opened = tags.map(|(name, tag)| async move {
        let failed = || format!("image {name} ({})", tag.from);
        let location: ImageLocation = tag.from.parse().with_context(failed)?;
        let image = open(stores, &location).await.with_context(failed)?;
        let layers = image.layers().iter().map(|layer| PartLayer {
            digest: layer.digest().digest().to_owned(),
            bytes: layer.size(),
        });
        anyhow::Ok(Part {
            name: name.clone(),
            digest: image.outer_digest().to_string(),
            created: image.created(),
            layers: layers.collect(),
        })
    });
    let opened: Vec<_> = futures::stream::iter(opened)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let (mut parts, mut errors) = (BTreeMap::new(), Vec::new());
    for part in opened {
        match part {
            Ok(part) => drop(parts.insert(part.name.clone(), part)),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        errors.sort_by_key(ToString::to_string);
        return Err(Several::new(errors).into());
    }
    Ok(parts.into_values().collect())
}

/// Why a text is no [`Form`].
#[derive(Debug, thiserror::Error)]
enum NoForm {
    // A field, not the source: clap prints the first error of a chain only.
    #[error("jsonpath: {error}")]
    JsonPath { error: TemplateError },
    #[error("there are no Go templates: take jsonpath=TEMPLATE, or json")]
    GoTemplate,
    #[error("it is not json, name, digest, pullspec or jsonpath=TEMPLATE")]
    Unknown,
}

fn form(text: &str) -> Result<Form, NoForm> {
    Ok(match text {
        "json" => Form::Json,
        "name" => Form::Name,
        "digest" => Form::Digest,
        "pullspec" => Form::Pullspec,
        _ => match text.split_once('=') {
            Some(("jsonpath", template)) => Form::JsonPath(
                template
                    .parse()
                    .map_err(|error| NoForm::JsonPath { error })?,
            ),
            _ if text.starts_with("go-template") => return Err(NoForm::GoTemplate),
            _ => return Err(NoForm::Unknown),
        },
    })
}
