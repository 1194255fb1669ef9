//! Signatures beside images: what `slipway` signs, skopeo takes by the node's files, and the other
//! way round. What does not count is refused by both.

use std::path::PathBuf;
use std::process::Command;

use api::config::{ClusterImagePolicy, ImageDigestMirrorSet};
use generated::registries::{self, RegistryFacts};
use prebuilt::skopeo;
use serde_json::{Value, json};

use crate::scene::{CommandOutput, Scene, image, layer, manifests, operator, os, run_to_end};

const POLICY_FILE: &str = "0000_90_openshift-cluster-image-policy.yaml";

const PASSWORD: &str = "a password";

/// A registry with a toy operator and OS, and a key that skopeo made.
struct SignedScene {
    scene: Scene,
    skopeo: PathBuf,
    password: String,
}

impl SignedScene {
    fn start() -> Self {
        let scene = Scene::start();
        scene.push("toy:v1", &operator(&manifests()));
        scene.push("os:v1", &os());
        let base = image(&[("other", "x")], vec![layer(&[("usr/bin/cvo", "x")])]);
        scene.push("base:v1", &base);
        let password = scene.file("password", format!("{PASSWORD}\n"));
        let made = Self {
            scene,
            skopeo: skopeo::find().unwrap(),
            password,
        };
        for key in ["cosign", "foreign"] {
            made.ran(&[
                "generate-sigstore-key",
                "--output-prefix",
                key,
                "--passphrase-file",
                &made.password,
            ]);
        }
        made
    }

    fn skopeo(&self, words: &[&str]) -> CommandOutput {
        let mut command = Command::new(&self.skopeo);
        let words = words.iter().map(|word| match word.split_once("://@") {
            Some((transport, name)) => format!("{transport}://{}", self.scene.at(name)),
            None => (*word).to_owned(),
        });
        run_to_end(command.args(words), self.scene.directory.path())
    }

    fn ran(&self, words: &[&str]) {
        let output = self.skopeo(words);
        assert_eq!(output.code, 0, "{words:?}: {output:?}");
    }

    fn digest(&self, name: &str) -> String {
        let found = self.scene.inspect(name).unwrap();
        found["Digest"].as_str().unwrap().to_owned()
    }

    /// Makes a release that asks for signatures of all its images, and signs the release.
    fn release(&self, version: &str) {
        let place = format!("@release:{version}");
        let mut words = vec![
            "release",
            "new",
            "toy=@toy:v1",
            "os=@os:v1",
            "cluster-version-operator=@base:v1",
            "--name",
            version,
            "--to-image",
            &place,
            "--verification-sigstore-key",
            "cosign.pub",
        ];
        let scopes = ["@release", "@toy", "@os", "@base"];
        for scope in scopes {
            words.extend(["--verification-scope", scope]);
        }
        let key = [
            "--sigstore-key",
            "cosign.private",
            "--sigstore-password-file",
        ];
        self.scene
            .done(&[&words[..], &key, &[&self.password]].concat());
    }

    /// Writes the policy of a release to a file; its path.
    fn policy(&self, version: &str) -> String {
        let place = format!("@release:{version}");
        let text = self
            .scene
            .done(&["release", "extract", &place, "--file", POLICY_FILE]);
        self.scene.file("policy.yaml", text)
    }

    /// What nodes have for a policy and mirrors: the options of skopeo.
    fn node(&self, policy: &str, mirrors: &Value) -> [String; 4] {
        let text = std::fs::read(policy).unwrap();
        let policy: ClusterImagePolicy = serde_json::from_slice(&text).unwrap();
        let set: ImageDigestMirrorSet = serde_json::from_value(json!({
            "metadata": { "name": "mirrors" }, "spec": { "imageDigestMirrors": mirrors }
        }))
        .unwrap();
        let facts = RegistryFacts {
            digest: vec![&set],
            cluster_policies: vec![&policy],
            ..RegistryFacts::default()
        };
        for file in registries::node_files(&facts).unwrap() {
            let path = format!("node{}", file.path);
            self.scene.file(&path, file.text);
        }
        [
            "--policy".to_owned(),
            self.scene.path("node/etc/containers/policy.json"),
            "--registries.d".to_owned(),
            self.scene.path("node/etc/containers/registries.d"),
        ]
    }

    /// Pulls an image as a node does.
    fn pull(&self, node: &[String; 4], image: &str) -> CommandOutput {
        let target = self.scene.path("pulled");
        let target = format!("dir:{target}");
        let options = node.each_ref().map(String::as_str);
        let pull = ["copy", "--quiet", "--src-tls-verify=false", image, &target];
        self.skopeo(&[&options[..], &pull].concat())
    }

    fn verify(&self, image: &str, policy: &str) -> CommandOutput {
        self.scene
            .run(&["release", "verify", image, "--policy", policy])
    }
}

#[test]
#[ignore = "needs root, docker-registry, skopeo"]
fn what_is_signed_is_pulled_by_the_files_of_nodes() {
    let signed = SignedScene::start();
    signed.release("1.2.3");
    let policy = signed.policy("1.2.3");
    let node = signed.node(&policy, &json!([]));
    let by_digest =
        |name: &str, repository: &str| format!("docker://@{repository}@{}", signed.digest(name));
    let release = by_digest("release:1.2.3", "release");
    let pulled = signed.pull(&node, &release);
    assert_eq!(pulled.code, 0, "{pulled:?}");
    let info = [
        "release",
        "info",
        "@release:1.2.3",
        "--verify",
        "--policy",
        &policy,
    ];
    // Its images are not signed yet.
    let os = by_digest("os:v1", "os");
    let refused = signed.pull(&node, &os);
    assert!(
        refused
            .err
            .contains("A signature was required, but no signature exists"),
        "{refused:?}"
    );
    let output = signed.scene.run(&info);
    assert_eq!(output.code, 1, "{output:?}");
    for (name, words) in [
        ("os", "os"),
        ("toy", "toy"),
        ("cluster-version-operator", "base"),
    ] {
        let image = format!("error: {name}: unable to verify sha256:");
        assert!(output.err.contains(&image), "{output:?}");
        let place = format!("{}:sha256-", signed.scene.at(words));
        assert!(output.err.contains(&place), "{output:?}");
    }
    let sign = |more: &[&str]| {
        let key = [
            "--sigstore-key",
            "cosign.private",
            "--sigstore-password-file",
        ];
        let words = ["release", "sign", "@release:1.2.3"];
        signed
            .scene
            .done(&[&words[..], &key, &[&signed.password], more].concat())
    };
    let lines = sign(&["--images"]);
    assert_eq!(lines.lines().count(), 4, "{lines}");
    assert!(lines.contains(" already\n"), "{lines}");
    assert_eq!(lines.matches(" by key ").count(), 3, "{lines}");
    assert_eq!(sign(&["--images"]).matches(" already\n").count(), 4);
    let pulled = signed.pull(&node, &os);
    assert_eq!(pulled.code, 0, "{pulled:?}");
    let verified = signed.scene.done(&info);
    assert_eq!(
        verified
            .matches(" by ClusterImagePolicy openshift\n")
            .count(),
        4,
        "{verified}"
    );
    // Another one's signature beside it hurts neither of the two.
    let foreign = [
        "--sigstore-key",
        "foreign.private",
        "--sigstore-password-file",
    ];
    let words = ["release", "sign", "@release:1.2.3"];
    signed
        .scene
        .done(&[&words[..], &foreign, &[&signed.password]].concat());
    assert_eq!(signed.pull(&node, &release).code, 0);
    assert_eq!(signed.verify("@release:1.2.3", &policy).code, 0);
}

#[test]
#[ignore = "needs root, docker-registry, skopeo"]
fn what_skopeo_signs_is_verified_and_what_does_not_count_is_refused_by_both() {
    let signed = SignedScene::start();
    signed.release("1.2.3");
    let policy = signed.policy("1.2.3");
    let node = signed.node(&policy, &json!([]));
    let scene = &signed.scene;
    let again = |key: &str, to: &str| {
        let registries = scene.file(
            "registries.d/all.yaml",
            "default-docker: {use-sigstore-attachments: true}\n",
        );
        let directory = registries.strip_suffix("/all.yaml").unwrap();
        let release = "docker://@release:1.2.3";
        // Without signatures of its own: what is there is another image's otherwise.
        signed.ran(&[
            "--insecure-policy",
            "--registries.d",
            directory,
            "copy",
            "--quiet",
            "--remove-signatures",
            "--src-tls-verify=false",
            "--dest-tls-verify=false",
            "--sign-by-sigstore-private-key",
            key,
            "--sign-passphrase-file",
            &signed.password,
            release,
            to,
        ]);
    };
    let refused = |image: &str, expected: &str| {
        let pulled = signed.pull(&node, &format!("docker://{image}"));
        assert_ne!(pulled.code, 0, "{image}: {pulled:?}");
        let verified = signed.verify(image, &policy);
        assert_eq!(verified.code, 1, "{image}: {verified:?}");
        assert!(verified.err.contains(expected), "{image}: {verified:?}");
    };
    // By the right key, in a repository that a policy is about.
    let other = image(&[("other", "y")], vec![layer(&[("usr/bin/cvo", "y")])]);
    scene.push("base:unsigned", &other);
    again("cosign.private", "docker://@base:signed");
    let verified = signed.verify("@base:signed", &policy);
    assert_eq!(verified.code, 0, "{verified:?}");
    assert_eq!(signed.pull(&node, "docker://@base:signed").code, 0);
    // None, another's, and one for another name.
    refused("@base:unsigned", ".sig: none");
    again("foreign.private", "docker://@toy:foreign");
    refused("@toy:foreign", "signature 1: it is not signed by key ");
    again("cosign.private", "docker://@other/name:1");
    let digest = signed.digest("release:1.2.3");
    let tag = format!("sha256-{}.sig", &digest["sha256:".len()..]);
    let move_tag = |from: &str, to: &str| {
        let (from, to) = (format!("docker://@{from}"), format!("docker://@{to}"));
        signed.ran(&[
            "--insecure-policy",
            "copy",
            "--quiet",
            "--src-tls-verify=false",
            "--dest-tls-verify=false",
            &from,
            &to,
        ]);
    };
    signed.ran(&[
        "--insecure-policy",
        "copy",
        "--quiet",
        "--src-tls-verify=false",
        "--dest-tls-verify=false",
        "--remove-signatures",
        "docker://@release:1.2.3",
        "docker://@os:renamed",
    ]);
    move_tag(&format!("other/name:{tag}"), &format!("os:{tag}"));
    refused("@os:renamed", "and MatchRepoDigestOrExact asks for");
    // Swapped: the signature of another image of the same repository.
    let unsigned = signed.digest("base:unsigned");
    let swapped = format!("sha256-{}.sig", &unsigned["sha256:".len()..]);
    move_tag(&format!("base:{tag}"), &format!("base:{swapped}"));
    refused(
        "@base:unsigned",
        "signature digest does not match: it is about",
    );
    // Truncated, and doubled, in the registry's own storage.
    let document = scene.blob_of_manifest(&format!("release:{tag}"));
    let payload = document["layers"][0]["digest"].as_str().unwrap();
    let file = scene.blob(payload);
    let whole = std::fs::read(&file).unwrap();
    for content in [&whole[..whole.len() - 1], &whole.repeat(2)[..], b""] {
        std::fs::write(&file, content).unwrap();
        refused("@release:1.2.3", &format!("{tag}: "));
    }
    std::fs::write(&file, &whole).unwrap();
    assert_eq!(signed.verify("@release:1.2.3", &policy).code, 0);
    // What no policy is about is not verified.
    let outside = signed.verify("@other/name:1", &policy);
    assert!(
        outside.err.contains("no policy of --policy is about"),
        "{outside:?}"
    );
}

#[test]
#[ignore = "needs root, docker-registry, skopeo"]
fn mirror_takes_signatures_along_and_what_has_none_is_named() {
    let signed = SignedScene::start();
    let scene = &signed.scene;
    signed.release("1.2.3");
    let mirror = ["release", "mirror", "@release:1.2.3", "--to", "@mirror/ocp"];
    let output = scene.run(&mirror);
    assert_eq!(output.code, 1, "{output:?}");
    for name in ["os", "toy", "cluster-version-operator"] {
        let line = format!("error: nodes will not pull {name} from the mirror: unable to verify");
        assert!(output.err.contains(&line), "{output:?}");
    }
    assert!(
        !output.err.contains("nodes will not pull release"),
        "{output:?}"
    );
    let key = [
        "--sigstore-key",
        "cosign.private",
        "--sigstore-password-file",
    ];
    let sign = ["release", "sign", "@release:1.2.3", "--images"];
    scene.done(&[&sign[..], &key, &[&signed.password]].concat());
    let done = scene.done(&mirror);
    assert!(done.contains("\nSuccess\n"), "{done}");
    // A node pulls by the source's name, and only the mirror is there to respond.
    let policy = signed.policy("1.2.3");
    let registry = scene.at("");
    let digest = signed.digest("os:v1");
    let text = std::fs::read_to_string(&policy).unwrap();
    let nowhere = text.replace(registry.trim_end_matches('/'), "nowhere.invalid");
    assert_ne!(nowhere, text);
    let mut nowhere: Value = serde_json::from_str(&nowhere).unwrap();
    nowhere["spec"]["policy"]["signedIdentity"] = json!({
        "matchPolicy": "RemapIdentity",
        "remapIdentity": {
            "prefix": "nowhere.invalid", "signedPrefix": registry.trim_end_matches('/')
        }
    });
    let nowhere = scene.file("nowhere.yaml", nowhere.to_string());
    let mirrors = json!([{ "source": "nowhere.invalid/os", "mirrors": [scene.at("mirror/ocp")] }]);
    let node = signed.node(&nowhere, &mirrors);
    let conf = scene.path("node/etc/containers/registries.conf");
    let target = format!("dir:{}", scene.path("pulled"));
    let image = format!("docker://nowhere.invalid/os@{digest}");
    let [policy, policy_file, directory, directory_file] = node.each_ref().map(String::as_str);
    let pulled = signed.skopeo(&[
        policy,
        policy_file,
        directory,
        directory_file,
        "--registries-conf",
        &conf,
        "copy",
        "--quiet",
        "--src-tls-verify=false",
        &image,
        &target,
    ]);
    assert_eq!(pulled.code, 0, "{pulled:?}");
}
