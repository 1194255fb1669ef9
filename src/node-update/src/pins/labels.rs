//! containerd's labels of pinned images, and whose they are.
//!
//! They are on the record of an image's id. A pull replaces the labels of the record of its pull
//! spec, so that a pod which always pulls would drop the pin.

use std::collections::BTreeMap;

/// The label by which containerd shows an image as pinned.
///
/// Source: containerd, `internal/cri/labels`.
pub const PINNED: (&str, &str) = ("io.cri-containerd.pinned", "pinned");

/// The label beside it of those that Slipway has pinned.
pub const SLIPWAYS: (&str, &str) = ("slipway.dev/pinned", "true");

/// Who pinned an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinnedBy {
    /// It is not pinned.
    Unpinned,
    Slipway,
    /// The runtime itself, as the sandbox image, or an administrator: that pin is never dropped.
    Others,
}

/// Who pinned the image with these labels.
pub fn pinned_by(labels: &BTreeMap<String, String>) -> PinnedBy {
    let has = |(key, value): (&str, &str)| labels.get(key).is_some_and(|it| it == value);
    match (has(PINNED), has(SLIPWAYS)) {
        (true, true) => PinnedBy::Slipway,
        (true, false) => PinnedBy::Others,
        (false, _) => PinnedBy::Unpinned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_without_slipways_mark_is_of_others() {
        let other = ("io.cri-containerd.image", "managed");
        for (labels, expected) in [
            (vec![], PinnedBy::Unpinned),
            (vec![other], PinnedBy::Unpinned),
            (vec![PINNED, other], PinnedBy::Others),
            (vec![PINNED, SLIPWAYS], PinnedBy::Slipway),
            (vec![SLIPWAYS], PinnedBy::Unpinned),
            (vec![(PINNED.0, "no"), SLIPWAYS], PinnedBy::Unpinned),
            (vec![PINNED, (SLIPWAYS.0, "false")], PinnedBy::Others),
        ] {
            let owned = labels.iter();
            let owned = owned.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            assert_eq!(pinned_by(&owned.collect()), expected, "{labels:?}");
        }
    }
}
