//! A signature as it lies beside its image.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Media type of the blob that was signed.
pub const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// Annotation with the signature, in Base64.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// Annotation with the certificate of the key that signed, as PEM.
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
/// Annotation with the certificates between it and its authority, as PEM.
const CHAIN: &str = "dev.sigstore.cosign/chain";
/// Annotation with what a transparency log has promised.
const BUNDLE: &str = "dev.sigstore.cosign/bundle";

/// What was signed, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachedSignature {
    /// The bytes that were signed: a [`release::claim::Claim`].
    pub payload: Vec<u8>,
    /// The signature, in Base64. Empty where there is none.
    pub signature: String,
    /// PEM.
    pub certificate: Option<String>,
    /// PEM.
    pub chain: Option<String>,
    /// JSON.
    pub bundle: Option<String>,
}

/// Base64, in which line breaks do not count: programs that sign write some.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    let text: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    BASE64_STANDARD.decode(text)
}

impl AttachedSignature {
    /// From a blob and the annotations of its descriptor.
    pub fn new(payload: Vec<u8>, annotations: &BTreeMap<String, String>) -> Self {
        let text = |key| {
            annotations
                .get(key)
                .filter(|text| !text.is_empty())
                .cloned()
        };
        Self {
            payload,
            signature: text(SIGNATURE).unwrap_or_default(),
            certificate: text(CERTIFICATE),
            chain: text(CHAIN),
            bundle: text(BUNDLE),
        }
    }

    /// The annotations of the blob's descriptor.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let optional = [
            (CERTIFICATE, &self.certificate),
            (CHAIN, &self.chain),
            (BUNDLE, &self.bundle),
        ];
        let optional = optional
            .into_iter()
            .filter_map(|(key, text)| Some((key.to_owned(), text.clone()?)));
        let signature = (SIGNATURE.to_owned(), self.signature.clone());
        optional.chain([signature]).collect()
    }
}
