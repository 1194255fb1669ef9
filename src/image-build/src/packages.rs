//! Packages that an image gets besides its base: those of extensions and of another kernel.
//!
//! Which packages a name stands for is said by labels of the base image, which the builder's image
//! reads. Source: `docs/reference/image-mode.md`, "Packages".

use std::collections::BTreeSet;

use machineconfig::spec::{KernelType, Spec};

use crate::name::PartHash;
use crate::refusal::BuildRefusal;

/// What is requested of an image besides its base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePackages {
    /// Image with the repository of packages.
    pub repository: String,
    /// Names of extensions.
    pub extensions: BTreeSet<String>,
    /// Name of another kernel than that of the OS.
    pub kernel_type: Option<String>,
}

impl ImagePackages {
    /// What a rendered configuration requests; none where it is content with its OS image.
    ///
    /// # Errors
    /// It names no image with packages.
    pub fn read(object: &str, spec: &Spec) -> Result<Option<Self>, BuildRefusal> {
        let kernel_type = match &spec.kernel_type {
            KernelType::Default => None,
            KernelType::Named(name) => Some(name.clone()),
        };
        let extensions: BTreeSet<String> = spec.extensions.iter().cloned().collect();
        if kernel_type.is_none() && extensions.is_empty() {
            return Ok(None);
        }
        let field = "spec.baseOSExtensionsContainerImage";
        let image = &spec.base_os_extensions_container_image;
        let why = if image.is_empty() {
            "it names no image with the packages of extensions and kernels"
        } else if is_pull_spec(image) {
            return Ok(Some(Self {
                repository: image.clone(),
                extensions,
                kernel_type,
            }));
        } else {
            "it is no pull spec"
        };
        Err(BuildRefusal::new(&object, field, why))
    }

    /// The request as the builder's image reads it: a line for each name.
    pub fn text(&self) -> String {
        let kernel = self.kernel_type.iter();
        let kernel = kernel.map(|name| format!("kernel-type {name}\n"));
        let extensions = self.extensions.iter();
        let extensions = extensions.map(|name| format!("extension {name}\n"));
        kernel.chain(extensions).collect()
    }

    /// Adds the request to the digest of an image's content.
    pub(crate) fn add_to(&self, hash: PartHash) -> PartHash {
        hash.part(self.repository.as_bytes())
            .part(self.text().as_bytes())
    }
}

/// Whether a text can be the operand of `FROM`.
pub(crate) fn is_pull_spec(text: &str) -> bool {
    let is_foreign = |c: char| c.is_whitespace() || c.is_control() || c == '$';
    !text.is_empty() && !text.contains(is_foreign)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: &Value) -> Result<Option<ImagePackages>, String> {
        let (spec, _) = Spec::parse(spec).map_err(|error| error.to_string())?;
        let read = ImagePackages::read("MachineConfig r", &spec);
        read.map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn request_has_each_name_once() {
        let image = "quay.io/extensions@sha256:1";
        let nothing = json!({ "baseOSExtensionsContainerImage": image, "kernelType": "default" });
        assert_eq!(read(&nothing), Ok(None));
        assert_eq!(read(&json!({})), Ok(None));
        let all = json!({
            "baseOSExtensionsContainerImage": image, "kernelType": "realtime",
            "extensions": ["usbguard", "ipsec", "usbguard"],
        });
        let packages = read(&all).unwrap().unwrap();
        assert_eq!(packages.repository, image);
        assert_eq!(
            packages.text(),
            "kernel-type realtime\nextension ipsec\nextension usbguard\n"
        );
    }

    #[test]
    fn packages_without_an_image_that_has_them_are_refused() {
        let field = "MachineConfig r: spec.baseOSExtensionsContainerImage";
        for (image, why) in [
            (
                "",
                "it names no image with the packages of extensions and kernels",
            ),
            ("a b", "it is no pull spec"),
            ("$IMAGE", "it is no pull spec"),
        ] {
            for spec in [
                json!({ "extensions": ["usbguard"], "baseOSExtensionsContainerImage": image }),
                json!({ "kernelType": "realtime", "baseOSExtensionsContainerImage": image }),
            ] {
                assert_eq!(read(&spec), Err(format!("{field}: {why}")));
            }
        }
    }
}
