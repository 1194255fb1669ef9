//! Whether signatures suffice for an image.

use jiff::Timestamp;
use release::ImageDigest;
use release::claim::{self, Claim};

use super::attached::{AttachedSignature, decode};
use super::certificate::CertificateFault;
use super::identity::IdentityFault;
use super::key::VerifyingKey;
use super::log_entry::{self, LogFault, Subject};
use super::policy::{SigstorePolicy, Trust, short};

/// Why one signature does not count.
#[derive(Debug, thiserror::Error)]
pub enum SigstoreFault {
    #[error("it has no signature")]
    Absent,
    #[error("its signature is no Base64")]
    Base64,
    /// Another key has signed, or other bytes.
    #[error("it is not signed by key {0}")]
    Foreign(String),
    #[error(transparent)]
    Log(#[from] LogFault),
    #[error(transparent)]
    Certificate(#[from] CertificateFault),
    /// What was signed is no claim, or one about another image.
    #[error(transparent)]
    Claim(#[from] claim::Error),
    #[error(transparent)]
    Identity(#[from] IdentityFault),
}

/// Holds the signatures beside an image against a policy, as of `now`: one that is valid suffices.
///
/// `image` is the name by which the image is pulled, also where a mirror has it.
///
/// # Errors
/// Why each does not count, in their order.
pub fn verify(
    policy: &SigstorePolicy,
    (image, digest): (&str, &ImageDigest),
    attached: &[AttachedSignature],
    now: Timestamp,
) -> Result<Claim, Vec<SigstoreFault>> {
    let mut faults = Vec::new();
    for signature in attached {
        match one(policy, image, digest, signature, now) {
            Ok(claim) => return Ok(claim),
            Err(fault) => faults.push(fault),
        }
    }
    Err(faults)
}

fn one(
    policy: &SigstorePolicy,
    image: &str,
    digest: &ImageDigest,
    attached: &AttachedSignature,
    now: Timestamp,
) -> Result<Claim, SigstoreFault> {
    if attached.signature.is_empty() {
        return Err(SigstoreFault::Absent);
    }
    let signature = decode(&attached.signature);
    let signature = signature.map_err(|_| SigstoreFault::Base64)?;
    let payload = attached.payload.as_slice();
    let bundle = attached.bundle.as_deref();
    let (leaf, chain) = (attached.certificate.as_deref(), attached.chain.as_deref());
    let signed_by = |key: &VerifyingKey| {
        if key.has_signed(payload, &signature) {
            return Ok(());
        }
        Err(SigstoreFault::Foreign(short(&key.fingerprint()).to_owned()))
    };
    let subject = |signer| Subject {
        payload,
        signature: &signature,
        signer,
    };
    match &policy.trust {
        Trust::Key { key, log } => {
            signed_by(key)?;
            if let Some(log) = log {
                log_entry::integrated(bundle, log, subject(key.der()))?;
            }
        }
        Trust::Logged {
            authority,
            log,
            person,
        } => {
            // The certificate is a part of the entry, whose time decides whether it is valid.
            let der = leaf.map(|leaf| pem::parse(leaf).map(pem::Pem::into_contents));
            let der = der.ok_or(CertificateFault::Absent)?;
            let der = der.map_err(|_| CertificateFault::Form)?;
            let at = log_entry::integrated(bundle, log, subject(&der))?;
            let key = authority.key(leaf, chain, person, at)?;
            signed_by(&key)?;
        }
        Trust::Certified { authority, person } => {
            let key = authority.key(leaf, chain, person, now)?;
            signed_by(&key)?;
        }
    }
    let claim = Claim::parse_sigstore(payload)?;
    claim.check(digest, None)?;
    policy.names.check(image, &claim.reference)?;
    Ok(claim)
}
