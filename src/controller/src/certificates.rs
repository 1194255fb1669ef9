//! The certificates that the ControllerConfig has in its bundles: clients read in its status who
//! they are of and how long they hold, pools report when those of the API server expire, and others
//! are announced on Nodes.

use std::collections::BTreeSet;

use api::machineconfiguration::controller_config::{self, ControllerCertificate};
use api::machineconfiguration::{ControllerConfig, ControllerConfigSpec, annotation};
use chassis::http::certificate::facts::facts;
use cluster::wire;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use node_update::plan::Digest;
use operator::Next;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::context::Context;

/// Certificates that are named; of a bundle of a whole OS the others would make the object too
/// large.
const MOST: usize = 1000;

/// What is announced on a Node where there is no ControllerConfig.
pub const NONE: &str = "none";

/// Characters of a digest that is announced.
const DIGEST_CHARS: usize = 16;

/// A digest of what the ControllerConfig has for nodes outside of configurations: of what a daemon
/// follows.
///
/// Source: `docs/reference/daemon.md`, "Certificates".
pub fn digest(config: &ControllerConfig) -> String {
    let spec = &config.spec;
    let annotations = config.metadata.annotations.as_ref();
    let rotates = annotations.and_then(|all| all.get(annotation::SERVICE_CA_ROTATE));
    let followed = json!([
        spec.kube_api_server_serving_ca_data,
        spec.cloud_provider_ca_data,
        spec.image_registry_bundle_data,
        spec.image_registry_bundle_user_data,
        spec.internal_registry_pull_secret,
        rotates,
    ]);
    let digest = Digest::of(followed.to_string().as_bytes());
    let hex = digest.as_str().rsplit(':').next().unwrap_or_default();
    hex.chars().take(DIGEST_CHARS).collect()
}

/// Names the certificates in the status of the ControllerConfig, where it does not.
pub(crate) async fn reconcile(context: &Context) -> Result<Next, wire::Error> {
    let config = context
        .store
        .controller_configs
        .get(controller_config::NAME);
    let Some(config) = config else {
        return Ok(Next::Gone);
    };
    if let Some(change) = change(&config) {
        let written = context
            .requests
            .objects::<ControllerConfig>()
            .status()
            .patch(controller_config::NAME, &change)
            .await?;
        context.store.controller_configs.refresh(written);
    }
    Ok(Next::Settled)
}

/// The patch of the status, guarded by the version of the object that was read; nothing where it
/// names them all.
///
/// Source: `docs/reference/controller.md`, "ControllerConfig".
pub fn change(config: &ControllerConfig) -> Option<Value> {
    let found = certificates(&config.spec);
    let reported = config.status.as_ref();
    let reported = reported.map_or(&[][..], |status| &status.controller_certificates);
    (reported != found).then(|| {
        json!({
            "metadata": { "resourceVersion": config.metadata.resource_version },
            "status": { "controllerCertificates": found }
        })
    })
}

/// The certificates in all bundles, in their order. What is no certificate is left out: the daemons
/// say so of what they write.
fn certificates(spec: &ControllerConfigSpec) -> Vec<ControllerCertificate> {
    let optional = |bundle: &'_ Option<k8s_openapi::ByteString>| {
        bundle
            .as_ref()
            .map(|bundle| bundle.0.clone())
            .unwrap_or_default()
    };
    let own = [
        (
            "KubeAPIServerServingCAData",
            spec.kube_api_server_serving_ca_data.0.clone(),
        ),
        (
            "CloudProviderCAData",
            optional(&spec.cloud_provider_ca_data),
        ),
        ("RootCAData", spec.root_ca_data.0.clone()),
        (
            "AdditionalTrustBundle",
            optional(&spec.additional_trust_bundle),
        ),
    ];
    let registries = spec.image_registry_bundle_data.iter();
    let registries = registries.chain(&spec.image_registry_bundle_user_data);
    let registries = registries.map(|bundle| (bundle.file.as_str(), bundle.data.0.clone()));
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (bundle, pem) in own.into_iter().chain(registries) {
        for certificate in CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok) {
            // A registry's bundle is often given twice.
            let is_new = seen.insert((bundle.to_owned(), certificate.to_vec()));
            if let Some(certificate) = describe(bundle, &certificate)
                && is_new
                && found.len() < MOST
            {
                found.push(certificate);
            }
        }
    }
    found
}

fn describe(bundle: &str, der: &[u8]) -> Option<ControllerCertificate> {
    let facts = facts(der)?;
    Some(ControllerCertificate {
        subject: facts.subject,
        signer: facts.issuer,
        not_before: Some(Time(facts.not_before.parse().ok()?)),
        not_after: Some(Time(facts.not_after.parse().ok()?)),
        bundle_file: bundle.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;
    use crate::decide::reporting;
    use crate::fixture::read;

    fn pem(name: &str) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(2024, 2, 4);
        params.not_after = date_time_ymd(2034, 2, 4);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    fn bytes(text: String) -> Value {
        serde_json::to_value(ByteString(text.into_bytes())).unwrap()
    }

    #[test]
    fn the_digest_is_of_what_daemons_follow() {
        let config = |path: &str, value: Value| {
            let mut changed = json!({
                "metadata": { "name": "machine-config-controller", "resourceVersion": "7" },
                "spec": { "kubeAPIServerServingCAData": "YQ==" },
            });
            let (above, member) = path.rsplit_once('.').unwrap();
            let pointer = format!("/{}", above.replace('.', "/"));
            changed.pointer_mut(&pointer).unwrap()[member] = value;
            digest(&read(&changed))
        };
        let same = config("metadata.resourceVersion", json!("8"));
        assert_eq!(same.len(), DIGEST_CHARS);
        for (path, value) in [
            ("spec.rootCAData", json!("YQ==")),
            ("spec.releaseImage", json!("x")),
            ("metadata.annotations", json!({ "other": "x" })),
        ] {
            assert_eq!(config(path, value), same, "{path}");
        }
        let bundle = json!([{ "file": "r", "data": "YQ==" }]);
        for (path, value) in [
            ("spec.kubeAPIServerServingCAData", json!("Yg==")),
            ("spec.cloudProviderCAData", json!("YQ==")),
            ("spec.imageRegistryBundleData", bundle.clone()),
            ("spec.imageRegistryBundleUserData", bundle),
            ("spec.internalRegistryPullSecret", json!("YQ==")),
            (
                "metadata.annotations",
                json!({ "machineconfiguration.openshift.io/service-ca-rotate": "true" }),
            ),
        ] {
            assert_ne!(config(path, value), same, "{path}");
        }
    }

    #[test]
    fn certificates_of_all_bundles_are_named_once_and_pools_see_their_expiry() {
        let (first, second, registry) = (pem("first"), pem("second"), pem("registry"));
        let serving = format!("{first}-----BEGIN CERTIFICATE-----\n%\n-----END CERTIFICATE-----\n");
        let serving = bytes(format!("{serving}{second}"));
        let mut object = json!({
            "metadata": { "name": "machine-config-controller", "resourceVersion": "7" },
            "spec": {
                "kubeAPIServerServingCAData": serving, "rootCAData": bytes(first.clone()),
                "additionalTrustBundle": null, "cloudProviderCAData": bytes("no PEM".to_owned()),
                "imageRegistryBundleData": [{ "file": "r..5000", "data": bytes(registry.clone()) }],
                "imageRegistryBundleUserData": [{ "file": "r..5000", "data": bytes(registry) }],
            }
        });
        let named = |name: &str, bundle: &str| {
            json!({
                "subject": format!("CN={name}"), "signer": format!("CN={name}"), "bundleFile": bundle,
                "notBefore": "2024-02-04T00:00:00Z", "notAfter": "2034-02-04T00:00:00Z"
            })
        };
        let expected = json!([
            named("first", "KubeAPIServerServingCAData"),
            named("second", "KubeAPIServerServingCAData"),
            named("first", "RootCAData"),
            named("registry", "r..5000"),
        ]);
        let patch = change(&read(&object)).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(
            patch["status"],
            json!({ "controllerCertificates": expected })
        );
        object["status"] = patch["status"].clone();
        let config: ControllerConfig = read(&object);
        assert_eq!(change(&config), None);
        let expiries = reporting::certificates(&config);
        let subjects: Vec<&str> = expiries.iter().map(|one| one.subject.as_str()).collect();
        assert_eq!(subjects, ["CN=first", "CN=second"]);
        // What is gone is not named any more.
        object["spec"]["kubeAPIServerServingCAData"] = bytes(first);
        let patch = change(&read(&object)).unwrap();
        let left = patch["status"]["controllerCertificates"]
            .as_array()
            .unwrap();
        assert_eq!(left.len(), 3);
    }

    #[test]
    fn a_config_without_certificates_is_left_alone() {
        let object = json!({ "metadata": { "name": "machine-config-controller" }, "spec": {} });
        assert_eq!(change(&read(&object)), None);
    }
}
