//! ConfigMap, Secrets and Job of a build, as values.
//!
//! All of them belong to the MachineOSBuild, so that they go with it, and have names that follow
//! from its own.
//! Source: `docs/reference/image-mode.md`, "Objects".

mod job;

use std::collections::BTreeMap;

use api::machineconfiguration::{MachineOSBuild, NAMESPACE, annotation, label};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::inputs::{
    CONTAINERFILE_KEY, CONTEXT_KEY, ImageInputs, PACKAGES_KEY, POLICY_KEY, REGISTRIES_KEY,
    TRUST_KEY,
};
use crate::login::{BuildLogin, LOGIN_KEY};
use crate::name::{LABEL_CHARS, cut};
use crate::packages::ImagePackages;
use crate::refusal::BuildRefusal;

pub use job::{ACCOUNT, CONTAINER, JobInput, job};

const API_VERSION: &str = "machineconfiguration.openshift.io/v1";
const KIND: &str = "MachineOSBuild";

/// Names of what is made for a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildObjectNames {
    pub job: String,
    /// ConfigMap with the input.
    pub input: String,
    /// Secret with which the base image is pulled.
    pub pull: String,
    /// Secret with which the image is pushed.
    pub push: String,
}

impl BuildObjectNames {
    /// Those of the build of this name.
    pub fn of(build: &str) -> Self {
        let name = |prefix: &str| cut(&format!("{prefix}-{build}"), LABEL_CHARS);
        Self {
            job: name("build"),
            input: name("input"),
            pull: name("pull"),
            push: name("push"),
        }
    }
}

/// Who owns what is made for a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildOwner<'a> {
    /// Name of the MachineOSBuild.
    pub build: &'a str,
    pub uid: &'a str,
    /// Name of its MachineOSConfig.
    pub config: &'a str,
    /// Name of its rendered MachineConfig.
    pub rendered: &'a str,
}

impl<'a> BuildOwner<'a> {
    /// The owner that a build is; none of an object that has no name or was never stored.
    pub fn of(build: &'a MachineOSBuild) -> Option<Self> {
        Some(Self {
            build: build.metadata.name.as_deref()?,
            uid: build.metadata.uid.as_deref()?,
            config: &build.spec.machine_os_config.name,
            rendered: &build.spec.machine_config.name,
        })
    }

    /// Labels of the build itself.
    fn build_labels(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            (label::MACHINE_OS_CONFIG, cut(self.config, LABEL_CHARS)),
            (label::TARGET_POOL, cut(self.config, LABEL_CHARS)),
            (label::RENDERED_CONFIG, cut(self.rendered, LABEL_CHARS)),
        ])
    }

    /// Labels of what is made for it.
    fn labels(&self) -> BTreeMap<&'static str, String> {
        let mut labels = self.build_labels();
        labels.insert(label::MACHINE_OS_BUILD, cut(self.build, LABEL_CHARS));
        labels.insert(label::EPHEMERAL_BUILD_OBJECT, String::new());
        labels
    }

    fn metadata(&self, name: &str) -> Value {
        json!({
            "name": name,
            "namespace": NAMESPACE,
            "labels": self.labels(),
            "ownerReferences": [{
                "apiVersion": API_VERSION, "kind": KIND, "name": self.build, "uid": self.uid,
                "controller": true, "blockOwnerDeletion": false,
            }],
        })
    }
}

/// The MachineOSBuild of inputs. It has no owner: what it made is still known once the
/// MachineOSConfig is gone, and the image is removed from its registry.
pub fn build(inputs: &ImageInputs) -> Value {
    let name = inputs.build_name();
    let owner = BuildOwner {
        build: &name,
        uid: "",
        config: &inputs.config,
        rendered: &inputs.rendered,
    };
    json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "labels": owner.build_labels(),
            "annotations": {
                annotation::IMAGE_CONTENT: inputs.content(),
                annotation::PUSH_SECRET: inputs.push_secret,
            },
        },
        "spec": {
            "machineConfig": { "name": inputs.rendered },
            "machineOSConfig": { "name": inputs.config },
            "renderedImagePushSpec": inputs.push.for_build(&name).to_string(),
        },
    })
}

/// The ConfigMap with the input of a build.
///
/// # Errors
/// The files of the image make no archive.
pub fn input(owner: BuildOwner<'_>, inputs: &ImageInputs) -> Result<Value, BuildRefusal> {
    let mut data = BTreeMap::from([(CONTAINERFILE_KEY, inputs.containerfile())]);
    let texts = [
        (REGISTRIES_KEY, inputs.registries.clone()),
        (POLICY_KEY, inputs.policy.clone()),
        (TRUST_KEY, Some(inputs.trust.clone())),
        (
            PACKAGES_KEY,
            inputs.packages.as_ref().map(ImagePackages::text),
        ),
    ];
    let present = texts
        .into_iter()
        .filter_map(|(key, text)| Some((key, text.filter(|text| !text.is_empty())?)));
    data.extend(present);
    let mut map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owner.metadata(&BuildObjectNames::of(owner.build).input),
        "immutable": true,
        "data": data,
    });
    if let (Some(context), Some(map)) = (inputs.context()?, map.as_object_mut()) {
        let binary = json!({ CONTEXT_KEY: BASE64_STANDARD.encode(context) });
        map.insert("binaryData".to_owned(), binary);
    }
    Ok(map)
}

/// The copies of the Secrets with which the base image is pulled, and the image pushed.
pub fn secrets(owner: BuildOwner<'_>, pull: &BuildLogin, push: &BuildLogin) -> [Value; 2] {
    let names = BuildObjectNames::of(owner.build);
    [(names.pull, pull), (names.push, push)].map(|(name, login)| {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": owner.metadata(&name),
            "type": "Opaque",
            "immutable": true,
            "data": { LOGIN_KEY: BASE64_STANDARD.encode(login.as_json()) },
        })
    })
}

#[cfg(test)]
mod tests;
