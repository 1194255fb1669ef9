//! The layers of an image, with their sizes.
//!
//! Source: image-spec, "Image Manifest" and "Image Index"; Docker's manifest list and manifest of
//! schema 2, whose members are the same.

use serde::Deserialize;

use crate::one_line::one_line;
use crate::pull::index::{Index, why_unusable};

/// A layer as a registry has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ImageLayer {
    pub digest: String,
    /// Compressed.
    #[serde(rename = "size")]
    pub bytes: u64,
}

/// What a pull spec stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageManifest {
    /// One image.
    Image(Vec<ImageLayer>),
    /// One image for each platform; this is the digest of that for the host.
    Index { digest: String },
}

#[derive(Deserialize)]
struct Layered {
    layers: Option<Vec<ImageLayer>>,
}

/// Reads what a registry has for a pull spec, on a host of `architecture`.
///
/// # Errors
/// A sentence: an index without an image for the host, or what is no manifest with sizes.
pub fn read_manifest(bytes: &[u8], architecture: &str) -> Result<ImageManifest, String> {
    if let Some(index) = Index::parse(bytes) {
        let digest = index.digest_for(architecture);
        return match (digest, why_unusable(bytes, architecture)) {
            (Some(digest), _) => Ok(ImageManifest::Index { digest }),
            (None, Some(why)) => Err(why),
            (None, None) => Err("its index has no digest for this host".to_owned()),
        };
    }
    let read: Layered = serde_json::from_slice(bytes).map_err(|error| {
        let why = one_line(&error.to_string());
        format!("its manifest cannot be read: {why}")
    })?;
    match read.layers {
        Some(layers) if !layers.is_empty() => Ok(ImageManifest::Image(layers)),
        Some(_) | None => Err("its manifest names no layers".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(manifest: &Value) -> Result<ImageManifest, String> {
        read_manifest(manifest.to_string().as_bytes(), "arm64")
    }

    #[test]
    fn layers_have_their_sizes() {
        let manifest = json!({"layers": [{"digest": "sha256:1", "size": 5, "mediaType": "x"}]});
        let layer = ImageLayer {
            digest: "sha256:1".to_owned(),
            bytes: 5,
        };
        assert_eq!(read(&manifest), Ok(ImageManifest::Image(vec![layer])));
    }

    #[test]
    fn an_index_leads_to_the_image_of_this_host() {
        let of = |digest: &str, architecture: &str| json!({"digest": digest, "platform": {"os": "linux", "architecture": architecture}});
        let index = json!({"manifests": [of("sha256:a", "amd64"), of("sha256:b", "arm64")]});
        let digest = "sha256:b".to_owned();
        assert_eq!(read(&index), Ok(ImageManifest::Index { digest }));
        let others = json!({"manifests": [of("sha256:a", "amd64")]});
        assert_eq!(
            read(&others).unwrap_err(),
            "its index has none for linux/arm64: it has images for linux/amd64"
        );
    }

    #[test]
    fn what_has_no_sizes_is_refused_with_its_cause() {
        for (manifest, cause) in [
            (json!({}), "its manifest names no layers"),
            (json!({"layers": []}), "its manifest names no layers"),
            (
                json!({"fsLayers": [{"blobSum": "x"}]}),
                "its manifest names no layers",
            ),
            (
                json!({"layers": [{"digest": "sha256:1"}]}),
                "its manifest cannot be read: missing field `size`",
            ),
            (
                json!({"layers": [{"digest": "sha256:1", "size": -1}]}),
                "its manifest cannot be read: invalid value",
            ),
            (json!("text"), "its manifest cannot be read"),
        ] {
            let why = read(&manifest).unwrap_err();
            assert!(why.starts_with(cause), "{manifest}: {why}");
        }
        assert!(read_manifest(b"", "arm64").is_err());
    }
}
