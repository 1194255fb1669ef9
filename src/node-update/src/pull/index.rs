//! An image index: which platforms it has an image for.

use std::collections::BTreeSet;

use serde::Deserialize;

/// The members of an index, or a manifest list, that are read.
#[derive(Debug, Deserialize)]
pub(crate) struct Index {
    manifests: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(default)]
    digest: String,
    #[serde(default)]
    platform: Option<Platform>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Platform {
    os: String,
    architecture: String,
}

impl Platform {
    fn is_for(&self, architecture: &str) -> bool {
        self.os == "linux" && self.architecture == architecture
    }
}

impl Index {
    /// Reads an index; `None` for what is none, as the manifest of one image.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// The digest of the first image for a host of `architecture`.
    pub(crate) fn digest_for(&self, architecture: &str) -> Option<String> {
        let mut entries = self.manifests.iter();
        let entry = entries.find(|entry| {
            let platform = entry.platform.as_ref();
            platform.is_some_and(|platform| platform.is_for(architecture))
        })?;
        Some(entry.digest.clone()).filter(|digest| !digest.is_empty())
    }
}

/// Why an index is of no use to a host of `architecture`, with what it has; `None` for what is no
/// index, or has an image for the host.
pub fn why_unusable(manifest: &[u8], architecture: &str) -> Option<String> {
    let platforms = Index::parse(manifest)?
        .manifests
        .into_iter()
        .filter_map(|entry| entry.platform);
    let mut has = BTreeSet::new();
    for platform in platforms {
        if platform.is_for(architecture) {
            return None;
        }
        has.insert(format!("{}/{}", platform.os, platform.architecture));
    }
    // Attestations beside an image have this platform.
    has.remove("unknown/unknown");
    let has = if has.is_empty() {
        "names no platform".to_owned()
    } else {
        let has: Vec<String> = has.into_iter().collect();
        format!("has images for {}", has.join(", "))
    };
    Some(format!(
        "its index has none for linux/{architecture}: it {has}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn why(manifest: &Value) -> Option<String> {
        why_unusable(manifest.to_string().as_bytes(), "arm64")
    }

    #[test]
    fn an_index_without_the_architecture_says_what_it_has() {
        let of = |os: &str, architecture: &str| json!({"digest": "sha256:1", "platform": {"os": os, "architecture": architecture}});
        let others = [
            of("linux", "s390x"),
            of("linux", "amd64"),
            of("unknown", "unknown"),
        ];
        assert_eq!(
            why(&json!({ "manifests": others })).unwrap(),
            "its index has none for linux/arm64: it has images for linux/amd64, linux/s390x"
        );
        assert_eq!(
            why(&json!({"manifests": []})).unwrap(),
            "its index has none for linux/arm64: it names no platform"
        );
        let ours = json!({"manifests": [of("linux", "amd64"), of("linux", "arm64")]});
        assert_eq!(why(&ours), None);
        assert_eq!(why(&json!({"layers": []})), None);
        assert_eq!(why_unusable(b"", "arm64"), None);
    }
}
