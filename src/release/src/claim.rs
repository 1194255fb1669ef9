//! What a signature of an image says: its digest, and the name it was signed under.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::ImageDigest;

/// By whose signatures a statement is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimForm {
    /// OpenPGP: containers' atomic signature format.
    OpenPgp,
    /// Sigstore: cosign's simple signing. Its `optional` may hold anything.
    Sigstore,
}

impl ClaimForm {
    /// The only type of its statements.
    const fn type_name(self) -> &'static str {
        match self {
            Self::OpenPgp => "atomic container signature",
            Self::Sigstore => "cosign container image signature",
        }
    }
}

/// The statement that is signed.
///
/// Shape: JSON, one object, with the type of its form:
/// ```json
/// {"critical": {"type": "atomic container signature",
///               "image": {"docker-manifest-digest": "…"},
///               "identity": {"docker-reference": "…"}},
///  "optional": {"creator": "…", "timestamp": 0}}
/// ```
/// `optional` and its fields may be missing; other fields are an error. Source:
/// `docs/reference/cli.md`, "Signatures"; containers' atomic signature format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub digest: ImageDigest,
    /// The name that it was signed under, such as `quay.io/example/release:1.2.3`. Never empty.
    pub reference: String,
    /// Program that signed it.
    pub creator: Option<String>,
    /// When it was signed, in seconds since 1970.
    pub timestamp_secs: Option<i64>,
}

/// Why bytes are no claim about an image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// They are no statement.
    #[error("the signature is not valid JSON: field {field}")]
    Syntax {
        /// Path of the field; `.` for the whole.
        field: String,
        #[source]
        source: serde_json::Error,
    },
    /// The statement is of another type.
    #[error(
        "signature is not the correct type: field critical.type: {found:?} is not {:?}",
        expected.type_name()
    )]
    Type {
        /// What it says.
        found: String,
        expected: ClaimForm,
    },
    #[error("signature must have an identity: field critical.identity.docker-reference is empty")]
    NoReference,
    /// It is about another image.
    #[error("signature digest does not match: it is about {claimed}, and not about {expected}")]
    OtherDigest {
        claimed: ImageDigest,
        expected: ImageDigest,
    },
    /// It was signed under another name than the requested one.
    #[error("it was signed as {claimed:?}, and not as {expected:?}")]
    OtherReference {
        /// The name that it was signed under.
        claimed: String,
        expected: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<Optional> {
    critical: WireCritical,
    #[serde(default = "Option::default")]
    optional: Option<Optional>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireCritical {
    r#type: String,
    image: WireImage,
    identity: WireIdentity,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireImage {
    #[serde(rename = "docker-manifest-digest")]
    digest: ImageDigest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireIdentity {
    #[serde(rename = "docker-reference")]
    reference: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireOptional {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    creator: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
}

/// Reads a statement of either form.
fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<Wire<T>, Error> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let wire = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        let source = error.into_inner();
        Error::Syntax { field, source }
    })?;
    json.end().map_err(|source| Error::Syntax {
        field: ".".to_owned(),
        source,
    })?;
    Ok(wire)
}

/// What a statement of sigstore's form says beside what counts.
fn known(optional: &Map<String, Value>) -> WireOptional {
    let creator = optional.get("creator").and_then(Value::as_str);
    WireOptional {
        creator: creator.map(str::to_owned),
        timestamp: optional.get("timestamp").and_then(Value::as_i64),
    }
}

impl Claim {
    /// Reads what OpenPGP has signed.
    ///
    /// # Errors
    /// [`Error::Syntax`], [`Error::Type`], [`Error::NoReference`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let wire: Wire<WireOptional> = read(bytes)?;
        Self::of(ClaimForm::OpenPgp, wire.critical, wire.optional)
    }

    /// Reads what sigstore has signed.
    ///
    /// # Errors
    /// [`Error::Syntax`], [`Error::Type`], [`Error::NoReference`].
    pub fn parse_sigstore(bytes: &[u8]) -> Result<Self, Error> {
        let wire: Wire<Map<String, Value>> = read(bytes)?;
        let optional = wire.optional.as_ref().map(known);
        Self::of(ClaimForm::Sigstore, wire.critical, optional)
    }

    fn of(
        form: ClaimForm,
        critical: WireCritical,
        optional: Option<WireOptional>,
    ) -> Result<Self, Error> {
        let WireCritical {
            r#type,
            image,
            identity,
        } = critical;
        if r#type != form.type_name() {
            return Err(Error::Type {
                found: r#type,
                expected: form,
            });
        }
        if identity.reference.is_empty() {
            return Err(Error::NoReference);
        }
        let (creator, timestamp_secs) = optional
            .map(|optional| (optional.creator, optional.timestamp))
            .unwrap_or_default();
        Ok(Self {
            digest: image.digest,
            reference: identity.reference,
            creator,
            timestamp_secs,
        })
    }

    /// The bytes to sign, on one line.
    pub fn print(&self, form: ClaimForm) -> Vec<u8> {
        let wire = Wire {
            critical: WireCritical {
                r#type: form.type_name().to_owned(),
                image: WireImage {
                    digest: self.digest.clone(),
                },
                identity: WireIdentity {
                    reference: self.reference.clone(),
                },
            },
            optional: Some(WireOptional {
                creator: self.creator.clone(),
                timestamp: self.timestamp_secs,
            }),
        };
        crate::json::print_line(&wire)
    }

    /// Whether it is about this image, and signed under this name if one is required.
    ///
    /// # Errors
    /// [`Error::OtherDigest`], [`Error::OtherReference`].
    pub fn check(&self, digest: &ImageDigest, reference: Option<&str>) -> Result<(), Error> {
        if self.digest != *digest {
            return Err(Error::OtherDigest {
                claimed: self.digest.clone(),
                expected: digest.clone(),
            });
        }
        match reference {
            Some(expected) if expected != self.reference => Err(Error::OtherReference {
                claimed: self.reference.clone(),
                expected: expected.to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    const TYPE: &str = "atomic container signature";

    fn statement() -> String {
        format!(
            r#"{{"critical":{{"type":"{TYPE}","image":{{"docker-manifest-digest":"{DIGEST}"}},"identity":{{"docker-reference":"quay.io/r:1"}}}},"optional":{{"creator":"x","timestamp":1}}}}"#
        )
    }

    #[test]
    fn statement_is_read() {
        let claim = Claim::parse(statement().as_bytes()).unwrap();
        assert_eq!(claim.digest, ImageDigest::of(b""));
        assert_eq!(claim.reference, "quay.io/r:1");
        assert_eq!(claim.creator.as_deref(), Some("x"));
        assert_eq!(claim.timestamp_secs, Some(1));
        let no_optional = statement().replace(r#","optional":{"creator":"x","timestamp":1}"#, "");
        assert!(Claim::parse(no_optional.as_bytes()).is_ok());
    }

    #[test]
    fn error_names_the_field() {
        for (from, to, expected) in [
            (
                TYPE,
                "atomic",
                "signature is not the correct type: field critical.type: \"atomic\" is not",
            ),
            (
                "quay.io/r:1",
                "",
                "signature must have an identity: field critical.identity.docker-reference is empty",
            ),
            (
                DIGEST,
                "sha256:0",
                "the signature is not valid JSON: field critical.image.docker-manifest-digest",
            ),
            (
                "\"critical\"",
                "\"critical2\"",
                "the signature is not valid JSON: field critical2",
            ),
            (
                "\"image\"",
                "\"image2\"",
                "the signature is not valid JSON: field critical",
            ),
            (
                "{\"creator",
                "[{\"creator",
                "the signature is not valid JSON: field optional",
            ),
            (
                "\"optional\":",
                "\"extra\":{},\"optional\":",
                "the signature is not valid JSON: field extra",
            ),
            (
                "\"type\":",
                "\"extra\":{},\"type\":",
                "the signature is not valid JSON: field critical",
            ),
            (
                "\"creator\":",
                "\"extra\":{},\"creator\":",
                "the signature is not valid JSON: field optional",
            ),
        ] {
            let text = statement().replacen(from, to, 1);
            let error = Claim::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let two = statement() + "{}";
        assert!(Claim::parse(two.as_bytes()).is_err());
    }

    #[test]
    fn statement_of_sigstore_may_say_more() {
        let text = statement().replace(TYPE, "cosign container image signature");
        for (optional, creator, time) in [
            ("null", None, None),
            ("{\"creator\":7,\"a\":[1],\"timestamp\":5}", None, Some(5)),
            ("{\"creator\":\"x\"}", Some("x"), None),
        ] {
            let text = text.replace("{\"creator\":\"x\",\"timestamp\":1}", optional);
            let claim = Claim::parse_sigstore(text.as_bytes()).unwrap();
            let found = (claim.creator.as_deref(), claim.timestamp_secs);
            assert_eq!(found, (creator, time), "{optional}");
        }
        for wrong in [
            text.clone() + &text,
            text.replace("\"optional\"", "\"other\""),
            text.replacen("\"critical\"", "\"critical\":{},\"critical\"", 1),
        ] {
            let error = Claim::parse_sigstore(wrong.as_bytes()).unwrap_err();
            assert!(matches!(error, Error::Syntax { .. }), "{wrong}: {error}");
        }
        let other = Claim::parse_sigstore(statement().as_bytes()).unwrap_err();
        assert_eq!(
            other.to_string(),
            "signature is not the correct type: field critical.type: \"atomic container \
             signature\" is not \"cosign container image signature\""
        );
        assert!(Claim::parse(text.as_bytes()).is_err());
    }

    #[test]
    fn claim_is_about_one_image_and_one_name() {
        let claim = Claim::parse(statement().as_bytes()).unwrap();
        assert!(claim.check(&ImageDigest::of(b""), None).is_ok());
        assert!(
            claim
                .check(&ImageDigest::of(b""), Some("quay.io/r:1"))
                .is_ok()
        );
        let error = claim.check(&ImageDigest::of(b"x"), None).unwrap_err();
        assert!(error.to_string().starts_with(&format!(
            "signature digest does not match: it is about {DIGEST}"
        )));
        let error = claim
            .check(&ImageDigest::of(b""), Some("quay.io/r:2"))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "it was signed as \"quay.io/r:1\", and not as \"quay.io/r:2\""
        );
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            bytes in proptest::collection::vec(any::<u8>(), 0..9),
            reference in "\\PC{1,20}",
            creator in proptest::option::of("\\PC*"),
            timestamp_secs in proptest::option::of(any::<i64>()),
        ) {
            let claim = Claim { digest: ImageDigest::of(&bytes), reference, creator, timestamp_secs };
            let printed = claim.print(ClaimForm::OpenPgp);
            prop_assert_eq!(&Claim::parse(&printed).unwrap(), &claim);
            let printed = claim.print(ClaimForm::Sigstore);
            prop_assert_eq!(Claim::parse_sigstore(&printed).unwrap(), claim);
        }
    }
}
