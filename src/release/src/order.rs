//! Where a file of a release stands in the order of application.

use crate::{METADATA_FILE, REFERENCES_FILE};

/// What every file name begins with that names its place.
const PREFIX: &str = "0000_";

/// Run level and component of a file, `0000_<run level>_<component>_…`.
///
/// Run levels compare as text: `07` is not `7`. Files of one run level and one component are
/// applied in the order of their names. Source: `docs/reference/cvo.md`, "Order of application".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place<'a> {
    /// Digits, such as `80`.
    pub run_level: &'a str,
    /// Such as `machine-config`.
    pub component: &'a str,
}

impl<'a> Place<'a> {
    /// Reads the place in a file's name; none for a name that names none.
    ///
    /// Shape: `^0000_(\d+)_([a-zA-Z0-9]+(-[a-zA-Z0-9]+)*)_`.
    pub fn of(file: &'a str) -> Option<Self> {
        let (run_level, rest) = file.strip_prefix(PREFIX)?.split_once('_')?;
        let (component, _) = rest.split_once('_')?;
        let is_number = !run_level.is_empty() && run_level.bytes().all(|b| b.is_ascii_digit());
        let is_word =
            |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric());
        (is_number && component.split('-').all(is_word)).then_some(Self {
            run_level,
            component,
        })
    }
}

/// Whether a file of a payload is one of manifests. Others, and directories, are passed over.
pub fn is_manifest_file(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    matches!(extension, Some("yaml" | "yml" | "json"))
}

/// Why no cluster applies a file of a payload; none for a file of manifests, and for the two files
/// that each release has beside them.
pub fn fault_of_name(name: &str) -> Option<&'static str> {
    let is_known = [METADATA_FILE, REFERENCES_FILE].contains(&name) || is_manifest_file(name);
    (!is_known).then_some("its name ends in neither .yaml nor .yml nor .json")
}

/// Name in a release of an operator's file: its own, if that begins with `0000_`, else
/// `0000_50_<image>_<file>`.
pub fn name_in_release(image: &str, file: &str) -> String {
    if file.starts_with(PREFIX) {
        file.to_owned()
    } else {
        format!("{PREFIX}50_{image}_{file}")
    }
}

/// The name that a file gets where another file has its own: `<stem>_2<extension>`, then `_3` and
/// so on.
pub fn numbered(name: &str, number: usize) -> String {
    let (stem, extension) = match name.rfind('.') {
        Some(dot) => name.split_at(dot),
        None => (name, ""),
    };
    format!("{stem}_{number}{extension}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_read_from_the_name() {
        for (file, expected) in [
            (
                "0000_80_machine-config_00_rbac.yaml",
                Some(("80", "machine-config")),
            ),
            ("0000_07_etcd_x", Some(("07", "etcd"))),
            ("0000_50_a1-b2-c3_", Some(("50", "a1-b2-c3"))),
            ("0000_50_component", None),
            ("0000__component_x", None),
            ("0000_5x_component_x", None),
            ("0000_50__x", None),
            ("0000_50_a-_x", None),
            ("0000_50_-a_x", None),
            ("0000_50_a--b_x", None),
            ("0000_50_a.b_x", None),
            ("0001_50_a_x", None),
            ("99_role.yaml", None),
        ] {
            let place = Place::of(file).map(|place| (place.run_level, place.component));
            assert_eq!(place, expected, "{file}");
        }
    }

    #[test]
    fn manifest_files_are_known_by_extension() {
        for (name, expected) in [
            ("a.yaml", true),
            ("a.yml", true),
            ("a.b.json", true),
            ("a.YAML", false),
            ("yaml", false),
            ("image-references", false),
            ("a.yaml.bak", false),
        ] {
            assert_eq!(is_manifest_file(name), expected, "{name}");
            let is_left_out = !expected && name != REFERENCES_FILE;
            assert_eq!(fault_of_name(name).is_some(), is_left_out, "{name}");
        }
    }

    #[test]
    fn files_are_named_for_the_release() {
        let own = "0000_10_a_x.yaml";
        assert_eq!(name_in_release("b", own), own);
        assert_eq!(name_in_release("b", "x.yaml"), "0000_50_b_x.yaml");
        assert_eq!(numbered(own, 2), "0000_10_a_x_2.yaml");
        assert_eq!(numbered("a.b.json", 3), "a.b_3.json");
        assert_eq!(numbered("a", 2), "a_2");
    }
}
