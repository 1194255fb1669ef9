//! Which layers of one image another one lacks.

use std::collections::BTreeSet;

use serde::Serialize;

/// A layer, by digest, with its bytes as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredLayer {
    pub digest: String,
    pub bytes: u64,
}

/// What a host fetches for an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageDownload {
    /// Layers that are fetched.
    pub layers: usize,
    /// Different layers that the image has.
    pub of_layers: usize,
    /// Compressed bytes of those that are fetched.
    pub bytes: u64,
}

/// What a host with the layers of `held` fetches for the layers of `wanted`. A layer that comes
/// twice is fetched once.
pub fn to_fetch(held: &[StoredLayer], wanted: &[StoredLayer]) -> ImageDownload {
    let held: BTreeSet<&str> = held.iter().map(|layer| layer.digest.as_str()).collect();
    let all: BTreeSet<&StoredLayer> = wanted.iter().collect();
    let missing = all
        .iter()
        .filter(|layer| !held.contains(layer.digest.as_str()));
    let (layers, bytes) = missing.fold((0, 0_u64), |(layers, bytes), layer| {
        (layers + 1, bytes.saturating_add(layer.bytes))
    });
    ImageDownload {
        layers,
        of_layers: all.len(),
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(all: &[(&str, u64)]) -> Vec<StoredLayer> {
        let layer = |(digest, bytes): &(&str, u64)| StoredLayer {
            digest: (*digest).to_owned(),
            bytes: *bytes,
        };
        all.iter().map(layer).collect()
    }

    #[test]
    fn only_what_is_not_there_is_fetched_once() {
        let wanted = [("a", 1), ("b", 20), ("c", 300), ("c", 300)];
        for (held, expected) in [
            (&[][..], (3, 321)),
            (&[("a", 1), ("d", 5)][..], (2, 320)),
            (&wanted[..], (0, 0)),
        ] {
            let download = to_fetch(&layers(held), &layers(&wanted));
            assert_eq!((download.layers, download.bytes), expected, "{held:?}");
            assert_eq!(download.of_layers, 3);
        }
        let huge = to_fetch(&[], &layers(&[("a", u64::MAX), ("b", 1)]));
        assert_eq!(huge.bytes, u64::MAX);
    }
}
