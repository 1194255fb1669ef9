//! `slipway release info`: what a release image holds.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow, bail};
use futures::StreamExt as _;
use images::{ImageLocation, Stores};
use jiff::Timestamp;

use crate::access::open;
use crate::cli::{DiffArgs, Form, InfoArgs};
use crate::failure::{Several, Usage};
use crate::kubeconfig::ClusterArgs;
use crate::output::{print, print_data};
use crate::payload;
use crate::release_name::Whereabouts;
use crate::view::info::{Head, Images, Info, contents, text};
use crate::view::parts::{Part, PartLayer, sizes, verified};
use crate::view::{difference, json};

/// Images that are opened at once.
const AT_ONCE: usize = 8;

pub(crate) async fn run(arguments: InfoArgs) -> anyhow::Result<()> {
    let stores = arguments.access.stores()?;
    let cluster = ClusterArgs {
        kubeconfig: arguments.kubeconfig.clone(),
        output: None,
    };
    let whereabouts = Whereabouts {
        cluster: &cluster,
        service: &arguments.service,
    };
    let location = whereabouts.locate(arguments.release.as_ref()).await?;
    let info = read(&stores, &location).await?;
    if let Some(other) = &arguments.other {
        if arguments.size || arguments.verify {
            bail!(Usage(
                "--size and --verify are about one release, not two".to_owned()
            ));
        }
        let other = whereabouts.locate(Some(other)).await?;
        let other = read(&stores, &other).await?;
        return print(difference::text(&info, &other));
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
        return print(verified(&parts(&stores, &info).await?));
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
        None => print(text(&info, images(&arguments))),
    }
}

/// Prints how two releases differ.
pub(crate) async fn diff(arguments: DiffArgs) -> anyhow::Result<()> {
    let stores = arguments.access.stores()?;
    let (from, to) = (
        read(&stores, &arguments.from).await?,
        read(&stores, &arguments.to).await?,
    );
    print(difference::text(&from, &to))
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
