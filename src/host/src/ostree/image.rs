//! An image opened at its registry, and what was fetched of it.

use std::collections::BTreeMap;

use ostree_ext::containers_image_proxy::{ImageProxy, OpenedImage};
use ostree_ext::oci_spec::image::ImageManifest;

use super::Result;
use super::refs::fetch_error;

/// An image on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub image: String,
    pub checksum: String,
    /// Digest of its manifest; `None` if the registry was not asked.
    pub digest: Option<String>,
    pub version: Option<String>,
    /// Bytes of layers fetched over the network in this run.
    pub fetched_bytes: u64,
}

/// An image opened at its registry.
pub(super) struct Opened {
    pub(super) proxy: ImageProxy,
    pub(super) image: OpenedImage,
    pub(super) digest: String,
    pub(super) manifest: ImageManifest,
    pub(super) labels: BTreeMap<String, String>,
}

pub(super) async fn close(opened: Opened, image: &str) -> Result<()> {
    let close = async {
        opened.proxy.close_image(&opened.image).await?;
        opened.proxy.finalize().await
    };
    close.await.map_err(|error| fetch_error(image, error))
}
