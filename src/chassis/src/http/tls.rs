//! The server's side of TLS: TLS 1.2 and 1.3, with a certificate that follows its files.
//!
//! The files are looked at when a connection comes, at most once a second: a certificate matters to
//! none but new connections, and a rotation needs no task, no signal and no file watch. Connections
//! that are open keep what they began with.

use std::future::Future;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, ServerConfig, version};
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
        /// What the system said.
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
}

/// What tells a file from the one before: device, inode, size, and its change in nanoseconds.
type Stamp = (u64, u64, u64, i64, i64);

/// Certificate and key, as two files that a rotation replaces.
#[derive(Debug)]
pub struct ServerTls {
    certificate: PathBuf,
    key: PathBuf,
    config: Arc<ServerConfig>,
    /// The files that were tried last, whether or not they served.
    tried: [Stamp; 2],
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
        let tried = stamps(&certificate, &key)?;
        let config = read(&certificate, &key)?;
        Ok(Self {
            certificate,
            key,
            config,
            tried,
            looked: Instant::now(),
            period: PERIOD,
        })
    }

    /// Takes over files that changed. Of a pair that is half replaced, the old one stays.
    fn refresh(&mut self) {
        if self.looked.elapsed() < self.period {
            return;
        }
        self.looked = Instant::now();
        // The stamps are of before the reading: what is replaced meanwhile is read again.
        let read = stamps(&self.certificate, &self.key).and_then(|stamps| {
            if stamps == self.tried {
                return Ok(None);
            }
            self.tried = stamps;
            read(&self.certificate, &self.key).map(Some)
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

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Error> {
    let chain: Vec<_> = parse(certificate, |text| {
        CertificateDer::pem_slice_iter(text).collect()
    })?;
    let key = parse(key, PrivateKeyDer::from_pem_slice)?;
    configure(chain, key).map_err(|source| Error::Use {
        path: certificate.to_owned(),
        source,
    })
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

fn configure(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
