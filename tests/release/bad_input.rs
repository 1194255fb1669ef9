//! What is wrong is named, and nothing is pushed.

use std::collections::BTreeMap;

use release::{OPERATOR_LABEL, REFERENCES_FILE};

use crate::scene::{CommandOutput, FOR_CLUSTERS, Scene, image, layer, manifests, operator, os};

/// Makes a release of these images, which must fail; its output.
fn refused(scene: &Scene, inputs: &[&str]) -> CommandOutput {
    let before = scene.repositories();
    let output = scene.run(
        &[
            &["release", "new", "--name=1.0.0", "--to-image", "@refused:1"],
            inputs,
        ]
        .concat(),
    );
    assert_eq!(output.code, 1, "{inputs:?}: {output:?}");
    assert_eq!(output.out, "");
    assert_eq!(scene.repositories(), before, "{inputs:?}");
    assert!(scene.inspect("refused:1").is_none());
    output
}

fn with(file: &'static str, text: &str) -> BTreeMap<&'static str, String> {
    let mut files = manifests();
    files.insert(file, text.to_owned());
    files
}

#[test]
#[ignore = "needs root, docker-registry, skopeo"]
fn bad_manifests_are_named_and_nothing_is_pushed() {
    let scene = Scene::start();
    scene.push("os:v1", &os());
    let namespace = manifests()["0000_80_toy_00_namespace.yaml"].clone();
    let references = manifests()[REFERENCES_FILE].clone();
    let cases = [
        (
            with("x.yaml", "a: [\n"),
            "image toy, file x.yaml: it is no list of manifests: line ",
        ),
        (
            with("x.json", "{\"kind\": \"A\"}"),
            "image toy, file x.json: it is no list of manifests: document 1: field apiVersion",
        ),
        (
            with("x.yaml", &namespace),
            "image toy, file x.yaml: it describes Namespace toy, and so does image toy, file 0000_80_toy_00_namespace.yaml",
        ),
        (
            with("x.yaml", "0.0.1-snapshot-kubernetes"),
            "image toy, file x.yaml: unknown version reference \"kubernetes\"",
        ),
        (
            with(REFERENCES_FILE, "{}"),
            "image toy, file image-references: it names no images",
        ),
        (
            with(
                REFERENCES_FILE,
                &(references.clone()
                    + "  - name: pod\n    from: {kind: DockerImage, name: example/pod}\n"),
            ),
            "image toy, file image-references: no input image tag named \"pod\"",
        ),
        (
            with(
                REFERENCES_FILE,
                &references.replace("'example/os:v1'", "example/toy"),
            ),
            "image toy, file image-references: images os and toy have one placeholder, \"example/toy\"",
        ),
    ];
    for (files, expected) in cases {
        scene.push("toy:v1", &operator(&files));
        let output = refused(&scene, &["toy=@toy:v1", "os=@os:v1"]);
        assert!(
            output.err.starts_with(&format!("error: {expected}")),
            "{expected}: {output:?}"
        );
        assert_eq!(output.err.lines().count(), 1, "{output:?}");
    }

    // Several are named at once.
    let mut files = with("x.yaml", "a: [\n");
    files.insert("y.yaml", "- 1\n".to_owned());
    scene.push("toy:v1", &operator(&files));
    let output = refused(&scene, &["toy=@toy:v1", "os=@os:v1"]);
    assert_eq!(
        output
            .err
            .lines()
            .filter(|line| line.starts_with("error: image toy, file "))
            .count(),
        2,
        "{output:?}"
    );
}

#[test]
#[ignore = "needs root, docker-registry, skopeo"]
fn bad_images_are_named_and_nothing_is_pushed() {
    let mut scene = Scene::start();
    scene.push("toy:v1", &operator(&manifests()));
    scene.push("os:v1", &os());
    let toy = "toy=@toy:v1";

    // An operator without manifests.
    let none = image(
        &[(OPERATOR_LABEL, "true")],
        vec![layer(&[("usr/bin/x", "x")])],
    );
    scene.push("none:v1", &none);
    let output = refused(&scene, &[toy, "os=@os:v1", "none=@none:v1"]);
    assert_eq!(
        output.err,
        "error: image none: it is an operator's image, and has no manifests\n"
    );

    // No operator at all.
    let output = refused(&scene, &["os=@os:v1"]);
    assert!(
        output.err.ends_with(
            "error: release: no image is an operator's: the release would have no manifests\n"
        ),
        "{output:?}"
    );

    // An image that is not there, and a registry that needs credentials; both are named.
    let closed = format!("closed={}/toy:v1", scene.registry.closed_location());
    let output = refused(&scene, &[toy, "os=@os:v2", &closed]);
    let missing = format!(
        "error: image os: image {} is not there\n",
        scene.at("os:v2")
    );
    assert!(output.err.contains(&missing), "{output:?}");
    let closed = format!(
        "error: image closed: image {}/toy:v1: the registry could not be asked: ",
        scene.registry.closed_location()
    );
    assert!(output.err.contains(&closed), "{output:?}");

    // An image outside of any registry.
    let output = refused(&scene, &[toy, "os=@os:v1", "local=oci:nowhere"]);
    assert_eq!(
        output.err,
        "error: image local: image oci:nowhere is not there\n"
    );

    // A layer that is no archive.
    let mut layers = vec![layer(&[("usr/bin/x", "x")])];
    layers.push(layer(&[(
        "manifests/a.yaml",
        &format!("apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  {FOR_CLUSTERS}\n"),
    )]));
    let digests: Vec<String> = layers
        .iter()
        .map(|layer| layer.blob().digest().to_string())
        .collect();
    scene.push("broken:v1", &image(&[(OPERATOR_LABEL, "true")], layers));
    let broken = scene.blob(&digests[1]);
    let good = std::fs::read(&broken).unwrap();
    std::fs::write(&broken, vec![b'x'; good.len()]).unwrap();
    let output = refused(&scene, &[toy, "os=@os:v1", "broken=@broken:v1"]);
    // The registry itself may find it first: either way the layer is named, and its digest does not
    // match.
    assert!(
        output.err.starts_with(&format!(
            "error: image broken: image {}",
            scene.at("broken")
        )),
        "{output:?}"
    );
    assert!(output.err.contains(&digests[1]), "{output:?}");
    std::fs::write(&broken, good).unwrap();

    // A manifest that is not what its digest says.
    let toy_digest = scene.inspect("toy:v1").unwrap()["Digest"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = scene.blob(&toy_digest);
    let manifest = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        manifest.replace("\"schemaVersion\":2", "\"schemaVersion\":2 "),
    )
    .unwrap();
    let by_digest = format!("toy={}@{toy_digest}", scene.at("toy"));
    let output = refused(&scene, &[&by_digest, "os=@os:v1"]);
    assert!(
        output.err.starts_with("error: image toy: image "),
        "{output:?}"
    );
    assert!(output.err.contains(&toy_digest), "{output:?}");
    std::fs::write(&path, manifest).unwrap();

    // A registry that is away.
    scene.registry.stop();
    let output = scene.run(&["release", "new", "--name=1.0.0", "--dry-run", toy]);
    assert_eq!(output.code, 1);
    assert!(
        output.err.starts_with(&format!(
            "error: image toy: image {}: the registry could not be asked: ",
            scene.at("toy:v1")
        )),
        "{output:?}"
    );
}

#[test]
#[ignore = "needs root, docker-registry, skopeo"]
fn bad_release_is_named() {
    let scene = Scene::start();
    scene.push("toy:v1", &operator(&manifests()));
    scene.push("os:v1", &os());
    let (secret, public) = scene.key("test");
    scene.done(&[
        "release",
        "new",
        "--name=1.0.0",
        "toy=@toy:v1",
        "os=@os:v1",
        "--to-image",
        "@release:1",
    ]);

    // No release is signed or read as one.
    for verb in [
        &["info", "@toy:v1"][..],
        &["extract", "@toy:v1", "--to=out"],
        &["sign", "@toy:v1", "--key", &secret, "--store=store"],
    ] {
        let output = scene.run(&[&["release"], verb].concat());
        let expected = format!(
            "error: image {} is no release: it has no release-manifests/release-metadata\n",
            scene.at("toy:v1")
        );
        assert_eq!((output.code, output.err), (1, expected), "{verb:?}");
    }
    assert!(!scene.directory.path().join("store").exists());
    let output = scene.run(&["release", "extract", "@release:1", "--file=none.yaml"]);
    assert_eq!(
        output.err,
        format!(
            "error: image {} did not contain none.yaml\n",
            scene.at("release:1")
        )
    );
    let output = scene.run(&[
        "release",
        "sign",
        "@release:1",
        "--key",
        &public,
        "--store=store",
    ]);
    assert_eq!(
        output.err,
        format!("error: key {public}: it is a public key, and no secret one\n")
    );
}

#[test]
#[ignore = "needs root, docker-registry, skopeo"]
fn damaged_release_is_named() {
    let scene = Scene::start();
    scene.push("toy:v1", &operator(&manifests()));
    scene.push("os:v1", &os());
    let new = [
        "release",
        "new",
        "--name=1.0.0",
        "toy=@toy:v1",
        "os=@os:v1",
        "--to-image",
        "@release:1",
    ];
    scene.done(&new);

    // A release whose files were changed: its digest does not match.
    let layers = scene.inspect("release:1").unwrap()["Layers"].clone();
    let path = scene.blob(layers[0].as_str().unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let output = scene.run(&["release", "info", "@release:1"]);
    let tampered =
        "error: the release image failed content verification and may have been tampered with: ";
    assert!(
        output.code == 1 && output.err.starts_with(tampered),
        "{output:?}"
    );

    // A release with malformed metadata, and one without it.
    for (files, expected) in [
        (
            [
                ("release-metadata", "{\"kind\":\"x\",\"version\":\"1.0.0\"}"),
                ("image-references", "{}"),
            ],
            "file release-metadata: unrecognized Cincinnati metadata kind \"x\"",
        ),
        (
            [
                (
                    "release-metadata",
                    "{\"kind\":\"cincinnati-metadata-v0\",\"version\":\"1\"}",
                ),
                ("image-references", "{}"),
            ],
            "file release-metadata: field version: ",
        ),
        (
            [
                (
                    "release-metadata",
                    "{\"kind\":\"cincinnati-metadata-v0\",\"version\":\"1.0.0\"}",
                ),
                ("image-references", "{}"),
            ],
            "file image-references: it is \"\"",
        ),
        (
            [("other", ""), ("image-references", "{}")],
            "there is no release-manifests/release-metadata",
        ),
    ] {
        let paths = files.map(|(file, text)| (format!("release-manifests/{file}"), text));
        let files: Vec<(&str, &str)> = paths
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        scene.push("bad:1", &image(&[], vec![layer(&files)]));
        let output = scene.run(&["release", "info", "@bad:1"]);
        let expected = format!("error: image {}: {expected}", scene.at("bad:1"));
        assert!(
            output.code == 1 && output.err.starts_with(&expected),
            "{expected}: {output:?}"
        );
    }
}
