//! One process, from its start to its end.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use chassis::admin;
use chassis::http::Server;
use chassis::shutdown::{self, Shutdown};
use cluster::access::Access;
use cluster::events::{Recorder, Speaker};
use cluster::lease::{self, Held};
use jiff::Timestamp;

use crate::cli::Options;
use crate::figures::Figures;
use crate::follow::follow_all;
use crate::passes::Controller;
use crate::requests::Requests;
use crate::store::Store;

/// What the process calls itself in requests.
const USER_AGENT: &str = concat!("mcc/", env!("CARGO_PKG_VERSION"));

/// Runs until it is asked to stop, or the lease is lost.
///
/// # Errors
/// Bad credentials, a taken address, a lost lease: a new process starts over better than this one.
pub async fn start(options: Options) -> anyhow::Result<()> {
    let mut shutdown = shutdown::on_signals().context("cannot handle signals")?;
    let access = Arc::new(access(options.kubeconfig.as_deref())?);
    let figures = Arc::new(Figures::default());
    let server = Server::bind(options.metrics, admin::LIMITS).await?;
    let serving = tokio::spawn(admin::serve(
        server,
        figures.registry(),
        Arc::clone(&figures),
        shutdown.clone(),
    ));

    let mut held = match options.candidacy {
        None => None,
        Some(candidacy) => {
            tracing::info!(identity = candidacy.identity, "waiting for the lease");
            tokio::select! {
                () = shutdown.requested() => return Ok(()),
                held = lease::acquire(&access, candidacy, Timestamp::now) => Some(held),
            }
        }
    };
    tracing::info!("this replica works");
    figures.lead();

    let speaker = Speaker {
        component: "machineconfigcontroller".to_owned(),
        host: String::new(),
        namespace: options.namespace,
    };
    let (recorder, sending) = Recorder::new(Arc::clone(&access), speaker);
    let sending = tokio::spawn(sending);
    let result = tokio::select! {
        () = work(&access, &figures, recorder, shutdown.clone()) => Ok(()),
        error = lost(held.as_mut()) => Err(error).context("cannot go on without the lease"),
    };
    // The last recorder is gone with the work: what it said is sent, then the task ends.
    sending.await.context("the task that sends events failed")?;
    if result.is_ok() {
        if let Some(held) = held {
            held.release().await;
        }
        serving.await.context("the probes' endpoint failed")?;
    }
    result
}

/// What a replica calls itself in the lease: host, process, and a number that differs from start to start.
pub fn identity() -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let random = RandomState::new().build_hasher().finish();
    format!("{host}_{}_{random:016x}", std::process::id())
}

/// Who the process is at the API server.
fn access(kubeconfig: Option<&Path>) -> anyhow::Result<Access> {
    if let Some(path) = kubeconfig {
        let access = Access::kubeconfig(path, Box::new(|path| std::fs::read(path)));
        return Ok(access.with_user_agent(USER_AGENT));
    }
    let mut config = kube::Config::incluster()
        .context("not in a pod with a service account, and there is no --kubeconfig")?;
    // Retries are decided where a failure is understood.
    config.default_retry = false;
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(USER_AGENT),
    ));
    let client = kube::Client::try_from(config).context("cannot make a client")?;
    Ok(Access::of_client(client))
}

/// Watches and works, until the shutdown.
async fn work(
    access: &Arc<Access>,
    figures: &Arc<Figures>,
    recorder: Recorder,
    shutdown: Shutdown,
) {
    let store = Arc::new(Store::default());
    let controller = Controller::new(
        Requests::new(Arc::clone(access)),
        Arc::clone(&store),
        recorder,
        Arc::clone(figures),
        Timestamp::now,
    );
    tokio::join!(
        follow_all(Arc::clone(access), store, shutdown.clone()),
        controller.run(shutdown),
    );
}

/// Waits until the lease is lost; for ever where there is none.
async fn lost(held: Option<&mut Held<'_>>) -> lease::Error {
    match held {
        Some(held) => held.keep().await,
        None => std::future::pending().await,
    }
}
