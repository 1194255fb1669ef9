//! Origin files: what a deployment was made from, and by which program.

use ostree_ext::glib::KeyFile;

/// Keys of deployments whose commit rpm-ostree built itself. Another image would lose the packages
/// and settings that they name, so it is rejected.
const LAYERED: &[(&str, &[&str])] = &[
    (
        "packages",
        &[
            "requested",
            "requested-local",
            "requested-local-fileoverride",
        ],
    ),
    ("overrides", &["remove", "replace", "replace-local"]),
    ("modules", &["enable", "install"]),
    (
        "rpmostree",
        &[
            "regenerate-initramfs",
            "initramfs-args",
            "initramfs-etc",
            "ex-cliwrap",
        ],
    ),
];

const ORIGIN: &str = "origin";
const CONTAINER: &str = "container-image-reference";
const CUSTOM_URL: &str = "custom-url";

const DESCRIPTION: &str = "custom-description";

/// Who made a deployment, as `rpm-ostree status` shows it. Clients know these words of OpenShift's
/// MCO.
const MAKER: &str = "Managed by machine-config-operator";

/// Prefix of rpm-ostree's custom origins for images.
const PIVOT: &str = "pivot://";

/// Transport prefixes of container references.
const TRANSPORTS: &[&str] = &[
    "ostree-unverified-registry:",
    "ostree-unverified-image:docker://",
    "ostree-unverified-image:registry:",
    "ostree-image-signed:docker://",
    "ostree-image-signed:registry:",
];

/// Keys of an origin that forbid another image, as `section.key`.
pub(super) fn layered_keys(origin: &KeyFile) -> Vec<String> {
    let mut keys = Vec::new();
    for (section, names) in LAYERED {
        for name in *names {
            // An error means that the key is absent.
            let value = origin.string(section, name).unwrap_or_default();
            if !value.is_empty() && value != "false" && value != ";" {
                keys.push(format!("{section}.{name}"));
            }
        }
    }
    keys
}

/// The pull spec that a deployment was made from; `None` if it was not made from an image.
pub(super) fn image(origin: &KeyFile) -> Option<String> {
    // An error means that the key is absent.
    if let Ok(reference) = origin.string(ORIGIN, CONTAINER) {
        let prefix = TRANSPORTS
            .iter()
            .find(|prefix| reference.starts_with(**prefix));
        return Some(
            reference
                .trim_start_matches(prefix.unwrap_or(&""))
                .to_owned(),
        );
    }
    let custom = origin.string(ORIGIN, CUSTOM_URL).ok()?;
    custom.strip_prefix(PIVOT).map(str::to_owned)
}

/// The origin's source as written, in one line.
pub(super) fn describe(origin: &KeyFile) -> Option<String> {
    [CONTAINER, CUSTOM_URL, "refspec"].iter().find_map(|key| {
        // An error means that the key is absent.
        origin
            .string(ORIGIN, key)
            .ok()
            .map(|value| value.to_string())
    })
}

/// The origin of a native container image.
pub(super) fn of_native(image: &str) -> KeyFile {
    let origin = KeyFile::new();
    origin.set_string(
        ORIGIN,
        CONTAINER,
        &format!("ostree-unverified-registry:{image}"),
    );
    origin
}

/// The origin of a commit from the repository in an image, as OpenShift's MCO writes it.
pub(super) fn of_repository(image: &str, checksum: &str) -> KeyFile {
    let origin = KeyFile::new();
    origin.set_string(ORIGIN, "refspec", checksum);
    origin.set_string(ORIGIN, CUSTOM_URL, &format!("{PIVOT}{image}"));
    origin.set_string(ORIGIN, DESCRIPTION, MAKER);
    origin
}

#[cfg(test)]
mod tests {
    use ostree_ext::glib::KeyFileFlags;

    use super::*;

    fn parse(text: &str) -> KeyFile {
        let file = KeyFile::new();
        file.load_from_data(text, KeyFileFlags::NONE).unwrap();
        file
    }

    #[test]
    fn layered_origins_are_named_by_key() {
        let origin = parse(
            "[origin]\nrefspec=a\n[packages]\nrequested=vim;\nrequested-local=\n[rpmostree]\nregenerate-initramfs=true\n",
        );
        assert_eq!(
            layered_keys(&origin),
            ["packages.requested", "rpmostree.regenerate-initramfs"]
        );
        assert!(
            layered_keys(&parse(
                "[origin]\nrefspec=a\n[rpmostree]\nregenerate-initramfs=false\n"
            ))
            .is_empty()
        );
    }

    #[test]
    fn an_image_is_read_from_every_form_of_origin() {
        for (text, expected) in [
            (
                "container-image-reference=ostree-unverified-registry:r/os@sha256:1",
                Some("r/os@sha256:1"),
            ),
            (
                "container-image-reference=ostree-unverified-image:docker://r/os:1",
                Some("r/os:1"),
            ),
            (
                "container-image-reference=ostree-remote-image:x:docker://r/os:1",
                Some("ostree-remote-image:x:docker://r/os:1"),
            ),
            ("refspec=a\ncustom-url=pivot://r/os:2", Some("r/os:2")),
            ("refspec=fedora:stable", None),
        ] {
            assert_eq!(
                image(&parse(&format!("[origin]\n{text}\n"))).as_deref(),
                expected
            );
        }
        assert_eq!(image(&of_native("r/os:3")).as_deref(), Some("r/os:3"));
        let made = of_repository("r/os:3", "c");
        assert_eq!(image(&made).as_deref(), Some("r/os:3"));
        assert_eq!(
            made.string(ORIGIN, "custom-description").unwrap(),
            "Managed by machine-config-operator"
        );
    }
}
