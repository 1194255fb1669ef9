//! One process, from its start to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use chassis::health::Probes;
use chassis::http::Server;
use chassis::http::tls::ServerTls;
use chassis::logs::Log;
use chassis::metrics::Registry;
use chassis::shutdown::Shutdown;
use chassis::{admin, shutdown};
use http::Request;
use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::data::DataSource;
use crate::drawings::DrawingBoard;
use crate::metrics::ServiceMetrics;
use crate::releases::{ReleaseSource, stores};
use crate::respond::Responder;
use crate::scrape::{InService, Scraper};
use crate::settings::ServiceSettings;

/// Threads that serve. One is enough for all clusters of a large site; the second one serves
/// while the first waits for a slow client's socket.
pub const WORKERS: usize = 2;

/// Runs until a signal stops it. Health and metrics are served by the runtime `status`, which
/// has no other work: requests of clients, whatever they cost, do not keep a probe waiting.
///
/// # Errors
/// A taken address, or files that cannot be read.
pub async fn start(settings: ServiceSettings, log: Log, status: &Handle) -> anyhow::Result<()> {
    let shutdown = shutdown::on_signals().context("cannot handle signals")?;
    let following = tokio::spawn(log.follow(shutdown.clone()));
    let tls = match settings.tls {
        Some((certificate, key)) => Some(ServerTls::load(certificate, key)?),
        None => None,
    };
    let server = Server::bind(settings.listen, settings.limits).await?;
    let longest = settings.timeout + settings.interval;
    let service = InService::new(settings.unready_after, longest, Timestamp::now);
    let service = Arc::new(service);
    let metrics = Arc::new(ServiceMetrics::new(Timestamp::now));
    let probes = Arc::clone(&service);
    let registry = metrics.registry();
    let (_, admin) =
        serve_status(status, settings.status, registry, probes, shutdown.clone()).await?;
    let scraper = Scraper {
        data: DataSource::new(
            settings.graph_data.place,
            stores(&settings.releases.registries)?,
        ),
        releases: ReleaseSource::new(settings.releases)?,
        is_strict: settings.graph_data.is_strict,
        interval: settings.interval,
        timeout: settings.timeout,
        built: None,
    };
    let responder = Arc::new(Responder {
        service: Arc::clone(&service),
        metrics: Arc::clone(&metrics),
        prefix: settings.path_prefix,
        mandatory: settings.mandatory,
        signatures: settings.signatures,
        board: DrawingBoard::default(),
    });
    let answering = tower::service_fn(move |request: Request<chassis::http::Body>| {
        let responder = Arc::clone(&responder);
        async move { Ok::<_, Infallible>(responder.respond(&request).await) }
    });
    // On a thread of its own: unpacking and building responses holds up no request.
    let (handle, ending) = (Handle::current(), shutdown.clone());
    let scraping =
        tokio::task::spawn_blocking(move || handle.block_on(scraper.run(service, metrics, ending)));
    match tls {
        Some(tls) => server.serve_tls(tls, answering, shutdown).await,
        None => server.serve(answering, shutdown).await,
    }
    scraping.await?;
    admin.await?;
    following.await?;
    Ok(())
}

/// Begins to serve health and metrics on another runtime; the address in use.
async fn serve_status<P: Probes + 'static>(
    runtime: &Handle,
    address: SocketAddr,
    registry: Registry,
    probes: Arc<P>,
    shutdown: Shutdown,
) -> anyhow::Result<(SocketAddr, JoinHandle<()>)> {
    // A socket belongs to the runtime that it was bound on.
    let server = runtime
        .spawn(Server::bind(address, admin::LIMITS))
        .await??;
    let address = server.address().context("the status port has no address")?;
    let serving = runtime.spawn(admin::serve(server, registry, probes, shutdown));
    Ok((address, serving))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    }

    #[test]
    fn status_is_answered_while_all_threads_for_clients_are_taken() {
        let (clients, status) = (runtime(), runtime());
        let (trigger, shutdown) = chassis::shutdown::pair();
        let service = InService::new(None, Duration::from_mins(5), Timestamp::now);
        let begun = clients.block_on(serve_status(
            status.handle(),
            SocketAddr::from(([127, 0, 0, 1], 0)),
            Registry::default(),
            Arc::new(service),
            shutdown,
        ));
        let (address, serving) = begun.unwrap();
        let (release, held) = mpsc::channel::<()>();
        let (taken, begun) = mpsc::channel();
        clients.spawn(async move {
            taken.send(()).unwrap();
            held.recv().unwrap();
        });
        begun.recv().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let patience = Duration::from_secs(30);
        stream.set_read_timeout(Some(patience)).unwrap();
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n")
            .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        release.send(()).unwrap();
        trigger.fire();
        status.block_on(serving).unwrap();
    }
}
