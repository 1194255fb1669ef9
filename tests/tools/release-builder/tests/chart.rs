//! The bundle by kustomize and the chart by Helm: no image without digest, and the same objects.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use image_builder::component::{COMPONENTS, OS_BUILDER};
use install::component::InstallComponent;
use install::manifests::InstallManifests;
use prebuilt::program::command;
use prebuilt::{control_plane, helm};
use release::PullSpec;
use release::manifest::{Manifest, ObjectId};
use release_builder::{archive, bundle, chart, manifests};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::ApiServer;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy");

const VERSION: &str = "0.2.0";

/// The commit's time, in seconds since 1970.
const TIME: u64 = 1_700_000_000;

/// The cluster's version; Helm has no cluster here.
const KUBERNETES: &str = "1.36.0";

/// What `--namespace` of Helm is: no object may be in it.
const OTHER_NAMESPACE: &str = "elsewhere";

/// Folders of the bundle that are applied apart, with values of the chart that make their objects.
const OPTIONS: [(&[&str], &[&str]); 4] = [
    (&["cvo"], &["versionOperator"]),
    (&["managed-upgrade"], &["managedUpgrade"]),
    (&["update-service"], &["updateService"]),
    (&["monitoring"], &["monitoring"]),
];

/// A folder of manifests that are applied by `--filename`.
const BY_FILENAME: &str = "cli";

/// Names of roles, which begin as those of images do.
const NO_IMAGES: [&str; 8] = [
    "slipway-control-plane-only",
    "slipway-managed",
    "slipway-managed-view",
    "slipway-pool-view",
    "slipway-stop",
    "slipway-try-drain",
    "slipway-upgrade",
    "slipway-upgrade-view",
];

/// The annotation by which alone the chart's objects differ: of CRDs.
const KEEP: &str = "helm.sh/resource-policy";

type Objects = BTreeMap<ObjectId, Value>;

/// Bundle and chart, and the programs that read them.
struct Release {
    directory: TempDir,
    bundle: PathBuf,
    /// The packed chart.
    chart: PathBuf,
    kubectl: PathBuf,
    helm: PathBuf,
}

impl Release {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let images = pull_specs();
        let deploy = Path::new(DEPLOY);
        let bundle = bundle::write(deploy, VERSION, &images, directory.path()).unwrap();
        let folder = chart::write(deploy, VERSION, &images, directory.path()).unwrap();
        let chart = directory.path().join(format!("slipway-{VERSION}.tgz"));
        archive::pack(&folder, TIME, &chart).unwrap();
        Self {
            bundle,
            chart,
            kubectl: control_plane::kubectl().unwrap(),
            helm: helm::find().unwrap(),
            directory,
        }
    }

    fn kustomize(&self, folder: &str) -> Objects {
        let output = run(command(&self.kubectl)
            .arg("kustomize")
            .arg(self.bundle.join(folder)));
        objects(&printed(&output))
    }

    fn helm(&self) -> Command {
        let mut helm = command(&self.helm);
        helm.env("HOME", self.directory.path());
        helm
    }

    /// A program of this release that acts on a cluster.
    fn on(&self, program: &Path, server: &ApiServer) -> Command {
        let mut command = command(program);
        command.env("HOME", self.directory.path());
        command.env("KUBECONFIG", server.control_plane.admin_kubeconfig());
        command
    }

    /// The objects of the chart with components on or off.
    fn template(&self, values: &[(&str, bool)]) -> Objects {
        let mut helm = self.helm();
        helm.args(["template", "a-name", "--namespace", OTHER_NAMESPACE]);
        helm.args(["--kube-version", KUBERNETES]);
        for (component, is_on) in values {
            helm.arg("--set")
                .arg(format!("components.{component}.enabled={is_on}"));
        }
        objects(&printed(&run(helm.arg(&self.chart))))
    }
}

fn pull_specs() -> BTreeMap<&'static str, PullSpec> {
    let all = COMPONENTS.iter().enumerate();
    let spec = |number, name| format!("quay.example:5000/slipway/{name}@sha256:{number:064x}");
    all.map(|(number, it)| (it.name, spec(number, it.name).parse().unwrap()))
        .collect()
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn objects(text: &str) -> Objects {
    let manifests = Manifest::parse("objects.yaml", text.as_bytes()).unwrap();
    manifests.into_iter().map(|it| (it.id, it.object)).collect()
}

/// Checks that two sets of objects are equal, and that CRDs are kept in the first.
fn compare(chart: Objects, bundle: &Objects, what: &str) {
    same(&kept(chart), bundle, what);
}

/// The chart's objects without the annotation that keeps CRDs, which all of them have.
fn kept(mut chart: Objects) -> Objects {
    for (id, object) in &mut chart {
        if id.kind == "CustomResourceDefinition" {
            let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
            assert_eq!(annotations.remove(KEEP), Some(json!("keep")), "{id}");
            if annotations.is_empty() {
                object["metadata"]
                    .as_object_mut()
                    .unwrap()
                    .remove("annotations");
            }
        }
    }
    chart
}

fn same(objects: &Objects, bundle: &Objects, what: &str) {
    let ids = |objects: &Objects| objects.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(ids(objects), ids(bundle), "{what}");
    for (id, object) in bundle {
        let difference = difference("", &objects[id], object);
        assert_eq!(difference, None, "{what}: {id}");
    }
}

/// Where two values differ, with both. Kustomize prints `10.0` as `10`: numbers count by value.
fn difference(path: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => None,
        (Value::Array(first), Value::Array(second)) if first.len() == second.len() => {
            let mut items = first.iter().zip(second).enumerate();
            items.find_map(|(index, (one, other))| {
                difference(&format!("{path}/{index}"), one, other)
            })
        }
        (Value::Object(first), Value::Object(second)) if first.len() == second.len() => {
            first.iter().find_map(|(key, one)| {
                let other = second.get(key).unwrap_or(&Value::Null);
                difference(&format!("{path}/{key}"), one, other)
            })
        }
        _ => (one != other).then(|| format!("{path}: {one} and {other}")),
    }
}

/// Calls `check` with each text of a value, also of keys.
fn texts(value: &Value, check: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => check(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, check)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            check(key);
            texts(value, check);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Words of a text that begin as names of images do, each with what follows.
fn image_names(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("slipway-").map(|(begin, _)| {
        let rest = &text[begin..];
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-');
        rest.split_at(end.unwrap_or(rest.len()))
    })
}

#[test]
#[ignore = "needs kubectl, and helm built by go"]
fn every_image_of_the_bundle_has_a_digest() {
    let release = Release::new();
    let mut all = release.kustomize("");
    for folder in [
        "config-server",
        "controller",
        "daemon",
        "openshift",
        "operator",
    ] {
        all.extend(release.kustomize(folder));
    }
    for (folders, _) in OPTIONS {
        for folder in folders {
            all.extend(release.kustomize(folder));
        }
    }
    all.extend(release.kustomize("update-service/monitoring"));
    for entry in release.bundle.join(BY_FILENAME).read_dir().unwrap() {
        all.extend(objects(
            &std::fs::read_to_string(entry.unwrap().path()).unwrap(),
        ));
    }
    let mut found = BTreeMap::new();
    for (id, object) in &all {
        texts(object, &mut |text| {
            for (name, rest) in image_names(text) {
                if NO_IMAGES.contains(&name) {
                    continue;
                }
                let digest = rest.strip_prefix("@sha256:").and_then(|it| it.get(..64));
                let is_digest = |it: &str| it.bytes().all(|digit| digit.is_ascii_hexdigit());
                assert!(digest.is_some_and(is_digest), "{id}: {text}");
                *found.entry(name.to_owned()).or_insert(0) += 1;
            }
            let is_template = text.contains("{{.");
            assert!(!is_template, "{id}: {text}");
        });
    }
    let names: Vec<_> = found.keys().map(String::as_str).collect();
    // The builder of OS images is named by the ConfigMap of a release alone.
    let components = COMPONENTS.iter().map(|it| it.name);
    let mut expected: Vec<_> = components.filter(|name| *name != OS_BUILDER).collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
    // A field and an argument.
    assert_eq!(found["slipway-cvo"], 2);
}

#[test]
#[ignore = "needs kubectl, and helm built by go"]
fn the_chart_has_the_objects_of_the_bundle() {
    let release = Release::new();
    let root = release.kustomize("");
    compare(release.template(&[]), &root, "defaults");

    let mut without = Objects::new();
    for folder in ["daemon", "operator", "controller"] {
        without.extend(release.kustomize(folder));
    }
    // Definitions and namespaces are no folder of their own.
    let is_of_all = |id: &ObjectId| {
        matches!(&*id.kind, "CustomResourceDefinition" | "Namespace") && !without.contains_key(id)
    };
    let of_all: Vec<_> = root.iter().filter(|(id, _)| is_of_all(id)).collect();
    let of_all: Objects = of_all
        .into_iter()
        .map(|(id, it)| (id.clone(), it.clone()))
        .collect();
    without.extend(of_all);
    compare(
        release.template(&[("configServer", false)]),
        &without,
        "no config server",
    );

    let mut everything = root.clone();
    for (folders, components) in OPTIONS {
        let mut expected = root.clone();
        for folder in folders {
            for (id, object) in release.kustomize(folder) {
                everything
                    .entry(id.clone())
                    .or_insert_with(|| object.clone());
                // The root's is there first, and stays.
                expected.entry(id).or_insert(object);
            }
        }
        let values: Vec<_> = components.iter().map(|name| (*name, true)).collect();
        compare(release.template(&values), &expected, components[0]);
    }
    everything.extend(release.kustomize("update-service/monitoring"));
    let on = OPTIONS.iter().flat_map(|(_, components)| *components);
    let on: Vec<_> = on.map(|name| (*name, true)).collect();
    compare(release.template(&on), &everything, "all components");
}

#[test]
#[ignore = "needs kubectl, and helm built by go"]
fn what_is_installed_has_the_objects_of_the_bundle() {
    use InstallComponent::{
        ConfigServer, MachineConfig, ManagedUpgrade, Monitoring, UpdateService, VersionOperator,
    };
    let release = Release::new();
    let manifests = manifests::of(Path::new(DEPLOY), VERSION, &pull_specs()).unwrap();
    let text = serde_json::to_vec(&manifests).unwrap();
    let manifests = InstallManifests::parse(&text).unwrap();
    let installed = |components: &[InstallComponent]| -> Objects {
        let wanted = manifests.of(&components.iter().copied().collect());
        wanted.into_iter().map(|it| (it.id, it.object)).collect()
    };
    let folders = |folders: &[&str]| {
        let all = folders.iter().flat_map(|folder| release.kustomize(folder));
        // Of an object in two folders the first counts.
        let mut objects = Objects::new();
        for (id, object) in all {
            objects.entry(id).or_insert(object);
        }
        objects
    };
    let root = folders(&[""]);
    same(&installed(&[MachineConfig, ConfigServer]), &root, "root");
    let without = kept(release.template(&[("configServer", false)]));
    same(&installed(&[MachineConfig]), &without, "no config server");
    for (component, names) in [
        (VersionOperator, &["cvo"][..]),
        (ManagedUpgrade, &["managed-upgrade"]),
        (UpdateService, &["update-service"]),
    ] {
        let mut expected = folders(names);
        for (id, object) in &mut expected {
            // A namespace of two folders: the root's has no annotation of releases.
            if let Some(first) = root.get(id) {
                *object = first.clone();
            }
        }
        same(&installed(&[component]), &expected, component.name());
    }
    same(
        &installed(&[UpdateService, Monitoring]),
        &folders(&["update-service", "update-service/monitoring"]),
        "a site with monitoring",
    );
    let all = [
        "",
        "cvo",
        "managed-upgrade",
        "monitoring",
        "update-service",
        "update-service/monitoring",
    ];
    same(&installed(&InstallComponent::ALL), &folders(&all), "all");
}

#[test]
#[ignore = "needs kubectl, and helm built by go"]
fn the_chart_passes_lint_and_refuses_other_values() {
    let release = Release::new();
    printed(&run(release
        .helm()
        .args(["lint", "--strict"])
        .arg(&release.chart)));

    for (value, expected) in [
        ("images.mcc.digest=sha256:0", "/images/mcc/digest"),
        ("images.mcc.tag=v1", "tag"),
        ("components.another.enabled=true", "another"),
        (
            "components.configServer.enabled=yes",
            "/components/configServer/enabled",
        ),
    ] {
        let mut helm = release.helm();
        helm.args([
            "template",
            "a-name",
            "--kube-version",
            KUBERNETES,
            "--set",
            value,
        ]);
        let output = run(helm.arg(&release.chart));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{value} is accepted");
        let errors_of_fields = errors.replace('.', "/");
        assert!(errors_of_fields.contains(expected), "{value}: {errors}");
    }
}

/// Helm keeps a release in one Secret, which the API server limits to 1 MiB.
#[test]
#[ignore = "needs kubectl, and helm built by go"]
fn the_chart_fits_into_a_secret() {
    let release = Release::new();
    let bytes = std::fs::metadata(&release.chart).unwrap().len();
    assert!(bytes < 300 << 10, "{bytes} bytes");
}

/// Bindings of the admission policies that guard network policies: page "Network" of
/// `deploy/README.md` has people delete them before an update or a removal by hand.
const FREE_WITHIN: Duration = Duration::from_secs(30);
const GUARDS: [&str; 2] = [
    "networkpolicy-prevent-deletion",
    "networkpolicy-prevent-update",
];

#[tokio::test]
#[ignore = "needs root, the lab's control plane, kubectl, and helm built by go"]
async fn bundle_and_chart_install_update_and_go() {
    let release = Release::new();
    let server = ApiServer::start("release-objects", "install")
        .await
        .unwrap();
    let kubectl = |words: &[&str]| printed(&run(release.on(&release.kubectl, &server).args(words)));
    let helm = |words: &[&str]| {
        printed(&run(release
            .on(&release.helm, &server)
            .args(words)
            .arg("--namespace=default")))
    };
    let (bundle, chart) = (
        release.bundle.to_str().unwrap(),
        release.chart.to_str().unwrap(),
    );

    let applied = kubectl(&["apply", "--server-side", "--kustomize", bundle]);
    assert!(
        applied
            .lines()
            .all(|line| line.ends_with(" serverside-applied")),
        "{applied}"
    );
    // Nothing differs: what is read back is what was applied.
    assert_eq!(
        kubectl(&["diff", "--server-side", "--kustomize", bundle]),
        ""
    );

    let unguard = || {
        for binding in GUARDS {
            kubectl(&["delete", "validatingadmissionpolicybinding", binding]);
        }
        // The API server's admission learns of it by a watch.
        let is_allowed = |verb: &str, values: &[&str]| {
            let mut command = release.on(&release.kubectl, &server);
            command
                .args([verb, "networkpolicy", "default-deny"])
                .args(values);
            command.arg("--namespace=openshift-machine-config-operator");
            run(command.arg("--dry-run=server")).status.success()
        };
        let is_free = || is_allowed("delete", &[]) && is_allowed("label", &["a=b"]);
        let end = Instant::now() + FREE_WITHIN;
        while !is_free() {
            assert!(Instant::now() < end, "the policies still hold");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    // Helm takes over what is there, and its own again.
    unguard();
    let notes = helm(&["install", "slipway", chart, "--take-ownership"]);
    assert!(notes.contains("Slipway 0.2.0 is installed"), "{notes}");
    helm(&["upgrade", "slipway", chart]);
    let definitions = kubectl(&["get", "crd", "--output=name"]);
    unguard();
    helm(&["uninstall", "slipway"]);
    // People's objects stay.
    assert_eq!(kubectl(&["get", "crd", "--output=name"]), definitions);
    let namespaced = [
        "get",
        "daemonset,deployment",
        "--all-namespaces",
        "--output=name",
    ];
    assert_eq!(kubectl(&namespaced), "");
}
