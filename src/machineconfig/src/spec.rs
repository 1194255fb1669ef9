//! A MachineConfig, read: its name and what it asks for.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use ignition::{self, Warning};

/// Most characters of the name of an extension or of a kernel type: it is part of a label's key.
const MAX_NAME: usize = 63;

/// `spec.kernelType`.
///
/// Which names there are is up to the OS image. Source: `docs/reference/image-mode.md`, "Packages".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KernelType {
    /// `default`: the kernel of the OS; also where none is named.
    #[default]
    Default,
    /// Another kernel, such as `realtime` or `64k-pages`.
    Named(String),
}

impl fmt::Display for KernelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Named(name) => name,
        })
    }
}

/// Whether this can be the name of an extension or of a kernel type: letters, digits, `.`, `_` and
/// `-`, of which the first is no sign.
fn is_name(text: &str) -> bool {
    let is_sign = |c: char| ['.', '_', '-'].contains(&c);
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || is_sign(c))
}

/// What a MachineConfig asks for: `spec`, valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// `osImageURL`; empty where the configuration names none.
    pub os_image_url: String,
    /// `baseOSExtensionsContainerImage`; empty where the configuration names none.
    pub base_os_extensions_container_image: String,
    /// `kernelType`.
    pub kernel_type: KernelType,
    /// `extensions`, repeats kept.
    pub extensions: Vec<String>,
    pub fips: bool,
    /// `kernelArguments`, as written: an item may hold several ([`crate::kargs::split`]).
    pub kernel_arguments: Vec<String>,
    pub ignition: ignition::Config,
}

/// Why a MachineConfig cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A member of the object has another type than its API says.
    #[error("cannot read {field}: {why}")]
    Read {
        /// JSON path of the member.
        field: String,
        /// What was found there, without its value: it may be a secret.
        why: String,
    },
    /// The object has no name.
    #[error("metadata.name is missing")]
    NoName,
    /// `spec.kernelType` is no name.
    #[error("spec.kernelType: kernelType={0} is invalid")]
    KernelType(String),
    /// `spec.extensions` has what is no name.
    #[error("spec.extensions: invalid extensions found: [{}]", .0.join(" "))]
    Extensions(Vec<String>),
    /// `spec.kernelArguments` cannot be split.
    #[error(transparent)]
    KernelArguments(#[from] crate::kargs::Error),
    /// `spec.config` is no valid Ignition configuration.
    #[error("spec.config: {0}")]
    Ignition(ignition::Error),
}

/// `spec` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    #[serde(rename = "osImageURL", default)]
    os_image_url: Option<String>,
    #[serde(rename = "baseOSExtensionsContainerImage", default)]
    base_os_extensions_container_image: Option<String>,
    #[serde(default)]
    kernel_type: Option<String>,
    #[serde(default)]
    extensions: Option<Vec<String>>,
    #[serde(default)]
    fips: Option<bool>,
    #[serde(default)]
    kernel_arguments: Option<Vec<String>>,
    #[serde(default)]
    config: Value,
}

impl Spec {
    /// Reads the `spec` of a MachineConfig; absent members ask for nothing.
    ///
    /// Warnings: members of the Ignition configuration that are lost, by their path in it.
    /// Source: `docs/reference/controller.md`, "MachineConfig" and "Source checks".
    ///
    /// # Errors
    /// [`Error`], naming the field.
    pub fn parse(spec: &Value) -> Result<(Self, Vec<Warning>), Error> {
        let (read, warnings) = Self::read_with(spec, ignition::parse)?;
        crate::kargs::split(&read.kernel_arguments)?;
        Ok((read, warnings))
    }

    fn read_with(
        spec: &Value,
        read_ignition: impl Fn(&Value) -> Result<(ignition::Config, Vec<Warning>), ignition::Error>,
    ) -> Result<(Self, Vec<Warning>), Error> {
        let written = if spec.is_null() {
            Written::default()
        } else {
            read(spec, "spec")?
        };
        let kernel_type = match written.kernel_type.as_deref() {
            None | Some("" | "default") => KernelType::Default,
            Some(name) if is_name(name) => KernelType::Named(name.to_owned()),
            Some(other) => return Err(Error::KernelType(other.to_owned())),
        };
        let extensions = written.extensions.unwrap_or_default();
        let invalid: Vec<String> = (extensions.iter())
            .filter(|extension| !is_name(extension))
            .cloned()
            .collect();
        if !invalid.is_empty() {
            return Err(Error::Extensions(invalid));
        }
        let kernel_arguments = written.kernel_arguments.unwrap_or_default();
        let (ignition, warnings) = read_ignition(&written.config).map_err(Error::Ignition)?;
        let spec = Self {
            os_image_url: written.os_image_url.unwrap_or_default(),
            base_os_extensions_container_image: written
                .base_os_extensions_container_image
                .unwrap_or_default(),
            kernel_type,
            extensions,
            fips: written.fips.unwrap_or_default(),
            kernel_arguments,
            ignition,
        };
        Ok((spec, warnings))
    }

    /// The spec as JSON, all seven members present: what is stored and what the name is made of.
    pub fn to_value(&self) -> Value {
        json!({
            "osImageURL": self.os_image_url,
            "baseOSExtensionsContainerImage": self.base_os_extensions_container_image,
            "config": self.ignition.to_value(),
            "kernelArguments": self.kernel_arguments,
            "extensions": self.extensions,
            "fips": self.fips,
            "kernelType": self.kernel_type.to_string(),
        })
    }

    /// The kernel arguments, one each.
    pub fn split_kernel_arguments(&self) -> Vec<String> {
        let items = self.kernel_arguments.iter();
        items
            .flat_map(|item| crate::kargs::split_line(item))
            .collect()
    }
}

/// Reads a value at the JSON path `at`.
fn read<T: DeserializeOwned>(value: &Value, at: &str) -> Result<T, Error> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let member = error.path().to_string();
        let field = if at.is_empty() {
            member
        } else {
            format!("{at}.{member}")
        };
        Error::Read {
            field,
            why: without_value(&error.into_inner().to_string()),
        }
    })
}

/// A message of the parser, `invalid type: string "x", expected a sequence`, without the value.
fn without_value(message: &str) -> String {
    // From the right, because the value may hold the same words.
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    let kind = found
        .split(['"', '`'])
        .next()
        .unwrap_or_default()
        .trim_end();
    format!("{kind}, expected {expected}")
}

/// A MachineConfig as a node holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec`, read.
    pub spec: Spec,
    /// `spec`, as it was written: what the node records.
    written: Value,
}

impl NodeConfig {
    /// Reads a MachineConfig that is to be gone to.
    ///
    /// # Errors
    /// [`Error`], naming the field.
    pub fn parse(object: &Value) -> Result<(Self, Vec<Warning>), Error> {
        Self::read_with(object, Spec::parse)
    }

    /// Reads a MachineConfig that is in force on a node, from the API or from the node's record. It
    /// may be one that Slipway would reject as a target, applied by a program that checks less; an
    /// update must be able to leave it.
    ///
    /// # Errors
    /// [`Error`], naming the field, where it cannot be read at all.
    pub fn in_force(object: &Value) -> Result<(Self, Vec<Warning>), Error> {
        Self::read_with(object, |spec| {
            Spec::read_with(spec, ignition::read_as_it_is)
        })
    }

    fn read_with(
        object: &Value,
        read_spec: impl Fn(&Value) -> Result<(Spec, Vec<Warning>), Error>,
    ) -> Result<(Self, Vec<Warning>), Error> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
            #[serde(default)]
            spec: Value,
        }
        #[derive(Deserialize)]
        struct Metadata {
            #[serde(default)]
            name: String,
            #[serde(default)]
            annotations: Option<BTreeMap<String, String>>,
        }
        let Object {
            metadata,
            spec: written,
        } = read(object, "")?;
        if metadata.name.is_empty() {
            return Err(Error::NoName);
        }
        let (spec, warnings) = read_spec(&written)?;
        let annotations = metadata.annotations.unwrap_or_default();
        Ok((
            Self {
                name: metadata.name,
                annotations,
                spec,
                written,
            },
            warnings,
        ))
    }

    /// The record of this configuration on a node: the object as JSON, without what only the API
    /// server needs.
    ///
    /// Source: `docs/reference/daemon.md`, "Host files";
    /// `/etc/machine-config-daemon/currentconfig`.
    pub fn record(&self) -> Vec<u8> {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": { "name": self.name, "annotations": self.annotations },
            "spec": self.written,
        });
        object.to_string().into_bytes()
    }

    /// The image of the OS: the layered image of the node if it has one, else the one the
    /// configuration names, if any.
    pub fn image<'a>(&'a self, layered: Option<&'a str>) -> Option<&'a str> {
        layered
            .or(Some(self.spec.os_image_url.as_str()))
            .filter(|image| !image.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_null_members_ask_for_nothing() {
        let (nothing, warnings) = Spec::parse(&Value::Null).unwrap();
        assert_eq!(warnings, []);
        assert_eq!(
            nothing.to_value(),
            json!({
                "osImageURL": "", "baseOSExtensionsContainerImage": "", "kernelArguments": [],
                "extensions": [], "fips": false, "kernelType": "default",
                "config": {"ignition": {"version": "3.5.0"}},
            })
        );
        let nulls = json!({"kernelArguments": null, "config": null, "kernelType": ""});
        assert_eq!(Spec::parse(&nulls).unwrap().0, nothing);
    }

    #[test]
    fn each_refusal_names_the_field() {
        for (spec, message) in [
            (
                json!({"kernelType": "fast one"}),
                "spec.kernelType: kernelType=fast one is invalid",
            ),
            (
                json!({"extensions": ["usbguard", "-vim", ""]}),
                "spec.extensions: invalid extensions found: [-vim ]",
            ),
            (
                json!({"kernelArguments": ["a\"b"]}),
                "spec.kernelArguments[0]: open quote in the item",
            ),
            (
                json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [
                    {"path": "etc/x"},
                ]}}}),
                "spec.config: storage.files[0].path: path not absolute: \"etc/x\"",
            ),
        ] {
            assert_eq!(Spec::parse(&spec).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_record_is_read_back_with_what_was_not_understood() {
        let object = json!({
            "metadata": {"name": "rendered-worker-1", "uid": "x", "annotations": {"a": "b"}},
            "spec": {"fips": true, "config": {"ignition": {"version": "3.2.0"}, "later": [1]}},
        });
        let (config, warnings) = NodeConfig::parse(&object).unwrap();
        assert_eq!(warnings.len(), 1);
        let record: Value = serde_json::from_slice(&config.record()).unwrap();
        assert_eq!(record["spec"], object["spec"]);
        assert_eq!(
            record["metadata"],
            json!({"name": "rendered-worker-1", "annotations": {"a": "b"}})
        );
        assert_eq!(NodeConfig::parse(&record).unwrap().0, config);
    }

    #[test]
    fn a_layered_image_goes_before_the_configurations() {
        let config = |url: &str| {
            let object = json!({"metadata": {"name": "a"}, "spec": {"osImageURL": url}});
            NodeConfig::parse(&object).unwrap().0
        };
        assert_eq!(config("os").image(None), Some("os"));
        assert_eq!(config("os").image(Some("layered")), Some("layered"));
        assert_eq!(config("").image(None), None);
    }

    #[test]
    fn an_error_of_type_does_not_quote_the_value() {
        for spec in [
            json!({"kernelArguments": "password=hunter2, expected nothing"}),
            json!({"kernelArguments": ["a", {"hunter2": 1}]}),
            json!({"fips": "hunter2"}),
        ] {
            let error = Spec::parse(&spec).unwrap_err().to_string();
            assert!(error.starts_with("cannot read spec."), "{error}");
            assert!(error.contains(": invalid type: "), "{error}");
            assert!(error.contains(", expected "), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_others_let_pass_can_be_left_and_not_gone_to() {
        let hash = format!("sha256-{}", "0".repeat(64));
        let file = json!({"path": "/etc/x", "contents": {"source": "data:,x", "verification": {"hash": hash}}});
        let config = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}});
        let spec = json!({"kernelArguments": ["a=\"b"], "config": config});
        let object = json!({"metadata": {"name": "r"}, "spec": spec});
        NodeConfig::parse(&object).unwrap_err();
        let (config, _) = NodeConfig::in_force(&object).unwrap();
        assert_eq!(config.spec.split_kernel_arguments(), ["a=\"b"]);
        // What cannot be read at all cannot be left either.
        NodeConfig::in_force(&json!({"metadata": {"name": "r"}, "spec": 1})).unwrap_err();
    }
}
