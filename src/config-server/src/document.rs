//! A pool's configuration with the files that only a new machine gets.
//!
//! Source: `docs/reference/config-server.md`, "Files"; `docs/reference/daemon.md`, "Host files".

use std::collections::BTreeMap;

use api::machineconfiguration::{MachineConfig, NodeState, annotation};
use ignition::content::to_data_url;
use ignition::{Config, File, Resource, SpecVersion};
use node_update::paths::belongs_to_image;
use serde_json::{Value, json};

use crate::image_mode::NoImage;
use crate::refusal::Refusal;

/// Annotations that the node gets when its daemon first sees it.
pub(crate) const ANNOTATIONS: &str = "/etc/machine-config-daemon/node-annotations.json";
/// What the first boot makes of the machine besides files and units: the OS, kernel arguments.
pub(crate) const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";
/// The whole configuration that the machine was installed with.
pub(crate) const CONTENT: &str = "/etc/mcs-machine-config-content.json";
/// With it the kubelet asks for its certificate.
pub(crate) const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
/// Clients that the kubelet trusts.
pub(crate) const KUBELET_CA: &str = "/etc/kubernetes/kubelet-ca.crt";
pub(crate) const CLOUD_CA: &str =
    "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem";

/// For everyone on the machine to read.
const PUBLIC: u32 = 0o644;
/// For root: configurations and the bootstrap token are secrets.
const SECRET: u32 = 0o600;

/// What a machine gets besides its configuration.
#[derive(Debug, Clone)]
pub(crate) struct Extras {
    /// `spec.kubeAPIServerServingCAData`; empty: the configuration's own file stays.
    pub(crate) kubelet_ca: Vec<u8>,
    /// `spec.cloudProviderCAData`; empty: the configuration's own file stays.
    pub(crate) cloud_ca: Vec<u8>,
    /// The built image in the place of the OS that the configuration names; or why there is none.
    pub(crate) image: Result<String, NoImage>,
}

/// The document that a machine receives, but for the kubeconfig: it is built before a token is
/// made for it.
#[derive(Debug)]
pub(crate) struct Document {
    value: Value,
}

impl Document {
    /// Its text, with the text of the bootstrap kubeconfig.
    pub(crate) fn print(mut self, kubeconfig: &str) -> String {
        let files = self.value.pointer_mut("/storage/files");
        let files = files.and_then(Value::as_array_mut).into_iter().flatten();
        for file in files.filter(|file| file["path"] == KUBECONFIG) {
            if let Some(source) = file.pointer_mut("/contents/source") {
                *source = to_data_url(kubeconfig.as_bytes()).into();
            }
        }
        self.value.to_string()
    }
}

/// The document of that version.
///
/// # Errors
/// [`Refusal::Broken`], [`Refusal::Inexpressible`], and [`Refusal::NotReady`] for a configuration
/// with files or packages that only an image brings, while none is served.
pub(crate) fn document(
    rendered: &MachineConfig,
    extras: &Extras,
    version: SpecVersion,
) -> Result<Document, Refusal> {
    let name = rendered.metadata.name.clone().unwrap_or_default();
    let written = rendered.spec.config.clone().unwrap_or_default();
    let (mut config, _) = ignition::parse(&written).map_err(|source| Refusal::Broken {
        config: name.clone(),
        source,
    })?;
    leave_to_image(&mut config, &name, extras)?;
    let pivot = leave_packages(rendered, &name, extras)?;
    let image = extras.image.as_deref().ok();
    // An older Ignition sets no kernel arguments: the first boot does. It only adds.
    let mut moved = Vec::new();
    if !version.has_kernel_arguments() {
        moved = std::mem::take(&mut config.kernel_arguments.should_exist);
    }
    put(&mut config, KUBELET_CA, PUBLIC, &extras.kubelet_ca);
    put(&mut config, CLOUD_CA, PUBLIC, &extras.cloud_ca);
    put(&mut config, ANNOTATIONS, PUBLIC, &annotations(&name, image));
    // Its place.
    put(&mut config, KUBECONFIG, SECRET, b"-");
    put(&mut config, CONTENT, SECRET, &content(rendered));
    let encapsulated = encapsulated(&pivot, image, moved, version);
    put(&mut config, ENCAPSULATED, SECRET, &encapsulated);
    let value = config.to_version(version);
    let value = value.map_err(|source| Refusal::Inexpressible {
        config: name,
        source,
    })?;
    Ok(Document { value })
}

/// Leaves files that belong to the OS image to it: a host has them read-only.
fn leave_to_image(config: &mut Config, name: &str, extras: &Extras) -> Result<(), Refusal> {
    let files = &mut config.storage.files;
    if let Err(why) = &extras.image
        && let Some(file) = files.iter().find(|file| belongs_to_image(&file.path))
    {
        return Err(Refusal::NotReady(format!(
            "MachineConfig {name:?}: file {:?} is part of a built OS image, and none is served: {why}",
            file.path
        )));
    }
    files.retain(|file| !belongs_to_image(&file.path));
    Ok(())
}

/// Leaves packages of the OS to the image that the pool will assign: a new machine gets the OS
/// without them until a node has proved the image.
fn leave_packages(
    rendered: &MachineConfig,
    name: &str,
    extras: &Extras,
) -> Result<MachineConfig, Refusal> {
    let mut left = rendered.clone();
    let spec = &mut left.spec;
    let has_kernel = !["", "default"].contains(&spec.kernel_type.as_str());
    match &extras.image {
        Err(why @ NoImage::NotInImageMode(_)) if has_kernel || !spec.extensions.is_empty() => {
            let field = if has_kernel {
                "spec.kernelType"
            } else {
                "spec.extensions"
            };
            return Err(Refusal::NotReady(format!(
                "MachineConfig {name:?}: {field} needs packages of a built OS image, and none is served: {why}"
            )));
        }
        Err(NoImage::NotBuilt { .. } | NoImage::NotProved(_) | NoImage::InCluster(_)) => {
            spec.extensions = Vec::new();
            spec.kernel_type = String::new();
        }
        Ok(_) | Err(NoImage::NotInImageMode(_)) => {}
    }
    Ok(left)
}

/// Makes a file of the configuration, in the place of one that it may have. Without bytes it stays.
fn put(config: &mut Config, path: &str, mode: u32, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let file = File {
        path: path.to_owned(),
        mode: Some(mode),
        overwrite: Some(true),
        contents: Resource {
            source: Some(to_data_url(bytes)),
            ..Resource::default()
        },
        ..File::default()
    };
    config.storage.files.retain(|file| file.path != path);
    config.storage.files.push(file);
}

fn annotations(name: &str, image: Option<&str>) -> Vec<u8> {
    let mut map = BTreeMap::from([
        (annotation::CURRENT_CONFIG, name),
        (annotation::DESIRED_CONFIG, name),
        (annotation::FIRST_PIVOT_CONFIG, name),
        (annotation::STATE, NodeState::Done.as_str()),
    ]);
    if let Some(image) = image {
        map.insert(annotation::CURRENT_IMAGE, image);
        map.insert(annotation::DESIRED_IMAGE, image);
    }
    json!(map).to_string().into_bytes()
}

/// The object, without what only the API server needs.
fn object(rendered: &MachineConfig) -> MachineConfig {
    let mut object = MachineConfig::default();
    object.metadata.name.clone_from(&rendered.metadata.name);
    object.metadata.labels.clone_from(&rendered.metadata.labels);
    let annotations = &rendered.metadata.annotations;
    object.metadata.annotations.clone_from(annotations);
    object.spec = rendered.spec.clone();
    object
}

fn content(rendered: &MachineConfig) -> Vec<u8> {
    print(&object(rendered))
}

fn encapsulated(
    rendered: &MachineConfig,
    image: Option<&str>,
    moved: Vec<String>,
    version: SpecVersion,
) -> Vec<u8> {
    let mut object = object(rendered);
    if let Some(image) = image {
        image.clone_into(&mut object.spec.os_image_url);
    }
    object.spec.config = Some(json!({"ignition": {"version": version.as_str()}}));
    object.spec.kernel_arguments.extend(moved);
    print(&object)
}

fn print(object: &MachineConfig) -> Vec<u8> {
    // No type of it has a map with keys other than strings, nor a serializer that fails.
    serde_json::to_vec(object).unwrap_or_default()
}

/// The kubeconfig with which a kubelet asks for its certificate.
pub(crate) fn kubeconfig(server: &str, authority: &[u8], token: &str) -> String {
    use base64::Engine as _;
    let authority = base64::engine::general_purpose::STANDARD.encode(authority);
    // JSON is YAML, and quotes whatever is in it.
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "local",
            "cluster": {"server": server, "certificate-authority-data": authority},
        }],
        "users": [{"name": "kubelet", "user": {"token": token}}],
        "contexts": [{"name": "kubelet", "context": {"cluster": "local", "user": "kubelet"}}],
        "current-context": "kubelet",
    });
    config.to_string()
}

#[cfg(test)]
mod tests {
    use ignition::content::decode;

    use super::*;

    fn rendered(config: &Value) -> MachineConfig {
        serde_json::from_value(json!({
            "metadata": {
                "name": "rendered-worker-1", "uid": "u", "resourceVersion": "9",
                "annotations": {"machineconfiguration.openshift.io/release-image-version": "4.20.0"},
            },
            "spec": {"config": config, "kernelArguments": ["a=1"], "osImageURL": "registry/os@sha256:0"},
        }))
        .unwrap()
    }

    fn extras() -> Extras {
        Extras {
            kubelet_ca: b"new authority".to_vec(),
            cloud_ca: Vec::new(),
            image: Err(NoImage::NotInImageMode("worker".to_owned())),
        }
    }

    fn served(rendered: &MachineConfig, version: SpecVersion) -> Value {
        served_with(rendered, &extras(), version)
    }

    fn served_with(rendered: &MachineConfig, extras: &Extras, version: SpecVersion) -> Value {
        let document = document(rendered, extras, version).unwrap();
        let kubeconfig = kubeconfig("https://api:6443", b"authority", "token");
        serde_json::from_str(&document.print(&kubeconfig)).unwrap()
    }

    fn file(document: &Value, path: &str) -> Value {
        let (config, _) = ignition::parse(document).unwrap();
        let mut files = config.storage.files.iter();
        let file = files.find(|file| file.path == path).unwrap();
        serde_json::from_slice(&decode(&file.contents).unwrap()).unwrap()
    }

    #[test]
    fn packages_are_left_to_the_image_that_has_them() {
        let config = json!({"ignition": {"version": "3.4.0"}});
        let with = |key: &str, value: Value| {
            let mut whole = serde_json::to_value(rendered(&config)).unwrap();
            whole["spec"][key] = value;
            serde_json::from_value::<MachineConfig>(whole).unwrap()
        };
        let extensions = with("extensions", json!(["usbguard"]));
        let kernel = with("kernelType", json!("realtime"));
        let pool = || "worker".to_owned();
        for (rendered, field, value) in [
            (&extensions, "extensions", json!(["usbguard"])),
            (&kernel, "kernelType", json!("realtime")),
        ] {
            let of = |image: Result<String, NoImage>| Extras { image, ..extras() };
            let plain = document(
                rendered,
                &of(Err(NoImage::NotInImageMode(pool()))),
                SpecVersion::V3_4,
            );
            let text = plain.unwrap_err().to_string();
            assert!(
                text.contains(&format!("spec.{field} needs packages")),
                "{text}"
            );
            for early in [
                NoImage::NotProved(pool()),
                NoImage::InCluster("r.n.svc/os@sha256:1".to_owned()),
                NoImage::NotBuilt {
                    pool: pool(),
                    config: "rendered-worker-1".to_owned(),
                },
            ] {
                let served = served_with(rendered, &of(Err(early)), SpecVersion::V3_4);
                let pivot = &file(&served, ENCAPSULATED)["spec"];
                assert_ne!(pivot[field], value, "{pivot}");
                // What the node is recorded to have is the whole.
                assert_eq!(file(&served, CONTENT)["spec"][field], value);
            }
            let served = served_with(
                rendered,
                &of(Ok("r/os@sha256:1".to_owned())),
                SpecVersion::V3_4,
            );
            assert_eq!(file(&served, ENCAPSULATED)["spec"][field], value);
        }
    }

    #[test]
    fn new_machine_gets_its_configuration_and_its_files() {
        let config = json!({
            "ignition": {"version": "3.2.0"},
            "storage": {"files": [
                {"path": "/etc/a", "contents": {"source": "data:,a"}},
                {"path": KUBELET_CA, "contents": {"source": "data:,old"}},
                {"path": CLOUD_CA, "contents": {"source": "data:,cloud"}},
            ]},
        });
        let document = served(&rendered(&config), SpecVersion::V3_4);
        assert_eq!(document["ignition"]["version"], "3.4.0");
        let (config, _) = ignition::parse(&document).unwrap();
        let files: Vec<(&str, Option<u32>, Vec<u8>)> = config
            .storage
            .files
            .iter()
            .map(|file| {
                let bytes = decode(&file.contents).unwrap();
                (file.path.as_str(), file.mode, bytes)
            })
            .collect();
        let paths: Vec<_> = files.iter().map(|(path, mode, _)| (*path, *mode)).collect();
        assert_eq!(
            paths,
            [
                ("/etc/a", None),
                (CLOUD_CA, None),
                (KUBELET_CA, Some(0o644)),
                (ANNOTATIONS, Some(0o644)),
                (KUBECONFIG, Some(0o600)),
                (CONTENT, Some(0o600)),
                // Last: it stands for a configuration that was written whole.
                (ENCAPSULATED, Some(0o600)),
            ]
        );
        assert_eq!(files[1].2, b"cloud");
        assert_eq!(files[2].2, b"new authority");
        assert_eq!(
            file(&document, ANNOTATIONS),
            json!({
                "machineconfiguration.openshift.io/currentConfig": "rendered-worker-1",
                "machineconfiguration.openshift.io/desiredConfig": "rendered-worker-1",
                "machineconfiguration.openshift.io/firstPivotConfig": "rendered-worker-1",
                "machineconfiguration.openshift.io/state": "Done",
            })
        );
        let content = file(&document, CONTENT);
        assert_eq!(content["metadata"]["name"], "rendered-worker-1");
        assert_eq!(content["metadata"].get("uid"), None);
        assert_eq!(content["spec"]["config"]["ignition"]["version"], "3.2.0");
        let encapsulated = file(&document, ENCAPSULATED);
        assert_eq!(
            encapsulated["spec"]["config"],
            json!({"ignition": {"version": "3.4.0"}})
        );
        assert_eq!(encapsulated["spec"]["osImageURL"], "registry/os@sha256:0");
        assert_eq!(encapsulated["kind"], "MachineConfig");
        let kubeconfig = file(&document, KUBECONFIG);
        assert_eq!(kubeconfig["users"][0]["user"]["token"], "token");
        assert_eq!(
            kubeconfig["clusters"][0]["cluster"]["server"],
            "https://api:6443"
        );
    }

    #[test]
    fn kernel_arguments_move_to_the_first_boot_where_ignition_has_none() {
        let config = |arguments: Value| {
            rendered(&json!({"ignition": {"version": "3.3.0"}, "kernelArguments": arguments}))
        };
        let requested = config(json!({"shouldExist": ["b=2"]}));
        let newer = served(&requested, SpecVersion::V3_3);
        assert_eq!(newer["kernelArguments"], json!({"shouldExist": ["b=2"]}));
        let arguments =
            |document: &Value| file(document, ENCAPSULATED)["spec"]["kernelArguments"].clone();
        assert_eq!(arguments(&newer), json!(["a=1"]));
        for version in [SpecVersion::V2_2, SpecVersion::V3_1, SpecVersion::V3_2] {
            let older = served(&requested, version);
            assert_eq!(
                file(&older, KUBECONFIG)["users"][0]["user"]["token"],
                "token"
            );
            assert_eq!(older.get("kernelArguments"), None);
            assert_eq!(arguments(&older), json!(["a=1", "b=2"]));
            let removed = config(json!({"shouldNotExist": ["b=2"]}));
            let refused = document(&removed, &extras(), version).unwrap_err();
            let Refusal::Inexpressible { source, .. } = &refused else {
                panic!("{refused}");
            };
            assert!(
                source.to_string().starts_with("kernelArguments: "),
                "{source}"
            );
        }
    }

    /// What the first boot reads of the image: annotations and encapsulated file say the same.
    #[test]
    fn built_image_is_in_the_annotations_and_in_the_place_of_the_os() {
        let config = json!({
            "ignition": {"version": "3.2.0"},
            "storage": {"files": [
                {"path": "/etc/a", "contents": {"source": "data:,a"}},
                {"path": "/usr/lib/b", "contents": {"source": "data:,b"}},
            ]},
        });
        let built = "registry/built@sha256:1";
        let extras = Extras {
            image: Ok(built.to_owned()),
            ..extras()
        };
        let rendered = rendered(&config);
        let document = served_with(&rendered, &extras, SpecVersion::V3_4);
        let annotations = file(&document, ANNOTATIONS);
        for key in ["currentImage", "desiredImage"] {
            let key = format!("machineconfiguration.openshift.io/{key}");
            assert_eq!(annotations[&key], built);
        }
        assert_eq!(file(&document, ENCAPSULATED)["spec"]["osImageURL"], built);
        // The whole is what was rendered: the record of the machine.
        let content = file(&document, CONTENT);
        assert_eq!(content["spec"]["osImageURL"], "registry/os@sha256:0");
        assert_eq!(content["spec"]["config"], config);
        let text = document["storage"]["files"].to_string();
        assert!(
            text.contains("\"/etc/a\"") && !text.contains("/usr/lib/b"),
            "{text}"
        );
        // Without the image no machine can have that file.
        let refused = super::document(&rendered, &self::extras(), SpecVersion::V3_4).unwrap_err();
        assert_eq!(refused.status(), http::StatusCode::SERVICE_UNAVAILABLE);
        let expected = "MachineConfig \"rendered-worker-1\": file \"/usr/lib/b\" is part of a built \
                        OS image, and none is served: pool \"worker\" has no MachineOSConfig";
        assert_eq!(refused.to_string(), expected);
    }

    #[test]
    fn configuration_that_cannot_be_read_is_named() {
        let broken = rendered(&json!({"ignition": {"version": "9.0.0"}}));
        let refused = document(&broken, &extras(), SpecVersion::V3_4).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "MachineConfig \"rendered-worker-1\" cannot be served"
        );
    }
}
