//! Bundles as a cluster tells them, and the files of a node.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::*;

/// Something in the form of a certificate, which `name` tells from others.
fn pem(name: &str) -> String {
    let length = u8::try_from(name.len()).unwrap();
    let der = [&[0x30, length], name.as_bytes()].concat();
    let text = STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

fn registry<'a>(file: &'a str, data: &'a str) -> RegistryCertificates<'a> {
    RegistryCertificates {
        field: "spec.imageRegistryBundleData[0]".to_owned(),
        file,
        data: data.as_bytes(),
    }
}

fn paths(desired: &DesiredCertificates) -> Vec<&str> {
    let paths = desired.bundles.iter().map(|bundle| bundle.path.as_str());
    paths.collect()
}

#[test]
fn each_bundle_has_its_file() {
    let (kubelet, cloud, own) = (pem("kubelet"), pem("cloud"), pem("registry"));
    let desired = desired(&ClusterCertificates {
        kubelet: kubelet.trim().as_bytes(),
        cloud: cloud.as_bytes(),
        registries: vec![
            registry("registry.example..5000", &own),
            registry("a.b", &own),
        ],
        pull_secret: br#"{"auths":{}}"#,
    });
    assert_eq!(
        paths(&desired),
        [
            KUBELET_CA,
            CLOUD_CA,
            REGISTRY_SECRET,
            "/etc/docker/certs.d/a.b/ca.crt",
            "/etc/docker/certs.d/registry.example:5000/ca.crt"
        ]
    );
    assert_eq!(
        desired.bundles[0].pem,
        kubelet.as_bytes(),
        "one newline ends it"
    );
    assert_eq!(desired.bundles[2].mode, Mode(0o600));
    assert!(is_ours(&desired.bundles[3].pem) && desired.bundles[3].is_registry);
    assert!(!is_ours(own.as_bytes()));
    assert_eq!(desired.registries, ["a.b", "registry.example:5000"]);
    assert!(desired.refused.is_empty());
}

#[test]
fn nothing_told_is_nothing_wanted() {
    assert_eq!(
        desired(&ClusterCertificates::default()),
        DesiredCertificates::default()
    );
}

#[test]
fn both_bundles_of_a_registry_are_trusted() {
    let (cluster, user) = (pem("cluster"), pem("user"));
    let desired = desired(&ClusterCertificates {
        registries: vec![registry("a.b", cluster.trim()), registry("a.b", &user)],
        ..ClusterCertificates::default()
    });
    let expected = format!("{OURS}{cluster}{user}");
    assert_eq!(paths(&desired).len(), 1);
    assert_eq!(desired.bundles[0].pem, expected.as_bytes());
    check(&desired.bundles[0].pem).unwrap();
}

#[test]
fn what_is_refused_names_its_field_and_keeps_no_other_back() {
    let good = pem("good");
    let torn = good.replace("-----END", "-----ENDE");
    let cut = pem("cut").replace("MA", "MF");
    let table = [
        (
            "a.b",
            "no PEM",
            "spec.imageRegistryBundleData[0].data holds no certificate in PEM",
        ),
        (
            "a.b",
            &torn,
            "spec.imageRegistryBundleData[0].data has a malformed certificate",
        ),
        (
            "a.b",
            &cut,
            "spec.imageRegistryBundleData[0].data has a malformed certificate",
        ),
        (
            "../etc",
            &good,
            "spec.imageRegistryBundleData[0].file \"../etc\" is no host of a registry",
        ),
        (
            "..",
            &good,
            "spec.imageRegistryBundleData[0].file \"..\" is no host of a registry",
        ),
        (
            ".",
            &good,
            "spec.imageRegistryBundleData[0].file \".\" is no host of a registry",
        ),
        (
            "",
            &good,
            "spec.imageRegistryBundleData[0].file \"\" is no host of a registry",
        ),
    ];
    for (file, data, expected) in table {
        let desired = desired(&ClusterCertificates {
            kubelet: good.as_bytes(),
            cloud: b"",
            registries: vec![registry(file, data)],
            ..ClusterCertificates::default()
        });
        assert_eq!(desired.refused, [expected]);
        assert_eq!(paths(&desired), [KUBELET_CA]);
        assert_eq!(desired.registries.is_empty(), file != "a.b", "{file}");
    }
    let desired = desired(&ClusterCertificates {
        kubelet: b"bad",
        cloud: b"bad",
        ..ClusterCertificates::default()
    });
    assert_eq!(
        desired.refused,
        [
            "spec.kubeAPIServerServingCAData holds no certificate in PEM",
            "spec.cloudProviderCAData holds no certificate in PEM"
        ]
    );
    assert!(desired.bundles.is_empty());
}

#[test]
fn long_certificates_have_long_lengths() {
    let der = |head: &[u8], length: usize| is_whole(&[head, &vec![1; length]].concat());
    assert!(der(&[0x30, 0x81, 200], 200) && der(&[0x30, 0x82, 1, 0], 256));
    assert!(!der(&[0x30, 0x81, 200], 199) && !der(&[0x30, 0x82, 1, 0], 257));
    assert!(!der(&[0x30, 0x80], 0) && !der(&[0x31, 1], 1) && !der(&[], 0));
}

proptest! {
    /// No name of a registry leads anywhere but one directory below that of all.
    #[test]
    fn a_registry_is_one_directory(file in ".{0,12}") {
        let data = pem("x");
        let desired = desired(&ClusterCertificates { registries: vec![registry(&file, &data)], ..ClusterCertificates::default() });
        prop_assert_eq!(desired.refused.len() + desired.bundles.len(), 1);
        for bundle in desired.bundles {
            let inside = bundle.path.strip_prefix("/etc/docker/certs.d/").unwrap();
            let (host, rest) = inside.split_once('/').unwrap();
            prop_assert!(rest == "ca.crt" && !["", ".", ".."].contains(&host));
        }
    }
}

#[test]
fn a_pull_secret_that_cannot_be_read_is_refused_by_its_field() {
    let desired = desired(&ClusterCertificates {
        pull_secret: b"secret",
        ..ClusterCertificates::default()
    });
    assert!(desired.bundles.is_empty());
    let refused = &desired.refused[0];
    assert!(
        refused.starts_with("spec.internalRegistryPullSecret cannot be used: ")
            && !refused.contains("secret\""),
        "{refused}"
    );
}
