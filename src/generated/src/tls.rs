//! A TLS security profile in the words of the kubelet: the lowest version, and ciphers by their
//! IANA names.

use api::machineconfiguration::TlsSecurityProfile;

/// Why a profile is refused: the field, from the profile on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("tlsSecurityProfile.type: there is no profile {0:?}")]
    NoProfile(String),
    /// A custom profile has nothing in it.
    #[error("tlsSecurityProfile.custom is missing")]
    NoCustom,
    /// The lowest version is none.
    #[error("tlsSecurityProfile.custom.minTLSVersion: there is no version {0:?}")]
    NoVersion(String),
    /// The kubelet has none of the ciphers.
    #[error("tlsSecurityProfile.custom.ciphers has no cipher that the kubelet has: {0:?}")]
    NoCipher(Vec<String>),
}

/// What the kubelet's server takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletTls {
    /// `tlsMinVersion`.
    pub min_version: String,
    /// `tlsCipherSuites`.
    pub ciphers: Vec<&'static str>,
}

/// Ciphers that the kubelet has: OpenSSL's name, IANA's name, and the least strict profile with it.
///
/// Source: Kubernetes documentation, "kubelet", `--tls-cipher-suites`; Mozilla's Server Side TLS
/// guidelines 5.8. Others of the guidelines are not in Go's library, and are left out.
const CIPHERS: [(&str, &str, Level); 19] = [
    (
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_128_GCM_SHA256",
        Level::Modern,
    ),
    (
        "TLS_AES_256_GCM_SHA384",
        "TLS_AES_256_GCM_SHA384",
        Level::Modern,
    ),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
        Level::Modern,
    ),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        Level::Intermediate,
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        Level::Intermediate,
    ),
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        Level::Intermediate,
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        Level::Intermediate,
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        Level::Intermediate,
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        Level::Intermediate,
    ),
    (
        "ECDHE-ECDSA-AES128-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        Level::Old,
    ),
    (
        "ECDHE-RSA-AES128-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        Level::Old,
    ),
    (
        "ECDHE-ECDSA-AES128-SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        Level::Old,
    ),
    (
        "ECDHE-RSA-AES128-SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        Level::Old,
    ),
    (
        "ECDHE-ECDSA-AES256-SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        Level::Old,
    ),
    (
        "ECDHE-RSA-AES256-SHA",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        Level::Old,
    ),
    (
        "AES128-GCM-SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
        Level::Old,
    ),
    (
        "AES256-GCM-SHA384",
        "TLS_RSA_WITH_AES_256_GCM_SHA384",
        Level::Old,
    ),
    ("AES128-SHA", "TLS_RSA_WITH_AES_128_CBC_SHA", Level::Old),
    ("AES256-SHA", "TLS_RSA_WITH_AES_256_CBC_SHA", Level::Old),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Modern,
    Intermediate,
    Old,
}

/// Reads a profile. One without a type is `Intermediate`.
///
/// # Errors
/// An unknown type, a custom profile that is missing or has an unknown version, and one without
/// any cipher that the kubelet has.
pub fn of_profile(profile: &TlsSecurityProfile) -> Result<KubeletTls, Error> {
    let up_to = |level: Level, min_version: &str| KubeletTls {
        min_version: min_version.to_owned(),
        ciphers: CIPHERS
            .iter()
            .filter(|(_, _, least)| *least <= level)
            .map(|(_, name, _)| *name)
            .collect(),
    };
    match profile.r#type.as_str() {
        "Modern" => Ok(up_to(Level::Modern, "VersionTLS13")),
        "" | "Intermediate" => Ok(up_to(Level::Intermediate, "VersionTLS12")),
        "Old" => Ok(up_to(Level::Old, "VersionTLS10")),
        "Custom" => of_custom(profile),
        other => Err(Error::NoProfile(other.to_owned())),
    }
}

fn of_custom(profile: &TlsSecurityProfile) -> Result<KubeletTls, Error> {
    let custom = profile.custom.as_ref().ok_or(Error::NoCustom)?;
    let min_version = custom.min_tls_version.clone();
    let versions = [
        "VersionTLS10",
        "VersionTLS11",
        "VersionTLS12",
        "VersionTLS13",
    ];
    if !versions.contains(&min_version.as_str()) {
        return Err(Error::NoVersion(min_version));
    }
    let kubelet_cipher = |name: &String| {
        let mut ciphers = CIPHERS.iter();
        ciphers.find(|(openssl, iana, _)| name == openssl || name == iana)
    };
    let ciphers: Vec<&'static str> = custom
        .ciphers
        .iter()
        .filter_map(kubelet_cipher)
        .map(|(_, name, _)| *name)
        .collect();
    // Of version 1.3 no cipher can be chosen.
    if ciphers.is_empty() && min_version != "VersionTLS13" {
        return Err(Error::NoCipher(custom.ciphers.clone()));
    }
    Ok(KubeletTls {
        min_version,
        ciphers,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(profile: Value) -> TlsSecurityProfile {
        serde_json::from_value(profile).unwrap()
    }

    fn read(profile: Value) -> Result<KubeletTls, Error> {
        of_profile(&parse(profile))
    }

    #[test]
    fn profiles_grow_from_modern_to_old() {
        let count = |name: &str| {
            let profile = read(json!({ "type": name })).unwrap();
            (profile.min_version, profile.ciphers.len())
        };
        assert_eq!(count("Modern"), ("VersionTLS13".to_owned(), 3));
        assert_eq!(count("Intermediate"), ("VersionTLS12".to_owned(), 9));
        assert_eq!(count("Old"), ("VersionTLS10".to_owned(), 19));
        assert_eq!(read(json!({})), read(json!({ "type": "Intermediate" })));
    }

    #[test]
    fn a_custom_profile_keeps_its_order_and_drops_what_the_kubelet_lacks() {
        let profile = read(json!({ "type": "Custom", "custom": {
            "ciphers": ["AES128-SHA", "DHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"],
            "minTLSVersion": "VersionTLS11"
        } }));
        let expected = KubeletTls {
            min_version: "VersionTLS11".to_owned(),
            ciphers: vec![
                "TLS_RSA_WITH_AES_128_CBC_SHA",
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            ],
        };
        assert_eq!(profile, Ok(expected));
        let table = [
            (
                json!({ "type": "Custom" }),
                "tlsSecurityProfile.custom is missing",
            ),
            (
                json!({ "type": "Custom", "custom": { "minTLSVersion": "VersionTLS12" } }),
                "tlsSecurityProfile.custom.ciphers has no cipher that the kubelet has: []",
            ),
            (
                json!({ "type": "Custom", "custom": {} }),
                "tlsSecurityProfile.custom.minTLSVersion: there is no version \"\"",
            ),
            (
                json!({ "type": "Future" }),
                "tlsSecurityProfile.type: there is no profile \"Future\"",
            ),
        ];
        for (profile, why) in table {
            assert_eq!(read(profile).unwrap_err().to_string(), why);
        }
    }
}
