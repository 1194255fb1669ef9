use super::*;

fn files() -> Files {
    let metadata = r#"{"kind":"cincinnati-metadata-v0","version":"1.2.3","previous":["1.2.2"]}"#;
    let references =
        "kind: ImageStream\napiVersion: image.openshift.io/v1\nmetadata: {name: 1.2.3}\n";
    let object = |kind: &str, name: &str| {
        format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n")
    };
    let files = [
        (METADATA_FILE, metadata.to_owned()),
        (REFERENCES_FILE, references.to_owned()),
        ("0000_80_b_01.yaml", object("Pod", "second")),
        ("0000_80_a_02.yml", object("Pod", "first")),
        (
            "0000_80_c.json",
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"third"}}"#.into(),
        ),
        ("README", "not a manifest".to_owned()),
    ];
    files
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text.into_bytes()))
        .collect()
}

#[test]
fn manifests_are_ordered_by_file() {
    let payload = Payload::parse(&files()).unwrap();
    let names = payload.manifests.iter().map(|manifest| &manifest.id.name);
    assert_eq!(names.collect::<Vec<_>>(), ["first", "second", "third"]);
    assert_eq!(payload.metadata.version.to_string(), "1.2.3");
}

#[test]
fn error_names_the_file() {
    for (file, text, expected) in [
        (
            METADATA_FILE,
            None,
            "there is no release-manifests/release-metadata",
        ),
        (
            REFERENCES_FILE,
            None,
            "there is no release-manifests/image-references",
        ),
        (METADATA_FILE, Some("{}"), "file release-metadata"),
        (REFERENCES_FILE, Some("{}"), "file image-references"),
        ("0000_80_b_01.yaml", Some("a: ["), "file 0000_80_b_01.yaml"),
        (
            METADATA_FILE,
            Some(r#"{"kind":"cincinnati-metadata-v0","version":"1.2.4"}"#),
            "version from image-references (1.2.3) differs from release-metadata (1.2.4)",
        ),
    ] {
        let mut files = files();
        match text {
            Some(text) => files.insert(file.to_owned(), text.into()),
            None => files.remove(file),
        };
        assert_eq!(Payload::parse(&files).unwrap_err().to_string(), expected);
    }
}

#[test]
fn content_is_held_against_its_digest() {
    let digest = ImageDigest::of(b"right");
    assert_eq!(check(&digest, b"right"), Ok(()));
    let mismatch = check(&digest, b"wrong").unwrap_err();
    assert_eq!(mismatch.found, ImageDigest::of(b"wrong"));
    assert!(mismatch.to_string().contains(digest.as_str()));
}
