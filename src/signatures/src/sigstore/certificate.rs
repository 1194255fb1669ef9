//! Whose key a certificate has, by an authority that the policy trusts.

use std::time::Duration;

use jiff::Timestamp;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};
use x509_cert::Certificate;
use x509_cert::der::asn1::{ObjectIdentifier, Utf8StringRef};
use x509_cert::der::oid::AssociatedOid as _;
use x509_cert::der::{self, Decode as _, Encode as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::key::{KeyError, VerifyingKey};

/// Extensions with the issuer of an identity: as bare text, and as DER. Source: Fulcio's table of
/// object identifiers.
const ISSUER_V1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57264.1.1");
const ISSUER_V2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57264.1.8");

/// Content of the object identifier for the signing of code, 1.3.6.1.5.5.7.3.3.
const CODE_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];

/// Algorithms by which authorities sign.
const ALGORITHMS: &[&dyn rustls_pki_types::SignatureVerificationAlgorithm] = &[
    webpki::ring::ECDSA_P256_SHA256,
    webpki::ring::ECDSA_P256_SHA384,
    webpki::ring::ECDSA_P384_SHA256,
    webpki::ring::ECDSA_P384_SHA384,
    webpki::ring::ED25519,
    webpki::ring::RSA_PKCS1_2048_8192_SHA256,
    webpki::ring::RSA_PKCS1_2048_8192_SHA384,
    webpki::ring::RSA_PKCS1_2048_8192_SHA512,
];

/// Why a certificate does not count.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFault {
    #[error("it has no certificate, which the policy asks for")]
    Absent,
    #[error("its certificate is no PEM of one certificate")]
    Form,
    #[error("its certificate cannot be read: {0}")]
    Der(String),
    #[error("its certificate is not valid at {0}")]
    Expired(Timestamp),
    /// No authority of the policy has issued it, at that time and for that use.
    #[error("its certificate is not by the policy's authority: {0}")]
    Foreign(String),
    /// It is for another person or host.
    #[error("its certificate is for {}, and not for {expected}", or_none(found))]
    Subject {
        found: Vec<String>,
        expected: String,
    },
    /// Another issuer vouches for the identity.
    #[error("its certificate has the issuer {found:?}, and not {expected:?}")]
    Issuer { found: String, expected: String },
    #[error("the key of its certificate")]
    Key(#[source] KeyError),
}

fn or_none(found: &[String]) -> String {
    if found.is_empty() {
        "no person or host".to_owned()
    } else {
        found.join(", ")
    }
}

/// Whose certificates count.
#[derive(Clone, Debug)]
pub(super) struct Authority {
    anchors: Vec<TrustAnchor<'static>>,
    /// Certificates that the policy itself has between authority and leaf.
    between: Vec<CertificateDer<'static>>,
}

/// The subject of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Person {
    /// Address; empty: any.
    pub(super) email: String,
    /// Host; empty: any.
    pub(super) hostname: String,
    /// Issuer of the identity; empty: any.
    pub(super) issuer: String,
}

impl Authority {
    /// Reads certificates of authorities, and those between them and leaves.
    pub(super) fn of_pem(roots: &[u8], between: &[u8]) -> Result<Self, String> {
        let anchors = certificates(roots)?;
        if anchors.is_empty() {
            return Err("it holds no certificate".to_owned());
        }
        let anchors = anchors.iter().map(|root| {
            let anchor = webpki::anchor_from_trusted_cert(root);
            anchor.map(|anchor| anchor.to_owned())
        });
        let anchors = anchors.collect::<Result<_, _>>();
        Ok(Self {
            anchors: anchors.map_err(|error| error.to_string())?,
            between: certificates(between)?,
        })
    }

    /// The key of a leaf, if it is of that person, and valid at that time.
    pub(super) fn key(
        &self,
        leaf: Option<&str>,
        chain: Option<&str>,
        person: &Person,
        at: Timestamp,
    ) -> Result<VerifyingKey, CertificateFault> {
        let leaf = leaf.ok_or(CertificateFault::Absent)?;
        let leaf = certificates(leaf.as_bytes()).map_err(|_| CertificateFault::Form)?;
        let [der] = leaf.as_slice() else {
            return Err(CertificateFault::Form);
        };
        let unread = |error: der::Error| CertificateFault::Der(error.to_string());
        let certificate = Certificate::from_der(der).map_err(unread)?;
        let chain = certificates(chain.unwrap_or_default().as_bytes());
        let chain = chain.map_err(|_| CertificateFault::Form)?;
        let between: Vec<CertificateDer<'_>> =
            chain.into_iter().chain(self.between.clone()).collect();
        let entity = EndEntityCert::try_from(der)
            .map_err(|error| CertificateFault::Der(error.to_string()))?;
        let seconds = u64::try_from(at.as_second()).unwrap_or_default();
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let usage = KeyUsage::required_if_present(CODE_SIGNING);
        entity
            .verify_for_usage(ALGORITHMS, &self.anchors, &between, time, usage, None, None)
            .map_err(|error| {
                let is_of_time = matches!(
                    error,
                    webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. }
                );
                if is_of_time {
                    CertificateFault::Expired(at)
                } else {
                    CertificateFault::Foreign(error.to_string())
                }
            })?;
        person.check(&certificate)?;
        let key = certificate.tbs_certificate.subject_public_key_info.to_der();
        let key = VerifyingKey::of_der(&key.map_err(unread)?);
        key.map_err(CertificateFault::Key)
    }
}

impl Person {
    fn check(&self, certificate: &Certificate) -> Result<(), CertificateFault> {
        let (emails, hosts) = names(certificate)?;
        for (expected, found) in [(&self.email, emails), (&self.hostname, hosts)] {
            if !expected.is_empty() && !found.contains(expected) {
                let expected = expected.clone();
                return Err(CertificateFault::Subject { found, expected });
            }
        }
        if self.issuer.is_empty() {
            return Ok(());
        }
        let found = issuer(certificate)?;
        if found == self.issuer {
            return Ok(());
        }
        let expected = self.issuer.clone();
        Err(CertificateFault::Issuer { found, expected })
    }
}

/// Addresses and hosts of a certificate.
fn names(certificate: &Certificate) -> Result<(Vec<String>, Vec<String>), CertificateFault> {
    let extensions = certificate.tbs_certificate.extensions.iter().flatten();
    let (mut emails, mut hosts) = (Vec::new(), Vec::new());
    for extension in extensions.filter(|one| one.extn_id == SubjectAltName::OID) {
        let names = SubjectAltName::from_der(extension.extn_value.as_bytes());
        for name in names
            .map_err(|error| CertificateFault::Der(error.to_string()))?
            .0
        {
            match name {
                GeneralName::Rfc822Name(email) => emails.push(email.to_string()),
                GeneralName::DnsName(host) => hosts.push(host.to_string()),
                GeneralName::OtherName(_)
                | GeneralName::DirectoryName(_)
                | GeneralName::EdiPartyName(_)
                | GeneralName::UniformResourceIdentifier(_)
                | GeneralName::IpAddress(_)
                | GeneralName::RegisteredId(_) => {}
            }
        }
    }
    Ok((emails, hosts))
}

/// The issuer of the identity; empty where there is none. Both forms agree, or it is none.
fn issuer(certificate: &Certificate) -> Result<String, CertificateFault> {
    let extensions = certificate.tbs_certificate.extensions.iter().flatten();
    let mut found: Option<String> = None;
    for extension in extensions {
        let bytes = extension.extn_value.as_bytes();
        let text = match extension.extn_id {
            ISSUER_V1 => String::from_utf8_lossy(bytes).into_owned(),
            ISSUER_V2 => Utf8StringRef::from_der(bytes)
                .map_err(|error| CertificateFault::Der(error.to_string()))?
                .to_string(),
            _ => continue,
        };
        if found.as_ref().is_some_and(|found| *found != text) {
            return Err(CertificateFault::Der("it has two issuers".to_owned()));
        }
        found = Some(text);
    }
    Ok(found.unwrap_or_default())
}

fn certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let blocks = pem::parse_many(bytes).map_err(|error| error.to_string())?;
    let certificates = blocks.into_iter().map(|block| {
        if block.tag() == "CERTIFICATE" {
            Ok(CertificateDer::from(block.into_contents()))
        } else {
            Err(format!("it has PEM of {:?}", block.tag()))
        }
    });
    certificates.collect()
}
