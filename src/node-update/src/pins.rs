//! Pinned images: images that a node pulls ahead and keeps.
//!
//! - [`request`]: whether what is requested can be pulled at all
//! - [`manifest`]: the layers of an image, with their sizes
//! - [`room`]: whether missing layers fit on the disk
//! - [`login`]: the credentials of an image's registry
//! - [`dropin`]: CRI-O's file of pinned images
//! - [`labels`]: containerd's labels of pinned images, and whose they are
//!
//! Source: PinnedImageSet, `spec.pinnedImages`; crio.conf(5), `pinned_images`.

pub mod dropin;
pub mod labels;
pub mod login;
pub mod manifest;
pub mod request;
pub mod room;

use std::collections::BTreeMap;

pub use dropin::{PINS_DROPIN, dropin};
pub use labels::{PINNED, PinnedBy, SLIPWAYS, pinned_by};
pub use login::{RegistryLogin, login};
pub use manifest::{ImageLayer, ImageManifest, read_manifest};
pub use request::check_request;
pub use room::{DiskRoom, RoomVerdict, room};

/// Pull specs by digest, by the name of their set.
pub type RequestedPins = BTreeMap<String, Vec<String>>;

/// How many causes are shown; the rest is counted.
const SHOWN: usize = 10;

/// The first causes, and how many more there are. `what` is their noun, in the plural.
pub fn first_causes(mut causes: Vec<String>, what: &str) -> Vec<String> {
    let more = causes.len().saturating_sub(SHOWN);
    if more > 0 {
        causes.truncate(SHOWN);
        causes.push(format!("and {more} more {what}"));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_beyond_the_tenth_are_counted() {
        let causes = |count: usize| (0..count).map(|number| number.to_string()).collect();
        assert_eq!(first_causes(causes(10), "images").len(), 10);
        let cut = first_causes(causes(12), "images");
        assert_eq!((cut.len(), cut[9].as_str()), (11, "9"));
        assert_eq!(cut[10], "and 2 more images");
    }
}
