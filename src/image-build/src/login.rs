//! Secrets of registries, in one form: that of docker's `config.json`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use crate::refusal::BuildRefusal;

/// Key of the copy.
pub const LOGIN_KEY: &str = "config.json";

const JSON_TYPE: &str = "kubernetes.io/dockerconfigjson";
const JSON_KEY: &str = ".dockerconfigjson";
const LEGACY_TYPE: &str = "kubernetes.io/dockercfg";
const LEGACY_KEY: &str = ".dockercfg";

/// What logs in to registries: `{"auths":{…}}`. It is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildLogin(String);

impl BuildLogin {
    /// Reads a Secret of type `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`.
    ///
    /// Shape: `namespace` and `name` are those that a field of `object` refers to; `secret` is none
    /// where it is not there.
    ///
    /// # Errors
    /// It is not there, of another type, or holds something else. Its content is not named.
    pub fn read(
        object: &str,
        field: &str,
        (namespace, name): (&str, &str),
        secret: Option<&Secret>,
    ) -> Result<Self, BuildRefusal> {
        let refuse = |why: String| {
            let why = format!("Secret {namespace}/{name} {why}");
            BuildRefusal::new(&object, field, why)
        };
        let secret = secret.ok_or_else(|| refuse("is not there".to_owned()))?;
        let r#type = secret.type_.as_deref().unwrap_or("Opaque");
        let key = match r#type {
            JSON_TYPE => JSON_KEY,
            LEGACY_TYPE => LEGACY_KEY,
            other => {
                return Err(refuse(format!(
                    "has type {other}; it must be {JSON_TYPE} or {LEGACY_TYPE}"
                )));
            }
        };
        let data = secret.data.as_ref().and_then(|data| data.get(key));
        let data = data.ok_or_else(|| refuse(format!("has no key {key}")))?;
        let value: Option<Value> = serde_json::from_slice(&data.0).ok();
        let auths = match (value, r#type) {
            (Some(Value::Object(mut whole)), JSON_TYPE) => whole.remove("auths"),
            (Some(legacy @ Value::Object(_)), _) => Some(legacy),
            (Some(_) | None, _) => None,
        };
        let auths = auths.filter(|auths| {
            let auths = auths.as_object();
            auths.is_some_and(|auths| !auths.is_empty() && auths.values().all(Value::is_object))
        });
        let auths = auths.ok_or_else(|| {
            refuse(format!(
                "has no logins of registries in JSON under key {key}"
            ))
        })?;
        Ok(Self(json!({ "auths": auths }).to_string()))
    }

    /// The JSON. It is a secret.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The data of the Secret that holds it.
    pub fn data(&self) -> BTreeMap<&'static str, &str> {
        BTreeMap::from([(LOGIN_KEY, self.0.as_str())])
    }
}

impl std::fmt::Debug for BuildLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BuildLogin")
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(r#type: Option<&str>, key: &str, content: &str) -> Secret {
        Secret {
            type_: r#type.map(ToOwned::to_owned),
            data: Some(BTreeMap::from([(
                key.to_owned(),
                ByteString(content.as_bytes().to_vec()),
            )])),
            ..Secret::default()
        }
    }

    fn read(secret: Option<&Secret>) -> Result<BuildLogin, String> {
        BuildLogin::read(
            "MachineOSConfig worker",
            "spec.renderedImagePushSecret.name",
            ("a", "push"),
            secret,
        )
        .map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn both_forms_become_one() {
        let auths = r#"{"quay.io":{"auth":"c2VjcmV0"}}"#;
        let whole = format!(r#"{{"auths":{auths},"credsStore":"x"}}"#);
        for secret in [
            secret(Some(JSON_TYPE), JSON_KEY, &whole),
            secret(Some(LEGACY_TYPE), LEGACY_KEY, auths),
        ] {
            let login = read(Some(&secret)).unwrap();
            assert_eq!(login.as_json(), format!(r#"{{"auths":{auths}}}"#));
            assert_eq!(format!("{login:?}"), "BuildLogin");
        }
    }

    #[test]
    fn what_is_no_login_is_named_without_its_content() {
        let at = "MachineOSConfig worker: spec.renderedImagePushSecret.name: Secret a/push ";
        let none = "has no logins of registries in JSON under key .dockerconfigjson";
        for (secret, why) in [
            (None, "is not there"),
            (
                Some(secret(None, "x", "y")),
                "has type Opaque; it must be kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg",
            ),
            (
                Some(secret(Some(JSON_TYPE), "x", "y")),
                "has no key .dockerconfigjson",
            ),
            (Some(secret(Some(JSON_TYPE), JSON_KEY, "c2VjcmV0")), none),
            (Some(secret(Some(JSON_TYPE), JSON_KEY, "{}")), none),
            (
                Some(secret(Some(JSON_TYPE), JSON_KEY, r#"{"auths":{}}"#)),
                none,
            ),
            (
                Some(secret(Some(JSON_TYPE), JSON_KEY, r#"{"auths":{"a":1}}"#)),
                none,
            ),
        ] {
            assert_eq!(read(secret.as_ref()), Err(format!("{at}{why}")));
        }
    }
}
