//! Which manifests of a release are extracted: those of a cluster, or requests for credentials.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, anyhow, bail};
use clap::ValueEnum;
use release::capability::Capabilities;
use release::inclusion::{Cluster, Exclusion};
use release::manifest::Manifest;
use release::payload::{Files, Payload};
use serde::Deserialize;

/// Profile of clusters that manage themselves, with several control-plane nodes; the default.
pub(crate) const PROFILE: &str = "self-managed-high-availability";

#[derive(Clone, Debug, Default)]
pub(crate) struct ManifestFilter {
    /// The cluster that they are for; none: any.
    pub(crate) cluster: Option<Cluster>,
    /// Whether only requests for credentials are kept.
    pub(crate) is_for_credentials: bool,
    /// Of these, the cloud that they are for.
    pub(crate) cloud: Option<Cloud>,
}

/// A cloud whose credentials operators ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Cloud {
    /// Alibaba Cloud
    #[value(name = "alibabacloud")]
    Alibaba,
    /// Amazon Web Services
    Aws,
    /// Microsoft Azure
    Azure,
    /// Google Cloud
    Gcp,
    /// IBM Cloud
    #[value(name = "ibmcloud")]
    Ibm,
    /// Nutanix
    Nutanix,
    /// Openstack
    OpenStack,
    /// Ovirt
    Ovirt,
    /// Power servers of IBM
    PowerVs,
    /// Vsphere
    Vsphere,
}

impl Cloud {
    /// Kind of `spec.providerSpec` of its requests.
    ///
    /// Source: the API of OpenShift's cloud-credential-operator.
    const fn provider_kind(self) -> &'static str {
        match self {
            Self::Alibaba => "AlibabaCloudProviderSpec",
            Self::Aws => "AWSProviderSpec",
            Self::Azure => "AzureProviderSpec",
            Self::Gcp => "GCPProviderSpec",
            Self::Ibm => "IBMCloudProviderSpec",
            Self::Nutanix => "NutanixProviderSpec",
            Self::OpenStack => "OpenStackProviderSpec",
            Self::Ovirt => "OvirtProviderSpec",
            Self::PowerVs => "IBMCloudPowerVSProviderSpec",
            Self::Vsphere => "VSphereProviderSpec",
        }
    }
}

/// What of an installation's settings decides which manifests it gets.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InstallConfig {
    feature_set: String,
    /// `<gate>=true` or `<gate>=false`.
    feature_gates: Vec<String>,
    capabilities: Option<InstallCapabilities>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InstallCapabilities {
    baseline_capability_set: String,
    additional_enabled_capabilities: BTreeSet<String>,
}

/// A cluster of a profile and of the release's major version, as an install-config.yaml describes
/// it; without one, a cluster with all capabilities.
pub(crate) fn cluster(
    profile: &str,
    major: u64,
    install_config: Option<&str>,
) -> anyhow::Result<Cluster> {
    let config: InstallConfig = match install_config {
        Some(text) => {
            let options = serde_saphyr::options! { with_snippet: false };
            serde_saphyr::from_str_with_options(text, options)?
        }
        None => InstallConfig::default(),
    };
    let mut gates = BTreeSet::new();
    for (number, written) in config.feature_gates.iter().enumerate() {
        match written.split_once('=') {
            Some((name, "true")) => {
                gates.insert(name.to_owned());
            }
            Some((_, "false")) => {}
            _ => {
                bail!("featureGates[{number}]: {written:?} is neither <gate>=true nor <gate>=false")
            }
        }
    }
    let none = BTreeSet::new();
    let capabilities = match config.capabilities {
        Some(settings) => Capabilities::resolve(
            &settings.baseline_capability_set,
            &settings.additional_enabled_capabilities,
            &none,
            &none,
            &gates,
        ),
        None => Capabilities::all(&gates),
    };
    Ok(Cluster {
        profile: profile.to_owned(),
        feature_set: config.feature_set,
        gates,
        major: Some(major),
        capabilities: Some(capabilities),
        ..Cluster::default()
    })
}

impl ManifestFilter {
    /// The files of the manifests that are kept. A file of which all is kept stays byte for byte;
    /// of another the kept documents are printed.
    ///
    /// # Errors
    /// A manifest that contradicts itself.
    pub(crate) fn files(&self, payload: &Payload, files: &Files) -> anyhow::Result<Files> {
        let mut by_file: BTreeMap<&str, Vec<(&Manifest, bool)>> = BTreeMap::new();
        for manifest in &payload.manifests {
            let is_kept = self.keeps(manifest).with_context(|| {
                format!("file {}, document {}", manifest.file, manifest.document)
            })?;
            let of_file = by_file.entry(&manifest.file).or_default();
            of_file.push((manifest, is_kept));
        }
        let mut kept = Files::new();
        for (name, manifests) in by_file {
            if manifests.iter().all(|(_, is_kept)| *is_kept) {
                kept.extend(
                    files
                        .get_key_value(name)
                        .map(|(name, bytes)| (name.clone(), bytes.clone())),
                );
                continue;
            }
            let mut text = String::new();
            for (manifest, _) in manifests.iter().filter(|(_, is_kept)| *is_kept) {
                text.push_str("---\n");
                text.push_str(&serde_saphyr::to_string(&manifest.object)?);
            }
            if !text.is_empty() {
                kept.insert(name.to_owned(), text.into_bytes());
            }
        }
        Ok(kept)
    }

    fn keeps(&self, manifest: &Manifest) -> anyhow::Result<bool> {
        if self.is_for_credentials {
            let kind = manifest.text("/spec/providerSpec/kind");
            let is_asked = self
                .cloud
                .is_none_or(|cloud| kind == Some(cloud.provider_kind()));
            if manifest.id.kind != "CredentialsRequest" || !is_asked {
                return Ok(false);
            }
        }
        let Some(cluster) = &self.cluster else {
            return Ok(true);
        };
        let annotations: BTreeMap<String, String> = manifest
            .annotations()
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        match cluster.exclusion(&manifest.id, &annotations) {
            None => Ok(true),
            Some(wrong @ Exclusion::SetAndGate) => Err(anyhow!("{}: {wrong}", manifest.id)),
            Some(_) => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::info::tests::info;

    const INCLUDE: &str = "include.release.openshift.io/self-managed-high-availability: 'true'";

    fn object(name: &str, kind: &str, annotations: &str, rest: &str) -> String {
        format!(
            "apiVersion: v1\nkind: {kind}\nmetadata: {{ name: {name}, annotations: {{ {annotations} }} }}\n{rest}\n---\n"
        )
    }

    fn kept(
        filter: &ManifestFilter,
        texts: &[(&str, String)],
    ) -> anyhow::Result<Vec<(String, String)>> {
        let mut payload = info().payload;
        let mut files = Files::new();
        payload.manifests.clear();
        for (name, text) in texts {
            payload
                .manifests
                .extend(Manifest::parse(name, text.as_bytes())?);
            files.insert((*name).to_owned(), text.clone().into_bytes());
        }
        let kept = filter.files(&payload, &files)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(kept
            .into_iter()
            .map(|(name, bytes)| (name, text(bytes)))
            .collect())
    }

    fn included(install_config: Option<&str>) -> ManifestFilter {
        ManifestFilter {
            cluster: Some(cluster(PROFILE, 4, install_config).unwrap()),
            ..ManifestFilter::default()
        }
    }

    #[test]
    fn a_cluster_gets_what_is_for_its_profile_and_capabilities() {
        let whole = object("a", "ConfigMap", INCLUDE, "");
        let console = format!("{INCLUDE}, capability.openshift.io/name: Console");
        let mixed = object("b", "ConfigMap", &console, "") + &object("c", "ConfigMap", INCLUDE, "");
        let foreign = object(
            "d",
            "ConfigMap",
            "include.release.openshift.io/other: 'true'",
            "",
        );
        let texts = [
            ("a.yaml", whole.clone()),
            ("b.yaml", mixed.clone()),
            ("d.yaml", foreign),
        ];
        let all = kept(&included(None), &texts).unwrap();
        assert_eq!(
            all,
            [("a.yaml".to_owned(), whole), ("b.yaml".to_owned(), mixed)]
        );
        let other = ManifestFilter {
            cluster: Some(cluster("other", 4, None).unwrap()),
            ..ManifestFilter::default()
        };
        let other = kept(&other, &texts).unwrap();
        assert!(
            matches!(&other[..], [(name, _)] if name == "d.yaml"),
            "{other:?}"
        );
        let bare = "capabilities: { baselineCapabilitySet: None }\n";
        let some = kept(&included(Some(bare)), &texts).unwrap();
        assert_eq!(some.len(), 2);
        assert!(
            !some[1].1.contains("name: b") && some[1].1.contains("name: c"),
            "{some:?}"
        );
    }

    #[test]
    fn requests_for_credentials_are_kept_by_their_cloud() {
        let request = |name: &str, kind: &str| {
            let spec = format!("spec: {{ providerSpec: {{ kind: {kind} }} }}");
            object(name, "CredentialsRequest", INCLUDE, &spec)
        };
        let texts = [
            ("a.yaml", request("a", "AWSProviderSpec")),
            ("g.yaml", request("g", "GCPProviderSpec")),
            ("x.yaml", object("x", "ConfigMap", INCLUDE, "")),
        ];
        let names = |cloud| {
            let filter = ManifestFilter {
                is_for_credentials: true,
                cloud,
                ..ManifestFilter::default()
            };
            let kept = kept(&filter, &texts).unwrap();
            kept.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["a.yaml", "g.yaml"]);
        assert_eq!(names(Some(Cloud::Gcp)), ["g.yaml"]);
        assert_eq!(names(Some(Cloud::Vsphere)), [""; 0]);
    }

    #[test]
    fn what_contradicts_itself_is_named() {
        let both = format!(
            "{INCLUDE}, release.openshift.io/feature-set: Default, release.openshift.io/feature-gate: X"
        );
        let texts = [("a.yaml", object("a", "ConfigMap", &both, ""))];
        let error = format!("{:#}", kept(&included(None), &texts).unwrap_err());
        assert!(
            error.starts_with("file a.yaml, document 1: ConfigMap a: both "),
            "{error}"
        );
        let error = cluster(PROFILE, 4, Some("featureGates: [X]\n"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("featureGates[0]: \"X\" is neither"),
            "{error}"
        );
        assert!(cluster(PROFILE, 4, Some("featureSet: [\n")).is_err());
    }
}
