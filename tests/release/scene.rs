//! A registry, toy images in it, and the program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use images::draft::Built;
use images::image::Platform;
use images::tree::{EntryContent, NewLayer};
use images::{Credentials, Draft, ImageLocation, Stores, Tree};
use jiff::Timestamp;
use lab::Lab;
use lab::registry::Registry;
use pgp::composed::{ArmorOptions, KeyType, SecretKeyParamsBuilder};
use rand::rngs::OsRng;
use release::{OPERATOR_LABEL, PullSpec, REFERENCES_FILE};
use tempfile::TempDir;
use testbed::Programs;
use tokio::runtime::Runtime;

/// Annotation that makes a manifest one for clusters.
pub(crate) const FOR_CLUSTERS: &str =
    "annotations: {include.release.openshift.io/self-managed-high-availability: 'true'}";

/// When toy images say they were made.
pub(crate) const MADE: &str = "2024-01-02T03:04:05Z";

/// A lab with a registry and nothing else.
pub(crate) struct Scene {
    pub(crate) lab: Lab,
    pub(crate) registry: Registry,
    /// For files of the test.
    pub(crate) directory: TempDir,
    program: PathBuf,
    stores: Stores,
    runtime: Runtime,
}

/// What the program printed, and its exit code.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Scene {
    pub(crate) fn start() -> Self {
        let lab = Lab::create().unwrap();
        Self {
            registry: Registry::start(&lab).unwrap(),
            lab,
            directory: tempfile::tempdir().unwrap(),
            program: Programs::built().unwrap().path("slipway").unwrap(),
            stores: Stores::new(Credentials::default(), true),
            runtime: Runtime::new().unwrap(),
        }
    }

    /// Where an image of this name is in the registry.
    pub(crate) fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.registry.location())
    }

    /// Runs `slipway` with these words; `@name` is an image of the registry.
    pub(crate) fn run(&self, words: &[&str]) -> CommandOutput {
        let words = words.iter().map(|word| match word.split_once('@') {
            Some((before, name)) if !name.starts_with("sha256:") => {
                format!("{before}{}", self.at(name))
            }
            _ => (*word).to_owned(),
        });
        let mut command = Command::new(&self.program);
        command.args(words).arg("--insecure");
        run_to_end(&mut command, self.directory.path())
    }

    /// The same, which must succeed; what it printed.
    pub(crate) fn done(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.code, 0, "{words:?}: {output:?}");
        output.out
    }

    /// Puts an image into the registry; its pull spec.
    pub(crate) fn push(&self, name: &str, image: &Built) -> PullSpec {
        let location: ImageLocation = self.at(name).parse().unwrap();
        self.runtime
            .block_on(self.stores.put(image, &location))
            .unwrap();
        location.pull_spec(image.digest()).unwrap()
    }

    /// Puts an image into the registry by skopeo, from a layout directory that this project writes.
    pub(crate) fn push_by_skopeo(&self, name: &str, image: &Built) -> PullSpec {
        let layout = self.directory.path().join("layout");
        let location: ImageLocation = format!("oci:{}:{name}", layout.display()).parse().unwrap();
        self.runtime
            .block_on(self.stores.put(image, &location))
            .unwrap();
        let place = self.at(name);
        let mut skopeo = Command::new("skopeo");
        skopeo.args([
            "copy",
            "--quiet",
            "--insecure-policy",
            "--dest-tls-verify=false",
        ]);
        skopeo
            .arg(location.to_string())
            .arg(format!("docker://{place}"));
        let copied = run_to_end(&mut skopeo, self.directory.path());
        assert_eq!(copied.code, 0, "{copied:?}");
        let location: ImageLocation = place.parse().unwrap();
        location.pull_spec(image.digest()).unwrap()
    }

    /// What skopeo says of an image of the registry; none where there is no such image.
    pub(crate) fn inspect(&self, name: &str) -> Option<serde_json::Value> {
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["inspect", "--tls-verify=false"]);
        skopeo.arg(format!("docker://{}", self.at(name)));
        let output = run_to_end(&mut skopeo, self.directory.path());
        (output.code == 0).then(|| serde_json::from_str(&output.out).unwrap())
    }

    /// The manifest of an image of the registry.
    pub(crate) fn blob_of_manifest(&self, name: &str) -> serde_json::Value {
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["inspect", "--raw", "--tls-verify=false"]);
        skopeo.arg(format!("docker://{}", self.at(name)));
        let output = run_to_end(&mut skopeo, self.directory.path());
        assert_eq!(output.code, 0, "{output:?}");
        serde_json::from_str(&output.out).unwrap()
    }

    /// Where the registry keeps a blob.
    pub(crate) fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.strip_prefix("sha256:").unwrap();
        let blobs = "registry/data/docker/registry/v2/blobs/sha256";
        self.lab
            .dir()
            .join(blobs)
            .join(&hex[..2])
            .join(hex)
            .join("data")
    }

    /// Repositories of the registry that hold anything.
    pub(crate) fn repositories(&self) -> Vec<String> {
        let repositories = self
            .lab
            .dir()
            .join("registry/data/docker/registry/v2/repositories");
        let Ok(entries) = std::fs::read_dir(repositories) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Writes a file of the test; its path.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A path of the test.
    pub(crate) fn path(&self, name: &str) -> String {
        self.directory
            .path()
            .join(name)
            .to_str()
            .unwrap()
            .to_owned()
    }

    /// Makes a key; files with its secret and its public part.
    pub(crate) fn key(&self, name: &str) -> (String, String) {
        let mut key = SecretKeyParamsBuilder::default();
        key.key_type(KeyType::Rsa(2048))
            .can_certify(true)
            .can_sign(true)
            .primary_user_id(format!("{name} of a test"));
        let key = key.build().unwrap().generate(OsRng).unwrap();
        let secret = key.to_armored_bytes(ArmorOptions::default()).unwrap();
        let public = key
            .to_public_key()
            .to_armored_bytes(ArmorOptions::default())
            .unwrap();
        (
            self.file(&format!("{name}-secret.asc"), secret),
            self.file(&format!("{name}.asc"), public),
        )
    }
}

/// Runs a program to its end.
pub(crate) fn run_to_end(command: &mut Command, directory: &Path) -> CommandOutput {
    let command = command
        .current_dir(directory)
        .stdin(Stdio::null())
        .env_remove("REGISTRY_AUTH_FILE")
        .env_remove("XDG_RUNTIME_DIR")
        .env("HOME", directory);
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    CommandOutput {
        code: status.code().unwrap(),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

/// A layer of files.
pub(crate) fn layer(files: &[(&str, &str)]) -> NewLayer {
    let mut tree = Tree::new();
    for (path, text) in files {
        tree.put(path, 0o644, EntryContent::Bytes(text.as_bytes().to_vec()))
            .unwrap();
    }
    tree.layer(Timestamp::UNIX_EPOCH).unwrap()
}

/// An image with these labels and layers.
pub(crate) fn image(labels: &[(&str, &str)], layers: Vec<NewLayer>) -> Built {
    let mut draft = Draft::new(Platform::of_this_machine(), MADE.parse().unwrap());
    for layer in layers {
        draft.push(layer, "toy");
    }
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    draft.labels = labels.collect();
    draft.build().unwrap()
}

/// An operator's image, with these files in `/manifests`.
pub(crate) fn operator(files: &BTreeMap<&str, String>) -> Built {
    let paths: Vec<String> = files
        .keys()
        .map(|file| format!("manifests/{file}"))
        .collect();
    let texts = paths
        .iter()
        .map(String::as_str)
        .zip(files.values().map(String::as_str));
    let files: Vec<(&str, &str)> = texts.collect();
    let program = layer(&[("usr/bin/operator", "a program")]);
    image(&[(OPERATOR_LABEL, "true")], vec![program, layer(&files)])
}

/// Files of the toy operator: it names itself and an operating system.
pub(crate) fn manifests() -> BTreeMap<&'static str, String> {
    let references = "kind: ImageStream\napiVersion: image.openshift.io/v1\nspec:\n  tags:\n  - name: toy\n    from: {kind: DockerImage, \
                      name: example/toy}\n  - name: os\n    from: {kind: DockerImage, name: 'example/os:v1'}\n";
    let namespace =
        format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: toy\n  {FOR_CLUSTERS}\n");
    let deployment = format!(
        "# Kept as it is.\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: toy\n  namespace: toy\n  {FOR_CLUSTERS}\nspec:\n  template:\n    \
         spec:\n      containers:\n      - name: toy\n        image: example/toy\n        args: [\"--os=example/os:v1\"]\n        env:\n        \
         - {{name: RELEASE_VERSION, value: \"0.0.1-snapshot\"}}\n        - {{name: OS_VERSION, value: \"0.0.1-snapshot-machine-os\"}}\n"
    );
    BTreeMap::from([
        (REFERENCES_FILE, references.to_owned()),
        ("0000_80_toy_00_namespace.yaml", namespace),
        ("0000_80_toy_01_deployment.yaml", deployment),
    ])
}

/// The toy operating system.
pub(crate) fn os() -> Built {
    let labels = [
        ("io.openshift.build.versions", "machine-os=12.0.1"),
        (
            "io.openshift.build.version-display-names",
            "machine-os=Debian GNU",
        ),
        ("io.openshift.build.commit.id", "0123456789abcdef"),
        (
            "io.openshift.build.source-location",
            "https://example.com/os",
        ),
    ];
    image(&labels, vec![layer(&[("usr/lib/os-release", "ID=toy\n")])])
}
