//! The layers of images, as their registries have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use chassis::report::Chain;
use host::pull::architecture;
use node_update::pins::{ImageLayer, ImageManifest, read_manifest};
use tokio::task::JoinSet;

use super::pin_host::PinHost;

/// What registries have.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    /// Layers by pull spec.
    pub(super) layers: BTreeMap<String, Vec<ImageLayer>>,
    /// Why they cannot be read, by pull spec.
    pub(super) failures: BTreeMap<String, String>,
}

/// Reads the layers of images, of at most `at_once` beside each other.
pub(super) async fn read<H: PinHost>(
    host: &Arc<H>,
    images: Vec<String>,
    at_once: usize,
) -> anyhow::Result<Sizes> {
    let mut sizes = Sizes::default();
    let mut waiting = images.into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < at_once
            && let Some(image) = waiting.next()
        {
            let host = Arc::clone(host);
            running.spawn_blocking(move || {
                let layers = layers(&*host, &image);
                (image, layers)
            });
        }
        let Some(joined) = running.join_next().await else {
            return Ok(sizes);
        };
        match joined.context("sizes were not read to the end")? {
            (image, Ok(layers)) => {
                sizes.layers.insert(image, layers);
            }
            (image, Err(error)) => {
                let why = format!("its size is not known: {}", Chain(error.as_ref()));
                sizes.failures.insert(image, why);
            }
        }
    }
}

fn layers(host: &impl PinHost, image: &str) -> anyhow::Result<Vec<ImageLayer>> {
    let read = |image: &str| {
        let bytes = host.manifest(image)?;
        read_manifest(&bytes, architecture()).map_err(anyhow::Error::msg)
    };
    let digest = match read(image)? {
        ImageManifest::Image(layers) => return Ok(layers),
        ImageManifest::Index { digest } => digest,
    };
    let name = image.split('@').next().unwrap_or(image);
    match read(&format!("{name}@{digest}"))? {
        ImageManifest::Image(layers) => Ok(layers),
        ImageManifest::Index { .. } => bail!("its index leads to another index"),
    }
}
