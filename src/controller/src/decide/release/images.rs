//! The images of a release, as its `ConfigMap`s name them.

use std::collections::BTreeMap;

use api::machineconfiguration::controller_config::{
    ControllerConfigCondition, ControllerConfigConditionType,
};
use api::machineconfiguration::{ControllerConfig, annotation};
use api::{ConditionStatus, condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use operator::watch::kept::ConfigMapData;
use release::os_streams::{self, ReleaseStreams, STREAMS_KEY};
use serde_json::{Value, json};

use crate::store::release_maps::{COMPONENT_IMAGES, OS_IMAGE};

/// Key in it: JSON, `releaseVersion` and images by name.
const IMAGES_KEY: &str = "images.json";

/// Key of the version, in both.
const VERSION_KEY: &str = "releaseVersion";

/// Name of the daemon's image in [`COMPONENT_IMAGES`].
pub const DAEMON: &str = "machineConfigDaemon";

/// Name of this program's image in [`COMPONENT_IMAGES`].
pub const CONTROLLER: &str = "machineConfigController";

/// Name of the image that builds OS images in [`COMPONENT_IMAGES`].
pub const OS_BUILDER: &str = "slipwayOsBuilder";

/// The image of a component of this version's release; none where the release names none.
pub fn component(components: Option<&ConfigMapData>, own: &str, name: &str) -> Option<String> {
    let mut images = of_components(components, own).ok()?;
    images.remove(name).filter(|image| !image.is_empty())
}

/// Why the images of a release cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A ConfigMap of this name is not there.
    #[error("ConfigMap {0} is missing")]
    NoMap(&'static str),
    /// What was read is another release's.
    #[error("refusing to read {what} version {found:?}, operator version {own:?}")]
    OtherVersion {
        /// ConfigMap or key.
        what: &'static str,
        found: String,
        own: String,
    },
    /// The OS has no image.
    #[error("ConfigMap {OS_IMAGE}: data.baseOSContainerImage names no image")]
    NoOsImage,
    /// There are no images of components.
    #[error("ConfigMap {COMPONENT_IMAGES}: data has no key {IMAGES_KEY}")]
    NoImages,
    /// The images of components cannot be read.
    #[error("ConfigMap {COMPONENT_IMAGES}: data.{IMAGES_KEY} is no map of texts")]
    ReadImages(#[source] serde_json::Error),
    /// The streams of OS images cannot be followed.
    #[error(transparent)]
    Streams(#[from] os_streams::Error),
    /// Pools that choose no stream have one that the release does not have.
    #[error(
        "OSImageStream cluster: stream {lost}, which pools have that choose none, is none of the release's ({streams}): name one of these in spec.defaultStream"
    )]
    LostDefault {
        lost: String,
        /// Names, joined by commas.
        streams: String,
    },
}

impl Error {
    fn other_version(what: &'static str, found: &str, own: &str) -> Self {
        let (found, own) = (found.to_owned(), own.to_owned());
        Self::OtherVersion { what, found, own }
    }
}

/// The images of a release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleaseImages {
    /// Version of the release.
    pub version: String,
    pub os: String,
    /// Its extensions; empty for none.
    pub extensions: String,
    /// Components by name.
    pub components: BTreeMap<String, String>,
    /// Its streams of OS images; none for a release of one OS.
    pub streams: Option<ReleaseStreams>,
}

impl ReleaseImages {
    /// Reads both `ConfigMap`s.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read(
        os: Option<&ConfigMapData>,
        components: Option<&ConfigMapData>,
        own: &str,
    ) -> Result<Self, Error> {
        let os = os.ok_or(Error::NoMap(OS_IMAGE))?;
        let of_os = |key: &str| os.data.get(key).map(String::as_str).unwrap_or_default();
        let found = of_os(VERSION_KEY);
        if found != own {
            return Err(Error::other_version(OS_IMAGE, found, own));
        }
        let image = [of_os("baseOSContainerImage"), of_os("osImageURL")];
        let image = image.into_iter().find(|image| !image.is_empty());
        let image = image.ok_or(Error::NoOsImage)?;
        let extensions = of_os("baseOSExtensionsContainerImage");
        let streams = os.data.get(STREAMS_KEY);
        let streams = streams.map(|text| ReleaseStreams::parse(text, image, extensions));
        Ok(Self {
            version: own.to_owned(),
            os: image.to_owned(),
            extensions: extensions.to_owned(),
            components: of_components(components, own)?,
            streams: streams.transpose()?,
        })
    }

    /// What of the ControllerConfig is another release's: a merge patch, guarded by the version of
    /// the object that was read. `release_image` is the release's pull spec, if it was read.
    pub fn change(&self, config: &ControllerConfig, release_image: Option<&str>) -> Option<Value> {
        let spec = &config.spec;
        let mut change = serde_json::Map::new();
        let mut text = |key: &str, before: &str, after: &str| {
            if before != after {
                change.insert(key.to_owned(), json!(after));
            }
        };
        text(
            "baseOSContainerImage",
            &spec.base_os_container_image,
            &self.os,
        );
        text(
            "baseOSExtensionsContainerImage",
            &spec.base_os_extensions_container_image,
            &self.extensions,
        );
        if let Some(release_image) = release_image {
            text("releaseImage", &spec.release_image, release_image);
        }
        if spec.images != self.components {
            // `null` removes the image of a component that the release does not have.
            let dropped = spec.images.keys().map(|name| (name, Value::Null));
            let named = self.components.iter();
            let named = named.map(|(name, image)| (name, json!(image)));
            let images: serde_json::Map<String, Value> = dropped
                .chain(named)
                .map(|(name, image)| (name.clone(), image))
                .collect();
            change.insert("images".to_owned(), Value::Object(images));
        }
        if change.is_empty() && self.is_named_by(config) {
            return None;
        }
        Some(json!({
            "metadata": {
                "resourceVersion": config.metadata.resource_version,
                "annotations": {
                    annotation::GENERATED_BY_VERSION: self.version,
                    annotation::RELEASE_IMAGE_VERSION: self.version,
                }
            },
            "spec": change
        }))
    }

    fn is_named_by(&self, config: &ControllerConfig) -> bool {
        let annotations = config.metadata.annotations.as_ref();
        let keys = [
            annotation::GENERATED_BY_VERSION,
            annotation::RELEASE_IMAGE_VERSION,
        ];
        keys.iter().all(|key| {
            annotations.and_then(|annotations| annotations.get(*key)) == Some(&self.version)
        })
    }
}

fn of_components(
    map: Option<&ConfigMapData>,
    own: &str,
) -> Result<BTreeMap<String, String>, Error> {
    let map = map.ok_or(Error::NoMap(COMPONENT_IMAGES))?;
    let text = map.data.get(IMAGES_KEY).ok_or(Error::NoImages)?;
    let images: Result<BTreeMap<String, String>, _> = serde_json::from_str(text);
    let mut images = images.map_err(Error::ReadImages)?;
    let found = images.remove(VERSION_KEY).unwrap_or_default();
    if found != own {
        return Err(Error::other_version(IMAGES_KEY, &found, own));
    }
    Ok(images)
}

/// The status of a ControllerConfig whose images are in place, where it does not have it yet. Base
/// configurations are no more than the release's MachineConfigs, so that it is complete at once.
///
/// Source: `docs/reference/controller.md`, "ControllerConfig".
pub fn completed(config: &ControllerConfig, version: &str, now: Timestamp) -> Option<Value> {
    use ControllerConfigConditionType::{Completed, Failing, Running};
    let generation = config.metadata.generation;
    let mut status = config.status.clone().unwrap_or_default();
    let before = status.clone();
    let message = format!(
        "sync completed towards ({}) generation using controller version {version}",
        generation.unwrap_or_default()
    );
    for (r#type, holds) in [(Completed, true), (Running, false), (Failing, false)] {
        let condition = ControllerConfigCondition {
            r#type,
            status: ConditionStatus::from(holds),
            last_transition_time: Some(Time(now)),
            reason: String::new(),
            message: if holds {
                message.clone()
            } else {
                String::new()
            },
        };
        condition::set(&mut status.conditions, condition);
    }
    status.observed_generation = generation;
    (status != before).then(|| {
        json!({
            "metadata": { "resourceVersion": config.metadata.resource_version },
            "status": { "conditions": status.conditions, "observedGeneration": generation }
        })
    })
}

#[cfg(test)]
mod tests;
