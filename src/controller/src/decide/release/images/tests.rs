use operator::watch::kept::KeptPart as _;
use serde_json::json;

use super::*;

fn map(name: &str, data: &Value) -> ConfigMapData {
    let object = json!({ "metadata": { "name": name, "resourceVersion": "1" }, "data": data });
    ConfigMapData::of(serde_json::from_value(object).unwrap())
}

fn os(version: &str) -> ConfigMapData {
    let data = json!({ "releaseVersion": version, "baseOSContainerImage": "q/os@sha256:1" });
    map(OS_IMAGE, &data)
}

fn components(text: &str) -> ConfigMapData {
    map(COMPONENT_IMAGES, &json!({ "images.json": text }))
}

const IMAGES: &str = r#"{ "releaseVersion": "2.0.0", "machineConfigDaemon": "q/mcd@sha256:2" }"#;

#[test]
fn images_are_those_of_the_own_release_only() {
    let read = ReleaseImages::read(Some(&os("2.0.0")), Some(&components(IMAGES)), "2.0.0");
    let read = read.unwrap();
    assert_eq!(
        (read.os.as_str(), read.extensions.as_str()),
        ("q/os@sha256:1", "")
    );
    assert_eq!(
        read.components,
        [(DAEMON.to_owned(), "q/mcd@sha256:2".to_owned())].into()
    );
    let good = components(IMAGES);
    let legacy = json!({ "releaseVersion": "2.0.0", "osImageURL": "q/old" });
    let legacy = map(OS_IMAGE, &legacy);
    let read = ReleaseImages::read(Some(&legacy), Some(&good), "2.0.0");
    assert_eq!(read.unwrap().os, "q/old");
    let none = map(OS_IMAGE, &json!({ "releaseVersion": "2.0.0" }));
    let streams = json!({
        "releaseVersion": "2.0.0", "baseOSContainerImage": "q/os@sha256:1", "osImageStreams.json": "{}"
    });
    let table = [
        (
            Some(map(OS_IMAGE, &streams)),
            Some(&good),
            "ConfigMap machine-config-osimageurl: data.osImageStreams.json",
        ),
        (
            None,
            Some(&good),
            "ConfigMap machine-config-osimageurl is missing",
        ),
        (
            Some(os("3.0.0")),
            Some(&good),
            "refusing to read machine-config-osimageurl version \"3.0.0\", operator version \"2.0.0\"",
        ),
        (
            Some(none),
            Some(&good),
            "data.baseOSContainerImage names no image",
        ),
        (
            Some(os("2.0.0")),
            None,
            "ConfigMap machine-config-operator-images is missing",
        ),
        (
            Some(os("2.0.0")),
            Some(&components("[")),
            "data.images.json is no map of texts",
        ),
        (
            Some(os("2.0.0")),
            Some(&map(COMPONENT_IMAGES, &json!({}))),
            "data has no key images.json",
        ),
        (
            Some(os("2.0.0")),
            Some(&components("{}")),
            "refusing to read images.json version \"\", operator version \"2.0.0\"",
        ),
    ];
    for (os, components, expected) in table {
        let why = ReleaseImages::read(os.as_ref(), components, "2.0.0")
            .unwrap_err()
            .to_string();
        assert!(why.contains(expected), "{why}");
    }
}

fn config(version: &str, spec: &Value, status: &Value) -> ControllerConfig {
    let object = json!({
        "metadata": {
            "name": "machine-config-controller", "resourceVersion": "7", "generation": 4,
            "annotations": {
                "machineconfiguration.openshift.io/generated-by-version": version,
                "machineconfiguration.openshift.io/release-image-version": version,
                "administrator": "keep"
            }
        },
        "spec": spec, "status": status
    });
    serde_json::from_value(object).unwrap()
}

#[test]
fn only_what_is_another_release_s_is_changed_and_dropped_images_go() {
    let images = ReleaseImages {
        version: "2.0.0".to_owned(),
        os: "os2".to_owned(),
        extensions: "ext2".to_owned(),
        components: [("a".to_owned(), "a2".to_owned())].into(),
        streams: None,
    };
    let before = json!({
        "baseOSContainerImage": "os1", "baseOSExtensionsContainerImage": "ext2",
        "images": { "a": "a1", "gone": "g" }, "releaseImage": "r1"
    });
    let before = config("1.0.0", &before, &Value::Null);
    let change = images.change(&before, Some("r2")).unwrap();
    assert_eq!(
        change,
        json!({
            "metadata": { "resourceVersion": "7", "annotations": {
                "machineconfiguration.openshift.io/generated-by-version": "2.0.0",
                "machineconfiguration.openshift.io/release-image-version": "2.0.0"
            } },
            "spec": { "baseOSContainerImage": "os2", "images": { "a": "a2", "gone": null }, "releaseImage": "r2" }
        })
    );
    let after = json!({
        "baseOSContainerImage": "os2", "baseOSExtensionsContainerImage": "ext2",
        "images": { "a": "a2" }, "releaseImage": "r2"
    });
    let after = config("2.0.0", &after, &Value::Null);
    assert_eq!(images.change(&after, Some("r2")), None);
    // Where the release's pull spec was not read, the stored one stays.
    assert_eq!(images.change(&after, None), None);
    // The annotations alone are a change: pools are rendered for the version that they name.
    let same = config(
        "1.0.0",
        &serde_json::to_value(&after.spec).unwrap(),
        &Value::Null,
    );
    assert_eq!(images.change(&same, None).unwrap()["spec"], json!({}));
}

#[test]
fn a_controller_config_is_completed_once_a_generation() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let certificate = json!({ "subject": "s", "signer": "t", "bundleFile": "b" });
    let before = json!({ "observedGeneration": 3, "controllerCertificates": [certificate] });
    let change = completed(&config("2.0.0", &json!({}), &before), "2.0.0", now).unwrap();
    assert_eq!(change["metadata"], json!({ "resourceVersion": "7" }));
    assert_eq!(change["status"]["observedGeneration"], 4);
    // Certificates are not in the patch, and so they stay.
    assert_eq!(change["status"].as_object().unwrap().len(), 2);
    let conditions = change["status"]["conditions"].as_array().unwrap();
    let states: Vec<_> = conditions
        .iter()
        .map(|one| format!("{}={}", one["type"], one["status"]).replace('"', ""))
        .collect();
    assert_eq!(
        states,
        [
            "TemplateControllerCompleted=True",
            "TemplateControllerRunning=False",
            "TemplateControllerFailing=False"
        ]
    );
    assert_eq!(
        conditions[0]["message"],
        "sync completed towards (4) generation using controller version 2.0.0"
    );
    let done = config("2.0.0", &json!({}), &change["status"]);
    let later = "2026-01-02T00:00:00Z".parse().unwrap();
    assert_eq!(completed(&done, "2.0.0", later), None);
}
