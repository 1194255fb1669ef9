//! The packages of two releases' operating systems, compared.

use std::collections::BTreeMap;
use std::process::Command;

use images::image::Platform;
use release::{ImageDigest, REFERENCES_FILE};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::scene::{CommandOutput, Scene, manifests, operator, run_to_end};

/// Where ostree keeps a file of which the others are names.
const OBJECT: &str = "sysroot/ostree/repo/objects/ab/cd.file";

const STATUS: &str = "usr/lib/sysimage/dpkg/status";

/// A layer, not compressed: each path with its text, or with `=>` and the target of a hard link.
fn layer(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for (path, text) in entries {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        if let Some(target) = text.strip_prefix("=>") {
            header.set_entry_type(EntryType::Link);
            header.set_size(0);
            archive.append_link(&mut header, path, target).unwrap();
        } else {
            header.set_size(text.len() as u64);
            archive
                .append_data(&mut header, path, text.as_bytes())
                .unwrap();
        }
    }
    archive.into_inner().unwrap()
}

fn status(packages: &[(&str, &str)]) -> String {
    let paragraph = |(name, version): &(&str, &str)| {
        let state = "install ok installed";
        format!("Package: {name}\nStatus: {state}\nArchitecture: amd64\nVersion: {version}\n\n")
    };
    packages.iter().map(paragraph).collect()
}

/// Puts an OS image of these layers into the registry by skopeo, from a layout directory that this
/// test writes.
fn push_os(scene: &Scene, name: &str, layers: &[Vec<u8>]) {
    let folder = format!("os-{}", name.replace(':', "-"));
    let blob = |bytes: &[u8], kind: &str| -> Value {
        let digest = ImageDigest::of(bytes).to_string();
        scene.file(
            &format!("{folder}/blobs/{}", digest.replace(':', "/")),
            bytes,
        );
        let media_type = format!("application/vnd.oci.image.{kind}");
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    };
    let digests = layers
        .iter()
        .map(|layer| ImageDigest::of(layer).to_string());
    let configuration = json!({
        "os": "linux", "architecture": Platform::of_this_machine().architecture,
        "config": { "Labels": { "io.openshift.build.versions": "machine-os=12.0.1" } },
        "rootfs": { "type": "layers", "diff_ids": digests.collect::<Vec<_>>() },
    });
    let layers = layers.iter().map(|bytes| blob(bytes, "layer.v1.tar"));
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(configuration.to_string().as_bytes(), "config.v1+json"),
        "layers": layers.collect::<Vec<_>>(),
    });
    let manifest = blob(manifest.to_string().as_bytes(), "manifest.v1+json");
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    scene.file(&format!("{folder}/index.json"), index.to_string());
    scene.file(
        &format!("{folder}/oci-layout"),
        "{\"imageLayoutVersion\": \"1.0.0\"}",
    );
    let mut skopeo = Command::new("skopeo");
    skopeo.args([
        "copy",
        "--quiet",
        "--insecure-policy",
        "--dest-tls-verify=false",
    ]);
    skopeo.arg(format!("oci:{}", scene.path(&folder)));
    skopeo.arg(format!("docker://{}", scene.at(name)));
    let copied = run_to_end(&mut skopeo, scene.directory.path());
    assert_eq!(copied.code, 0, "{copied:?}");
}

/// Two releases with one operator, and operating systems of a shared and an own layer.
fn two_releases(scene: &Scene) {
    let old = status(&[
        ("bash", "5.2.15-2"),
        ("systemd", "252.30-1"),
        ("vim", "2:9.0-1"),
    ]);
    let link = format!("=>{OBJECT}");
    let base = layer(&[
        (OBJECT, &old),
        (STATUS, &link),
        ("usr/lib/modules/6.1.0-27-amd64/vmlinuz", "a kernel"),
        ("usr/lib/os-release", "ID=toy\nVERSION_ID=1\n"),
    ]);
    let new = status(&[
        ("bash", "5.2.15-10"),
        ("libostree-1-1", "2022.7-2"),
        ("systemd", "252.30-1"),
    ]);
    let upper = layer(&[
        ("usr/lib/sysimage/dpkg/.wh.status", ""),
        (OBJECT, &new),
        (STATUS, &link),
        ("usr/lib/modules/.wh.6.1.0-27-amd64", ""),
        ("usr/lib/modules/6.1.0-28-amd64/vmlinuz", "a kernel"),
    ]);
    push_os(scene, "os:v1", std::slice::from_ref(&base));
    push_os(scene, "os:v2", &[base, upper]);
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: machine-config-osimageurl\n  namespace: toy\n  \
               annotations: {include.release.openshift.io/self-managed-high-availability: 'true'}\ndata:\n  \
               baseOSContainerImage: example/os:v1\n";
    let mut files: BTreeMap<&str, String> = manifests();
    assert!(files.contains_key(REFERENCES_FILE));
    files.insert("0000_80_toy_02_os.yaml", map.to_owned());
    scene.push("toy:v1", &operator(&files));
    for (version, previous) in [("1.0.0", None), ("1.0.1", Some("--previous=1.0.0"))] {
        let name = format!("--name={version}");
        let os = if previous.is_some() {
            "os=@os:v2"
        } else {
            "os=@os:v1"
        };
        let to = format!("@release:{version}");
        let words = [
            "release",
            "new",
            "toy=@toy:v1",
            os,
            &name,
            "--to-image",
            &to,
        ];
        scene.done(&words.into_iter().chain(previous).collect::<Vec<_>>());
    }
}

#[test]
#[ignore = "needs root, docker-registry, skopeo"]
fn packages_of_the_operating_systems_are_compared() {
    let scene = Scene::start();
    two_releases(&scene);
    let both = ["release", "info", "@release:1.0.0", "@release:1.0.1"];

    // Without the option the layers are not fetched, and a line names it.
    let plain = scene.done(&both);
    let (known, hint) = plain.split_once("OS Packages: ").unwrap();
    assert_eq!(hint, "--packages compares those of os\n\n");

    let compared = scene.done(&[&both[..], &["--packages"]].concat());
    let expected = "OS os:
  Version:   1
  Kernel:    6.1.0-27-amd64 -> 6.1.0-28-amd64
  libostree: none -> 2022.7-2
  systemd:   252.30-1
  kubelet:   none
  CRI-O:     none
  To fetch:  1 of 2 layers, 0.0 MB
  Packages:  1 upgraded, 1 added, 1 removed, 1 the same
  Upgraded:
    bash 5.2.15-2 5.2.15-10
  Added:
    libostree-1-1 2022.7-2
  Removed:
    vim 2:9.0-1

";
    assert_eq!(compared, format!("{known}{expected}"));
    let words = [&["release", "diff"], &both[2..], &["--packages"]].concat();
    assert_eq!(scene.done(&words), compared);
    // As oc names it.
    let words = [&both[..], &["--rpmdb-diff", "--rpmdb-image=os"]].concat();
    assert_eq!(scene.done(&words), compared);
    let same = scene.done(&["release", "info", both[2], both[2], "--packages"]);
    assert_eq!(same, "Releases are identical\nOS os: the same image\n\n");

    let listed = scene.done(&["release", "info", "@release:1.0.1", "--rpmdb"]);
    assert!(listed.starts_with("Name:      1.0.1\n"), "{listed}");
    let packages = "  Packages:  3 of dpkg
    bash          5.2.15-10 amd64
    libostree-1-1 2022.7-2  amd64
    systemd       252.30-1  amd64

";
    assert!(listed.ends_with(packages), "{listed}");

    // An image without packages is no error; one that is not there is, after what can be shown.
    let none = scene.done(&[
        "release",
        "info",
        both[2],
        "--packages",
        "--packages-of=toy",
    ]);
    assert!(
        none.ends_with("Packages:  the image has no package database\n\n"),
        "{none}"
    );
    let layer = scene.blob_of_manifest("os:v2")["layers"][1]["digest"].clone();
    std::fs::remove_file(scene.blob(layer.as_str().unwrap())).unwrap();
    let CommandOutput { code, out, err } = scene.run(&[&both[..], &["--packages"]].concat());
    assert_eq!((code, out.as_str()), (1, known), "{err}");
    let expected = "error: OS os: its packages are not shown: ";
    assert!(err.starts_with(expected), "{err}");
}
