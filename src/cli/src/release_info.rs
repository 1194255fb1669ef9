//! `slipway release info`: what a release image holds.

use anyhow::anyhow;
use images::{ImageLocation, Stores};

use crate::cli::{Form, InfoArgs};
use crate::output::print;
use crate::payload;
use crate::view::info::{Head, Images, Info, contents, text};
use crate::view::{difference, json};

pub(crate) async fn run(arguments: InfoArgs) -> anyhow::Result<()> {
    let stores = arguments.access.stores()?;
    let info = read(&stores, &arguments.image).await?;
    if let Some(other) = &arguments.other {
        let other = read(&stores, other).await?;
        return print(difference::text(&info, &other));
    }
    if let Some(name) = &arguments.image_for {
        let image = arguments.image.to_string();
        let missing = || anyhow!("no image tag {name:?} exists in the release image {image}");
        let pull_spec = info.image(name).ok_or_else(missing)?;
        return print(format!("{pull_spec}\n"));
    }
    if arguments.contents {
        return print(contents(&info.files));
    }
    match arguments.output {
        Some(Form::Json) => {
            let json = json::json(&info, &arguments.image.to_string());
            print(serde_json::to_string_pretty(&json)? + "\n")
        }
        Some(Form::Name) => print(format!("{}\n", info.version())),
        Some(Form::Digest) => print(format!("{}\n", info.head.digest)),
        Some(Form::Pullspec) => print(format!("{}\n", info.head.pull_from)),
        None => print(text(&info, images(&arguments))),
    }
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
