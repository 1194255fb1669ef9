//! One process, from its start to its end.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Context as _;
use chassis::http::Server;
use chassis::http::tls::ServerTls;
use chassis::logs::Log;
use chassis::{admin, shutdown};
use http::Request;
use jiff::Timestamp;
use tokio::runtime::Handle;

use crate::data::DataSource;
use crate::metrics::ServiceMetrics;
use crate::releases::{ReleaseSource, stores};
use crate::respond::Responder;
use crate::scrape::{InService, Scraper};
use crate::settings::ServiceSettings;

/// Threads that answer. One is enough for all clusters of a large site; the second one answers
/// while the first waits for a slow client's socket.
pub const WORKERS: usize = 2;

/// Runs until it is asked to stop.
///
/// # Errors
/// A taken address, or files that cannot be read.
pub async fn start(settings: ServiceSettings, log: Log) -> anyhow::Result<()> {
    let shutdown = shutdown::on_signals().context("cannot handle signals")?;
    let following = tokio::spawn(log.follow(shutdown.clone()));
    let tls = match settings.tls {
        Some((certificate, key)) => Some(ServerTls::load(certificate, key)?),
        None => None,
    };
    let server = Server::bind(settings.listen, settings.limits).await?;
    let status = Server::bind(settings.status, admin::LIMITS).await?;
    let longest = settings.timeout + settings.interval;
    let service = InService::new(settings.unready_after, longest, Timestamp::now);
    let service = Arc::new(service);
    let metrics = Arc::new(ServiceMetrics::new(Timestamp::now));
    let scraper = Scraper {
        data: DataSource::new(
            settings.graph_data.place,
            stores(&settings.releases.registries)?,
        ),
        releases: ReleaseSource::new(settings.releases)?,
        is_strict: settings.graph_data.is_strict,
        interval: settings.interval,
        timeout: settings.timeout,
    };
    let responder = Arc::new(Responder {
        service: Arc::clone(&service),
        metrics: Arc::clone(&metrics),
        prefix: settings.path_prefix,
        mandatory: settings.mandatory,
        signatures: settings.signatures,
    });
    let answering = tower::service_fn(move |request: Request<chassis::http::Body>| {
        let responder = Arc::clone(&responder);
        async move { Ok::<_, Infallible>(responder.respond(&request).await) }
    });
    let registry = metrics.registry();
    let admin = admin::serve(status, registry, Arc::clone(&service), shutdown.clone());
    // On a thread of its own: unpacking and drawing up answers hold up no request.
    let (handle, ending) = (Handle::current(), shutdown.clone());
    let scraping =
        tokio::task::spawn_blocking(move || handle.block_on(scraper.run(service, metrics, ending)));
    let admin = tokio::spawn(admin);
    match tls {
        Some(tls) => server.serve_tls(tls, answering, shutdown).await,
        None => server.serve(answering, shutdown).await,
    }
    scraping.await?;
    admin.await?;
    following.await?;
    Ok(())
}
