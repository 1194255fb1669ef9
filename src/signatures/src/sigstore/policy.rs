//! What a ClusterImagePolicy demands, with its keys read.

use api::config::ClusterImagePolicy;
use api::config::image_policy::{FulcioTrust, PkiTrust, PublicKey};

use release::scope::has_image;

use super::certificate::{Authority, Person};
use super::identity::{IdentityError, NameMatch};
use super::key::{KeyError, VerifyingKey};

/// A policy of images, ready to verify.
#[derive(Clone, Debug)]
pub struct SigstorePolicy {
    name: String,
    scopes: Vec<String>,
    pub(super) trust: Trust,
    pub(super) names: NameMatch,
}

/// Who must have signed.
#[derive(Clone, Debug)]
pub(super) enum Trust {
    Key {
        key: VerifyingKey,
        /// Key of the transparency log; none: no log is asked for.
        log: Option<VerifyingKey>,
    },
    /// A certificate, as valid when the log took the entry.
    Logged {
        authority: Authority,
        log: VerifyingKey,
        person: Person,
    },
    /// A certificate, as valid now.
    Certified {
        authority: Authority,
        person: Person,
    },
}

/// The field of a policy that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("ClusterImagePolicy {policy}: spec.policy.{field}")]
pub struct InvalidImagePolicy {
    policy: String,
    field: &'static str,
    #[source]
    why: PolicyFault,
}

/// What is wrong with it.
#[derive(Debug, thiserror::Error)]
enum PolicyFault {
    #[error("it is missing")]
    Missing,
    #[error("there is no type {0:?}")]
    NoType(String),
    #[error(transparent)]
    Key(KeyError),
    /// Certificates cannot be read.
    #[error("{0}")]
    Authority(String),
    #[error("it names no person and no host")]
    NoSubject,
    #[error(transparent)]
    Identity(IdentityError),
}

impl SigstorePolicy {
    /// Reads the demand of a policy.
    ///
    /// # Errors
    /// [`InvalidImagePolicy`].
    pub fn parse(policy: &ClusterImagePolicy) -> Result<Self, InvalidImagePolicy> {
        let name = policy.metadata.name.clone().unwrap_or_default();
        let invalid = |(field, why)| InvalidImagePolicy {
            policy: name.clone(),
            field,
            why,
        };
        let root = &policy.spec.policy.root_of_trust;
        let missing = |field| (field, PolicyFault::Missing);
        let trust = match root.policy_type.as_str() {
            "PublicKey" => match &root.public_key {
                Some(key) => of_key(key),
                None => Err(missing("rootOfTrust.publicKey")),
            },
            "FulcioCAWithRekor" => match &root.fulcio {
                Some(fulcio) => of_fulcio(fulcio),
                None => Err(missing("rootOfTrust.fulcioCAWithRekor")),
            },
            "PKI" => match &root.pki {
                Some(pki) => of_pki(pki),
                None => Err(missing("rootOfTrust.pki")),
            },
            other => {
                let why = PolicyFault::NoType(other.to_owned());
                Err(("rootOfTrust.policyType", why))
            }
        };
        let trust = trust.map_err(invalid)?;
        let names = NameMatch::of(policy.spec.policy.signed_identity.as_ref())
            .map_err(|error| invalid(("signedIdentity", PolicyFault::Identity(error))))?;
        let scopes = policy.spec.scopes.clone();
        Ok(Self {
            name,
            scopes,
            trust,
            names,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose signature is looked for, in words.
    pub fn wanted(&self) -> String {
        let person = |person: &Person| {
            let names = [&person.email, &person.hostname].map(String::as_str);
            let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
            names.join(" and ")
        };
        match &self.trust {
            Trust::Key { key, log } => {
                let log = if log.is_some() {
                    ", with an entry of a transparency log"
                } else {
                    ""
                };
                format!("by key {}{log}", short(&key.fingerprint()))
            }
            Trust::Logged { person: of, .. } => {
                format!(
                    "by {} of {}, with an entry of a transparency log",
                    person(of),
                    of.issuer
                )
            }
            Trust::Certified { person: of, .. } => format!("by {}", person(of)),
        }
    }
}

/// The policies that are about an image: those with the longest scope that has it. All of them
/// hold, and no other: so does a container runtime.
///
/// Source: `containers-policy.json(5)`, scopes.
pub fn demanding<'a>(policies: &'a [SigstorePolicy], image: &str) -> Vec<&'a SigstorePolicy> {
    let longest_of = |policy: &SigstorePolicy| {
        let having = policy.scopes.iter().filter(|scope| has_image(scope, image));
        having.map(String::len).max()
    };
    let longest = policies.iter().filter_map(longest_of).max();
    let is_about = |policy: &&SigstorePolicy| longest.is_some() && longest_of(policy) == longest;
    policies.iter().filter(is_about).collect()
}

/// The first digits of a fingerprint: enough to tell keys apart.
pub(super) fn short(fingerprint: &str) -> &str {
    fingerprint.get(..16).unwrap_or(fingerprint)
}

type Field = (&'static str, PolicyFault);

fn key(field: &'static str, bytes: &[u8]) -> Result<VerifyingKey, Field> {
    VerifyingKey::of_pem(bytes).map_err(|error| (field, PolicyFault::Key(error)))
}

fn authority(field: &'static str, roots: &[u8], between: &[u8]) -> Result<Authority, Field> {
    let authority = Authority::of_pem(roots, between);
    authority.map_err(|why| (field, PolicyFault::Authority(why)))
}

fn of_key(public: &PublicKey) -> Result<Trust, Field> {
    let log = public.rekor_key_data.as_ref();
    let log = log.map(|log| key("rootOfTrust.publicKey.rekorKeyData", &log.0));
    Ok(Trust::Key {
        key: key("rootOfTrust.publicKey.keyData", &public.key_data.0)?,
        log: log.transpose()?,
    })
}

fn of_fulcio(fulcio: &FulcioTrust) -> Result<Trust, Field> {
    let subject = &fulcio.fulcio_subject;
    if subject.oidc_issuer.is_empty() || subject.signed_email.is_empty() {
        let field = "rootOfTrust.fulcioCAWithRekor.fulcioSubject";
        return Err((field, PolicyFault::NoSubject));
    }
    let field = "rootOfTrust.fulcioCAWithRekor.fulcioCAData";
    Ok(Trust::Logged {
        authority: authority(field, &fulcio.fulcio_ca_data.0, &[])?,
        log: key(
            "rootOfTrust.fulcioCAWithRekor.rekorKeyData",
            &fulcio.rekor_key_data.0,
        )?,
        person: Person {
            email: subject.signed_email.clone(),
            hostname: String::new(),
            issuer: subject.oidc_issuer.clone(),
        },
    })
}

fn of_pki(pki: &PkiTrust) -> Result<Trust, Field> {
    let subject = &pki.pki_certificate_subject;
    if subject.email.is_empty() && subject.hostname.is_empty() {
        let field = "rootOfTrust.pki.pkiCertificateSubject";
        return Err((field, PolicyFault::NoSubject));
    }
    let between = pki.ca_intermediates_data.as_ref();
    let between = between.map_or(&[][..], |between| between.0.as_slice());
    Ok(Trust::Certified {
        authority: authority("rootOfTrust.pki.caRootsData", &pki.ca_roots_data.0, between)?,
        person: Person {
            email: subject.email.clone(),
            hostname: subject.hostname.clone(),
            issuer: String::new(),
        },
    })
}
