//! Our types against upstream's definitions and example objects. Skipped, with the reason printed,
//! where these data are absent.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

mod objects;
mod schema;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use api::config::{ClusterOperator, ClusterVersion};
use api::machineconfiguration::{
    ControllerConfig, KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool,
};
use api::operator::MachineConfiguration;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Upstream's data: CRDs of openshift/api and example objects of openshift/oc.
///
/// Source: `docs/development/upstream-data.md`.
fn data() -> Option<PathBuf> {
    let named = std::env::var_os("SLIPWAY_DATA").filter(|folder| !folder.is_empty());
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let directory = named.map_or_else(beside, PathBuf::from);
    if !directory.join("crds").is_dir() {
        let place = directory.display();
        skipped(&format!(
            "a comparison with upstream's definitions and examples ({place} is not there: `make \
             upstream-data`)"
        ));
        return None;
    }
    Some(directory)
}

/// Says that something was skipped, and adds it to the file named by `SLIPWAY_SKIPPED`; fails where
/// `SLIPWAY_REQUIRE_DATA` is `1`.
fn skipped(what: &str) {
    let require = std::env::var_os("SLIPWAY_REQUIRE_DATA");
    assert!(
        require.is_none_or(|value| value != "1"),
        "would skip {what}"
    );
    let line = format!("skipped: {what}\n");
    // Not by a macro, whose words the harness keeps to itself where a test passes. That standard
    // error is closed cannot be said anywhere.
    drop(std::io::stderr().write_all(line.as_bytes()));
    if let Some(list) = std::env::var_os("SLIPWAY_SKIPPED").filter(|list| !list.is_empty()) {
        let mut options = File::options();
        let mut list = options.append(true).create(true).open(list).unwrap();
        list.write_all(line.as_bytes()).unwrap();
    }
}

fn read(path: &Path) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Upstream's definition of `kind`, from whichever file has it.
fn upstream(data: &Path, kind: &str) -> Value {
    std::fs::read_dir(data.join("crds"))
        .unwrap()
        .map(|entry| read(&entry.unwrap().path()))
        .find(|crd| crd["spec"]["names"]["kind"] == kind)
        .unwrap()
}

fn schema_of(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// Kinds whose definitions upstream's data do not have.
const NOT_IN_DATA: [&str; 5] = [
    "FeatureGate",
    "Image",
    "ImageDigestMirrorSet",
    "ImageTagMirrorSet",
    "OSImageStream",
];

/// Our definitions of the kinds that upstream has, too.
fn ours() -> Vec<Value> {
    let known = |crd: &Value| {
        let kind = crd["spec"]["names"]["kind"].as_str();
        kind.is_some_and(|kind| !NOT_IN_DATA.contains(&kind))
    };
    api::crds::all()
        .iter()
        .filter(|crd| crd.spec.group != "slipway.dev")
        .map(|crd| serde_json::to_value(crd).unwrap())
        .filter(known)
        .collect()
}

#[test]
fn what_we_write_is_accepted_by_upstreams_definitions() {
    let Some(data) = data() else { return };
    for (kind, object) in objects::written() {
        let crd = upstream(&data, kind);
        let found = schema::violations(schema_of(&crd), &object);
        assert!(found.is_empty(), "{kind}: {found:#?}");
    }
}

#[test]
fn what_we_write_is_accepted_by_our_definitions() {
    for (kind, object) in objects::written() {
        let ours = ours();
        let crd = ours
            .iter()
            .find(|crd| crd["spec"]["names"]["kind"] == kind)
            .unwrap();
        let found = schema::violations(schema_of(crd), &object);
        assert!(found.is_empty(), "{kind}: {found:#?}");
    }
}

#[test]
fn the_checker_finds_each_kind_of_fault() {
    let crd = MachineConfigPool::crd_value();
    for (fault, expected) in objects::faulty_pools() {
        let found = schema::violations(schema_of(&crd), &fault);
        assert_eq!(found, [expected], "{fault}");
    }
}

#[test]
fn upstreams_example_objects_come_back_whole() {
    let Some(data) = data() else { return };
    let mut seen = 0;
    for entry in std::fs::read_dir(data.join("cli-examples/status")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let ends = ["-mcp.yaml", "-mc.yaml", "-cv.yaml", "-co.yaml"];
        if !ends.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        let read = read(&path);
        // A list, or one object.
        let one = std::slice::from_ref(&read);
        for object in read["items"].as_array().map_or(one, Vec::as_slice) {
            match object["kind"].as_str().unwrap() {
                "MachineConfigPool" => comes_back::<MachineConfigPool>(&name, object),
                "MachineConfig" => comes_back::<MachineConfig>(&name, object),
                "ClusterVersion" => comes_back::<ClusterVersion>(&name, object),
                "ClusterOperator" => comes_back::<ClusterOperator>(&name, object),
                kind => panic!("{name}: unexpected {kind}"),
            }
            seen += 1;
        }
    }
    assert!(seen > 10, "only {seen} example objects");
}

#[test]
fn what_we_write_comes_back_whole() {
    for (kind, object) in objects::written() {
        match kind {
            "MachineConfigPool" => comes_back::<MachineConfigPool>(kind, &object),
            "MachineConfig" => comes_back::<MachineConfig>(kind, &object),
            "MachineConfigNode" => comes_back::<MachineConfigNode>(kind, &object),
            "MachineConfiguration" => comes_back::<MachineConfiguration>(kind, &object),
            "ControllerConfig" => comes_back::<ControllerConfig>(kind, &object),
            "KubeletConfig" => comes_back::<KubeletConfig>(kind, &object),
            "ClusterVersion" => comes_back::<ClusterVersion>(kind, &object),
            "ClusterOperator" => comes_back::<ClusterOperator>(kind, &object),
            _ => panic!("no type for {kind}"),
        }
    }
}

/// Reads `object` as a `T` and checks that every value in it is still there when the `T` is
/// written.
fn comes_back<T: DeserializeOwned + Serialize>(name: &str, object: &Value) {
    let read: T = serde_json::from_value(object.clone()).unwrap();
    let written = serde_json::to_value(read).unwrap();
    let mut lost = Vec::new();
    missing(object, &written, "", &mut lost);
    assert!(lost.is_empty(), "{name}: {lost:#?}");
}

fn missing(before: &Value, after: &Value, path: &str, lost: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                let null = Value::Null;
                missing(
                    value,
                    after.get(name).unwrap_or(&null),
                    &format!("{path}.{name}"),
                    lost,
                );
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                missing(before, after, &format!("{path}[{index}]"), lost);
            }
        }
        (Value::Object(empty), Value::Null) if empty.is_empty() => {}
        _ if before == after => {}
        _ => lost.push(format!("{path}: {before} became {after}")),
    }
}

/// Fields that upstream's definition has with a feature gate, here `ImageModeStatusReporting`; the
/// one compared with is that of the default feature set.
const OF_FEATURE_GATES: [(&str, &str); 2] = [
    ("MachineConfigNode", ".spec.configImage"),
    ("MachineConfigNode", ".status.configImage"),
];

#[test]
fn our_definitions_have_the_fields_of_upstreams() {
    let Some(data) = data() else { return };
    for crd in ours() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        let upstream = upstream(&data, kind);
        let mut differences = Vec::new();
        compare(schema_of(&upstream), schema_of(&crd), "", &mut differences);
        let of_gates = OF_FEATURE_GATES.iter().filter(|(of, _)| *of == kind);
        let expected: Vec<_> = of_gates
            .map(|(_, field)| format!("{field}: here only"))
            .collect();
        assert_eq!(differences, expected, "{kind}");
    }
}

/// Where two schemas give a field another shape, or one has it and the other neither has nor keeps
/// it. Objects that a side keeps as they are written are not looked into.
fn compare(upstream: &Value, ours: &Value, path: &str, differences: &mut Vec<String>) {
    for key in [
        "type",
        "format",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
    ] {
        if upstream[key] != ours[key] {
            differences.push(format!(
                "{path}: {key} is {} upstream, {} here",
                upstream[key], ours[key]
            ));
        }
    }
    if upstream["nullable"] == true && ours["nullable"] != true {
        differences.push(format!("{path}: nullable upstream only"));
    }
    if upstream["x-kubernetes-preserve-unknown-fields"] == true
        || ours["x-kubernetes-preserve-unknown-fields"] == true
    {
        return;
    }
    let names = |schema: &Value| -> BTreeSet<String> {
        schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .collect()
    };
    // Implied in every object; our generator leaves them out.
    let implied = ["apiVersion", "kind", "metadata"];
    for name in names(upstream).union(&names(ours)) {
        if path.is_empty() && implied.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{path}.{name}");
        match (
            upstream["properties"].get(name),
            ours["properties"].get(name),
        ) {
            (Some(upstream), Some(ours)) => compare(upstream, ours, &path, differences),
            (Some(_), None) => differences.push(format!("{path}: upstream only")),
            (None, _) => differences.push(format!("{path}: here only")),
        }
    }
    for key in ["items", "additionalProperties"] {
        match (upstream[key].is_object(), ours[key].is_object()) {
            (true, true) => compare(
                &upstream[key],
                &ours[key],
                &format!("{path}[]"),
                differences,
            ),
            (false, false) => {}
            _ => differences.push(format!("{path}: {key} on one side only")),
        }
    }
}

#[test]
fn printer_columns_are_upstreams() {
    let Some(data) = data() else { return };
    for crd in ours() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        let columns = |crd: &Value| -> Vec<[Value; 4]> {
            crd["spec"]["versions"][0]["additionalPrinterColumns"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|column| {
                    ["name", "type", "jsonPath", "priority"].map(|key| column[key].clone())
                })
                .collect()
        };
        assert_eq!(columns(&crd), columns(&upstream(&data, kind)), "{kind}");
    }
}

#[test]
fn rules_of_pinned_images_are_upstreams() {
    let Some(data) = data() else { return };
    let spec = |crd: &Value| schema_of(crd)["properties"]["spec"].clone();
    let upstream = upstream(&data, "PinnedImageSet");
    let crd = api::crds::all()
        .iter()
        .map(|crd| serde_json::to_value(crd).unwrap())
        .find(|crd| crd["spec"]["names"]["kind"] == "PinnedImageSet")
        .unwrap();
    for key in ["kind", "plural", "singular", "shortNames"] {
        let (ours, upstream) = (&crd["spec"]["names"][key], &upstream["spec"]["names"][key]);
        assert_eq!(ours, upstream, "{key}");
    }
    let (ours, upstream) = (spec(&crd), spec(&upstream));
    assert_eq!(ours["required"], upstream["required"]);
    let images = |spec: &Value| spec["properties"]["pinnedImages"].clone();
    let (ours, upstream) = (images(&ours), images(&upstream));
    for key in ["minItems", "maxItems", "x-kubernetes-list-type"] {
        assert_eq!(ours[key], upstream[key], "{key}");
    }
    assert_eq!(ours["items"]["required"], upstream["items"]["required"]);
    let name = |images: &Value| images["items"]["properties"]["name"].clone();
    let (ours, upstream) = (name(&ours), name(&upstream));
    for key in ["minLength", "maxLength", "x-kubernetes-validations"] {
        assert!(!upstream[key].is_null(), "{key}");
        assert_eq!(ours[key], upstream[key], "{key}");
    }
}

/// The definition of a kind as JSON.
trait Defined {
    fn crd_value() -> Value;
}

impl<T: kube::CustomResourceExt> Defined for T {
    fn crd_value() -> Value {
        serde_json::to_value(T::crd()).unwrap()
    }
}
