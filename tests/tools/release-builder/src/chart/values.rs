//! Values of the chart: images by component, and which components are on.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use image_builder::component::COMPONENTS;
use release::PullSpec;
use serde_json::{Map, Value, json};

use crate::images;

/// What turns objects on: `components.<name>.enabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Switch {
    ConfigServer,
    VersionOperator,
    ManagedUpgrade,
    UpdateService,
    Monitoring,
}

impl Switch {
    const ALL: [Self; 5] = [
        Self::ConfigServer,
        Self::VersionOperator,
        Self::ManagedUpgrade,
        Self::UpdateService,
        Self::Monitoring,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::ConfigServer => "configServer",
            Self::VersionOperator => "versionOperator",
            Self::ManagedUpgrade => "managedUpgrade",
            Self::UpdateService => "updateService",
            Self::Monitoring => "monitoring",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::ConfigServer => "mcs on control-plane nodes; daemons read configurations from it",
            Self::VersionOperator => "cvo, and the CRDs of the cluster's release",
            Self::ManagedUpgrade => "muo; needs OpenShift's machine API and monitoring",
            Self::UpdateService => "the update service of a site",
            Self::Monitoring => "alerts, dashboards and monitors; needs the Prometheus operator",
        }
    }

    /// Whether it is on by default: what the kustomization of `deploy/` itself applies.
    const fn is_default(self) -> bool {
        matches!(self, Self::ConfigServer)
    }

    /// The value in a template.
    pub(super) fn path(self) -> String {
        format!(".Values.components.{}.enabled", self.name())
    }
}

/// The key of a component below `images`: `slipway-update-service` is `updateService`.
pub(super) fn key(component: &str) -> String {
    let words = component.trim_start_matches("slipway-").split('-');
    let mut key = String::new();
    for word in words {
        let mut characters = word.chars();
        let first = characters.next().filter(|_| !key.is_empty());
        match first {
            Some(first) => key.extend(first.to_uppercase().chain(characters)),
            None => key.push_str(word),
        }
    }
    key
}

/// `values.yaml`.
///
/// # Errors
/// A component has no pull spec.
pub(super) fn defaults(images: &BTreeMap<&str, PullSpec>) -> Result<String> {
    let mut text = "# The image of each component, by digest.\nimages:\n".to_owned();
    for component in COMPONENTS {
        let image = images::of(images, component)?;
        let (key, title) = (key(component.name), component.title);
        let (repository, digest) = (images::repository(image), image.digest());
        write!(
            text,
            "  # {title}\n  {key}:\n    repository: {repository}\n    digest: {digest}\n"
        )?;
    }
    text.push_str(
        "# Which components are installed besides the daemon, operator and controller.\n",
    );
    text.push_str("components:\n");
    for switch in Switch::ALL {
        let (name, description) = (switch.name(), switch.description());
        let is_on = switch.is_default();
        write!(text, "  # {description}\n  {name}:\n    enabled: {is_on}\n")?;
    }
    Ok(text)
}

/// `values.schema.json`, of draft 7. Helm adds `global` to the values of each chart.
///
/// # Errors
/// None: the schema is a value of this module.
pub(super) fn schema() -> Result<String> {
    let mut images = Map::new();
    for component in COMPONENTS {
        let properties = json!({
            "repository": {
                "type": "string",
                "description": "Repository without tag and digest, such as that of a mirror",
                "pattern": "^[^@\\s]+$"
            },
            "digest": {
                "type": "string",
                "description": "Digest of the image's manifest",
                "pattern": "^sha256:[0-9a-f]{64}$"
            }
        });
        images.insert(key(component.name), object(component.title, &properties));
    }
    let mut components = Map::new();
    for switch in Switch::ALL {
        let properties = json!({
            "enabled": {
                "type": "boolean",
                "description": "Whether its objects are installed",
                "default": switch.is_default()
            }
        });
        components.insert(
            switch.name().to_owned(),
            object(switch.description(), &properties),
        );
    }
    let properties = json!({
        "images": object("The image of each component, by digest", &Value::Object(images)),
        "components": object("Which components are installed", &Value::Object(components)),
        "global": {
            "type": "object",
            "description": "Values of a chart that this one is a part of; none is read"
        }
    });
    let draft = "http://json-schema.org/draft-07/schema#";
    let mut schema = Map::from_iter([("$schema".to_owned(), json!(draft))]);
    if let Value::Object(all) = object("Values of the chart slipway", &properties) {
        schema.extend(all);
    }
    // Helm may leave `global` out.
    schema.insert("required".to_owned(), json!(["images", "components"]));
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

/// The schema of a map with exactly these fields.
fn object(description: &str, properties: &Value) -> Value {
    let required: Vec<_> = properties
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .collect();
    json!({
        "type": "object",
        "description": description,
        "additionalProperties": false,
        "required": required,
        "properties": properties
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_without_hyphens() {
        assert_eq!(key("slipway-mcc"), "mcc");
        assert_eq!(key("slipway-update-service"), "updateService");
    }
}
