//! Certificates, as the operator of a cluster publishes them to its nodes.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use api::machineconfiguration::{ControllerConfig, annotation, controller_config};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chassis::http::certificate::facts::facts;
use kube::Api;
use kube::api::{Patch, PatchParams};
use lab::manifest;
use serde_json::{Value, json};

use crate::{Cluster, SOON, until};

/// Version of the release that the programs under test were built for.
pub const VERSION: &str = match option_env!("SLIPWAY_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Versions of a ControllerConfig with the same certificates.
#[derive(Debug, Clone)]
pub struct RotatedVersions {
    /// Before the controller named them in its status.
    pub published: String,
    /// After that.
    pub named: String,
}

impl RotatedVersions {
    /// Whether `version` is one of them.
    pub fn has(&self, version: &str) -> bool {
        self.published == version || self.named == version
    }
}

impl Cluster {
    /// Writes the ControllerConfig: the CA of kubelets and of the cloud, those of registries by
    /// file name, and whether the API server's CA is rotated. Its version.
    pub async fn publish_certificates(
        &self,
        [kubelet, cloud]: &[&str; 2],
        registries: &[(&str, &str)],
        rotates: bool,
    ) -> Result<String> {
        let name = controller_config::NAME;
        let data = |pem: &str| STANDARD.encode(pem);
        let registries: Vec<Value> = registries
            .iter()
            .map(|(file, pem)| json!({ "file": file, "data": data(pem) }))
            .collect();
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
            "metadata": {
                "name": name,
                "annotations": {
                    (annotation::SERVICE_CA_ROTATE): rotates.to_string(),
                    (annotation::GENERATED_BY_VERSION): VERSION,
                },
            },
            "spec": {
                "kubeAPIServerServingCAData": data(kubelet), "cloudProviderCAData": data(cloud),
                "imageRegistryBundleData": registries,
                // What the API asks for besides.
                "additionalTrustBundle": null, "baseOSContainerImage": "", "cloudProviderConfig": "",
                "clusterDNSIP": "10.0.0.10", "dns": null, "images": {}, "ipFamilies": "IPv4", "network": null,
                "proxy": null, "releaseImage": "release", "rootCAData": data(kubelet),
                "infra": {
                    "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {},
                    "spec": {}, "status": {},
                },
            },
        });
        let objects = manifest::parse(&object.to_string())?;
        let written = manifest::apply(self.objects.client(), &objects).await?;
        let version = written
            .into_iter()
            .find_map(|object| object.metadata.resource_version);
        version.context("an object without a version")
    }

    /// Has the cluster rotate certificates under its controller; the versions of the
    /// ControllerConfig that have them, once the controller has named them in its status.
    pub async fn rotate_certificates(
        &self,
        [kubelet, cloud]: [&str; 2],
        registries: &[(&str, &str)],
        rotates: bool,
    ) -> Result<RotatedVersions> {
        let published = self
            .publish_certificates(&[kubelet, cloud], registries, rotates)
            .await?;
        let own = [
            ("KubeAPIServerServingCAData", kubelet),
            ("CloudProviderCAData", cloud),
            ("RootCAData", kubelet),
        ];
        let bundles = own.iter().chain(registries);
        let expected = bundles.filter_map(|(bundle, pem)| {
            let facts = facts(&der(pem)?)?;
            let times = [facts.not_before, facts.not_after];
            Some(((*bundle).to_owned(), facts.subject, times))
        });
        let expected: BTreeSet<_> = expected.collect();
        let configs = Api::<ControllerConfig>::all(self.objects.client().clone());
        let named = until("the certificates to be named", SOON, async || {
            let config = configs.get(controller_config::NAME).await?;
            let named = config.status.unwrap_or_default().controller_certificates;
            let named = named.into_iter().map(|one| {
                let times = [one.not_before, one.not_after];
                let times =
                    times.map(|time| time.map_or_else(String::new, |time| time.0.to_string()));
                (one.bundle_file, one.subject, times)
            });
            let named: BTreeSet<_> = named.collect();
            Ok(if named == expected {
                Ok(config.metadata.resource_version.unwrap_or_default())
            } else {
                Err(format!("{named:?}"))
            })
        })
        .await?;
        Ok(RotatedVersions { published, named })
    }

    /// Has daemons and operators trust clients of another authority, too, besides those of the API
    /// server's: daemons by the ControllerConfig, operators by the API server's own ConfigMap. All
    /// authorities of clients, as PEM.
    pub(crate) async fn trust_clients(&self, pem: &str) -> Result<String> {
        let authority = String::from_utf8(self.control_plane.ca_pem().to_vec())?;
        let bundle = authority + pem;
        let patch = json!({ "spec": { "kubeAPIServerServingCAData": STANDARD.encode(&bundle) } });
        let configs = Api::<ControllerConfig>::all(self.objects.client().clone());
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        configs
            .patch(controller_config::NAME, &params, &patch)
            .await?;
        let clients = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
            "data": { "client-ca-file": bundle },
        });
        self.apply(&clients.to_string()).await?;
        Ok(bundle)
    }

    /// Says in the ControllerConfig's status that base configurations are made of it, as the
    /// controller of a release does. Without that, no pool is rendered while there is one.
    pub async fn settle_certificates(&self) -> Result<()> {
        let configs = Api::<ControllerConfig>::all(self.objects.client().clone());
        let name = controller_config::NAME;
        let generation = configs.get(name).await?.metadata.generation;
        let status = json!({ "status": {
            "observedGeneration": generation,
            "conditions": [{
                "type": "TemplateControllerCompleted", "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&status));
        configs.patch_status(name, &params, &patch).await?;
        Ok(())
    }

    /// Writes the CA by which nodes are to know the API server, where and as OpenShift's operator
    /// does.
    pub async fn publish_authority(&self, pem: &str) -> Result<()> {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "kubeconfig-data", "namespace": api::machineconfiguration::NAMESPACE },
            "binaryData": { "ca-bundle.crt": STANDARD.encode(pem) },
        });
        self.apply(&object.to_string()).await
    }
}

/// The certificate in a PEM file that has one.
fn der(pem: &str) -> Option<Vec<u8>> {
    let text = pem.lines().filter(|line| !line.starts_with("-----"));
    STANDARD.decode(text.collect::<String>()).ok()
}
