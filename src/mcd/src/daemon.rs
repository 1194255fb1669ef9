//! The daemon: observe → decide → act → publish, for one node.
//!
//! What it decides is [`node_update::phase`]; here is what that sees, and the hands it commands. It
//! must not know libostree: whatever touches the host goes through `mcd-os`, in a unit of its own,
//! so that a killed pod kills no transaction.
//!
//! - [`cli`]: the command line, as one validated value
//! - [`driver`]: the loop around the state machine
//! - [`agent`]: the real hands
//! - [`desired`]: what the Node asks for
//! - [`publish`]: what the Node shows
//! - [`node_object`]: what its MachineConfigNode shows
//! - [`helper`]: running `mcd-os` on the host
//! - [`adopt`]: a node that is met for the first time, or registered again
//! - [`mod@join_kubeconfig`]: the credential that no configuration brings
//! - [`observe`], [`planning`], [`prepare`], [`drain`], [`apply`], [`verify`],
//!   [`return_to_service`]: one command each
//! - [`drain_clock`]: how long a drain goes on
//! - [`ahead`]: what is fetched before the node's turn
//! - [`drift`]: what is changed by hand on a node at rest; [`drift_target`]: what it is watched
//!   against
//! - [`pins`]: images that are pulled and pinned, beside configurations
//! - [`certificates`]: what the cluster rotates, outside of configurations
//! - [`events`]: events and the log lines that people search for
//! - [`kubelet_health`], [`mod@host_os`]: what metrics tell of the host
//! - [`metrics`], [`metrics_clients`]: metrics and health, and who may read metrics over HTTPS

pub mod adopt;
pub mod agent;
pub mod ahead;
pub mod apply;
pub mod certificates;
pub mod cli;
pub mod desired;
pub mod drain;
pub mod drain_clock;
pub mod drift;
pub mod drift_target;
pub mod driver;
pub mod events;
pub mod helper;
pub mod host_os;
pub mod join_kubeconfig;
pub mod kubelet_health;
pub mod metrics;
pub mod metrics_clients;
pub mod node_object;
pub mod observe;
pub mod pins;
pub mod planning;
pub mod prepare;
pub mod publish;
pub mod return_to_service;
pub mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use api::machineconfiguration::machine_config_node::IrreconcilableChange;
use api::monitoring::METRICS_READER;
use chassis::http::Server;
use chassis::http::tls::ClientAuthorities;
use chassis::logs::Log;
use chassis::report::Chain;
use chassis::secure_metrics::{SecureMetrics, SecureServer};
use chassis::{admin, shutdown};
use cluster::access::Access;
use cluster::events::{Recorder, Speaker};
use cluster::kubeconfig::Reader;
use host::files::Root;
use jiff::Timestamp;
use node::watch::{ObservedNode, observe as observe_node};
use node::writer::NodeWriter;
use node_update::reconcile::Difference;
use tokio::sync::{mpsc, oneshot, watch};

use agent::{Agent, ExecutorState};
use ahead::Spread;
use certificates::CertificateSync;
use cli::{Options, SecureOptions};
use drift::DriftMonitor;
use drift_target::DriftTarget;
use events::{EventReporter, NodeEvent};
use helper::Helper;
use host_os::HostOs;
use metrics::DaemonMetrics;
use node_object::kept::KeptStatus;
use node_object::{NodeObject, ReadDifferences};
use pins::PinSync;
use publish::Publisher;

use crate::installed;

/// Component that speaks in events; dashboards filter by it.
const COMPONENT: &str = "machineconfigdaemon";

/// The kubelet's identity is shared with the kubelet: the API server's log tells the two apart by
/// this.
const USER_AGENT: &str = concat!("mcd/", env!("CARGO_PKG_VERSION"));

/// The longest difference that a MachineConfigNode takes, in characters. Source: its CRD.
const DIFF_CHARS: usize = 4096;

/// What the Node asks for may change faster than it is taken up; only the newest counts.
const INPUTS: usize = 8;

/// Runs the daemon until the shutdown.
///
/// # Errors
/// What keeps it from starting: no room for its helper on the host, a metrics address that is
/// taken; and a fault of the program itself.
pub async fn run(options: Options, log: Log) -> anyhow::Result<()> {
    let shutdown = shutdown::on_signals().context("cannot listen for signals")?;
    let server = Server::bind(options.metrics, admin::LIMITS).await?;
    let secure = bind_secure(options.secure).await?;
    let own = std::env::current_exe().context("cannot find this program")?;
    let helper = Helper::install(&options.root, &options.helper, &own)?;

    let (kubeconfig, host) = (&options.kubeconfig, || reader(&options.root));
    let kubelet = Arc::new(Access::kubeconfig(kubeconfig, host()).with_user_agent(USER_AGENT));
    let account = Access::service_account(kubeconfig, host(), &options.token);
    let account = Arc::new(account.with_user_agent(USER_AGENT));
    let configs = options.config_server.map(|(server, authority)| {
        // The config server knows the node by its kubelet's certificate.
        let own = Access::kubeconfig(kubeconfig, host()).at(server, authority);
        Arc::new(own.with_user_agent(USER_AGENT))
    });
    let (seen_by, seen) = watch::channel(None);
    let metrics = metrics_of(&options.root, &seen);
    let (writer, writing) = NodeWriter::new(
        Arc::clone(&kubelet),
        &options.node,
        seen.clone(),
        shutdown.clone(),
    );
    let (publisher, publishing) = Publisher::new(writer.clone(), seen.clone(), shutdown.clone());
    let speaker = Speaker {
        component: COMPONENT.to_owned(),
        host: options.node.clone(),
        namespace: options.events_namespace.clone(),
    };
    let (recorder, speaking) = Recorder::new(Arc::clone(&account), speaker);
    let reporter = EventReporter::new(recorder, options.node.clone(), seen.clone(), Timestamp::now);
    let (watched, rest) = watch::channel(DriftTarget::default());
    let object = node_object(&kubelet, &options.node, &options.root);
    let (shown_to, shown) = watch::channel(None);
    let reporting = object.keep(seen.clone(), shown_to, shutdown.clone());
    let agent = Agent {
        node: options.node.clone(),
        root: options.root,
        kubelet: Arc::clone(&kubelet),
        configs: configs.unwrap_or_else(|| Arc::clone(&account)),
        account,
        writer,
        seen: seen.clone(),
        publisher,
        reported: shown,
        reporter,
        helper,
        own: options.own,
        metrics: Arc::clone(&metrics),
        watched,
        now: Timestamp::now,
        state: ExecutorState::default(),
    };
    let certificates = CertificateSync {
        root: &agent.root,
        kubeconfig: &options.kubeconfig,
        token: &options.token,
        namespace: &options.events_namespace,
        account: &agent.account,
        writer: &agent.writer,
        seen: seen.clone(),
        helper: &agent.helper,
        reporter: &agent.reporter,
    };
    let spread = Spread::new(&options.node, options.prefetch_window);
    let (inputs_to, inputs) = mpsc::channel(INPUTS);
    let (looked_at, looked) = oneshot::channel();
    let monitor = DriftMonitor::new(&agent, rest, inputs_to.clone());
    announce(&agent);
    // On the heap: together they are larger than a stack frame should be.
    let around = Box::pin(async {
        tokio::join!(
            observe_node(&kubelet, &options.node, &seen_by, shutdown.clone()),
            desired::follow(seen, spread, inputs_to, looked_at, shutdown.clone()),
            writing,
            publishing,
            reporting,
            speaking,
            certificates::keep(certificates, shutdown.clone()),
            pins::keep(PinSync::of(&agent), shutdown.clone()),
            monitor.keep(shutdown.clone()),
            watch_kubelet(options.kubelet_health.as_ref(), &metrics, &shutdown),
            serve_metrics(secure, &agent.root, &metrics, shutdown.clone()),
            admin::serve(
                server,
                metrics.registry(),
                Arc::clone(&metrics),
                shutdown.clone()
            ),
            log.follow(shutdown.clone()),
        )
    });
    let drive = driver::drive(&agent, inputs, looked, shutdown.clone());
    // Whichever ends before the shutdown ends the process.
    tokio::select! {
        biased;
        result = drive => result.context("the state machine met what it does not know"),
        _ = around => {
            anyhow::ensure!(shutdown.is_requested(), "a part of the daemon ended by itself");
            Ok(())
        }
    }
}

fn metrics_of(root: &Path, seen: &watch::Receiver<ObservedNode>) -> Arc<DaemonMetrics> {
    let metrics = DaemonMetrics::new(Timestamp::now);
    metrics.set_host_os(host_os(root));
    metrics.follow_node(seen.clone());
    Arc::new(metrics)
}

fn node_object(kubelet: &Arc<Access>, node: &str, root: &Path) -> NodeObject {
    let differences = read_differences(root.to_owned());
    let kept = KeptStatus::of(root);
    NodeObject::new(Arc::clone(kubelet), node, Timestamp::now, differences, kept)
}

/// Reads in what the host differs from its configuration, for its MachineConfigNode.
fn read_differences(root: PathBuf) -> ReadDifferences {
    Box::new(move || {
        let read = Root::open(&root, None).map_err(anyhow::Error::from);
        let differences = read.and_then(|root| installed::differences(&root));
        let differences = differences.unwrap_or_else(|error| {
            tracing::warn!(error = %Chain(&*error), "cannot tell what the host was installed with");
            Vec::new()
        });
        differences.into_iter().map(irreconcilable).collect()
    })
}

fn irreconcilable(difference: Difference) -> IrreconcilableChange {
    IrreconcilableChange {
        field_path: difference.field_path,
        diff: difference.diff.chars().take(DIFF_CHARS).collect(),
    }
}

/// Logs the start, and reports a host that enforces SELinux without Slipway's policy module.
fn announce(agent: &Agent) {
    // These words, and those in `events`, are looked for by clients of OpenShift's MCO.
    tracing::info!("Starting to manage node: {}", agent.node);
    match host::selinux::lacks_module(&agent.root) {
        Ok(false) => {}
        Ok(true) => agent.reporter.report(&NodeEvent::selinux_module_missing()),
        Err(error) => tracing::warn!(
            error = &error as &dyn std::error::Error,
            "cannot ask the kernel for its SELinux policy"
        ),
    }
}

/// Binds the address of metrics over HTTPS, where an address is given; with it, the bundle of their
/// clients.
async fn bind_secure(
    options: Option<SecureOptions>,
) -> Result<Option<(SecureServer, String)>, chassis::http::Error> {
    let Some(SecureOptions { listener, clients }) = options else {
        return Ok(None);
    };
    Ok(Some((SecureServer::bind(listener).await?, clients)))
}

/// Serves metrics over HTTPS, where an address is given, to clients of the authorities in a file of
/// the host.
async fn serve_metrics(
    server: Option<(SecureServer, String)>,
    root: &Path,
    metrics: &Arc<DaemonMetrics>,
    mut shutdown: shutdown::Shutdown,
) {
    let Some((server, bundle)) = server else {
        return shutdown.requested().await;
    };
    let authorities = ClientAuthorities::default();
    let page = SecureMetrics {
        registry: metrics.registry(),
        authorities: authorities.clone(),
        reader: METRICS_READER,
        // The daemon has no account of its own that could have them reviewed.
        tokens: None,
    };
    tokio::join!(
        metrics_clients::follow(root, &bundle, &authorities, shutdown.clone()),
        server.serve(page, shutdown),
    );
}

/// Watches the kubelet's health, where its address is given.
async fn watch_kubelet(
    endpoint: Option<&http::Uri>,
    metrics: &DaemonMetrics,
    shutdown: &shutdown::Shutdown,
) {
    match endpoint {
        Some(endpoint) => kubelet_health::watch(endpoint, metrics, shutdown.clone()).await,
        None => shutdown.clone().requested().await,
    }
}

fn host_os(root: &Path) -> HostOs {
    match Root::open(root, None) {
        Ok(root) => HostOs::read(&root),
        Err(_) => HostOs::unsupported(),
    }
}

/// Reads files of the host: its links are followed below its own root.
pub(crate) fn reader(root: &Path) -> Reader {
    let root: PathBuf = root.to_owned();
    Box::new(move |path| {
        let read = || Root::open(&root, None)?.read(&path.to_string_lossy());
        match read() {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(std::io::ErrorKind::NotFound.into()),
            Err(error) => Err(std::io::Error::other(error)),
        }
    })
}
