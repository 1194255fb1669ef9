//! Checks an image's signatures against keyrings.

use jiff::Timestamp;
use release::ImageDigest;
use release::claim::Claim;

use crate::keyring::Keyring;

/// An image with a valid signature of every keyring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// For each ring in its order: its name, the key's fingerprint, and what was signed.
    pub by: Vec<(String, String, Claim)>,
}

/// Signatures do not suffice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to verify {digest} against keyrings: {}", keyrings.join(", "))]
pub struct Unverified {
    pub digest: ImageDigest,
    /// Rings of which no key has signed it validly, by name.
    pub keyrings: Vec<String>,
    /// Why each signature does not count, with its number from 1 and the ring.
    pub reasons: Vec<String>,
}

/// Holds signatures against an image's digest: each keyring needs one that is valid, as of `now`.
///
/// The name that an image was signed under counts only if one is required.
///
/// # Errors
/// [`Unverified`]; also where there is no keyring.
///
/// Source: `docs/reference/cli.md`, "Signatures".
pub fn verify(
    digest: &ImageDigest,
    reference: Option<&str>,
    keyrings: &[Keyring],
    signatures: &[Vec<u8>],
    now: Timestamp,
) -> Result<Verified, Unverified> {
    let mut by = Vec::new();
    let (mut missing, mut reasons) = (Vec::new(), Vec::new());
    for keyring in keyrings {
        let mut found = None;
        for (index, message) in signatures.iter().enumerate() {
            match one(digest, reference, keyring, message, now) {
                Ok(signed) => {
                    found = Some(signed);
                    break;
                }
                Err(why) => {
                    let (number, name) = (index + 1, keyring.name());
                    reasons.push(format!("signature {number}, keyring {name}: {why}"));
                }
            }
        }
        match found {
            Some((fingerprint, claim)) => {
                by.push((keyring.name().to_owned(), fingerprint, claim));
            }
            None => missing.push(keyring.name().to_owned()),
        }
    }
    if missing.is_empty() && !keyrings.is_empty() {
        return Ok(Verified { by });
    }
    if signatures.is_empty() {
        reasons.push("there is no signature".to_owned());
    }
    if keyrings.is_empty() {
        reasons.push("there is no keyring".to_owned());
    }
    Err(Unverified {
        digest: digest.clone(),
        keyrings: missing,
        reasons,
    })
}

fn one(
    digest: &ImageDigest,
    reference: Option<&str>,
    keyring: &Keyring,
    message: &[u8],
    now: Timestamp,
) -> Result<(String, Claim), String> {
    let signed = keyring.open(message, now).map_err(|error| whole(&error))?;
    let claim = Claim::parse(&signed.content).map_err(|error| whole(&error))?;
    let checked = claim.check(digest, reference);
    checked.map_err(|error| whole(&error))?;
    Ok((signed.fingerprint, claim))
}

/// An error with its causes; one that is in the text already is passed over.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.extend([": ", &message]);
        }
        next = cause.source();
    }
    text
}
