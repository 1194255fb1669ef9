//! MachineConfig: what machines are configured to be; sources written by people and the rendered
//! result for a pool.

#![expect(
    clippy::duplicated_attributes,
    reason = "each printer column has a type; the lint does not know that they are nested"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{CustomResource, Resource};
use schemars::JsonSchema;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::{nullable, raw};

/// What a MachineConfig asks for.
///
/// Shape: absent fields read as empty. Written whole: a rendered configuration carries every field,
/// as one of OpenShift's MCO does, because its name is a hash over them. No status. Source:
/// `machineconfigs.machineconfiguration.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfig",
    root = "MachineConfigDefinition",
    shortname = "mc",
    doc = "MachineConfig defines the configuration of a machine.",
    printcolumn(
        name = "GeneratedByController",
        type_ = "string",
        description = "Version of the controller that generated the configuration; empty if no controller did.",
        json_path = ".metadata.annotations.machineconfiguration\\.openshift\\.io/generated-by-controller-version"
    ),
    printcolumn(
        name = "IgnitionVersion",
        type_ = "string",
        description = "Version of the Ignition config.",
        json_path = ".spec.config.ignition.version"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigSpec {
    /// Image of the extensions that belong to the OS image; empty: none named.
    #[serde(
        default,
        rename = "baseOSExtensionsContainerImage",
        deserialize_with = "nullable::or_default"
    )]
    pub base_os_extensions_container_image: String,
    /// An Ignition config, kept as it is written, unknown fields included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::object")]
    pub config: Option<Value>,
    /// Names of additional features of the OS.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub extensions: Vec<String>,
    /// Whether FIPS mode is on.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub fips: bool,
    /// Kernel arguments to add, each one or more words; order and repeats count.
    #[serde(default, deserialize_with = "nullable::or_default")]
    #[schemars(extend("nullable" = true))]
    pub kernel_arguments: Vec<String>,
    /// Kernel to run: `default`, `realtime`, `64k-pages`; empty: `default`.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub kernel_type: String,
    /// Pull spec of the OS image; empty: none named.
    #[serde(
        default,
        rename = "osImageURL",
        deserialize_with = "nullable::or_default"
    )]
    pub os_image_url: String,
}

/// A MachineConfig.
///
/// Shape: unlike [`MachineConfigDefinition`], which the definition is made from, it reads objects
/// without `spec`: the API accepts them, and one of them must not make the list unreadable. Source:
/// `machineconfigs.machineconfiguration.openshift.io`, version `v1`, cluster-scoped.
#[derive(Resource, Debug, Clone, Default, PartialEq, Deserialize)]
#[resource(inherit = "MachineConfigDefinition")]
pub struct MachineConfig {
    /// Name, labels (role), annotations, owner.
    pub metadata: ObjectMeta,
    /// What it asks for.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub spec: MachineConfigSpec,
}

impl MachineConfig {
    /// A configuration named `name`, without labels and annotations.
    pub fn new(name: &str, spec: MachineConfigSpec) -> Self {
        Self {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            spec,
        }
    }
}

impl Serialize for MachineConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("MachineConfig", 4)?;
        object.serialize_field("apiVersion", &Self::api_version(&()))?;
        object.serialize_field("kind", &Self::kind(&()))?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("spec", &self.spec)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::MachineConfig;

    #[test]
    fn object_without_spec_or_with_nulls_is_read() {
        let bare: MachineConfig =
            serde_json::from_value(json!({ "metadata": { "name": "00-worker" } })).unwrap();
        let nulls: MachineConfig = serde_json::from_value(json!({
            "metadata": { "name": "00-worker" },
            "spec": { "config": null, "kernelArguments": null, "extensions": null, "osImageURL": null }
        }))
        .unwrap();
        assert_eq!(bare, nulls);
    }

    #[test]
    fn unknown_ignition_fields_are_kept() {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": "50-x" },
            "spec": {
                "baseOSExtensionsContainerImage": "", "config": { "ignition": { "version": "3.5.0", "new": [1] } },
                "extensions": [], "fips": false, "kernelArguments": ["a=1", "a=1"], "kernelType": "", "osImageURL": ""
            }
        });
        let read: MachineConfig = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), object);
    }
}
