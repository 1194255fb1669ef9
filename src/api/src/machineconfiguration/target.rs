//! What a node is assigned: a rendered configuration, and in image mode an OS image with it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a node is assigned: the pair of its `desiredConfig` and `desiredImage` annotations.
///
/// Shape: `config` is a rendered MachineConfig's name; `image` the pull spec of the layered OS
/// image, absent where the node is not layered (the OS is then what the configuration's
/// `spec.osImageURL` names). As text, in annotations that name a target: `<config>`, or
/// `<config> <image>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// Name of the rendered MachineConfig.
    pub config: String,
    /// Pull spec of the layered OS image, without transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

impl Target {
    /// A configuration without a layered image.
    pub fn of_config(config: impl Into<String>) -> Self {
        Self {
            config: config.into(),
            image: None,
        }
    }

    /// The target that a text names; none of an empty one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let config = words.next().filter(|config| !config.is_empty())?;
        let image = words.next();
        let is_whole = words.next().is_none() && image.is_none_or(|image| !image.is_empty());
        is_whole.then(|| Self {
            config: config.to_owned(),
            image: image.map(ToOwned::to_owned),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.config)?;
        match &self.image {
            Some(image) => write!(f, " {image}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_target_reads_as_the_same() {
        let plain = Target::of_config("rendered-worker-1");
        let layered = Target {
            image: Some("registry:5000/os@sha256:0".to_owned()),
            ..plain.clone()
        };
        for (target, text) in [
            (&plain, "rendered-worker-1"),
            (&layered, "rendered-worker-1 registry:5000/os@sha256:0"),
        ] {
            assert_eq!(target.to_string(), text);
            assert_eq!(Target::parse(text).as_ref(), Some(target));
        }
        for none in ["", " ", "a ", " a", "a b c", "a  b"] {
            assert_eq!(Target::parse(none), None, "{none:?}");
        }
    }
}
