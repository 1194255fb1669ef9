//! Whether what is requested can be pulled at all.

use super::{RequestedPins, first_causes};

/// Longest pull spec, in bytes.
const PULL_SPEC_MAX: usize = 447;

/// Longest namespace between host and name, in bytes.
const NAMESPACE_MAX: usize = 61;

/// Hexadecimal digits of a digest.
const DIGEST_CHARS: usize = 64;

/// Checks each image of each set.
///
/// # Errors
/// For each fault the set, the image and what is wrong with it; after the tenth their number.
///
/// Source: PinnedImageSet, validation rules of `spec.pinnedImages`. A name that is empty passes
/// those, and no registry has it: it is refused here.
pub fn check_request(sets: &RequestedPins) -> Result<(), Vec<String>> {
    let mut faults = Vec::new();
    for (set, images) in sets {
        if images.is_empty() {
            faults.push(format!("set {set}: it names no image"));
        }
        for image in images {
            if let Err(why) = check_image(image) {
                faults.push(format!("set {set}, image {image:?}: {why}"));
            }
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(first_causes(faults, "faults"))
    }
}

fn check_image(image: &str) -> Result<(), &'static str> {
    if image.len() > PULL_SPEC_MAX {
        return Err("it is longer than 447 characters");
    }
    let Some((name, digest)) = image.split_once('@') else {
        return Err("it has no digest");
    };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_digest = digest
        .strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == DIGEST_CHARS && hex.bytes().all(is_hex));
    if !is_digest {
        return Err("its digest is not sha256: and 64 lower-case hexadecimal digits");
    }
    let Some((server, path)) = name.split_once('/') else {
        return Err("it has no host before its name");
    };
    check_server(server)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let (namespace, name) = match path.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, path),
    };
    if namespace.is_some_and(|namespace| {
        namespace.is_empty() || namespace.len() > NAMESPACE_MAX || !namespace.bytes().all(is_plain)
    }) {
        return Err("its namespace is not 1 to 61 letters, digits, - or _");
    }
    if name.is_empty() || !name.bytes().all(|byte| is_plain(byte) || byte == b'.') {
        return Err("its name is not of letters, digits, -, _ or .");
    }
    Ok(())
}

fn check_server(server: &str) -> Result<(), &'static str> {
    let (host, port) = match server.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (server, None),
    };
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(is_plain)
    };
    if !host.contains('.') || !host.split('.').all(is_label) {
        return Err("its host is no name or address with a dot");
    }
    let is_port =
        |port: &str| (2..=5).contains(&port.len()) && port.bytes().all(|it| it.is_ascii_digit());
    if port.is_some_and(|port| !is_port(port)) {
        return Err("its port is not of 2 to 5 digits");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_host_name_and_digest() {
        let digest = format!("sha256:{}", "0f".repeat(32));
        let long = "n".repeat(62);
        let longest = "n".repeat(PULL_SPEC_MAX - digest.len() - "q.io/@".len());
        for name in [
            "quay.io/openshift-release-dev/ocp_v4.0-art",
            "10.97.0.1:5000/os",
            "Registry.example.com:65535/A/b",
            &format!("q.io/{longest}"),
        ] {
            assert_eq!(check_image(&format!("{name}@{digest}")), Ok(()), "{name}");
        }
        let of = |name: &str| format!("{name}@{digest}");
        for (image, word) in [
            ("quay.io/a:latest".to_owned(), "digest"),
            (String::new(), "digest"),
            ("quay.io/a@sha256:12".to_owned(), "64 lower-case"),
            (of("quay.io/a").to_uppercase(), "64 lower-case"),
            (format!("{}@{digest}", of("quay.io/a")), "64 lower-case"),
            (of("a"), "host"),
            (of("localhost:5000/a"), "host"),
            (of("quay..io/a"), "host"),
            (of("https://quay.io/a"), "host"),
            (of("quay.io:1/a"), "port"),
            (of("quay.io:123456/a"), "port"),
            (of("quay.io:5000:1/a"), "port"),
            (of("quay.io//a"), "namespace"),
            (of(&format!("quay.io/{long}/a")), "namespace"),
            (of("quay.io/a/b/c"), "name"),
            (of("quay.io/a:1"), "name"),
            (of("quay.io/"), "name"),
            (of("quay.io/a\" b"), "name"),
            (of(&format!("q.io/{longest}n")), "447"),
        ] {
            let why = check_image(&image).unwrap_err();
            assert!(why.contains(word), "{image}: {why}");
        }
    }

    #[test]
    fn a_fault_names_its_set_and_its_image() {
        let good = format!("quay.io/a@sha256:{}", "0".repeat(64));
        let sets = RequestedPins::from([
            ("good".to_owned(), vec![good.clone()]),
            ("empty".to_owned(), Vec::new()),
            ("tagged".to_owned(), vec![good, "quay.io/a:1".to_owned()]),
        ]);
        assert_eq!(
            check_request(&sets).unwrap_err(),
            [
                "set empty: it names no image",
                "set tagged, image \"quay.io/a:1\": it has no digest",
            ]
        );
        assert_eq!(check_request(&RequestedPins::new()), Ok(()));
    }
}
