//! CRI-O's file of pinned images.

use std::collections::BTreeSet;

use super::RequestedPins;

/// Path of the drop-in.
///
/// Source: OpenShift's MCO, which writes the same file.
pub const PINS_DROPIN: &str = "/etc/crio/crio.conf.d/50-pinned-images";

/// The drop-in that pins all images of these sets; `None` where they have none.
///
/// Shape: the images once each and sorted, so that one request has one text. They were checked
/// before: none has a character that a string of TOML quotes.
///
/// Source: crio.conf(5), table `crio.image`.
pub fn dropin(sets: &RequestedPins) -> Option<String> {
    let images: BTreeSet<&str> = sets.values().flatten().map(String::as_str).collect();
    if images.is_empty() {
        return None;
    }
    let mut lines = vec!["[crio]".to_owned(), "  [crio.image]".to_owned()];
    lines.push("    pinned_images = [".to_owned());
    lines.extend(images.iter().map(|image| format!("      \"{image}\",")));
    lines.push("    ]\n".to_owned());
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_all_sets_are_there_once_and_sorted() {
        let image = |name: &str, digit: &str| format!("{name}@sha256:{}", digit.repeat(64));
        let sets = RequestedPins::from([
            (
                "late".to_owned(),
                vec![image("quay.io/b/b", "2"), image("10.97.0.1:5000/c", "3")],
            ),
            (
                "early".to_owned(),
                vec![image("quay.io/b/b", "2"), image("quay.io/a", "1")],
            ),
        ]);
        let text = dropin(&sets).unwrap();
        golden::assert(
            env!("CARGO_MANIFEST_DIR"),
            "tests/golden/50-pinned-images",
            &text,
        );
        let parsed: toml::Table = toml::from_str(&text).unwrap();
        let pinned = parsed["crio"]["image"]["pinned_images"].as_array();
        assert_eq!(pinned.unwrap().len(), 3);
        assert_eq!(dropin(&RequestedPins::new()), None);
    }
}
