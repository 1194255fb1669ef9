//! The cluster's TLS profile, put into configurations of operators.

use release::inventory::Entry;
use serde_json::{Map, Value, json};

use super::InjectionError;

/// Annotation of a ConfigMap that gets the cluster's TLS profile: `true`.
pub const INJECT_TLS: &str = "config.openshift.io/inject-tls";

/// API version and kind of the configurations that have the profile.
const KINDS: [(&str, &str); 2] = [
    ("operator.openshift.io/v1alpha1", "GenericOperatorConfig"),
    ("config.openshift.io/v1", "GenericControllerConfig"),
];

/// Cipher suites that Go knows, by OpenSSL's name and that of IANA. The first [`MODERN`] are those
/// of profile `Modern`, the first [`INTERMEDIATE`] those of `Intermediate`; `Old` has all.
///
/// Source: `types_tlssecurityprofile.go` of openshift/api, and `crypto.go` of openshift/library-go,
/// which leaves suites out that Go does not know.
const SUITES: [(&str, &str); 21] = [
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
    ),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    (
        "ECDHE-ECDSA-AES128-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    ),
    (
        "ECDHE-RSA-AES128-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    ),
    (
        "ECDHE-ECDSA-AES128-SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    ),
    ("ECDHE-RSA-AES128-SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    (
        "ECDHE-ECDSA-AES256-SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    ),
    ("ECDHE-RSA-AES256-SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    ("AES128-GCM-SHA256", "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    ("AES256-GCM-SHA384", "TLS_RSA_WITH_AES_256_GCM_SHA384"),
    ("AES128-SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA256"),
    ("AES128-SHA", "TLS_RSA_WITH_AES_128_CBC_SHA"),
    ("AES256-SHA", "TLS_RSA_WITH_AES_256_CBC_SHA"),
    ("DES-CBC3-SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
];

const MODERN: usize = 3;
const INTERMEDIATE: usize = 9;

/// The TLS profile of the cluster, as servers in Go are configured.
///
/// Source: `APIServer` `cluster` of `config.openshift.io/v1`, `spec.tlsSecurityProfile`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterTls {
    /// Such as `VersionTLS12`.
    min_version: String,
    suites: Vec<String>,
}

impl Default for ClusterTls {
    /// The profile of a cluster that names none.
    fn default() -> Self {
        Self::of("VersionTLS12", SUITES.iter().take(INTERMEDIATE))
    }
}

impl ClusterTls {
    fn of<'a>(min_version: &str, suites: impl Iterator<Item = &'a (&'a str, &'a str)>) -> Self {
        let mut suites: Vec<String> = suites.map(|(_, name)| (*name).to_owned()).collect();
        suites.sort_unstable();
        Self {
            min_version: min_version.to_owned(),
            suites,
        }
    }

    /// Reads the object. An unknown profile counts as none.
    pub fn read(object: &Value) -> Self {
        let profile = object.pointer("/spec/tlsSecurityProfile");
        let profile = profile.unwrap_or(&Value::Null);
        let kind = profile.get("type").and_then(Value::as_str);
        match (
            kind,
            profile.get("custom").filter(|custom| custom.is_object()),
        ) {
            (Some("Old"), _) => Self::of("VersionTLS10", SUITES.iter()),
            (Some("Modern"), _) => Self::of("VersionTLS13", SUITES.iter().take(MODERN)),
            (Some("Custom"), Some(custom)) => {
                let ciphers = custom.get("ciphers").and_then(Value::as_array);
                let listed: Vec<&str> = ciphers
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect();
                let min_version = custom.get("minTLSVersion").and_then(Value::as_str);
                let suites = SUITES.iter().filter(|(name, _)| listed.contains(name));
                Self::of(min_version.unwrap_or_default(), suites)
            }
            _ => Self::default(),
        }
    }
}

/// Whether a manifest gets the profile.
pub fn asks_for_tls(entry: &Entry) -> bool {
    let is_map = (entry.id.group.as_str(), entry.id.kind.as_str()) == ("", "ConfigMap");
    let value = entry.annotations.get(INJECT_TLS);
    is_map && value.is_some_and(|value| value == "true")
}

/// Sets the profile in the configurations that a ConfigMap holds. Other data stays as it is.
///
/// # Errors
/// A configuration that cannot have it: [`InjectionError`], but for its first.
pub fn inject_tls(object: &mut Value, tls: &ClusterTls) -> Result<(), InjectionError> {
    let data = object.pointer_mut("/data").and_then(Value::as_object_mut);
    for (key, value) in data.into_iter().flatten() {
        let Some(text) = value.as_str() else {
            continue;
        };
        let Some((mut config, is_json)) = parse(text) else {
            continue;
        };
        let named = |field: &str| {
            config
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        if !KINDS.contains(&(named("apiVersion"), named("kind"))) {
            continue;
        }
        let key = || key.clone();
        let serving = config
            .as_object_mut()
            .map(|config| config.entry("servingInfo").or_insert(Value::Null));
        // An empty field is one that is not there.
        let serving = serving.map(|serving| {
            if serving.is_null() {
                *serving = json!({});
            }
            serving
        });
        let serving = serving.and_then(Value::as_object_mut);
        let serving = serving.ok_or_else(|| InjectionError::ReadServingInfo { key: key() })?;
        set(serving, tls);
        let printed = if is_json {
            serde_json::to_string_pretty(&config)
                .map_err(|source| InjectionError::PrintJson { key: key(), source })?
        } else {
            serde_saphyr::to_string(&config)
                .map_err(|source| InjectionError::PrintYaml { key: key(), source })?
        };
        *value = Value::String(printed);
    }
    Ok(())
}

/// A configuration, and whether it is written in JSON. What is neither JSON nor YAML is none.
fn parse(text: &str) -> Option<(Value, bool)> {
    if let Ok(config) = serde_json::from_str(text) {
        return Some((config, true));
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let config = serde_saphyr::from_str_with_options(text, options).ok()?;
    Some((config, false))
}

fn set(serving: &mut Map<String, Value>, tls: &ClusterTls) {
    serving.insert("cipherSuites".to_owned(), json!(tls.suites));
    if tls.min_version.is_empty() {
        serving.remove("minTLSVersion");
    } else {
        serving.insert("minTLSVersion".to_owned(), json!(tls.min_version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(profile: &Value) -> ClusterTls {
        ClusterTls::read(&json!({ "spec": { "tlsSecurityProfile": profile } }))
    }

    #[test]
    fn profiles_have_the_suites_that_go_knows() {
        let intermediate = ClusterTls::default();
        for none in [
            json!(null),
            json!({ "type": "Intermediate" }),
            json!({ "type": "Custom" }),
            json!({ "type": "Custom", "custom": null }),
            json!({ "type": "Future" }),
        ] {
            assert_eq!(profile(&none), intermediate, "{none}");
        }
        let modern = profile(&json!({ "type": "Modern", "modern": {} }));
        let old = profile(&json!({ "type": "Old" }));
        for (found, version, count) in [
            (&modern, "VersionTLS13", 3),
            (&intermediate, "VersionTLS12", 9),
            (&old, "VersionTLS10", 21),
        ] {
            assert_eq!(
                (found.min_version.as_str(), found.suites.len()),
                (version, count)
            );
            assert!(found.suites.is_sorted());
        }
        let only_modern = |name: &String| !name.contains("_WITH_");
        assert!(modern.suites.iter().all(only_modern), "{modern:?}");
        let ciphers = json!([
            "ECDHE-RSA-AES128-GCM-SHA256",
            "DHE-RSA-AES128-GCM-SHA256",
            "AES128-SHA"
        ]);
        let custom = json!({ "ciphers": ciphers, "minTLSVersion": "VersionTLS11" });
        let custom = profile(&json!({ "type": "Custom", "custom": custom }));
        assert_eq!(custom.min_version, "VersionTLS11");
        assert_eq!(
            custom.suites,
            [
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "TLS_RSA_WITH_AES_128_CBC_SHA"
            ]
        );
    }

    const YAML: &str = "\
apiVersion: operator.openshift.io/v1alpha1
kind: GenericOperatorConfig
servingInfo:
  bindAddress: 0.0.0.0:8443
  minTLSVersion: VersionTLS10
flag: \"yes\"
";

    fn injected(data: &Value, tls: &ClusterTls) -> Result<Value, InjectionError> {
        let mut object = json!({ "kind": "ConfigMap", "data": data });
        inject_tls(&mut object, tls)?;
        Ok(object["data"].clone())
    }

    #[test]
    fn configurations_of_both_kinds_get_the_profile_and_keep_the_rest() {
        let modern = profile(&json!({ "type": "Modern" }));
        let controller =
            json!({ "apiVersion": "config.openshift.io/v1", "kind": "GenericControllerConfig" });
        let other_version = YAML.replace("v1alpha1", "v1");
        let data = json!({
            "config.yaml": YAML, "config.json": controller.to_string(),
            "other.yaml": other_version, "text": "a: b: c", "number": "7"
        });
        let found = injected(&data, &modern).unwrap();
        for untouched in ["other.yaml", "text", "number"] {
            assert_eq!(found[untouched], data[untouched]);
        }
        let yaml: Value = serde_saphyr::from_str(found["config.yaml"].as_str().unwrap()).unwrap();
        let suites = json!(modern.suites);
        assert_eq!(
            yaml,
            json!({
                "apiVersion": "operator.openshift.io/v1alpha1", "kind": "GenericOperatorConfig",
                "flag": "yes",
                "servingInfo": {
                    "bindAddress": "0.0.0.0:8443", "minTLSVersion": "VersionTLS13",
                    "cipherSuites": suites
                }
            })
        );
        // Programs in Go read YAML 1.1, where a plain `yes` is no text.
        let text = found["config.yaml"].as_str().unwrap();
        assert!(text.contains("\"yes\"") || text.contains("'yes'"), "{text}");
        let json: Value = serde_json::from_str(found["config.json"].as_str().unwrap()).unwrap();
        assert_eq!(json["servingInfo"]["minTLSVersion"], "VersionTLS13");
        // The same again changes nothing.
        assert_eq!(injected(&found, &modern).unwrap(), found);
        let unset = ClusterTls {
            min_version: String::new(),
            ..modern
        };
        let found = injected(&found, &unset).unwrap();
        assert!(
            !found["config.yaml"]
                .as_str()
                .unwrap()
                .contains("minTLSVersion")
        );
    }

    #[test]
    fn a_configuration_that_cannot_have_the_profile_is_named() {
        let text = YAML.replace(
            "servingInfo:\n  bindAddress: 0.0.0.0:8443\n  minTLSVersion: VersionTLS10",
            "servingInfo: 7",
        );
        let why = injected(&json!({ "config.yaml": text }), &ClusterTls::default());
        assert_eq!(
            why.unwrap_err().to_string(),
            "data.config.yaml: servingInfo is no object"
        );
        let none = injected(&json!(null), &ClusterTls::default());
        assert_eq!(none.unwrap(), json!(null));
    }
}
