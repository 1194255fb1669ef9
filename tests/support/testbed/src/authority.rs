//! Certificates of servers and clients.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose};
use rcgen::{IsCa, Issuer, KeyPair, SanType};

/// An authority that signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub pem: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Its name must be its own: a certificate with the subject of its issuer signs itself.
    pub fn make(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self { issuer, pem })
    }

    /// Writes `<to>.crt` and `<to>.key` for this common name and organisation, and for servers on
    /// this machine.
    pub fn issue(&self, to: &Path, name: &str, organization: &str) -> Result<()> {
        self.issue_at(to, Ipv4Addr::LOCALHOST.into(), name, organization)
    }

    /// The same for servers at an address.
    pub fn issue_at(
        &self,
        to: &Path,
        address: IpAddr,
        name: &str,
        organization: &str,
    ) -> Result<()> {
        self.write(to, SanType::IpAddress(address), params(name, organization))
    }

    /// The same for what a Service leads to, by its name: `<name>.<namespace>.svc`.
    pub fn issue_service(&self, to: &Path, service: &str) -> Result<()> {
        let name = SanType::DnsName(service.try_into()?);
        self.write(to, name, params(service, "test"))
    }

    #[expect(clippy::disallowed_methods, reason = "a run's own files")]
    fn write(&self, to: &Path, server: SanType, mut params: CertificateParams) -> Result<()> {
        params.subject_alt_names = vec![server];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let write = |extension: &str, pem: String| {
            let file = to.with_extension(extension);
            std::fs::write(&file, pem).with_context(|| format!("cannot write {}", file.display()))
        };
        // The key first: a server reads a pair that does not fit as one that is half replaced.
        write("key", key.serialize_pem())?;
        write("crt", certificate.pem())
    }

    /// A certificate of a client and its key, in one PEM text, as kubelets keep theirs.
    pub fn client(&self, name: &str, organization: &str) -> Result<String> {
        let mut params = params(name, organization);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(certificate.pem() + &key.serialize_pem())
    }
}

/// A certificate of this subject, to be signed.
fn params(name: &str, organization: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    let subject = &mut params.distinguished_name;
    subject.push(DnType::OrganizationName, organization);
    subject.push(DnType::CommonName, name);
    params
}
