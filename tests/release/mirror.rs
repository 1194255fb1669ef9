//! A release is mirrored into another repository, goes on after a failure, and is compared.

use crate::scene::{Scene, image, layer, manifests, operator, os};

/// Makes a release of these images under a tag.
fn make(scene: &Scene, version: &str, inputs: &[&str]) {
    let place = format!("@release:{version}");
    let options = ["--name", version, "--to-image", &place];
    scene.done(&[&["release", "new"], inputs, &options[..]].concat());
}

#[test]
#[ignore = "needs root, docker-registry, skopeo"]
fn release_is_mirrored_and_goes_on_after_a_failure() {
    let scene = Scene::start();
    scene.push("toy:v1", &operator(&manifests()));
    let broken = os();
    scene.push("os:v1", &broken);
    let base = image(&[("other", "x")], vec![layer(&[("usr/bin/cvo", "x")])]);
    scene.push("base:v1", &base);
    let base = "cluster-version-operator=@base:v1";
    make(&scene, "1.2.3", &["toy=@toy:v1", "os=@os:v1", base]);
    let (secret, _) = scene.key("test");
    let sign = ["release", "sign", "@release:1.2.3", "--key", &secret];
    scene.done(&[&sign[..], &["--store=store"]].concat());

    let mirror = [
        "release",
        "mirror",
        "@release:1.2.3",
        "--to",
        "@mirror/ocp",
        "--store=store",
        "--release-image-signature-to-dir=signatures",
    ];
    let planned = scene.done(&[&mirror[..], &["--dry-run"]].concat());
    assert_eq!(planned.lines().count(), 4, "{planned}");
    assert!(scene.inspect("mirror/ocp:1.2.3-x86_64").is_none());

    // A layer of one image is gone: the others are copied, and the failure is named.
    let layer_file = scene.blob(broken.blobs()[0].digest().as_str());
    let kept = scene.path("kept");
    std::fs::copy(&layer_file, &kept).unwrap();
    std::fs::write(&layer_file, "damaged").unwrap();
    let failed = scene.run(&mirror);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.err.contains("error: cannot copy "), "{failed:?}");
    let last = "error: 1 of 4 images are not mirrored; the same command goes on with them\n";
    assert!(failed.err.ends_with(last), "{failed:?}");
    assert_eq!(failed.out.matches(" copied\n").count(), 3, "{failed:?}");
    assert!(scene.inspect("mirror/ocp:1.2.3-x86_64-os").is_none());

    std::fs::copy(&kept, &layer_file).unwrap();
    let done = scene.done(&mirror);
    assert_eq!(done.matches(" there already\n").count(), 3, "{done}");
    assert_eq!(done.matches(" copied\n").count(), 1, "{done}");
    assert!(done.contains("\nSuccess\n"), "{done}");
    assert!(done.contains("kind: ImageDigestMirrorSet\n"), "{done}");
    for (name, source) in [("", "release:1.2.3"), ("-os", "os:v1"), ("-toy", "toy:v1")] {
        let there = scene.inspect(&format!("mirror/ocp:1.2.3-x86_64{name}"));
        let source = scene.inspect(source).unwrap();
        assert_eq!(there.unwrap()["Digest"], source["Digest"], "{name}");
    }
    let maps = std::fs::read_dir(scene.path("signatures")).unwrap();
    assert_eq!(maps.count(), 1);
}

#[test]
#[ignore = "needs root, docker-registry, skopeo"]
fn releases_differ_by_images_and_fields_of_manifests() {
    let scene = Scene::start();
    scene.push("os:v1", &os());
    let mut files = manifests();
    scene.push("toy:v1", &operator(&files));
    let namespace = files.get_mut("0000_80_toy_00_namespace.yaml").unwrap();
    namespace.push_str("spec: {finalizers: [x]}\n");
    scene.push("toy:v2", &operator(&files));
    make(&scene, "1.2.3", &["toy=@toy:v1", "os=@os:v1"]);
    make(&scene, "1.2.4", &["toy=@toy:v2", "os=@os:v1"]);
    let output = scene.done(&["release", "diff", "@release:1.2.3", "@release:1.2.4"]);
    assert!(output.contains("\nImages Changed:\n  toy "), "{output}");
    let changed =
        "\nManifests Changed:\n  Deployment.apps toy/toy spec.template.spec.containers[0]";
    assert!(output.contains(changed), "{output}");
    assert!(
        output.contains("\n  Namespace toy           spec\n"),
        "{output}"
    );
    let same = scene.done(&["release", "diff", "@release:1.2.3", "@release:1.2.3"]);
    assert_eq!(same, "Releases are identical\n");
}
