//! The pull secret of the cluster, whose token proves it to the fleet manager.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

/// Namespace and name.
pub const NAME: (&str, &str) = ("openshift-config", "pull-secret");

const FIELD: &str = "data[.dockerconfigjson]";
/// Entry that proves the cluster.
const REGISTRY: &str = "cloud.openshift.com";

/// Why a pull secret has no token. No variant may show the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It has no key for registries.
    #[error("{FIELD} is missing")]
    Missing,
    /// The key is no base64.
    #[error("{FIELD} is not base64")]
    NotBase64,
    /// The key is no JSON.
    #[error("{FIELD} is not JSON")]
    NotJson,
    /// The key has no registries.
    #[error("{FIELD}: auths is missing")]
    NoRegistries,
    /// The fleet manager's registry is not among them.
    #[error("{FIELD}: auths[{REGISTRY}] is missing")]
    NoEntry,
    /// Its entry has no token.
    #[error("{FIELD}: auths[{REGISTRY}].auth is missing")]
    NoToken,
    #[error("{FIELD}: auths[{REGISTRY}].auth is empty")]
    EmptyToken,
}

/// The token of a pull secret.
///
/// # Errors
/// [`Error`].
pub(crate) fn token_of(secret: &Value) -> Result<String, Error> {
    let text = secret.pointer("/data/.dockerconfigjson");
    let text = text.and_then(Value::as_str).ok_or(Error::Missing)?;
    let bytes = BASE64.decode(text).map_err(|_| Error::NotBase64)?;
    let settings: Value = serde_json::from_slice(&bytes).map_err(|_| Error::NotJson)?;
    let registries = settings.get("auths").ok_or(Error::NoRegistries)?;
    let entry = registries.get(REGISTRY).ok_or(Error::NoEntry)?;
    match entry.get("auth").and_then(Value::as_str) {
        None => Err(Error::NoToken),
        Some("") => Err(Error::EmptyToken),
        Some(token) => Ok(token.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_token_is_that_of_the_pull_secret_and_no_error_shows_it() {
        let secret = |text: &str| json!({ "data": { ".dockerconfigjson": BASE64.encode(text) } });
        let good = r#"{"auths": {"quay.io": {"auth": "b"}, "cloud.openshift.com": {"auth": "a"}}}"#;
        assert_eq!(token_of(&secret(good)).unwrap(), "a");
        for (secret, expected) in [
            (json!({}), "data[.dockerconfigjson] is missing"),
            (
                json!({ "data": { ".dockerconfigjson": "?" } }),
                "data[.dockerconfigjson] is not base64",
            ),
            (secret("hidden"), "data[.dockerconfigjson] is not JSON"),
            (
                secret(r#"{"auth": "hidden"}"#),
                "data[.dockerconfigjson]: auths is missing",
            ),
            (
                secret(r#"{"auths": {"quay.io": {"auth": "hidden"}}}"#),
                "data[.dockerconfigjson]: auths[cloud.openshift.com] is missing",
            ),
            (
                secret(r#"{"auths": {"cloud.openshift.com": {"email": "hidden"}}}"#),
                "data[.dockerconfigjson]: auths[cloud.openshift.com].auth is missing",
            ),
            (
                secret(r#"{"auths": {"cloud.openshift.com": {"auth": ""}}}"#),
                "data[.dockerconfigjson]: auths[cloud.openshift.com].auth is empty",
            ),
        ] {
            assert_eq!(token_of(&secret).unwrap_err().to_string(), expected);
        }
    }
}
