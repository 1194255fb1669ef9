use proptest::prelude::*;

use super::*;
use crate::component_versions;

const ETCD: &str = "quay.io/coreos/etcd";
const TARGET: &str = "quay.io/openshift/etcd@sha256:1234";

fn images(placeholder: &str, text: &str) -> String {
    let images = Images::new([("etcd", placeholder, TARGET)]).unwrap();
    String::from_utf8(images.substitute(text.as_bytes())).unwrap()
}

#[test]
fn placeholders_of_images_are_replaced() {
    for (placeholder, before, after) in [
        (ETCD, "image: {}:latest", "image: {}"),
        (ETCD, "image: {}:latest\n", "image: {}\n"),
        (ETCD, "image: {}@sha256:5678", "image: {}"),
        (ETCD, "image: {}", "image: {}"),
        (ETCD, "image: {} ", "image: {} "),
        (ETCD, "{}:latest", "{}"),
        (ETCD, "{} {}\n\t{}", "{} {}\n\t{}"),
        (ETCD, "'{}', \"{}:v1\"", "'{}', \"{}\""),
        (ETCD, "--images=etcd={}:v1.2.3-x\n", "--images=etcd={}\n"),
        (
            "quay.io/coreos/etcd:latest",
            "image: {}:latest",
            "image: {}",
        ),
        ("slipway-mcd", "image: slipway-mcd\n", "image: {}\n"),
    ] {
        let (before, after) = (before.replace("{}", ETCD), after.replace("{}", TARGET));
        assert_eq!(images(placeholder, &before), after);
    }
}

#[test]
fn what_only_looks_like_a_placeholder_stays() {
    for text in [
        "url: https://quay.io/coreos/etcd:8443/test",
        "image: quay.io/coreos/etcd-extra:v1",
        "image: quay.io/coreos/etcd/more",
        "image: xquay.io/coreos/etcd",
        "image: _quay.io/coreos/etcd",
        "image: quay.io/coreos/etcd, next",
        "image: quay.io/coreos/etcd@sha256",
        "image: quay.io/coreos/etcd:-x",
        "image: quay.io/coreos/etcd:v1@sha256:1234",
        "",
    ] {
        assert_eq!(images(ETCD, text), text);
    }
    let long = format!("{ETCD}:{}", "x".repeat(129));
    assert_eq!(images(ETCD, &long), long);
}

#[test]
fn longest_placeholder_wins() {
    let images = Images::new([("a", "x/pod", "A"), ("b", "x/pod:extra", "B")]).unwrap();
    let text = images.substitute(b"x/pod x/pod:other x/pod:extra x/pod:extra2");
    assert_eq!(text, b"A A B A");
}

#[test]
fn one_placeholder_of_two_images_is_ambiguous() {
    let error = Images::new([("a", "x/pod", "A"), ("b", "x/pod", "B")]).unwrap_err();
    let expected = "images a and b have one placeholder, \"x/pod\"";
    assert_eq!(error.to_string(), expected);
}

fn versions(release: &str, components: &str, text: &str) -> Result<String, String> {
    let versions = Versions {
        release: release.parse().ok(),
        components: component_versions::parse(components, "").map_err(|error| error.to_string())?,
        inconsistent: BTreeMap::from([(
            "os".to_owned(),
            BTreeSet::from(["b".to_owned(), "a".to_owned()]),
        )]),
    };
    let bytes = versions.substitute(text.as_bytes());
    let bytes = bytes.map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

#[test]
fn placeholders_of_versions_are_replaced() {
    for (text, expected) in [
        ("version: 0.0.1-snapshot\n", "version: 2.0.0\n"),
        ("version: \"0.0.1-snapshot\"", "version: \"2.0.0\""),
        ("0.0.1-snapshot", "2.0.0"),
        ("0.0.1-snapshot 0.0.1-snapshot", "2.0.0 2.0.0"),
        ("0.0.1-snapshot-aa", "3.0.0-rc.1"),
        (":0.0.1-snapshot-aa\n", ":3.0.0-rc.1\n"),
        ("-0.0.1-snapshot-aa_", "-3.0.0-rc.1_"),
        ("0.0.1-snapshot-aa 0.0.1-snapshot-bb", "3.0.0-rc.1 4.0.0"),
        ("0.0.1-snapshot-b-1", "5.0.0"),
        // No placeholders.
        ("0.0.1-snapshotx", "0.0.1-snapshotx"),
        ("0.0.1-snapshot_", "0.0.1-snapshot_"),
        ("10.0.1-snapshot", "10.0.1-snapshot"),
        ("v0.0.1-snapshot", "v0.0.1-snapshot"),
        ("0.0.1-SNAPSHOT", "0.0.1-SNAPSHOT"),
    ] {
        let components = "aa=3.0.0-rc.1,bb=4.0.0,b-1=5.0.0";
        assert_eq!(versions("2.0.0", components, text), Ok(expected.to_owned()));
    }
}

#[test]
fn version_of_the_release_stays_where_it_is_not_known() {
    let text = "version: 0.0.1-snapshot\n";
    assert_eq!(versions("2.0", "", text), Ok(text.to_owned()));
}

#[test]
fn error_names_the_component() {
    for (text, expected) in [
        (
            "0.0.1-snapshot-\n",
            "empty version references are not allowed",
        ),
        (
            "0.0.1-snapshot-A",
            "empty version references are not allowed",
        ),
        ("0.0.1-snapshot-zz", "unknown version reference \"zz\""),
        ("0.0.1-snapshot-aa-", "unknown version reference \"aa-\""),
        (
            "0.0.1-snapshot-aa0.0.1-snapshot-bb",
            "unknown version reference \"aa0\"",
        ),
        (
            "0.0.1-snapshot-y 0.0.1-snapshot-x",
            "unknown version reference \"x\", \"y\"",
        ),
        (
            "0.0.1-snapshot-os",
            "the version for \"os\" is inconsistent across the referenced images: a, b",
        ),
    ] {
        assert_eq!(
            versions("2.0.0", "aa=1.0.0,bb=1.0.0", text),
            Err(expected.to_owned())
        );
    }
}

proptest! {
    #[test]
    fn text_without_placeholders_stays(text in "[ -~\\n]{0,80}") {
        prop_assume!(!text.contains("etcd") && !text.contains("snapshot"));
        prop_assert_eq!(&images(ETCD, &text), &text);
        prop_assert_eq!(versions("2.0.0", "", &text), Ok(text));
    }

    #[test]
    fn words_around_a_placeholder_stay(before in "[^\\w]?", after in "[ \\n\"']?", end in "[ -~]{0,20}") {
        let after = if end.is_empty() { after } else { format!(" {after}") };
        let text = |middle: &str| format!("{before}{middle}{after}{}", end.replace("etcd", ""));
        prop_assert_eq!(images(ETCD, &text(ETCD)), text(TARGET));
    }
}
