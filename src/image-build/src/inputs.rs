//! All that an image is made from, read from the objects that say so.

use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineOSConfig};
use ignition::content;
use machineconfig::spec::NodeConfig;

use crate::architecture::ImageArchitecture;
use crate::containerfile::{self, Stages};
use crate::files::{self, ImageFile};
use crate::name::{self, PartHash};
use crate::packages::{ImagePackages, is_pull_spec};
use crate::push_spec::PushSpec;
use crate::refusal::BuildRefusal;

/// Form of the stages that [`containerfile::compose`] makes; part of an image's content.
const STAGES: &str = "1";

const REGISTRIES: &str = "/etc/containers/registries.conf";
const POLICY: &str = "/etc/containers/policy.json";

/// Most bytes of a ConfigMap. Source: Kubernetes documentation, page of ConfigMap.
pub const MAX_INPUT_BYTES: usize = 1 << 20;

/// Keys of the ConfigMap, as the builder's image reads them.
pub const CONTAINERFILE_KEY: &str = "Containerfile";
pub const CONTEXT_KEY: &str = "context.tar.gz";
pub const REGISTRIES_KEY: &str = "registries.conf";
pub const POLICY_KEY: &str = "policy.json";
pub const TRUST_KEY: &str = "ca-bundle.crt";
pub const PACKAGES_KEY: &str = "packages";

/// The objects that an image is made from.
#[derive(Debug, Clone, Copy)]
pub struct InputSources<'a> {
    pub config: &'a MachineOSConfig,
    /// The pool's rendered MachineConfig.
    pub rendered: &'a MachineConfig,
    /// Without it there are no proxy and no certificates.
    pub cluster: Option<&'a ControllerConfig>,
    pub architecture: ImageArchitecture,
}

/// The cluster's proxy; empty where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildProxy {
    pub http: String,
    pub https: String,
    pub no_proxy: String,
}

/// What an image is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInputs {
    /// Name of the MachineOSConfig, which is that of its pool.
    pub config: String,
    /// Name of the rendered MachineConfig.
    pub rendered: String,
    pub architecture: ImageArchitecture,
    pub base_image: String,
    /// Packages that it gets besides.
    pub packages: Option<ImagePackages>,
    /// What people wrote for the architecture.
    pub written: String,
    /// Files of the configuration that belong to the image, by path.
    pub files: Vec<ImageFile>,
    /// Where it is pushed to.
    pub push: PushSpec,
    /// Secret in the namespace with which it is pushed.
    pub push_secret: String,
    /// Secret in the namespace with which the base image is pulled; none: that of the cluster.
    pub pull_secret: Option<String>,
    /// `registries.conf` of the configuration.
    pub registries: Option<String>,
    /// `policy.json` of the configuration.
    pub policy: Option<String>,
    /// Certificates of the cluster, PEM; empty where there are none.
    pub trust: String,
    pub proxy: BuildProxy,
}

impl ImageInputs {
    /// Reads all inputs.
    ///
    /// # Errors
    /// The first of them that no image can be built from.
    pub fn read(sources: InputSources<'_>) -> Result<Self, BuildRefusal> {
        let InputSources {
            config,
            rendered,
            cluster,
            architecture,
        } = sources;
        let name = config.metadata.name.clone().unwrap_or_default();
        let object = format!("MachineOSConfig {name}");
        let spec = &config.spec;
        let refuse = |field: &str, why: &str| Err(BuildRefusal::new(&object, field, why));
        if spec.machine_config_pool.name != name {
            return refuse(
                "spec.machineConfigPool.name",
                "it is not the object's own name",
            );
        }
        if spec.image_builder.image_builder_type != "Job" {
            return refuse("spec.imageBuilder.imageBuilderType", "it is not Job");
        }
        let push_secret = spec.rendered_image_push_secret.name.clone();
        if push_secret.is_empty() {
            return refuse("spec.renderedImagePushSecret.name", "it is empty");
        }
        let pull_secret = spec.base_image_pull_secret.as_ref();
        let pull_secret = pull_secret.map(|secret| secret.name.clone());
        if pull_secret.as_deref() == Some("") {
            return refuse("spec.baseImagePullSecret.name", "it is empty");
        }
        let push = PushSpec::parse(&spec.rendered_image_push_spec)
            .map_err(|why| BuildRefusal::new(&object, "spec.renderedImagePushSpec", why))?;
        let written = containerfile::choose(&object, &spec.container_file, architecture)?;
        let node = read_rendered(rendered)?;
        let rendered_object = format!("MachineConfig {}", node.name);
        let base_image = base_image(&rendered_object, &node)?;
        let packages = ImagePackages::read(&rendered_object, &node.spec)?;
        let ignition_files = &node.spec.ignition.storage.files;
        let text = |path: &str| text_of(&rendered_object, ignition_files, path);
        let inputs = Self {
            architecture,
            base_image,
            packages,
            written: written.to_owned(),
            files: files::of_config(&rendered_object, ignition_files)?,
            push,
            push_secret,
            pull_secret,
            registries: text(REGISTRIES)?,
            policy: text(POLICY)?,
            trust: cluster.map(trust).transpose()?.unwrap_or_default(),
            proxy: cluster.map(proxy).unwrap_or_default(),
            config: name,
            rendered: node.name,
        };
        inputs.check_size(&object)?;
        Ok(inputs)
    }

    /// SHA-256 of all that is in the image, in hexadecimal digits: two builds with the same have
    /// one image.
    pub fn content(&self) -> String {
        let mut hash = PartHash::default()
            .part(STAGES.as_bytes())
            .part(self.architecture.as_label().as_bytes())
            .part(self.base_image.as_bytes())
            .part(self.written.as_bytes())
            .part(self.push.repository().as_bytes());
        if let Some(packages) = &self.packages {
            hash = packages.add_to(hash);
        }
        for file in &self.files {
            hash = hash
                .part(file.path.as_bytes())
                .part(&file.mode.to_be_bytes())
                .part(file.owner.as_deref().unwrap_or_default().as_bytes())
                .part(&file.bytes);
        }
        hash.finish()
    }

    /// Name of the MachineOSBuild.
    pub fn build_name(&self) -> String {
        name::build_name(&self.config, &self.content(), &self.rendered)
    }

    /// The Containerfile.
    pub fn containerfile(&self) -> String {
        let groups = files::by_owner(&self.files);
        containerfile::compose(&Stages {
            base_image: &self.base_image,
            packages: self.packages.as_ref(),
            build: &self.build_name(),
            files: &groups,
            written: &self.written,
        })
    }

    /// The archive of the build context; none where the configuration has no file for the image.
    ///
    /// # Errors
    /// A file whose path no archive can hold.
    pub fn context(&self) -> Result<Option<Vec<u8>>, BuildRefusal> {
        if self.files.is_empty() {
            return Ok(None);
        }
        let archive = files::archive(&files::by_owner(&self.files)).map_err(|error| {
            let object = format!("MachineConfig {}", self.rendered);
            BuildRefusal::new(&object, "spec.config.storage.files", error.to_string())
        })?;
        Ok(Some(archive))
    }

    fn check_size(&self, object: &str) -> Result<(), BuildRefusal> {
        let context = self.context()?;
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let sizes = [
            (CONTEXT_KEY, context.map_or(0, |archive| archive.len())),
            (CONTAINERFILE_KEY, self.containerfile().len()),
            (REGISTRIES_KEY, length(&self.registries)),
            (POLICY_KEY, length(&self.policy)),
            (TRUST_KEY, self.trust.len()),
            (
                PACKAGES_KEY,
                self.packages.as_ref().map_or(0, |it| it.text().len()),
            ),
        ];
        let total: usize = sizes.iter().map(|(key, size)| key.len() + size).sum();
        if total <= MAX_INPUT_BYTES {
            return Ok(());
        }
        let (key, size) = sizes
            .into_iter()
            .max_by_key(|(_, size)| *size)
            .unwrap_or_default();
        let rendered = format!("MachineConfig {}", self.rendered);
        let (object, field) = if key == CONTEXT_KEY {
            (rendered.as_str(), "spec.config.storage.files")
        } else {
            (object, "spec")
        };
        let why = format!(
            "the input of the build has {total} bytes, {size} of them in {key}; a ConfigMap holds {MAX_INPUT_BYTES}"
        );
        Err(BuildRefusal::new(&object, field, why))
    }
}

/// Reads a rendered configuration.
fn read_rendered(rendered: &MachineConfig) -> Result<NodeConfig, BuildRefusal> {
    let name = rendered.metadata.name.as_deref().unwrap_or_default();
    let object = format!("MachineConfig {name}");
    let value = serde_json::to_value(rendered)
        .map_err(|error| BuildRefusal::new(&object, "spec", error.to_string()))?;
    // Its own message names the field below.
    let (node, _) = NodeConfig::in_force(&value)
        .map_err(|error| BuildRefusal::new(&object, "spec", error.to_string()))?;
    Ok(node)
}

fn base_image(object: &str, node: &NodeConfig) -> Result<String, BuildRefusal> {
    let image = &node.spec.os_image_url;
    let why = if image.is_empty() {
        "it names no image to build on"
    } else if is_pull_spec(image) {
        return Ok(image.clone());
    } else {
        "it is no pull spec"
    };
    Err(BuildRefusal::new(&object, "spec.osImageURL", why))
}

/// The text of a file of the configuration, if it has it.
fn text_of(
    object: &str,
    files: &[ignition::File],
    path: &str,
) -> Result<Option<String>, BuildRefusal> {
    let Some((file, place)) = files
        .iter()
        .zip(0_usize..)
        .find(|(file, _)| file.path == path)
    else {
        return Ok(None);
    };
    let field = format!("spec.config.storage.files[{place}].contents");
    let bytes = content::decode(&file.contents)
        .map_err(|error| BuildRefusal::new(&object, &field, format!("{path}: {error}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| BuildRefusal::new(&object, &field, format!("{path}: it is no text")))?;
    Ok(Some(text))
}

/// Settings of pulls that a rendered configuration has, if it has them and they can be read.
pub fn registries(rendered: &MachineConfig) -> Option<String> {
    let node = read_rendered(rendered).ok()?;
    text_of("", &node.spec.ignition.storage.files, REGISTRIES).ok()?
}

/// Certificates that registries and proxies of the cluster are trusted by, each once; PEM.
///
/// # Errors
/// A bundle that is no text.
pub fn trust(cluster: &ControllerConfig) -> Result<String, BuildRefusal> {
    let spec = &cluster.spec;
    let additional = spec.additional_trust_bundle.iter();
    let additional = additional.map(|bundle| ("spec.additionalTrustBundle".to_owned(), &bundle.0));
    let of_registries = [
        ("imageRegistryBundleData", &spec.image_registry_bundle_data),
        (
            "imageRegistryBundleUserData",
            &spec.image_registry_bundle_user_data,
        ),
    ];
    let of_registries = of_registries.into_iter().flat_map(|(field, bundles)| {
        let bundles = bundles.iter().zip(0_usize..);
        bundles.map(move |(bundle, place)| (format!("spec.{field}[{place}].data"), &bundle.data.0))
    });
    let mut texts: Vec<&str> = Vec::new();
    for (field, bytes) in additional.chain(of_registries) {
        let text = std::str::from_utf8(bytes).map_err(|_| {
            let name = cluster.metadata.name.as_deref().unwrap_or_default();
            let object = format!("ControllerConfig {name}");
            BuildRefusal::new(&object, &field, "it is no text in PEM")
        })?;
        let text = text.trim();
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }
    Ok(texts.into_iter().flat_map(|text| [text, "\n"]).collect())
}

/// The proxy of the cluster, as its status has it.
fn proxy(cluster: &ControllerConfig) -> BuildProxy {
    let proxy = cluster.spec.proxy.as_ref();
    let text = |field: &str| {
        let value = proxy.and_then(|proxy| proxy.get(field)?.as_str());
        value.unwrap_or_default().to_owned()
    };
    BuildProxy {
        http: text("httpProxy"),
        https: text("httpsProxy"),
        no_proxy: text("noProxy"),
    }
}

#[cfg(test)]
mod tests;
