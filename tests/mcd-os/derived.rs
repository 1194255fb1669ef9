//! Images that a build made of another, as hosts get them.

use std::fs;
use std::path::Path;
use std::process::Command;

use lab::image::Image;
use lab::tree::Overlay;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testbed::config::{Config, File};
use testbed::plan::{self, between_images};

use super::configs;
use super::env::Env;

/// What the base has, and the layers change.
fn base() -> Overlay {
    Overlay::version("base")
        .file("/usr/lib/lab/changed", "base\n", 0o644)
        .file("/usr/lib/lab/removed", "base\n", 0o644)
        .file("/usr/lib/lab/in-place", "base\n", 0o644)
        .file("/usr/lib/lab/opaque/old", "base\n", 0o644)
        .file("/usr/lib/lab/dropped/old", "base\n", 0o644)
        .file("/usr/etc/lab/changed", "base\n", 0o644)
        .file("/usr/etc/lab/removed", "base\n", 0o644)
}

/// A first layer: each kind of change. A build writes into an inode that the base shares with its
/// object, so that the object is in the layer and what it is a link of, too.
const FIRST: &str = "
    mkdir -p sysroot/ostree/repo/objects/00 usr/lib/lab/opaque usr/bin etc/lab var/lib/lab opt/lab
    echo built >sysroot/ostree/repo/objects/00/11.file
    ln sysroot/ostree/repo/objects/00/11.file usr/lib/lab/in-place
    echo built >usr/lib/lab/changed; chmod 0640 usr/lib/lab/changed
    echo built >usr/lib/lab/added; chmod 0600 usr/lib/lab/added; chown 0:4 usr/lib/lab/added; ln usr/lib/lab/added usr/lib/lab/same; ln -s added usr/lib/lab/link
    : >usr/lib/lab/.wh.removed; : >usr/lib/lab/opaque/.wh..wh..opq; echo built >usr/lib/lab/opaque/new
    cp /bin/true usr/bin/lab-built; chmod 0755 usr/bin/lab-built
    setcap cap_net_raw+ep usr/bin/lab-built
    echo built >etc/lab/changed; echo built >etc/lab/added; : >etc/lab/.wh.removed
    echo built >var/lib/lab/file; echo built >opt/lab/file
    tar --xattrs --xattrs-include='security.capability' --numeric-owner --sort=name -cf \"$1\" sysroot usr etc var opt";

/// A second layer, over the first.
const SECOND: &str = "
    mkdir -p usr/lib/lab; : >usr/lib/lab/.wh.dropped; echo again >usr/lib/lab/added
    tar --numeric-owner -cf \"$1\" usr";

/// What is left of all of it on a host. A build breaks a hard link of an earlier layer.
const CHANGED: &str = "
    cd /usr/lib/lab && stat -c '%n %a %u:%g' changed same && cat changed added same link in-place opaque/new
    ls /usr/lib/lab /usr/lib/lab/opaque
    cd /etc/lab && cat changed added && ls
    test ! -e /opt/lab";

const EXPECTED: &str = "changed 640 0:0
same 600 0:4
built
again
built
again
built
built
/usr/lib/lab:
added
changed
in-place
link
opaque
same

/usr/lib/lab/opaque:
new
built
built
added
changed";

#[expect(clippy::disallowed_methods, reason = "tools of the test's own")]
fn shell(script: &str, directory: &Path, argument: &Path) {
    let run = Command::new("sh")
        .args(["-euc", script, "sh"])
        .arg(argument)
        .current_dir(directory)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{script}: {errors}");
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// The form in which a layer is pushed, and the program that packs it so.
#[derive(Debug, Clone, Copy)]
enum Packed {
    Gzip,
    Zstd,
}

/// An OCI layout, of which an image is derived in place.
struct Layout {
    directory: tempfile::TempDir,
    manifest: Value,
    config: Value,
}

impl Layout {
    fn of(image: &Image) -> Self {
        let directory = tempfile::tempdir().unwrap();
        shell("cp -r \"$1\"/. .", directory.path(), &image.layout);
        let read = |path: &str| -> Value {
            serde_json::from_slice(&fs::read(directory.path().join(path)).unwrap()).unwrap()
        };
        let blob = |digest: &Value| {
            read(&format!(
                "blobs/{}",
                digest.as_str().unwrap().replace(':', "/")
            ))
        };
        let manifest = blob(&read("index.json")["manifests"][0]["digest"]);
        let config = blob(&manifest["config"]["digest"]);
        Self {
            directory,
            manifest,
            config,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
    fn put(&self, bytes: &[u8]) -> Value {
        let digest = digest(bytes);
        let blobs = self.directory.path().join("blobs/sha256");
        fs::write(blobs.join(&digest["sha256:".len()..]), bytes).unwrap();
        json!({ "digest": digest, "size": bytes.len() })
    }

    /// Adds what a script makes of an empty directory.
    fn layer(&mut self, script: &str, packed: Packed) {
        let made = tempfile::tempdir().unwrap();
        let tree = made.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let tar = made.path().join("layer.tar");
        shell(script, &tree, &tar);
        let diff_id = digest(&fs::read(&tar).unwrap());
        let (script, form) = match packed {
            Packed::Gzip => ("gzip --no-name --stdout layer.tar >\"$1\"", "tar+gzip"),
            Packed::Zstd => ("zstd --quiet --stdout layer.tar >\"$1\"", "tar+zstd"),
        };
        let file = made.path().join("packed");
        shell(script, made.path(), &file);
        let mut layer = self.put(&fs::read(&file).unwrap());
        layer["mediaType"] = json!(format!("application/vnd.oci.image.layer.v1.{form}"));
        let push = |list: &mut Value, item: Value| list.as_array_mut().unwrap().push(item);
        push(&mut self.manifest["layers"], layer);
        push(&mut self.config["rootfs"]["diff_ids"], json!(diff_id));
        if !self.config["history"].is_null() {
            push(
                &mut self.config["history"],
                json!({ "created_by": "build" }),
            );
        }
    }

    /// Pushes the image, which says that `worker-1` built it; its pull spec.
    #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
    fn push(mut self, env: &Env, name: &str) -> String {
        self.config["config"]["Labels"]["slipway.dev/os-build"] = json!("worker-1");
        let config = self.put(self.config.to_string().as_bytes());
        for key in ["digest", "size"] {
            self.manifest["config"][key] = config[key].clone();
        }
        let mut manifest = self.put(self.manifest.to_string().as_bytes());
        manifest["mediaType"] = json!("application/vnd.oci.image.manifest.v1+json");
        let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
        let path = self.directory.path();
        fs::write(path.join("index.json"), index.to_string()).unwrap();
        env.host_lab.registry.push_layout(path, name).unwrap()
    }
}

#[test]
#[ignore = "needs the lab"]
fn image_that_a_build_derived_is_deployed_with_all_that_the_build_changed() {
    let env = Env::new().unwrap();
    let commit = env.host_lab.tree.commit(&base()).unwrap();
    let released = env.host_lab.push(&commit).unwrap();
    let mut layout = Layout::of(&Image::native(&commit).unwrap());
    layout.layer(FIRST, Packed::Gzip);
    layout.layer(SECOND, Packed::Zstd);
    let built = layout.push(&env, "built:1");

    let ran = env.expect(0, &["fetch", &built]).unwrap();
    assert_eq!(ran.report["version"], "base");
    let said = ran
        .stderr
        .lines()
        .find(|line| line.contains("do not reach"));
    let said = said.unwrap_or_else(|| panic!("{}", ran.stderr));
    assert!(said.contains("/opt") && said.contains("/var"), "{said}");
    let checksum = ran.report["checksum"].as_str().unwrap();
    let list = "ostree ls --repo=/ostree/repo -X $0 /usr/bin/lab-built";
    let listed = env.host.run(["sh", "-c", list, checksum]).unwrap();
    assert!(listed.contains("security.capability"), "{listed}");

    // Into image mode, by a configuration with a file that the image brings.
    let none = configs::none().unwrap();
    let brought = |content: &str| File::new("/usr/lib/lab/changed", content).mode(0o640);
    let config = |name: &str, file: File| {
        let own = File::new("/etc/managed/own", "own");
        Config::new()
            .os(&released)
            .files([own, file])
            .rendered(name)
    };
    let policies = plan::policies(&[], &[]);
    let into = |attempt: &str, content: &str| {
        let to = config("rendered-built", brought(content)).unwrap();
        between_images(attempt, (&none, None), (&to, Some(&built)), &policies).unwrap()
    };
    // One that it does not bring is found while the node works.
    let other = env.put(&into("a1", "other\n")).unwrap();
    let reasons = env.expect(3, &["rehearse", &other]).unwrap().reasons();
    let expected = format!(
        "{built} is not built for the configuration: content mismatch for file \"/usr/lib/lab/changed\""
    );
    assert!(reasons.starts_with(&expected), "{reasons}");

    env.switch(&into("a2", "built\n")).unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    let booted = &env.view().unwrap()["booted"];
    assert_eq!(booted["config"], "rendered-built");
    assert_eq!(
        (&booted["image"], &booted["os_image"]),
        (&json!(built), &json!(built))
    );
    let found = env.host.run(["sh", "-euc", CHANGED]).unwrap();
    assert_eq!(found, EXPECTED);
    env.expect(0, &["verify"]).unwrap();

    // Out of it: the OS that the configuration names.
    let old = config("rendered-built", brought("built\n")).unwrap();
    let plain = Config::new()
        .os(&released)
        .rendered("rendered-plain")
        .unwrap();
    let back = between_images("a3", (&old, Some(&built)), (&plain, None), &policies).unwrap();
    env.switch(&back).unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    let booted = &env.view().unwrap()["booted"];
    assert_eq!(
        (&booted["image"], &booted["os_image"]),
        (&Value::Null, &json!(released))
    );
    let found = env
        .host
        .run(["cat", "/usr/lib/lab/changed", "/etc/lab/changed"]);
    assert_eq!(found.unwrap(), "base\nbase");
}

/// A build on an image that has no layers of ostree changes nothing that boots.
#[test]
#[ignore = "needs the lab"]
fn image_that_is_derived_of_another_form_is_refused_by_name() {
    let env = Env::new().unwrap();
    let commit = env.host_lab.tree.commit(&base()).unwrap();
    let forms = [
        Image::with_repository(&commit).unwrap(),
        Image::rootfs(&commit).unwrap(),
    ];
    for (number, form) in forms.iter().enumerate() {
        let mut layout = Layout::of(form);
        layout.layer(SECOND, Packed::Gzip);
        let built = layout.push(&env, &format!("other:{number}"));
        let reasons = env.expect(3, &["fetch", &built]).unwrap().reasons();
        assert!(reasons.contains("MachineOSBuild worker-1"), "{reasons}");
        assert!(reasons.contains("no native container image"), "{reasons}");
    }
}
