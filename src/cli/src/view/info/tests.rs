use release::references::Tag;
use release::{ImageDigest, Metadata, References};

use super::*;

/// A release with these images: name, content and commit.
pub(crate) fn with_images(version: &str, images: &[(&str, &str, &str)]) -> Info {
    let mut metadata = Metadata::new(version.parse().unwrap());
    metadata.previous = ["0.9.10", "0.9.9", "1.0.0"]
        .map(|text| text.parse().unwrap())
        .into();
    metadata.metadata = [
        ("url", "https://example.com/1"),
        ("empty", ""),
        ("a.b", "c"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let mut references = References {
        name: version.to_owned(),
        ..References::default()
    };
    for (name, content, commit) in images {
        let annotations = [
            (annotation::SOURCE_LOCATION, "https://example.com/source"),
            (annotation::COMMIT_ID, *commit),
        ];
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let tag = Tag {
            from: format!(
                "registry.example/{name}@{}",
                ImageDigest::of(content.as_bytes())
            ),
            annotations: annotations.into(),
        };
        references.tags.insert((*name).to_owned(), tag);
    }
    let mut files = Files::new();
    files.insert(METADATA_FILE.to_owned(), metadata.print());
    files.insert(REFERENCES_FILE.to_owned(), references.print());
    files.insert(
        "0000_10_a_a.yaml".to_owned(),
        b"apiVersion: v1\nkind: A\nmetadata: {name: a}".to_vec(),
    );
    let payload = Payload::parse(&files).unwrap();
    let digest = ImageDigest::of(version.as_bytes()).to_string();
    let head = Head {
        content_digest: digest.clone(),
        list_digest: String::new(),
        pull_from: format!("registry.example/release@{digest}"),
        digest,
        created: "2022-09-19T18:00:27Z".to_owned(),
        platform: "linux/amd64".to_owned(),
        configuration: serde_json::json!({"os": "linux"}),
    };
    Info::new(head, payload, files)
}

pub(crate) fn info() -> Info {
    let mut info = with_images("1.0.1", &[("operator", "1", "abc"), ("os", "2", "")]);
    let tags = &mut info.payload.references.tags;
    let os = tags.get_mut("os").unwrap();
    for (key, value) in [
        (annotation::VERSIONS, "machine-os=9.6.1,kernel=6.12.0"),
        (annotation::VERSION_DISPLAY_NAMES, "machine-os=Debian GNU"),
    ] {
        os.annotations.insert(key.to_owned(), value.to_owned());
    }
    Info::new(info.head, info.payload, info.files)
}

#[test]
fn release_is_printed_in_blocks() {
    let digest = |text: &str| ImageDigest::of(text.as_bytes());
    let release = digest("1.0.1");
    let expected = format!(
        "Name:      1.0.1
Digest:    {release}
Created:   2022-09-19T18:00:27Z
OS/Arch:   linux/amd64
Manifests: 1

Pull From: registry.example/release@{release}

Release Metadata:
  Version:  1.0.1
  Upgrades: 0.9.9, 0.9.10, 1.0.0
  Metadata:
    a.b: c
    url: https://example.com/1

Component Versions:
  kernel     6.12.0 \n  machine-os 9.6.1  Debian GNU

Images:
  NAME     DIGEST
  operator {}
  os       {}

",
        digest("1"),
        digest("2")
    );
    assert_eq!(text(&info(), Images::Digests), expected);
}

#[test]
fn other_files_widen_the_first_block() {
    let mut info = info();
    info.files.insert("README".to_owned(), Vec::new());
    info.payload.metadata.previous.clear();
    info.warnings.push("take care".to_owned());
    let text = text(&info, Images::Digests);
    assert!(text.starts_with("Name:           1.0.1\n"), "{text}");
    assert!(text.contains("\nMetadata files: 1\n"), "{text}");
    assert!(text.contains("\n  Upgrades: <none>\n"), "{text}");
    assert!(text.ends_with("\n\nWarnings:\n* take care\n\n"), "{text}");
}

#[test]
fn images_are_shown_in_several_ways() {
    let last = |images| {
        let text = text(&info(), images);
        text.split("Images:\n").nth(1).unwrap().to_owned()
    };
    let specs = last(Images::PullSpecs);
    assert!(
        specs.starts_with("  NAME     PULL SPEC\n  operator registry.example/operator@sha256:"),
        "{specs}"
    );
    let commits = "  NAME     REPO                       COMMIT\n  operator https://example.com/source abc\n  os       https://example.com/source \n\n";
    assert_eq!(last(Images::Commits), commits);
    let urls = "  NAME     URL\n  operator https://example.com/source/commit/abc\n  os       \n\n";
    assert_eq!(last(Images::CommitUrls), urls);
    assert_eq!(
        commit_url("https://example.com/x.git", "a"),
        "https://example.com/x/commit/a"
    );
    assert_eq!(commit_url("git@example.com:x", "a"), "a");
}

#[test]
fn conflicts_are_warned_of() {
    let mut info = info();
    let operator = info.payload.references.tags.get_mut("operator").unwrap();
    operator.annotations.insert(
        annotation::VERSIONS.to_owned(),
        "kernel=6.1.0,machine-os=8.0.0".to_owned(),
    );
    let info = Info::new(info.head, info.payload, info.files);
    let expected =
        "multiple versions or display names reported for the following component(s): kernel";
    assert_eq!(info.warnings, [expected]);
}

#[test]
fn contents_begin_with_metadata_and_end_with_newlines() {
    let text = String::from_utf8(contents(&info().files)).unwrap();
    let heads: Vec<_> = text.lines().filter(|line| line.starts_with("# ")).collect();
    assert_eq!(
        heads,
        [
            "# image-references",
            "# release-metadata",
            "# 0000_10_a_a.yaml"
        ]
    );
    assert!(text.ends_with("metadata: {name: a}\n"));
}

#[test]
fn json_has_the_keys_that_programs_read() {
    let json = crate::view::json::json(&info(), "quay.io/x");
    let keys: Vec<_> = json
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "image",
        "digest",
        "contentDigest",
        "listDigest",
        "config",
        "metadata",
        "references",
        "versions",
        "displayVersions",
        "versionsTags",
        "images",
        "warnings",
    ];
    assert_eq!(keys, expected);
    assert_eq!(json["metadata"]["version"], "1.0.1");
    assert_eq!(json["references"]["metadata"]["name"], "1.0.1");
    assert_eq!(json["versions"]["kernel"], "6.12.0");
    assert_eq!(
        json["displayVersions"]["machine-os"]["DisplayName"],
        "Debian GNU"
    );
    assert_eq!(json["versionsTags"]["kernel"][0], "os");
    assert_eq!(json["config"]["os"], "linux");
}
