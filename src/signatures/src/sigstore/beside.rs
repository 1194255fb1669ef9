//! Signatures that lie beside an image in its registries, held against policies.

use std::fmt;

use images::attached::{self, Attachment, Attachments, Beside};
use images::{ImageLocation, ImageReply, Stores};
use jiff::Timestamp;
use release::ImageDigest;

use super::attached::{AttachedSignature, PAYLOAD};
use super::policy::SigstorePolicy;
use super::verify::verify;

/// An image with a valid signature beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedImage {
    /// Policy that it fulfils.
    pub policy: String,
    /// Where the signature lies.
    pub place: String,
    /// The name that was signed.
    pub reference: String,
}

/// No signature beside an image suffices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsignedImage {
    pub image: String,
    pub digest: ImageDigest,
    /// Policy that asks for one, and whose signature it asks for.
    pub policy: String,
    pub wanted: String,
    /// What was found at each place, in the order in which they were looked at.
    pub found: Vec<String>,
}

impl fmt::Display for UnsignedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            image,
            digest,
            policy,
            wanted,
            found,
        } = self;
        write!(
            f,
            "unable to verify {digest} of {image} against ClusterImagePolicy {policy}: no \
             signature {wanted}"
        )?;
        if found.is_empty() {
            f.write_str("; there is no place to look for one")?;
        }
        found.iter().try_for_each(|found| write!(f, "; {found}"))
    }
}

impl std::error::Error for UnsignedImage {}

/// An image, as it is pulled.
#[derive(Clone, Debug)]
pub struct PulledImage<'a> {
    /// The name that policies are about, with its digest.
    pub name: &'a str,
    pub digest: &'a ImageDigest,
    /// Where it lies: its own place and those of its mirrors, in the order of pulls.
    pub places: &'a [ImageLocation],
}

impl PulledImage<'_> {
    /// Looks beside the image at each place until a signature suffices.
    ///
    /// # Errors
    /// [`UnsignedImage`], with what was found, and what could not be read.
    pub async fn verify(
        &self,
        stores: &Stores,
        policy: &SigstorePolicy,
        now: Timestamp,
    ) -> Result<SignedImage, UnsignedImage> {
        let mut found = Vec::new();
        for place in self.places {
            match self.verify_at(stores, place, policy, now).await {
                Ok(signed) => return Ok(signed),
                Err(why) => found.extend(why),
            }
        }
        Err(self.unsigned(policy, found))
    }

    /// Looks beside the image at the first place that has it: a runtime pulls it from there, and
    /// looks nowhere else.
    ///
    /// None where no place has it.
    ///
    /// # Errors
    /// [`UnsignedImage`]. A place that does not say whether it has the image counts as unsigned.
    pub async fn verify_where_pulled(
        &self,
        stores: &Stores,
        policy: &SigstorePolicy,
        now: Timestamp,
    ) -> Result<Option<SignedImage>, UnsignedImage> {
        let mut unknown = Vec::new();
        for place in self.places {
            let at = place.with_digest(self.digest);
            match stores.look_up(&at).await {
                ImageReply::Done(_) => {
                    let signed = self.verify_at(stores, place, policy, now).await;
                    return signed.map(Some).map_err(|why| {
                        unknown.extend(why);
                        self.unsigned(policy, unknown)
                    });
                }
                ImageReply::Absent | ImageReply::NoRepository => {}
                ImageReply::NotAllowed(why)
                | ImageReply::NotSupported(why)
                | ImageReply::Unreachable(why) => unknown.push(why),
            }
        }
        if unknown.is_empty() {
            return Ok(None);
        }
        Err(self.unsigned(policy, unknown))
    }

    fn unsigned(&self, policy: &SigstorePolicy, found: Vec<String>) -> UnsignedImage {
        UnsignedImage {
            image: self.name.to_owned(),
            digest: self.digest.clone(),
            policy: policy.name().to_owned(),
            wanted: policy.wanted(),
            found,
        }
    }

    async fn verify_at(
        &self,
        stores: &Stores,
        place: &ImageLocation,
        policy: &SigstorePolicy,
        now: Timestamp,
    ) -> Result<SignedImage, Vec<String>> {
        let mut found = Vec::new();
        for beside in [Beside::Tag, Beside::Referrers] {
            let at = named(place, self.digest, beside);
            let read = attached::read(stores, place, self.digest, beside, PAYLOAD).await;
            let Attachments {
                found: attachments,
                unread,
            } = match read {
                Ok(read) => read,
                Err(error) => {
                    found.push(format!("{at}: {}", chain(&error)));
                    continue;
                }
            };
            let signatures: Vec<AttachedSignature> =
                attachments.into_iter().map(signature).collect();
            match verify(policy, (self.name, self.digest), &signatures, now) {
                Ok(claim) => {
                    return Ok(SignedImage {
                        policy: policy.name().to_owned(),
                        place: at,
                        reference: claim.reference,
                    });
                }
                Err(faults) if faults.is_empty() && unread.is_empty() => {
                    found.push(format!("{at}: none"));
                }
                Err(faults) => {
                    let faults = faults.iter().zip(1..).map(|(fault, number)| {
                        format!("{at}: signature {number}: {}", chain(fault))
                    });
                    found.extend(faults);
                    found.extend(unread);
                }
            }
        }
        Err(found)
    }
}

fn signature(attachment: Attachment) -> AttachedSignature {
    AttachedSignature::new(attachment.content, &attachment.annotations)
}

/// What a place beside an image is called.
fn named(place: &ImageLocation, digest: &ImageDigest, beside: Beside) -> String {
    match (beside, attached::tag(place, digest)) {
        (Beside::Tag, Some(tag)) => tag.to_string(),
        (Beside::Tag, None) => format!("beside {place}"),
        (Beside::Referrers, _) => format!("referrers of {}", place.with_digest(digest)),
    }
}

/// An error with its causes; one that is in the text already is passed over.
fn chain(error: &dyn std::error::Error) -> String {
    crate::verify::whole(error)
}

/// Signatures beside an image, where it lies; those of the tag.
///
/// # Errors
/// The registry does not say.
pub async fn read(
    stores: &Stores,
    image: &ImageLocation,
    digest: &ImageDigest,
) -> Result<Vec<AttachedSignature>, images::Error> {
    let read = attached::read(stores, image, digest, Beside::Tag, PAYLOAD).await?;
    Ok(read.found.into_iter().map(signature).collect())
}

/// Puts a signature beside an image.
///
/// # Errors
/// The registry does not take it.
pub async fn add(
    stores: &Stores,
    image: &ImageLocation,
    digest: &ImageDigest,
    signature: &AttachedSignature,
) -> Result<attached::Attached, images::Error> {
    let attachment = Attachment {
        content: signature.payload.clone(),
        annotations: signature.annotations(),
    };
    attached::add(stores, image, digest, PAYLOAD, &attachment).await
}
