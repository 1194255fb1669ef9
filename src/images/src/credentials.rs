//! Who asks a registry: credentials as container tools keep them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use oci_client::Reference;
use oci_client::secrets::RegistryAuth;
use serde::Deserialize;

/// Names and passwords by registry or namespace.
///
/// Shape: the JSON of `~/.docker/config.json`, of `auth.json` and of a pull secret:
/// `{"auths":{"quay.io/example":{"auth":"…"}}}`, in which `auth` is Base64 of `name:password`.
/// Helpers and stores of credentials are not used.
#[derive(Clone, Default)]
pub struct Credentials {
    auths: BTreeMap<String, (String, String)>,
}

/// Why a file has no credentials. What it holds is not printed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not JSON of this shape.
    #[error("it is not JSON with a map \"auths\" (line {line})")]
    Syntax { line: usize },
    /// One entry is no name and password.
    #[error("field auths.{0}.auth is not Base64 of name:password")]
    Auth(String),
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    auths: BTreeMap<String, WireAuth>,
}

#[derive(Deserialize)]
struct WireAuth {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

impl Credentials {
    /// Reads a file's content.
    ///
    /// # Errors
    /// [`Error`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let wire: Wire =
            serde_json::from_slice(bytes).map_err(|error| Error::Syntax { line: error.line() })?;
        let mut auths = BTreeMap::new();
        for (place, entry) in wire.auths {
            let pair = if entry.auth.is_empty() {
                Some((entry.username, entry.password)).filter(|(name, _)| !name.is_empty())
            } else {
                let pair = decode(&entry.auth).ok_or_else(|| Error::Auth(place.clone()))?;
                Some(pair)
            };
            if let Some(pair) = pair {
                let place = place
                    .split_once("://")
                    .map_or(place.as_str(), |(_, rest)| rest);
                // Docker's own registry is kept as an address of its first API.
                let place = place.strip_suffix("/v1/").unwrap_or(place);
                auths.insert(place.trim_end_matches('/').to_owned(), pair);
            }
        }
        Ok(Self { auths })
    }

    /// What is shown for an image: that of the longest namespace, from `host/a/b` down to `host`;
    /// else nothing.
    pub(crate) fn auth(&self, reference: &Reference) -> RegistryAuth {
        let whole = format!("{}/{}", reference.registry(), reference.repository());
        let mut place = whole.as_str();
        loop {
            if let Some((name, password)) = self.auths.get(place) {
                return RegistryAuth::Basic(name.clone(), password.clone());
            }
            match place.rsplit_once('/') {
                Some((shorter, _)) => place = shorter,
                None => break,
            }
        }
        match self.auths.get(reference.resolve_registry()) {
            Some((name, password)) => RegistryAuth::Basic(name.clone(), password.clone()),
            None => RegistryAuth::Anonymous,
        }
    }
}

fn decode(auth: &str) -> Option<(String, String)> {
    let bytes = BASE64_STANDARD.decode(auth.trim()).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.auths.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials() -> Credentials {
        let auth = |name: &str| BASE64_STANDARD.encode(format!("{name}:pass:word"));
        let text = format!(
            r#"{{"auths":{{"quay.io":{{"auth":"{}"}},"quay.io/a/b":{{"auth":"{}"}},"https://registry.example:5000/":{{"username":"third","password":"p"}},
            "https://index.docker.io/v1/":{{"auth":"{}"}},"empty":{{}}}},"credsStore":"x"}}"#,
            auth("first"),
            auth("second"),
            auth("hub"),
        );
        Credentials::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn longest_namespace_counts() {
        let basic = |name: &str, password: &str| RegistryAuth::Basic(name.into(), password.into());
        for (image, expected) in [
            ("quay.io/a:1", basic("first", "pass:word")),
            ("quay.io/a/b:1", basic("second", "pass:word")),
            ("quay.io/a/b/c:1", basic("second", "pass:word")),
            ("quay.io/a/bc:1", basic("first", "pass:word")),
            ("registry.example:5000/x:1", basic("third", "p")),
            ("registry.example/x:1", RegistryAuth::Anonymous),
            ("empty/x:1", basic("hub", "pass:word")),
            ("debian:12", basic("hub", "pass:word")),
        ] {
            assert_eq!(
                credentials().auth(&image.parse().unwrap()),
                expected,
                "{image}"
            );
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let printed = format!("{:?}", credentials());
        assert!(
            printed.contains("quay.io") && !printed.contains("pass"),
            "{printed}"
        );
        let secret = BASE64_STANDARD.encode("secret");
        let text = format!("{{\"auths\":{{\"a\":{{\"auth\":\"{secret}\"}}}}}}");
        let error = Credentials::parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "field auths.a.auth is not Base64 of name:password");
        let error = Credentials::parse(b"{\n\"auths\": \"secret\"}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "it is not JSON with a map \"auths\" (line 2)"
        );
    }
}
