//! A release is made, signed, verified, read and made again.

use std::collections::BTreeSet;
use std::process::Command;

use release::payload::Files;
use release::{ImageDigest, Payload};

use crate::scene::{MADE, Scene, image, layer, manifests, operator, os, run_to_end};

/// What `release new` printed.
fn digest_of(out: &str, version: &str) -> String {
    let words: Vec<&str> = out.split_whitespace().collect();
    assert_eq!(words[1..], [version, MADE], "{out}");
    words[0].parse::<ImageDigest>().unwrap();
    words[0].to_owned()
}

fn files(directory: &str) -> Files {
    let entries = std::fs::read_dir(directory).unwrap();
    let file = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read(path).unwrap())
    };
    entries.map(|entry| file(entry.unwrap().path())).collect()
}

#[test]
#[ignore = "needs root, docker-registry, skopeo"]
fn release_of_images_that_are_not_pushed_yet_is_the_same() {
    let scene = Scene::start();
    scene.push("toy:v1", &operator(&manifests()));
    scene.push("os:v1", &os());
    for name in ["toy", "os"] {
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["copy", "--quiet", "--insecure-policy", "--preserve-digests"]);
        skopeo.arg("--src-tls-verify=false");
        skopeo.arg(format!("docker://{}:v1", scene.at(name)));
        skopeo.arg(format!("oci:{}:{name}", scene.path("layout")));
        let copied = run_to_end(&mut skopeo, scene.directory.path());
        assert_eq!(copied.code, 0, "{copied:?}");
    }
    let new = |inputs: [&'static str; 2], to: &'static str| {
        let options = ["--name=1.2.3", "--to-image", to];
        [&["release", "new"], &inputs[..], &options].concat()
    };
    let pushed = new(["toy=@toy:v1", "os=@os:v1"], "@release:1.2.3");
    let digest = digest_of(&scene.done(&pushed), "1.2.3");
    let unpushed = new(["toy=oci:layout:toy", "os=oci:layout:os"], "@other:1.2.3");
    let output = scene.run(&unpushed);
    assert_eq!(output.code, 1, "{output:?}");
    let expected = "image toy: oci:layout:toy is in no registry, where clusters could pull it";
    assert!(output.err.contains(expected), "{output:?}");
    assert!(scene.inspect("other:1.2.3").is_none());
    let place = scene.registry.location();
    let named = [&unpushed[..], &["--published-at", &place]].concat();
    assert_eq!(digest_of(&scene.done(&named), "1.2.3"), digest);
}

#[test]
#[ignore = "needs root, docker-registry, skopeo"]
fn release_is_made_signed_and_read() {
    let scene = Scene::start();
    let toy = scene.push("toy:v1", &operator(&manifests()));
    let os = scene.push_by_skopeo("os:v1", &os());
    let base = scene.push(
        "base:v1",
        &image(&[("other", "x")], vec![layer(&[("usr/bin/cvo", "x")])]),
    );
    let (secret, public) = scene.key("test");

    let inputs = [
        "toy=@toy:v1",
        "os=@os:v1",
        "cluster-version-operator=@base:v1",
    ];
    let options = [
        "--name=1.2.3",
        "--previous=1.2.2,1.2.1",
        "--metadata={\"url\":\"https://example.com/1.2.3\"}",
        "--verification-key",
        &public,
        "--verification-store=https://example.com/signatures/",
        "--to-signature=statement.json",
        "--to-image",
        "@release:1.2.3",
    ];
    let new = [&["release", "new"], &inputs[..], &options[..]].concat();
    let digest = digest_of(&scene.done(&new), "1.2.3");

    // The registry has what was printed, and other tools read it.
    let inspected = scene.inspect("release:1.2.3").unwrap();
    assert_eq!(inspected["Digest"], digest.as_str());
    assert_eq!(inspected["Labels"]["io.openshift.release"], "1.2.3");
    assert_eq!(
        inspected["Labels"]["io.openshift.release.base-image-digest"],
        base.digest().as_str()
    );
    assert_eq!(inspected["Labels"].as_object().unwrap().len(), 2);
    assert_eq!(inspected["Layers"].as_array().unwrap().len(), 2);
    assert_eq!(inspected["Created"], MADE);

    // The same again is the same, to the byte.
    let again = [
        &["release", "new"],
        &inputs[..],
        &options[..6],
        &["--to-image", "@again:1"],
    ]
    .concat();
    assert_eq!(digest_of(&scene.done(&again), "1.2.3"), digest);

    let out = scene.done(&["release", "extract", "@release:1.2.3", "--to", "payload"]);
    assert_eq!(
        out,
        format!("Extracted release payload from digest {digest} created at {MADE}\n")
    );
    let files = files(&scene.path("payload"));
    let names: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    let expected = [
        "0000_80_toy_00_namespace.yaml",
        "0000_80_toy_01_deployment.yaml",
        "0000_90_cluster-update-keys_configmap.yaml",
        "image-references",
        "release-metadata",
    ];
    assert_eq!(names, expected.into());
    let deployment = manifests()["0000_80_toy_01_deployment.yaml"].clone();
    let expected = deployment
        .replace("example/toy", toy.as_str())
        .replace("example/os:v1", os.as_str())
        .replace("0.0.1-snapshot-machine-os", "12.0.1")
        .replace("0.0.1-snapshot", "1.2.3");
    let file = "0000_80_toy_01_deployment.yaml";
    assert_eq!(String::from_utf8_lossy(&files[file]), expected);
    assert_eq!(
        scene.done(&["release", "extract", "@release:1.2.3", "--file", file]),
        expected
    );
    let payload = Payload::parse(&files).unwrap();
    assert_eq!(payload.metadata.previous.len(), 2);
    let verification = release::verification::SignatureTrust::of(&payload.manifests)
        .unwrap()
        .unwrap();
    assert_eq!(
        verification.keyrings["test"],
        std::fs::read(&public).unwrap()
    );
    assert_eq!(verification.stores["1"], "https://example.com/signatures");

    info(&scene, &digest);
    signature(&scene, &digest, &secret, &public);
    made_again(&scene, &digest);
    image_files(&scene);
}

fn info(scene: &Scene, digest: &str) {
    let text = scene.done(&["release", "info", "@release:1.2.3"]);
    let place = scene.at("release");
    let head = format!(
        "Name:      1.2.3\nDigest:    {digest}\nCreated:   {MADE}\nOS/Arch:   linux/amd64\nManifests: 3\n\nPull From: {place}@{digest}\n\n"
    );
    let body = "Release Metadata:\n  Version:  1.2.3\n  Upgrades: 1.2.1, 1.2.2\n  Metadata:\n    url: https://example.com/1.2.3\n\n\
                Component Versions:\n  machine-os 12.0.1 Debian GNU\n\nImages:\n";
    let expected = if cfg!(target_arch = "x86_64") {
        head
    } else {
        head.replace("amd64", "arm64")
    } + body;
    assert!(text.starts_with(&expected), "{text}\n{expected}");
    let json = scene.done(&["release", "info", "@release:1.2.3", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["digest"], digest);
    assert_eq!(
        json["references"]["spec"]["tags"].as_array().unwrap().len(),
        3
    );
    assert_eq!(json["versions"]["machine-os"], "12.0.1");
    let template = "jsonpath={.versions.machine-os} {.digest}";
    let filled = scene.done(&["release", "info", "@release:1.2.3", "-o", template]);
    assert_eq!(filled, format!("12.0.1 {digest}"));
    let os = scene.done(&["release", "info", "@release:1.2.3", "--image-for", "os"]);
    assert!(
        os.starts_with(&format!("{}@sha256:", scene.at("os"))),
        "{os}"
    );
    let verified = scene.done(&["release", "info", "@release:1.2.3", "--verify"]);
    let lines: Vec<Vec<&str>> = verified
        .lines()
        .map(|line| line.split(' ').collect())
        .collect();
    assert_eq!(lines.len(), 3, "{verified}");
    let digest_of_os = os.trim_end().rsplit('@').next();
    let line = lines.iter().find(|words| words.last() == Some(&"os"));
    assert_eq!(line.and_then(|words| words.first().copied()), digest_of_os);
    let sizes = scene.done(&["release", "info", "@release:1.2.3", "--size"]);
    assert!(sizes.contains("  NAME "), "{sizes}");
    assert!(sizes.contains("\n  Total "), "{sizes}");
    let both = ["release", "info", "@release:1.2.3", "--size", "--verify"];
    assert_eq!(scene.run(&both).code, 2);
    let other = scene.run(&["release", "info", "@release:1.2.3", "--image-for", "other"]);
    let expected = format!(
        "error: no image tag \"other\" exists in the release image {}\n",
        scene.at("release:1.2.3")
    );
    assert_eq!((other.code, other.err), (1, expected));
    let by_digest = format!("{place}@{digest}");
    let pull_spec = scene.done(&["release", "info", &by_digest, "-o", "pullspec"]);
    assert_eq!(pull_spec, format!("{by_digest}\n"));
}

fn signature(scene: &Scene, digest: &str, secret: &str, public: &str) {
    let image = format!("{}@{digest}", scene.at("release"));
    let verify = |key: &str, more: &[&str]| {
        scene.run(
            &[
                &["release", "verify", &image, "--store=store", "--key", key],
                more,
            ]
            .concat(),
        )
    };
    let before = verify(public, &[]);
    let expected = format!(
        "warning: there is no signature\nerror: unable to verify {digest} against keyrings: test\n"
    );
    assert_eq!((before.code, before.err), (1, expected));

    let out = scene.done(&[
        "release",
        "sign",
        "@release:1.2.3",
        "--key",
        secret,
        "--store=store",
    ]);
    let reference = scene.at("release:1.2.3");
    assert!(
        out.starts_with(&format!("{digest} signed as {reference} by key ")),
        "{out}"
    );
    let path = format!("store/sha256={}/signature-1", &digest["sha256:".len()..]);
    assert!(out.ends_with(&format!(": {path}\n")), "{out}");

    let after = verify(public, &["--reference", &reference]);
    assert_eq!(after.code, 0, "{after:?}");
    assert!(
        after
            .out
            .starts_with(&format!("{digest} signed as {reference} by key ")),
        "{after:?}"
    );
    let other_name = verify(public, &["--reference", "quay.io/example/release:1.2.3"]);
    assert_eq!(other_name.code, 1, "{other_name:?}");
    let (_, foreign) = scene.key("foreign");
    let other_key = verify(&foreign, &[]);
    assert!(
        other_key.err.contains(
            "warning: signature 1, keyring foreign: no key of keyring foreign signed it\n"
        ),
        "{other_key:?}"
    );
    // Each keyring needs a signature.
    assert_eq!(verify(public, &["--key", &foreign]).code, 1);

    // Debian's own verifier reads it: the signed message holds the statement.
    let mut dearmor = Command::new("gpgv");
    let binary = scene.file(
        "ring.gpg",
        dearmored(&std::fs::read_to_string(public).unwrap()),
    );
    dearmor.args(["--keyring", &binary, "--output", "-", &path]);
    let gpgv = run_to_end(&mut dearmor, scene.directory.path());
    assert_eq!(gpgv.code, 0, "{gpgv:?}");
    let statement: serde_json::Value = serde_json::from_str(&gpgv.out).unwrap();
    assert_eq!(
        statement["critical"]["image"]["docker-manifest-digest"],
        digest
    );
    let unsigned = std::fs::read_to_string(scene.path("statement.json")).unwrap();
    let unsigned: serde_json::Value = serde_json::from_str(&unsigned).unwrap();
    assert_eq!(unsigned["critical"], statement["critical"]);
}

/// The bytes of an armoured key.
fn dearmored(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    let body = text.split("\n\n").nth(1).unwrap();
    let body = body
        .lines()
        .take_while(|line| !line.starts_with(['=', '-']));
    let body: String = body.collect();
    base64::prelude::BASE64_STANDARD.decode(body).unwrap()
}

fn made_again(scene: &Scene, digest: &str) {
    // Unchanged, it is the same image.
    let out = scene.done(&[
        "release",
        "new",
        "--from-release",
        "@release:1.2.3",
        "--to-image",
        "@copy:1",
    ]);
    assert_eq!(digest_of(&out, "1.2.3"), digest);
    assert_eq!(scene.inspect("copy:1").unwrap()["Digest"], digest);

    // With one image more and another in its place, it says where it comes from.
    let other_os = image(
        &[("io.openshift.build.versions", "machine-os=12.0.2")],
        vec![layer(&[("x", "y")])],
    );
    scene.push("os:v2", &other_os);
    let words = [
        "release",
        "new",
        "--from-release",
        "@release:1.2.3",
        "os=@os:v2",
        "--name=1.2.4",
        "--previous=1.2.3",
        "--to-image",
        "@release:1.2.4",
    ];
    let changed = digest_of(&scene.done(&words), "1.2.4");
    assert_ne!(changed, digest);
    let json = scene.done(&["release", "info", "@release:1.2.4", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let annotations = &json["references"]["metadata"]["annotations"];
    assert_eq!(
        annotations["release.openshift.io/from-release"],
        format!("{}@{digest}", scene.at("release"))
    );
    assert_eq!(json["versions"]["machine-os"], "12.0.2");
    assert_eq!(
        json["metadata"]["metadata"]["url"],
        "https://example.com/1.2.3"
    );
    let difference = scene.done(&["release", "info", "@release:1.2.3", "@release:1.2.4"]);
    assert!(difference.contains("\nUpgrade From: Yes\n"), "{difference}");
    assert!(
        difference.contains("\nImages Changed:\n  os sha256:"),
        "{difference}"
    );
    let same = scene.done(&["release", "info", "@release:1.2.3", "@copy:1"]);
    assert_eq!(same, "Releases are identical\n");

    // To a layout directory, and from there.
    let words = [
        "release",
        "new",
        "--from-release",
        "@release:1.2.3",
        "--to-image",
        "oci:directory:1.2.3",
    ];
    assert_eq!(digest_of(&scene.done(&words), "1.2.3"), digest);
    assert_eq!(
        scene.done(&["release", "info", "oci:directory", "-o", "digest"]),
        format!("{digest}\n")
    );

    // From an image stream, and from a directory of manifests.
    let references = scene.done(&[
        "release",
        "extract",
        "@release:1.2.3",
        "--file",
        "image-references",
    ]);
    scene.file("stream.json", &references);
    let out = scene.done(&[
        "release",
        "new",
        "-f",
        "stream.json",
        "--name=1.2.5",
        "--dry-run",
    ]);
    digest_of(&out, "1.2.5");
    scene.file("from/image-references", &references);
    scene.file(
        "from/os/extra.yaml",
        format!(
            "apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  {}\n",
            crate::scene::FOR_CLUSTERS
        ),
    );
    scene.done(&[
        "release",
        "new",
        "--from-dir=from",
        "--name=1.2.6",
        "--to-dir=made",
    ]);
    assert!(files(&scene.path("made")).contains_key("0000_50_os_extra.yaml"));
}

fn image_files(scene: &Scene) {
    let target = scene.path("out");
    std::fs::create_dir(&target).unwrap();
    scene.done(&[
        "image",
        "extract",
        "@toy:v1",
        "--path",
        &format!("/usr/bin/operator:{target}"),
    ]);
    assert_eq!(
        std::fs::read_to_string(format!("{target}/operator")).unwrap(),
        "a program"
    );
    let again = scene.run(&[
        "image",
        "extract",
        "@toy:v1",
        "--path",
        &format!("/manifests/:{target}"),
    ]);
    let expected =
        format!("error: directory {target} is not empty; --confirm writes into it all the same\n");
    assert_eq!((again.code, again.err), (1, expected));
    scene.done(&[
        "image",
        "extract",
        "@toy:v1",
        "--path",
        &format!("/manifests/:{target}"),
        "--confirm",
    ]);
    assert_eq!(files(&target).len(), 4);
}
