//! The image that builds images of the OS, run as its Job runs it: in a root of its own, with the
//! lab's registry.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails; it writes the builds' input and runs programs"
)]

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use image_build::containerfile::{Stages, compose};
use image_build::packages::ImagePackages;
use image_builder::component::{COMPONENTS, OS_BUILDER};
use image_builder::{Architecture, Options, PackedParts, Packing, build_component};
use images::content::unpack;
use images::image::Platform;
use images::{Credentials, Image, ImageLocation, Stores};
use lab::Lab;
use lab::image::{EXTENSION, Image as OsImage, KERNEL_TYPE, busybox, extensions, offers};
use lab::registry::Registry;
use lab::tree::Tree;
use serde_json::Value;

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// What no layer and no log may have, in the places where a build has secrets.
const SECRETS: [&str; 3] = [
    "secret-of-the-push",
    "secret-of-the-proxy",
    "secret-of-entitled",
];

/// The name of the build.
const BUILD: &str = "worker-0123";

/// Exit code of an input that no other try mends.
const WRONG_INPUT: i32 = 65;

/// What Kubernetes keeps of the end of a log.
const KEPT_OF_LOG: usize = 2048;

/// Mounts what a container has, and runs the image's program. `$1` is the image's root, `$2` the
/// folder of the build.
const CONTAINER: &str = r#"
mount --make-rprivate /
mount --bind "$1" "$1"
mount --bind "$2" "$1/build"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount -t tmpfs tmpfs "$1/dev"
for device in full null random tty urandom zero; do
    : >"$1/dev/$device"
    mount --bind "/dev/$device" "$1/dev/$device"
done
: >"$1/dev/termination-log"
mount --bind "$2/termination-log" "$1/dev/termination-log"
exec chroot "$1" /usr/bin/build-os-image
"#;

/// The image's root, and a registry with images to build from.
struct Bench {
    registry: Registry,
    root: PathBuf,
    dir: tempfile::TempDir,
    _lab: Lab,
}

/// How a build ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    log: String,
    /// What it left for the kubelet.
    termination: String,
    /// Where it was pushed to.
    image: String,
}

impl Bench {
    fn new() -> Self {
        let lab = Lab::create().unwrap();
        let registry = Registry::start(&lab).unwrap();
        let dir = tempfile::tempdir_in(lab.dir()).unwrap();
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        extract(&dir.path().join("images"), &root);
        for mount_point in ["build", "dev", "proc", "sys"] {
            fs::create_dir_all(root.join(mount_point)).unwrap();
        }
        Self {
            registry,
            root,
            dir,
            _lab: lab,
        }
    }

    /// A small image to build from: its pull spec.
    fn base(&self) -> String {
        let layout = busybox().unwrap();
        self.registry.push_layout(&layout, "base:1").unwrap()
    }

    /// The address of the registry, without its port.
    fn registry_address(&self) -> String {
        let location = self.registry.location();
        location.split(':').next().unwrap().to_owned()
    }

    /// Runs a build of this Containerfile, pushed to the registry at `to`.
    fn build(&self, name: &str, containerfile: &str, to: &str) -> Ended {
        self.build_from(name, "the base", containerfile, &[], to)
    }

    /// The same from this base image, with inputs besides: `packages`, and files of the context.
    fn build_from(
        &self,
        name: &str,
        base: &str,
        containerfile: &str,
        inputs: &[(&str, &str)],
        to: &str,
    ) -> Ended {
        let build = self.dir.path().join(name);
        self.prepare(&build, containerfile, inputs);
        let image = format!("{to}/built/{name}:{BUILD}");
        let proxy = format!("http://user:{}@127.0.0.1:9", SECRETS[1]);
        let mut command = Command::new("unshare");
        command
            .args([
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "sh",
                "-eu",
                "-c",
                CONTAINER,
            ])
            .arg("sh")
            .args([&self.root, &build])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("IMAGE", &image)
            .env("BUILD", BUILD)
            .env("BASE_IMAGE", base)
            .env("HTTP_PROXY", proxy)
            .env("NO_PROXY", self.registry_address());
        let output = command.stdin(Stdio::null()).output().unwrap();
        let log = [output.stdout, output.stderr].concat();
        Ended {
            code: output.status.code(),
            log: String::from_utf8(log).unwrap(),
            termination: fs::read_to_string(build.join("termination-log")).unwrap(),
            image,
        }
    }

    /// The folder of a build, as the Job mounts it.
    fn prepare(&self, build: &Path, containerfile: &str, inputs: &[(&str, &str)]) {
        let put = |path: &str, text: &str| {
            let path = build.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let locations = [self.registry.location(), self.registry.closed_location()];
        let insecure = locations
            .each_ref()
            .map(|it| format!("[[registry]]\nlocation = '{it}'\ninsecure = true\n"));
        put("input/Containerfile", containerfile);
        put("input/registries.conf", &insecure.concat());
        put("pull-auth/config.json", "{\"auths\":{}}");
        let login = format!(
            "{{\"auths\":{{\"{}\":{{\"username\":\"user\",\"password\":\"{}\"}}}}}}",
            locations[0], SECRETS[0]
        );
        put("push-auth/config.json", &login);
        put("entitlement/..data/key.pem", SECRETS[2]);
        std::os::unix::fs::symlink("..data/key.pem", build.join("entitlement/key.pem")).unwrap();
        put("yum.repos.d/site.repo", "[site]\n");
        put("files/usr/lib/site/setting", "built in\n");
        for (name, text) in inputs {
            if *name == "packages" {
                put("input/packages", text);
                continue;
            }
            let path = format!("files/{name}");
            put(&path, text);
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(build.join(path), mode).unwrap();
        }
        fs::create_dir(build.join("rpm-gpg")).unwrap();
        fs::create_dir(build.join("work")).unwrap();
        put("termination-log", "");
        run(Command::new("tar")
            .args(["--owner=0", "--group=0", "-czf"])
            .arg(build.join("input/context.tar.gz"))
            .arg("-C")
            .arg(build)
            .arg("files"));
    }

    fn blob(&self, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap();
        let bytes = fs::read(self.registry.blob(digest).unwrap()).unwrap();
        if !bytes.starts_with(b"\x1f\x8b") {
            return bytes;
        }
        let file = self.registry.blob(digest).unwrap();
        let output = Command::new("gzip").arg("-dc").arg(file).output().unwrap();
        assert!(output.status.success());
        output.stdout
    }
}

/// The manifest of an image.
fn manifest(image: &str) -> Value {
    let inspect = ["inspect", "--raw", "--tls-verify=false"];
    let image = format!("docker://{image}");
    let raw = run(Command::new("skopeo").args(inspect).arg(image));
    serde_json::from_str(&raw).unwrap()
}

fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes the image and writes all its files.
fn extract(layout: &Path, root: &Path) {
    let component = COMPONENTS.iter().find(|it| it.name == OS_BUILDER).unwrap();
    let options = Options {
        checkout: CHECKOUT.into(),
        architecture: Architecture::Amd64,
        // It has no program of ours.
        programs: PathBuf::new(),
        packages: lab::cache::dir().join("debian"),
        out: layout.to_owned(),
        version: None,
        packing: Packing::Fast,
        parts: PackedParts::default(),
    };
    let location: ImageLocation = format!("oci:{}:{OS_BUILDER}", layout.display())
        .parse()
        .unwrap();
    let stores = Stores::new(Credentials::default(), false);
    let made = async {
        build_component(&options, component, None).await.unwrap();
        let image = Image::open(&stores, &location, &Platform::of_this_machine()).await?;
        unpack(&stores, &image, "/", root).await
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let unpacked = runtime.block_on(made).unwrap();
    assert_eq!(unpacked.left_out, Vec::<String>::new());
}

/// What the controller writes before people's own instructions.
fn stages(base: &str, own: &str) -> String {
    format!("FROM {base} AS configs\nLABEL slipway.dev/os-build={BUILD}\nCOPY files/ /\n{own}")
}

/// Paths of a layer's files.
fn paths(layer: &[u8]) -> Vec<String> {
    let mut archive = tar::Archive::new(layer);
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[test]
#[ignore = "needs root and the lab"]
fn a_built_image_is_pushed_and_has_no_secret() {
    let bench = Bench::new();
    let own = "FROM configs AS final\n\
        RUN cat /usr/lib/site/setting /etc/yum.repos.d/site.repo && rm /bin/vi && \
        test -s /etc/pki/entitlement/key.pem && test ! -e /etc/pki/rpm-gpg && test -n \"$HTTP_PROXY\"\n";
    let base = bench.base();
    let ended = bench.build("pushed", &stages(&base, own), &bench.registry.location());
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(ended.log.contains("built in\n[site]\n"), "{}", ended.log);

    let inspect = ["inspect", "--tls-verify=false", "--format={{.Digest}}"];
    let image = format!("docker://{}", ended.image);
    let digest = run(Command::new("skopeo").args(inspect).arg(image));
    assert_eq!(ended.termination, digest.trim_end());

    let found = manifest(&ended.image);
    let layers = found["layers"].as_array().unwrap();
    let layers: Vec<_> = layers.iter().map(|layer| bench.blob(layer)).collect();
    let mut whole = vec![bench.blob(&found["config"]), ended.log.into()];
    whole.extend(layers.iter().cloned());
    for secret in SECRETS {
        let has_it = |text: &Vec<u8>| text.windows(secret.len()).any(|it| it == secret.as_bytes());
        assert!(
            !whole.iter().any(has_it),
            "{secret} is in the image or in the log"
        );
    }
    let all: Vec<_> = layers.iter().skip(1).flat_map(|it| paths(it)).collect();
    let has = |path: &str| all.iter().any(|it| it == path);
    assert!(has("bin/.wh.vi") && has("usr/lib/site/setting"), "{all:?}");
    // What RUN saw there was the build's own, and no system's.
    let last = paths(layers.last().unwrap());
    assert!(
        last.iter().any(|it| it == "etc/.wh.resolv.conf"),
        "{last:?}"
    );
}

#[test]
#[ignore = "needs root and the lab"]
fn layers_of_the_base_stay_as_they_are() {
    let bench = Bench::new();
    let base = OsImage::native(Tree::ready().unwrap().base()).unwrap();
    let base = bench.registry.push(&base, "os:v1").unwrap();
    let own = "RUN rm /usr/bin/gzip && ln -s site /usr/lib/site-link\n";
    let ended = bench.build("os", &stages(&base, own), &bench.registry.location());
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let digests = |image: &str| -> Vec<String> {
        let found = manifest(image);
        let layers = found["layers"].as_array().unwrap().clone();
        let digest = |layer: &Value| layer["digest"].as_str().unwrap().to_owned();
        layers.iter().map(digest).collect()
    };
    let (was, is) = (digests(&base), digests(&ended.image));
    assert!(is.len() > was.len(), "{is:?}");
    assert_eq!(is[..was.len()], was);
}

#[test]
#[ignore = "needs root and the lab"]
fn an_image_to_which_nothing_is_written_is_its_first_stage() {
    let bench = Bench::new();
    let own = "FROM configs AS final\n";
    let containerfile = stages(&bench.base(), own);
    let ended = bench.build("nothing", &containerfile, &bench.registry.location());
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let found = manifest(&ended.image);
    let layers = found["layers"].as_array().unwrap();
    let all: Vec<_> = layers
        .iter()
        .flat_map(|layer| paths(&bench.blob(layer)))
        .collect();
    assert!(all.contains(&"usr/lib/site/setting".to_owned()), "{all:?}");
}

#[test]
#[ignore = "needs root and the lab"]
fn a_failing_step_is_named_with_its_last_lines() {
    let bench = Bench::new();
    let noise = "seq 1 400";
    let own = format!("RUN {noise} && echo 'no such package: tree' >&2 && exit 7\n");
    let ended = bench.build(
        "failing",
        &stages(&bench.base(), &own),
        &bench.registry.location(),
    );
    assert!(
        ended
            .code
            .is_some_and(|code| code != 0 && code != WRONG_INPUT),
        "{ended:?}"
    );
    assert_eq!(ended.termination, "");
    let kept = &ended.log[ended.log.len().saturating_sub(KEPT_OF_LOG)..];
    let summary = kept.split_once("its last lines:\n").unwrap().1;
    assert!(
        summary.contains("399\n400\nno such package: tree\n"),
        "{summary}"
    );
    let last = summary.lines().last().unwrap();
    assert!(
        last.starts_with("build-os-image: the build failed with 7 in step "),
        "{last}"
    );
    assert!(last.contains("RUN seq 1 400"), "{last}");
}

#[test]
#[ignore = "needs root and the lab"]
fn what_no_other_try_mends_is_distinguished() {
    let bench = Bench::new();
    let base = bench.base();
    let location = bench.registry.location();
    let foreign = format!("FROM {base}\nRUN true\n");
    for (name, containerfile, words) in [
        (
            "foreign",
            stages(&base, &foreign),
            "does not come from the stage configs",
        ),
        ("unknown", stages(&base, "INSTALL tree\n"), "INSTALL"),
        ("argument", stages(&base, "COPY files\n"), "COPY"),
        (
            "empty",
            String::new(),
            "/build/input/Containerfile is missing or empty",
        ),
    ] {
        let ended = bench.build(name, &containerfile, &location);
        assert_eq!(ended.code, Some(WRONG_INPUT), "{name}: {}", ended.log);
        assert_eq!(ended.termination, "", "{name}");
        let last = ended.log.lines().last().unwrap_or_default();
        assert!(last.contains(words), "{name}: {last}");
    }
    // What refuses or lacks something today may have it tomorrow.
    let closed = bench.registry.closed_location();
    let absent = format!("FROM {location}/absent:1 AS configs\n");
    for (name, containerfile, to) in [
        ("refused", stages(&base, ""), &closed),
        ("absent", absent, &location),
    ] {
        let ended = bench.build(name, &containerfile, to);
        assert!(
            ended
                .code
                .is_some_and(|code| code != 0 && code != WRONG_INPUT),
            "{ended:?}"
        );
        assert_eq!(ended.termination, "", "{name}");
    }
}

#[test]
#[ignore = "needs root and the lab"]
fn what_is_not_there_is_named() {
    let bench = Bench::new();
    for missing in [
        "input/Containerfile",
        "pull-auth/config.json",
        "push-auth/config.json",
    ] {
        let build = bench.dir.path().join(missing.replace('/', "-"));
        bench.prepare(&build, "FROM scratch\n", &[]);
        fs::remove_file(build.join(missing)).unwrap();
        let mut command = Command::new("unshare");
        command
            .args([
                "--mount", "--pid", "--fork", "sh", "-eu", "-c", CONTAINER, "sh",
            ])
            .args([&bench.root, &build])
            .envs([
                ("IMAGE", "registry.example/os:1"),
                ("BUILD", BUILD),
                ("BASE_IMAGE", "base"),
            ]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut log = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(WRONG_INPUT), "{log}");
        assert!(
            log.contains(&format!("/build/{missing} is missing or empty")),
            "{log}"
        );
    }
}

/// The OS of the lab with labels that offer the packages of its extensions image; both pull specs.
fn offered(bench: &Bench) -> (String, String) {
    let tree = Tree::ready().unwrap();
    let base = OsImage::native_with_labels(tree.base(), &offers(&tree)).unwrap();
    let base = bench.registry.push(&base, "os:offers").unwrap();
    let extensions = extensions(&tree).unwrap();
    let extensions = bench.registry.push_layout(&extensions, "extensions:1");
    (base, extensions.unwrap())
}

/// What the controller writes where packages are requested.
fn stages_of_packages(base: &str, extensions: &str, own: &str) -> String {
    let packages = ImagePackages {
        repository: extensions.to_owned(),
        extensions: [].into(),
        kernel_type: None,
    };
    compose(&Stages {
        base_image: base,
        packages: Some(&packages),
        build: BUILD,
        files: &[],
        written: own,
    })
}

#[test]
#[ignore = "needs root and the lab"]
fn packages_of_extensions_and_a_kernel_are_installed() {
    let bench = Bench::new();
    let (base, extensions) = offered(&bench);
    let request = format!("kernel-type {}\nextension {}\n", KERNEL_TYPE.0, EXTENSION.0);
    let own = format!(
        "FROM configs AS final\nRUN cat {} && ls -s /usr/lib/modules/* && ls /boot && dpkg-query --show usbguard\n",
        EXTENSION.1
    );
    let containerfile = stages_of_packages(&base, &extensions, &own);
    let inputs = [("packages", request.as_str())];
    let location = bench.registry.location();
    let ended = bench.build_from("packages", &base, &containerfile, &inputs, &location);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    for words in ["allow\n", "usbguard\t1.0\n"] {
        assert!(ended.log.contains(words), "{words}: {}", ended.log);
    }

    let found = manifest(&ended.image);
    let layers = found["layers"].as_array().unwrap();
    let base_layers = manifest(&base)["layers"].as_array().unwrap().len();
    let added: Vec<_> = layers.iter().skip(base_layers).collect();
    let all: Vec<_> = added
        .iter()
        .flat_map(|layer| paths(&bench.blob(layer)))
        .collect();
    let tree = Tree::ready().unwrap();
    let kernel = format!("usr/lib/modules/{}{}", tree.kernel(), KERNEL_TYPE.1);
    for path in [
        format!("{kernel}/vmlinuz"),
        format!("{kernel}/initramfs.img"),
        format!("usr/lib/modules/.wh.{}", tree.kernel()),
        "usr/lib/sysimage/dpkg/status".to_owned(),
        "usr/lib/usbguard/library".to_owned(),
    ] {
        assert!(all.contains(&path), "{path}: {all:?}");
    }
    let is_left = |path: &&String| {
        path.starts_with("boot/") || path.contains("slipway") || path.starts_with("tmp/")
    };
    let left: Vec<_> = all.iter().filter(is_left).collect();
    assert!(left.iter().all(|path| path.ends_with('/')), "{left:?}");
}

#[test]
#[ignore = "needs root and the lab"]
fn packages_that_are_not_offered_are_named() {
    let bench = Bench::new();
    let (base, extensions) = offered(&bench);
    let plain = bench.base();
    let labelled = |key: &str, value: &str| {
        let labels = [(key.to_owned(), value.to_owned())].into();
        let image = OsImage::native_with_labels(Tree::ready().unwrap().base(), &labels).unwrap();
        let name = key.replace(['/', '.'], "-");
        bench.registry.push(&image, &format!("{name}:1")).unwrap()
    };
    let absent = labelled("slipway.dev/extension.absent", "absent");
    let bad = labelled("slipway.dev/extension.bad", "--root=/ bad");
    let no_kernel = labelled("slipway.dev/kernel-type.same", "usbguard");
    let location = bench.registry.location();
    let table = [
        (
            "unknown",
            &base,
            &extensions,
            "extension vim\nextension usbguard\nextension emacs\n",
            format!(
                "MachineConfig spec.extensions: invalid extensions found: [vim emacs]: {base} offers [usbguard]"
            ),
        ),
        (
            "kernel",
            &base,
            &extensions,
            "kernel-type fast\n",
            format!(
                "MachineConfig spec.kernelType: kernelType=fast is invalid: {base} offers [realtime]"
            ),
        ),
        (
            "no-labels",
            &plain,
            &extensions,
            "extension usbguard\n",
            format!("invalid extensions found: [usbguard]: {plain} offers []"),
        ),
        (
            "injected",
            &base,
            &extensions,
            "extension a\"}}b\n",
            "has the line".to_owned(),
        ),
        (
            "bad-label",
            &bad,
            &extensions,
            "extension bad\n",
            "has \"--root=/\", which is no package".to_owned(),
        ),
        (
            "absent",
            &absent,
            &extensions,
            "extension absent\n",
            "the build failed with 65 in step ".to_owned(),
        ),
        (
            "no-repository",
            &base,
            &plain,
            "extension usbguard\n",
            "the build failed with 65 in step ".to_owned(),
        ),
        (
            "no-kernel",
            &no_kernel,
            &extensions,
            "kernel-type same\n",
            "the build failed with 65 in step ".to_owned(),
        ),
    ];
    for (name, base, extensions, request, words) in table {
        let containerfile = stages_of_packages(base, extensions, "");
        let inputs = [("packages", request)];
        let ended = bench.build_from(name, base, &containerfile, &inputs, &location);
        assert_eq!(ended.code, Some(WRONG_INPUT), "{name}: {}", ended.log);
        let last = ended.log.lines().last().unwrap_or_default();
        assert!(last.contains(&words), "{name}: {last}");
        assert_eq!(ended.termination, "", "{name}");
        let why = match name {
            "absent" => "install-packages: apt-get cannot install (absent)",
            "no-repository" => {
                "install-packages: the extensions image has no repository for apt-get"
            }
            "no-kernel" => "install-packages: the packages of kernel type same bring 0 kernels",
            _ => continue,
        };
        assert!(ended.log.contains(why), "{name}: {}", ended.log);
    }
}

/// A package manager of other systems, which writes down what it is called with and the repository
/// that it sees.
const OTHER_MANAGER: &str = r#"#!/bin/sh
echo "called ${0##*/} $*"
for word; do case $word in --setopt=reposdir=*) cat "${word#--setopt=reposdir=}"/*.repo ;; esac; done
[ "${0##*/}" != rpm-ostree ] || cat /etc/yum.repos.d/*.repo
"#;

#[test]
#[ignore = "needs root and the lab"]
fn other_package_managers_are_called_as_they_want_it() {
    let bench = Bench::new();
    // The shell of the small image has programs of its own under these names.
    let plain = OsImage::native(Tree::ready().unwrap().base()).unwrap();
    let plain = bench.registry.push(&plain, "os:v1").unwrap();
    let location = bench.registry.location();
    for (manager, calls) in [
        (
            "rpm-ostree",
            ["called rpm-ostree override remove kernel --install kernel-rt --install usbguard"],
        ),
        (
            "dnf",
            ["called dnf --assumeyes --setopt=reposdir=/tmp/slipway-packages"],
        ),
    ] {
        // An OS with this manager, and the labels that offer packages.
        let os = format!(
            "FROM {plain} AS configs\nLABEL slipway.dev/os-build={BUILD} slipway.dev/extension.usbguard=usbguard slipway.dev/extension.kernel=\"-kernel kernel-rt\"\nCOPY files/manager /usr/bin/{manager}\nCOPY files/manager /usr/bin/rpm\n"
        );
        let name = format!("os-{manager}");
        let made = bench.build_from(&name, &plain, &os, &[("manager", OTHER_MANAGER)], &location);
        assert_eq!(made.code, Some(0), "{}", made.log);
        let repository = format!(
            "FROM {plain} AS configs\nLABEL slipway.dev/os-build={BUILD}\nRUN mkdir -p /usr/share/rpm-ostree/extensions/repodata && echo >/usr/share/rpm-ostree/extensions/repodata/repomd.xml\n"
        );
        let extensions = bench.build(&format!("rpms-{manager}"), &repository, &location);
        assert_eq!(extensions.code, Some(0), "{}", extensions.log);
        let containerfile = stages_of_packages(&made.image, &extensions.image, "");
        let inputs = [("packages", "extension kernel\nextension usbguard\n")];
        let name = format!("built-{manager}");
        let ended = bench.build_from(&name, &made.image, &containerfile, &inputs, &location);
        assert_eq!(ended.code, Some(0), "{}", ended.log);
        for call in calls {
            assert!(ended.log.contains(call), "{call}: {}", ended.log);
        }
        let repository =
            "baseurl=file:///run/slipway-extensions/usr/share/rpm-ostree/extensions\nenabled=1\n";
        assert!(ended.log.contains(repository), "{}", ended.log);
        assert!(
            ended
                .log
                .contains("called rpm --query --whatprovides kernel-rt usbguard"),
            "{}",
            ended.log
        );
        // The repositories of the namespace are there for people's own steps, without ours.
        assert!(!ended.log.contains("cannot be written"), "{}", ended.log);
    }
}
