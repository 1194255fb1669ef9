//! The server's side of TLS: TLS 1.2 and 1.3, with a certificate that follows its files.
//!
//! The files are looked at when a connection comes, at most once a second: a certificate matters to
//! none but new connections, and a rotation needs no task, no signal and no file watch. Connections
//! that are open keep what they began with.
//!
//! A program may name authorities of clients. A certificate that they do not vouch for then ends
//! the handshake; a client without one is let in, and the program decides what it may do.

use std::future::Future;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig, version};
use tokio_rustls::server::TlsStream;

use super::Transport;
use crate::report::Chain;

/// Shortest time between two looks at the files.
const PERIOD: Duration = Duration::from_secs(1);

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file holds no PEM of its kind.
    #[error("cannot parse {}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// Certificate and key do not belong together, or are of a kind that is not supported.
    #[error("cannot use the certificate {}", path.display())]
    Use {
        /// The certificate.
        path: PathBuf,
        /// What is wrong with the pair.
        source: rustls::Error,
    },
    /// Authorities of clients hold no PEM.
    #[error("cannot parse the authorities of clients")]
    ParseAuthorities(#[source] pem::Error),
    /// None of the authorities of clients can be used.
    #[error("there is no usable authority of clients")]
    NoAuthorities,
    /// Authorities cannot verify clients.
    #[error("cannot verify clients by these authorities")]
    VerifyClients(#[source] rustls::server::VerifierBuilderError),
}

/// Authorities whose certificates clients may show, which a program learns and may replace. Its
/// clones are one.
#[derive(Debug, Clone, Default)]
pub struct ClientAuthorities(Arc<Mutex<Option<Arc<[u8]>>>>);

impl ClientAuthorities {
    /// Takes these, PEM, for new connections. None: no certificate is requested of clients.
    ///
    /// # Errors
    /// They cannot be used; those before stay.
    pub fn set(&self, bundle: Option<&[u8]>) -> Result<(), Error> {
        if let Some(bundle) = bundle {
            roots(bundle)?;
        }
        let bundle = bundle.map(Arc::from);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = bundle;
        Ok(())
    }

    /// Whether a certificate is requested of clients.
    pub fn are_known(&self) -> bool {
        self.bundle().is_some()
    }

    fn bundle(&self) -> Option<Arc<[u8]>> {
        let bundle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bundle.clone()
    }
}

/// What tells a file from the one before: device, inode, size, and its change in nanoseconds.
type Stamp = (u64, u64, u64, i64, i64);

/// The files, and the authorities of clients.
type Tried = ([Stamp; 2], Option<Arc<[u8]>>);

/// Certificate and key, as two files that a rotation replaces.
#[derive(Debug)]
pub struct ServerTls {
    certificate: PathBuf,
    key: PathBuf,
    authorities: ClientAuthorities,
    config: Arc<ServerConfig>,
    /// The files that were tried last, and the authorities with them, whether or not they served.
    tried: Tried,
    looked: Instant,
    pub(super) period: Duration,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// Shape: PEM. `certificate` is the server's and then its intermediates; `key` is PKCS #8,
    /// PKCS #1 or SEC1.
    ///
    /// # Errors
    /// [`Error`]: later, files that cannot be used leave the certificate before them in place.
    pub fn load(certificate: PathBuf, key: PathBuf) -> Result<Self, Error> {
        let tried = (stamps(&certificate, &key)?, None);
        let config = read(&certificate, &key, None)?;
        Ok(Self {
            certificate,
            key,
            authorities: ClientAuthorities::default(),
            config,
            tried,
            looked: Instant::now(),
            period: PERIOD,
        })
    }

    /// Lets clients show a certificate of these authorities, as they are when a connection comes.
    #[must_use]
    pub fn with_client_authorities(mut self, authorities: ClientAuthorities) -> Self {
        self.authorities = authorities;
        self
    }

    /// Takes over files that changed. Of a pair that is half replaced, the old one stays.
    fn refresh(&mut self) {
        if self.looked.elapsed() < self.period {
            return;
        }
        self.looked = Instant::now();
        // The stamps are of before the reading: what is replaced meanwhile is read again.
        let read = stamps(&self.certificate, &self.key).and_then(|stamps| {
            let found = (stamps, self.authorities.bundle());
            if found == self.tried {
                return Ok(None);
            }
            self.tried = found;
            let authorities = self.tried.1.as_deref();
            read(&self.certificate, &self.key, authorities).map(Some)
        });
        let path = self.certificate.display();
        match read {
            Ok(None) => {}
            Ok(Some(config)) => {
                self.config = config;
                tracing::info!(%path, "serving a new certificate");
            }
            Err(error) => {
                tracing::warn!(%path, error = %Chain(&error), "the certificate before stays");
            }
        }
    }
}

impl Transport for ServerTls {
    type Stream = TlsStream<TcpStream>;

    fn open(
        &mut self,
        stream: TcpStream,
    ) -> impl Future<Output = std::io::Result<Self::Stream>> + Send + 'static {
        self.refresh();
        TlsAcceptor::from(Arc::clone(&self.config)).accept(stream)
    }

    fn certificate(stream: &Self::Stream) -> Option<Arc<[u8]>> {
        let (_, session) = stream.get_ref();
        let shown = session.peer_certificates()?.first()?;
        Some(Arc::from(shown.as_ref()))
    }
}

fn stamps(certificate: &Path, key: &Path) -> Result<[Stamp; 2], Error> {
    let stamp = |path: &Path| match std::fs::metadata(path) {
        Ok(found) => Ok((
            found.dev(),
            found.ino(),
            found.size(),
            found.ctime(),
            found.ctime_nsec(),
        )),
        Err(source) => Err(Error::Read {
            path: path.to_owned(),
            source,
        }),
    };
    Ok([stamp(certificate)?, stamp(key)?])
}

fn read(
    certificate: &Path,
    key: &Path,
    authorities: Option<&[u8]>,
) -> Result<Arc<ServerConfig>, Error> {
    let chain: Vec<_> = parse(certificate, |text| {
        CertificateDer::pem_slice_iter(text).collect()
    })?;
    let key = parse(key, PrivateKeyDer::from_pem_slice)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = match authorities {
        None => WebPkiClientVerifier::no_client_auth(),
        Some(bundle) => {
            let roots = Arc::new(roots(bundle)?);
            WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(Error::VerifyClients)?
        }
    };
    let unusable = |source| Error::Use {
        path: certificate.to_owned(),
        source,
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(unusable)?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Makes ring the crypto provider of the process's TLS clients.
pub fn install_provider() {
    // It fails where one is installed already: it is the same, as there is no other (deny.toml).
    drop(rustls::crypto::ring::default_provider().install_default());
}

fn parse<T>(path: &Path, parse: impl Fn(&[u8]) -> Result<T, pem::Error>) -> Result<T, Error> {
    let text = std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|source| Error::Parse {
        path: path.to_owned(),
        source,
    })
}

fn roots(bundle: &[u8]) -> Result<RootCertStore, Error> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle).collect();
    let certificates = certificates.map_err(Error::ParseAuthorities)?;
    let mut roots = RootCertStore::empty();
    // One of an odd kind takes nothing from the others.
    let (used, ignored) = roots.add_parsable_certificates(certificates);
    if used == 0 {
        return Err(Error::NoAuthorities);
    }
    if ignored > 0 {
        tracing::warn!(ignored, "authorities of clients are of an unsupported kind");
    }
    Ok(roots)
}
