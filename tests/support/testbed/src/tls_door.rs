//! An address that speaks TLS, in front of a server that does not.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The address. Dropped, it is closed.
#[derive(Debug)]
pub(crate) struct TlsDoor {
    pub(crate) address: SocketAddr,
    listener: JoinHandle<()>,
}

impl TlsDoor {
    /// Opens it at an address, with `<pair>.crt` and `<pair>.key`.
    pub(crate) async fn open(at: SocketAddr, pair: &Path, server: SocketAddr) -> Result<Self> {
        let read = |extension: &str| {
            let file = pair.with_extension(extension);
            std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))
        };
        let certificate = CertificateDer::from_pem_slice(&read("crt")?)?;
        let key = PrivateKeyDer::from_pem_slice(&read("key")?)?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let listener = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that is gone, or trusts another authority, sends its request again.
                    drop(relay(&acceptor, stream, server).await);
                });
            }
        });
        Ok(Self { address, listener })
    }
}

impl Drop for TlsDoor {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

async fn relay(acceptor: &TlsAcceptor, stream: TcpStream, server: SocketAddr) -> Result<()> {
    let mut client = acceptor.accept(stream).await?;
    let mut server = TcpStream::connect(server).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
