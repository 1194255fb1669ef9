//! What a transparency log (Rekor) has promised: that it has an entry, and since when.

use std::collections::BTreeMap;

use jiff::Timestamp;
use release::ImageDigest;
use serde::Deserialize;
use serde_json::Value;

use super::attached;
use super::key::VerifyingKey;

/// Why a promise does not count.
#[derive(Debug, thiserror::Error)]
pub enum LogFault {
    #[error("it has no entry of a transparency log, which the policy asks for")]
    Absent,
    /// It is not of the form.
    #[error("its log entry is not of the form that cosign writes")]
    Form(#[source] serde_json::Error),
    /// A member is no Base64.
    #[error("its log entry: {0} is no Base64")]
    Base64(&'static str),
    #[error("its log entry is not signed by the policy's rekorKeyData")]
    Foreign,
    /// The entry is of another kind.
    #[error("its log entry is of kind {0:?}, and not hashedrekord 0.0.1")]
    Kind(String),
    /// The entry is about something else.
    #[error("its log entry is about another {0}")]
    Other(&'static str),
    /// The time is none.
    #[error("its log entry: integratedTime {0} is no time")]
    Time(i64),
}

/// Source: cosign's signature specification, "bundle".
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bundle {
    #[serde(rename = "SignedEntryTimestamp")]
    signed: String,
    #[serde(rename = "Payload")]
    payload: Payload,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Payload {
    body: String,
    integrated_time: i64,
    log_index: i64,
    #[serde(rename = "logID")]
    log_id: String,
}

#[derive(Deserialize)]
struct Body {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    data: Data,
    signature: Signature,
}

#[derive(Deserialize)]
struct Data {
    hash: Hash,
}

#[derive(Deserialize)]
struct Hash {
    algorithm: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signature {
    content: String,
    public_key: Content,
}

#[derive(Deserialize)]
struct Content {
    content: String,
}

/// What an entry has to be about.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) payload: &'a [u8],
    pub(super) signature: &'a [u8],
    /// DER of the key or certificate.
    pub(super) signer: &'a [u8],
}

impl Payload {
    /// The bytes that the log has signed: JSON in its canonical form.
    fn canonical(&self) -> Vec<u8> {
        let members: BTreeMap<&str, Value> = BTreeMap::from([
            ("body", self.body.clone().into()),
            ("integratedTime", self.integrated_time.into()),
            ("logID", self.log_id.clone().into()),
            ("logIndex", self.log_index.into()),
        ]);
        serde_json::to_vec(&members).unwrap_or_default()
    }
}

/// When the log took the entry, by its own signature.
///
/// # Errors
/// [`LogFault`].
pub(super) fn integrated(
    bundle: Option<&str>,
    log: &VerifyingKey,
    subject: Subject<'_>,
) -> Result<Timestamp, LogFault> {
    let bundle = bundle.ok_or(LogFault::Absent)?;
    let Bundle { signed, payload } = serde_json::from_str(bundle).map_err(LogFault::Form)?;
    let decode = |member, text: &str| {
        let bytes = attached::decode(text);
        bytes.map_err(|_| LogFault::Base64(member))
    };
    let signed = decode("SignedEntryTimestamp", &signed)?;
    if !log.has_signed(&payload.canonical(), &signed) {
        return Err(LogFault::Foreign);
    }
    let body = decode("Payload.body", &payload.body)?;
    let kind: Value = serde_json::from_slice(&body).map_err(LogFault::Form)?;
    let member = |name| kind.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = format!("{} {}", member("kind"), member("apiVersion"));
    if kind != "hashedrekord 0.0.1" {
        return Err(LogFault::Kind(kind));
    }
    let body: Body = serde_json::from_slice(&body).map_err(LogFault::Form)?;
    let Spec { data, signature } = body.spec;
    let of_payload = ImageDigest::of(subject.payload);
    if data.hash.algorithm != "sha256" || data.hash.value != of_payload.hex() {
        return Err(LogFault::Other("payload"));
    }
    if decode("signature.content", &signature.content)? != subject.signature {
        return Err(LogFault::Other("signature"));
    }
    let entry_key = decode("signature.publicKey.content", &signature.public_key.content)?;
    let blocks = pem::parse_many(entry_key).unwrap_or_default();
    if !matches!(blocks.as_slice(), [block] if block.contents() == subject.signer) {
        return Err(LogFault::Other("key or certificate"));
    }
    let time = payload.integrated_time;
    Timestamp::from_second(time).map_err(|_| LogFault::Time(time))
}
