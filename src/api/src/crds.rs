//! The CustomResourceDefinitions made from these types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    ValidationRule,
};
use kube::CustomResourceExt as _;

use crate::config::{
    ClusterOperator, ClusterVersion, FeatureGate, Image, ImageDigestMirrorSet, ImageTagMirrorSet,
};
use crate::machineconfiguration::machine_config::MachineConfigDefinition;
use crate::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfigNode, MachineConfigPool,
    OSImageStream, PinnedImageSet,
};
use crate::operator::MachineConfiguration;
use crate::rollout::RolloutPolicy;

/// Annotation of objects of a release that a cluster of the default profile applies.
///
/// Source: `docs/reference/cvo.md`, "Manifest filters".
const IN_RELEASE: &str = "include.release.openshift.io/self-managed-high-availability";

/// All definitions, in the order of their files.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        ContainerRuntimeConfig::crd(),
        ControllerConfig::crd(),
        KubeletConfig::crd(),
        MachineConfigNode::crd(),
        MachineConfigPool::crd(),
        machine_config(),
        OSImageStream::crd(),
        pinned_image_set(),
        MachineConfiguration::crd(),
        RolloutPolicy::crd(),
        ClusterOperator::crd(),
        ClusterVersion::crd(),
        FeatureGate::crd(),
        ImageDigestMirrorSet::crd(),
        Image::crd(),
        ImageTagMirrorSet::crd(),
    ];
    for crd in &mut crds {
        let annotations = crd.metadata.annotations.get_or_insert_default();
        annotations.insert(IN_RELEASE.to_owned(), "true".to_owned());
        let kind = crd.spec.names.kind.clone();
        for schema in root_schemas(crd) {
            clean(schema);
            if kind == "MachineConfigNode" {
                schema.x_kubernetes_validations = Some(vec![named_after_its_node()]);
            }
            if kind == "ClusterVersion" {
                schema.x_kubernetes_validations = Some(vec![marketplace_needs_its_manager()]);
            }
        }
    }
    crds
}

/// Folders below `deploy` that hold definitions.
pub const FOLDERS: [&str; 2] = ["crds", "cvo/crds"];

/// Name of the file below `deploy`: `crds/<plural>.yaml`. Those that a cluster of OpenShift has
/// from elsewhere are apart, with the version operator.
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    let [ours, config] = FOLDERS;
    let is_config = crd.spec.group == "config.openshift.io";
    let folder = if is_config { config } else { ours };
    format!("{folder}/{}.yaml", crd.spec.names.plural)
}

/// First line of each generated file.
pub const HEADER: &str = "# Generated from src/api by crdgen; change the types, not this file.\n";

/// The definition of MachineConfigs, with `spec` optional as upstream's.
fn machine_config() -> CustomResourceDefinition {
    let mut crd = MachineConfigDefinition::crd();
    for schema in root_schemas(&mut crd) {
        schema.required = None;
    }
    crd
}

/// The definition of PinnedImageSets, with upstream's rules of an image's name.
fn pinned_image_set() -> CustomResourceDefinition {
    let mut crd = PinnedImageSet::crd();
    for schema in root_schemas(&mut crd) {
        let Some(spec) = field(schema, "spec") else {
            continue;
        };
        spec.required = Some(vec!["pinnedImages".to_owned()]);
        let images = field(spec, "pinnedImages").and_then(|images| images.items.as_mut());
        if let Some(JSONSchemaPropsOrArray::Schema(image)) = images
            && let Some(name) = field(image, "name")
        {
            name.x_kubernetes_validations = Some(names_a_digest());
        }
    }
    crd
}

fn field<'a>(schema: &'a mut JSONSchemaProps, name: &str) -> Option<&'a mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}

/// The schemas of all versions.
fn root_schemas(crd: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    crd.spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
}

/// Takes out what belongs to Rust only: names of types, the later paragraphs of descriptions, line
/// breaks of the source, and defaults. A default would be written into every object that is read,
/// upstream sets none, and our types read absent fields anyway.
fn clean(schema: &mut JSONSchemaProps) {
    schema.title = None;
    schema.default = None;
    if let Some(description) = &mut schema.description {
        if let Some(end) = description.find("\n\n") {
            description.truncate(end);
        }
        *description = description.replace('\n', " ");
    }
    schema
        .properties
        .iter_mut()
        .flat_map(|map| map.values_mut())
        .for_each(clean);
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => clean(item),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(clean),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &mut schema.additional_properties {
        clean(value);
    }
}

/// A MachineConfigNode carries the name of its node: a writer that may write one by name cannot
/// write for another node.
fn named_after_its_node() -> ValidationRule {
    ValidationRule {
        rule: "self.metadata.name == self.spec.node.name".to_owned(),
        message: Some("spec.node.name should match metadata.name".to_owned()),
        ..ValidationRule::default()
    }
}

/// Source: `pinnedimagesets.machineconfiguration.openshift.io`, rules of an image's name.
fn names_a_digest() -> Vec<ValidationRule> {
    let rule = |rule: &str, message: &str| ValidationRule {
        rule: rule.to_owned(),
        message: Some(message.to_owned()),
        ..ValidationRule::default()
    };
    vec![
        rule(
            "(self.split('@').size() == 2 && \
             self.split('@')[1].matches('^sha256:[a-f0-9]{64}$'))",
            "the OCI Image reference must end with a valid '@sha256:<digest>' suffix, where \
             '<digest>' is 64 characters long",
        ),
        rule(
            "(self.split('@')[0].matches('^([a-zA-Z0-9-]+\\\\.)+[a-zA-Z0-9-]+(:[0-9]{2,5})?/\
             ([a-zA-Z0-9-_]{0,61}/)?[a-zA-Z0-9-_.]*?$'))",
            "the OCI Image name should follow the host[:port][/namespace]/name format, resembling \
             a valid URL without the scheme",
        ),
    ]
}

/// Source: `clusterversions.config.openshift.io`, rules of the whole object.
fn marketplace_needs_its_manager() -> ValidationRule {
    let additional = "self.spec.capabilities.additionalEnabledCapabilities";
    let enabled = "self.status.capabilities.enabledCapabilities";
    let manager = "'OperatorLifecycleManager'";
    ValidationRule {
        rule: format!(
            "has(self.spec.capabilities) && has({additional}) && \
             has(self.spec.capabilities.baselineCapabilitySet) && \
             self.spec.capabilities.baselineCapabilitySet == 'None' && 'marketplace' in \
             {additional} ? {manager} in {additional} || (has(self.status) && \
             has(self.status.capabilities) && has({enabled}) && {manager} in {enabled}) : true"
        ),
        message: Some(
            "the `marketplace` capability requires the `OperatorLifecycleManager` capability, \
             which is neither explicitly or implicitly enabled in this cluster, please enable the \
             `OperatorLifecycleManager` capability"
                .to_owned(),
        ),
        ..ValidationRule::default()
    }
}
