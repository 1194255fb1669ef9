//! Whether missing layers fit on the disk.

use std::collections::{BTreeMap, BTreeSet};

use super::{ImageLayer, RequestedPins};

/// Ephemeral storage that stays for pods, in bytes: 16 GiB.
///
/// Source: OpenShift's MCO, which asks of a node as much.
const RESERVED_BYTES: u64 = 16 << 30;

/// How many bytes a byte of a layer takes: it lies on the disk compressed and unpacked.
const FACTOR: u64 = 2;

/// What of a host's disk is observed, in bytes; `None` where it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// Ephemeral storage that the Node offers to pods.
    pub allocatable: Option<u64>,
    /// Free in the file system of images.
    pub free: Option<u64>,
}

/// Whether missing layers fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomVerdict {
    Fits,
    /// They do not: each set and the bytes that lack.
    Lacks(Vec<String>),
    /// It is not observed, and so not assumed: what is missing.
    Unknown(Vec<String>),
}

/// Judges the room for images that are to be pulled.
///
/// Shape: `missing` has the layers of each image that is not on the host, by pull spec; an image of
/// a set that is not in it takes no room. `present` has the digests of layers that images on the
/// host have. A layer counts once in each set, and once in all sets together. Where nothing is
/// missing, everything fits.
pub fn room(
    sets: &RequestedPins,
    missing: &BTreeMap<String, Vec<ImageLayer>>,
    present: &BTreeSet<String>,
    disk: DiskRoom,
) -> RoomVerdict {
    let mut unknown = Vec::new();
    let mut lacks = Vec::new();
    let mut all = Vec::new();
    let mut names = Vec::new();
    for (set, images) in sets {
        let images: Vec<&String> = images
            .iter()
            .filter(|image| missing.contains_key(*image))
            .collect();
        if images.is_empty() {
            continue;
        }
        let needed = needed(images.iter().copied(), missing, present);
        if let Some(allocatable) = disk.allocatable {
            lacks.extend(lack_of_set(set, needed, allocatable));
        }
        names.push(set.as_str());
        all.extend(images);
    }
    if names.is_empty() {
        return RoomVerdict::Fits;
    }
    let sets = names.join(", ");
    if disk.allocatable.is_none() {
        let what = "the Node does not say its allocatable ephemeral storage";
        unknown.push(format!("sets {sets}: {what}"));
    }
    let needed = needed(all.into_iter(), missing, present);
    match disk.free {
        Some(free) if free < needed => lacks.push(format!(
            "sets {sets}: {} bytes lack: missing layers take {needed} bytes, \
             and the file system of images has {free} bytes free",
            needed - free
        )),
        Some(_) => {}
        None => unknown.push(format!(
            "sets {sets}: the free bytes of the file system of images are not known"
        )),
    }
    if !lacks.is_empty() {
        RoomVerdict::Lacks(lacks)
    } else if !unknown.is_empty() {
        RoomVerdict::Unknown(unknown)
    } else {
        RoomVerdict::Fits
    }
}

/// Less than what is allocatable beyond the reserve must be needed, and the reserve be there.
fn lack_of_set(set: &str, needed: u64, allocatable: u64) -> Option<String> {
    let least = RESERVED_BYTES.saturating_add(needed).saturating_add(1);
    let lack = least.checked_sub(allocatable).filter(|lack| *lack > 0)?;
    Some(format!(
        "set {set}: {lack} bytes lack: its missing layers take {needed} bytes, \
         {RESERVED_BYTES} bytes stay for pods, and {allocatable} bytes of ephemeral storage are \
         allocatable"
    ))
}

fn needed<'a>(
    images: impl Iterator<Item = &'a String>,
    missing: &BTreeMap<String, Vec<ImageLayer>>,
    present: &BTreeSet<String>,
) -> u64 {
    let layers = images.filter_map(|image| missing.get(image)).flatten();
    let layers = layers.filter(|layer| !present.contains(&layer.digest));
    let once: BTreeMap<&str, u64> = layers
        .map(|layer| (layer.digest.as_str(), layer.bytes))
        .collect();
    let bytes = once
        .values()
        .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    bytes.saturating_mul(FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(layers: &[(&str, u64)]) -> Vec<ImageLayer> {
        let layer = |(digest, bytes): &(&str, u64)| ImageLayer {
            digest: (*digest).to_owned(),
            bytes: *bytes,
        };
        layers.iter().map(layer).collect()
    }

    /// Sets `a` (images 1 and 2) and `b` (images 2 and 3), where 1 and 2 share a layer.
    fn judge(missing: &[&str], present: &[&str], disk: DiskRoom) -> RoomVerdict {
        let of = |images: &[&str]| images.iter().map(ToString::to_string).collect();
        let sets = RequestedPins::from([
            ("a".to_owned(), of(&["1", "2"])),
            ("b".to_owned(), of(&["2", "3"])),
        ]);
        let all = [
            ("1", layers(&[("base", 100), ("one", 10)])),
            ("2", layers(&[("base", 100), ("two", 20)])),
            ("3", layers(&[("three", 300)])),
        ];
        let all = all.into_iter().filter(|(image, _)| missing.contains(image));
        let all = all.map(|(image, layers)| (image.to_owned(), layers));
        let present = present.iter().map(ToString::to_string).collect();
        room(&sets, &all.collect(), &present, disk)
    }

    const ALL: [&str; 3] = ["1", "2", "3"];

    #[test]
    fn room_ends_where_the_reserve_or_the_disk_does() {
        // Set a needs 2 * (100 + 10 + 20), set b 2 * (100 + 20 + 300), all of them 2 * 430.
        let disk = |allocatable, free| DiskRoom {
            allocatable: Some(RESERVED_BYTES + allocatable),
            free: Some(free),
        };
        assert_eq!(judge(&ALL, &[], disk(841, 860)), RoomVerdict::Fits);
        let RoomVerdict::Lacks(lacks) = judge(&ALL, &[], disk(840, 860)) else {
            panic!("it fits");
        };
        assert_eq!(lacks.len(), 1);
        assert!(lacks[0].starts_with("set b: 1 bytes lack: "), "{lacks:?}");
        let RoomVerdict::Lacks(lacks) = judge(&ALL, &[], disk(250, 859)) else {
            panic!("it fits");
        };
        let begins = [
            "set a: 11 bytes lack: ",
            "set b: 591 bytes lack: ",
            "sets a, b: 1 bytes lack: ",
        ];
        assert_eq!(lacks.len(), begins.len(), "{lacks:?}");
        for (lack, begin) in lacks.iter().zip(begins) {
            assert!(lack.starts_with(begin), "{lack}");
        }
    }

    #[test]
    fn a_node_without_the_reserve_takes_no_image() {
        let disk = DiskRoom {
            allocatable: Some(RESERVED_BYTES - 1),
            free: Some(u64::MAX),
        };
        // A layer that is there takes nothing, and the reserve lacks all the same.
        let RoomVerdict::Lacks(lacks) = judge(&["3"], &["three"], disk) else {
            panic!("it fits");
        };
        assert!(lacks[0].starts_with("set b: 2 bytes lack: "), "{lacks:?}");
    }

    #[test]
    fn layers_that_are_there_take_no_room() {
        let disk = DiskRoom {
            allocatable: Some(RESERVED_BYTES + 41),
            free: Some(40),
        };
        assert_eq!(judge(&["2"], &["base"], disk), RoomVerdict::Fits);
        assert!(matches!(judge(&["2"], &[], disk), RoomVerdict::Lacks(_)));
    }

    #[test]
    fn what_is_not_observed_is_named() {
        let unknown = DiskRoom {
            allocatable: None,
            free: None,
        };
        let RoomVerdict::Unknown(unknowns) = judge(&ALL, &[], unknown) else {
            panic!("it is no verdict");
        };
        assert_eq!(unknowns.len(), 2);
        assert!(unknowns.iter().all(|it| it.starts_with("sets a, b: ")));
        let full = DiskRoom {
            free: Some(0),
            ..unknown
        };
        assert!(matches!(judge(&ALL, &[], full), RoomVerdict::Lacks(_)));
        // Nothing is to come.
        assert_eq!(judge(&[], &[], unknown), RoomVerdict::Fits);
    }

    #[test]
    fn sizes_beyond_all_disks_do_not_overflow() {
        let sets = RequestedPins::from([("a".to_owned(), vec!["1".to_owned()])]);
        let missing =
            BTreeMap::from([("1".to_owned(), layers(&[("x", u64::MAX), ("y", u64::MAX)]))]);
        let disk = DiskRoom {
            allocatable: Some(1 << 40),
            free: Some(1 << 40),
        };
        let verdict = room(&sets, &missing, &BTreeSet::new(), disk);
        assert!(matches!(verdict, RoomVerdict::Lacks(lacks) if lacks.len() == 2));
    }
}
