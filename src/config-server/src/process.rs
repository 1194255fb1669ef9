//! One process, from its start to its end.

use std::convert::Infallible;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chassis::admin;
use chassis::http::tls::{ClientAuthorities, ServerTls};
use chassis::http::{Body, Limits, Server};
use chassis::logs::Log;
use http::Request;
use operator::{ControllerProgram, Operator};

use crate::authorize::Authorizer;
use crate::cli::ConfigServerOptions;
use crate::flight::ResponsesInFlight;
use crate::metrics::ServerMetrics;
use crate::rate_limit::RateLimits;
use crate::server::ConfigServer;
use crate::store::{Keeper, ServedStore};

/// What the process calls itself in requests.
const USER_AGENT: &str = concat!("mcs/", env!("CARGO_PKG_VERSION"));

/// Threads. One builds responses, some megabytes of text each, while the other goes on.
pub const WORKERS: usize = 2;

/// Machines ask once and send no body.
const LIMITS: Limits = Limits {
    connections: 512,
    // One network leaves as many to others. Behind a load balancer all machines are one.
    per_network: 256,
    header_bytes: 16 << 10,
    header: Duration::from_secs(10),
    body_bytes: 0,
    stall: Duration::from_secs(5),
    // With the grace, long enough for megabytes over a slow line.
    age: Duration::from_mins(2),
    grace: Duration::from_secs(20),
    keep_alive: true,
};

/// Runs until a signal stops it.
///
/// # Errors
/// Bad credentials, a taken address, files that cannot be read.
pub async fn start(options: ConfigServerOptions, log: Log) -> anyhow::Result<()> {
    let program = ControllerProgram::begin(log, options.kubeconfig.as_deref(), USER_AGENT)?;
    let access = Arc::clone(&program.access);
    let shutdown = program.shutdown.clone();
    let authorities = ClientAuthorities::default();
    let tls = ServerTls::load(options.certificate, options.key)?
        .with_client_authorities(authorities.clone());
    let secure = Server::bind(options.listen, LIMITS).await?;
    let plain = match options.plain_listen {
        Some(address) => Some(Server::bind(address, LIMITS).await?),
        None => None,
    };
    let status = Server::bind(options.metrics, admin::LIMITS).await?;
    if options.is_open {
        tracing::warn!("configurations are served without a credential to every peer");
    }
    let store = ServedStore::default();
    let metrics = Arc::new(ServerMetrics::new(store.clone(), options.is_open));
    let registry = metrics.registry();
    let server = Arc::new(ConfigServer {
        store: store.clone(),
        metrics,
        rate_limits: Mutex::new(RateLimits::new(options.rate_limits)),
        in_flight: ResponsesInFlight::default(),
        token_bytes: AtomicUsize::new(0),
        access: Arc::clone(&access),
        bootstrap: options.bootstrap,
        authorizer: Authorizer::new(Arc::clone(&access), options.audiences),
        is_open: options.is_open,
        clock: Instant::now,
    });
    let service = |is_plain: bool| {
        let server = Arc::clone(&server);
        tower::service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&server);
            async move { Ok::<_, Infallible>(server.respond(&request, is_plain).await) }
        })
    };
    let secure = tokio::spawn(secure.serve_tls(tls, service(false), shutdown.clone()));
    let plain = plain.map(|plain| tokio::spawn(plain.serve(service(true), shutdown)));
    let operator = Operator::new("mcs", Arc::clone(&access));
    let keeper = Keeper {
        store: store.clone(),
        access,
        authorities,
    };
    // Every replica serves: there is no lease.
    let operator = store
        .watch(operator, &options.signers)
        .serve(status, registry);
    program.run(operator, keeper).await?;
    secure.await?;
    if let Some(plain) = plain {
        plain.await?;
    }
    Ok(())
}
