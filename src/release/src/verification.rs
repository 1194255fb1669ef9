//! Whose signatures a cluster asks for, and where it finds them: the ConfigMap
//! `release-verification`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::manifest::Manifest;
use crate::selection;

/// Annotation of the ConfigMap; its value does not matter.
pub const ANNOTATION: &str = "release.openshift.io/verification-config-map";

/// File of a release that holds the ConfigMap; the name that OpenShift's releases use.
pub const FILE: &str = "0000_90_cluster-update-keys_configmap.yaml";

const NAMESPACE: &str = "openshift-config-managed";
const NAME: &str = "release-verification";

/// Prefix of keys that hold a keyring.
const KEY: &str = "verifier-public-key-";

/// Prefix of keys that hold the address of a store.
const STORE: &str = "store-";

/// Schemes of stores.
const SCHEMES: [&str; 3] = ["https://", "http://", "file://"];

/// Profile of clusters that the ConfigMap is for.
const PROFILE: &str = "self-managed-high-availability";

/// Keyrings and stores of signatures.
///
/// Source: `docs/reference/cli.md`, "Signatures".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureTrust {
    /// Keyrings by name, armoured or binary. Each must have a valid signature of a release.
    pub keyrings: BTreeMap<String, Vec<u8>>,
    /// Addresses of stores by name: `https://…`, `http://…` or `file://…`, without a final slash.
    pub stores: BTreeMap<String, String>,
}

/// Why a ConfigMap says nothing about signatures.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the config map {0} did not provide any GPG public keys to verify signatures from and \
         cannot be used: field data: no key begins with {KEY:?}"
    )]
    NoKeyring(String),
    #[error(
        "the config map {0} did not provide any signature stores to read from and cannot be \
         used: field data: no key begins with {STORE:?}"
    )]
    NoStore(String),
    /// The address of a store is none.
    #[error("field data.{key}: {address:?} begins with none of {}", SCHEMES.join(" "))]
    Store {
        /// Key of the store.
        key: String,
        address: String,
    },
    /// A value in `binaryData` is not Base64.
    #[error("field binaryData.{key}")]
    Base64 {
        key: String,
        /// What is wrong with it.
        #[source]
        source: base64::DecodeError,
    },
    /// A key has other characters than a ConfigMap may have.
    #[error("{0:?} has other characters than letters, digits and -_.")]
    Key(String),
}

impl SignatureTrust {
    /// Reads the first ConfigMap of a payload that has the annotation; none where there is none.
    ///
    /// # Errors
    /// [`Error`]: what it says cannot be used.
    pub fn of(manifests: &[Manifest]) -> Option<Result<Self, Error>> {
        let is_one = |manifest: &&Manifest| {
            manifest.id.kind == "ConfigMap"
                && manifest.id.group.is_empty()
                && manifest.annotations().contains_key(ANNOTATION)
        };
        manifests.iter().find(is_one).map(Self::parse)
    }

    fn parse(manifest: &Manifest) -> Result<Self, Error> {
        let mut values = BTreeMap::new();
        for (key, value) in texts(manifest, "/data") {
            values.insert(key.to_owned(), value.as_bytes().to_vec());
        }
        for (key, value) in texts(manifest, "/binaryData") {
            let bytes = BASE64_STANDARD
                .decode(value)
                .map_err(|source| Error::Base64 {
                    key: key.to_owned(),
                    source,
                })?;
            values.insert(key.to_owned(), bytes);
        }
        let mut found = Self {
            keyrings: BTreeMap::new(),
            stores: BTreeMap::new(),
        };
        for (key, value) in values {
            if let Some(name) = key.strip_prefix(KEY) {
                found.keyrings.insert(name.to_owned(), value);
            } else if let Some(name) = key.strip_prefix(STORE) {
                let address = String::from_utf8_lossy(&value);
                let address = address.trim().trim_end_matches('/').to_owned();
                if !SCHEMES.iter().any(|scheme| address.starts_with(scheme)) {
                    return Err(Error::Store { key, address });
                }
                found.stores.insert(name.to_owned(), address);
            }
        }
        found.check(&format!("{}/{}", manifest.id.namespace, manifest.id.name))?;
        Ok(found)
    }

    /// Whether the ConfigMap of that namespace and name has what verification needs.
    fn check(&self, map: &str) -> Result<(), Error> {
        if self.keyrings.is_empty() {
            return Err(Error::NoKeyring(map.to_owned()));
        }
        if self.stores.is_empty() {
            return Err(Error::NoStore(map.to_owned()));
        }
        Ok(())
    }

    /// The ConfigMap's file. Keyrings that are not text go to `binaryData`.
    ///
    /// # Errors
    /// [`Error`]: no keyring, no store, or what [`Self::of`] would not read.
    pub fn print(&self) -> Result<Vec<u8>, Error> {
        let (mut data, mut binary) = (Map::new(), Map::new());
        let stores = self.stores.iter().map(|(name, store)| {
            let is_store = SCHEMES.iter().any(|scheme| store.starts_with(scheme));
            let key = format!("{STORE}{name}");
            if is_store {
                Ok((key, store.clone()))
            } else {
                Err(Error::Store {
                    key,
                    address: store.clone(),
                })
            }
        });
        for store in stores {
            let (key, store) = store?;
            data.insert(checked(key)?, store.into());
        }
        for (name, keyring) in &self.keyrings {
            let key = checked(format!("{KEY}{name}"))?;
            match std::str::from_utf8(keyring) {
                Ok(text) => data.insert(key, text.into()),
                Err(_) => binary.insert(key, BASE64_STANDARD.encode(keyring).into()),
            };
        }
        self.check(&format!("{NAMESPACE}/{NAME}"))?;
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "annotations": {
                    format!("{}{PROFILE}", selection::INCLUDE): "true",
                    ANNOTATION: "",
                },
            },
            "data": data,
        });
        if !binary.is_empty()
            && let Some(object) = object.as_object_mut()
        {
            object.insert("binaryData".to_owned(), binary.into());
        }
        // JSON is YAML, and needs no second printer.
        Ok(crate::json::print(&object))
    }
}

/// The members of a map of texts.
fn texts<'a>(manifest: &'a Manifest, pointer: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = manifest.object.pointer(pointer).and_then(Value::as_object);
    let all = map.into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

fn checked(key: String) -> Result<String, Error> {
    let is_key = key
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_key {
        Ok(key)
    } else {
        Err(Error::Key(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verification() -> SignatureTrust {
        SignatureTrust {
            keyrings: BTreeMap::from([
                ("armoured".to_owned(), b"-----BEGIN PGP\n".to_vec()),
                ("binary".to_owned(), vec![0x99, 0, 255]),
            ]),
            stores: BTreeMap::from([("a".to_owned(), "https://example.com/x".to_owned())]),
        }
    }

    fn read(text: &str) -> Option<Result<SignatureTrust, String>> {
        let manifests = Manifest::parse(FILE, text.as_bytes()).unwrap();
        Some(SignatureTrust::of(&manifests)?.map_err(|error| error.to_string()))
    }

    fn config_map(data: &str) -> String {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x, annotations: {{{ANNOTATION}: ''}}}}\n{data}"
        )
    }

    #[test]
    fn what_is_printed_is_read_back() {
        let text = String::from_utf8(verification().print().unwrap()).unwrap();
        assert_eq!(read(&text), Some(Ok(verification())));
        let manifests = Manifest::parse(FILE, text.as_bytes()).unwrap();
        assert_eq!(
            manifests[0].id.to_string(),
            "ConfigMap openshift-config-managed/release-verification"
        );
        assert!(manifests[0].selection().profiles.contains(PROFILE));
    }

    #[test]
    fn first_annotated_config_map_counts() {
        let data = "data: {verifier-public-key-k: K, store-s: 'file:///s/', other: x}\n";
        let one = config_map(data);
        let plain = one
            .replace(ANNOTATION, "other")
            .replace("name: x", "name: plain");
        let found = read(&format!("{plain}---\n{one}")).unwrap().unwrap();
        assert_eq!(found.stores["s"], "file:///s");
        assert_eq!(found.keyrings["k"], b"K");
        assert_eq!(read(&plain), None);
        assert_eq!(read(&one.replace("ConfigMap", "Secret")), None);
    }

    #[test]
    fn error_names_the_key() {
        for (data, expected) in [
            (
                "",
                "the config map /x did not provide any GPG public keys to verify signatures from and \
                 cannot be used: field data: no key begins with \"verifier-public-key-\"",
            ),
            (
                "data: {store-a: 'https://x'}",
                "the config map /x did not provide any GPG public keys",
            ),
            (
                "data: {verifier-public-key-a: x}",
                "the config map /x did not provide any signature stores to read from and cannot be used: \
                 field data: no key begins with \"store-\"",
            ),
            (
                "data: {store-a: 'ftp://x'}",
                "field data.store-a: \"ftp://x\" begins with none of",
            ),
            ("binaryData: {store-a: '?'}", "field binaryData.store-a"),
        ] {
            let error = read(&config_map(data)).unwrap().unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn nothing_is_printed_that_cannot_be_read() {
        let mut no_keyring = verification();
        no_keyring.keyrings.clear();
        assert!(matches!(no_keyring.print(), Err(Error::NoKeyring(_))));
        let mut no_store = verification();
        no_store.stores.clear();
        assert!(matches!(no_store.print(), Err(Error::NoStore(_))));
        let mut other_store = verification();
        other_store.stores.insert("b".into(), "/srv".into());
        assert!(matches!(other_store.print(), Err(Error::Store { .. })));
        let mut other_key = verification();
        other_key.keyrings.insert("a b".into(), Vec::new());
        assert!(matches!(other_key.print(), Err(Error::Key(_))));
    }
}
