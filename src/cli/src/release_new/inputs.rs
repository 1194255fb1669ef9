//! The images that a release is made of.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use futures::{StreamExt as _, stream};
use images::content::{self, Layers};
use images::{Image, ImageLocation, Stores};
use release::assembly::{self, is_operator};
use release::payload::Files;
use release::{MANIFESTS, PullSpec, REFERENCES_FILE, References};

use super::NewArgs;
use crate::access::open;
use crate::failure::Several;
use crate::output::warn;
use crate::payload::{self, FILE_MAX_BYTES, Release};

/// Images that are read at once.
const AT_ONCE: usize = 4;

/// An image by name, before it is read.
struct Input {
    location: ImageLocation,
    annotations: BTreeMap<String, String>,
    is_override: bool,
    /// Manifests that take the place of the image's own.
    manifests: Option<Files>,
}

/// What a release is made of, read.
pub(crate) struct Inputs {
    /// The release that is taken over, if any.
    pub(crate) release: Option<Release>,
    /// Annotations of the images as a whole.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Images as the assembly takes them.
    pub(crate) images: BTreeMap<String, assembly::ComponentImage>,
    pub(crate) opened: BTreeMap<String, Image>,
}

/// Reads all inputs.
///
/// # Errors
/// All images that cannot be read, by name.
pub(crate) async fn read(stores: &Stores, arguments: &NewArgs) -> anyhow::Result<Inputs> {
    let release = match &arguments.from_release {
        Some(location) => Some(payload::read(stores, location).await?),
        None => None,
    };
    let (references, directory) = match (
        &release,
        &arguments.from_image_stream_file,
        &arguments.from_dir,
    ) {
        (Some(release), _, _) => (release.payload.references.clone(), None),
        (None, Some(file), _) => (read_references(file)?, None),
        (None, None, Some(directory)) => {
            let references = read_references(&directory.join(REFERENCES_FILE))?;
            (references, Some(directory.as_path()))
        }
        (None, None, None) => (References::default(), None),
    };
    let annotations = references.annotations.clone();
    let mut inputs = named(references, directory)?;
    for (name, location) in &arguments.images {
        let annotations = BTreeMap::new();
        let input = Input {
            location: location.clone(),
            annotations,
            is_override: true,
            manifests: None,
        };
        if inputs
            .insert(name.clone(), input)
            .is_some_and(|earlier| earlier.is_override)
        {
            return Err(anyhow!("two images are named {name}"));
        }
    }
    for name in &arguments.exclude {
        inputs
            .remove(name)
            .ok_or_else(|| anyhow!("--exclude {name}: no image is named so"))?;
    }
    if let Some(name) = arguments
        .include
        .iter()
        .find(|name| !inputs.contains_key(*name))
    {
        return Err(anyhow!("--include {name}: no image is named so"));
    }
    let mut all = Inputs {
        release,
        annotations,
        images: BTreeMap::new(),
        opened: BTreeMap::new(),
    };
    let reading = inputs.into_iter().map(|(name, input)| async move {
        let read = read_one(stores, arguments.published_at.as_deref(), &name, input).await;
        (name, read)
    });
    let read: BTreeMap<_, _> = stream::iter(reading)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let mut errors = Vec::new();
    for (name, read) in read {
        match read {
            Ok((image, opened)) => {
                all.images.insert(name.clone(), image);
                all.opened.insert(name, opened);
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(all)
    } else {
        Err(Several::new(errors).into())
    }
}

fn named(
    references: References,
    directory: Option<&Path>,
) -> anyhow::Result<BTreeMap<String, Input>> {
    let mut inputs = BTreeMap::new();
    for (name, tag) in references.tags {
        let location = tag.from.parse().with_context(|| format!("image {name}"))?;
        let manifests = match directory {
            Some(directory) => read_directory(&directory.join(&name))?,
            None => None,
        };
        let input = Input {
            location,
            annotations: tag.annotations,
            is_override: false,
            manifests,
        };
        inputs.insert(name, input);
    }
    Ok(inputs)
}

/// The files of a directory; none where there is no directory.
fn read_directory(directory: &Path) -> anyhow::Result<Option<Files>> {
    let shown = directory.display();
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    };
    let mut files = Files::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot read {shown}"))?
            .path();
        if !path.is_file() {
            warn(&format!("{} is left out: it is no file", path.display()));
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| anyhow!("{} is not UTF-8", path.display()))?;
        let bytes = std::fs::read(&path);
        let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
        files.insert(name.to_owned(), bytes);
    }
    Ok(Some(files))
}

fn read_references(file: &Path) -> anyhow::Result<References> {
    let shown = file.display();
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {shown}"))?;
    References::parse(&bytes).with_context(|| format!("file {shown}"))
}

async fn read_one(
    stores: &Stores,
    published_at: Option<&str>,
    name: &str,
    input: Input,
) -> anyhow::Result<(assembly::ComponentImage, Image)> {
    let opened = open(stores, &input.location).await;
    let opened = opened.with_context(|| format!("image {name}"))?;
    let digest = opened.outer_digest();
    let pull_spec = match (&input.location, published_at) {
        (
            ImageLocation::Layout {
                name: Some(of_layout),
                ..
            },
            Some(repository),
        ) => {
            let repository = format!("{}/{of_layout}", repository.trim_end_matches('/'));
            let pull_spec = PullSpec::new(&repository, digest);
            Some(pull_spec.with_context(|| format!("--published-at: image {name}"))?)
        }
        (location, _) => location.pull_spec(digest),
    };
    let pull_spec = pull_spec.ok_or_else(|| {
        anyhow!(
            "image {name}: {} is in no registry, where clusters could pull it; --published-at \
             names the one that it is published in",
            input.location
        )
    })?;
    let labels = opened.labels();
    let manifests = match input.manifests {
        Some(files) => Some(files),
        None if is_operator(&labels) => {
            let layers = if input.is_override {
                Layers::All
            } else {
                Layers::Last
            };
            let files =
                content::directory(stores, &opened, MANIFESTS, layers, FILE_MAX_BYTES).await;
            Some(files.with_context(|| format!("image {name}"))?)
        }
        None => None,
    };
    let image = assembly::ComponentImage {
        pull_spec,
        annotations: input.annotations,
        labels,
        manifests,
        is_override: input.is_override,
    };
    Ok((image, opened))
}
