//! What is kept of a MachineConfig: never its content.
//!
//! A cluster holds hundreds of rendered configurations of some hundred kilobytes each. None of them
//! is read here but the one that a pool runs, and the sources only while they are rendered.

use std::collections::BTreeMap;

use api::machineconfiguration::{MachineConfig, annotation};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;

/// The object that controls a MachineConfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigOwner {
    pub kind: String,
    pub uid: String,
}

/// Metadata of a MachineConfig.
///
/// Source: `PartialObjectMetadata` of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMeta {
    pub name: String,
    pub uid: String,
    /// Version of the object that was read.
    pub resource_version: String,
    /// When the object was made.
    pub created: Option<Timestamp>,
    /// Generation of its spec.
    pub generation: Option<i64>,
    /// Labels, by which pools select it.
    pub labels: BTreeMap<String, String>,
    /// Build of the controller that made it; absent on what a person wrote.
    pub generated_by: Option<String>,
    /// Release it was rendered for.
    pub release_version: Option<String>,
    /// Uid of the pool that it was rendered for; absent on what a person wrote.
    pub pool: Option<String>,
    /// The object that it was made for; absent on what a person wrote.
    pub controller: Option<ConfigOwner>,
    /// Whether it says that a user replaced the OS image.
    pub is_image_overridden: bool,
    /// Whether it says that it is a base configuration of this controller's templates.
    pub is_base_template: bool,
    /// Whether it says that it was rendered while there was no ControllerConfig.
    pub is_without_controller_config: bool,
}

impl ConfigMeta {
    pub fn parse(object: PartialObjectMeta<MachineConfig>) -> Self {
        Self::of(object.metadata)
    }

    /// Keeps what is needed of the metadata.
    pub(crate) fn of(metadata: ObjectMeta) -> Self {
        let controller = metadata
            .owner_references
            .into_iter()
            .flatten()
            .find(|owner| owner.controller == Some(true))
            .map(|owner| ConfigOwner {
                kind: owner.kind,
                uid: owner.uid,
            });
        let mut annotations = metadata.annotations.unwrap_or_default();
        let mut take = |key: &str| annotations.remove(key).filter(|value| !value.is_empty());
        Self {
            generated_by: take(annotation::GENERATED_BY_CONTROLLER_VERSION),
            release_version: take(annotation::RELEASE_IMAGE_VERSION),
            is_image_overridden: take(annotation::OS_IMAGE_URL_OVERRIDDEN).as_deref()
                == Some("true"),
            is_base_template: take(annotation::BASE_TEMPLATE).is_some(),
            is_without_controller_config: take(annotation::WITHOUT_CONTROLLER_CONFIG).as_deref()
                == Some("true"),
            pool: controller
                .as_ref()
                .filter(|owner| owner.kind == "MachineConfigPool")
                .map(|owner| owner.uid.clone()),
            controller,
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            generation: metadata.generation,
            labels: metadata.labels.unwrap_or_default(),
        }
    }
}
