//! The least that a hyper server does: the same bytes for each request, whatever it asks for.

use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Serves for ever.
///
/// Errors: it cannot listen.
pub(crate) fn serve(address: SocketAddr, content: Vec<u8>, threads: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let content = Bytes::from(content);
    runtime.block_on(async {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        loop {
            let (stream, _) = listener.accept().await.context("cannot accept")?;
            stream.set_nodelay(true)?;
            let content = content.clone();
            tokio::spawn(async move {
                let response = service_fn(move |_: Request<Incoming>| {
                    let body = Full::new(content.clone());
                    async { Ok::<_, Infallible>(Response::new(body)) }
                });
                let served = http1::Builder::new().serve_connection(TokioIo::new(stream), response);
                // A client that leaves in the middle is the client's end of a measurement.
                drop(served.await);
            });
        }
    })
}
